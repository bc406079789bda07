"""How a judge grades answers to questions, and which scores follow from the grades.

`lm_factuality.benchmarks.graded` declares a benchmark of this kind in one call.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from pydantic import BaseModel

from judges.answers import Answer
from judges.judge import Judge
from judges.typed import ParsedReply, Reply, read_reply
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.declaration import ACCURACY, Score, ScoreRange, worst_and_best_of
from lm_factuality.benchmarks.judged import JudgedMethod, ask_where_present
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.scores.statistics import MEAN, Aggregation, Outcome, how_many

PAPER = "paper"
"""The protocol in which an answer without a readable grade is unscored."""


@dataclass(frozen=True)
class GradeScore:
    """A score that follows from how often each grade was given."""

    score: Score

    grade: str
    """The grade that is counted."""

    out_of: tuple[tuple[str, ...], ...]
    """The grades that make up the whole, once for each share that is averaged."""

    def outcome(self, given_grade: str | None, cluster: str) -> Outcome | None:
        """What one answer adds to the score.

        Args:
            given_grade: The grade of the answer, or None if it is unscored.
            cluster: What the standard error is clustered by.

        Returns:
            The part of the whole that is counted, weighted by that whole, or None if the answer
            is not part of the score.
        """
        whole = sum(given_grade in grades for grades in self.out_of)
        return Outcome(float(given_grade == self.grade), cluster, whole) if whole else None


def grade_share(
    name: str, label: str, grade: str, out_of: Sequence[str], note: str = ""
) -> GradeScore:
    """Declare the share of answers that have a grade, out of those with one of several grades."""
    return GradeScore(Score(name, MEAN, ACCURACY, label, note=note), grade, (tuple(out_of),))


def harmonic_mean_of_shares(
    name: str, label: str, of: Sequence[GradeScore], measure: ScoreRange, note: str = ""
) -> GradeScore:
    """The harmonic mean of shares that count the same grade.

    The harmonic mean of ``n/a`` and ``n/b`` is ``2n / (a + b)``, a ratio of two sums over answers.
    Each answer therefore weighs as many times as it is part of the whole of a share.
    """
    wholes = tuple(grades for part in of for grades in part.out_of)
    return GradeScore(Score(name, MEAN, measure, label, note=note), of[0].grade, wholes)


class GradedDocument(BaseModel):
    """What a judge needs of a document."""

    index: str
    question: str
    reference: str


@dataclass(frozen=True, kw_only=True)
class GradedAnswers(JudgedMethod):
    """Grades each answer by a reference.

    A record has the ``grade`` or the reason why the answer is ``unscored``, and the judge's
    ``outputs``.
    """

    name: str
    """What results call the benchmark. Its folder has the same name."""

    question: str
    """The column of the data that holds the question."""

    reference: str
    """The column that holds the reference answer."""

    prompt: str
    """The judge's prompt, such as ``simpleqa/grade``. It reads ``question``, ``reference`` and
    ``answer``."""

    reply: type[Reply]
    """The judge's reply. Its field ``grade`` is a literal type that lists all grades."""

    grade_scores: Sequence[GradeScore]
    """What is computed from the grades, in the order of tables."""

    worst_grade: str
    """The grade that unscored answers have in the worst case."""

    best_grade: str
    """The grade that unscored answers have in the best case."""

    unreadable_grade_by_protocol: Mapping[str, str] = field(default_factory=dict)
    """By the name of a protocol, the grade of an answer for which the judge's reply cannot be
    read. In the protocol ``paper``, such an answer is unscored."""

    protocol: str = PAPER

    required_kinds = ("grade",)
    step_name = "grading"
    document_model: ClassVar[type] = GradedDocument

    def __post_init__(self) -> None:
        """Check the protocol.

        Raises:
            ConfigError: There is no such protocol.
        """
        protocols = (PAPER, *self.unreadable_grade_by_protocol)
        if self.protocol not in protocols:
            raise ConfigError(
                f"{self.name}: metadata.protocol: found {self.protocol!r}, expected one of"
                f" {', '.join(protocols)}"
            )

    @property
    def prompt_names(self) -> tuple[str, ...]:
        return (self.prompt,)

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores with their worst and best cases, and the count of unscored answers."""
        declared = []
        for part in self.grade_scores:
            declared += [part.score, *part.score.worst_and_best()]
        return (*declared, Score("unscored", Aggregation(how_many), higher_is_better=False))

    @property
    def recorded_settings(self) -> dict[str, str]:
        """The settings that results and commands repeat."""
        return {"protocol": self.protocol}

    @property
    def grades(self) -> tuple[str, ...]:
        """Every grade that a reply can give, in the order of its declaration."""
        return get_args(self.reply.model_fields["grade"].annotation)

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        replies = ask_where_present(
            [_subject(doc, response) for doc, (response,) in zip(docs, responses, strict=True)],
            lambda subjects: judge.ask_typed(
                self.prompt, self.reply, subjects, "grading answers", samples=1
            ),
        )
        records = []
        for doc, reply in zip(docs, replies, strict=True):
            if reply is None:
                records.append(self.unscored_record(doc, (), UNFINISHED))
                continue
            (typed,) = reply
            grade, problem = self.grade(typed)
            outputs = [] if typed.answer.text is None else [typed.answer.text]
            records.append(_record(doc, grade, problem, outputs))
        return records

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        return _record(doc, None, reason, [])

    def summary_counts(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        grades = Counter(verdict["grade"] for verdict in verdicts)
        return {
            **super().summary_counts(docs, verdicts),
            "grades": {grade: grades[grade] for grade in self.grades},
        }

    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        """What an answer adds to each score, and to its worst and best case."""
        cluster, grade = str(verdict["index"]), verdict["grade"]
        metrics: JsonObject = {"unscored": verdict["unscored"]}
        for part in self.grade_scores:
            name = part.score.name
            metrics[name] = part.outcome(grade, cluster)
            metrics |= worst_and_best_of(
                name,
                worst=part.outcome(grade or self.worst_grade, cluster),
                best=part.outcome(grade or self.best_grade, cluster),
            )
        return metrics

    def check_record(self, doc: Doc, verdict: Verdict) -> None:
        grade, reason = verdict["grade"], verdict["unscored"]
        if (grade is None) != isinstance(reason, str) or grade not in (None, *self.grades):
            raise ValueError(f"found the grade {grade!r} and the reason {reason!r}")
        if len(verdict["outputs"]) > 1:
            raise ValueError(f"{len(verdict['outputs'])} outputs of the judge, expected one")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        grade = None
        for text in verdict["outputs"]:
            grade, _ = self.grade(read_reply(Answer(text), self.reply, {}))
        return {**verdict, "grade": grade}

    def grade(self, typed: ParsedReply[Any]) -> tuple[str | None, str | None]:
        """The grade that a reply gives, or the reason why it gives none."""
        if typed.value is not None:
            return typed.value.grade, None
        is_unreadable = typed.answer.text is not None and typed.answer.error is None
        if is_unreadable and self.protocol in self.unreadable_grade_by_protocol:
            return self.unreadable_grade_by_protocol[self.protocol], None
        return None, typed.problem

    def people_items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        context = (("Question", doc["question"]), ("Reference", doc["reference"]))
        return [Item("grade", "grade", response, context, verdict["grade"])]

    def relabel_record(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        (grade,) = answers
        output = json.dumps({"reason": "", "grade": grade})
        return _record(doc, grade, None, [output])


def _subject(doc: Doc, response: str) -> JsonObject | None:
    """What the prompt is about; None if the model never ended thinking."""
    answer = without_thinking(response)
    if answer is None:
        return None
    return {
        "kind": "grade",
        "question": doc["question"],
        "reference": doc["reference"],
        "answer": answer.strip(),
    }


def _record(doc: Doc, grade: str | None, reason: str | None, outputs: list[str]) -> Verdict:
    return {"index": doc["index"], "grade": grade, "unscored": reason, "outputs": outputs}
