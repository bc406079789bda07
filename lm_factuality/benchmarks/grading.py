"""How a judge grades answers to questions, and which scores follow from the grades.

`lm_factuality.benchmarks.graded` declares a benchmark of this kind in one call.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel

from judges.answers import Answer
from judges.judge import Judge, Plan
from judges.typed import Reply, Typed, read_reply
from lm_factuality.benchmarks.declaration import ACCURACY, Measure, Row, bounds_of
from lm_factuality.ground.console import counted, shown
from lm_factuality.ground.records import to_model
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Docs, Table, Verdict
from lm_factuality.harness.samples import belongs
from lm_factuality.scores.statistics import Outcome, clustered_stderr, defined, mean

PAPER = "paper"
"""The protocol in which an answer without a readable grade is unscored."""

_BOUNDS = ("worst", "best")


@dataclass(frozen=True)
class GradeScore:
    """A score that follows from how often each grade was given."""

    name: str
    label: str
    of: str
    """The grade that is counted."""

    among: tuple[tuple[str, ...], ...]
    """The grades that make up the whole, once for each share that is averaged."""

    measure: Measure = ACCURACY
    note: str = ""

    def outcome(self, grade: str | None, cluster: str) -> Outcome | None:
        """What one answer adds to the score.

        Args:
            grade: The grade of the answer, or None if it is unscored.
            cluster: What the standard error is clustered by.

        Returns:
            The part of the whole that is counted, weighted by that whole, or None if the answer
            is not part of the score.
        """
        whole = sum(grade in grades for grades in self.among)
        if whole == 0:
            return None
        return Outcome(float(grade == self.of), cluster, whole)


def share(name: str, label: str, of: str, among: Sequence[str], note: str = "") -> GradeScore:
    """The share of answers with the grade ``of`` among those with one of the grades ``among``."""
    return GradeScore(name, label, of, (tuple(among),), note=note)


def harmonic_mean(
    name: str, label: str, of: Sequence[GradeScore], measure: Measure, note: str = ""
) -> GradeScore:
    """The harmonic mean of shares that count the same grade.

    The harmonic mean of ``n/a`` and ``n/b`` is ``2n / (a + b)``, a ratio of two sums over answers.
    Each answer therefore weighs as many times as it is part of the whole of a share.
    """
    (counted_grade,) = {part.of for part in of}
    wholes = tuple(grades for part in of for grades in part.among)
    return GradeScore(name, label, counted_grade, wholes, measure, note)


class _Document(BaseModel):
    """What a judge needs of a document."""

    index: str
    question: str
    reference: str


@dataclass(frozen=True)
class GradedAnswers:
    """Grades each answer by a reference (a `lm_factuality.harness.generation.Generation`).

    A document has an ``index``, a ``question`` and a ``reference``, and one response. A record has
    the ``grade`` or the reason why the answer is ``unscored``, and the judge's ``outputs``.
    """

    name: str
    question_column: str
    reference_column: str
    prompt: str
    reply: type[Reply]
    scores: tuple[GradeScore, ...]
    worst_grade: str
    best_grade: str
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """By protocol, the grade of an answer for which the judge's reply cannot be read."""

    protocol: str = PAPER

    kinds: ClassVar[tuple[str, ...]] = ("grade",)

    @property
    def prompt_names(self) -> tuple[str, ...]:
        return (self.prompt,)

    @property
    def about(self) -> dict[str, str]:
        """The settings that results and commands repeat."""
        return {"protocol": self.protocol}

    @property
    def grades(self) -> tuple[str, ...]:
        """Every grade that a reply can give, in the order of its declaration."""
        schema = self.reply.model_json_schema()["properties"]["grade"]
        return tuple(schema["enum"])

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            to_model(_Document, doc)
        except ValueError as error:
            return f"'doc': {error}; is this a sample of {self.name}?"
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    def plan(
        self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]
    ) -> list[tuple[str, Plan]]:
        subjects = [
            _subject(doc, texts[0])
            for doc, texts in zip(docs, responses, strict=True)
            if _is_finished(texts[0])
        ]
        return [("grading", judge.plan(self.prompt, subjects, samples=1, reply=self.reply))]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        answers = [texts[0] for texts in responses]
        finished = [place for place, answer in enumerate(answers) if _is_finished(answer)]
        subjects = [_subject(docs[place], answers[place]) for place in finished]
        replies = judge.ask_typed(self.prompt, self.reply, subjects, "grading answers", samples=1)
        reply_by_place = dict(zip(finished, replies, strict=True))

        records: list[Verdict] = []
        for place, doc in enumerate(docs):
            if place not in reply_by_place:
                records.append(self._record(doc, None, UNFINISHED, []))
                continue
            (typed,) = reply_by_place[place]
            grade, problem = self._grade(typed)
            outputs = [] if typed.answer.text is None else [typed.answer.text]
            records.append(self._record(doc, grade, problem, outputs))
        return records

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        return self._record(doc, None, reason, [])

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """The scores with standard errors and bounds, the grades, and the reasons without one."""
        rows = [self.row_metrics(verdict) for verdict in verdicts]
        summary: dict[str, Any] = {}
        for score in self.scores:
            outcomes = [row[score.name] for row in rows]
            bounds = {
                bound: defined(mean([row[f"{score.name}_{bound}"] for row in rows]))
                for bound in _BOUNDS
            }
            summary[score.name] = {
                "value": defined(mean(outcomes)),
                "stderr": defined(clustered_stderr(outcomes)),
                **bounds,
            }
        grades = Counter(verdict["grade"] for verdict in verdicts if verdict["grade"])
        reasons = Counter(verdict["unscored"] for verdict in verdicts if verdict["unscored"])
        return {
            **summary,
            "responses": len(verdicts),
            "grades": {grade: grades[grade] for grade in self.grades},
            "unscored": dict(reasons.most_common()),
        }

    def table(self, summary: Mapping[str, Any]) -> Table:
        rows = []
        for score in self.scores:
            figures = summary[score.name]
            bounds = f"{shown(figures['worst'])} / {shown(figures['best'])}"
            rows.append((score.label, shown(figures["value"]), bounds))
        notes = [f"Answers: {summary['responses']}; {counted(summary['grades'])}."]
        if summary["unscored"]:
            notes.append(f"Unscored: {counted(summary['unscored'])}.")
        return ("score", "#value", "#worst / best"), rows, notes

    def row_metrics(self, verdict: Verdict) -> dict[str, Any]:
        """What an answer adds to each score, and to its worst and best case."""
        cluster, grade = str(verdict["index"]), verdict["grade"]
        metrics: dict[str, Any] = {"unscored": verdict["unscored"]}
        for score in self.scores:
            metrics[score.name] = score.outcome(grade, cluster)
            worst, best = (
                score.outcome(grade or default, cluster)
                for default in (self.worst_grade, self.best_grade)
            )
            metrics |= bounds_of(score.name, worst, best)
        return metrics

    def again(self, row: Row) -> dict[str, Any]:
        """Score a kept row again.

        Raises:
            ValueError: The record is on another document, or its grade is none of the grades.
        """
        verdict = row["verdict"]
        belongs(verdict["index"] == row["doc"]["index"])
        grade, reason = verdict["grade"], verdict["unscored"]
        if (grade is None) != isinstance(reason, str) or grade not in (None, *self.grades):
            raise ValueError(f"found the grade {grade!r} and the reason {reason!r}")
        return self.row_metrics(verdict)

    def unfounded(self, row: Row) -> str | None:
        """Say what of a record does not follow from what the judge wrote, if anything."""
        verdict = row["verdict"]
        if not verdict["outputs"]:
            return None if verdict["grade"] is None else "it has a grade that no judge wrote"
        (text,) = verdict["outputs"]
        grade, _ = self._grade(read_reply(Answer(text), self.reply, {}))
        return None if grade == verdict["grade"] else "its grade is not what the judge wrote"

    def _grade(self, typed: Typed[Any]) -> tuple[str | None, str | None]:
        """The grade that a reply gives, or the reason why it gives none."""
        if typed.value is not None:
            return typed.value.grade, None
        is_unreadable = typed.answer.text is not None and typed.answer.error is None
        if is_unreadable and self.protocol in self.unreadable:
            return self.unreadable[self.protocol], None
        return None, typed.problem

    def _record(
        self, doc: Mapping[str, Any], grade: str | None, reason: str | None, outputs: list[str]
    ) -> Verdict:
        return {"index": doc["index"], "grade": grade, "unscored": reason, "outputs": outputs}


def _subject(doc: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """What the prompt is about."""
    return {
        "kind": "grade",
        "question": doc["question"],
        "reference": doc["reference"],
        "answer": (without_thinking(answer) or "").strip(),
    }


def _is_finished(answer: str) -> bool:
    """Whether the model came to an answer, and did not stop while it was thinking."""
    return without_thinking(answer) is not None
