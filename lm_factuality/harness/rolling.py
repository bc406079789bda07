"""A request type for lm_eval: the log-likelihood of a whole text, in sliding windows, with its
number of tokens.

lm_eval's own ``loglikelihood_rolling`` gives no token count, and its windows are disjoint: the
first tokens of each have next to no context. Here a text is tokenized once, as the model's own
tokenizer does, and every token is scored exactly once. The first window scores all its tokens,
given the model's first token (``prefix_token_id``) alone. Each later one scores the ``stride``
tokens after the last that was scored, given the ``window - stride`` tokens before them, or more
where the text ends.
"""

from collections.abc import Iterator, Sequence

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm import tqdm

from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import replaced
from lm_factuality.harness import requests
from lm_factuality.harness.outputs import ScoredText
from lm_factuality.harness.requests import Answer, Encoded, Encoder, logprob_of

REQUEST_TYPE = "scored_rolling"


def scored_rolling(
    lm: LM, instances: Sequence[Instance], disable_tqdm: bool = False
) -> list[ScoredText]:
    """Score whole texts.

    Args:
        lm: Any model of lm_eval.
        instances: Their arguments are the text, the window and the stride, in tokens. None stands
            for as much as the model can see, and for half of the window.
        disable_tqdm: Whether to show no progress.

    Raises:
        ModelError: The model has no tokenizer, or its server is gone.
    """
    encoder = requests.encoder_of(lm)
    if encoder is None:
        raise ModelError(
            f"{type(lm).__name__} shows no tokenizer, so the tokens of a text cannot be counted;"
            " leave out the perplexity tasks"
        )
    bar = tqdm(instances, desc="tokenizing", disable=disable_tqdm or lm.rank != 0, mininterval=2)
    cuts = [_cut(lm, encoder, instance) for instance in bar]
    pieces = [piece for cut in cuts if not isinstance(cut, str) for piece in cut]
    # With its cache, ``hf`` runs requests once whose tokens but the last are equal. It then gives
    # wrong sums if they are split into context and continuation at different points, as windows of
    # a repetitive text can be.
    with replaced(lm, logits_cache=False):
        answers = iter(requests.score(lm, pieces, disable_tqdm))
    results = []
    for cut, instance in zip(cuts, instances, strict=True):
        longest = _longest(encoder, instance)
        if isinstance(cut, str):
            results.append(ScoredText(None, 0, 0, longest, cut))
            continue
        total, problem = _sum([next(answers) for _ in cut])
        num_tokens = sum(len(piece.continuation) for piece in cut)
        results.append(ScoredText(total, num_tokens, len(cut), longest, problem))
    return results


def windows(
    prefix: int, tokens: Sequence[int], window: int, stride: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the context and the tokens to score of each window.

    Both together have at most ``window`` tokens.
    """
    whole = [prefix, *tokens]
    done = 1
    while done < len(whole):
        end = min(len(whole), done + (window - 1 if done == 1 else stride))
        yield whole[max(0, end - window) : done], whole[done:end]
        done = end


def _longest(encoder: Encoder, instance: Instance) -> int:
    """Return how many tokens the model sees at once."""
    window = instance.args[1]
    return encoder.longest if window is None else min(window, encoder.longest)


def _cut(lm: TemplateLM, encoder: Encoder, instance: Instance) -> list[Encoded] | str:
    """Return the windows of a text, or why it has no score."""
    text, window, stride = instance.args
    if lm.backend != "causal":
        return "an encoder-decoder reads no text from left to right"
    if not text.strip():
        return "the document is empty"
    if lm.prefix_token_id is None:
        return "the tokenizer has no first token, so nothing comes before the text"
    tokens = encoder.tokens(text)
    if tokens[:1] == [lm.prefix_token_id]:  # the tokenizer has put it there
        del tokens[:1]
    if not tokens:
        return "the document has no tokens"
    longest = _longest(encoder, instance)
    step = longest // 2 if stride is None else min(stride, longest - 1)
    pieces = windows(lm.prefix_token_id, tokens, longest, step)
    return [encoder.request(*piece, instance, window, "", False) for piece in pieces]


def _sum(answers: Sequence[Answer]) -> tuple[float | None, str]:
    """Return the sum of log-probabilities, or None and why there is none."""
    logprobs = []
    for number, answer in enumerate(answers, start=1):
        logprob, problem = logprob_of(answer)
        if logprob is None:
            return None, f"window {number} of {len(answers)}: {problem}"
        logprobs.append(logprob)
    return sum(logprobs), ""
