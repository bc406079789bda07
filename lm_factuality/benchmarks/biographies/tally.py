"""What a step did to a response, counted beside the released decisions; and the scores, which are
of the sums of the counts. Facts are matched one to one with released ones by the content words they
share, leaving out pronouns and the name asked about, which may stand for each other. Pairs of facts
count for groups, as in Hubert and Arabie (1985)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment

from judges.lexical.words import STOPWORDS, read_patterns
from lm_factuality.benchmarks.biographies.decisions import Known, words
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.scores.statistics import defined, ratio

SAME_FACT = (
    0.7  # twice the common content words over those of both, from which two facts are the same
)
_VERB = re.compile(
    rf"\b(?:{read_patterns('facts')['verb'].pattern})\b|\w\w(?:ed|es|s|ing)\b"
)  # or what may be one
Totals = Mapping[str, float]


@dataclass(frozen=True)
class Tally:
    """Counts of a response; ``unscored`` are the reasons of what has no verdict in it."""

    counts: Totals
    unscored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """The ``scores`` of a step, each of the sums of the ``counts`` of all responses; NaN where it
    is not defined."""

    counts: tuple[str, ...]
    scores: Mapping[str, Callable[[Totals], float]] = field(default_factory=dict)

    def total(self, tallies: Iterable[Tally]) -> dict[str, float]:
        every = list(tallies)
        return {
            name: sum((tally.counts.get(name, 0) for tally in every), 0.0) for name in self.counts
        }

    def value(self, score: str, totals: Sequence[float]) -> float:
        return self.scores[score](dict(zip(self.counts, totals, strict=True)))

    def to_scores(self, totals: Totals) -> dict[str, float | None]:
        """Counts and scores; None for a score that is not defined."""
        return {**totals, **{name: defined(score(totals)) for name, score in self.scores.items()}}


def share(part: str, *whole: str) -> Callable[[Totals], float]:
    return lambda totals: ratio(totals[part], sum(totals[name] for name in whole))


def f1(hits: str, *others: str) -> Callable[[Totals], float]:
    """Twice the hits over what is on both sides, which the other counts add up to."""
    return lambda totals: ratio(2 * totals[hits], sum(totals[name] for name in others))


def kappa(totals: Totals) -> float:
    """Cohen's: agreement beyond that of judges who only know how often each answer is given."""
    tp, fp, fn, tn = (totals[name] for name in ("tp", "fp", "fn", "tn"))
    total = tp + fp + fn + tn
    chance = ratio((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn), total * total)
    return ratio(ratio(tp + tn, total) - chance, 1 - chance)


_TABLE = {
    "precision": share("tp", "tp", "fp"),
    "recall": share("tp", "tp", "fn"),
    "f1": f1("tp", "tp", "tp", "fp", "fn"),
}
DECOMPOSITION = Measure(
    ("matched", "facts", "released", "fragments"),
    {
        "precision": share("matched", "facts"),
        "recall": share("matched", "released"),
        "f1": f1("matched", "facts", "released"),
        "facts_per_released": share("facts", "released"),
        "fragment_share": share("fragments", "facts"),
    },
)
GROUPING = Measure(
    ("tp", "fp", "fn", "tn", "responses", "exact", "rand"),
    {
        **_TABLE,
        "exact_match": share("exact", "responses"),
        "adjusted_rand": share("rand", "responses"),
    },
)
LINKING = Measure(("right", "groups"), {"accuracy": share("right", "groups")})
VERIFICATION = Measure(
    ("tp", "fp", "fn", "tn"),
    {
        "accuracy": lambda totals: ratio(totals["tp"] + totals["tn"], sum(totals.values())),
        **_TABLE,
        "balanced_accuracy": lambda totals: (
            (_TABLE["recall"](totals) + share("tn", "tn", "fp")(totals)) / 2
        ),
        "kappa": kappa,
    },
)


def decomposed(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Facts matched with released ones; and those that are fragments, in which nothing looks like a
    verb."""
    (judged,) = parts
    if not judged.facts:
        return Tally({}, (judged.problem or "taken for an abstention",))
    own, released = (
        [fact.text for fact in judged.facts],
        [fact.text for fact in known.decided.facts],
    )
    counts = {
        "matched": matched(own, released, known.generation.name),
        "facts": len(own),
        "released": len(released),
    }
    return Tally({**counts, "fragments": sum(is_fragment(fact) for fact in own)})


def grouped(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Pairs of facts that are together in the groups of the judge and in those released."""
    (judged,) = parts
    if judged.ungrouped is not None:
        return Tally({}, (judged.ungrouped,))
    released = {fact: number for number, (_, facts) in enumerate(known.groups) for fact in facts}
    own = {fact: number for number, facts in enumerate(judged.groups) for fact in facts}
    pairs = [
        (own[one] == own[other], released[one] == released[other])
        for one, other in combinations(sorted(released), 2)
    ]
    table = _table(pairs)
    tp, fp, fn, tn = table.values()
    whole = (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)
    rand = 2 * (tp * tn - fn * fp) / whole if whole else 1.0
    return Tally({**table, "responses": 1, "exact": float(fp == fn == 0), "rand": rand})


def linked(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Groups whose entity is the released one. A group of whose facts nothing has a verdict is
    unscored."""
    (judged,) = parts
    right, lost, count = 0, [], 0
    for (released, _), group, link in zip(
        linkable(known), judged.groups, judged.links, strict=True
    ):
        cells = [cell for fact in group for cell in judged.matrix[fact]]
        if all(cell.outcome == "unscored" for cell in cells):
            lost.append(cells[0].reason)
        else:
            count, right = (
                count + 1,
                right + (link is not None and judged.entities[link] == released),
            )
    return Tally({"right": right, "groups": count} if count else {}, tuple(lost))


def verified(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Pairs of a fact and an entity: whether its page supports the fact. An irrelevant fact is not
    a supported one."""
    pairs, lost = [], []
    for judged in parts:
        (entity,) = judged.entities
        numbers = [number for number, other in known.verdicts if other == entity]
        for number, (cell,) in zip(numbers, judged.matrix, strict=True):
            if cell.outcome == "unscored":
                lost.append(cell.reason)
            else:
                pairs.append((cell.outcome == "supported", known.verdicts[number, entity]))
    return Tally(_table(pairs) if pairs else {}, tuple(lost))


def matched(own: Sequence[str], released: Sequence[str], name: str) -> int:
    """How many facts of both lists are the same, each with one other at most, so that as many as
    can be are."""
    sides = [[_content(fact, name) for fact in facts] for facts in (own, released)]
    shared = np.array(
        [
            [ratio(2 * len(one & other), len(one) + len(other)) for other in sides[1]]
            for one in sides[0]
        ]
    )
    rows, columns = linear_sum_assignment(shared >= SAME_FACT, maximize=True)
    return int((shared[rows, columns] >= SAME_FACT).sum())


def is_fragment(fact: str) -> bool:
    """Whether nothing behind the first word looks like a verb; 0.2% of Llama-2-13b's released facts
    look so."""
    return not _VERB.search(fact.partition(" ")[2])


def linkable(known: Known) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (entity, facts)
        for entity, facts in known.groups
        if facts and entity in known.generation.entities
    ]


def _table(pairs: Sequence[tuple[bool, bool]]) -> dict[str, int]:
    kinds = {"tp": (True, True), "fp": (True, False), "fn": (False, True), "tn": (False, False)}
    return {name: pairs.count(kind) for name, kind in kinds.items()}


def _content(fact: str, name: str) -> set[str]:
    every = words(fact)
    return (every - STOPWORDS - words(name)) or every
