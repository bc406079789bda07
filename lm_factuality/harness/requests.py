"""A request type for lm_eval: log-likelihoods that come with the number of tokens they are a sum
over.

lm_eval hands ``process_results`` a log-likelihood and no token count, and its encoder moves the
white space that ends a context into the continuation, so that the usual request can score neither
equation 1 nor what the authors' script scores. The evaluator looks a request type up as a method of
the model; this module adds one to the base class of all models, which changes nothing for other
requests. Models that tokenize (``TemplateLM``) are given token ids, encoded as the authors' script
does: prefix and completion together, the completion being what follows as many tokens as the prefix
alone has."""

import hashlib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm import tqdm

from lm_factuality.ground.console import tell_once
from lm_factuality.ground.errors import ModelError, curable
from lm_factuality.harness.internals import internal
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.prefix_cache import try_prefix_cache

logger = logging.getLogger(__name__)

REQUEST_TYPE = "scored_loglikelihood"
OF_SOURCES = "loglikelihood_of_sources"
"""A method of models whose scores depend on more than a request's tokens, such as the document it
was made from: as ``_loglikelihood_tokens``, told what each request was made from, and its window,
which is all that they may show themselves."""

_SERVER_CHUNK = 64  # requests that are sent again one by one if one of them fails
_LISTED, _SEAM = (
    20,
    12,
)  # rows, and characters on either side, of texts whose tokens are others where they are joined
_REFUSALS = (400, 413, 422)  # HTTP: bad request, content too large, unprocessable
MAX_FAILURES = 8  # failures in a row after which the server counts as gone

_TOO_LONG = curable(
    "more than a window", "take a model with a longer window, or a larger --metadata window=N"
)
_NO_NUMBER = curable("the log-probability is", "try dtype=float32 in --model_args")

Answer: TypeAlias = tuple[float | None, bool] | str
"""A log-probability and whether the continuation is the likeliest, or the reason why there is
none."""


@dataclass(frozen=True)
class Encoded:
    """A request in tokens; ``key`` names it in lm_eval's response cache, ``window`` is how many
    tokens the model may see."""

    key: tuple[str, str]
    context: list[int]
    continuation: list[int]
    truncated: bool
    source: Instance | None = None
    window: int | None = None


def scored_loglikelihood(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[ScoredContinuation]:
    """Scores requests with arguments (context, continuation, window); window is the number of
    tokens of both together that the model may see, counted from the end, or None. Raises
    ModelError: it has no tokenizer and needs one, or its server is gone."""
    encoder = encoder_of(lm)
    if encoder is None:
        return _without_tokenizer(lm, requests)
    bar = tqdm(requests, desc="tokenizing", disable=disable_tqdm or lm.rank != 0, mininterval=2)
    encoded = [encoder.encode(request) for request in bar]
    for task, rows in encoder.changed.items():
        listed = ", ".join(map(str, sorted(rows)[:_LISTED])) + (
            ", ..." if len(rows) > _LISTED else ""
        )
        said = (
            "%s: in %d rows the prefix has other tokens alone than with a completion, which begins"
            " inside one: %s; row %d: %s"
        )
        logger.warning(said, task, len(rows), listed, *min(rows.items()))
    to_score = [each for each in encoded if isinstance(each, Encoded)]
    answers = iter(score(lm, to_score, disable_tqdm))
    return [
        (
            each
            if isinstance(each, ScoredContinuation)
            else _result(next(answers), len(each.continuation), each.truncated)
        )
        for each in encoded
    ]


def is_a(lm: LM, name: str) -> bool:
    """Whether a class of the model is called ``name``; importing it to ask would need its backend
    installed."""
    return any(base.__name__ == name for base in type(lm).__mro__)


class Encoder:
    """Turns texts into tokens as the authors' script does, each context once. ``changed`` holds, by
    task and row, the end and the beginning of texts whose context has other tokens alone than with
    its continuation."""

    def __init__(self, lm: TemplateLM) -> None:
        self._lm = lm
        self._contexts: dict[str, list[int]] = {}
        self.changed: dict[str, dict[int, str]] = {}
        self.longest = _longest_input(lm)
        self._fingerprint = _fingerprint(lm)
        adds_bos = bool(getattr(lm, "add_bos_token", False))
        self._bos: int | None = getattr(lm.tokenizer, "bos_token_id", None) if adds_bos else None

    def encode(self, request: Instance) -> Encoded | ScoredContinuation:
        context, continuation, window = request.args
        if not continuation.strip():
            return _result("the completion is empty", 0, False)
        if context == "" and self._lm.prefix_token_id is None:
            return _result("the prefix is empty and the tokenizer has no first token", 0, False)
        context_ids, continuation_ids = self._split(context, continuation)
        if context and context_ids != self._contexts[context]:
            rows = self.changed.setdefault(str(request.task_name), {})
            rows.setdefault(
                int(request.doc_id or 0), f"{context[-_SEAM:]!r} + {continuation[:_SEAM]!r}"
            )
        count = len(continuation_ids)
        if count == 0:
            return _result("the completion has no tokens of its own", 0, False)
        longest = self.longest if window is None else min(window, self.longest)
        if count >= longest:
            return _result(
                f"the completion has {count} tokens, {_TOO_LONG} of {longest} has room for",
                count,
                True,
            )
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
        """Tokens under the name that they have in the response cache; ``text`` is that of the
        continuation, empty if unknown."""
        about = (
            (window, source.doc) if hasattr(self._lm, OF_SOURCES) else ()
        )  # which decide on scores, too
        tokens = hashlib.sha256(repr((context, continuation, *about)).encode()).hexdigest()
        return Encoded(
            (f"{self._fingerprint}, tokens {tokens}", text),
            context,
            continuation,
            truncated,
            source,
            window,
        )

    def _split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        lm = self._lm
        if context == "":
            ids = list(lm.tok_encode(continuation, add_special_tokens=False))
            if ids and ids[0] == lm.prefix_token_id:
                return ids[:1], ids[1:]
            return [lm.prefix_token_id], ids
        if context not in self._contexts:
            self._contexts[context] = self.tokens(context)
        if lm.backend != "causal":
            return self._contexts[context], list(
                lm.tok_encode(continuation, add_special_tokens=False)
            )
        whole = self.tokens(context + continuation)
        length = len(self._contexts[context])
        return whole[:length], whole[length:]

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text; ``add_bos_token`` holds for a server's own tokenizer too, whose
        client forgets it."""
        ids = list(self._lm.tok_encode(text))
        return ids if self._bos is None or ids[:1] == [self._bos] else [self._bos, *ids]


def encoder_of(lm: LM) -> Encoder | None:
    """The encoder of a model that is to score texts; None if it shows no tokenizer. Raises
    ModelError: it is the client of a server that can score nothing, or not before it is told of a
    tokenizer."""
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


def _longest_input(lm: TemplateLM) -> int:
    """Tokens of context and continuation together that the backend keeps: ``hf`` needs no input for
    the last one, ``vllm`` leaves room for a token to generate, and servers' clients have taken that
    off already."""
    extra = 1 if is_a(lm, "HFLM") else -1 if is_a(lm, "VLLM") else 0
    return int(lm.max_length) + extra


def _fingerprint(lm: TemplateLM) -> str:
    """What tells this model's answers from another's in a response cache; for a local checkpoint,
    also its weights' dates."""
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
    known = [
        str(part) for name in names if isinstance(part := getattr(lm, name, None), str | int | dict)
    ]
    model_args = getattr(lm, "model_args", None)
    source = getattr(lm, "pretrained", None) or (model_args or {}).get("model")
    if isinstance(source, str) and Path(source).is_dir():
        weights = [
            path.stat()
            for path in sorted(Path(source).iterdir())
            if path.suffix in (".safetensors", ".bin", ".gguf")
        ]
        known += [f"{stat.st_size}@{stat.st_mtime_ns}" for stat in weights]
    dtype = getattr(getattr(lm, "model", None), "dtype", None)
    return f"{type(lm).__name__}({', '.join([*known, str(dtype)])})"


def _result(answer: Answer, count: int | None, truncated: bool) -> ScoredContinuation:
    logprob, problem = logprob_of(answer)
    is_greedy = not problem and bool(answer[1])
    return ScoredContinuation(logprob, is_greedy, count, truncated, problem)


def logprob_of(answer: Answer) -> tuple[float | None, str]:
    """The log-probability in an answer, or why there is none."""
    if isinstance(answer, str):
        return None, answer
    if answer[0] is None or not math.isfinite(answer[0]):
        return None, f"{_NO_NUMBER} {answer[0]}"
    return float(answer[0]), ""


def score(lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool) -> list[Answer]:
    """Answers in order, from lm_eval's response cache where it has them; a text is the reason why
    there is none."""
    answers: dict[int, Answer] = cached(lm, "loglikelihood", [each.key for each in encoded])
    if answers:
        logger.info("%d of %d answers are in the cache", len(answers), len(encoded))
    missing = [index for index in range(len(encoded)) if index not in answers]
    rest = [encoded[index] for index in missing]
    if rest and is_a(lm, "VLLM"):
        longest = _longest_input(lm)
        try_prefix_cache(lm, ([*each.context, *each.continuation][-longest:] for each in rest))
    found = (
        _score_on_server(lm, rest, disable_tqdm)
        if is_a(lm, "TemplateAPI")
        else _score_tokens(lm, rest, disable_tqdm)
    )
    answers.update(zip(missing, found, strict=True))
    return [answers[index] for index in range(len(encoded))]


def cached(lm: LM, method: str, keys: Sequence[Any]) -> dict[int, Any]:
    """What lm_eval's response cache has for requests, by their places; ``keys`` are the arguments
    that name them there."""
    cache = getattr(lm.cache_hook, "dbdict", None)
    if cache is None:
        return {}
    names = [internal("lm_eval.api.model:hash_args")(method, key) for key in keys]
    return {place: cache[name] for place, name in enumerate(names) if name in cache}


def _score_tokens(lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool) -> list[Any]:
    if not encoded:
        return []
    tokens = [(each.key, each.context, each.continuation) for each in encoded]
    if of_sources := getattr(lm, OF_SOURCES, None):
        found: list[Any] = of_sources(
            tokens,
            [each.source for each in encoded],
            [each.window for each in encoded],
            disable_tqdm,
        )
        return found
    if is_a(lm, "HFLM") and getattr(lm, "engine", None) is None and lm.softmax_dtype is None:
        dtype = str(getattr(lm.model, "dtype", "")).removeprefix("torch.")
        if dtype in ("bfloat16", "float16"):
            wrong = (
                f"lm_eval's hf sums log-probabilities in {dtype}: rounded so, different choices"
                " become equal, and rows wrong"
            )
            tell_once(
                logger,
                f"{wrong}; add softmax_dtype=float32 to --model_args, or use --model hf-tree",
            )
    return list(lm._loglikelihood_tokens(tokens, disable_tqdm=disable_tqdm))


def _score_on_server(
    lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool
) -> list[Answer]:
    """As ``_score_tokens``, but an answer that never comes costs its own row. Raises ModelError: so
    many fail that it is gone."""
    chunk = _SERVER_CHUNK * max(1, getattr(lm, "_concurrent", 1))
    answers: list[Answer] = []
    failures = 0
    with tqdm(total=len(encoded), desc="requests to the server", disable=disable_tqdm) as progress:
        for start in range(0, len(encoded), chunk):
            part = encoded[start : start + chunk]
            try:
                answers += _score_tokens(lm, part, True)
                failures = 0
            except Exception as error:  # noqa: BLE001  any fault of the transport or of the answer: found out one by one below
                logger.warning(
                    "a batch of %d requests failed (%s); sending them one by one", len(part), error
                )
                for each in part:
                    try:
                        answers += _score_tokens(lm, [each], True)
                        failures = 0
                    except Exception as single:
                        answers.append(
                            f"the server gave no usable answer: {type(single).__name__}: {single}"
                        )
                        failures = 0 if is_refusal(single) else failures + 1
                        if failures >= MAX_FAILURES:
                            raise ModelError(
                                f"{failures} requests in a row failed, the last with"
                                f" {type(single).__name__}: {single}; is the server still there?"
                                " With --use_cache a new run continues where this one ended."
                            ) from single
            progress.update(len(part))
    return answers


def is_refusal(error: Exception) -> bool:
    """Whether a server turned this request down. A missing key or a wrong address (401, 403, 404)
    fails all alike."""
    status = getattr(error, "status", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    return status in _REFUSALS


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
    """Servers' clients leave out the first token that tokenizers such as OPT's add by themselves,
    and scores with it."""
    tokenizer = lm.tokenizer
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is None or getattr(lm, "add_bos_token", False):
        return
    if getattr(lm, "tokenizer_backend", None) == "remote":
        # One token for both ends is GPT-2's way, which adds neither.
        if bos != getattr(tokenizer, "eos_token_id", None):
            logger.warning(
                "a server's tokenizer does not say whether its model starts texts with token %s; if"
                " it does (OPT, Llama), pass add_bos_token=True in --model_args",
                bos,
            )
    elif callable(tokenizer):
        own = tokenizer("a")["input_ids"]
        if own and own[0] == bos and list(lm.tok_encode("a"))[:1] != [bos]:
            logger.warning(
                "the tokenizer starts texts with %r, but %s leaves it out; for the authors' scores"
                " pass add_bos_token=True in --model_args",
                tokenizer.decode([bos]),
                type(lm).__name__,
            )
