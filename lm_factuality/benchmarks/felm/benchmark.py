"""The declaration of FELM: its scores, its part of the report, and questions to people.

The rest of the suite finds `BENCHMARK` here. The report shows the user's models in the layout of
table 4 of the paper, with the published models below them.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from lm_factuality.benchmarks.asked import Answers, Item, People, Relabel, load_questions
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.chosen import Entry, Model, ReportRuns, ScoreFigure, score_figure
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
from lm_factuality.benchmarks.felm.judging import CHECK_SETTING, SETTINGS
from lm_factuality.benchmarks.felm.metrics import (
    LEVELS,
    SCORES,
    read_judged_document,
    response_metrics,
)
from lm_factuality.benchmarks.felm.questions import FelmSettings
from lm_factuality.benchmarks.felm.rows import FELM, RULES
from lm_factuality.benchmarks.rows import SampleRow, row_key, snippet
from lm_factuality.ground.html import render
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.generation import JsonObject
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import flatten_responses

FACTUAL = "factual"
"""The verdict on a segment without an error, as people and judges state it."""

TABLE4 = load_yaml(__package__, "table4.yaml")
"""Table 4 of the paper: its layout, and the scores of the published models."""


class _Table4Method(NamedTuple):
    """A column of table 4: how the judge was asked."""

    mode: str
    unit: str


class _Table4Block(NamedTuple):
    """A block of table 4: the scores of one model on one file of data."""

    data: str
    """The name of the file, or of the task if the file is not known."""

    model: Model


def keep_response(sample: Sample) -> KeptRow:
    """Reduce a sample to what `make_rescorer` needs: the response, its labels and the outputs.

    Args:
        sample: A line of lm_eval's samples file.
    """
    # No score depends on the rest of the document, which is most of it.
    keys = ("index", "domain", "labels", "owners", "problem", "mode")
    doc = {key: sample["doc"][key] for key in keys}
    return {"doc": doc, "outputs": flatten_responses(sample["filtered_resps"])}


def make_rescorer(task: TaskResult, rows: KeptRows) -> Rescorer:
    """Return the function that scores a kept row of a run again, with the settings of the run."""
    protocol = _setting_of_run(task, "protocol")
    mode = _setting_of_run(task, "mode")
    return Rescorer(lambda row: response_metrics(row["doc"], row["outputs"], protocol, mode))


def segment_items(
    prompt: str,
    segments: Sequence[str],
    verdicts: Sequence[str] | None,
    references: Sequence[str] = (),
) -> list[Item]:
    """Make the items with which people decide about each segment of an answer.

    Args:
        prompt: The question that was answered.
        segments: The segments of the answer.
        verdicts: The verdict on each segment to compare people with. None if there is none.
        references: The texts that people may check the segments against.

    Returns:
        One item per segment, in order, with the ids ``segment:0``, ``segment:1`` and so on.
    """
    # Out of its context, a segment such as "He was." could not be judged.
    context = [("Question", prompt), ("Whole answer", "\n".join(segments))]
    for number, text in enumerate(references, start=1):
        context.append((f"Reference {number}", text))

    return [
        Item(
            id=f"segment:{number}",
            question="segment",
            text=segment,
            context=tuple(context),
            judge=verdicts[number] if verdicts else None,
        )
        for number, segment in enumerate(segments)
    ]


def _items_for_people(result: TaskResult, sample: Sample) -> list[Item]:
    """Ask people about every segment of a response, in the place of FELM's annotators (table 2)."""
    doc = sample["doc"]
    # The labels of the annotators are the verdicts that people are compared with.
    verdicts = [FACTUAL if is_factual else "wrong" for is_factual in doc["labels"]]
    return segment_items(doc["prompt"], doc["segments"], verdicts)


def _with_labels_of_people(
    result: TaskResult, sample: Sample, answers: Answers
) -> Mapping[str, Any]:
    """Return the document of a sample with the answers of people as its labels.

    Args:
        result: The run.
        sample: A line of lm_eval's samples file.
        answers: ``factual`` or ``wrong``, by the id of the item.
    """
    items = _items_for_people(result, sample)
    labels = [answers[item.id] == FACTUAL for item in items]
    return {"doc": {**sample["doc"], "labels": labels}}


def report_sections(runs: ReportRuns) -> Sequence[Markup]:
    """Render FELM's section of the report: a table of all runs, and the layout of table 4."""
    entries = runs.of_kind("felm")
    section = render(
        f"{__package__}/page.html",
        table=TABLE4,
        columns=_table4_columns(entries),
        rows=_table4_rows(entries),
        published=_published_rows(),
        runs=[(entry, _describe_method(entry.result)) for entry in entries],
        scores=[score for score in SCORES if score.label],
    )
    return [section]


def _setting_of_run(task: TaskResult, name: str) -> str:
    """Return a setting of a run, such as ``mode``, or its default if the results lack it."""
    return str(task.metadata.get(name, getattr(FelmSettings, name)))


def _describe_method(task: TaskResult) -> str:
    """Describe in a few words how the model of a run was asked.

    Example:
        ``Link, claims (12 rows without references)``
    """
    mode, unit = _method_of_run(task)
    description = f"{TABLE4['modes'].get(mode, mode)}, {unit}s"

    num_rows_by_source = as_mapping(task.metadata.get("claims_from"))
    # A judge should extract claims, so the description only mentions claims cut by rules.
    if num_rows_by_source.get(RULES):
        description += " (clauses cut by rules)"
    num_without_references = int(task.metrics.get("without_references") or 0)
    if num_without_references:
        description += f" ({num_without_references} rows without references)"
    return description


def _table4_rows(entries: Sequence[Entry]) -> list[JsonObject]:
    """Arrange the scores of all runs as in table 4 of the paper.

    Args:
        entries: The FELM runs of the report.

    Returns:
        One row for each model, file of data, domain and level that has scores. Its keys are
        ``model``, ``data``, ``domain`` (such as ``Math``), ``level`` (``segment`` or
        ``response``) and ``cells``, of which each method has one.
    """
    run_by_block_and_method = {
        (_block_of_run(entry), _method_of_run(entry.result)): entry for entry in entries
    }
    blocks = dict.fromkeys(map(_block_of_run, entries))
    columns = _table4_columns(entries)
    rows = []
    for block, domain, level in product(blocks, TABLE4["domains"], LEVELS):
        # A method that only other models were run with leaves a cell empty.
        runs = [run_by_block_and_method.get((block, method)) for method in columns]
        cells = [_table4_cell(run, domain, level) if run else None for run in runs]
        # A user's own data may lack a domain.
        if not any(cells):
            continue
        rows.append(
            {
                "model": block.model.label,
                "data": block.data,
                "domain": TABLE4["domains"][domain],
                "level": level,
                "cells": cells,
            }
        )
    return rows


def _block_of_run(entry: Entry) -> _Table4Block:
    """Return the block of table 4 that a run belongs to.

    Scores on different data cannot be compared, so each file of data has blocks of its own.
    """
    data = as_mapping(entry.result.metadata.get("data"))
    # Some results do not name a file.
    return _Table4Block(str(data.get("file") or entry.result.task), entry.model)


def _table4_columns(entries: Sequence[Entry]) -> list[_Table4Method]:
    """Return the columns of table 4 that any of the runs has scores for."""
    methods_of_runs = {_method_of_run(entry.result) for entry in entries}
    methods = [_Table4Method(**column) for column in TABLE4["columns"]]
    return [method for method in methods if method in methods_of_runs]


def _method_of_run(task: TaskResult) -> _Table4Method:
    """Return the column of table 4 that a run belongs to."""
    return _Table4Method(_setting_of_run(task, "mode"), _setting_of_run(task, "unit"))


def _published_rows() -> list[JsonObject]:
    """Return the rows of table 4 of the paper, with the same keys as those of `_table4_rows`.

    Each of the ``cells`` is a list of F1, precision and recall in percent, or None.
    """
    rows = []
    for published in TABLE4["models"]:
        for row in published["rows"]:
            domain_label = TABLE4["domains"][row["domain"]]
            rows.append(
                {
                    **row,
                    "model": published["model"],
                    "data": "published",
                    "domain": domain_label,
                }
            )
    return rows


def _table4_cell(run: Entry, domain: str, level: str) -> dict[str, ScoreFigure | None] | None:
    """Return F1, precision and recall of a run in one cell of table 4.

    Args:
        run: The run.
        domain: A domain of FELM, or ``all``.
        level: ``segment`` or ``response``.

    Returns:
        The figures by score, or None if the run has no F1 there.
    """
    # The score of all domains together has no suffix.
    suffix = "" if domain == "all" else f"_{domain}"
    figures = {
        measure: score_figure(run.result, f"{level}_{measure}{suffix}")
        for measure in TABLE4["scores"]
    }
    return figures if figures["f1"] else None


def report_row(result: TaskResult, sample: Sample) -> SampleRow:
    """Make the row of the report that shows a response and the model's verdict on its segments.

    Args:
        result: The run.
        sample: A line of lm_eval's samples file.
    """
    doc = sample["doc"]
    outputs = flatten_responses(sample["filtered_resps"])
    judged = read_judged_document(doc, outputs, _setting_of_run(result, "protocol"))

    return segments_row(
        sample,
        judged.is_misjudged_by_segment,
        SCORES,
        # page.js reads these names.
        row_doc={
            "prompt": doc["prompt"],
            "segments": doc["segments"],
            "claims": doc["claims"],
            "owners": doc["owners"],
            "id": doc["index"],
            "gold": judged.errors,
        },
        detail={
            "flagged": judged.flagged,
            "unscored": judged.reason,
            "outputs": outputs,
            "mode": doc["mode"],
        },
    )


def segments_row(
    sample: Sample,
    is_wrong_by_segment: Sequence[bool] | None,
    scores: Sequence[Score],
    row_doc: JsonObject,
    detail: JsonObject,
) -> SampleRow:
    """Make the row of the report that shows an answer in segments.

    Args:
        sample: A line of lm_eval's samples file.
        is_wrong_by_segment: Whether each segment counts against the model. None if the answer is
            unscored.
        scores: The scores of the benchmark. Those with a label are compared row by row.
        row_doc: The texts that the row shows for every model.
        detail: The texts and verdicts that the row shows for this model.

    Returns:
        The row. Its ``outcome`` colours it, its ``margin`` sorts it, and its ``facets`` filter it.
    """
    outcome = "unscored"
    margin = None
    score_counts = {}
    if is_wrong_by_segment is not None:
        outcome = "wrong" if any(is_wrong_by_segment) else "right"
        # The share of wrong segments, negative so that higher is better.
        margin = -sum(is_wrong_by_segment) / max(1, len(is_wrong_by_segment))
        # The report compares two models by the counts of each row. An unscored row has none.
        labelled_scores = [score for score in scores if score.label]
        for score in labelled_scores:
            score_counts[score.name] = tuple(map(float, sample[score.name]))

    doc = sample["doc"]
    return SampleRow(
        key=row_key(sample, doc["prompt"], *doc.get("segments", ())),
        # Each answer is a cluster, since errors in one answer depend on each other.
        cluster=str(doc["index"]),
        title=snippet(doc["prompt"]),
        outcome=outcome,
        margin=margin,
        doc=row_doc,
        facets=(doc["domain"],),
        detail=detail,
        score_counts=score_counts,
    )


BENCHMARK = Benchmark(
    kind="felm",
    title="FELM",
    scoring=Scoring(
        headlines=("segment_f1",),
        scores=SCORES,
        keep_row=keep_response,
        make_rescorer=make_rescorer,
    ),
    data=Data(
        sources=(FELM,),
        settings=(*vars(FelmSettings()), "claims_from", "prompt_hashes"),
    ),
    page=Page(
        lead="Can the model find the factual errors in somebody else's answer?",
        sections=report_sections,
        samples=SampleDisplay(
            report_row,
            ("all segments right", "some wrong", "unscored", "other"),
            margin_label="share judged wrongly",
            facet_label="Domain",
            right_count_label="Responses judged rightly throughout",
            script=Path(__file__).with_name("page.js"),
        ),
    ),
    checks=Checks(
        certifiable=(*SETTINGS.values(), CHECK_SETTING),
    ),
    order=20,
    people=People(
        tuple(load_questions(__package__).values()),
        _items_for_people,
        Relabel(_items_for_people, _with_labels_of_people, make_rescorer, keep_response),
    ),
)
