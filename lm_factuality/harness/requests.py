"""A request type for lm_eval: log-likelihoods with the number of tokens that they are a sum over.

lm_eval hands ``process_results`` a log-likelihood and no token count, and its encoder moves the
white space that ends a context into the continuation. The usual request can therefore score neither
equation 1 of FACTOR nor what the authors' script scores. `harness.evaluation` gives models the
request type of this module, which changes nothing for other requests.

Models that tokenize (``TemplateLM``) are given token ids, encoded as the authors' script does:
prefix and completion together, the completion being what follows as many tokens as the prefix
alone has.
"""

import hashlib
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm import tqdm

from lm_factuality.ground.errors import ModelError
from lm_factuality.harness.context import current_run
from lm_factuality.harness.internals import internal
from lm_factuality.harness.outputs import ScoredContinuation

logger = logging.getLogger(__name__)

REQUEST_TYPE = "scored_loglikelihood"

OF_SOURCES = "loglikelihood_of_sources"
"""A method of models whose scores depend on more than a request's tokens.

It takes what ``_loglikelihood_tokens`` does, then what each request was made from, such as a
document, and the window of each, which is all that they may show themselves.
"""

MAX_FAILURES = 8  # in a row, after which the server counts as gone
_SERVER_CHUNK = 64  # requests that are sent again one by one if one of them fails
_REFUSALS = (400, 413, 422)  # HTTP: bad request, content too large, unprocessable
_WEIGHTS = (".safetensors", ".bin", ".gguf")

Answer: TypeAlias = tuple[float | None, bool] | str
"""A log-probability and whether the continuation is the likeliest, or the reason why there is
none."""


@dataclass(frozen=True)
class Encoded:
    """A request in tokens."""

    key: tuple[str, str]
    """Its name in lm_eval's response cache."""

    context: list[int]
    continuation: list[int]
    truncated: bool
    """Whether the context loses its beginning."""

    source: Instance | None = None
    """The request that it was made from."""

    window: int | None = None
    """How many tokens the model may see."""


def scored_loglikelihood(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[ScoredContinuation]:
    """Score continuations.

    Args:
        lm: Any model of lm_eval.
        requests: Their arguments are the context, the continuation, and the window: the number of
            tokens of both together that the model may see, counted from the end, or None.
        disable_tqdm: Whether to show no progress.

    Raises:
        ModelError: The model has no tokenizer and needs one, or its server is gone.
    """
    encoder = encoder_of(lm)
    if encoder is None:
        return _without_tokenizer(lm, requests)
    bar = tqdm(requests, desc="tokenizing", disable=disable_tqdm or lm.rank != 0, mininterval=2)
    encoded = [encoder.encode(request) for request in bar]
    to_score = [request for request in encoded if isinstance(request, Encoded)]
    answers = iter(score(lm, to_score, disable_tqdm))
    results = []
    for request in encoded:
        if isinstance(request, Encoded):
            answer = next(answers)
            results.append(_result(answer, len(request.continuation), request.truncated))
        else:
            results.append(request)
    return results


def encoder_of(lm: LM) -> "Encoder | None":
    """Return the encoder of a model that is to score texts, None if it shows no tokenizer.

    Raises:
        ModelError: It is the client of a server that can score nothing, or not before it is told of
            a tokenizer.
    """
    name = type(lm).__name__
    if is_a(lm, "LocalChatCompletion"):
        raise ModelError(
            f"{name}: chat servers give no log-probabilities of prompts; use local-completions with"
            " the server's /v1/completions"
        )
    if isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None:
        _warn_of_missing_bos(lm)
        return Encoder(lm)
    if is_a(lm, "TemplateAPI"):
        raise ModelError(
            f"{name} scores log-likelihoods only with a tokenizer: pass tokenizer=PATH_OR_NAME and "
            "tokenizer_backend=huggingface in --model_args"
        )
    return None


class Encoder:
    """Turns texts into tokens as the authors' script does, each context once."""

    def __init__(self, lm: TemplateLM) -> None:
        self._lm = lm
        self._contexts: dict[str, list[int]] = {}
        self.longest = _longest_input(lm)
        self._fingerprint = _fingerprint(lm)
        adds_bos = bool(getattr(lm, "add_bos_token", False))
        self._bos: int | None = getattr(lm.tokenizer, "bos_token_id", None) if adds_bos else None

    def encode(self, request: Instance) -> Encoded | ScoredContinuation:
        """Encode a request, or say why it has no score."""
        context, continuation, window = request.args
        if not continuation.strip():
            return _result("the completion is empty", 0, False)
        if context == "" and self._lm.prefix_token_id is None:
            return _result("the prefix is empty and the tokenizer has no first token", 0, False)
        context_ids, continuation_ids = self._split(context, continuation)
        count = len(continuation_ids)
        if count == 0:
            return _result("the completion has no tokens of its own", 0, False)
        longest = self.longest if window is None else min(window, self.longest)
        if count >= longest:
            why = f"the completion has {count} tokens, more than a window of {longest} has room for"
            return _result(why, count, True)
        truncated = len(context_ids) + count > longest
        if window is not None:
            context_ids = context_ids[-(window - count) :]
        return self.request(context_ids, continuation_ids, request, window, continuation, truncated)

    def request(
        self,
        context: list[int],
        continuation: list[int],
        source: Instance,
        window: int | None,
        text: str,
        truncated: bool,
    ) -> Encoded:
        """Name tokens as in the response cache.

        Args:
            context: The tokens before.
            continuation: The tokens to score.
            source: The request that they were made from.
            window: How many tokens the model may see.
            text: The text of the continuation, empty if unknown.
            truncated: Whether the context has lost its beginning.
        """
        # With such a model, these decide on scores, too.
        about = (window, source.doc) if hasattr(self._lm, OF_SOURCES) else ()
        tokens = hashlib.sha256(repr((context, continuation, *about)).encode()).hexdigest()
        key = (f"{self._fingerprint}, tokens {tokens}", text)
        return Encoded(key, context, continuation, truncated, source, window)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text.

        ``add_bos_token`` holds for a server's own tokenizer too, whose client forgets it.
        """
        ids = list(self._lm.tok_encode(text))
        return ids if self._bos is None or ids[:1] == [self._bos] else [self._bos, *ids]

    def _split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        lm = self._lm
        if context == "":
            ids = list(lm.tok_encode(continuation, add_special_tokens=False))
            if ids and ids[0] == lm.prefix_token_id:
                return ids[:1], ids[1:]
            return [lm.prefix_token_id], ids
        if context not in self._contexts:
            self._contexts[context] = self.tokens(context)
        alone = self._contexts[context]
        if lm.backend != "causal":
            return alone, list(lm.tok_encode(continuation, add_special_tokens=False))
        whole = self.tokens(context + continuation)
        return whole[: len(alone)], whole[len(alone) :]


def score(lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool) -> list[Answer]:
    """Answer requests in order, from lm_eval's response cache where it has them."""
    score_rest = _score_on_server if is_a(lm, "TemplateAPI") else _score_tokens
    # Some versions give log-probabilities of other positions there (vLLM's issues 42019, 42245).
    if is_a(lm, "VLLM") and getattr(lm, "model_args", {}).get("enable_prefix_caching") is not False:
        logger.warning(
            "vLLM's prefix cache changes log-probabilities in some versions; pass"
            " enable_prefix_caching=False in --model_args"
        )
    return with_cache(
        lm,
        "loglikelihood",
        [request.key for request in encoded],
        lambda places: score_rest(lm, [encoded[place] for place in places], disable_tqdm),
    )


def with_cache(
    lm: LM, method: str, keys: Sequence[Any], answer: Callable[[list[int]], Sequence[Any]]
) -> list[Any]:
    """Answer requests in order, from lm_eval's response cache where it has them.

    Args:
        lm: The model.
        method: The model's method that answers such requests.
        keys: The arguments that name the requests in the cache; none for one that is never there.
        answer: Answers the requests at some places.
    """
    cache = getattr(lm.cache_hook, "dbdict", None)
    answers: dict[int, Any] = {}
    if cache is not None:
        hash_args = internal("lm_eval.api.model:hash_args")
        for place, key in enumerate(keys):
            name = hash_args(method, key)
            if name in cache:
                answers[place] = cache[name]
    missing = [place for place in range(len(keys)) if place not in answers]
    answers.update(zip(missing, answer(missing), strict=True))
    return [answers[place] for place in range(len(keys))]


def logprob_of(answer: Answer) -> tuple[float | None, str]:
    """Return the log-probability in an answer, or None and why there is none."""
    if isinstance(answer, str):
        return None, answer
    if answer[0] is None or not math.isfinite(answer[0]):
        return None, f"the log-probability is {answer[0]}"
    return float(answer[0]), ""


def is_a(lm: LM, name: str) -> bool:
    """Tell whether a class of the model has a name.

    Importing the class to ask would need its backend installed.
    """
    return any(base.__name__ == name for base in type(lm).__mro__)


def is_refusal(error: Exception) -> bool:
    """Tell whether a server turned this one request down.

    A missing key or a wrong address (401, 403, 404) fails all requests alike.
    """
    response = getattr(error, "response", None)
    status = getattr(error, "status", None) or getattr(response, "status_code", None)
    return status in _REFUSALS


def _result(answer: Answer, count: int | None, truncated: bool) -> ScoredContinuation:
    logprob, problem = logprob_of(answer)
    is_greedy = not problem and bool(answer[1])
    return ScoredContinuation(logprob, is_greedy, count, truncated, problem)


def _longest_input(lm: TemplateLM) -> int:
    """Return how many tokens of context and continuation together the backend keeps.

    ``hf`` needs no input for the last one, ``vllm`` leaves room for a token to generate, and
    servers' clients have taken that off already.
    """
    if is_a(lm, "HFLM"):
        return int(lm.max_length) + 1
    if is_a(lm, "VLLM"):
        return int(lm.max_length) - 1
    return int(lm.max_length)


def _fingerprint(lm: TemplateLM) -> str:
    """Return what tells this model's answers from another's in a response cache.

    A local checkpoint is told by the sizes and dates of its weights, too.
    """
    names = (
        "pretrained",
        "model",
        "model_args",
        "base_url",
        "revision",
        "peft",
        "delta",
        "max_length",
        "cache_identity",
    )
    values = [getattr(lm, name, None) for name in names]
    parts = [str(value) for value in values if isinstance(value, str | int | dict)]
    model_args = getattr(lm, "model_args", None) or {}
    source = getattr(lm, "pretrained", None) or model_args.get("model")
    if isinstance(source, str) and Path(source).is_dir():
        for path in sorted(Path(source).iterdir()):
            if path.suffix in _WEIGHTS:
                parts.append(f"{path.stat().st_size}@{path.stat().st_mtime_ns}")
    dtype = getattr(getattr(lm, "model", None), "dtype", None)
    return f"{type(lm).__name__}({', '.join([*parts, str(dtype)])})"


def _score_tokens(lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool) -> list[Any]:
    if not encoded:
        return []
    tokens = [(request.key, request.context, request.continuation) for request in encoded]
    score_sources = getattr(lm, OF_SOURCES, None)
    if score_sources is not None:
        sources = [request.source for request in encoded]
        windows = [request.window for request in encoded]
        return list(score_sources(tokens, sources, windows, disable_tqdm))
    _warn_of_rounding(lm)
    return list(lm._loglikelihood_tokens(tokens, disable_tqdm=disable_tqdm))


def _warn_of_rounding(lm: TemplateLM) -> None:
    if not is_a(lm, "HFLM") or getattr(lm, "engine", None) is not None or lm.softmax_dtype:
        return
    dtype = str(getattr(lm.model, "dtype", "")).removeprefix("torch.")
    if dtype in ("bfloat16", "float16"):
        current_run().tell_once(
            logger,
            f"lm_eval's hf sums log-probabilities in {dtype}: rounded so, different choices become"
            " equal, and rows wrong; add softmax_dtype=float32 to --model_args, or use --model"
            " hf-tree",
        )


def _score_on_server(
    lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool
) -> list[Answer]:
    """Score as `_score_tokens`, but an answer that never comes costs its own row.

    Raises:
        ModelError: So many requests in a row fail that the server is gone.
    """
    size = _SERVER_CHUNK * max(1, getattr(lm, "_concurrent", 1))
    chunks = deque(encoded[start : start + size] for start in range(0, len(encoded), size))
    answers: list[Answer] = []
    failures = 0
    with tqdm(total=len(encoded), desc="requests to the server", disable=disable_tqdm) as progress:
        while chunks:
            chunk = chunks.popleft()
            try:
                answers += _score_tokens(lm, chunk, True)
                failures = 0
            except Exception as error:  # any fault of the transport or of an answer
                if len(chunk) > 1:
                    logger.warning(
                        "a batch of %d requests failed (%s); sending them one by one",
                        len(chunk),
                        error,
                    )
                    chunks.extendleft([request] for request in reversed(chunk))
                    continue
                why = f"{type(error).__name__}: {error}"
                failures = 0 if is_refusal(error) else failures + 1
                if failures >= MAX_FAILURES:
                    raise server_is_gone(why) from error
                answers.append(f"the server gave no usable answer: {why}")
            progress.update(len(chunk))
    return answers


def server_is_gone(why: str) -> ModelError:
    """Return the error after `MAX_FAILURES`, of which the last failed because of ``why``."""
    return ModelError(
        f"{MAX_FAILURES} requests in a row failed, the last with {why}; is the server still there?"
        " With --use_cache a new run continues where this one ended."
    )


def _without_tokenizer(lm: LM, requests: Sequence[Instance]) -> list[ScoredContinuation]:
    logger.warning(
        "factor_acc is absent: %s shows no tokenizer, so the tokens of a completion cannot be"
        " counted; acc and acc_bytes are reported",
        type(lm).__name__,
    )
    plain = [
        Instance("loglikelihood", request.doc, request.args[:2], request.idx, request.metadata)
        for request in requests
    ]
    return [_result(answer, None, False) for answer in lm.loglikelihood(plain)]


def _warn_of_missing_bos(lm: TemplateLM) -> None:
    """Warn where a server's client leaves out the first token.

    Tokenizers such as OPT's add it by themselves, and the authors' scores are with it.
    """
    tokenizer = lm.tokenizer
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is None or getattr(lm, "add_bos_token", False):
        return
    if getattr(lm, "tokenizer_backend", None) == "remote":
        # One token for both ends is GPT-2's way, which adds neither.
        is_missing = bos != getattr(tokenizer, "eos_token_id", None)
    else:
        ids = tokenizer("a")["input_ids"] if callable(tokenizer) else []
        is_missing = ids[:1] == [bos] and list(lm.tok_encode("a"))[:1] != [bos]
    if is_missing:
        logger.warning(
            "%s leaves out token %s, with which the tokenizers of some models start texts; if that"
            " of your model does (OPT, Llama), pass add_bos_token=True in --model_args for the"
            " authors' scores",
            type(lm).__name__,
            bos,
        )
