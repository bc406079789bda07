"""FELM-gen as the rest of the suite knows it; its scores out of samples, where marks are read again
from the judge's outputs; and people in the judge's place (section 3.6)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from judges.answers import Answer
from judges.capabilities import capabilities
from judges.typed import read_reply
from lm_factuality.benchmarks.asked import (
    Answers,
    Item,
    People,
    as_verdict,
    load_questions,
    relabelling,
)
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.chosen import Chosen, scores_section
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Data,
    Judging,
    Page,
    Recount,
    Row,
    Rows,
    Sample,
    Samples,
    Scoring,
)
from lm_factuality.benchmarks.felm.benchmark import FACTUAL, TABLE4, of_domain, segment_items
from lm_factuality.benchmarks.felm.judging import SEGMENTS
from lm_factuality.benchmarks.felm.rows import WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen import steps
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN, LEVELS, SCORES, row_metrics
from lm_factuality.benchmarks.rows import SampleRow, key_of, snippet
from lm_factuality.ground.html import render
from lm_factuality.harness.generation import Verdict
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import (
    belongs,
    keep_verdict,
    responses_of,
    verdict_of,
)


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the verdicts; what does not follow from the judge's texts is unfounded."""
    judge = task.metadata.get("judge_config")
    config: Mapping[str, Any] = judge if isinstance(judge, dict) else {}

    def again(row: Row) -> dict[str, Any]:
        doc, verdict, errors = row["doc"], row["verdict"], row["verdict"]["errors"]
        belongs(verdict["index"] == doc["index"] and verdict["domain"] == doc["domain"])
        if errors is not None and len(errors) != len(verdict["segments"]):
            raise ValueError(f"{len(errors)} verdicts on {len(verdict['segments'])} segments")
        return row_metrics(verdict)

    return Recount(again, lambda row: unfounded(row, config))


def unfounded(row: Row, judge: Mapping[str, Any]) -> str | None:
    """What of a record of FELM-gen does not follow, if anything; ``judge`` is the config in the
    results."""
    doc, verdict, (response,) = row["doc"], row["verdict"], row["responses"]
    problem = steps.no_answer(response)
    none, unscored = steps.why_none(problem)
    if verdict["no_answer"] != none:
        return f"its no_answer is {verdict['no_answer']!r}, but of the response it is {none!r}"
    if problem is not None:
        empty: dict[str, Any] = {
            "segments": [],
            "errors": None,
            "unscored": unscored,
            "cut_by": None,
            "outputs": [],
        }
        wrong = next((key for key, value in empty.items() if row["verdict"][key] != value), None)
        return None if wrong is None else f"its {wrong} is of an answer, but the response is none"
    return _wrong_cut(steps.to_answer(response), doc["domain"], verdict, judge) or _wrong_marks(
        verdict, judge
    )


def _wrong_cut(answer: str, domain: str, verdict: Verdict, judge: Mapping[str, Any]) -> str | None:
    """Segments are the answer, whole and in order; where rules cut, they are those of the rules."""
    segments = verdict["segments"]
    if verdict["cut_by"] == "judge":
        if domain not in steps.BY_JUDGE or not capabilities(str(judge.get("backend"))).can_answer(
            "cut"
        ):
            return f"its segments are said to be cut by a judge, which cuts none of {domain}"
        is_whole = "".join("".join(segments).split()) == "".join(answer.split())
        return (
            None
            if is_whole and all(map(str.strip, segments))
            else "its segments are not the text of the response"
        )
    cut = steps.cut_by_rules(answer, domain)
    is_cut = segments == list(cut.segments) and verdict["cut_by"] == cut.by
    return None if is_cut else "its segments are not those of the response"


def _wrong_marks(verdict: Verdict, judge: Mapping[str, Any]) -> str | None:
    outputs, errors, reason = verdict["outputs"], verdict["errors"], verdict["unscored"]
    if (errors is None) != isinstance(reason, str):
        return "it has errors and a reason why it has none, or neither"
    if not outputs:
        return None if errors is None else "it has marks, but nothing that the judge wrote"
    if len(outputs) != judge.get("samples", 1):
        return f"it has {len(outputs)} outputs of the judge, expected {judge.get('samples', 1)}"
    subject = {"units": verdict["segments"]}
    replies = [
        read_reply(Answer(text), steps.MarksReply, subject, steps.check_marks) for text in outputs
    ]
    found = steps.read_marks(replies, len(verdict["segments"]), verdict["domain"])
    return (
        None
        if errors == (None if isinstance(found, str) else list(found))
        else "its errors are not what the judge wrote"
    )


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    record, doc = verdict_of(sample), sample["doc"]
    said = None if record["errors"] is None else [error or FACTUAL for error in record["errors"]]
    return segment_items(doc["prompt"], record["segments"], said, doc.get("reference_texts") or ())


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    """The types of errors that people found; all in math and reasoning are reasoning errors, as in
    the paper."""
    record, said = verdict_of(sample), (answers[item.id] for item in _items(result, sample))
    only = "reasoning" if record["domain"] in WITHOUT_REFERENCES else None
    errors = [None if answer == FACTUAL else only or answer for answer in said]
    return as_verdict({**record, "errors": errors, "unscored": None, "outputs": []})


PEOPLE = People(
    tuple(load_questions(__package__).values()), _items, relabelling(_items, _change, recount)
)


_NOTE = (
    "Error rates of the models' own answers to FELM's prompts, as the judge sees them; lower is"
    " better."
)


def sections(chosen: Chosen) -> Sequence[Markup]:
    entries = chosen.of_kind("felm_gen")
    labels = {f"segment_error_rate_{domain}": label for domain, label in TABLE4["domains"].items()}
    named = [replace(score, label=labels[score.name]) for score in SCORES if score.name in labels]
    return [
        scores_section(chosen, "felm_gen", note=_NOTE),
        render(f"{__package__}/page.html", entries=entries, scores=named),
    ]


def row(result: TaskResult, sample: Sample) -> SampleRow:
    doc, record = sample["doc"], verdict_of(sample)
    errors, parts = record["errors"], {}
    outcome, margin = ("none" if record["no_answer"] else "unscored"), None
    if errors is not None and not record["unscored"]:
        wrong = sum(error is not None for error in errors)
        outcome, margin = ("wrong" if wrong else "right"), -wrong / max(1, len(errors))
        for level in LEVELS:
            parts[f"{level}_error_rate"] = tuple(map(float, sample[f"{level}_error_rate"]))
            parts[f"{level}_error_rate_{doc['domain']}"] = parts[f"{level}_error_rate"]
    return SampleRow(
        key_of(sample, doc["prompt"]),
        str(doc["index"]),
        snippet(doc["prompt"]),
        {"id": doc["index"], "prompt": doc["prompt"]},
        outcome,
        margin,
        (doc["domain"],),
        {
            **{"segments": record["segments"], "errors": errors, "answer": responses_of(sample)[0]},
            "unscored": record["unscored"] or record["no_answer"],
        },
        parts,
    )


SAMPLES = Samples(
    row,
    ("no error", "has errors", "unscored", "no answer"),
    margin="share of errors",
    facet="Domain",
    is_partition=True,
    right="Responses without an error",
    compared=lambda name: of_domain(name, "error_rate", SCORES),
    script=Path(__file__).with_name("page.js"),
)


BENCHMARK = Benchmark(
    kind=FELM_GEN.name,
    title="FELM-gen",
    scoring=Scoring(
        headlines=("segment_error_rate",),
        scores=SCORES,
        keep=keep_verdict,
        recount=recount,
    ),
    data=Data(
        settings=("references",),
    ),
    judging=Judging(
        generation=lambda metadata: FELM_GEN,
        steps=(
            JudgedStep("cutting answers into segments", (), "scores of segments"),
            JudgedStep("marking segments", SEGMENTS, "all scores"),
        ),
    ),
    page=Page(
        lead="How many segments of the model's own answers to FELM's prompts have errors?",
        name="felm",
        sections=sections,
        samples=SAMPLES,
    ),
    order=40,
    people=PEOPLE,
)
