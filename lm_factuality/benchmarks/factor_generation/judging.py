"""The method of open generation: sentences are cut at their end, and a judge marks each.

The task, ``lm-factuality judge`` and the leaderboard call a `FactorGeneration`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import StrictFloat, StrictInt

from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.factor.scoring import gold_wins
from lm_factuality.benchmarks.factor_generation import facts, tally
from lm_factuality.benchmarks.factor_generation.facts import MARKS, Mark
from lm_factuality.benchmarks.judged import JudgedMethod, count_reasons
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Verdict
from lm_factuality.scores.statistics import Outcome

PROMPT = "factor_generation/mark"
_KIND = "mark"
"""The kind of question of the prompt."""

_UNMARKED = Mark(None, facts.NO_WORD)
"""The mark of a response without a word."""


@dataclass(frozen=True)
class GenerationDocument:
    """The fields of a document that the judge and the scores need."""

    # The first six describe its minimal fact (see `facts.MinimalFact`).
    no_fact: str
    stem: str
    true: str
    false: str
    true_edit: str
    false_edit: str
    doc_id: str
    prefix: str
    problem: str
    choices: list[Any]
    gold: StrictInt
    contradiction: StrictInt
    mean_logprob: list[StrictFloat | StrictInt | None]
    """The model's mean log-probability per token of each choice."""


class FactorGeneration(JudgedMethod):
    """Marks what a model writes where it could state a fact.

    Documents are those of `lm_factuality.benchmarks.factor_generation.task`. One with ``no_fact``
    has no responses. The record on a document has a value for each response: the finished sentence
    (``sentences``), its mark or None (``marks``), and why it is None (``reasons``). ``unscored`` is
    the first reason if no response has a mark.
    """

    def __init__(self, protocol: str = "paper") -> None:
        """Set the protocol of the run.

        Args:
            protocol: ``paper`` or ``code``, by which a row's ``factor_acc`` is checked.
        """
        self._protocol = protocol

    name = "factor_generation"
    required_kinds = ("verify",)
    prompt_names = (PROMPT,)
    document_model: ClassVar[type] = GenerationDocument
    identity_keys = ("doc_id",)
    scores = tally.SCORES

    def responses_problem(self, doc: Doc, responses: Sequence[str]) -> str | None:
        """Say what is wrong with the scores of a document or its responses, or return None."""
        # The task adds these scores to the document once the model has answered.
        if len(doc["mean_logprob"]) != len(doc["choices"]):
            return (
                "'doc' has no 'mean_logprob' with a number or null for each choice; check that the"
                " scores are of this model"
            )
        # Nothing is generated for a row without a minimal fact.
        if doc["no_fact"] and responses:
            return f"found {len(responses)} responses, expected none"
        if not doc["no_fact"] and not responses:
            return "found 0 responses, expected at least one"
        return None

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        """Ask the judge what each response says about the fact of its row.

        All sentences are sent to the judge at once. It is not asked about a response without a
        word.

        Args:
            judge: The judge.
            docs: The documents.
            responses: The responses to each document.

        Returns:
            The record on each document.
        """
        sentences_by_doc = list(map(_sentences, docs, responses))
        subjects = []
        for doc, sentences in zip(docs, sentences_by_doc, strict=True):
            subjects += [mark_subject(doc, sentence) for sentence in sentences if sentence]
        # There is one mark for each sentence that the judge was asked about, in the same order.
        remaining_marks = iter(_ask_for_marks(judge, subjects))

        records = []
        for doc, texts, sentences in zip(docs, responses, sentences_by_doc, strict=True):
            marks = [next(remaining_marks) if sentence else _UNMARKED for sentence in sentences]
            records.append(_make_record(doc, texts, marks))
        return records

    def unscored_record(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        """Return the record of a document whose sentences all lack a mark for one reason.

        Args:
            doc: The document.
            responses: The responses to it.
            reason: Why the judge gave no marks.
        """
        return _make_record(doc, responses, [Mark(None, reason)] * len(responses))

    def summary_counts(self, docs: Docs, records: Sequence[Verdict]) -> JsonObject:
        """Count rows, generations by their mark, and reasons for what is missing.

        Args:
            docs: The documents.
            records: The record on each document.

        Returns:
            ``rows``, ``generations`` by mark, how often each reason leaves a row ``without_fact``
            or a generation ``unscored``, and why the weighted accuracy is ``not_defined``.
        """
        sums = tally.sum_tallies(map(tally.tally_row, docs, records))
        # Unlike the weighted scores, these counts include rows that are in neither group.
        pooled_marks = tally.numbers_by_mark(sums, tally.POOLED)
        reasons = [reason for record in records for reason in record["reasons"]]
        return {
            "rows": len(docs),
            "generations": {mark: int(number) for mark, number in pooled_marks.items()},
            "without_fact": count_reasons(doc["no_fact"] or None for doc in docs),
            "unscored": count_reasons(reasons),
            "not_defined": tally.why_undefined(sums),
        }

    def row_metrics(self, doc: Doc, record: Verdict) -> JsonObject:
        """Return the metrics of one row.

        Args:
            doc: The document of the row.
            record: The record on it.

        Returns:
            The values by metric. Most scores are computed from the sums over all rows, so a row
            gives each of them its whole tally, the numbers that it adds to these sums. ``unscored``
            is the number of generations without a mark.
        """
        row_tally = tally.tally_row(doc, record)
        metrics: JsonObject = {score.name: row_tally for score in tally.SCORES}
        # A backend that shows no tokenizer has no accuracy per token.
        factor_acc = doc.get("factor_acc")
        metrics["factor_acc"] = None if factor_acc is None else Outcome(factor_acc, doc["doc_id"])
        metrics["unscored"] = record["marks"].count(None)
        metrics["without_fact"] = doc["no_fact"] or None
        return metrics

    def check_record(self, doc: Doc, record: Verdict) -> None:
        """Check that a record from a file, and the accuracy of its row, can be true.

        Args:
            doc: The document.
            record: The record on it.

        Raises:
            ValueError: A mark is unknown, a marked sentence has a reason, an unmarked one has none,
                or ``factor_acc`` does not follow from ``mean_logprob``.
        """
        for mark, reason in zip(record["marks"], record["reasons"], strict=True):
            has_reason = isinstance(reason, str)
            # A reason says why a sentence has no mark, so only such a sentence has one.
            is_marked = mark in MARKS and not has_reason
            is_explained = mark is None and has_reason
            if not is_marked and not is_explained:
                raise ValueError(f"found the mark {mark!r} and the reason {reason!r}")

        accuracy = doc["factor_acc"]
        if accuracy is None:
            return
        # A row with an accuracy has a score for each choice.
        if accuracy != gold_wins(doc["mean_logprob"], doc["gold"], self._protocol):
            raise ValueError("its factor_acc does not follow from mean_logprob")

    def rebuild_record(self, doc: Doc, responses: Sequence[str], record: Verdict) -> Verdict:
        """Return the record that a file should have, with the marks that it has.

        Only the judge can know the marks. All else follows from the responses.
        """
        texts = [] if doc["no_fact"] else responses
        marks = list(map(Mark, record["marks"], record["reasons"]))
        return _make_record(doc, texts, marks)

    def people_items(self, doc: Doc, record: Verdict, response: str) -> list[Item]:
        """Return what people are asked in the judge's place: the mark of each sentence.

        Args:
            doc: The document.
            record: The record on it.
            response: The first response. It is not used, since the record has the sentences of all.

        Returns:
            A question for each sentence, with the judge's mark, which people do not see.
        """
        context = (
            ("Right version", doc["true"]),
            ("Wrong version", doc["false"]),
            ("Text before", facts.end_of_prefix(doc["prefix"])),
        )
        marked_sentences = zip(record["sentences"], record["marks"], strict=True)
        items = []
        for number, (sentence, mark) in enumerate(marked_sentences):
            # Nobody is asked about a response without a word.
            if sentence:
                items.append(
                    Item(
                        id=f"mark:{number}",
                        question="mark",
                        text=sentence,
                        context=context,
                        judge=mark,
                    )
                )
        return items

    def relabel_record(self, doc: Doc, record: Verdict, answers: Sequence[str]) -> Verdict:
        """Return the record with the marks that people give in place of the judge's.

        Args:
            doc: The document.
            record: The record of the judge.
            answers: The mark of each sentence, in the order of `people_items`.
        """
        marks: list[str | None] = [None] * len(record["sentences"])
        reasons = list(record["reasons"])
        # Nobody is asked about a response without a word, so it keeps the reason for no mark.
        asked = [number for number, sentence in enumerate(record["sentences"]) if sentence]
        for number, answer in zip(asked, answers, strict=True):
            marks[number] = answer
            reasons[number] = None
        return {**record, "marks": marks, "reasons": reasons, "unscored": None}


FACTOR_GENERATION = FactorGeneration()


def reads_prompt(config: JudgeConfig) -> bool:
    """Return whether a judge can be asked what a sentence says of a fact.

    Other judges only tell whether a text supports a claim.
    """
    return config.capabilities.can_answer(_KIND)


def mark_subject(doc: Doc, sentence: str) -> JsonObject:
    """Return the variables of the prompt that asks for the mark of a sentence.

    Args:
        doc: The document.
        sentence: The stem with what the model generated after it.
    """
    return {
        "kind": _KIND,
        "context": facts.end_of_prefix(doc["prefix"]),
        "sentence": sentence,
        # In Jinja, `true` and `false` are constants.
        "correct": doc["true"],
        "incorrect": doc["false"],
        "stem": doc["stem"],
        "true_edit": doc["true_edit"],
        "false_edit": doc["false_edit"],
    }


def _sentences(doc: Doc, responses: Sequence[str]) -> list[str | None]:
    """Return the finished sentence of each response, None if the response has no word."""
    return [facts.complete_sentence(doc["stem"], response) for response in responses]


def _ask_for_marks(judge: Judge, subjects: Sequence[JsonObject]) -> list[Mark]:
    """Ask a judge for the mark of each sentence, in the way that it can answer.

    Args:
        judge: The judge.
        subjects: The variables of the prompt for each sentence (see `mark_subject`).
    """
    if not reads_prompt(judge.config):
        return facts.marks_by_support(judge, subjects)
    replies = judge.ask_typed(PROMPT, facts.MarkReply, subjects, "marking generations")
    return [facts.majority_mark(replies_to_subject) for replies_to_subject in replies]


def _make_record(doc: Doc, responses: Sequence[str], judge_marks: Sequence[Mark]) -> Verdict:
    """Make the record of a judge's marks on a document.

    Args:
        doc: The document.
        responses: The responses to it.
        judge_marks: The judge's mark of each response. That of a response without a word is not
            used.

    Returns:
        The record, with lists of ``sentences``, ``marks`` and ``reasons`` in the order of the
        responses (see `FactorGeneration`).
    """
    sentences = _sentences(doc, responses)
    marks = [
        mark if sentence else _mark_without_sentence(response)
        for sentence, response, mark in zip(sentences, responses, judge_marks, strict=True)
    ]
    return {
        "doc_id": doc["doc_id"],
        "sentences": sentences,
        "marks": [mark.label for mark in marks],
        "reasons": [mark.reason for mark in marks],
        "unscored": _unscored_reason(doc, marks),
    }


def _unscored_reason(doc: Doc, marks: Sequence[Mark]) -> str | None:
    """Say why no generation of a document has a mark, or return None if one has."""
    if any(mark.label for mark in marks):
        return None
    if doc["no_fact"]:
        return str(doc["no_fact"])
    return marks[0].reason if marks else "no generation"


def _mark_without_sentence(response: str) -> Mark:
    """Return the mark of a response without a word, which says why there is none."""
    # A model that was cut off in its thoughts has written no answer.
    if without_thinking(response) is None:
        return Mark(None, UNFINISHED)
    return _UNMARKED
