"""What benchmarks have in common whose responses a judge decides about.

A benchmark states its `JudgedMethod`, its scores and its page. `judged_benchmark` makes the
declaration out of these: how scores are found again from samples, and what people are asked.
"""

import abc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from judges.judge import Judge, Plan
from lm_factuality.benchmarks.asked import (
    SKIP,
    Answers,
    Item,
    People,
    Question,
    make_relabel,
    verdict_fields,
)
from lm_factuality.benchmarks.certifiable import JudgedStep
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    JudgeRole,
    KeptRow,
    KeptRows,
    Rescorer,
    Sample,
    Score,
    Scoring,
    confidence_interval,
    find_score,
)
from lm_factuality.ground.console import counted
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import (
    Doc,
    Docs,
    JsonObject,
    Responses,
    Table,
    Verdict,
)
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs, keep_verdict, responses_of, verdict_of
from lm_factuality.scores.statistics import defined

Subject = TypeVar("Subject")
Reply = TypeVar("Reply")


class JudgedMethod(abc.ABC):
    """How a judge decides about responses, and what follows from a record of its decisions."""

    name: str = ""
    required_kinds: Sequence[str] = ()
    """The kinds of questions without an answer to which nothing gets a verdict."""

    step_name: ClassVar[str] = "marking"
    """What a dry run calls all questions to the judge."""

    document_model: ClassVar[type]
    """The pydantic model of what the method needs of a document."""

    identity_keys: ClassVar[Sequence[str]] = ("index",)
    """The keys that a document and the record on it have alike."""

    @property
    @abc.abstractmethod
    def scores(self) -> Sequence[Score]:
        """Every number that follows from the records."""

    def document_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Say what is wrong with a document or its responses, or return None."""
        try:
            to_model(self.document_model, doc)
        except ValueError as error:
            return f"'doc': {error}; is this a sample of {self.name}?"
        return self.responses_problem(doc, responses)

    def responses_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Say what is wrong with the responses to a sound document. By default, there is one."""
        return None if len(responses) == 1 else f"found {len(responses)} responses, expected one"

    @property
    @abc.abstractmethod
    def prompt_names(self) -> Sequence[str]:
        """The prompts that the judge is asked with, whose hashes belong to the results."""

    @abc.abstractmethod
    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        """Return a JSON-able record for each document.

        Each has ``unscored``: the reason why there is no verdict, or None.
        """

    @abc.abstractmethod
    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        """Return the record of a document on which there is no verdict at all for a reason."""

    def plan_questions(
        self, judge: Judge, docs: Docs, responses: Responses
    ) -> list[tuple[str, Plan]]:
        work = partial(self.judge, docs=docs, responses=responses)
        return [(self.step_name, judge.plan(work))]

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        """Return the figures of all scores (see `score_figures`), and the counts beside them."""
        rows = [self.row_metrics(doc, verdict) for doc, verdict in zip(docs, verdicts, strict=True)]
        return {**score_figures(rows, self.scores), **self.summary_counts(docs, verdicts)}

    def summary_counts(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        """Return numbers that are no scores, or mappings of them, by what tables call them.

        By default, these are the number of responses, and the reasons why some are unscored.
        """
        return {
            "responses": len(verdicts),
            "unscored": count_reasons(row["unscored"] for row in verdicts),
        }

    def summary_table(self, summary: Mapping[str, Any]) -> Table:
        return figures_table(summary, self.scores)

    @abc.abstractmethod
    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        """Return what a record adds to each score."""

    def check_record(self, doc: Doc, verdict: Verdict) -> None:  # noqa: B027  optional
        """Check a record from a file.

        Raises:
            ValueError: No judge can have decided so.
        """

    @abc.abstractmethod
    def rebuild_record(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        """Return the record as it follows from the responses and from what the judge wrote.

        What only the judge can know is taken from ``verdict``.
        """

    @abc.abstractmethod
    def people_items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        """Return what people are asked in the judge's place."""

    @abc.abstractmethod
    def relabel_record(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        """Return the record if people had been the judge, by their answers to the items."""

    def rescore_row(self, row: KeptRow) -> JsonObject:
        """Score a kept row again.

        Raises:
            ValueError: The record is on another document, or no judge can have decided so.
        """
        doc, verdict = row["doc"], row["verdict"]
        belongs(all(verdict[key] == doc[key] for key in self.identity_keys))
        self.check_record(doc, verdict)
        return self.row_metrics(doc, verdict)

    def record_problem(self, row: KeptRow) -> str | None:
        """Say what of a record does not follow from the responses, if anything."""
        verdict = row["verdict"]
        for key, value in self.rebuild_record(row["doc"], row["responses"], verdict).items():
            if verdict[key] != value:
                return f"its {key!r} does not follow from the response and what the judge wrote"
        return None


def judged_benchmark(
    method_of: Callable[[Mapping[str, Any]], JudgedMethod],
    steps: Sequence[JudgedStep],
    questions: Iterable[Question],
    headline: str,
    scoring: Mapping[str, Any] | None = None,
    prompts: Path | None = None,
    optional: str = "",
    unaffected_scores: tuple[str, ...] = (),
    **parts: Any,
) -> Benchmark:
    """Declare a benchmark whose responses a judge decides about.

    Args:
        method_of: Makes the method from the metadata of a task.
        steps: The decisions of the judge.
        questions: What people are asked in the judge's place.
        headline: The name of the score that the benchmark is about.
        scoring: Other fields of `Scoring`.
        prompts: The folder of the judge's prompts, for benchmarks outside this package.
        optional: The kind of question that people may leave out.
        unaffected_scores: The scores that no answer of people changes.
        **parts: Other fields of `Benchmark`.
    """
    method = method_of({})

    def method_of_run(result: TaskResult) -> JudgedMethod:
        # Only the judge needs the pages, and results have no path to them.
        return method_of({**result.metadata, "knowledge": None})

    def recount(task: TaskResult, rows: KeptRows) -> Rescorer:
        of_task = method_of_run(task)
        return Rescorer(of_task.rescore_row, of_task.record_problem)

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        response = next(iter(responses_of(sample)), "")
        return method_of_run(result).people_items(sample["doc"], verdict_of(sample), response)

    def change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
        texts = [answers.get(item.id, SKIP) for item in items(result, sample)]
        of_task = method_of_run(result)
        return verdict_fields(of_task.relabel_record(sample["doc"], verdict_of(sample), texts))

    relabel = make_relabel(items, change, recount, optional=optional)

    scores = tuple(method.scores)
    return Benchmark(
        kind=method.name,
        scoring=Scoring(scores, (headline,), keep_verdict, recount, **(scoring or {})),
        judging=JudgeRole(method_of, tuple(steps), prompts),
        people=People(tuple(questions), items, relabel, unaffected_scores=unaffected_scores),
        **parts,
    )


def score_figures(rows: Sequence[Mapping[str, Any]], scores: Sequence[Score]) -> JsonObject:
    """Return every score that has a standard error, as JSON. What is not defined is null.

    Args:
        rows: What each record adds to each score, by the score's name.
        scores: The scores of the benchmark.

    Returns:
        By the name of the score its ``value``, ``stderr``, 95% ``interval``, the number of ``rows``
        with a part in it, and ``worst`` and ``best`` where the benchmark declares them.
    """
    figures: JsonObject = {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        score = find_score(scores, name)
        if score is None or score.aggregation.stderr is None:
            continue
        values = [row[name] for row in rows if row.get(name) is not None]
        value = score.aggregation.value(values)
        stderr = score.aggregation.stderr(values)
        if score.aggregation.interval is None:
            ends = confidence_interval(score.value_range, value, stderr, len(values))
        else:
            ends = score.aggregation.interval(values)
        figure = {"value": defined(value), "stderr": defined(stderr), "interval": ends}
        for end in ("worst", "best"):
            bound = find_score(scores, f"{name}_{end}")
            # A score such as f1_at_* stands for this name too, but is no bound.
            if bound is not None and bound.name == f"{name}_{end}":
                figure[end] = defined(bound.aggregation.value([row[bound.name] for row in rows]))
        figures[name] = {**figure, "rows": score.aggregation.rows(values)}
    return figures


def figures_table(summary: Mapping[str, Any], scores: Sequence[Score]) -> Table:
    """Return a table of the figures in a summary, and notes of the counts beside them.

    Args:
        summary: What `JudgedMethod.summarise` returns.
        scores: The scores of the benchmark.
    """
    rows = []
    notes = []
    for name, entry in summary.items():
        score = find_score(scores, name)
        if score is not None and isinstance(entry, Mapping) and "value" in entry:
            value = score.format_value(entry["value"])
            interval = score.format_interval(*entry["interval"]) if entry["interval"] else "-"
            bounds = [score.format_value(entry[end]) for end in ("worst", "best") if end in entry]
            label = replace(score, label=score.label or name).title_with_unit
            rows.append((label, value, interval, str(entry["rows"]), " / ".join(bounds)))
        elif entry:
            counts = entry
            if isinstance(entry, Mapping):
                counts = counted(entry)
            elif isinstance(entry, list):
                counts = "; ".join(map(str, entry))
            notes.append(f"{name.replace('_', ' ').capitalize()}: {counts}.")
    return ("score", "#value", "#95% interval", "#rows", "#worst / best"), rows, notes


def count_reasons(reasons: Iterable[str | None]) -> dict[str, int]:
    """Return how often each reason is given, the commonest first; None is no reason."""
    return dict(Counter(reason for reason in reasons if reason is not None).most_common())


def ask_where_present(
    subjects: Sequence[Subject | None], ask: Callable[[list[Subject]], Iterable[Reply]]
) -> list[Reply | None]:
    """Ask about the subjects that are not None, all at once.

    Returns:
        The replies in the order of the subjects, with None where there was nothing to ask.
    """
    present = [subject for subject in subjects if subject is not None]
    replies = iter(ask(present) if present else ())
    return [None if subject is None else next(replies) for subject in subjects]
