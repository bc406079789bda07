"""What the suite adds to an evaluation of lm_eval, and takes away when it ends.

lm_eval's evaluator looks a request type up as a method of the model, and knows the standard errors
of a fixed list of metrics. `install`, called when a task of the suite is imported, surrounds the
evaluator. While it runs:

- the model has the suite's request types as methods;
- an `Aggregation` brings its own standard error.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from lm_eval import evaluator, evaluator_utils
from lm_eval.api.model import LM, CachingLM

from lm_factuality.ground.packages import replaced
from lm_factuality.harness import answers, requests, rolling, thinking
from lm_factuality.harness.internals import internal
from lm_factuality.scores.statistics import Aggregation, or_not_defined

_REQUEST_TYPES: dict[str, Callable[..., list[Any]]] = {
    requests.REQUEST_TYPE: requests.scored_loglikelihood,
    rolling.REQUEST_TYPE: rolling.scored_rolling,
    answers.REQUEST_TYPE: answers.word_answers,
    thinking.REQUEST_TYPE: thinking.answers_until,
}


def install() -> None:
    """Surround every evaluation of lm_eval in this process. Doing it twice does no harm."""
    evaluate = internal("lm_eval.evaluator:evaluate")
    if hasattr(evaluate, "has_suite"):
        return

    @wraps(evaluate)
    def evaluate_with_suite(lm: LM | CachingLM, *arguments: Any, **options: Any) -> Any:
        model = lm.lm if isinstance(lm, CachingLM) else lm
        with _with_request_types(model), _with_stderrs():
            return evaluate(lm, *arguments, **options)

    evaluate_with_suite.has_suite = True  # type: ignore[attr-defined]
    evaluator.evaluate = evaluate_with_suite


@contextmanager
def _with_request_types(model: Any) -> Iterator[None]:
    methods: dict[str, Callable[..., Any]] = {}
    for name, answer in _REQUEST_TYPES.items():
        if not hasattr(model, name):  # a model may have its own way
            methods[name] = partial(answer, model)
    with replaced(model, **methods):
        yield


@contextmanager
def _with_stderrs() -> Iterator[None]:
    of_lm_eval = internal("lm_eval.evaluator_utils:stderr_for_metric")

    def stderr_for_metric(metric: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(metric, Aggregation):
            return of_lm_eval(metric, *arguments, **options)
        stderr = metric.stderr
        return None if stderr is None else lambda rows: or_not_defined(stderr(rows))

    with replaced(evaluator_utils, stderr_for_metric=stderr_for_metric):
        yield
