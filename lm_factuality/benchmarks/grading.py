"""The method by which a judge grades answers to questions, and the scores that follow from grades.

`lm_factuality.benchmarks.graded` declares benchmarks with this method.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, get_args

from pydantic import BaseModel

from judges.answers import Answer
from judges.judge import Judge
from judges.typed import ParsedReply, Reply, read_reply
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.declaration import ACCURACY, Score, ScoreRange, worst_and_best_of
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.scores.statistics import MEAN, Aggregation, Outcome, count_present

PAPER = "paper"
"""The protocol in which an answer is unscored if the judge's reply cannot be read."""


@dataclass(frozen=True)
class GradeScore:
    """A score that is computed from the grades: how many of some answers have a certain grade."""

    score: Score

    grade: str
    """The grade that is counted, such as ``CORRECT``."""

    out_of: tuple[tuple[str, ...], ...]
    """The grades of the answers that it is counted among.

    There is one tuple of grades for each share of which the score is the harmonic mean.
    """

    def outcome(self, given_grade: str | None, cluster: str) -> Outcome | None:
        """Return what one answer adds to the score.

        Args:
            given_grade: The grade of the answer, or None if it is unscored.
            cluster: The cluster of the answer for standard errors.

        Returns:
            1 for the counted grade and 0 for others, weighted by the number of shares that the
            answer is part of. None if it is part of none.
        """
        # An answer that was not attempted is in the share of all answers only, for example.
        num_shares = sum(given_grade in grades for grades in self.out_of)
        if num_shares == 0:
            return None
        return Outcome(float(given_grade == self.grade), cluster, num_shares)


def grade_share(
    name: str, label: str, grade: str, out_of: Sequence[str], note: str = ""
) -> GradeScore:
    """Declare the share of answers that have a grade, out of the answers with one of some grades.

    Args:
        name: The name of the score in results files.
        label: Its name in tables.
        grade: The grade that is counted, such as ``CORRECT``.
        out_of: The grades of all answers that the share is computed from.
        note: An explanation that tables show.
    """
    return GradeScore(Score(name, MEAN, ACCURACY, label, note=note), grade, (tuple(out_of),))


def harmonic_mean_of_shares(
    name: str,
    label: str,
    shares: Sequence[GradeScore],
    value_range: ScoreRange,
    note: str = "",
) -> GradeScore:
    """Declare the harmonic mean of shares that count the same grade.

    The harmonic mean of ``n/a`` and ``n/b`` is ``2n / (a + b)``, a ratio of two sums over answers.
    An answer therefore has the weight 2 if both shares are computed from it: the result lists its
    grade in both tuples of ``out_of``, and `GradeScore.outcome` counts the tuples.

    Args:
        name: The name of the score in results files.
        label: Its name in tables.
        shares: The shares, made by `grade_share`. All count the same grade.
        value_range: The values that the score can have.
        note: An explanation that tables show.
    """
    score = Score(name, MEAN, value_range, label, note=note)
    out_of = chain.from_iterable(share.out_of for share in shares)
    return GradeScore(score, shares[0].grade, tuple(out_of))


class GradedDocument(BaseModel):
    """The part of a document that the judge needs."""

    index: str
    question: str
    reference: str


@dataclass(frozen=True, kw_only=True)
class GradedAnswers(JudgedMethod):
    """The method that grades each answer by a reference.

    A record holds the ``grade`` or the reason why the answer is ``unscored``, and under ``outputs``
    the judge's reply.
    """

    name: str
    """The kind of the benchmark in results files. Its folder has the same name."""

    question: str
    """The column of the data that holds the question."""

    reference: str
    """The column that holds the reference answer."""

    prompt: str
    """The judge's prompt, such as ``simpleqa/grade``.

    Its variables are ``question``, ``reference`` and ``answer``.
    """

    reply: type[Reply]
    """The form of the judge's reply. The literal type of its field ``grade`` lists all grades."""

    grade_scores: Sequence[GradeScore]
    """The scores that follow from the grades, in the order of tables."""

    worst_grade: str
    """The grade that unscored answers have in the worst case."""

    best_grade: str
    """The grade that unscored answers have in the best case."""

    unreadable_grade_by_protocol: Mapping[str, str] = field(default_factory=dict)
    """The grade of an answer if the judge's reply cannot be read, by the name of the protocol.

    In the protocol ``paper``, and in others that are not listed, the answer is unscored.
    """

    protocol: str = PAPER

    required_kinds = ("grade",)
    document_model: ClassVar[type] = GradedDocument

    def __post_init__(self) -> None:
        """Check the protocol.

        Raises:
            ConfigError: The benchmark has no such protocol.
        """
        # The protocol of the paper always exists.
        protocols = (PAPER, *self.unreadable_grade_by_protocol)
        if self.protocol not in protocols:
            raise ConfigError(
                f"{self.name}: metadata.protocol: found {self.protocol!r}, expected one of"
                f" {', '.join(protocols)}"
            )

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """The name of the judge's only prompt."""
        return (self.prompt,)

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores with their worst and best cases, and the count of unscored answers."""
        scores = []
        for grade_score in self.grade_scores:
            scores += [grade_score.score, *grade_score.score.worst_and_best()]
        return (*scores, Score("unscored", Aggregation(count_present), higher_is_better=False))

    @property
    def recorded_settings(self) -> dict[str, str]:
        """The settings of the method that results files record."""
        return {"protocol": self.protocol}

    @property
    def grades(self) -> tuple[str, ...]:
        """Every grade that a reply can give, in the order of its declaration."""
        return get_args(self.reply.model_fields["grade"].annotation)

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        """Ask the judge to grade each response.

        Args:
            judge: The judge.
            docs: The documents with question and reference.
            responses: The response to each document, in a sequence of one.

        Returns:
            A record for each document. Responses whose thinking never ended are unscored.
        """
        question_by_index = {}
        for index, (doc, (response,)) in enumerate(zip(docs, responses, strict=True)):
            question = _question_variables(doc, response)
            # A response has no question if the model's thinking never ended.
            if question is not None:
                question_by_index[index] = question
        # All questions are asked in one batch, which a judge on a server answers in parallel.
        questions = list(question_by_index.values())
        replies = judge.ask_typed(self.prompt, self.reply, questions, "grading answers", samples=1)

        # The records of responses without a question stay as they are here.
        records = [self.unscored_record(doc, (), UNFINISHED) for doc in docs]
        # One sample was asked for, so each question has one reply.
        for index, (reply,) in zip(question_by_index, replies, strict=True):
            grade = self.grade_of_reply(reply)
            problem = None if grade else reply.problem
            outputs = [] if reply.answer.text is None else [reply.answer.text]
            records[index] = _record(docs[index], grade, problem, outputs)
        return records

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        """Make the record of an answer without a grade.

        Args:
            doc: The document.
            responses: The responses to it, which the record does not hold.
            reason: Why there is no grade.
        """
        return _record(doc, None, reason, [])

    def summary_counts(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Count the responses, the unscored ones by reason, and how often each grade was given."""
        num_by_grade = Counter(record["grade"] for record in records)
        # Grades that were never given are shown as 0.
        grades = {grade: num_by_grade[grade] for grade in self.grades}
        return {**super().summary_counts(docs, records), "grades": grades}

    def row_metrics(self, doc: Doc, record: Verdict) -> JsonObject:
        """Compute what an answer adds to each score, and to its worst and best case.

        Args:
            doc: The document.
            record: The record of the answer, with its ``grade`` or the reason for having none.

        Returns:
            The outcomes by the name of the score, and the reason under ``unscored``.
        """
        cluster = str(record["index"])
        grade = record["grade"]
        metrics: JsonObject = {"unscored": record["unscored"]}
        for grade_score in self.grade_scores:
            name = grade_score.score.name
            metrics[name] = grade_score.outcome(grade, cluster)
            # An unscored answer has no grade. In the worst case, it counts as one with the worst
            # grade, and in the best case as one with the best grade.
            metrics |= worst_and_best_of(
                name,
                worst=grade_score.outcome(grade or self.worst_grade, cluster),
                best=grade_score.outcome(grade or self.best_grade, cluster),
            )
        return metrics

    def check_record(self, doc: Doc, record: Verdict) -> None:
        """Check that a record from a file has either a grade or a reason, and one output at most.

        Raises:
            ValueError: The record has both a grade and a reason, or neither, an unknown grade, or
                several outputs.
        """
        grade = record["grade"]
        reason = record["unscored"]
        if grade is not None and grade not in self.grades:
            raise ValueError(f"found the grade {grade!r}, expected one of {', '.join(self.grades)}")
        # Only an answer without a grade has a reason for being unscored.
        has_grade = grade is not None
        has_reason = isinstance(reason, str)
        if has_grade == has_reason:
            raise ValueError(f"found the grade {grade!r} and the reason {reason!r}")
        if len(record["outputs"]) > 1:
            raise ValueError(f"{len(record['outputs'])} outputs of the judge, expected one")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], record: Verdict) -> Verdict:
        """Read the grade again from the judge's output.

        Args:
            doc: The document.
            responses: The responses to it.
            record: The record, whose grade is replaced.
        """
        grade = None
        for output in record["outputs"]:
            grade = self.grade_of_reply(read_reply(Answer(output), self.reply, {}))
        return {**record, "grade": grade}

    def grade_of_reply(self, reply: ParsedReply[Any]) -> str | None:
        """Return the grade that a reply gives, or None if the answer stays unscored.

        If the reply cannot be read, the protocol decides. The protocol ``paper`` gives no grade,
        and ``unreadable_grade_by_protocol`` has the grade of each other protocol.
        """
        if reply.value is not None:
            return str(reply.value.grade)
        # A judge that failed to answer at all gives no grade in any protocol.
        if reply.answer.text is None or reply.answer.error is not None:
            return None
        # The protocol "paper" is not in the mapping, so its answers stay unscored.
        return self.unreadable_grade_by_protocol.get(self.protocol)

    def people_items(self, doc: Doc, record: Verdict, response: str) -> list[Item]:
        """Return the one question that people answer about a response: its grade.

        Args:
            doc: The document with question and reference.
            record: The judge's record.
            response: The response to grade.
        """
        item = Item(
            id="grade",
            question="grade",
            text=response,
            context=(("Question", doc["question"]), ("Reference", doc["reference"])),
            judge=record["grade"],
        )
        return [item]

    def relabel_record(self, doc: Doc, record: Verdict, answers: Sequence[str]) -> Verdict:
        """Return the record that a judge would have given with the grade that people chose.

        Args:
            doc: The document.
            record: The judge's record.
            answers: The grade, in a sequence of one.
        """
        # People answer exactly one question about each response.
        (grade,) = answers
        # A record that people made is read like one of a judge.
        output = json.dumps({"reason": "", "grade": grade})
        return _record(doc, grade, None, [output])


def _question_variables(doc: Doc, response: str) -> JsonObject | None:
    """Return the variables of the judge's prompt about one response.

    They do not contain the model's thinking. None means that its thinking never ended, so that
    there is no answer to grade.
    """
    answer = without_thinking(response)
    if answer is None:
        return None
    return {
        "kind": "grade",
        "question": doc["question"],
        "reference": doc["reference"],
        "answer": answer.strip(),
    }


def _record(
    doc: Doc, grade: str | None, unscored_reason: str | None, outputs: list[str]
) -> Verdict:
    """Make the record of a graded or unscored answer, which samples hold as JSON."""
    return {"index": doc["index"], "grade": grade, "unscored": unscored_reason, "outputs": outputs}
