"""A request type for lm_eval: log-likelihoods of continuations with their number of tokens.

`evaluation` gives models this request type, and the FACTOR tasks send it. lm_eval's own request
lacks the token count, and its encoder moves the white space that ends a context into the
continuation. It can therefore score neither equation 1 of FACTOR nor what the authors' script
scores.

Models that tokenize (``TemplateLM``) are given token ids, encoded as the authors' script does:
context and continuation together, where the continuation starts after as many tokens as the context
alone has.
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm.auto import tqdm

from lm_factuality.ground.errors import FactualityError, ModelError
from lm_factuality.harness.context import current_run
from lm_factuality.harness.failures import status_of
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.harness.progress import reported_requests

logger = logging.getLogger(__name__)

REQUEST_TYPE = "scored_loglikelihood"

SOURCES_METHOD = "loglikelihood_with_sources"
"""The name of a method that models have if they score more than a request's tokens.

A model with retrieval also needs the row's document. The method takes the arguments of
``_loglikelihood_tokens``, the original requests, and the number of tokens that the model may see
for each.
"""

MAX_FAILURES = 8  # in a row, after which the server counts as gone
_SERVER_CHUNK = 64  # requests that are sent again one by one if one of them fails
_REFUSALS = (400, 413, 422)  # HTTP: bad request, content too large, unprocessable

Answer: TypeAlias = tuple[float | None, bool] | str
"""A log-probability and whether the continuation is the likeliest, or the reason why there is
none."""


@dataclass(frozen=True)
class Encoded:
    """A request in tokens."""

    context: list[int]
    continuation: list[int]
    truncated: bool
    """Whether the context loses its beginning."""

    source: Instance
    """The request that it was made from."""

    window: int | None
    """How many tokens the model may see."""


def scored_loglikelihood(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[ScoredContinuation]:
    """Score continuations of contexts, and count their tokens.

    Args:
        lm: Any model of lm_eval.
        requests: The requests. The arguments of a request are the context, the continuation and
            the window. The window is the number of tokens, counted from the end of the
            continuation, that the model may see; None for as many as the model can see.
        disable_tqdm: Whether to hide the progress bars.

    Returns:
        The scores in the order of the requests.

    Raises:
        ModelError: The model has no tokenizer and needs one, or its server is gone.
    """
    encoder = encoder_of(lm)
    if encoder is None:
        return _score_without_tokenizer(lm, requests)

    # Only the first of several processes shows a bar.
    bar = tqdm(requests, desc="tokenizing", disable=disable_tqdm or lm.rank != 0, mininterval=2)
    encoded_by_index: dict[int, Encoded] = {}
    result_by_index: dict[int, ScoredContinuation] = {}
    for index, request in enumerate(bar):
        encoding = encoder.encode(request)
        if isinstance(encoding, Encoded):
            encoded_by_index[index] = encoding
        else:
            # The request cannot be scored, and this result says why.
            result_by_index[index] = encoding
    scores = score_encoded(lm, list(encoded_by_index.values()), disable_tqdm)
    result_by_index.update(zip(encoded_by_index, scores, strict=True))
    return [result_by_index[index] for index in range(len(requests))]


def encoder_of(lm: LM) -> "Encoder | None":
    """Return the encoder of a model's texts, and warn if it leaves out the first token.

    Returns:
        The encoder, or None if the model has no tokenizer and scores texts itself.

    Raises:
        ModelError: The client of a server needs a tokenizer that the user has not named.
    """
    if isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None:
        _warn_of_missing_bos(lm)
        return Encoder(lm)
    if has_class_named(lm, "TemplateAPI"):
        raise ModelError(
            f"{type(lm).__name__} scores log-likelihoods only with a tokenizer: pass"
            " tokenizer=PATH_OR_NAME and tokenizer_backend=huggingface in --model_args"
        )
    return None


class Encoder:
    """Turns contexts and continuations into tokens as FACTOR's authors do.

    Each context is tokenized once, since the choices of a row share it.
    """

    def __init__(self, lm: TemplateLM) -> None:
        """Read the model's longest input and the BOS token to put in front of texts.

        Args:
            lm: The model. If the user set ``add_bos_token``, texts start with its BOS token.
        """
        self._lm = lm
        self._context_tokens: dict[str, list[int]] = {}
        self._max_input_tokens = _max_input_tokens(lm)
        self._bos: int | None = None
        # lm_eval's clients of servers do not add the BOS token to texts, so `tokenize` adds it.
        if getattr(lm, "add_bos_token", False):
            self._bos = getattr(lm.tokenizer, "bos_token_id", None)

    def encode(self, request: Instance) -> Encoded | ScoredContinuation:
        """Encode a request, and cut its context to the request's window.

        Args:
            request: A request with arguments as in `scored_loglikelihood`.

        Returns:
            The request in tokens, or a result that says why it cannot be scored.
        """
        context, continuation, window = request.args
        if not continuation.strip():
            return _unscored("the completion is empty", num_tokens=0)
        if context == "" and self._lm.prefix_token_id is None:
            problem = "the prefix is empty and the tokenizer has no first token"
            return _unscored(problem, num_tokens=0)

        context_ids, continuation_ids = self._tokenize_pair(context, continuation)
        num_tokens = len(continuation_ids)
        if num_tokens == 0:
            return _unscored("the completion has no tokens of its own", num_tokens=0)
        input_limit = self.input_limit(window)
        # One token of context or more must fit in front of the completion.
        room_for_context = input_limit - num_tokens
        if room_for_context < 1:
            problem = (
                f"the completion has {num_tokens} tokens, more than a window of {input_limit} has"
                " room for"
            )
            return _unscored(problem, num_tokens, truncated=True)

        truncated = len(context_ids) > room_for_context
        # The model's own limit may be smaller than the window, and the model itself cuts to it.
        if window is not None:
            context_ids = context_ids[-(window - num_tokens) :]
        return Encoded(context_ids, continuation_ids, truncated, request, window)

    def input_limit(self, window: int | None) -> int:
        """Return how many tokens the model sees at once: the request's window or its own limit."""
        return self._max_input_tokens if window is None else min(window, self._max_input_tokens)

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, with the first token that the user asked for.

        lm_eval's clients of servers forget ``add_bos_token`` if the server itself tokenizes.
        """
        ids = list(self._lm.tok_encode(text))
        if self._bos is None or ids[:1] == [self._bos]:
            return ids
        return [self._bos, *ids]

    def _tokenize_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokenize a context and its continuation, and split the tokens between them.

        A causal model reads both as one text, which is split after as many tokens as the context
        alone has. An empty context becomes the model's first token.

        Returns:
            The tokens of the context and those of the continuation. If ``Rome is`` has the tokens 5
            and 6, and ``Rome is big`` 5, 6 and 7, they are ``[5, 6]`` and ``[7]``.
        """
        lm = self._lm
        if context == "":
            ids = list(lm.tok_encode(continuation, add_special_tokens=False))
            # Some tokenizers put the first token in front themselves.
            if ids[:1] == [lm.prefix_token_id]:
                ids = ids[1:]
            return [lm.prefix_token_id], ids

        if context not in self._context_tokens:
            self._context_tokens[context] = self.tokenize(context)
        context_ids = self._context_tokens[context]
        # An encoder-decoder reads the context and the continuation apart from each other.
        if lm.backend != "causal":
            return context_ids, list(lm.tok_encode(continuation, add_special_tokens=False))
        all_ids = self.tokenize(context + continuation)
        return all_ids[: len(context_ids)], all_ids[len(context_ids) :]


def score_encoded(
    lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool
) -> list[ScoredContinuation]:
    """Compute the log-probabilities of continuations that are encoded as tokens.

    Args:
        lm: A local model, or the client of a server.
        encoded: The contexts and continuations.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The scores in the order of the requests.

    Raises:
        ModelError: The model's server is gone.
    """
    _warn_of_prefix_cache(lm)
    is_server = has_class_named(lm, "TemplateAPI")
    score_requests = _score_on_server if is_server else _score_tokens
    with reported_requests(lm, len(encoded), "log-likelihoods"):
        answers = score_requests(lm, encoded, disable_tqdm)
    return [
        _to_result(answer, len(request.continuation), request.truncated)
        for request, answer in zip(encoded, answers, strict=True)
    ]


def _warn_of_prefix_cache(lm: TemplateLM) -> None:
    """Log a warning if a model is run by vLLM with its prefix cache, which is on by default.

    With this cache, some versions of vLLM return the log-probabilities of other tokens than those
    of the continuation (its issues 42019 and 42245).
    """
    if not has_class_named(lm, "VLLM"):
        return
    model_args = getattr(lm, "model_args", {})
    if model_args.get("enable_prefix_caching") is not False:
        logger.warning(
            "vLLM's prefix cache changes log-probabilities in some versions; pass"
            " enable_prefix_caching=False in --model_args"
        )


def has_class_named(lm: LM, name: str) -> bool:
    """Tell whether a model's class or one of its bases has a name, such as ``HFLM``.

    The class is not imported for an ``isinstance``, because its backend may not be installed.
    """
    return any(base.__name__ == name for base in type(lm).__mro__)


def may_skip_requests(lm: LM) -> bool:
    """Tell whether one process may ask a model fewer requests than the others do.

    If a model runs in several processes, each may have to make the same number of requests, or the
    others wait for ever. The processes of lm_eval's HFLM do not wait for each other.
    """
    return getattr(lm, "world_size", 1) == 1 or has_class_named(lm, "HFLM")


def request_like(request: Instance, request_type: str, arguments: tuple[Any, ...]) -> Instance:
    """Make a request of another type, with other arguments, for the row of a request."""
    # Releases of lm_eval have other fields, so the fields of the row are copied as they are.
    return replace(
        request, request_type=request_type, arguments=arguments, resps=[], filtered_resps={}
    )


def is_greedy(request: Instance) -> bool:
    """Tell whether a request for text certainly gets the same text whenever it is repeated.

    A request that is sampled, or that has more than a prompt and options, such as images, is not.
    """
    return len(request.args) == 2 and is_greedy_generation(request.args[1])


def is_greedy_generation(generation_kwargs: Mapping[str, Any]) -> bool:
    """Tell whether lm_eval's generation arguments certainly give the same text each time."""
    # Servers go by the temperature alone, transformers by ``do_sample`` where it is given.
    return not (generation_kwargs.get("do_sample") or generation_kwargs.get("temperature"))


def seed_samples(lm: LM, requests: Sequence[Instance]) -> list[Instance]:
    """Give each sample of a prompt another seed, if an OpenAI-compatible server draws them.

    lm_eval sends the same seed with each request, for which a server may return the same sample
    each time. A local model needs no new seed to draw another sample.

    Args:
        lm: The model. If it has no seed (``seed=none``), its samples have none.
        requests: All requests for text, with a prompt and generation arguments. To draw three
            samples of a prompt, there are three equal requests.

    Returns:
        The requests in their order. With the model's seed 1234, three equal requests get the seeds
        1234, 1235 and 1236. Greedy requests are unchanged.
    """
    if not has_class_named(lm, "LocalCompletionsAPI"):
        return list(requests)
    num_samples: Counter[str] = Counter()
    seeded_requests = []
    for request in requests:
        # A request with images, for example, has more arguments, and is left as it is.
        has_only_text = len(request.args) == 2
        if not has_only_text or is_greedy(request):
            seeded_requests.append(request)
            continue
        key = json.dumps(request.args, sort_keys=True, default=str)
        seeded_requests.append(_with_sample_seed(request, lm._seed, num_samples[key]))
        num_samples[key] += 1
    return seeded_requests


def _with_sample_seed(request: Instance, model_seed: int | None, sample_number: int) -> Instance:
    """Return a request for text with a seed for one of several samples.

    Args:
        request: The request. Its own seed goes before that of the model.
        model_seed: The model's seed, None if it has none.
        sample_number: The number of the sample, from 0. It is added to the seed.
    """
    prompt, generation_kwargs = request.args
    first_seed = generation_kwargs.get("seed", model_seed)
    # lm_eval sends the first seed by itself.
    if sample_number == 0 or not isinstance(first_seed, int):
        return request
    seeded_kwargs = {**generation_kwargs, "seed": first_seed + sample_number}
    return request_like(request, request.request_type, (prompt, seeded_kwargs))


def is_refusal(error: Exception) -> bool:
    """Tell whether an error means that a server has turned down this one request.

    A missing key or a wrong address (401, 403, 404) fails all requests alike, and is no refusal.
    """
    return status_of(error) in _REFUSALS


def _to_result(answer: Answer, num_tokens: int | None, truncated: bool) -> ScoredContinuation:
    """Make the result of a request from the model's answer.

    Args:
        answer: The log-probability, and whether the continuation is the likeliest one. If the
            model gave no answer, a text with the reason.
        num_tokens: The number of tokens of the continuation, None if it is unknown.
        truncated: Whether the context lost its beginning.

    Returns:
        The result. Without a finite log-probability, it has none, and a problem such as ``the
        log-probability is nan``.
    """
    if isinstance(answer, str):
        return _unscored(answer, num_tokens, truncated)
    logprob, is_greedy = answer
    if logprob is None or not math.isfinite(logprob):
        return _unscored(f"the log-probability is {logprob}", num_tokens, truncated)
    return ScoredContinuation(float(logprob), bool(is_greedy), num_tokens, truncated)


def _unscored(problem: str, num_tokens: int | None, truncated: bool = False) -> ScoredContinuation:
    """Return the result of a request without a log-probability, which says why there is none."""
    return ScoredContinuation(None, False, num_tokens, truncated, problem)


def _max_input_tokens(lm: TemplateLM) -> int:
    """Return how many tokens of context and continuation together a model takes.

    With an input of 1,024 tokens, for example, lm_eval's ``hf`` takes 1,025.
    """
    if has_class_named(lm, "HFLM"):
        # transformers needs no input for the last token, which is only predicted.
        return int(lm.max_length) + 1
    if has_class_named(lm, "VLLM"):
        # vLLM always leaves room for one token to generate.
        return int(lm.max_length) - 1
    # lm_eval's clients of servers have already subtracted that token.
    return int(lm.max_length)


def _score_tokens(lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool) -> list[Any]:
    """Have a model score requests in tokens.

    Args:
        lm: A model that tokenizes. If its scores depend on more than tokens, it has a method
            `SOURCES_METHOD`, which is called instead of lm_eval's.
        encoded: The requests.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the requests.
    """
    if not encoded:
        return []
    tokens = [(None, request.context, request.continuation) for request in encoded]

    score_sources = getattr(lm, SOURCES_METHOD, None)
    if score_sources is not None:
        sources = [request.source for request in encoded]
        windows = [request.window for request in encoded]
        return list(score_sources(tokens, sources, windows, disable_tqdm))

    _warn_of_rounding(lm)
    return list(lm._loglikelihood_tokens(tokens, disable_tqdm=disable_tqdm))


def _warn_of_rounding(lm: TemplateLM) -> None:
    """Warn once per run if a model of lm_eval adds up log-probabilities in 16-bit numbers.

    Args:
        lm: A model. Only lm_eval's ``hf`` adds them up in the precision of its weights, and only if
            the user gave it no ``softmax_dtype``.
    """
    # The suite's own models are subclasses of HFLM with an ``engine``, which uses float32.
    is_plain_hf = has_class_named(lm, "HFLM") and getattr(lm, "engine", None) is None
    if not is_plain_hf or lm.softmax_dtype:
        return
    dtype = str(getattr(lm.model, "dtype", "")).removeprefix("torch.")
    if dtype in ("bfloat16", "float16"):
        current_run().log_once(
            logger,
            f"lm_eval's hf sums log-probabilities in {dtype}. Rounding can make the scores of"
            " different choices equal; add softmax_dtype=float32 to --model_args, or use --model"
            " hf-tree",
        )


def _score_on_server(
    lm: TemplateLM, encoded: Sequence[Encoded], disable_tqdm: bool
) -> list[Answer]:
    """Have a server score requests, so that no request loses its score because another one failed.

    Args:
        lm: lm_eval's client of the server.
        encoded: The requests.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the requests; for a request that failed alone, the reason.

    Raises:
        ModelError: `MAX_FAILURES` requests in a row have failed, so the server is gone.
    """
    answers: list[Answer] = []
    failures_in_a_row = 0
    with tqdm(total=len(encoded), desc="requests to the server", disable=disable_tqdm) as progress:
        for outcome in _outcomes_on_server(lm, encoded):
            if isinstance(outcome, list):
                failures_in_a_row = 0
                answers += outcome
                progress.update(len(outcome))
                continue

            # A server that turns a request down is still there.
            failures_in_a_row = 0 if is_refusal(outcome) else failures_in_a_row + 1
            reason = f"{type(outcome).__name__}: {outcome}"
            if failures_in_a_row >= MAX_FAILURES:
                raise server_is_gone(reason) from outcome
            answers.append(f"the server gave no usable answer: {reason}")
            progress.update(1)
    return answers


def _outcomes_on_server(
    lm: TemplateLM, encoded: Sequence[Encoded]
) -> Iterator[list[Answer] | Exception]:
    """Send requests in chunks, and those of a chunk that fails again one by one.

    Yields:
        The answers to one or more requests, or the error of one request that failed alone.
    """
    chunk_size = _SERVER_CHUNK * max(1, getattr(lm, "_concurrent", 1))
    for start in range(0, len(encoded), chunk_size):
        chunk = encoded[start : start + chunk_size]
        outcome = _try_to_score(lm, chunk)
        if isinstance(outcome, list) or len(chunk) == 1:
            yield outcome
            continue
        logger.warning(
            "a batch of %d requests failed (%s); sending them one by one", len(chunk), outcome
        )
        for request in chunk:
            yield _try_to_score(lm, [request])


def _try_to_score(lm: TemplateLM, chunk: Sequence[Encoded]) -> list[Answer] | Exception:
    """Return a server's answers to requests, or the error of the connection or of an answer."""
    try:
        return _score_tokens(lm, chunk, True)
    except FactualityError:
        # Answers cannot be stored on disk, for example, which is no fault of the server.
        raise
    except Exception as error:  # noqa: BLE001
        return error


def server_is_gone(reason: str) -> ModelError:
    """Return the error that ends a run after `MAX_FAILURES` failed requests in a row.

    Args:
        reason: Why the last of them failed.
    """
    return ModelError(
        f"{MAX_FAILURES} requests in a row failed, the last with {reason}; is the server still"
        " there? The same command continues where this run ended."
    )


def _score_without_tokenizer(lm: LM, requests: Sequence[Instance]) -> list[ScoredContinuation]:
    """Score continuations with lm_eval's own request type, and warn that tokens are not counted.

    Args:
        lm: A model that takes texts, and shows no tokenizer.
        requests: The requests, with arguments as in `scored_loglikelihood`.
    """
    logger.warning(
        "factor_acc is absent: %s shows no tokenizer, so the tokens of a completion cannot be"
        " counted; acc and acc_bytes are reported",
        type(lm).__name__,
    )
    plain_requests = []
    for request in requests:
        # The third argument, the window, is left out.
        arguments = request.args[:2]
        plain_requests.append(request_like(request, "loglikelihood", arguments))
    answers = lm.loglikelihood(plain_requests)
    return [_to_result(answer, num_tokens=None, truncated=False) for answer in answers]


def _warn_of_missing_bos(lm: TemplateLM) -> None:
    """Warn if a server's client leaves out the first token (BOS) with which texts should start.

    Tokenizers such as OPT's add it by themselves, and FACTOR's authors scored texts with it.
    """
    bos = getattr(lm.tokenizer, "bos_token_id", None)
    if bos is None or getattr(lm, "add_bos_token", False):
        return
    if _may_lack_bos(lm, bos):
        logger.warning(
            "%s leaves out token %s, with which the tokenizers of some models (OPT, Llama) start"
            " texts; if yours does, pass add_bos_token=True in --model_args",
            type(lm).__name__,
            bos,
        )


def _may_lack_bos(lm: TemplateLM, bos: int) -> bool:
    """Tell whether a client may leave out the BOS token that its tokenizer puts before texts.

    Args:
        lm: The model's client.
        bos: The id of the BOS token.
    """
    tokenizer = lm.tokenizer
    if getattr(lm, "tokenizer_backend", None) == "remote":
        # This machine cannot try out a remote tokenizer, but knows its special tokens. Tokenizers
        # such as GPT-2's, which have the same token for BOS and EOS, put no BOS token before texts.
        return bos != getattr(tokenizer, "eos_token_id", None)
    if not callable(tokenizer):
        return False
    tokenizer_adds_bos = tokenizer("a")["input_ids"][:1] == [bos]
    client_adds_bos = list(lm.tok_encode("a"))[:1] == [bos]
    return tokenizer_adds_bos and not client_adds_bos
