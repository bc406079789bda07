"""FACTOR in the report: by error type, by size, and against perplexity."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from lm_factuality.benchmarks.chosen import Entry, ReportRuns, reported_scores, series_name
from lm_factuality.benchmarks.declaration import (
    PERPLEXITY,
    Sample,
    SampleDisplay,
    Score,
    is_bound_name,
)
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX
from lm_factuality.benchmarks.factor.metrics import (
    FINER,
    MARGIN_VERSUS,
    SCORES,
    VERSUS,
    true_bytes,
)
from lm_factuality.benchmarks.factor.scoring import NORMALISATIONS
from lm_factuality.benchmarks.rows import Counts, SampleRow, mean_counts, row_key, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import Dot, Plot, Point, scatter
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import ScoredContinuation, TaskResult

LEAD = (
    "Does the model find the true completion likelier than false ones? The floor is what knowing"
    " nothing scores on the same rows."
)
_MEAN_LOGPROB = "factor_mean_logprob"


def sections(chosen: ReportRuns) -> Sequence[Markup]:
    """Return a section for each task."""
    return [_section(chosen, task) for task in chosen.tasks_of_kind("factor")]


def _section(chosen: ReportRuns, task: str) -> Markup:
    entries = sorted(chosen.of_task(task), key=_headline_value, reverse=True)
    scores = reported_scores(entries)
    names = {name for entry in entries for name in entry.result.metrics if not is_bound_name(name)}
    sizes = {entry.model.id: Dot(entry.model.size) for entry in entries if entry.model.size}
    return render(
        f"{__package__}/page.html",
        task=task,
        entries=entries,
        scores=[score for score in scores if score.name not in FINER],
        finer=[score for score in scores if score.name in FINER],
        by_size=_scatter(f"{task} accuracy by model size", "parameters", entries, sizes),
        by_type=[score for score in map(_score_by_type, sorted(names)) if score],
        by_perplexity=_by_perplexity(chosen, task, entries),
    )


def _headline_value(entry: Entry) -> float:
    figure = entry.figure(entry.headline)
    return figure.value if figure else -1.0


def _by_perplexity(chosen: ReportRuns, task: str, entries: Sequence[Entry]) -> Plot | None:
    """Draw accuracy against perplexity per token or, where no run has it, per byte."""
    perplexity_runs = chosen.of_task(task + PERPLEXITY_SUFFIX)
    for score in reported_scores(perplexity_runs):
        perplexities = {run.model.id: run.dot(score) for run in perplexity_runs}
        if score.value_range == PERPLEXITY and any(perplexities.values()):
            title = f"{task} accuracy against perplexity"
            return _scatter(title, score.label.lower(), entries, perplexities)
    return None


def _scatter(
    title: str, axis: str, entries: Sequence[Entry], across: Mapping[str, Dot | None]
) -> Plot | None:
    """Draw accuracies with the floor of the rows.

    The floor is the same for all models but for what they have no score on.

    Args:
        across: The place of each model, by its id.
    """
    floors = []
    points = []
    for entry in entries:
        figure = entry.figure(entry.headline)
        if figure and figure.floor is not None:
            floors.append(("floor", 100 * figure.floor))
        model = entry.model
        x = across.get(model.id)
        y = entry.dot(entry.headline)
        if x and y:
            label = model.label.rsplit("/", 1)[-1]
            points.append(Point(label, series_name(model.family, model.variant), x, y))
    by_size = axis == "parameters"
    # A single size shows nothing.
    if len(points) < 1 + by_size:
        return None
    floor = floors[0] if floors else None
    return scatter(title, axis, "accuracy, %", points, by_size=by_size, reference=floor)


def _score_by_type(name: str) -> Score | None:
    """Return the score of that name if it is against contradictions of one error type."""
    for prefix, label in ((VERSUS, "Against"), (MARGIN_VERSUS, "Margin against")):
        if name.startswith(prefix):
            (score,) = (score for score in SCORES if score.covers(name))
            return replace(score, name=name, label=f"{label} {name.removeprefix(prefix)} errors")
    return None


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a sample as the report shows it."""
    doc = sample["doc"]
    kinds = list(doc["error_types"])
    scores = {name: value for name, value in sample.items() if value is not None}
    right = scores.get("factor_acc", scores.get("acc_bytes"))
    verdicts = {name: scores[name] for name in NORMALISATIONS if name in scores}
    finer = {name: scores[name] for name in FINER if name in scores}
    weights = {"pairwise_acc": len(kinds) - 1}
    if finer:
        weights["bits_per_byte"] = true_bytes(doc)
    parts = {}
    for name, value in {**verdicts, **finer}.items():
        parts[name] = mean_counts(value, weights.get(name, 1))
    means = scores.get(_MEAN_LOGPROB)
    if means and right is not None:
        parts[_MEAN_LOGPROB] = mean_counts(means[doc["gold"]])
    for name, value in scores.items():
        if name.startswith((VERSUS, MARGIN_VERSUS)):
            # A margin is of the row, and a kind has as many pairs as contradictions.
            parts[name] = mean_counts(value, max(1, kinds.count(name.removeprefix(VERSUS))))
    detail = {
        "means": means,
        "sums": [
            to_model(ScoredContinuation, fields).logprob for fields in sample["filtered_resps"]
        ],
        "by_sums": doc.get("protocol") == "dola",
        "tokens": scores.get("factor_num_tokens"),
        "truncated": bool(sample.get("truncated")),
        "unscored": sample.get("unscored"),
        "verdicts": {name: bool(value) for name, value in verdicts.items()},
        "finer": finer,
    }
    return row_of_choices(sample, right, scores.get("margin"), detail, parts)


def row_of_choices(
    sample: Sample,
    right: float | None,
    margin: float | None,
    detail: JsonObject,
    parts: Mapping[str, Counts],
) -> SampleRow:
    """Return a sample of a prefix and its choices as the report shows it.

    Args:
        right: 1 if the model is right, 0 if not, None if the row is unscored.
    """
    doc = sample["doc"]
    return SampleRow(
        row_key(sample, doc["prefix"], *doc["choices"]),
        str(doc["doc_id"]),
        snippet(doc["choices"][max(doc["gold"], 0)]),
        {
            "id": doc["doc_id"],
            "types": list(doc["error_types"]),
            **{key: doc[key] for key in ("prefix", "choices", "gold")},
        },
        "unscored" if right is None else "right" if right else "wrong",
        margin,
        sorted(filter(None, set(doc["error_types"]))),
        detail,
        parts,
    )


SAMPLES = SampleDisplay(
    row,
    facet_label="Error type",
    find_extra_score=_score_by_type,
    script=Path(__file__).with_name("page.js"),
)
