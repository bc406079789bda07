"""FELM-gen as a method: answers are cut into segments, a judge marks them, and rates follow.

`FELM_GEN` does this in runs of lm_eval and in ``lm-factuality judge``. Error rates pool the counts
of all answers. Refusals, empty outputs and answers without a verdict are in no rate. The ``worst``
and ``best`` rates count each answer without a verdict as wrong throughout, or as right.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import ClassVar

from pydantic import BaseModel

from judges.judge import Judge
from judges.typed import ParsedReply
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.declaration import ERROR_RATE, Score, worst_and_best_of
from lm_factuality.benchmarks.felm.benchmark import FACTUAL, segment_items
from lm_factuality.benchmarks.felm.grammar import UnreadableAnswerError
from lm_factuality.benchmarks.felm.metrics import LEVELS
from lm_factuality.benchmarks.felm.rows import DOMAINS, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm_gen.steps import (
    BY_JUDGE,
    CUT_PROMPT,
    CUT_TOKENS,
    MARK_PROMPT,
    TYPES,
    UNTYPED,
    CutReply,
    MarksReply,
    apply_judge_cut,
    combine_marks,
    cut_by_rules,
    cutting_subject,
    find_cut_problem,
    find_marks_problem,
    marking_subject,
    split_into_pieces,
    text_to_judge,
    why_no_answer,
)
from lm_factuality.benchmarks.judged import JudgedMethod, count_reasons
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.scores.intervals import Interval, ratio_interval
from lm_factuality.scores.statistics import TOTAL, Aggregation, PooledScore, count_present, ratio

ERROR_KINDS = (*TYPES, UNTYPED)
"""Every type that an error can have in a record."""


def error_rate(totals: Sequence[float]) -> float:
    """Compute the share of units (segments or responses) that contain an error.

    Args:
        totals: The number of units with an error, and the number of all units.

    Returns:
        The share from 0 to 1, or NaN if there are no units.
    """
    errors, units = totals
    return ratio(errors, units)


def _interval_of_error_rate(counts: Sequence[Sequence[float]]) -> Interval | None:
    """Compute the 95% interval of `error_rate` from the errors and units of each answer."""
    errors = [row[0] for row in counts]
    units = [row[1] for row in counts]
    return ratio_interval(errors, units)


def _count_clusters_of_error_rate(counts: Sequence[Sequence[float]]) -> int:
    """Count the answers that `error_rate` depends on, 0 if one alone gives no interval."""
    return len(counts) if len(counts) > 1 else 0


def _declare_scores() -> Iterator[Score]:
    """Yield every score of FELM-gen: error rates, their bounds, and counts of errors.

    Only the error rates of all domains together have a label, so tables show no other score.
    """
    pooled_rate = PooledScore(error_rate, _interval_of_error_rate, _count_clusters_of_error_rate)
    declare_rate = partial(
        Score,
        aggregation=pooled_rate.aggregation(),
        value_range=ERROR_RATE,
        higher_is_better=False,
    )
    for level in LEVELS:
        label = f"{level.capitalize()}s with errors"
        yield declare_rate(f"{level}_error_rate", label=label)

    for level in LEVELS:
        for domain in DOMAINS:
            yield declare_rate(f"{level}_error_rate_{domain}")
        # The bounds count each answer without a verdict as wrong throughout, or as right.
        yield from declare_rate(f"{level}_error_rate").worst_and_best()
    for kind in ERROR_KINDS:
        yield Score(f"errors_{kind}", TOTAL, higher_is_better=False)
    for name in ("no_answer", "unscored"):
        yield Score(name, Aggregation(count_present), higher_is_better=False)


SCORES = tuple(_declare_scores())
"""Every score of FELM-gen."""


class PromptDocument(BaseModel):
    """The part of a sample's document that the judge needs."""

    index: str
    """The index of the row of FELM."""

    domain: str
    """The domain of the question."""

    prompt: str
    """The question."""

    reference_texts: tuple[str, ...]
    """The texts of the pages that FELM's annotators cited."""


class FelmGen(JudgedMethod):
    """The method by which a judge marks the segments of answers to FELM's prompts.

    The record of an answer has its ``segments``, and in ``errors`` the type of error of each
    segment, or None for a factual one. Instead of ``errors`` it may have the reason under
    ``unscored`` and, if the model gave no answer, under ``no_answer``. ``cut_by`` and
    ``cut_refused`` say how it was cut, and ``outputs`` are the texts that the judge wrote.
    """

    name = "felm_gen"
    required_kinds = ("marks",)
    prompt_names = (CUT_PROMPT, MARK_PROMPT)
    document_model: ClassVar[type] = PromptDocument
    identity_keys = ("index", "domain")
    scores = SCORES

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        """Cut all answers into segments, and have a judge mark the segments with errors.

        Args:
            judge: The judge that marks segments. It also cuts some answers if it can.
            docs: The documents.
            responses: One response of the model to each document.

        Returns:
            The record of each response, in order.
        """
        texts = [text for (text,) in responses]
        records = [_make_record(doc, text) for doc, text in zip(docs, texts, strict=True)]
        # Judges that cannot cut leave the segments of the rules as they are.
        if judge.config.capabilities.can_answer("cut"):
            records = _cut_again_by_judge(judge, records, texts)
        return _mark_segments(judge, docs, records)

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        """Return the record of a response that the judge could not mark.

        Args:
            doc: The document.
            responses: The response of the model, alone in a list.
            reason: Why there is no verdict. If the response is no answer, that is the reason.
        """
        record = _make_record(doc, responses[0])
        return {**record, "unscored": record["unscored"] or reason}

    def summary_counts(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Count the reasons, error types and cuts in the records, for tables.

        Returns:
            By the name of the count, how often each reason or type occurs.
        """
        errors = chain.from_iterable(record["errors"] or () for record in records)
        # A response that is no answer has a count of its own.
        unscored = [record["unscored"] for record in records if record["no_answer"] is None]
        return {
            **super().summary_counts(docs, records),
            "unscored": count_reasons(unscored),
            "no_answer": count_reasons(record["no_answer"] for record in records),
            "wrong_segments": count_reasons(errors),
            "cut_by": count_reasons(record["cut_by"] for record in records),
            "cuts_refused": count_reasons(record["cut_refused"] for record in records),
        }

    def row_metrics(self, doc: Doc, record: Verdict) -> JsonObject:
        """Return what one response adds to each score.

        Example:
            An answer about math with 3 segments, of which one has an error of reasoning, adds 1 to
            ``errors_reasoning``, ``[1, 3]`` to ``segment_error_rate`` and
            ``segment_error_rate_math``, and ``[1, 1]`` to ``response_error_rate``.

        Args:
            doc: The document.
            record: The record of the response.

        Returns:
            The metrics by name. An error rate is None if the response is unscored.
        """
        errors_by_type = Counter(record["errors"] or ())
        metrics: JsonObject = {
            "unscored": record["unscored"] if _has_judge_failed(record) else None,
            "no_answer": record["no_answer"],
        }
        for kind in ERROR_KINDS:
            metrics[f"errors_{kind}"] = errors_by_type[kind]

        for level in LEVELS:
            name = f"{level}_error_rate"
            # None keeps the response out of the rate.
            counts = None if record["unscored"] else _count_errors(record, level)
            metrics[name] = counts
            metrics[f"{name}_{record['domain']}"] = counts
            metrics |= _error_rate_bounds(record, level)
        return metrics

    def check_record(self, doc: Doc, record: Verdict) -> None:
        """Check that a record from a file is complete.

        Args:
            doc: The document.
            record: The record of the response.

        Raises:
            ValueError: The record has too few or too many errors, or it has both errors and a
                reason why there are none, or neither.
        """
        errors = record["errors"]
        num_segments = len(record["segments"])
        # There is one verdict for each segment: None, or the type of its error.
        if errors is not None and len(errors) != num_segments:
            raise ValueError(f"{len(errors)} verdicts on {num_segments} segments")

        has_reason = isinstance(record["unscored"], str)
        if (errors is not None) == has_reason:
            raise ValueError("it needs either errors or a reason why it has none, and not both")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], record: Verdict) -> Verdict:
        """Return a record with everything that follows from the response alone filled in anew.

        Only whether the response is an answer follows from it. The marks of the judge are believed,
        since only another run with the judge could check them.
        """
        unjudged_record = _make_record(doc, responses[0])
        is_answer = unjudged_record["unscored"] is None
        return {**record, "no_answer": None} if is_answer else unjudged_record

    def people_items(self, doc: Doc, record: Verdict, response: str) -> list[Item]:
        """Return the segments of an answer as items that people decide about.

        Args:
            doc: The document.
            record: The record, whose marks people are compared with.
            response: The response of the model.
        """
        marks = None
        if record["errors"] is not None:
            # In a record, None stands for a factual segment.
            marks = [error or FACTUAL for error in record["errors"]]
        references = doc.get("reference_texts") or ()
        return segment_items(doc["prompt"], record["segments"], marks, references)

    def relabel_record(self, doc: Doc, record: Verdict, answers: Sequence[str]) -> Verdict:
        """Return the record with the decisions of people in place of the judge's marks.

        Args:
            doc: The document.
            record: The record with the marks of the judge.
            answers: For each segment ``factual`` or the type of its error.

        Returns:
            The record as if people had been the judge.
        """
        # In math and reasoning, the paper counts every error as one of reasoning, whatever type
        # people choose.
        is_reasoning = doc["domain"] in WITHOUT_REFERENCES
        errors = []
        for answer in answers:
            error_type = "reasoning" if is_reasoning else answer
            errors.append(None if answer == FACTUAL else error_type)
        # The outputs of the judge do not explain the decisions of people.
        return {**record, "errors": errors, "unscored": None, "outputs": []}


FELM_GEN = FelmGen()
"""The method, which has no settings."""


def _make_record(doc: Doc, response: str) -> JsonObject:
    """Make the record of a response before it is judged, with segments that are cut by rules.

    Args:
        doc: The document.
        response: The response of the model.

    Returns:
        The record. If the response is no answer, the record has no segments, and ``unscored`` says
        why. If the model declined to answer, ``no_answer`` has the reason, too.
    """
    record: JsonObject = {
        "index": doc["index"],
        "domain": doc["domain"],
        "segments": [],
        "errors": None,
        "no_answer": None,
        "unscored": None,
        "cut_by": None,
        "cut_refused": None,
        "outputs": [],
    }
    problem = why_no_answer(response)
    if problem is None:
        # These segments stay if no judge can cut the answer.
        record |= asdict(cut_by_rules(text_to_judge(response)))
    elif problem == UNFINISHED:
        # A model that never ends its thinking has not declined to answer.
        record["unscored"] = problem
    else:
        record["unscored"] = f"no answer: {problem}"
        record["no_answer"] = problem
    return record


def _cut_again_by_judge(
    judge: Judge, records: Sequence[JsonObject], responses: Sequence[str]
) -> list[JsonObject]:
    """Have a judge cut the answers in math and writing_rec, which rules cut less well.

    Args:
        judge: The judge.
        records: The records of all responses, with the segments that rules found.
        responses: The response of each record.

    Returns:
        All records. Those of the answers that the judge cut have the judge's segments.
    """
    answer_by_position = _answers_to_cut(records, responses)
    samples_by_answer = judge.ask_typed(
        CUT_PROMPT,
        CutReply,
        [cutting_subject(answer) for answer in answer_by_position.values()],
        "cutting responses",
        find_cut_problem,
        samples=1,
        max_tokens=CUT_TOKENS,
    )
    new_records = list(records)
    for position, samples in zip(answer_by_position, samples_by_answer, strict=True):
        # One sample was asked for, so there is a single reply to each question.
        cut = apply_judge_cut(answer_by_position[position], samples[0])
        # The fields of the cut replace those of the cut by rules.
        new_records[position] = {**records[position], **asdict(cut)}
    return new_records


def _answers_to_cut(records: Sequence[JsonObject], responses: Sequence[str]) -> dict[int, str]:
    """Return the answers that a judge should cut, by the position of their record.

    Args:
        records: The records of all responses.
        responses: The response of each record.
    """
    answer_by_position = {}
    for position, (record, response) in enumerate(zip(records, responses, strict=True)):
        # Responses that are no answers have no segments.
        if record["unscored"] is not None or record["domain"] not in BY_JUDGE:
            continue
        answer = text_to_judge(response)
        # A single piece cannot be grouped in two ways.
        if len(split_into_pieces(answer)) > 1:
            answer_by_position[position] = answer
    return answer_by_position


def _mark_segments(judge: Judge, docs: Docs, records: Sequence[Verdict]) -> list[Verdict]:
    """Have a judge mark the segments with errors in all answers.

    Args:
        judge: The judge.
        docs: The document of each record.
        records: The records with the segments of the answers.

    Returns:
        The records with the judge's marks. Those of responses that are no answers are unchanged.
    """
    # The variables of the prompt about each answer, by the position of its record.
    subjects: dict[int, JsonObject] = {}
    for position, (doc, record) in enumerate(zip(docs, records, strict=True)):
        # Refusals and empty outputs have a reason already. The judge never sees them.
        if record["unscored"] is None:
            subjects[position] = marking_subject(doc, record["segments"])

    replies_by_answer = judge.ask_typed(
        MARK_PROMPT, MarksReply, list(subjects.values()), "marking segments", find_marks_problem
    )
    marked_records = list(records)
    for position, replies in zip(subjects, replies_by_answer, strict=True):
        marked_records[position] = _add_marks(records[position], replies)
    return marked_records


def _add_marks(record: Verdict, replies: Sequence[ParsedReply[MarksReply]]) -> Verdict:
    """Return a copy of the record of an answer with the judge's decision on each segment.

    Args:
        record: The record with the segments of the answer.
        replies: The samples of the judge's reply.

    Returns:
        The record with the judge's ``outputs``, and with the error type of each segment under
        ``errors`` or the reason why there is no verdict under ``unscored``.
    """
    errors = None
    unscored = None
    try:
        errors = combine_marks(replies, len(record["segments"]), record["domain"])
    except UnreadableAnswerError as error:
        unscored = str(error)
    # A request that failed has no text.
    outputs = [reply.answer.text or "" for reply in replies]
    return {**record, "errors": errors, "unscored": unscored, "outputs": outputs}


def _has_judge_failed(record: Verdict) -> bool:
    """Return whether a response is an answer on which the judge has no verdict."""
    # A response that is no answer has a reason under "unscored" as well.
    return record["unscored"] is not None and record["no_answer"] is None


def _error_rate_bounds(record: Verdict, level: str) -> JsonObject:
    """Return what a response adds to an error rate in the worst and in the best case.

    Example:
        An answer of three segments without a verdict has 3 or 0 wrong ones:
        ``{"segment_error_rate_worst": [3, 3], "segment_error_rate_best": [0, 3]}``

    Args:
        record: The record of the response.
        level: ``segment`` or ``response``.
    """
    name = f"{level}_error_rate"
    if not _has_judge_failed(record):
        counts = _count_errors(record, level)
        return worst_and_best_of(name, counts, counts)

    # A model that never ended its thinking has an answer without segments, which counts as one.
    num_segments = max(1, len(record["segments"]))
    units = num_segments if level == "segment" else 1
    return worst_and_best_of(name, [units, units], [0, units])


def _count_errors(record: Verdict, level: str) -> list[int]:
    """Return the counts of a response in an error rate: its units with an error, and all its units.

    Example:
        For a response of three segments, one of them wrong: ``[1, 3]`` by segment, and ``[1, 1]``
        by response.

    Args:
        record: The record of the response. Without ``errors`` both counts are 0.
        level: ``segment`` to count segments, ``response`` to count the response as one unit.
    """
    errors = record["errors"]
    if errors is None:
        return [0, 0]

    num_wrong_segments = sum(error_type is not None for error_type in errors)
    if level == "segment":
        return [num_wrong_segments, len(errors)]
    return [min(num_wrong_segments, 1), 1]
