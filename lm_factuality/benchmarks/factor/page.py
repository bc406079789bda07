"""FACTOR in the report: accuracy by size, against perplexity, by error type, with and without
retrieval."""

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
from lm_factuality.benchmarks.pairs import adjusted
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import MOST_SERIES, Dot, Plot, Point, dots, scatter
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import to_float

LEAD = (
    "Does the model find the true completion likelier than false ones? The floor is what knowing"
    " nothing scores on the same rows."
)
_ACCURACY = "accuracy, %"
_MEAN_LOGPROB = "factor_mean_logprob"


def sections(chosen: Chosen) -> Sequence[Markup]:
    return [_section(chosen, task) for task in chosen.tasks_of_kind("factor")]


def _section(chosen: Chosen, task: str) -> Markup:
    shown = [(entry.figure(entry.headline), entry) for entry in chosen.of_task(task)]
    entries = [
        entry
        for _, entry in sorted(
            shown, key=lambda pair: pair[0].value if pair[0] else -1.0, reverse=True
        )
    ]
    likely = {
        entry.model.id: chosen.find(entry.model, task + PERPLEXITY_SUFFIX) for entry in entries
    }
    # Per token, where a run has it, before per byte.
    likely_scores = [
        each
        for each in shown_scores([*filter(None, likely.values())])
        if each.measure == PERPLEXITY
    ]
    finer = [score for score in shown_scores(entries) if score.name in FINER]
    scores = [score for score in shown_scores(entries) if score not in finer]
    tables = {
        "entries": entries,
        "scores": scores,
        "finer": finer,
        "likely": likely,
        "likely_scores": likely_scores,
    }
    drawn = {
        "by_size": _by_size(task, entries),
        "by_type": _by_type(task, entries),
        "retrieval": _retrieval(chosen, task),
    }
    drawn["by_perplexity"] = _by_perplexity(task, entries, likely, likely_scores)
    known = known_of(entries[0].result)
    return render(
        f"{__package__}/page.html",
        task=task,
        most_series=MOST_SERIES,
        known=known,
        **tables,
        **drawn,
    )


def _floor(entries: Sequence[Entry]) -> tuple[str, float] | None:
    """What knowing nothing scores on the rows, which is the same for all models but for what they
    have no score on."""
    found = next(
        (
            found.floor
            for entry in entries
            if (found := entry.figure(entry.headline)) and found.floor is not None
        ),
        None,
    )
    return None if found is None else ("floor", 100 * found)


def _by_size(task: str, entries: Sequence[Entry]) -> Plot | None:
    sized = [entry for entry in entries if entry.model.size]
    points = [
        _point(entry, Dot(entry.model.size or 0), dot)
        for entry in sized
        if (dot := entry.dot(entry.headline))
    ]
    title = f"{task} accuracy by model size"
    return (
        scatter(title, "parameters", _ACCURACY, points, by_size=True, reference=_floor(entries))
        if len(points) > 1
        else None
    )


def _point(entry: Entry, across: Dot, up: Dot) -> Point:
    return Point(
        entry.model.label.rsplit("/", 1)[-1],
        series(entry.model.family, entry.model.variant),
        across,
        up,
    )


def _by_perplexity(
    task: str, entries: Sequence[Entry], likely: Mapping[str, Entry | None], scores: Sequence[Score]
) -> Plot | None:
    """By perplexity per token or, where no run has it, per byte."""
    beside = [other for other in likely.values() if other]
    score = next((each for each in scores if any(other.dot(each) for other in beside)), None)
    points = []
    for entry in entries:
        other, up = likely[entry.model.id], entry.dot(entry.headline)
        if up and (across := other.dot(score) if other else None):
            points.append(_point(entry, across, up))
    if not points or score is None:
        return None
    title = f"{task} accuracy against perplexity"
    return scatter(title, score.label.lower(), _ACCURACY, points, reference=_floor(entries))


def _by_type(task: str, entries: Sequence[Entry]) -> Mapping[str, Any] | None:
    names = {name for entry in entries for name in entry.result.metrics if not is_bound(name)}
    scores = [_versus(name) for name in sorted(names) if name.startswith(VERSUS)]
    if not scores:
        return None
    few = entries[:MOST_SERIES]
    rows = [
        (score.label, {each.model.label: dot for each in few if (dot := each.dot(score))})
        for score in scores
    ]
    title, models = f"{task} accuracy by error type", [entry.model.label for entry in few]
    drawing = dots(
        title, "true completion beats the contradiction, %", rows, models, ("chance", 50)
    )
    return {
        "drawing": drawing,
        "scores": (
            scores + [_versus(name) for name in sorted(names) if name.startswith(MARGIN_VERSUS)]
        ),
    }


def _versus(name: str) -> Score:
    (score,) = (each for each in SCORES if each.covers(name))
    return replace(
        score, name=name, label=_kind(name) if name.startswith(VERSUS) else f"{_kind(name)}, margin"
    )


def _kind(name: str) -> str:
    return name.removeprefix(VERSUS).removeprefix(MARGIN_VERSUS)


def _retrieval(chosen: Chosen, task: str) -> Mapping[str, Any] | None:
    """Each model that was scored with retrieval beside the same model without (figure 4), and the
    gains where rows are known."""
    entries = {(entry.model.name, entry.model.variant): entry for entry in chosen.of_task(task)}
    both = [(other, entry, entry.headline) for other, entry in both_ways(entries) if entry.headline]
    if not both:
        return None
    found = {
        one.model.id: chosen.pair(task, score, one.model, other.model) for other, one, score in both
    }
    pairs = adjusted({model: pair for model, pair in found.items() if pair})
    drawn, gains = [], []
    for other, entry, score in both:
        ends = {"without": other.dot(score), "with retrieval": entry.dot(score)}
        drawn.append((entry.model.label, {name: dot for name, dot in ends.items() if dot}))
        if pair := pairs.get(entry.model.id):
            low, high = (
                None if end is None else score.times * end for end in (pair.low, pair.high)
            )
            gains.append(
                (entry.model.label, {"gain": Dot(score.times * pair.difference, low, high)})
            )
    return {
        "drawing": dots(
            f"{task} with and without retrieval", _ACCURACY, drawn, ["without", "with retrieval"]
        ),
        "gain": (
            dots(f"{task}, gain by retrieval", "gain, points", gains, ["gain"], ("", 0))
            if gains
            else None
        ),
        "rows": [(other, entry, score, pairs.get(entry.model.id)) for other, entry, score in both],
    }


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, unscored = sample["doc"], sample.get("unscored")
    gold, means = doc["gold"], sample.get(_MEAN_LOGPROB)
    margin = sample.get("margin")
    if (
        margin is None and means and 0 <= gold < len(means) and None not in means
    ):  # runs of earlier releases
        margin = means[gold] - max(value for index, value in enumerate(means) if index != gold)
    right = sample.get("factor_acc" if sample.get("factor_acc") is not None else "acc_bytes")
    verdicts = {
        each: sample[each]
        for each in ("factor_acc", "acc", "acc_bytes")
        if sample.get(each) is not None
    }
    finer = {each: sample[each] for each in FINER if sample.get(each) is not None}
    parts = {name: mean_part(value) for name, value in {**verdicts, **finer}.items()}
    if "bits_per_byte" in parts:
        parts["bits_per_byte"] = mean_part(finer["bits_per_byte"], true_bytes(doc))
    if means and 0 <= gold < len(means) and means[gold] is not None and right is not None:
        parts[_MEAN_LOGPROB] = mean_part(means[gold])
    kinds = list(doc["error_types"])
    if "pairwise_acc" in parts:
        parts["pairwise_acc"] = mean_part(finer["pairwise_acc"], len(kinds) - 1)
    for key, value in sample.items():
        if key.startswith((VERSUS, MARGIN_VERSUS)) and value is not None:
            weight = kinds.count(key.removeprefix(VERSUS)) if key.startswith(VERSUS) else 1
            parts[key] = mean_part(value, max(1, weight))
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
        margin,
        sorted({kind for kind in kinds if kind}),
        {
            "means": means,
            "sums": [to_float(each[0]) for each in sample["filtered_resps"]],
            "by_sums": doc.get("protocol") == "dola",
            "tokens": sample.get("factor_num_tokens"),
            "truncated": bool(sample.get("truncated")),
            "unscored": unscored,
            "verdicts": {name: bool(value) for name, value in verdicts.items()},
            "finer": finer,
        },
        parts,
    )


def _compared(name: str) -> Score | None:
    if not name.startswith((VERSUS, MARGIN_VERSUS)):
        return None
    what = "Against" if name.startswith(VERSUS) else "Margin against"
    return replace(_versus(name), label=f"{what} {_kind(name)} errors")


SAMPLES = Samples(
    row, facet="Error type", compared=_compared, script=Path(__file__).with_name("page.js")
)
