"""vLLM's prefix cache, tried before log-probabilities are taken from it.

Positions in the cache are not computed again. What some versions then give as their
log-probabilities is whatever their buffer held before (vLLM's issues 42019 and 42245); others leave
the cache aside where log-probabilities of a prompt are asked for."""

import logging
import math
from collections.abc import Iterable

from lm_eval.api.model import TemplateLM

from lm_factuality.ground.errors import ModelError

logger = logging.getLogger(__name__)

_PROMPTS = 3
_BEGINNING = 16  # tokens in which they differ: what one leaves in the cache is not to serve another
_CURE = "pass enable_prefix_caching=False in --model_args"
# nats a token on average: more than rounding makes, far less than values of other positions
_TOLERANCE = 0.02


def try_prefix_cache(lm: TemplateLM, prompts: Iterable[list[int]]) -> None:
    """Compare log-probabilities of prompts when vLLM sees them first and when it has seen them.

    Each model is tried once. Several replicas, which vLLM starts for each batch, are started
    without a cache instead.

    Args:
        lm: The model.
        prompts: In tokens; the longest are asked for.

    Raises:
        ModelError: The answers differ.
    """
    arguments = getattr(lm, "model_args", {})
    is_tried = getattr(lm, "has_tried_prefix_cache", False)
    if is_tried or arguments.get("enable_prefix_caching") is False:
        return
    lm.has_tried_prefix_cache = True
    if getattr(lm, "data_parallel_size", 1) > 1:
        logger.info("vLLM's replicas are started with enable_prefix_caching=False")
        arguments["enable_prefix_caching"] = False
        return
    by_beginning = {tuple(prompt[:_BEGINNING]): prompt for prompt in sorted(prompts, key=len)}
    chosen = sorted(by_beginning.values(), key=len, reverse=True)[:_PROMPTS]
    forget = getattr(getattr(lm, "model", None), "reset_prefix_cache", None)
    if callable(forget):
        forget()  # what earlier requests left
    requests = [(None, prompt[:1], prompt[1:]) for prompt in chosen if len(prompt) > 1]
    try:
        fresh = lm._loglikelihood_tokens(requests, disable_tqdm=True)
        again = lm._loglikelihood_tokens(requests, disable_tqdm=True)
    except (TypeError, LookupError) as error:  # lm_eval's, which adds up what it is given
        raise ModelError(
            "vLLM gives no log-probabilities of positions in its prefix cache"
            f" ({type(error).__name__}: {error}); {_CURE}"
        ) from error
    for prompt, (once, _), (twice, _) in zip(chosen, fresh, again, strict=True):
        is_close = abs(twice - once) <= _TOLERANCE * len(prompt)  # not a number is no agreement
        if math.isfinite(once) and not is_close:
            raise ModelError(
                f"vLLM's prefix cache changes log-probabilities: a prompt of {len(prompt)} tokens"
                f" has {once:.2f} nats at first and {twice:.2f} when it is asked for again,"
                f" expected the same; {_CURE}"
            )
