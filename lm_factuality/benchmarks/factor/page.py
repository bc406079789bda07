"""FACTOR's part of the report: scores by error type, by model size, and against perplexity.

`lm_factuality.benchmarks.factor.benchmark` declares the functions, and the report calls them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.chosen import Entry, ReportRuns, reported_scores, series_name
from lm_factuality.benchmarks.declaration import (
    Sample,
    SampleDisplay,
    Score,
    find_score,
)
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX
from lm_factuality.benchmarks.factor.metrics import (
    ACCURACY_BY_TYPE,
    CONTINUOUS,
    MARGIN_BY_TYPE,
    SCORES,
    completion_bytes,
)
from lm_factuality.benchmarks.factor.rows import named_error_types
from lm_factuality.benchmarks.factor.scoring import ACCURACIES
from lm_factuality.benchmarks.rows import Counts, SampleRow, mean_counts, row_key, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import BASELINE, Dot, Plot, Point, scatter
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ScoredContinuation, TaskResult

LEAD = (
    "Does the model rate the true completion as more likely than false ones? The guess baseline is"
    " the accuracy of random word weights on the same rows."
)
_MEAN_LOGPROB = "factor_mean_logprob"

_ERROR_TYPE_LABELS = {ACCURACY_BY_TYPE: "Against", MARGIN_BY_TYPE: "Margin against"}
"""How the labels of scores of one error type begin, by the beginning of the metric's name."""


def task_sections(runs: ReportRuns) -> Sequence[Markup]:
    """Return a section of the report's page on FACTOR for each FACTOR task.

    Args:
        runs: The runs that the report shows.
    """
    return [_task_section(runs, task) for task in runs.tasks_of_kind("factor")]


def _task_section(runs: ReportRuns, task: str) -> Markup:
    """Return the tables and the plots of one task as HTML.

    Args:
        runs: The runs that the report shows.
        task: The name of the task, such as ``news_factor``.

    Returns:
        The HTML of the section, with the most accurate model first.
    """
    entries = sorted(runs.of_task(task), key=_headline_value, reverse=True)
    scores = reported_scores(entries)

    # A run lacks metrics per token if its backend shows no tokenizer, so names are taken from all.
    metric_names = set(chain.from_iterable(entry.result.metrics for entry in entries))
    # Most metrics are of no error type, and give None.
    type_scores = list(filter(None, map(_score_of_error_type, sorted(metric_names))))

    # Models of unknown size are left out of the plot by size.
    sizes = {entry.model.id: Dot(entry.model.size) for entry in entries if entry.model.size}
    size_title = f"{task} accuracy by model size"
    return render(
        f"{__package__}/page.html",
        task=task,
        entries=entries,
        scores=[score for score in scores if score.name not in CONTINUOUS],
        continuous_scores=[score for score in scores if score.name in CONTINUOUS],
        size_plot=_plot_accuracy(size_title, "parameters", entries, sizes, by_size=True),
        type_scores=type_scores,
        perplexity_plot=_plot_by_perplexity(runs, task, entries),
    )


def _headline_value(entry: Entry) -> float:
    """Return the accuracy of a run, or -1 if it has none, so that such runs come last."""
    figure = entry.figure(entry.headline)
    return figure.value if figure else -1.0


def _plot_by_perplexity(runs: ReportRuns, task: str, entries: Sequence[Entry]) -> Plot | None:
    """Plot accuracy against perplexity on the same corpus (figure 3 of the paper).

    Args:
        runs: The runs that the report shows.
        task: The name of the FACTOR task.
        entries: The runs of this task.

    Returns:
        The plot, with the perplexity per token or, if no run has it, per byte. None if no model has
        both an accuracy and that perplexity.
    """
    # The perplexity task on the texts of news_factor is news_factor_perplexity.
    perplexity_runs = runs.of_task(task + PERPLEXITY_SUFFIX)
    scores = {score.name: score for score in reported_scores(perplexity_runs)}
    for name in ("perplexity", "byte_perplexity"):
        if name not in scores:
            continue
        perplexities = {run.model.id: run.dot(scores[name]) for run in perplexity_runs}
        # Runs may have the score in their results without a value for it.
        if any(perplexities.values()):
            title = f"{task} accuracy against perplexity"
            return _plot_accuracy(title, scores[name].label.lower(), entries, perplexities)
    return None


def _plot_accuracy(
    title: str,
    x_label: str,
    entries: Sequence[Entry],
    x_values: Mapping[str, Dot | None],
    by_size: bool = False,
) -> Plot | None:
    """Plot the accuracy of each model in percent, with a line for a model that knows nothing.

    Args:
        title: The title of the plot.
        x_label: The label of the x axis.
        entries: The runs of one task.
        x_values: The x value of each model, by the model's id. A model without one is left out.
        by_size: Whether the x values are numbers of parameters, on a logarithmic scale.

    Returns:
        The plot, or None if too few models have both values.
    """
    points = []
    for entry in entries:
        model = entry.model
        x = x_values.get(model.id)
        y = entry.dot(entry.headline)
        if x and y:
            # Without the organisation: gpt2 for openai-community/gpt2.
            label = model.label.rsplit("/", 1)[-1]
            points.append(Point(label, series_name(model.family, model.variant), x, y))

    # A single point says nothing about the effect of size, but is a result against perplexity.
    fewest_points = 2 if by_size else 1
    if len(points) < fewest_points:
        return None
    baseline_line = _guess_baseline_line(entries)
    return scatter(title, x_label, "accuracy, %", points, by_size=by_size, reference=baseline_line)


def _guess_baseline_line(entries: Sequence[Entry]) -> tuple[str, float] | None:
    """Return the label and the height in percent of the line of a model that knows nothing.

    None is returned if no run of the task has a guess baseline.
    """
    for entry in entries:
        figure = entry.figure(entry.headline)
        # All runs score the same rows, so the first one that has a guess baseline stands for all.
        if figure and figure.guess_baseline is not None:
            return BASELINE, 100 * figure.guess_baseline
    return None


def _score_of_error_type(metric: str) -> Score | None:
    """Return the score that shows a metric of one error type, such as ``factor_acc_vs_entity``.

    Args:
        metric: The name of any metric of a FACTOR task.

    Returns:
        The score, with a label such as ``Against entity errors``. None for a metric that is not of
        one error type.
    """
    # One declared score, such as factor_acc_vs_*, stands for all error types.
    score = find_score(SCORES, metric)
    if score is None:
        return None
    for prefix, label in _ERROR_TYPE_LABELS.items():
        if metric.startswith(prefix):
            error_type = metric.removeprefix(prefix)
            return replace(score, name=metric, label=f"{label} {error_type} errors")
    return None


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a FACTOR sample as the report shows it: its choices with the model's scores of them.

    Args:
        result: The results of the task, which this benchmark does not need.
        sample: A line of its samples file.
    """
    doc = sample["doc"]
    scores = {name: value for name, value in sample.items() if value is not None}
    # Samples hold the fields of a response as strings.
    responses = [to_model(ScoredContinuation, fields) for fields in sample["filtered_resps"]]

    # page.js reads these keys.
    detail = {
        "mean_logprobs": scores.get(_MEAN_LOGPROB),
        "sum_logprobs": [response.logprob for response in responses],
        "compares_sums": doc.get("protocol") == "dola",
        "tokens": scores.get("factor_num_tokens"),
        "truncated": bool(sample.get("truncated")),
        "unscored": sample.get("unscored"),
        "verdicts": {name: bool(scores[name]) for name in ACCURACIES if name in scores},
        "continuous": {name: scores[name] for name in CONTINUOUS if name in scores},
    }
    # If the backend shows no tokenizer, the accuracy per byte decides in place of that per token.
    is_right = scores.get("factor_acc", scores.get("acc_bytes"))
    counts = _weighted_values(doc, scores)
    return row_of_choices(sample, is_right, scores.get("margin"), detail, counts)


def _weighted_values(doc: JsonObject, scores: Mapping[str, Any]) -> dict[str, Counts]:
    """Weight the values of a row for the weighted means of scores, by which models are compared.

    A score that the row does not have is left out, so that two models are compared on equal rows.

    Args:
        doc: The row.
        scores: The values of the row by the name of the score.

    Returns:
        The value times its weight, and the weight, by the name of the score.
    """
    counts = {}
    for name, value in scores.items():
        # The error types of the data are only known from the names of their scores.
        is_of_error_type = name.startswith(tuple(_ERROR_TYPE_LABELS))
        if is_of_error_type or name in (*ACCURACIES, *CONTINUOUS):
            counts[name] = mean_counts(value, _weight_of_score(doc, name))

    # An unscored row may have a mean log-probability, but no index of its true completion.
    mean_logprobs = scores.get(_MEAN_LOGPROB)
    if mean_logprobs and "unscored" not in scores:
        counts[_MEAN_LOGPROB] = mean_counts(mean_logprobs[doc["gold"]])

    return counts


def _weight_of_score(doc: JsonObject, name: str) -> int:
    """Return the weight of a row in a score: the number of values that its score averages.

    Args:
        doc: The row.
        name: The name of the score. ``bits_per_byte`` is a mean over bytes. Pairwise accuracies are
            means over pairs of the true completion and a contradiction. All others have weight 1.
    """
    if name == "bits_per_byte":
        return completion_bytes(doc)
    error_types = list(doc["error_types"])
    if name == "pairwise_acc":
        return len(error_types) - 1
    if name.startswith(ACCURACY_BY_TYPE):
        # Only pairs with a contradiction of the error type count. A samples file that was changed
        # may have none, and a weight of 0 would not do.
        return max(1, error_types.count(name.removeprefix(ACCURACY_BY_TYPE)))
    return 1


def row_of_choices(
    sample: Sample,
    is_right: float | None,
    margin: float | None,
    detail: JsonObject,
    score_counts: Mapping[str, Counts],
) -> SampleRow:
    """Return a sample of a prefix and its choices as the report shows it.

    Args:
        sample: A line of a samples file.
        is_right: 1 if the model is right, 0 if not, None if the row is unscored.
        margin: By how much the true completion leads the best contradiction, None if unscored.
        detail: What page.js, the script of the page, shows of the model's responses.
        score_counts: What the row adds to each score that two models are compared in.
    """
    doc = sample["doc"]
    # The report colours rows by their outcome.
    outcome = "unscored"
    if is_right is not None:
        outcome = "right" if is_right else "wrong"

    # The index of the true completion is -1 in a broken row, which shows its first choice then.
    title_choice = doc["choices"][max(doc["gold"], 0)]
    return SampleRow(
        key=row_key(sample, doc["prefix"], *doc["choices"]),
        cluster=str(doc["doc_id"]),
        title=snippet(title_choice),
        doc={
            "id": doc["doc_id"],
            "types": list(doc["error_types"]),
            "prefix": doc["prefix"],
            "choices": doc["choices"],
            "gold": doc["gold"],
        },
        outcome=outcome,
        margin=margin,
        facets=named_error_types([doc["error_types"]]),
        detail=detail,
        score_counts=score_counts,
    )


SAMPLES = SampleDisplay(
    sample_row,
    facet_label="Error type",
    find_extra_score=_score_of_error_type,
    script=Path(__file__).with_name("page.js"),
)
