"""The common part of benchmarks in which a judge decides about generated responses.

Such a benchmark implements `JudgedMethod` and calls `judged_benchmark`, which derives how saved
samples are scored again and how people can take the judge's place.
"""

import abc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from judges.judge import Judge, Plan
from lm_factuality.benchmarks.asked import (
    SKIP,
    Answers,
    Item,
    People,
    Question,
    Relabel,
    verdict_fields,
)
from lm_factuality.benchmarks.declaration import (
    Benchmark,
    JudgeRole,
    KeptRow,
    KeptRows,
    Rescorer,
    Sample,
    Score,
    Scoring,
    find_score,
    undeclared_score,
)
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
from lm_factuality.harness.samples import keep_verdict, responses_of, verdict_of
from lm_factuality.scores.statistics import none_if_nan


class JudgedMethod(abc.ABC):
    """How a judge decides about responses, and how scores follow from its records.

    A record (also called a verdict) is a JSON object with the judge's decisions about the responses
    to one document. It has the key ``unscored``: the reason why there is no decision, or None.
    """

    name: str = ""
    """The kind of the benchmark in results files."""

    required_kinds: Sequence[str] = ()
    """The kinds of questions that the judge must be able to answer."""

    document_model: ClassVar[type]
    """The pydantic model that documents have to match."""

    identity_keys: ClassVar[Sequence[str]] = ("index",)
    """The keys whose values are the same in a document and in its record."""

    added_keys: ClassVar[Sequence[str]] = ()
    """The keys of a record that records of earlier versions lack."""

    @property
    @abc.abstractmethod
    def scores(self) -> Sequence[Score]:
        """All scores that follow from the records."""

    def document_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Say what is wrong with a document from a file or with its responses, or return None."""
        try:
            # Samples of another task lack fields or have other types.
            to_model(self.document_model, doc)
        except ValueError as error:
            return f"'doc': {error}; is this a sample of {self.name}?"
        return self.responses_problem(doc, responses)

    def responses_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Say what is wrong with the responses to a valid document, or return None.

        By default, a document has exactly one response.
        """
        if len(responses) == 1:
            return None
        return f"found {len(responses)} responses, expected one"

    @property
    @abc.abstractmethod
    def prompt_names(self) -> Sequence[str]:
        """The names of the judge's prompts. Results contain a hash of each."""

    @abc.abstractmethod
    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        """Ask the judge about all responses.

        Args:
            judge: The judge.
            docs: The documents that the evaluated model responded to.
            responses: The responses to each document.

        Returns:
            A record for each document.
        """

    @abc.abstractmethod
    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        """Make the record of a document about which the judge decided nothing.

        Args:
            doc: The document.
            responses: The responses to it.
            reason: Why there is no decision, such as ``the judge is down``.
        """

    def plan_questions(
        self, judge: Judge, docs: Docs, responses: Responses
    ) -> list[tuple[str, Plan]]:
        """Plan the judge's questions for a dry run, without asking any.

        Returns:
            The name and the plan of each step that asks anything.
        """
        # A plan needs a function of the judge alone.
        ask = partial(self.judge, docs=docs, responses=responses)
        return list(judge.plan_steps(ask).items())

    def summarise(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Compute all scores of a run (see `score_figures`) and add its counts.

        Args:
            docs: All documents of the run.
            records: The record of each document.
        """
        rows = [self.row_metrics(doc, record) for doc, record in zip(docs, records, strict=True)]
        return {**score_figures(rows, self.scores), **self.summary_counts(docs, records)}

    def summary_counts(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Count what a summary shows next to the scores.

        By default, these are the responses, and the unscored ones by reason.

        Returns:
            Numbers, or mappings of numbers, by the name that tables show.
        """
        reasons = count_reasons(record["unscored"] for record in records)
        return {"responses": len(records), "unscored": reasons}

    def summary_table(self, summary: Mapping[str, Any]) -> Table:
        """Format the scores of a summary as a table for the terminal, and its counts as notes.

        Args:
            summary: The result of `summarise`.

        Returns:
            The columns, the rows and the notes. Columns that start with ``#`` hold numbers.

        Example:
            ``{"responses": 40, "unscored": {"refusal": 2}}`` gives the notes ``Responses: 40.`` and
            ``Unscored: 2 refusal.``
        """
        rows = []
        notes = []
        for name, content in summary.items():
            is_score = isinstance(content, Mapping) and "value" in content
            if is_score:
                rows.append(_format_score(self._labelled_score(name, summary), content))
            elif content:
                # An empty count, such as {} for no unscored responses, needs no note.
                title = name.replace("_", " ").capitalize()
                notes.append(f"{title}: {_format_summary_entry(content)}.")
        columns = ("score", "#value", "#95% interval", "#rows", "#worst / best")
        return columns, rows, notes

    def _labelled_score(self, name: str, summary: Mapping[str, Any]) -> Score:
        """Return a score with the label that the table of a summary shows, such as ``F1@64``."""
        score = find_score(self.scores, name) or undeclared_score(name)
        # A score that no other table shows has no label, so this table shows its name.
        labelled_score = replace(score, label=score.label or name)
        # Like the metadata of a run, a summary states the K of its scores.
        return labelled_score.with_k_label([summary])

    @abc.abstractmethod
    def row_metrics(self, doc: Doc, record: Verdict) -> JsonObject:
        """Compute what a record adds to each score, by the score's name."""

    def check_record(self, doc: Doc, record: Verdict) -> None:  # noqa: B027  optional
        """Check that a judge can have decided what a record from a file says.

        Raises:
            ValueError: The record contradicts itself or the document.
        """

    @abc.abstractmethod
    def rebuild_record(self, doc: Doc, responses: Sequence[str], record: Verdict) -> Verdict:
        """Derive a record again from the responses and the judge's output.

        Args:
            doc: The document.
            responses: The responses to it.
            record: The record, which holds the judge's output. Only this is taken from it.
        """

    @abc.abstractmethod
    def people_items(self, doc: Doc, record: Verdict, response: str) -> list[Item]:
        """Return the questions that people answer in the judge's place.

        Args:
            doc: The document.
            record: The judge's record, with whose decisions the answers are compared.
            response: The response to the document.
        """

    @abc.abstractmethod
    def relabel_record(self, doc: Doc, record: Verdict, answers: Sequence[str]) -> Verdict:
        """Return the record that a judge with people's answers would have given.

        Args:
            doc: The document.
            record: The judge's record.
            answers: The answer to each item of `people_items`, in order.
        """

    def rescore_row(self, row: KeptRow) -> JsonObject:
        """Compute the metrics of a saved sample again.

        Args:
            row: The sample's ``doc`` and ``verdict``.

        Raises:
            ValueError: The record is about another document or contradicts itself.
        """
        doc = row["doc"]
        record = row["verdict"]
        # A user can edit a samples file, and mix up the records of two rows.
        if any(record[key] != doc[key] for key in self.identity_keys):
            raise ValueError("the verdict is on another document or response")
        self.check_record(doc, record)
        return self.row_metrics(doc, record)

    def record_problem(self, row: KeptRow) -> str | None:
        """Say which part of a record does not follow from the judge's output, or return None.

        Args:
            row: The sample's ``doc``, ``verdict`` and ``responses``.
        """
        record = row["verdict"]
        rebuilt_record = self.rebuild_record(row["doc"], row["responses"], record)
        # A record may have further keys, which the judge's output does not determine.
        for key, value in rebuilt_record.items():
            is_of_earlier_version = key in self.added_keys and key not in record
            if is_of_earlier_version:
                continue
            # The first differing key is reported, because further differences often follow from it.
            if key not in record or record[key] != value:
                return f"its {key!r} does not follow from the response and what the judge wrote"
        return None


def judged_benchmark(
    role: JudgeRole,
    questions: Iterable[Question],
    headline: str,
    scoring: Mapping[str, Any] | None = None,
    optional_question: str = "",
    unaffected_scores: tuple[str, ...] = (),
    **benchmark_fields: Any,
) -> Benchmark:
    """Declare a benchmark in which a judge decides about responses.

    Args:
        role: The judge's method, with its steps and prompts.
        questions: The questions that people answer in the judge's place.
        headline: The name of the main score.
        scoring: Further fields of `Scoring`, such as ``count_rows``.
        optional_question: The name of the question that people need not answer.
        unaffected_scores: The names of the scores that no answer of people changes.
        **benchmark_fields: Further fields of `Benchmark`, such as ``title``.
    """
    # The declaration describes the method with its default settings.
    method = role.make_method({})
    samples = _JudgedSamples(role)
    relabel = Relabel(
        samples.people_items,
        samples.relabelled_fields,
        samples.make_rescorer,
        optional_question=optional_question,
    )
    return Benchmark(
        kind=method.name,
        scoring=Scoring(
            scores=tuple(method.scores),
            headlines=(headline,),
            keep_row=keep_verdict,
            make_rescorer=samples.make_rescorer,
            **(scoring or {}),
        ),
        judging=role,
        people=People(
            questions=tuple(questions),
            make_items=samples.people_items,
            relabel=relabel,
            unaffected_scores=unaffected_scores,
        ),
        **benchmark_fields,
    )


@dataclass(frozen=True)
class _JudgedSamples:
    """Scores the saved samples of a run again, and asks people about them."""

    role: JudgeRole
    """The judge's part in the benchmark, which makes the method of each run."""

    def _method_of_run(self, result: TaskResult) -> JudgedMethod:
        """Return the judge's method with the settings of a run."""
        # Results do not say where the pages of a knowledge source are, and only judges read them.
        method: JudgedMethod = self.role.make_method({**result.metadata, "knowledge": None})
        return method

    def make_rescorer(self, result: TaskResult, rows: KeptRows) -> Rescorer:
        """Return the functions that score and check a saved sample of a run.

        Args:
            result: The results of the task.
            rows: All rows of the run, which no judged benchmark needs.
        """
        method = self._method_of_run(result)
        return Rescorer(method.rescore_row, method.record_problem)

    def people_items(self, result: TaskResult, sample: Sample) -> list[Item]:
        """Return the questions that people answer about a sample in the judge's place."""
        # A sample without a response has questions about an empty text.
        responses = [*responses_of(sample), ""]
        return self._method_of_run(result).people_items(
            sample["doc"], verdict_of(sample), responses[0]
        )

    def relabelled_fields(
        self, result: TaskResult, sample: Sample, answers: Answers
    ) -> Mapping[str, Any]:
        """Return the fields of a sample that change with people's answers.

        Args:
            result: The results of the task.
            sample: The sample with the judge's record.
            answers: The chosen options, by the id of the item.
        """
        items = self.people_items(result, sample)
        # People need not answer optional questions, which then count as skipped.
        choices = [answers.get(item.id, SKIP) for item in items]
        method = self._method_of_run(result)
        record = method.relabel_record(sample["doc"], verdict_of(sample), choices)
        return verdict_fields(record)


def _format_score(score: Score, figure: Mapping[str, Any]) -> tuple[str, ...]:
    """Format a score as a row of a table.

    Args:
        score: The declared score.
        figure: Its figure from `score_figures`.

    Returns:
        The title, the value, the interval, the number of rows, and the worst and the best case,
        such as ``("precision, %", "61.3", "55.0 to 67.2", "40", "58.0 / 64.5")``.
    """
    interval = score.format_interval(*figure["interval"]) if figure["interval"] else "-"
    bounds = [score.format_value(figure[case]) for case in ("worst", "best") if case in figure]
    return (
        score.title_with_unit,
        score.format_value(figure["value"]),
        interval,
        str(figure["rows"]),
        " / ".join(bounds),
    )


def _format_summary_entry(entry: object) -> str:
    """Format an entry of a summary that is no score: a number, a list, or numbers by name.

    Example:
        ``{"refusal": 2, "no text": 1}`` gives ``refusal 2, no text 1``.
    """
    if isinstance(entry, Mapping):
        return ", ".join(f"{name} {number}" for name, number in entry.items())
    if isinstance(entry, list):
        return "; ".join(map(str, entry))
    return str(entry)


def score_figures(rows: Sequence[Mapping[str, Any]], scores: Sequence[Score]) -> JsonObject:
    """Compute the value and the uncertainty of each score that has a standard error.

    Args:
        rows: What each record adds to each score, by the score's name. None adds nothing.
        scores: The scores of the benchmark.

    Returns:
        A JSON object by the score's name, with its ``value``, ``stderr``, 95% ``interval`` and the
        number of ``rows`` that count, and ``worst`` and ``best`` where the benchmark declares them.
        A number that is not defined is None.
    """
    figures: JsonObject = {}
    # A row is a mapping, so chaining rows yields the names of all their scores. A dict keeps the
    # order in which they first occur, and drops repeated names.
    for name in dict.fromkeys(chain.from_iterable(rows)):
        score = find_score(scores, name)
        # Counts, and the worst and best cases, have no standard error.
        if score is None or score.aggregation.stderr is None:
            continue

        values = [row[name] for row in rows if row.get(name) is not None]
        # The interval must stay in the range of the score.
        interval = score.bounded_aggregation.interval_of(values)
        figures[name] = {
            "value": none_if_nan(score.aggregation.value(values)),
            "stderr": none_if_nan(score.aggregation.stderr(values)),
            "interval": None if interval is None else interval.ends,
            **_worst_and_best_values(name, rows, scores),
            "rows": score.aggregation.rows(values),
        }
    return figures


def _worst_and_best_values(
    name: str, rows: Sequence[Mapping[str, Any]], scores: Sequence[Score]
) -> dict[str, float | None]:
    """Compute a score with all unscored items wrong, and with all of them right.

    Args:
        name: The name of the score, such as ``f1``.
        rows: What each record adds to each score, by the score's name.
        scores: The scores of the benchmark. Not all have a worst and a best case.

    Returns:
        The declared cases under ``worst`` and ``best``. A value that is not defined is None.
    """
    score_by_name = {score.name: score for score in scores}
    values = {}
    for case in ("worst", "best"):
        # The worst and the best case are scores of their own, such as f1_worst.
        score = score_by_name.get(f"{name}_{case}")
        if score is not None:
            values_of_rows = [row[score.name] for row in rows]
            values[case] = none_if_nan(score.aggregation.value(values_of_rows))
    return values


def count_reasons(reasons: Iterable[str | None]) -> dict[str, int]:
    """Count how often each reason occurs, the most frequent first. None is no reason."""
    counter = Counter(reason for reason in reasons if reason is not None)
    return dict(counter.most_common())
