"""A request type for lm_eval: the log-likelihood of a whole text, with its number of tokens.

`evaluation` gives models this request type, and the perplexity tasks send it. lm_eval's own
``loglikelihood_rolling`` gives no token count, and its windows are disjoint: the first tokens of
each have next to no context. Here a text is tokenized once, as the model's own tokenizer does, and
every token is scored exactly once. The first window scores all its tokens, given the model's first
token (``prefix_token_id``) alone. Each later one scores the ``stride`` tokens after the last that
was scored, given the ``window - stride`` tokens before them, or more where the text ends.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm.auto import tqdm

from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.groups import split_into_groups
from lm_factuality.ground.packages import replaced
from lm_factuality.harness import requests
from lm_factuality.harness.outputs import ScoredContinuation, ScoredText
from lm_factuality.harness.requests import Encoded, Encoder

REQUEST_TYPE = "scored_rolling"


class _UnscorableTextError(ValueError):
    """The model cannot score a text. The message says why."""


class _CutText(NamedTuple):
    """A text that was cut into windows."""

    window_size: int
    """The most tokens that a window may have, context included."""

    windows: Sequence[Encoded] = ()
    """The windows as requests in tokens."""

    problem: str = ""
    """Why the text cannot be scored; empty if it can."""


def scored_rolling(
    lm: LM, instances: Sequence[Instance], disable_tqdm: bool = False
) -> list[ScoredText]:
    """Score whole texts in sliding windows.

    Args:
        lm: Any model of lm_eval.
        instances: The requests. The arguments of a request are the text, the window and the
            stride, in tokens. If the window is None, it is as large as the model can see. If the
            stride is None, it is half of the window.
        disable_tqdm: Whether to hide the progress bars.

    Returns:
        The scores in the order of the requests.

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
    texts = [_cut_into_windows(lm, encoder, instance) for instance in bar]
    all_windows = list(chain.from_iterable(text.windows for text in texts))

    # With this cache, ``hf`` computes requests with the same input once. It gives wrong sums if
    # they are split into context and continuation at different points, as windows of a repetitive
    # text can be.
    with replaced(lm, logits_cache=False):
        window_scores = requests.score_encoded(lm, all_windows, disable_tqdm)

    # The scores come in the order of all windows.
    scores_by_text = split_into_groups(window_scores, [len(text.windows) for text in texts])
    return list(map(_score_text, texts, scores_by_text))


def windows(
    prefix_token: int, tokens: Sequence[int], window_size: int, stride: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Split a text into overlapping windows, so that each token is scored once.

    Args:
        prefix_token: The model's first token, which stands before the text and is not scored.
        tokens: The tokens of the text.
        window_size: The most tokens of a window, context included.
        stride: How many tokens each window but the first scores.

    Yields:
        The context and the tokens to score of each window. The tokens 1 to 4 with prefix 0, window
        3 and stride 1 give ``([0], [1, 2])``, ``([1, 2], [3])`` and ``([2, 3], [4])``.
    """
    all_tokens = [prefix_token, *tokens]
    start = 1
    while start < len(all_tokens):
        # The first window has no earlier text as context and scores as much as it holds.
        num_scored = window_size - 1 if start == 1 else stride
        end = min(len(all_tokens), start + num_scored)
        yield all_tokens[max(0, end - window_size) : start], all_tokens[start:end]
        start = end


def _cut_into_windows(lm: TemplateLM, encoder: Encoder, instance: Instance) -> _CutText:
    """Tokenize the text of a request and cut it into windows, as `windows` explains.

    Args:
        lm: The model.
        encoder: The model's encoder.
        instance: A request, with arguments as in `scored_rolling`.

    Returns:
        The windows. A text that the model cannot score has a problem instead of windows, so that
        the run goes on with the other texts.
    """
    text, window, stride = instance.args
    window_size = encoder.input_limit(window)
    try:
        tokens = _tokenize_text(lm, encoder, text)
    except _UnscorableTextError as error:
        return _CutText(window_size, problem=str(error))

    # A window needs at least one token of context, which bounds the stride.
    step = window_size // 2 if stride is None else min(stride, window_size - 1)
    requests_in_tokens = []
    for context, scored_tokens in windows(lm.prefix_token_id, tokens, window_size, step):
        request = Encoded(
            context=context,
            continuation=scored_tokens,
            # The context fits into the window, so the model sees all of it.
            truncated=False,
            source=instance,
            window=window,
        )
        requests_in_tokens.append(request)
    return _CutText(window_size, requests_in_tokens)


def _tokenize_text(lm: TemplateLM, encoder: Encoder, text: str) -> list[int]:
    """Return the tokens of a text, without the model's first token in front.

    Raises:
        _UnscorableTextError: The model is not causal or has no first token, or the text is empty.
    """
    if lm.backend != "causal":
        raise _UnscorableTextError("an encoder-decoder reads no text from left to right")
    if not text.strip():
        raise _UnscorableTextError("the document is empty")
    first_token = lm.prefix_token_id
    if first_token is None:
        raise _UnscorableTextError(
            "the tokenizer has no first token, so nothing comes before the text"
        )

    tokens = encoder.tokenize(text)
    # Some tokenizers put the first token in front themselves.
    if tokens[:1] == [first_token]:
        tokens = tokens[1:]
    if not tokens:
        raise _UnscorableTextError("the document has no tokens")
    return tokens


def _score_text(text: _CutText, scores: Sequence[ScoredContinuation]) -> ScoredText:
    """Sum the log-probabilities of a text's windows.

    Args:
        text: The text, perhaps with a problem and without windows.
        scores: The score of each window.

    Returns:
        The score of the text. If a window has no score, the text has none, and the problem of the
        first such window.
    """
    problem = text.problem
    logprobs: list[float] = []
    for number, score in enumerate(scores, start=1):
        if score.logprob is None:
            problem = f"window {number} of {len(scores)}: {score.problem}"
            break
        logprobs.append(score.logprob)
    return ScoredText(
        logprob=None if problem else sum(logprobs),
        num_tokens=sum(len(window.continuation) for window in text.windows),
        num_windows=len(scores),
        window=text.window_size,
        problem=problem,
    )
