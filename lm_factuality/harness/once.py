"""Identical greedy requests for text are asked of the evaluated model once in a run, whichever
tasks they come from.

Settings of FELM that have nothing to add to a row ask the same as plainer ones: 2,946 of the 6,776
requests of its nine tasks. lm_eval hands a model the requests of all tasks together, so its
``generate_until`` is where they meet. The response cache lies above and the model's own batches
below, and neither notices; samples hold every answer."""

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM

from lm_factuality.harness.internals import internal
from lm_factuality.harness.requests import is_a

logger = logging.getLogger(
    "lm_eval.evaluator"
)  # in a run lm_eval shows the lines of its own loggers alone


def install() -> None:
    """Has every run of lm_eval in this process ask once; doing it twice does no harm."""
    evaluate = internal("lm_eval.evaluator:evaluate")
    if hasattr(evaluate, "asks_once"):
        return

    @wraps(evaluate)
    def asking_once(lm: LM | CachingLM, *arguments: Any, **options: Any) -> Any:
        model: Any = lm.lm if isinstance(lm, CachingLM) else lm
        # Other models of several processes may have to work in step, each with as many requests.
        if getattr(model, "world_size", 1) > 1 and not is_a(model, "HFLM"):
            return evaluate(lm, *arguments, **options)
        model.generate_until = partial(ask_once, model.generate_until)
        try:
            return evaluate(lm, *arguments, **options)
        finally:
            del model.generate_until  # the class's own is there again

    asking_once.asks_once = True  # type: ignore[attr-defined]
    evaluator.evaluate = asking_once


def ask_once(
    generate: Callable[[Sequence[Instance]], list[str]], requests: Sequence[Instance]
) -> list[str]:
    """What ``generate`` gives for ``requests``, in order; of greedy ones with the same arguments it
    is handed the first alone."""
    keys = [_key(number, request) for number, request in enumerate(requests)]
    distinct: dict[str, Instance] = {}
    for key, request in zip(keys, requests, strict=True):
        distinct.setdefault(key, request)
    answers = dict(zip(distinct, generate(list(distinct.values())), strict=True))
    if saved := len(keys) - len(distinct):
        greedy = sum(not key.isdigit() for key in keys)
        logger.info(
            "%s of %s greedy requests for text repeat another, and are asked once",
            f"{saved:,}",
            f"{greedy:,}",
        )
    return [answers[key] for key in keys]


def _key(number: int, request: Instance) -> str:
    """What identical greedy requests have in common; the ``number`` of one that is sampled, or has
    images with it."""
    # Servers go by the temperature alone, transformers by ``do_sample`` where it is given.
    if len(request.args) != 2 or any(
        request.args[1].get(name) for name in ("do_sample", "temperature")
    ):
        return str(number)
    return json.dumps(request.args, sort_keys=True, default=str)
