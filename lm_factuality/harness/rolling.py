"""A request type for lm_eval: the log-likelihood of a whole text, in sliding windows, with its
number of tokens.

lm_eval's own ``loglikelihood_rolling`` gives no token count, and its windows are disjoint: the
first tokens of each have next to no context. Here a text is tokenized once, as the model's own
tokenizer does, and every token is scored exactly once: the first window scores all its tokens,
given the model's first token (``prefix_token_id``) alone; each later one the ``stride`` tokens
after the last that was scored, given the ``window - stride`` tokens before them, or more where the
text ends."""

import logging
from collections.abc import Iterator, Sequence

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm import tqdm

from lm_factuality.ground.errors import ModelError
from lm_factuality.harness import requests
from lm_factuality.harness.outputs import ScoredText
from lm_factuality.harness.requests import Answer, Encoded, Encoder, logprob_of

logger = logging.getLogger(__name__)

REQUEST_TYPE = "scored_rolling"


def windows(
    prefix: int, tokens: Sequence[int], window: int, stride: int
) -> Iterator[tuple[list[int], list[int]]]:
    """(context, tokens to score) of each window, as the module says; both together have at most
    ``window`` tokens."""
    whole = [prefix, *tokens]
    done = 1
    while done < len(whole):
        end = min(len(whole), done + (window - 1 if done == 1 else stride))
        yield whole[max(0, end - window) : done], whole[done:end]
        done = end


def scored_rolling(
    lm: LM, instances: Sequence[Instance], disable_tqdm: bool = False
) -> list[ScoredText]:
    """Scores requests with arguments (text, window, stride); by default as much as the model can
    see, and half of the window. Raises ModelError: it has no tokenizer and needs one, scores no
    texts at all, or its server is gone."""
    encoder = requests.encoder_of(lm)
    if encoder is None:
        return _without_tokenizer(lm, instances)
    bar = tqdm(instances, desc="tokenizing", disable=disable_tqdm or lm.rank != 0, mininterval=2)
    cut = [_cut(lm, encoder, instance) for instance in bar]
    pieces = [piece for each in cut if not isinstance(each, ScoredText) for piece in each[0]]
    answers = iter(_score(lm, pieces, disable_tqdm))
    return [
        (
            each
            if isinstance(each, ScoredText)
            else _sum([next(answers) for _ in each[0]], each[0], each[1])
        )
        for each in cut
    ]


def _cut(
    lm: TemplateLM, encoder: Encoder, instance: Instance
) -> tuple[list[Encoded], int] | ScoredText:
    text, window, stride = instance.args
    longest = encoder.longest if window is None else min(window, encoder.longest)
    if lm.backend != "causal":
        return ScoredText(
            None, None, None, longest, "an encoder-decoder reads no text from left to right"
        )
    if not text.strip():
        return ScoredText(None, 0, 0, longest, "the document is empty")
    if lm.prefix_token_id is None:
        return ScoredText(
            None,
            0,
            0,
            longest,
            "the tokenizer has no first token, so nothing comes before the text",
        )
    tokens = encoder.tokens(text)
    if tokens[:1] == [lm.prefix_token_id]:  # the tokenizer has put it there
        del tokens[:1]
    if not tokens:
        return ScoredText(None, 0, 0, longest, "the document has no tokens")
    step = longest // 2 if stride is None else min(stride, longest - 1)
    pieces = windows(lm.prefix_token_id, tokens, longest, step)
    return [encoder.request(*piece, instance, window, "", False) for piece in pieces], longest


def _score(lm: TemplateLM, pieces: Sequence[Encoded], disable_tqdm: bool) -> list[Answer]:
    """Answers in order. ``hf`` runs requests once whose tokens but the last are equal, and gives
    wrong sums if they are split into context and continuation at different points, as windows of a
    repetitive text can be: those go in rounds of their own."""
    rounds: list[
        dict[int, int]
    ] = []  # what is run: hash of the tokens but the last, and length of the context
    members: list[list[int]] = []
    for index, piece in enumerate(pieces):
        run, split = hash((*piece.context, *piece.continuation[:-1])), len(piece.context)
        number = next(
            (n for n, taken in enumerate(rounds) if taken.get(run, split) == split), len(rounds)
        )
        if number == len(rounds):
            rounds.append({})
            members.append([])
        rounds[number][run] = split
        members[number].append(index)
    answers: dict[int, Answer] = {}
    for indices in members:
        found = requests.score(lm, [pieces[index] for index in indices], disable_tqdm)
        answers.update(zip(indices, found, strict=True))
    return [answers[index] for index in range(len(pieces))]


def _sum(answers: Sequence[Answer], pieces: Sequence[Encoded], window: int) -> ScoredText:
    found = [logprob_of(answer) for answer in answers]
    wrong = (
        f"window {number} of {len(found)}: {problem}"
        for number, (_, problem) in enumerate(found, 1)
        if problem
    )
    problem = next(wrong, "")
    total = None if problem else sum(logprob for logprob, _ in found if logprob is not None)
    return ScoredText(
        total, sum(len(piece.continuation) for piece in pieces), len(pieces), window, problem
    )


def _without_tokenizer(lm: LM, instances: Sequence[Instance]) -> list[ScoredText]:
    name = type(lm).__name__
    logger.warning(
        "perplexity is absent: %s shows no tokenizer, so the tokens of a text cannot be counted;"
        " byte_perplexity and bits_per_byte are reported, from windows of the model's own making",
        name,
    )
    full = [each for each in instances if each.args[0].strip()]
    plain = [
        Instance("loglikelihood_rolling", each.doc, each.args[:1], each.idx, each.metadata)
        for each in full
    ]
    try:
        found = iter(lm.loglikelihood_rolling(plain) if plain else [])
    except NotImplementedError as error:
        raise ModelError(
            f"{name} scores no whole texts, so it has no perplexity; leave out the perplexity tasks"
        ) from error
    answers: Iterator[Answer] = (
        (next(found), False) if each.args[0].strip() else "the document is empty"
        for each in instances
    )
    return [
        ScoredText(logprob, None, None, None, problem)
        for logprob, problem in map(logprob_of, answers)
    ]
