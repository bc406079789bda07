"""FACTOR for chat models in the report: scores, calibration, and which letters were picked."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from lm_factuality.benchmarks.chosen import Chosen, Entry, shown_scores
from lm_factuality.benchmarks.declaration import Sample, Samples
from lm_factuality.benchmarks.factor_chat.metrics import POSITION, SCORES, bins_of
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import Dot, Point, scatter
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import read_samples

LEAD = (
    "Asked about each of four completions by itself, does the model find the true one the most likely to be true? Chance is 25%."
)
_MOST_SERIES = 8
_COMPARED = ("chat_acc", "pairwise_acc", "all_right", "prompt_acc", "brier", "p_true_bias", "unreadable")


def sections(chosen: Chosen) -> Sequence[Markup]:
    """A section for each task."""
    return [_section(task, chosen.of_task(task)) for task in chosen.tasks_of_kind("factor_chat")]


def _section(task: str, entries: Sequence[Entry]) -> Markup:
    letters = [entry for entry in entries if entry.result.metadata.get("protocol") == "letters"]
    names = sorted({name for entry in letters for name in entry.result.metrics if name.startswith(POSITION)})
    (position,) = (score for score in SCORES if score.covers(POSITION))
    drawn = [(entry, _bins(entry)) for entry in entries[:_MOST_SERIES]]
    points = [
        Point("", entry.model.label, Dot(100 * chance), Dot(100 * true)) for entry, bins in drawn for chance, true, _ in bins
    ]
    return render(
        f"{__package__}/page.html",
        task=task,
        entries=entries,
        scores=shown_scores(entries),
        letters=letters,
        positions=[replace(position, name=name, label=name.removeprefix(POSITION)) for name in names],
        caution=next((entry.result.metadata["caution"] for entry in letters if "caution" in entry.result.metadata), ""),
        drawing=scatter(f"{task} calibration", "probability of true, %", "true completions, %", points, diagonal=True)
        if points
        else None,
        bins=[(entry.model.label, *each) for entry, bins in drawn for each in bins],
    )


def _bins(entry: Entry) -> list[tuple[float, float, int]]:
    """(mean probability, share of true choices, number of choices) of each bin that has some."""
    samples = read_samples(entry.result.samples) if entry.result.samples else ()
    rows = [bins_of(each["ece"], each["doc"]["gold"]) for each in samples if each.get("ece")]
    sums = [tuple(map(math.fsum, zip(*found, strict=True))) for found in zip(*rows, strict=True)]
    return [(total / count, true / count, int(count)) for count, total, true in sums if count]


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """A prefix with its completions."""
    doc, chances, right = sample["doc"], sample.get("auroc"), sample.get("chat_acc")
    gold, margin = doc["gold"], None
    if chances:
        margin = chances[gold] - max(chance for place, chance in enumerate(chances) if place != gold)
    counts = {"pairwise_acc": len(doc["choices"]) - 1, "chat_acc": 1, "all_right": 1}
    parts = {
        name: mean_part(sample[name], counts.get(name, len(doc["choices"]))) for name in _COMPARED if sample.get(name) is not None
    }
    return SampleRow(
        key_of(sample, doc["prefix"], *doc["choices"]),
        str(doc["doc_id"]),
        snippet(doc["choices"][max(gold, 0)]),
        {
            "id": doc["doc_id"],
            "prefix": doc["prefix"],
            "choices": doc["choices"],
            "gold": gold,
            "types": list(doc["error_types"]),
        },
        "unscored" if right is None else "right" if right else "wrong",
        margin,
        sorted({kind for kind in doc["error_types"] if kind}),
        {"chances": chances, "answers": sample["filtered_resps"], "unscored": sample.get("unscored")},
        parts,
    )


SAMPLES = Samples(row, facet="Error type", script=Path(__file__).with_name("page.js"))
