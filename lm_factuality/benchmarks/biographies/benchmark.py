"""AmbigBio and D-FActScore as the rest of the suite knows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.biographies.certify import JUDGED_STEPS, SETTINGS
from lm_factuality.benchmarks.biographies.generations import SOURCES
from lm_factuality.benchmarks.biographies.judging import AmbigBio, generation
from lm_factuality.benchmarks.biographies.recount import PEOPLE, recount
from lm_factuality.benchmarks.biographies.summary import SCORES
from lm_factuality.benchmarks.biographies.types import JudgedBiography, from_record
from lm_factuality.benchmarks.biographies.viewer import align, build_page, statuses
from lm_factuality.benchmarks.chosen import Chosen
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Checks,
    Data,
    Judging,
    Page,
    Sample,
    Samples,
    Scoring,
    answered,
)
from lm_factuality.benchmarks.rows import SampleRow, key_of, mean_part, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.plots import dots
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import keep_verdict, read_samples, verdict_of

LEAD = (
    "Asked for a biography of a name that several people share, does the model merge two of them?"
    " FActScore counts facts that are true of anybody with the name, D-FActScore those that are"
    " true of the person they are about; the gap is what merging hides."
)
_SHOWN = tuple(score for score in SCORES if score.label)
_BOTH = (_SHOWN[1], _SHOWN[0])  # FActScore before D-FActScore, which it bounds


def sections(chosen: Chosen) -> Sequence[Markup]:
    return [_section(chosen, task) for task in chosen.tasks_of_kind("ambigbio")]


def _section(chosen: Chosen, task: str) -> Markup:
    entries = chosen.of_task(task)
    rows = [(entry.model.label, found) for entry in entries if (found := entry.dots(_BOTH))]
    title = f"{task} FActScore and D-FActScore"
    drawing = dots(title, "score, %", rows, [score.label for score in _BOTH]) if rows else None
    pages = {entry.model.id: chosen.own_pages.get((task, entry.model.id)) for entry in entries}
    scores = [*_BOTH, *_SHOWN[2:]]
    values = {"entries": entries, "pages": pages, "scores": scores, "drawing": drawing}
    return render(f"{__package__}/page.html", task=task, **values)


def shown_of(judged: JudgedBiography, unscored: str | None) -> dict[str, Any]:
    facts, pieces = (
        [[fact.text, fact.sentence] for fact in judged.facts],
        align(judged.generation.output, judged.sentences),
    )
    said = {"abstained": judged.abstained, "unscored": unscored}
    return {"pieces": pieces, "facts": facts, "statuses": statuses(judged), **said}


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, record = sample["doc"], verdict_of(sample)
    judged, gap = from_record(record), sample.get("difference")
    outcome = "unscored" if gap is None else "wrong" if gap > 1e-9 else "right"
    if (
        judged.abstained or sample.get("factscore") == 0
    ):  # where nothing is told, or supported, nobody can be merged
        outcome = "none"
    return SampleRow(
        key_of(sample, doc["name"], doc["question"]),
        str(doc["name"]),
        snippet(doc["name"]),
        {
            "id": doc["index"],
            "question": doc["question"],
            "name": doc["name"],
            "passages": doc["passages"],
        },
        outcome,
        None if gap is None else -gap,
        (),
        {**shown_of(judged, record["unscored"]), "scores": record["scores"]},
        {
            score.name: mean_part(sample[score.name])
            for score in _SHOWN
            if sample.get(score.name) is not None
        },
    )


def _judged_texts(result: TaskResult, title: str) -> str:
    assert result.samples is not None
    biographies = [from_record(verdict_of(sample)) for sample in read_samples(result.samples)]
    metadata = result.metadata
    linking = str(metadata["linking"]) if "linking" in metadata else None
    return build_page(biographies, title, str(metadata.get("protocol", "paper")), linking)


SAMPLES = Samples(
    row,
    ("no gap", "people merged", "unscored", "nothing supported"),
    margin="gap",
    right="Responses without a gap",
    script=Path(__file__).with_name("page.js"),
    own_pages=("biographies", _judged_texts),
)


BENCHMARK = Benchmark(
    kind=AmbigBio.name,
    title="AmbigBio",
    scoring=Scoring(
        headlines=("d_factscore",),
        scores=SCORES,
        keep=keep_verdict,
        recount=recount,
        counted=answered,
    ),
    data=Data(
        sources=SOURCES,
        settings=(
            *("protocol", "demonstrations", "prompts", "prompt", "prompt_hashes"),
            *("knowledge", "knowledge_identity", "linking", "facts"),
        ),
    ),
    judging=Judging(
        generation=generation,
        steps=JUDGED_STEPS,
    ),
    page=Page(
        lead=LEAD,
        sections=sections,
        samples=SAMPLES,
    ),
    checks=Checks(
        certifiable=tuple(SETTINGS.values()),
    ),
    order=30,
    people=PEOPLE,
)
