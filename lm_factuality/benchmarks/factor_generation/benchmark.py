"""FACTOR in open generation as the rest of the suite knows it, and its scores out of samples: what
follows from the responses is found again, and what only the judge can know is believed. People in
the judge's place say whether the minimal fact is true, false or not touched on (section 6.1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality.benchmarks.asked import (
    Answers,
    Item,
    People,
    as_verdict,
    load_questions,
    relabelling,
)
from lm_factuality.benchmarks.audit import PromptAudit
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.chosen import Chosen, scores_section
from lm_factuality.benchmarks.declaration import (
    ACCURACY,
    Benchmark,
    Checks,
    Data,
    Judging,
    Page,
    Recount,
    Row,
    Rows,
    Sample,
    Samples,
    Score,
    Scoring,
)
from lm_factuality.benchmarks.factor.scoring import wins
from lm_factuality.benchmarks.factor_generation.facts import MARKS, complete, end_of, why_none
from lm_factuality.benchmarks.factor_generation.judging import FACTOR_GENERATION
from lm_factuality.benchmarks.factor_generation.tally import SCORES, row_metrics, sums
from lm_factuality.benchmarks.rows import SampleRow, key_of, snippet
from lm_factuality.harness.outputs import TaskResult, number_of
from lm_factuality.harness.samples import belongs, keep_verdict, responses_of, verdict_of
from lm_factuality.scores.statistics import Aggregation, mean


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the marks by the task's protocol; what does not follow from the judge's texts is
    unfounded."""
    protocol = str(task.metadata.get("protocol", "paper"))

    def again(row: Row) -> dict[str, Any]:
        verdict, doc = row["verdict"], row["doc"]
        expected = 0 if doc["no_fact"] else len(row["responses"])
        belongs(verdict["doc_id"] == doc["doc_id"] and len(verdict["marks"]) == expected)
        if unknown := set(verdict["marks"]) - {*MARKS, None}:
            raise ValueError(f"marks {unknown}, expected {', '.join(MARKS)} or null")
        if doc["factor_acc"] is not None and doc["factor_acc"] != wins(
            doc["mean_logprob"], doc["gold"], protocol
        ):
            raise ValueError("its factor_acc does not follow from mean_logprob")
        return row_metrics(doc, verdict)

    return Recount(again, unfounded)


def unfounded(row: Row) -> str | None:
    doc, verdict = row["doc"], row["verdict"]
    texts = [] if doc["no_fact"] else row["responses"]
    sentences = [complete(doc["stem"], text) for text in texts]
    if verdict["sentences"] != sentences:
        return "its sentences are not those of the responses"
    for text, sentence, mark, reason in zip(
        texts, sentences, verdict["marks"], verdict["reasons"], strict=True
    ):
        if (mark is None) != isinstance(reason, str):
            return "a generation has a mark and a reason why it has none, or neither"
        if sentence is None and (mark, reason) != (None, why_none(text)):
            return "a generation without a word has a mark"
    return None


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    doc, record = sample["doc"], verdict_of(sample)
    context = (
        ("Right version", doc["true"]),
        ("Wrong version", doc["false"]),
        ("Text before", end_of(doc["prefix"])),
    )
    pairs = enumerate(zip(record["sentences"], record["marks"], strict=True))
    return [
        Item(f"mark:{place}", "mark", text, context, mark) for place, (text, mark) in pairs if text
    ]


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    record = verdict_of(sample)
    marks = [answers.get(f"mark:{place}") for place in range(len(record["marks"]))]
    reasons = [
        None if mark else reason for mark, reason in zip(marks, record["reasons"], strict=True)
    ]
    return as_verdict({**record, "marks": marks, "reasons": reasons, "unscored": None})


PEOPLE = People(
    tuple(load_questions(__package__).values()), _items, relabelling(_items, _change, recount)
)


class FactorGenerationAudit(PromptAudit):
    """Nothing is generated for a row without a minimal fact."""

    key = "prompt"

    def repeats(self, doc: Mapping[str, Any]) -> int:
        return 0 if doc["no_fact"] else super().repeats(doc)


def counted(task: TaskResult, metric: str) -> int:
    """The rows that have a fact; of accuracies the share of them whose generations say something of
    it."""
    rows = task.effective - (number_of(task.metrics.get("without_fact")) or 0)
    said = (
        1 - (number_of(task.metrics.get("neutral_pooled")) or 0)
        if metric.startswith("accuracy")
        else 1
    )
    return round(rows * said)


_NOTE = (
    "Section 6 of the paper: the model continues where a true and a false completion diverge, and a"
    " judge marks what it says."
)
# Compared is what needs no weights of all rows together.
_POOLED = Score("accuracy_pooled", Aggregation(mean), ACCURACY, "True of true and false, pooled")


def sections(chosen: Chosen) -> Sequence[Markup]:
    return [scores_section(chosen, "factor_generation", "In open generation", _NOTE)]


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, record = sample["doc"], verdict_of(sample)
    marks = list(record["marks"])
    true, false = marks.count("true"), marks.count("false")
    outcome, margin = "unscored" if marks else "none", None
    if true + false:
        outcome, margin = ("wrong" if false else "right"), true / (true + false)
    elif marks and None not in marks:
        outcome = "none"
    detail = {"marks": marks, "sentences": record.get("sentences"), "outputs": responses_of(sample)}
    return SampleRow(
        key_of(sample, doc["prefix"], doc["true"], doc["false"]),
        str(doc["doc_id"]),
        snippet(doc["stem"] or doc["prefix"]),
        {"id": doc["doc_id"], **{key: doc[key] for key in ("prefix", "stem", "true", "false")}},
        outcome,
        margin,
        [doc["error_type"]] if doc.get("error_type") else [],
        detail | {"unscored": doc.get("no_fact") or None, "right": doc.get("factor_acc")},
        {_POOLED.name: (float(true), float(true + false))} if true + false else {},
    )


SAMPLES = Samples(
    row,
    ("true", "false", "unscored", "neither"),
    margin="share true",
    facet="Error type",
    right="Rows without a false generation",
    compared=lambda name: _POOLED if name == _POOLED.name else None,
    sums=sums,
    script=Path(__file__).with_name("page.js"),
)


BENCHMARK = Benchmark(
    kind=FACTOR_GENERATION.name,
    title="FACTOR in open generation",
    scoring=Scoring(
        headlines=("accuracy",),
        scores=SCORES,
        keep=keep_verdict,
        recount=recount,
        counted=counted,
        unscored_unit="generations",
    ),
    data=Data(
        model_outputs=("mean_logprob", "factor_acc"),
        settings=("protocol", "window", "spacing", "join", "delimiter", "contradiction"),
    ),
    judging=Judging(
        generation=lambda metadata: FACTOR_GENERATION,
        steps=(JudgedStep("marking generations", (), "all scores"),),
    ),
    page=Page(
        lead=(
            "Does the model, continuing freely after the prefix, write what is true or what is"
            " false?"
        ),
        name="factor",
        sections=sections,
        samples=SAMPLES,
    ),
    checks=Checks(
        audit=FactorGenerationAudit,
    ),
    order=50,
    people=PEOPLE,
)
