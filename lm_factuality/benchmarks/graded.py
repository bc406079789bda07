"""A judged benchmark in one call: the model answers questions, and a judge grades each answer.

`graded` declares the benchmark with its scores, report, checks and questions for people, and
`GradedTask` is the base of its lm_eval task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judges.typed import Reply
from lm_factuality.benchmarks.asked import (
    Answers,
    Item,
    Option,
    People,
    Question,
    as_verdict,
    relabelling,
)
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    Data,
    Judging,
    Page,
    Recount,
    Rows,
    Sample,
    Samples,
    Score,
    Scoring,
)
from lm_factuality.benchmarks.grading import PAPER, GradedAnswers, GradeScore
from lm_factuality.benchmarks.rows import SampleRow, key_of, snippet
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.published import Source, blob_id
from lm_factuality.ground.tables import FORMATS, read_table
from lm_factuality.harness.generation import Generation
from lm_factuality.harness.judging import JudgedTask
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.own_data import own_data
from lm_factuality.harness.samples import keep_verdict, responses_of, verdict_of
from lm_factuality.harness.suite_task import Settings
from lm_factuality.scores.statistics import MEAN, Aggregation, how_many


def graded(
    name: str,
    title: str,
    lead: str,
    question: str,
    reference: str,
    prompt: str,
    reply: type[Reply],
    scores: Sequence[GradeScore],
    headline: str,
    worst_grade: str,
    best_grade: str,
    unreadable: Mapping[str, str] | None = None,
    sources: Sequence[Source] = (),
    order: int = 100,
) -> Benchmark:
    """Declare a benchmark in which a judge grades each answer by a reference.

    Args:
        name: What results call the benchmark. Its folder has the same name.
        title: What readers call it.
        lead: The first sentence of its page in the report.
        question: The column of the data that holds the question.
        reference: The column that holds the reference answer.
        prompt: The judge's prompt, such as ``simpleqa/grade``. It reads ``question``,
            ``reference`` and ``answer``.
        reply: The judge's reply. Its field ``grade`` is a literal type that lists all grades.
        scores: What is computed from the grades, in the order of tables.
        headline: The name of the score that the benchmark is about.
        worst_grade: The grade that unscored answers have in the worst case.
        best_grade: The grade that unscored answers have in the best case.
        unreadable: By the name of a protocol, the grade of an answer for which the judge's reply
            cannot be read. In the protocol ``paper``, such an answer is unscored.
        sources: The published files.
        order: The place of the benchmark in lists.

    Returns:
        The declaration. The benchmark's task derives from `GradedTask` and names it.
    """
    answers = GradedAnswers(
        name=name,
        question_column=question,
        reference_column=reference,
        prompt=prompt,
        reply=reply,
        scores=tuple(scores),
        worst_grade=worst_grade,
        best_grade=best_grade,
        unreadable=unreadable or {},
    )

    def generation(metadata: Mapping[str, Any]) -> GradedAnswers:
        return replace(answers, protocol=_protocol(answers, metadata))

    def recount(task: TaskResult, rows: Rows) -> Recount:
        graded_answers = generation(task.metadata)
        return Recount(graded_answers.again, graded_answers.unfounded)

    return Benchmark(
        kind=name,
        title=title,
        scoring=Scoring(
            scores=_declared_scores(answers.scores),
            headlines=(headline,),
            keep=keep_verdict,
            recount=recount,
        ),
        data=Data(sources=tuple(sources), settings=("protocol",)),
        judging=Judging(generation, steps=(JudgedStep("grading answers", (), "all scores"),)),
        page=Page(lead=lead, samples=_samples(answers)),
        people=_people(answers, recount),
        order=order,
    )


class GradedTask(JudgedTask):
    """The lm_eval task of a graded benchmark, which a subclass names in ``declared``.

    The YAML names the data under ``dataset_path``: a table relative to the YAML, or a dataset of
    the Hub with ``dataset_kwargs`` for its options. ``metadata`` holds ``judge``, ``judge_store``
    and ``protocol``, and under ``rows`` the number of rows that the published data has.
    """

    reads = ("protocol", "rows")
    instructs = True

    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[Generation, Settings]:
        self._answers: GradedAnswers = self.declared.judging.generation(metadata)
        self._dataset = dict(config)
        own = {"doc_to_text": "text", "doc_to_target": "reference"}
        return self._answers, Settings(own, self._answers.about)

    def read_documents(self) -> list[dict[str, Any]]:
        """Read the questions and references.

        Raises:
            DataError: The data cannot be read, a row lacks a text, or rows are missing.
        """
        records, about = _read_records(self._dataset)
        self.config.metadata["data"] = about
        documents = []
        for number, (location, values) in enumerate(records):
            question = _text_in(values, self._answers.question_column, location)
            reference = _text_in(values, self._answers.reference_column, location)
            documents.append(
                {
                    "index": str(number),
                    "question": question,
                    "reference": reference,
                    "topic": str(values.get("topic") or ""),
                    "text": question,
                }
            )
        expected = self.config.metadata.get("rows")
        if expected and len(documents) != int(expected):
            raise DataError(
                f"{self.config.task}: found {len(documents):,} rows, expected {int(expected):,} as"
                " published; name the published data, or leave out metadata.rows for data of your"
                " own"
            )
        return documents

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        (verdict,) = results
        return self._answers.row_metrics(verdict)


def _protocol(answers: GradedAnswers, metadata: Mapping[str, Any]) -> str:
    """The protocol of a task.

    Raises:
        ConfigError: There is no such protocol.
    """
    protocol = str(metadata.get("protocol") or PAPER)
    known = (PAPER, *answers.unreadable)
    if protocol not in known:
        raise ConfigError(
            f"{answers.name}: metadata.protocol: found {protocol!r}, expected one of"
            f" {', '.join(known)}"
        )
    return protocol


def _declared_scores(scores: Sequence[GradeScore]) -> tuple[Score, ...]:
    """The scores with their worst and best cases, and the count of unscored answers."""
    declared = []
    for score in scores:
        shown = Score(score.name, MEAN, score.measure, score.label, note=score.note)
        declared += [shown, *shown.bounds()]
    declared.append(Score("unscored", Aggregation(how_many), higher=False))
    return tuple(declared)


def _read_records(
    config: Mapping[str, Any],
) -> tuple[list[tuple[str, Mapping[str, Any]]], dict[str, Any]]:
    """The rows that a YAML names, each with its place, and what results say of the data.

    Raises:
        ConfigError: The YAML names no data, or a file that does not exist.
        DataError: The data cannot be read.
    """
    task, path = config.get("task"), str(config.get("dataset_path") or "")
    if not path:
        raise ConfigError(f"{task}: dataset_path is missing; name a table or a dataset of the Hub")
    if path.endswith(tuple(FORMATS)):
        file = own_data(config, "a table with a column of questions and one of answers")
        assert file is not None
        table = read_table(file)
        if table.problems:
            raise DataError("\n".join(table.problems))
        records = [(record.location, record.values) for record in table.records]
        return records, {"file": file.name, "git_blob": blob_id(file), "is_published": False}
    return _read_from_hub(task, path, config)


def _read_from_hub(
    task: Any, path: str, config: Mapping[str, Any]
) -> tuple[list[tuple[str, Mapping[str, Any]]], dict[str, Any]]:
    """The rows of a dataset of the Hub: of the split that the YAML names, or of its only split."""
    import datasets

    try:
        loaded = datasets.load_dataset(
            path, config.get("dataset_name"), **(config.get("dataset_kwargs") or {})
        )
    except Exception as error:  # the loader raises many kinds of error, most without the name
        raise DataError(
            f"{task}: dataset {path!r} cannot be loaded: {error}. Without a network, download its"
            " table elsewhere and name the file under dataset_path"
        ) from error
    splits = list(loaded)
    split = str(config.get("test_split") or "test")
    if split not in splits and len(splits) > 1:
        raise DataError(f"{task}: test_split: found {split!r}, expected one of {', '.join(splits)}")
    rows = loaded[split if split in splits else splits[0]]
    records = [(f"{path}, row {number}", row) for number, row in enumerate(rows, start=1)]
    return records, {"dataset": path, "fingerprint": rows._fingerprint}


def _text_in(values: Mapping[str, Any], column: str, location: str) -> str:
    """The text in a column of a row.

    Raises:
        DataError: There is no such column, or it is empty.
    """
    if column not in values:
        raise DataError(
            f"{location}: no column {column!r}; expected it among {', '.join(map(repr, values))}"
        )
    text = str(values[column] if values[column] is not None else "").strip()
    if not text:
        raise DataError(f"{location}: the column {column!r} is empty; expected a text")
    return text


def _samples(answers: GradedAnswers) -> Samples:
    """How the report shows the answers."""

    def row(result: TaskResult, sample: Sample) -> SampleRow:
        doc, verdict = sample["doc"], verdict_of(sample)
        grade = verdict["grade"]
        parts = {}
        for score in answers.scores:
            outcome = score.outcome(grade, doc["index"])
            if outcome is not None:
                parts[score.name] = (float(outcome) * outcome.weight, float(outcome.weight))
        outcomes = {answers.best_grade: "right", answers.worst_grade: "wrong", None: "unscored"}
        return SampleRow(
            key=key_of(sample, doc["question"]),
            cluster=str(doc["index"]),
            title=snippet(doc["question"]),
            doc={key: doc[key] for key in ("question", "reference")} | {"id": doc["index"]},
            outcome=outcomes.get(grade, "none"),
            margin=None,
            facets=[doc["topic"]] if doc["topic"] else [],
            detail={
                "answer": responses_of(sample)[0],
                "grade": grade or verdict["unscored"],
                "judge": "\n".join(verdict["outputs"]),
            },
            parts=parts,
        )

    words = (answers.best_grade, answers.worst_grade)
    others = [grade for grade in answers.grades if grade not in words]
    shown_words = [grade.lower().replace("_", " ") for grade in (*words, *others)]
    return Samples(
        row,
        (shown_words[0], shown_words[1], "unscored", ", ".join(shown_words[2:]) or "other"),
        facet="Topic",
        is_partition=True,
        right="Answers graded " + shown_words[0],
    )


def _people(answers: GradedAnswers, recount: Any) -> People:
    """What people are asked in the judge's place: the grade of each answer."""
    goodness = {answers.best_grade: True, answers.worst_grade: False}
    options = tuple(
        Option(grade, grade.lower().replace("_", " "), str(key), goodness.get(grade))
        for key, grade in enumerate(answers.grades, start=1)
    )
    question = Question(
        "grade", "Which grade does the answer deserve, going by the reference?", options
    )

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        doc = sample["doc"]
        context = (("Question", doc["question"]), ("Reference", doc["reference"]))
        judged = verdict_of(sample)["grade"]
        return [Item("grade", "grade", responses_of(sample)[0], context, judged)]

    def change(result: TaskResult, sample: Sample, people_answers: Answers) -> Mapping[str, Any]:
        grade = people_answers["grade"]
        output = json.dumps({"reason": "", "grade": grade})
        verdict = {**verdict_of(sample), "grade": grade, "unscored": None, "outputs": [output]}
        return as_verdict(verdict)

    return People((question,), items, relabelling(items, change, recount))
