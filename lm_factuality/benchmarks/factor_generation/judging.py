"""The benchmark in order: generations are cut at the end of their sentence, a judge marks each, the
marks become a JSON object and a table."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar

from pydantic import BaseModel, StrictFloat, StrictInt

from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.benchmarks.asked import Item
from lm_factuality.benchmarks.factor.scoring import wins
from lm_factuality.benchmarks.factor_generation import facts, tally
from lm_factuality.benchmarks.factor_generation.facts import MARKS, Mark
from lm_factuality.benchmarks.judged import JudgedMethod
from lm_factuality.ground.console import interval, shown
from lm_factuality.harness.generation import Doc, Docs, JsonObject, Responses, Table, Verdict
from lm_factuality.scores.statistics import defined, interval_of, pooled_interval

PROMPT = "factor_generation/mark"
_KIND = "mark"  # of the subjects of the prompt

_COLUMNS = (
    *("subset", "#rows", "#generations", "#unscored", "#neutral", "#true (T)", "#false (F)"),
    *("#T/(T+F)", "#95% interval", "#worst / best"),
)
_NAMES = {
    tally.RIGHT: "right",
    tally.WRONG: "wrong",
    tally.WEIGHTED: "all (weighted)",
    tally.POOLED: "all (pooled)",
}


class _Document(BaseModel):
    doc_id: str
    prefix: str
    problem: str
    no_fact: str
    stem: str
    true: str
    false: str
    true_edit: str
    false_edit: str
    choices: list[Any]
    gold: StrictInt
    contradiction: StrictInt
    mean_logprob: list[StrictFloat | StrictInt | None]


class FactorGeneration(JudgedMethod):
    """Marks what a model writes where it could state a fact.

    A document is that of `lm_factuality.benchmarks.factor_generation.task`. One with ``no_fact``
    has no responses. A record has for each response the finished sentence (``sentences``), its mark
    or None (``marks``) and why it is None (``reasons``); ``unscored`` is the first reason where no
    response has a mark.
    """

    def __init__(self, protocol: str = "paper") -> None:
        """Args:
        protocol: By which the row's own ``factor_acc`` is checked.
        """
        self._protocol = protocol

    name = "factor_generation"
    kinds = ("verify",)
    prompt_names = (PROMPT,)
    document: ClassVar[type] = _Document
    identity = ("doc_id",)
    scores = tally.SCORES

    def wrong_responses(self, doc: Doc, responses: Sequence[str]) -> str | None:
        if len(doc["mean_logprob"]) != len(doc["choices"]):
            return (
                "'doc' has no 'mean_logprob' with a number or null for each choice: is the model"
                " right?"
            )
        if bool(doc["no_fact"]) == bool(responses):
            expected = "none" if doc["no_fact"] else "at least one"
            return f"found {len(responses)} responses, expected {expected}"
        return None

    def judge(self, judge: Judge, docs: Docs, responses: Responses) -> list[Verdict]:
        subjects = []
        for doc, texts in zip(docs, responses, strict=True):
            sentences = _sentences(doc, texts)
            subjects += [mark_subject(doc, sentence) for sentence in sentences if sentence]
        if reads_prompt(judge.config):
            replies = judge.ask_typed(PROMPT, facts.MarkReply, subjects, "marking generations")
            marks: Iterator[Mark] = map(facts.vote, replies)
        else:
            marks = iter(facts.support_marks(judge, subjects))
        return [_record(doc, texts, marks) for doc, texts in zip(docs, responses, strict=True)]

    def unscored(self, doc: Doc, responses: Sequence[str], reason: str) -> Verdict:
        return _record(doc, responses, repeat(Mark(None, reason)))

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> JsonObject:
        """Return the table of the paper, and what is not in it.

        Returns:
            ``subsets`` (right, wrong, weighted, pooled), each with counts, shares, accuracy, its
            95% interval (bootstrap over documents) and its value if every unscored generation were
            false, or true; how often the model is right over all ``pairs``; how many ``rows`` were
            judged; how many generations are ``unscored``, and why; and why the weighted accuracy is
            ``not_defined``.
        """
        tallies = [
            tally.tally_row(doc, verdict) for doc, verdict in zip(docs, verdicts, strict=True)
        ]
        totals, documents = tally.add(tallies), tally.by_document(tallies)
        reasons = Counter(reason for verdict in verdicts for reason in verdict["reasons"] if reason)
        without = Counter(str(doc["no_fact"]) for doc in docs if doc["no_fact"])
        groups = Counter(row.group for row in tallies if any(row.counts))
        subsets = {}
        for subset in tally.SUBSETS:
            rows = groups[subset] if subset in tally.GROUPS else groups.total()
            subsets[subset] = {"rows": rows, **_figures(subset, totals, documents)}
        return {
            "subsets": subsets,
            "pairs": {
                "right": int(totals.pairs_right),
                "all": int(totals.pairs),
                "share_right": defined(totals.weight),
            },
            "rows": {
                "all": len(docs),
                "judged": groups.total(),
                "without_fact": dict(without.most_common()),
                "unsplit": groups[tally.UNSPLIT],
            },
            "unscored": {
                "generations": reasons.total(),
                "reasons": dict(reasons.most_common()),
            },
            "not_defined": totals.why_undefined() or None,
        }

    def table(self, summary: Mapping[str, Any]) -> Table:
        rows = [_cells(name, summary["subsets"][subset]) for subset, name in _NAMES.items()]
        pairs, counts, unscored = summary["pairs"], summary["rows"], summary["unscored"]
        notes = [
            "Right: the model's mean log-probability per token is higher for the true"
            f" completion than for the false one; so in {shown(pairs['share_right'])} of"
            f" {pairs['all']} pairs, by which 'weighted' weighs.",
            "Intervals: percentile bootstrap over documents. Worst / best: if every unscored"
            " generation were false, or true.",
            "A judge that reads no prompt, such as the lexical one, knows the row's own two"
            " wordings alone: to it a generation that states or violates the fact in other"
            " words is neutral.",
        ]
        if summary["not_defined"]:
            notes.append(f"No weighted accuracy: {summary['not_defined']}.")
        if counts["without_fact"]:
            notes.append(f"Rows without a minimal fact: {_listed(counts['without_fact'])}")
        if counts["unsplit"]:
            notes.append(
                f"Rows of which it is not known whether the model is right: {counts['unsplit']}, in"
                " 'pooled' alone"
            )
        if unscored["reasons"]:
            notes.append(f"Unscored generations: {_listed(unscored['reasons'])}")
        return _COLUMNS, rows, notes

    def row_metrics(self, doc: Doc, verdict: Verdict) -> JsonObject:
        return tally.row_metrics(doc, verdict)

    def check_record(self, doc: Doc, verdict: Verdict) -> None:
        for mark, reason in zip(verdict["marks"], verdict["reasons"], strict=True):
            if mark not in (*MARKS, None) or (mark is None) != isinstance(reason, str):
                raise ValueError(f"found the mark {mark!r} and the reason {reason!r}")
        accuracy = doc["factor_acc"]
        if accuracy is not None:
            expected = wins(doc["mean_logprob"], doc["gold"], self._protocol)
            if accuracy != expected:
                raise ValueError("its factor_acc does not follow from mean_logprob")

    def rebuilt(self, doc: Doc, responses: Sequence[str], verdict: Verdict) -> Verdict:
        texts = [] if doc["no_fact"] else responses
        marks = map(Mark, verdict["marks"], verdict["reasons"])
        # Of generations with a word, the judge's marks are believed.
        judged = (mark for mark, text in zip(marks, _sentences(doc, texts), strict=True) if text)
        return _record(doc, texts, judged)

    def items(self, doc: Doc, verdict: Verdict, response: str) -> list[Item]:
        context = (
            ("Right version", doc["true"]),
            ("Wrong version", doc["false"]),
            ("Text before", facts.end_of(doc["prefix"])),
        )
        items = []
        for place, (text, mark) in enumerate(
            zip(verdict["sentences"], verdict["marks"], strict=True)
        ):
            if text:
                items.append(Item(f"mark:{place}", "mark", text, context, mark))
        return items

    def relabelled(self, doc: Doc, verdict: Verdict, answers: Sequence[str]) -> Verdict:
        said = iter(answers)
        marks = [next(said) if text else None for text in verdict["sentences"]]
        reasons = [
            None if mark else reason for mark, reason in zip(marks, verdict["reasons"], strict=True)
        ]
        return {**verdict, "marks": marks, "reasons": reasons, "unscored": None}


FACTOR_GENERATION = FactorGeneration()


def reads_prompt(config: JudgeConfig) -> bool:
    """Whether a judge is asked what a sentence says of the fact; others say only whether it
    supports a wording."""
    return config.capabilities.can_answer(_KIND)


def mark_subject(doc: Doc, sentence: str) -> JsonObject:
    """What the prompt is about; true and false are words of Jinja."""
    return {
        "kind": _KIND,
        "context": facts.end_of(doc["prefix"]),
        "sentence": sentence,
        "correct": doc["true"],
        "incorrect": doc["false"],
        "stem": doc["stem"],
        "true_edit": doc["true_edit"],
        "false_edit": doc["false_edit"],
    }


def _sentences(doc: Doc, responses: Sequence[str]) -> list[str | None]:
    return [facts.complete(doc["stem"], text) for text in responses]


def _record(doc: Doc, responses: Sequence[str], sentence_marks: Iterator[Mark]) -> Verdict:
    """Return the record of a document.

    Args:
        doc: The document.
        responses: The responses to it.
        sentence_marks: The marks of those that have a word.
    """
    sentences = _sentences(doc, responses)
    marks = [
        next(sentence_marks) if sentence else Mark(None, facts.why_none(text))
        for sentence, text in zip(sentences, responses, strict=True)
    ]
    unscored = None
    if not any(mark.label for mark in marks):
        unscored = doc["no_fact"] or (marks[0].reason if marks else "no generation")
    return {
        "doc_id": doc["doc_id"],
        "sentences": sentences,
        "marks": [mark.label for mark in marks],
        "reasons": [mark.reason for mark in marks],
        "unscored": unscored,
    }


def _figures(subset: str, totals: tally.Totals, documents: Sequence[Sequence[float]]) -> JsonObject:
    """Return the figures of a subset; its counts, unless they are weighted."""

    def accuracy_of(vector: Sequence[float]) -> float:
        return tally.Totals.of(vector).score(subset, tally.ACCURACY)

    figures: JsonObject = {}
    if subset != tally.WEIGHTED:
        for name, count in totals.counts(subset)._asdict().items():
            figures[name] = int(count)
    figures["shares"] = {mark: defined(totals.score(subset, mark)) for mark in MARKS}
    accuracy = defined(totals.score(subset, tally.ACCURACY))
    figures["accuracy"] = accuracy
    ends = interval_of(pooled_interval(documents, accuracy_of))
    figures["interval"] = None if accuracy is None else ends
    figures["worst"] = defined(totals.bound(subset, facts.FALSE))
    figures["best"] = defined(totals.bound(subset, facts.TRUE))
    return figures


def _cells(name: str, figures: Mapping[str, Any]) -> list[str]:
    """Return a row of the table."""
    counts = ["", ""]
    if "unscored" in figures:
        generations = sum(figures[mark] for mark in (*MARKS, "unscored"))
        counts = [str(generations), str(figures["unscored"])]
    shares = [shown(figures["shares"][mark]) for mark in ("neutral", facts.TRUE, facts.FALSE)]
    bounds = f"{shown(figures['worst'])} / {shown(figures['best'])}"
    accuracy = [shown(figures["accuracy"]), interval(figures["interval"]), bounds]
    return [name, str(figures["rows"]), *counts, *shares, *accuracy]


def _listed(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{count} {reason}" for reason, count in counts.items())
