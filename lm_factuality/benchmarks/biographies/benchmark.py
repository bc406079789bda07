"""AmbigBio and D-FActScore as the rest of the suite knows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.biographies.certify import JUDGED_STEPS
from lm_factuality.benchmarks.biographies.generations import SOURCES
from lm_factuality.benchmarks.biographies.judging import AmbigBio, generation
from lm_factuality.benchmarks.biographies.recount import people_of, recount_by
from lm_factuality.benchmarks.biographies.scores import SCORES
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
    points = []
    pages = {}
    for entry in entries:
        pages[entry.model.id] = chosen.own_pages.get((task, entry.model.id))
        dots_of_entry = entry.dots(_BOTH)
        if dots_of_entry:
            points.append((entry.model.label, dots_of_entry))
    drawing = None
    if points:
        title = f"{task} FActScore and D-FActScore"
        drawing = dots(title, "score, %", points, [score.label for score in _BOTH])
    return render(
        f"{__package__}/page.html",
        task=task,
        entries=entries,
        pages=pages,
        scores=[*_BOTH, *_SHOWN[2:]],
        drawing=drawing,
    )


def row(result: TaskResult, sample: Sample) -> SampleRow:
    """Return a response as the report shows it."""
    doc = sample["doc"]
    record = verdict_of(sample)
    judged = from_record(record)
    gap = sample.get("difference")
    outcome = "unscored" if gap is None else "wrong" if gap > 1e-9 else "right"
    if judged.abstained or sample.get("factscore") == 0:
        outcome = "none"  # Where nothing is told, or supported, nobody can be merged.
    parts = {}
    for score in _SHOWN:
        if sample.get(score.name) is not None:
            parts[score.name] = mean_part(sample[score.name])
    return SampleRow(
        key=key_of(sample, doc["name"], doc["question"]),
        cluster=str(doc["name"]),
        title=snippet(doc["name"]),
        doc={
            "id": doc["index"],
            "question": doc["question"],
            "name": doc["name"],
            "passages": doc["passages"],
        },
        outcome=outcome,
        margin=None if gap is None else -gap,
        facets=(),
        detail={**shown_of(judged, record["unscored"]), "scores": record["scores"]},
        parts=parts,
    )


def shown_of(judged: JudgedBiography, unscored: str | None) -> dict[str, Any]:
    """Return what the report shows of a judged response."""
    return {
        "pieces": align(judged.generation.output, judged.sentences),
        "facts": [[fact.text, fact.sentence] for fact in judged.facts],
        "statuses": statuses(judged),
        "abstained": judged.abstained,
        "unscored": unscored,
    }


def _judged_texts(result: TaskResult, title: str) -> str:
    """Return the page with the judged texts of a run."""
    assert result.samples is not None
    biographies = [from_record(verdict_of(sample)) for sample in read_samples(result.samples)]
    metadata = result.metadata
    protocol = str(metadata.get("protocol", "paper"))
    return build_page(biographies, title, protocol, metadata.get("linking"))


BENCHMARK = Benchmark(
    kind=AmbigBio.name,
    title="AmbigBio",
    scoring=Scoring(
        headlines=("d_factscore",),
        scores=SCORES,
        keep=keep_verdict,
        recount=recount_by(generation),
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
        samples=Samples(
            row,
            ("no gap", "people merged", "unscored", "nothing supported"),
            margin="gap",
            right="Responses without a gap",
            script=Path(__file__).with_name("page.js"),
            own_pages=("biographies", _judged_texts),
        ),
    ),
    checks=Checks(
        certifiable=tuple(setting for step in JUDGED_STEPS for setting in step.settings),
    ),
    order=30,
    people=people_of(generation, "person"),
)
