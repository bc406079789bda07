"""vLLM's prefix cache, tried before log-probabilities are taken from it.

Positions in the cache are not computed again. What some versions then give as their
log-probabilities is whatever their buffer held before (vLLM's issues 42019 and 42245); others leave
the cache aside where log-probabilities of a prompt are asked for."""

import logging
import math
from collections.abc import Iterable, Sequence
from weakref import WeakSet

from lm_eval.api.model import LM, TemplateLM

from lm_factuality.ground.errors import ModelError

logger = logging.getLogger(__name__)

_PROMPTS = 3
_BEGINNING = 16  # tokens in which they differ: what one leaves in the cache is not to serve another
_CURE = "pass enable_prefix_caching=False in --model_args"
# nats a token on average: more than rounding makes, far less than values of other positions
_TOLERANCE = 0.02

_tried: WeakSet[LM] = WeakSet()


def try_prefix_cache(lm: TemplateLM, prompts: Iterable[list[int]]) -> None:
    """Asks for the longest of ``prompts``, in tokens, when vLLM has seen them and when it has not;
    once for each model. Several replicas, which vLLM starts for each batch, are started without a
    cache. Raises ModelError: the answers differ."""
    arguments = getattr(lm, "model_args", {})
    if lm in _tried or arguments.get("enable_prefix_caching") is False:
        return
    _tried.add(lm)
    if getattr(lm, "data_parallel_size", 1) > 1:
        logger.info("vLLM's replicas are started with enable_prefix_caching=False")
        arguments["enable_prefix_caching"] = False
        return
    by_beginning = {
        tuple(prompt[:_BEGINNING]): prompt for prompt in sorted(prompts, key=len) if len(prompt) > 3
    }
    chosen = sorted(by_beginning.values(), key=len, reverse=True)[:_PROMPTS]
    halves = [len(prompt) // 2 for prompt in chosen]
    if callable(forget := getattr(getattr(lm, "model", None), "reset_prefix_cache", None)):
        forget()  # what earlier requests left
    try:
        fresh = _sums(lm, [(prompt, 1) for prompt in chosen])
        again = _sums(lm, [(prompt, 1) for prompt in chosen])
        begun = _sums(lm, [(prompt[:half], 1) for prompt, half in zip(chosen, halves, strict=True)])
        ended = _sums(lm, list(zip(chosen, halves, strict=True)))
    except (TypeError, LookupError) as error:  # lm_eval's, which adds up what it is given
        raise ModelError(
            "vLLM gives no log-probabilities of positions in its prefix cache"
            f" ({type(error).__name__}: {error}); {_CURE}"
        ) from error
    for prompt, *sums in zip(
        chosen, fresh, again, map(sum, zip(begun, ended, strict=True)), strict=True
    ):
        worst = max(abs(each - sums[0]) for each in sums[1:])
        if math.isfinite(sums[0]) and not worst <= _TOLERANCE * len(
            prompt
        ):  # not a number is no agreement
            raise ModelError(
                f"vLLM's prefix cache changes log-probabilities: a prompt of {len(prompt)} tokens"
                f" has {sums[0]:.2f} nats at first, {sums[1]:.2f} when it is asked for again and"
                f" {sums[2]:.2f} in two parts, expected the same; {_CURE}"
            )


def _sums(lm: TemplateLM, prompts: Sequence[tuple[list[int], int]]) -> list[float]:
    requests = [(None, prompt[:given], prompt[given:]) for prompt, given in prompts]
    return [float(answer[0]) for answer in lm._loglikelihood_tokens(requests, disable_tqdm=True)]
