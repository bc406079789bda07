"""FELM as the rest of the suite knows it; its scores out of samples, and people in its annotators'
place; and its part of the report, as table 4 of its paper lays it out, with the published models
beneath one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from operator import ne
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.asked import Answers, Item, People, load_questions, make_relabel
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.chosen import Entry, Model, ReportRuns, score_figure
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Checks,
    Data,
    KeptRow,
    KeptRows,
    Page,
    Rescorer,
    Sample,
    SampleDisplay,
    Score,
    Scoring,
)
from lm_factuality.benchmarks.felm.judging import SETTINGS
from lm_factuality.benchmarks.felm.metrics import LEVELS, SCORES, judge_document, row_metrics
from lm_factuality.benchmarks.felm.questions import FelmSettings
from lm_factuality.benchmarks.felm.rows import FELM, RULES
from lm_factuality.benchmarks.rows import SampleRow, row_key, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import texts

FACTUAL = "factual"
TABLE4 = load_yaml(__package__, "table4.yaml")  # which says what is in it
_SHOWN = tuple(score for score in SCORES if score.label)


def keep(sample: Sample) -> KeptRow:
    """Keep the response that is judged and what the model wrote about it."""
    keys = ("index", "domain", "labels", "owners", "problem", "mode")
    doc = {key: sample["doc"][key] for key in keys}
    return {"doc": doc, "outputs": texts(sample["filtered_resps"])}


def recount(task: TaskResult, rows: KeptRows) -> Rescorer:
    protocol, mode = _setting(task, "protocol"), _setting(task, "mode")
    return Rescorer(lambda row: row_metrics(row["doc"], row["outputs"], protocol, mode))


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


def sections(chosen: ReportRuns) -> Sequence[Markup]:
    entries = chosen.of_kind("felm")
    values = {
        "table": TABLE4,
        "blocks": _blocks(entries),
        "runs": [(entry, _method_in_words(entry.result)) for entry in entries],
        "scores": _SHOWN,
    }
    return [render(f"{__package__}/page.html", **values)]


def _setting(task: TaskResult, name: str) -> str:
    """Return what a run says of ``protocol``, ``unit`` or ``mode``."""
    return str(task.metadata.get(name, getattr(FelmSettings, name)))


def _method_in_words(task: TaskResult) -> str:
    """Return the method, and whether its claims are clauses or references are lacking."""
    mode = _setting(task, "mode")
    words = f"{TABLE4['modes'].get(mode, mode)}, {_setting(task, 'unit')}s"
    if as_mapping(task.metadata.get("claims_from")).get(RULES):
        words += " (clauses cut by rules)"
    lacking = int(task.metrics.get("without_references") or 0)
    return f"{words} ({lacking} rows without references)" if lacking else words


def _blocks(entries: Sequence[Entry]) -> list[JsonObject]:
    """Return the scores of each model on each file of data, laid out as in table 4.

    Returns:
        For each the ``model``, the ``data``, and ``rows`` with a ``domain``, a ``level`` and
        ``cells``, one for each method. KeptRows of domains that the data lacks are left out.
    """
    runs: dict[tuple[str, Model], dict[tuple[str, str], Entry]] = {}
    for entry in entries:
        result = entry.result
        data = as_mapping(result.metadata.get("data")).get("file") or result.task
        method = _setting(result, "mode"), _setting(result, "unit")
        runs.setdefault((str(data), entry.model), {})[method] = entry
    blocks = []
    for (data, model), entry_of in runs.items():
        columns = [entry_of.get((column["mode"], column["unit"])) for column in TABLE4["columns"]]
        rows = []
        for domain, level in product(TABLE4["domains"], LEVELS):
            cells = [entry and _cell(entry, domain, level) for entry in columns]
            if any(cells):
                rows.append({"domain": domain, "level": level, "cells": cells})
        blocks.append({"model": model.label, "data": data, "rows": rows})
    return blocks


def _cell(entry: Entry, domain: str, level: str) -> JsonObject | None:
    """Return what a run has in a cell of table 4, or None if its F1 is not defined."""
    figures = {}
    for name in TABLE4["scores"]:
        suffix = "" if domain == "all" else f"_{domain}"
        figures[name] = score_figure(entry.result, f"{level}_{name}{suffix}")
    return figures if figures["f1"] else None


def sample_row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, outputs = sample["doc"], texts(sample["filtered_resps"])
    judged = judge_document(doc, outputs, _setting(result, "protocol"))
    return segments_row(
        sample,
        judged.flagged and list(map(ne, judged.errors, judged.flagged)),
        SCORES,
        doc={
            **{key: doc[key] for key in ("prompt", "segments", "claims", "owners")},
            "id": doc["index"],
            "gold": [not label for label in doc["labels"]],
        },
        detail={
            "flagged": judged.flagged,
            "unscored": judged.reason,
            "outputs": outputs,
            "mode": doc["mode"],
        },
    )


def segments_row(
    sample: Sample, wrong: Sequence[bool] | None, scores: Sequence[Score], **shown: JsonObject
) -> SampleRow:
    """Return an answer in segments as the report shows it.

    Args:
        sample: The sample.
        wrong: Whether each segment is wrong. None if the answer is unscored.
        scores: The scores of the benchmark.
        **shown: ``doc`` and ``detail`` of the row.
    """
    doc = sample["doc"]
    row = SampleRow(
        key=row_key(sample, doc["prompt"], *doc.get("segments", ())),
        cluster=str(doc["index"]),
        title=snippet(doc["prompt"]),
        outcome="unscored",
        margin=None,
        facets=(doc["domain"],),
        **shown,
    )
    if wrong is None:
        return row
    return replace(
        row,
        outcome="wrong" if any(wrong) else "right",
        margin=-sum(wrong) / max(1, len(wrong)),
        score_counts={
            score.name: tuple(map(float, sample[score.name])) for score in scores if score.label
        },
    )


BENCHMARK = Benchmark(
    kind="felm",
    title="FELM",
    scoring=Scoring(
        headlines=("segment_f1",),
        scores=SCORES,
        keep_row=keep,
        make_rescorer=recount,
    ),
    data=Data(
        sources=(FELM,),
        settings=(*vars(FelmSettings()), "claims_from", "prompt_hashes"),
    ),
    page=Page(
        lead="Can the model find the factual errors in somebody else's answer?",
        sections=sections,
        samples=SampleDisplay(
            sample_row,
            ("all segments right", "some wrong", "unscored", "other"),
            margin_label="share judged wrongly",
            facet_label="Domain",
            right_count_label="Responses judged rightly throughout",
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
        make_relabel(_items, _change, recount, keep),
    ),
)
