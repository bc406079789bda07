"""Adds the suite's request types and standard errors to each evaluation of lm_eval.

lm_eval's evaluator looks a request type up as a method of the model, knows the standard errors of a
fixed list of metrics, and asks a model everything that its tasks ask. `extend_evaluate`, called
when a task of the suite is imported, wraps the evaluator. While it runs:

- the model has the suite's request types as methods;
- an `Aggregation` brings its own standard error, and its interval with it;
- identical greedy requests for text are asked once, whichever tasks they come from. Of the 6,776
  requests of FELM's nine tasks, 2,946 repeat another;
- each answer is kept as it arrives (`kept_answers`).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from typing import Any

from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM

from lm_factuality.ground.packages import replaced
from lm_factuality.harness import answers, preflight, requests, rolling, thinking
from lm_factuality.harness.context import current_run
from lm_factuality.harness.failures import waits_for_busy_server
from lm_factuality.harness.internals import LmEvalPart, StderrOfMetric, lm_eval_part, with_stderrs
from lm_factuality.harness.kept_answers import keep_answers
from lm_factuality.harness.progress import reported_requests
from lm_factuality.harness.requests import (
    has_class_named,
    is_greedy,
    may_skip_requests,
    seed_samples,
)
from lm_factuality.scores.statistics import Aggregation, ClusterInterval, NotDefined

# In a run lm_eval shows the lines of its own loggers alone.
logger = logging.getLogger("lm_eval.evaluator")

_REQUEST_TYPES: dict[str, Callable[..., list[Any]]] = {
    requests.REQUEST_TYPE: requests.scored_loglikelihood,
    rolling.REQUEST_TYPE: rolling.scored_rolling,
    answers.REQUEST_TYPE: answers.word_answers,
    thinking.REQUEST_TYPE: thinking.answers_until,
}


def extend_evaluate() -> None:
    """Replace lm_eval's ``evaluate`` by a function that also knows the suite's request types.

    The new function knows the suite's standard errors too. It replaces lm_eval's own, since lm_eval
    offers a package no other way to add either. The replacement lasts as long as the process. A
    second call does nothing.
    """
    lm_eval_evaluate = lm_eval_part("lm_eval.evaluator:evaluate")
    if hasattr(lm_eval_evaluate, "is_extended"):
        return

    extended_evaluate = wraps(lm_eval_evaluate)(partial(_evaluate_with_suite, lm_eval_evaluate))
    # A second call of `extend_evaluate` sees by this attribute that the replacement is done.
    extended_evaluate.is_extended = True  # type: ignore[attr-defined]
    evaluator.evaluate = extended_evaluate


def _evaluate_with_suite(
    evaluate: Callable[..., LmEvalPart], lm: LM | CachingLM, *arguments: Any, **options: Any
) -> LmEvalPart:
    """Evaluate a model as lm_eval does, with the suite's request types, errors and answers.

    Args:
        evaluate: lm_eval's own function.
        lm: The model, which lm_eval wraps to keep its answers if the run has --use_cache.
        *arguments: The other arguments of lm_eval's ``evaluate``.
        **options: Its keyword arguments.
    """
    run = current_run()
    model = lm.lm if isinstance(lm, CachingLM) else lm
    # `lm-factuality run` keeps answers itself, even if a config file has --use_cache.
    uses_lm_eval_cache = run.answers is None and isinstance(lm, CachingLM)
    store = lm.dbdict if uses_lm_eval_cache else run.answers
    run.is_evaluating.set()
    _check_chat_server(model, options)
    with (
        keep_answers(model, store),
        _with_request_types(model),
        with_stderrs(_stderr_for_metric),
    ):
        evaluated_model = lm if uses_lm_eval_cache else model
        results = evaluate(evaluated_model, *arguments, **options)
    # In a run of several processes, only the first one has results.
    if results is not None:
        results["intervals"] = _intervals_of(results["results"])
        _record_refused_options(model, results["configs"])
    return results


def _generate_and_report(
    model: LM, generate: Callable[[Sequence[Instance]], list[str]], instances: Sequence[Instance]
) -> list[str]:
    """Generate texts with a seed for each sample, and log now and then how many are finished."""
    limits = [int(instance.args[1].get("max_gen_toks", 0)) for instance in instances]
    with reported_requests(model, len(instances), "texts", max(limits, default=0)):
        return generate(seed_samples(model, instances))


def _check_chat_server(model: LM, options: Mapping[str, Any]) -> None:
    """Refuse to ask a chat server without a chat template, or for log-likelihoods.

    `lm-factuality run` makes the same checks earlier. Users of lm_eval's own command need them too.

    Args:
        model: The model. Only a chat server is checked.
        options: The options of lm_eval's ``evaluate``.

    Raises:
        ConfigError: The run applies no chat template, or a task needs log-likelihoods.
    """
    if not has_class_named(model, "LocalChatCompletion"):
        return
    client = "local-chat-completions"
    # Only the check of a local model reads the arguments.
    preflight.check_chat_template(client, {}, bool(options.get("apply_chat_template")))
    tasks = options.get("task_dict", {}).get("tasks", {})
    # Tasks of lm_eval do not say whether they score texts.
    scoring_tasks = [name for name, task in tasks.items() if getattr(task, "scores_texts", False)]
    preflight.check_tasks_suit(client, scoring_tasks)


def _record_refused_options(model: LM, configs: Mapping[str, Any]) -> None:
    """Add the options that the model's server refused to the metadata of all tasks."""
    refused = sorted(getattr(model, "refused_options", ()))
    if not refused:
        return
    for config in configs.values():
        metadata = config.get("metadata") or {}
        config["metadata"] = {**metadata, "refused_options": refused}


@contextmanager
def _with_request_types(model: LM) -> Iterator[None]:
    """Add the suite's request types to a model as methods within a ``with`` block.

    Within the block, the model's ``generate_until`` also answers equal greedy requests once.

    Args:
        model: The model. A request type that it has as a method of its own is not replaced.
    """
    methods: dict[str, Callable[..., Any]] = {
        name: partial(answer_requests, model)
        for name, answer_requests in _REQUEST_TYPES.items()
        if not hasattr(model, name)
    }
    if may_skip_requests(model):
        generate = partial(_generate_and_report, model, model.generate_until)
        methods["generate_until"] = partial(ask_once, generate)
    # Only clients of servers may find them busy.
    waits = waits_for_busy_server(model) if has_class_named(model, "TemplateAPI") else nullcontext()
    with waits, replaced(model, **methods):
        yield


def _stderr_for_metric(
    lm_eval_stderr: StderrOfMetric, metric: object, *arguments: Any, **options: Any
) -> object:
    """Return the function that computes the standard error of a score from its rows.

    Args:
        lm_eval_stderr: lm_eval's own function with this name.
        metric: How the score is computed from rows: an `Aggregation` of the suite, or a function
            or name of lm_eval.
        *arguments: Further arguments of lm_eval's function.
        **options: Its keyword arguments.

    Returns:
        The function, or None if the score has no standard error.
    """
    if not isinstance(metric, Aggregation):
        return lm_eval_stderr(metric, *arguments, **options)
    if metric.stderr is None:
        return None
    return partial(_stderr_with_interval, metric, metric.stderr)


def _stderr_with_interval(
    metric: Aggregation, compute_stderr: Callable[[Sequence[Any]], float], rows: Sequence[Any]
) -> StandardError | UndefinedStderr:
    """Compute the standard error of a score, which has the score's interval as an attribute.

    Args:
        metric: How the score is computed from rows.
        compute_stderr: Returns the standard error of rows, NaN if it is not defined.
        rows: The values of the score's metric, one per row of the task.
    """
    number = compute_stderr(rows)
    stderr = UndefinedStderr("N/A") if math.isnan(number) else StandardError(number)
    stderr.interval = metric.interval_of(rows)
    return stderr


class StandardError(float):
    """A standard error, which also knows the interval of its score.

    lm_eval stores one number for the uncertainty of a score, so the interval travels with it.
    """

    interval: ClusterInterval | None = None
    """The 95% interval of the score, None if scores of its kind have none."""


class UndefinedStderr(NotDefined):
    """The text for a standard error that is not defined, which knows the number of clusters."""

    interval: ClusterInterval | None = None
    """The 95% interval of the score, whose ends are None."""


def _intervals_of(
    results: Mapping[str, Mapping[str, object]],
) -> dict[str, dict[str, dict[str, float | None]]]:
    """Collect the intervals of all scores by task and metric, for the results file.

    Args:
        results: The results of lm_eval by task and ``metric,filter``. The suite's standard errors
            among them have an interval as an attribute.

    Example:
        ``{"wiki": {"factor_acc_stderr,none": StandardError(0.02)}}`` →
        ``{"wiki": {"factor_acc": {"low": 0.41, "high": 0.48, "num_clusters": 300}}}``
    """
    intervals = {}
    for task, task_results in results.items():
        task_intervals = {}
        for key, stderr in task_results.items():
            # Scores and texts are among the results as well.
            if not isinstance(stderr, StandardError | UndefinedStderr) or stderr.interval is None:
                continue
            metric = key.partition(",")[0].removesuffix("_stderr")
            # Of several filters, the first one counts, as for scores.
            if metric not in task_intervals:
                task_intervals[metric] = stderr.interval._asdict()
        if task_intervals:
            intervals[task] = task_intervals
    return intervals


def ask_once(
    generate: Callable[[Sequence[Instance]], list[str]], requests: Sequence[Instance]
) -> list[str]:
    """Generate texts, and share one text among greedy requests with the same arguments.

    Args:
        generate: The model's method that generates texts.
        requests: The requests. A greedy one, which does not sample, always gets the same text.

    Returns:
        The texts in the order of the requests.
    """
    # A sampled request has its position as key, which no other request has.
    keys = [_key_of_text(request, position) for position, request in enumerate(requests)]
    distinct_requests = dict(zip(keys, requests, strict=True))
    texts = generate(list(distinct_requests.values()))
    text_by_key = dict(zip(distinct_requests, texts, strict=True))

    num_repeated = len(requests) - len(distinct_requests)
    if num_repeated:
        logger.info(
            "%s of %s greedy requests for text repeat another, and are asked once",
            f"{num_repeated:,}",
            f"{sum(map(is_greedy, requests)):,}",
        )
    return [text_by_key[key] for key in keys]


def _key_of_text(request: Instance, position: int) -> str:
    """Return a key that a request shares with those requests that get the same text.

    Args:
        request: The request. If it is sampled, it shares its text with no other.
        position: The position of the request among all of them.
    """
    if is_greedy(request):
        return json.dumps(request.args, sort_keys=True, default=str)
    return str(position)
