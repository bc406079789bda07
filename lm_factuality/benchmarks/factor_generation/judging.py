"""The benchmark in order: generations are cut at the end of their sentence, a judge marks each, the
marks become a JSON object and a table."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from pydantic import BaseModel, StrictFloat, StrictInt

from judges.config import JudgeConfig
from judges.judge import Judge, Plan
from judges.verify import plan
from lm_factuality.benchmarks.factor_generation import facts, tally
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.records import to_model
from lm_factuality.harness.generation import Docs, Table, Verdict
from lm_factuality.scores.statistics import defined, interval_of, pooled_interval

COLUMNS = (
    *("subset", "#rows", "#generations", "#unscored", "#neutral", "#true (T)", "#false (F)"),
    *("#T/(T+F)", "#95% interval", "#worst / best"),
)
_NAMES = {
    tally.RIGHT: "right",
    tally.WRONG: "wrong",
    tally.WEIGHTED: "all (weighted)",
    tally.POOLED: "all (pooled)",
}


def _subset(
    subset: str,
    totals: tally.Totals,
    documents: Sequence[Sequence[float]],
    groups: Mapping[str, int],
) -> dict[str, Any]:
    has_own = subset in tally.GROUPS
    counts = totals.counts(subset if has_own else tally.POOLED)
    found: dict[str, Any] = {"rows": groups.get(subset, 0) if has_own else sum(groups.values())}
    if subset != tally.WEIGHTED:  # whose shares are no counts
        found |= {name: int(value) for name, value in counts._asdict().items()}
    accuracy = defined(totals.score(subset, tally.ACCURACY))
    ends = interval_of(
        pooled_interval(
            documents, lambda totals: tally.Totals.of(totals).score(subset, tally.ACCURACY)
        )
    )
    worst, best = (
        (
            totals.bound(mark)
            if subset == tally.WEIGHTED
            else defined(totals.bounded(mark).score(subset, tally.ACCURACY))
        )
        for mark in (facts.FALSE, facts.TRUE)
    )
    return found | {
        "shares": {mark: defined(totals.score(subset, mark)) for mark in facts.MARKS},
        "accuracy": accuracy,
        "interval": None if accuracy is None else ends,
        "worst": worst,
        "best": best,
    }


def _row(name: str, subset: Mapping[str, Any]) -> list[str]:
    of_marks, shares = (
        [subset[each] for each in (*facts.MARKS, "unscored") if each in subset],
        subset["shares"],
    )
    counts = [str(sum(of_marks)), str(subset["unscored"])] if of_marks else ["", ""]
    figures = [
        *(shown(shares[mark]) for mark in ("neutral", facts.TRUE, facts.FALSE)),
        shown(subset["accuracy"]),
    ]
    ends = f"{shown(subset['worst'])} / {shown(subset['best'])}"
    return [name, str(subset["rows"]), *counts, *figures, interval(subset["interval"]), ends]


def _listed(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{count} {reason}" for reason, count in counts.items())


PROMPT = "factor_generation/mark"
_KIND = "mark"  # of the subjects of the prompt
_DESCRIPTION = "marking generations"


class _Doc(BaseModel):
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


class FactorGeneration:
    """``lm_factuality.harness.generation.Generation`` for FACTOR's minimal facts. A document is
    that of ``lm_factuality.benchmarks.factor_generation.task``; one with ``no_fact`` has no
    responses. A record has for each response the finished sentence (``sentences``), its mark or
    null (``marks``) and why it is null (``reasons``); ``unscored`` is the first reason where no
    response has a mark."""

    name = "factor_generation"
    kinds = ("verify",)
    prompt_names = (PROMPT,)

    def check(self, doc: Mapping[str, Any], responses: Sequence[str]) -> str | None:
        try:
            means = to_model(_Doc, doc).mean_logprob
        except ValueError as error:
            return f"'doc': {error}; is this a sample of factor_generation?"
        if len(means) != len(doc["choices"]):
            return (
                "'doc' has no 'mean_logprob' with a number or null for each choice: is the model"
                " right?"
            )
        if bool(doc["no_fact"]) == bool(responses):
            return (
                f"found {len(responses)} responses, expected"
                f" {'none' if doc['no_fact'] else 'at least one'}"
            )
        return None

    def plan(
        self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]
    ) -> list[tuple[str, Plan]]:
        subjects = _subjects(docs, responses)
        if reads_prompt(judge.config):
            return [("marking", judge.plan(PROMPT, subjects, reply=facts.MarkReply))]
        return [
            (
                "marking",
                plan(judge, facts.support_pairs(subjects, judge.config.capabilities.by_words)),
            )
        ]

    def judge(self, judge: Judge, docs: Docs, responses: Sequence[Sequence[str]]) -> list[Verdict]:
        subjects = _subjects(docs, responses)
        if reads_prompt(judge.config):
            found: Iterator[facts.Mark] = map(
                facts.vote, judge.ask_typed(PROMPT, facts.MarkReply, subjects, _DESCRIPTION)
            )
        else:
            found = iter(facts.support_marks(judge, subjects, _DESCRIPTION))
        return [_record(doc, texts, found) for doc, texts in zip(docs, responses, strict=True)]

    def unscored(self, doc: Mapping[str, Any], responses: Sequence[str], reason: str) -> Verdict:
        return _record(doc, responses, repeat(facts.Mark(None, reason)))

    def summarise(self, docs: Docs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """``subsets`` (right, wrong, weighted, pooled), each with counts, shares, accuracy, its 95%
        interval (bootstrap over documents) and its value if every unscored generation were false,
        or true; how often the model is right over all ``pairs``; how many ``rows`` were judged; how
        many generations are ``unscored``, and why; and why the weighted accuracy is
        ``not_defined``."""
        tallies = [
            tally.tally_row(doc, verdict) for doc, verdict in zip(docs, verdicts, strict=True)
        ]
        totals, documents = tally.add(tallies), tally.by_document(tallies)
        reasons = Counter(
            reason for verdict in verdicts for reason in verdict["reasons"] if reason is not None
        )
        without = Counter(str(doc["no_fact"]) for doc in docs if doc["no_fact"])
        groups = Counter(each.group for each in tallies if sum(each.counts))
        judged, unsplit = sum(groups.values()), groups[tally.UNSPLIT]
        return {
            "subsets": {
                subset: _subset(subset, totals, documents, groups) for subset in tally.SUBSETS
            },
            "pairs": {
                "right": int(totals.pairs_right),
                "all": int(totals.pairs),
                "share_right": defined(totals.weight),
            },
            "rows": {
                "all": len(docs),
                "judged": judged,
                "without_fact": dict(without.most_common()),
                "unsplit": unsplit,
            },
            "unscored": {
                "generations": sum(reasons.values()),
                "reasons": dict(reasons.most_common()),
            },
            "not_defined": totals.why_undefined() or None,
        }

    def table(self, summary: Mapping[str, Any]) -> Table:
        rows = [_row(_NAMES[subset], summary["subsets"][subset]) for subset in tally.SUBSETS]
        pairs, kinds, unscored = summary["pairs"], summary["rows"], summary["unscored"]
        notes = [
            (
                "Right: the model's mean log-probability per token is higher for the true"
                f" completion than for the false one; so in {shown(pairs['share_right'])} of"
                f" {pairs['all']} pairs, by which 'weighted' weighs."
            ),
            (
                "Intervals: percentile bootstrap over documents. Worst / best: if every unscored"
                " generation were false, or true."
            ),
            (
                "A judge that reads no prompt, such as the lexical one, knows the row's own two"
                " wordings alone: to it a generation that states or violates the fact in other"
                " words is neutral."
            ),
        ]
        if summary["not_defined"]:
            notes.append(f"No weighted accuracy: {summary['not_defined']}.")
        if kinds["without_fact"]:
            notes.append(f"Rows without a minimal fact: {_listed(kinds['without_fact'])}")
        if kinds["unsplit"]:
            notes.append(
                f"Rows of which it is not known whether the model is right: {kinds['unsplit']}, in"
                " 'pooled' alone"
            )
        if unscored["reasons"]:
            notes.append(f"Unscored generations: {_listed(unscored['reasons'])}")
        return COLUMNS, rows, notes


FACTOR_GENERATION = FactorGeneration()


def reads_prompt(config: JudgeConfig) -> bool:
    """Whether a judge is asked what a sentence says of the fact; others say only whether it
    supports a wording."""
    return config.capabilities.can_answer(_KIND)


def mark_subject(doc: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    kept = {key: doc[key] for key in ("stem", "true_edit", "false_edit")}
    versions = {
        "correct": doc["true"],
        "incorrect": doc["false"],
    }  # true and false are words of Jinja
    return {
        "kind": _KIND,
        "context": facts.end_of(doc["prefix"]),
        "sentence": sentence,
        **versions,
        **kept,
    }


def _sentences(doc: Mapping[str, Any], responses: Sequence[str]) -> list[str | None]:
    return [facts.complete(doc["stem"], text) for text in responses]


def _subjects(docs: Docs, responses: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    pairs = zip(docs, responses, strict=True)
    return [
        mark_subject(doc, sentence)
        for doc, texts in pairs
        for sentence in _sentences(doc, texts)
        if sentence
    ]


def _record(
    doc: Mapping[str, Any], responses: Sequence[str], found: Iterator[facts.Mark]
) -> Verdict:
    sentences = _sentences(doc, responses)
    pairs = zip(sentences, responses, strict=True)
    marks = [
        next(found) if sentence else facts.Mark(None, facts.why_none(text))
        for sentence, text in pairs
    ]
    reasons = [mark.reason for mark in marks]
    unscored = (
        None
        if any(mark.label for mark in marks)
        else doc["no_fact"] or (reasons[0] if reasons else "no generation")
    )
    labels = [mark.label for mark in marks]
    return {
        "doc_id": doc["doc_id"],
        "sentences": sentences,
        "marks": labels,
        "reasons": reasons,
        "unscored": unscored,
    }
