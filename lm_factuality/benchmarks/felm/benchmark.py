"""FELM as the rest of the suite knows it; its scores out of samples, and people in its annotators'
place; and its part of the report, as table 4 of its paper lays it out, with the published models
beneath one's own."""

from collections.abc import Mapping, Sequence
from itertools import product
from operator import ne
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from lm_factuality.benchmarks.asked import Answers, Item, People, load_questions, relabelling
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.benchmarks.chosen import Chosen, Entry, Figure, Model
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Checks,
    Data,
    Page,
    Recount,
    Row,
    Rows,
    Sample,
    Samples,
    Score,
    Scoring,
)
from lm_factuality.benchmarks.felm.judging import SETTINGS
from lm_factuality.benchmarks.felm.metrics import LEVELS, SCORES, judge_document, row_metrics
from lm_factuality.benchmarks.felm.rows import FELM
from lm_factuality.benchmarks.rows import Counts, SampleRow, key_of, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.plots import dots
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import responses_of, texts

FACTUAL = "factual"
TABLE4 = load_yaml(__package__, "table4.yaml")  # which says what is in it
_SHOWN = tuple(score for score in SCORES if score.label)


def keep(sample: Sample) -> Row:
    """Keep the response that is judged and what the model wrote about it.

    Raises:
        ValueError: The responses are not as the task writes them.
    """
    outputs = texts(sample["filtered_resps"])
    if outputs != responses_of(sample)[: len(outputs)]:
        raise ValueError("'filtered_resps' are not 'resps'")
    keys = ("index", "domain", "labels", "owners", "problem", "mode")
    return {"doc": {key: sample["doc"][key] for key in keys}, "outputs": outputs}


def recount(task: TaskResult, rows: Rows) -> Recount:
    protocol = _protocol(task)
    mode, _ = _method(task)
    return Recount(lambda row: row_metrics(row["doc"], row["outputs"], protocol, mode))


def segment_items(
    prompt: str,
    segments: Sequence[str],
    verdicts: Sequence[str] | None,
    references: Sequence[str] = (),
) -> list[Item]:
    """Return an item for each segment, with the judge's verdict on it."""
    pages = ((f"Reference {number}", text) for number, text in enumerate(references, start=1))
    context = (("Question", prompt), ("Whole answer", "\n".join(segments)), *pages)
    return [
        Item(f"segment:{place}", "segment", text, context, verdicts[place] if verdicts else None)
        for place, text in enumerate(segments)
    ]


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    """People take the place of FELM's annotators: how well they agree (table 2), and how a judge
    does by their labels."""
    doc = sample["doc"]
    labels = [FACTUAL if label else "wrong" for label in doc["labels"]]
    return segment_items(doc["prompt"], doc["segments"], labels)


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    labels = [answers[item.id] == FACTUAL for item in _items(result, sample)]
    return {"doc": {**sample["doc"], "labels": labels}}


class Cell(NamedTuple):
    """What a run has in a cell of table 4."""

    score: Score
    figure: Figure
    precision_and_recall: Sequence[str]


class Block(NamedTuple):
    """The scores of a model, laid out as in table 4."""

    model: str
    data: str
    rows: Sequence[Mapping[str, Any]]
    """The ``domain``, the ``level``, and ``cells`` for the columns of the table."""


def sections(chosen: Chosen) -> Sequence[Markup]:
    entries = chosen.of_kind("felm")
    dots_of = [(f"{run.model.label}, {run.result.task}", run.dots(_SHOWN[:2])) for run in entries]
    rows = [(name, scores) for name, scores in dots_of if scores]
    labels = [score.label for score in _SHOWN[:2]]
    values = {
        "table": TABLE4,
        "blocks": _blocks(entries),
        "runs": [(entry, _method_in_words(entry.result)) for entry in entries],
        "scores": _SHOWN,
        "drawing": dots("F1 of finding errors", "F1, %", rows, labels) if rows else None,
    }
    return [render(f"{__package__}/page.html", **values)]


def _protocol(task: TaskResult) -> str:
    return str(task.metadata.get("protocol", "paper"))


def _method(task: TaskResult) -> tuple[str, str]:
    return str(task.metadata.get("mode", "vanilla")), str(task.metadata.get("unit", "segment"))


def _method_in_words(task: TaskResult) -> str:
    """Return the method, and whether its claims are clauses or references are lacking."""
    mode, unit = _method(task)
    words = f"{TABLE4['modes'].get(mode, mode)}, {unit}s"
    if mapping(task.metadata.get("claims_from")).get("rules"):
        words += " (clauses cut by rules)"
    lacking = int(task.metrics.get("without_references") or 0)
    return f"{words} ({lacking} rows without references)" if lacking else words


def _blocks(entries: Sequence[Entry]) -> list[Block]:
    """Return a block for each model on each file of data. Its columns are methods."""
    runs: dict[tuple[str, Model], dict[tuple[str, str], Entry]] = {}
    for entry in entries:
        result = entry.result
        data = mapping(result.metadata.get("data")).get("file") or result.task
        runs.setdefault((str(data), entry.model), {})[_method(result)] = entry
    blocks = []
    for (data, model), entry_of in runs.items():
        columns = [entry_of.get((column["mode"], column["unit"])) for column in TABLE4["columns"]]
        rows = []
        for domain, level in product(TABLE4["domains"], LEVELS):
            cells = [entry and _cell(entry, domain, level) for entry in columns]
            rows.append({"domain": domain, "level": level, "cells": cells})
        # FELM's own data has all domains, other data fewer.
        scored = {row["domain"] for row in rows if any(row["cells"])}
        blocks.append(Block(model.label, data, [row for row in rows if row["domain"] in scored]))
    return blocks


def _cell(entry: Entry, domain: str, level: str) -> Cell | None:
    suffix = "" if domain == "all" else f"_{domain}"
    score = next(score for score in SCORES if score.name == f"{level}_f1{suffix}")
    figure = entry.figure(score)
    if figure is None:
        return None
    metrics = entry.result.metrics
    parts = [metrics.get(f"{level}_{name}{suffix}") for name in ("precision", "recall")]
    # NaN differs from itself: a score that is not defined.
    written = ["–" if part is None or part != part else score.write(part) for part in parts]
    return Cell(score, figure, written)


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, outputs = sample["doc"], texts(sample["filtered_resps"])
    judged = judge_document(doc, outputs, _protocol(result))
    parts: dict[str, Counts] = {}
    margin = None
    outcome = "unscored"
    if judged.flagged is not None:
        wrong = sum(map(ne, judged.errors, judged.flagged))
        margin = -wrong / len(judged.errors)
        outcome = "wrong" if wrong else "right"
        for level in LEVELS:
            counts = tuple(map(float, sample[f"{level}_f1"]))
            parts[f"{level}_f1"] = counts
            parts[f"{level}_balanced_accuracy"] = counts
    return SampleRow(
        key=key_of(sample, doc["prompt"], *doc["segments"]),
        cluster=str(doc["index"]),
        title=snippet(doc["prompt"]),
        doc={
            **{key: doc[key] for key in ("prompt", "segments", "claims", "owners")},
            "id": doc["index"],
            "gold": [not label for label in doc["labels"]],
        },
        outcome=outcome,
        margin=margin,
        facets=(doc["domain"],),
        detail={
            "flagged": judged.flagged,
            "unscored": judged.reason,
            "outputs": outputs,
            "mode": doc["mode"],
        },
        parts=parts,
    )


BENCHMARK = Benchmark(
    kind="felm",
    title="FELM",
    scoring=Scoring(
        headlines=("segment_f1",),
        scores=SCORES,
        keep=keep,
        recount=recount,
    ),
    data=Data(
        sources=(FELM,),
        settings=(
            "protocol",
            "unit",
            "mode",
            "claims",
            "claims_from",
            "references",
            "chunk_tokenizer",
            "prompts",
            "prompt_hashes",
        ),
    ),
    page=Page(
        lead="Can the model find the factual errors in somebody else's answer?",
        sections=sections,
        samples=Samples(
            sample_row,
            ("all segments right", "some wrong", "unscored", "other"),
            margin="share judged wrongly",
            facet="Domain",
            is_partition=True,
            right="Responses judged rightly throughout",
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    checks=Checks(
        certifiable=tuple(SETTINGS.values()),
    ),
    order=20,
    people=People(
        tuple(load_questions(__package__).values()),
        _items,
        relabelling(_items, _change, recount, keep),
    ),
)
