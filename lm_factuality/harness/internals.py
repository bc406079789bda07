"""Looks up the parts of lm_eval that its guides do not describe, and hides what releases changed.

lm_eval 0.5 scores with ``scorers`` where 0.4 has filters alone. All code that differs between the
two is here; the rest of the suite is written for both. Other releases may have moved further parts,
so the suite imports each by name, and a missing one is an error that says what to install.
docs/development.md lists the parts and their uses.
"""

from __future__ import annotations

import json
import pkgutil
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import replaced

if TYPE_CHECKING:
    from lm_eval.api.filter import FilterEnsemble
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import Task
    from lm_eval.tasks import TaskManager

SUPPORTED = "lm-eval>=0.4.13,<=0.5.0,!=0.5.0"  # as in pyproject.toml


LmEvalPart: TypeAlias = Any
"""A module, class, function or value of lm_eval. Its type depends on the name that is looked up."""

StderrOfMetric: TypeAlias = Callable[..., object]
"""lm_eval's function that returns the function for the standard error of an aggregation."""


def lm_eval_part(*names: str) -> LmEvalPart:
    """Import a function, class or attribute of lm_eval that its guides do not describe.

    Example:
        ``lm_eval_part("lm_eval.utils:make_table")`` returns the function ``make_table``.

    Args:
        *names: The part, as ``lm_eval.module:Class.attribute``, under its names in releases of
            lm_eval. The first one that exists is imported.

    Raises:
        ConfigError: The installed lm_eval has no such part.
    """
    for name in names:
        with suppress(ImportError, AttributeError):
            return pkgutil.resolve_name(name)
    raise ConfigError(
        f"lm_eval {version('lm_eval')} has no {names[0].replace(':', '.')}, which lm-factuality"
        f" relies on; install a version that has it: pip install '{SUPPORTED}'"
    )


def _is_lm_eval_0_5() -> bool:
    """Tell whether lm_eval 0.5 or a later release is installed, which scores with ``scorers``."""
    task_class = lm_eval_part("lm_eval.api.task:Task")
    return hasattr(task_class, "process_instances")


def index_of(manager: TaskManager) -> Mapping[str, LmEvalPart]:
    """Return lm_eval's entry of each task, group and tag, by name."""
    name = "_task_index" if _is_lm_eval_0_5() else "task_index"
    lm_eval_part(f"lm_eval.tasks:TaskManager.{name}")
    entries: Mapping[str, LmEvalPart] = getattr(manager, name)
    return entries


def with_stderrs(stderr_for_metric: StderrOfMetric) -> AbstractContextManager[None]:
    """Replace lm_eval's function for standard errors within a ``with`` block.

    Args:
        stderr_for_metric: The new function. Its first argument is lm_eval's own function, and the
            others are the arguments of that function.
    """
    module = lm_eval_part("lm_eval.api.metrics" if _is_lm_eval_0_5() else "lm_eval.evaluator_utils")
    lm_eval_stderr = lm_eval_part(f"{module.__name__}:stderr_for_metric")
    return replaced(module, stderr_for_metric=partial(stderr_for_metric, lm_eval_stderr))


def row_arguments(task: Task, doc: Mapping[str, Any], **arguments: Any) -> dict[str, Any]:
    """Return the keyword arguments of an ``Instance`` that name the row of the request.

    Args:
        task: The task.
        doc: The document of the row.
        **arguments: The keyword arguments that lm_eval passes to ``construct_requests``, among
            which is the row: ``metadata`` in lm_eval 0.4, ``doc_id`` in 0.5.

    Returns:
        The arguments, such as ``{"metadata": ("felm", 7, 1), "task_name": "felm", "doc_id": 7}``
        for row 7, whose requests are sent once.
    """
    metadata = arguments.get("metadata")
    # lm_eval 0.5 gives the number of the row alone.
    if metadata is None:
        metadata = (task.config.task, arguments["doc_id"], task.config.repeats)
    origin = {"metadata": metadata, "task_name": metadata[0], "doc_id": metadata[1]}
    # From 0.5 on, samples show the target that the first request of the row has.
    if _is_lm_eval_0_5():
        origin["target"] = task.doc_to_target(doc)
    return origin


def filters_of(task: Task) -> list[FilterEnsemble]:
    """Return the filters that lm_eval applies to a task's responses.

    A task whose YAML names no filter gets one that keeps the first response to each request.
    """
    # lm_eval 0.4 keeps the filters in a list, to which it adds that one if necessary.
    if not _is_lm_eval_0_5():
        return list(task._filters)

    # lm_eval 0.5 keeps each filter in a scorer, and adds none of its own.
    has_filters_in_yaml = any(steps["filter"] for steps in task.config.filter_list)
    if not has_filters_in_yaml:
        return first_response()
    return [scorer.filter for scorer in task._scorers]


def first_response() -> list[FilterEnsemble]:
    """Return the filter that keeps the first response to each request."""
    ensemble_class = lm_eval_part("lm_eval.api.filter:FilterEnsemble")
    take_first = lm_eval_part("lm_eval.filters.selection:TakeFirstFilter")
    return [ensemble_class("none", [take_first])]


def set_filters(task: Task, filters: Sequence[FilterEnsemble]) -> None:
    """Let lm_eval apply some filters to a task's responses before the task scores them."""
    task._filters = list(filters)
    if not _is_lm_eval_0_5():
        return
    # From 0.5 on, lm_eval reads the filters from scorers.
    scorer_class = lm_eval_part("lm_eval.scorers:GenScorer")
    # A scorer without metrics of its own aggregates by the task's `aggregation`.
    task._scorers = [
        scorer_class(name=ensemble.name, filter=ensemble, metrics=[]) for ensemble in filters
    ]


@contextmanager
def filters_kept(task: Task) -> Iterator[None]:
    """Give a task the filters back that it had before a ``with`` block."""
    filters = list(task._filters)
    yield
    set_filters(task, filters)


def score_rows(
    task: Task, requests_by_row: Mapping[int, Sequence[Instance]], filter_name: str
) -> dict[int, LmEvalPart]:
    """Score each row by a task's ``process_results``, in the form that lm_eval 0.5 expects.

    Args:
        task: The task.
        requests_by_row: The requests of each row, by the number of the row.
        filter_name: The name of the filter whose responses are scored.

    Returns:
        A ``ScoredDoc`` with the value of each metric for each row, by the number of the row.
    """
    scored_class = lm_eval_part("lm_eval.scorers:ScoredDoc")
    scored_by_row = {}
    for row, requests in requests_by_row.items():
        _unwrap_single_responses(requests, filter_name)
        responses = [request.filtered_resps[filter_name] for request in requests]
        metrics = task.process_results(requests[0].doc, responses)
        # lm_eval averages the values in a list, one for each repetition of a row. A row of the
        # suite has one value, which may be a list itself.
        lists_of_one = {metric: [value] for metric, value in metrics.items()}
        scored_by_row[row] = scored_class(
            doc_id=row, reference=requests[0].target, scores=lists_of_one
        )
    return scored_by_row


def _unwrap_single_responses(requests: Sequence[Instance], filter_name: str) -> None:
    """Take single responses out of the lists in which the filters of lm_eval 0.5 keep them.

    Samples and the suite's tasks have a single response without the list, as in lm_eval 0.4.

    Args:
        requests: The requests, whose filtered responses are changed.
        filter_name: The name of the filter.
    """
    for request in requests:
        response = request.filtered_resps[filter_name]
        if isinstance(response, list) and len(response) == 1:
            request.filtered_resps[filter_name] = response[0]


def accept_assignments(parser: ArgumentParser) -> None:
    """Let ``--metadata`` take ``key=value,key=value`` where lm_eval itself only takes JSON.

    Args:
        parser: The parser of lm_eval's ``run``.
    """
    option = parser._option_string_actions["--metadata"]
    if option.type is not json.loads:
        return
    parse_assignments = lm_eval_part("lm_eval.utils:simple_parse_args_string")

    def parse_metadata(text: str) -> object:
        return json.loads(text) if text.lstrip().startswith("{") else parse_assignments(text)

    option.type = parse_metadata
