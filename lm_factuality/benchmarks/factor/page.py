"""FACTOR in the report: by size, against perplexity, by error type, and with retrieval."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.chosen import Chosen, Entry, both_ways, series, shown_scores
from lm_factuality.benchmarks.declaration import PERPLEXITY, Sample, Samples, Score, is_bound
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX
from lm_factuality.benchmarks.factor.metrics import (
    FINER,
    MARGIN_VERSUS,
    SCORES,
    VERSUS,
    known_of,
    true_bytes,
)
from lm_factuality.benchmarks.factor.scoring import NORMALISATIONS
from lm_factuality.benchmarks.pairs import adjusted
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import MOST_SERIES, Dot, Plot, Point, dots, scatter
from lm_factuality.ground.records import to_model
from lm_factuality.harness.outputs import ScoredContinuation, TaskResult

LEAD = (
    "Does the model find the true completion likelier than false ones? The floor is what knowing"
    " nothing scores on the same rows."
)
_ACCURACY = "accuracy, %"
_MEAN_LOGPROB = "factor_mean_logprob"


def sections(chosen: Chosen) -> Sequence[Markup]:
    """Return a section for each task."""
    return [_section(chosen, task) for task in chosen.tasks_of_kind("factor")]


def _section(chosen: Chosen, task: str) -> Markup:
    entries = sorted(chosen.of_task(task), key=_headline_value, reverse=True)
    likely = {
        entry.model.id: chosen.find(entry.model, task + PERPLEXITY_SUFFIX) for entry in entries
    }
    # Per token, where a run has it, before per byte.
    likely_runs = [run for run in likely.values() if run]
    likely_scores = [score for score in shown_scores(likely_runs) if score.measure == PERPLEXITY]
    by_score: dict[bool, list[Score]] = {True: [], False: []}
    for score in shown_scores(entries):
        by_score[score.name in FINER].append(score)
    return render(
        f"{__package__}/page.html",
        task=task,
        most_series=MOST_SERIES,
        known=known_of(entries[0].result),
        entries=entries,
        scores=by_score[False],
        finer=by_score[True],
        likely=likely,
        likely_scores=likely_scores,
        by_size=_by_size(task, entries),
        by_type=_by_type(task, entries),
        retrieval=_retrieval(chosen, task),
        by_perplexity=_by_perplexity(task, entries, likely, likely_scores),
    )


def _headline_value(entry: Entry) -> float:
    figure = entry.figure(entry.headline)
    return figure.value if figure else -1.0


def _by_size(task: str, entries: Sequence[Entry]) -> Plot | None:
    sizes = {entry.model.id: Dot(entry.model.size) for entry in entries if entry.model.size}
    return _scatter(f"{task} accuracy by model size", "parameters", entries, sizes, by_size=True)


def _by_perplexity(
    task: str, entries: Sequence[Entry], likely: Mapping[str, Entry | None], scores: Sequence[Score]
) -> Plot | None:
    """Draw accuracy against perplexity per token or, where no run has it, per byte."""
    for score in scores:
        perplexities = {}
        for model, run in likely.items():
            dot = run.dot(score) if run else None
            if dot:
                perplexities[model] = dot
        if perplexities:
            title = f"{task} accuracy against perplexity"
            return _scatter(title, score.label.lower(), entries, perplexities)
    return None


def _scatter(
    title: str,
    axis: str,
    entries: Sequence[Entry],
    across: Mapping[str, Dot],
    by_size: bool = False,
) -> Plot | None:
    """Draw accuracies with the floor of the rows.

    The floor is the same for all models but for what they have no score on.

    Args:
        across: The place of each model, by its id.
    """
    floor = None
    points = []
    for entry in entries:
        figure = entry.figure(entry.headline)
        if floor is None and figure and figure.floor is not None:
            floor = ("floor", 100 * figure.floor)
        model = entry.model
        up = entry.dot(entry.headline)
        if up and model.id in across:
            label = model.label.rsplit("/", 1)[-1]
            points.append(Point(label, series(model.family, model.variant), across[model.id], up))
    if len(points) < 1 + by_size:
        return None
    return scatter(title, axis, _ACCURACY, points, by_size=by_size, reference=floor)


def _by_type(task: str, entries: Sequence[Entry]) -> Mapping[str, Any] | None:
    names = {name for entry in entries for name in entry.result.metrics if not is_bound(name)}
    scores = [_versus(name) for name in sorted(names) if name.startswith(VERSUS)]
    margins = [_versus(name) for name in sorted(names) if name.startswith(MARGIN_VERSUS)]
    if not scores:
        return None
    few = entries[:MOST_SERIES]
    rows = []
    for score in scores:
        by_model = {entry.model.label: entry.dot(score) for entry in few}
        rows.append((score.label, {label: dot for label, dot in by_model.items() if dot}))
    drawing = dots(
        f"{task} accuracy by error type",
        "true completion beats the contradiction, %",
        rows,
        [entry.model.label for entry in few],
        ("chance", 50),
    )
    return {"drawing": drawing, "scores": scores + margins}


def _versus(name: str) -> Score:
    """Return the score against contradictions of one error type."""
    (score,) = (score for score in SCORES if score.covers(name))
    kind = name.removeprefix(VERSUS).removeprefix(MARGIN_VERSUS)
    return replace(score, name=name, label=kind if name.startswith(VERSUS) else f"{kind}, margin")


def _retrieval(chosen: Chosen, task: str) -> Mapping[str, Any] | None:
    """Show each model without retrieval and with it (figure 4), and the gains of known rows."""
    entries = {(entry.model.name, entry.model.variant): entry for entry in chosen.of_task(task)}
    runs = []
    pairs = {}
    for without, with_it in both_ways(entries):
        score = with_it.headline
        if score:
            runs.append((without, with_it, score))
            pair = chosen.pair(task, score, with_it.model, without.model)
            if pair:
                pairs[with_it.model.id] = pair
    if not runs:
        return None
    pairs = adjusted(pairs)
    rows = []
    drawn = []
    for without, with_it, score in runs:
        rows.append((without, with_it, score, pairs.get(with_it.model.id)))
        ends = {"without": without.dot(score), "with retrieval": with_it.dot(score)}
        drawn.append((with_it.model.label, {name: dot for name, dot in ends.items() if dot}))
    title = f"{task} with and without retrieval"
    return {"drawing": dots(title, _ACCURACY, drawn, ["without", "with retrieval"]), "rows": rows}


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a sample as the report shows it."""
    doc = sample["doc"]
    gold = doc["gold"]
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
        parts[name] = mean_part(value, weights.get(name, 1))
    means = scores.get(_MEAN_LOGPROB)
    if means and right is not None:
        parts[_MEAN_LOGPROB] = mean_part(means[gold])
    for name, value in scores.items():
        if name.startswith((VERSUS, MARGIN_VERSUS)):
            # A margin is of the row, and a kind has as many pairs as contradictions.
            parts[name] = mean_part(value, max(1, kinds.count(name.removeprefix(VERSUS))))
    return SampleRow(
        key_of(sample, doc["prefix"], *doc["choices"]),
        str(doc["doc_id"]),
        snippet(doc["choices"][max(gold, 0)]),
        {
            "id": doc["doc_id"],
            "prefix": doc["prefix"],
            "choices": doc["choices"],
            "gold": gold,
            "types": kinds,
        },
        "unscored" if right is None else "right" if right else "wrong",
        scores.get("margin"),
        sorted(filter(None, set(kinds))),
        {
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
        },
        parts,
    )


def _compared(name: str) -> Score | None:
    if not name.startswith((VERSUS, MARGIN_VERSUS)):
        return None
    prefix = "Against" if name.startswith(VERSUS) else "Margin against"
    kind = name.removeprefix(VERSUS).removeprefix(MARGIN_VERSUS)
    return replace(_versus(name), label=f"{prefix} {kind} errors")


SAMPLES = Samples(
    row, facet="Error type", compared=_compared, script=Path(__file__).with_name("page.js")
)
