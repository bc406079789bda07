"""What a step did to a response, counted beside the released decisions, and scores of the counts.

Facts are matched one to one with released ones by the content words they share, leaving out
pronouns and the name asked about, which may stand for each other. Pairs of facts count for groups,
as in Hubert and Arabie (1985).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from judges.lexical.words import STOPWORDS, read_patterns
from lm_factuality.benchmarks.biographies.decisions import Known, words
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.scores.statistics import ratio

SAME_FACT = 0.7
"""Twice the common content words over those of both, from which two facts are the same."""

TABLE = ("tp", "fp", "fn", "tn")
_VERB = re.compile(rf"\b(?:{read_patterns('facts')['verb'].pattern})\b|\w\w(?:ed|es|s|ing)\b")


@dataclass(frozen=True)
class Tally:
    """The counts of a response."""

    counts: Sequence[float] = ()
    """The counts of the step, in its order. Empty if nothing has a verdict."""

    unscored: list[str] = field(default_factory=list)
    """The reasons of what has no verdict."""


def count_decomposition(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Count facts: matched with released ones, all, released, and fragments."""
    (judged,) = parts
    if not judged.facts:
        return Tally(unscored=[judged.problem or "taken for an abstention"])
    facts = [fact.text for fact in judged.facts]
    released = [fact.atom for fact in known.decided.facts]
    matched = count_matches(facts, released, known.generation.name)
    return Tally((matched, len(facts), len(released), sum(map(is_fragment, facts))))


def score_decomposition(counts: Sequence[float]) -> dict[str, float]:
    matched, facts, released, fragments = counts
    return {
        "precision": ratio(matched, facts),
        "recall": ratio(matched, released),
        "f1": ratio(2 * matched, facts + released),
        "facts_per_released": ratio(facts, released),
        "fragment_share": ratio(fragments, facts),
    }


def count_matches(facts: Sequence[str], released: Sequence[str], name: str) -> int:
    """Count the facts of both lists that are the same.

    Each is the same as one other at most, so that as many as can be are.
    """
    # It takes long to import, and only certificates need it.
    from scipy.optimize import linear_sum_assignment

    released_words = [_content(fact, name) for fact in released]
    shares = []
    for fact in facts:
        content = _content(fact, name)
        shares.append(
            [
                ratio(2 * len(content & others), len(content) + len(others))
                for others in released_words
            ]
        )
    is_same = np.array(shares) >= SAME_FACT
    return int(is_same[linear_sum_assignment(is_same, maximize=True)].sum())


def _content(fact: str, name: str) -> set[str]:
    of_fact = words(fact)
    return (of_fact - STOPWORDS - words(name)) or of_fact


def is_fragment(fact: str) -> bool:
    """Whether nothing behind the first word looks like a verb.

    0.2% of Llama-2-13b's released facts look so.
    """
    return not _VERB.search(fact.partition(" ")[2])


def count_grouping(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Count pairs of facts that are together in the groups of the judge and in those released."""
    from sklearn.metrics import adjusted_rand_score
    from sklearn.metrics.cluster import pair_confusion_matrix

    (judged,) = parts
    if judged.ungrouped is not None:
        return Tally(unscored=[judged.ungrouped])
    group_by_fact: dict[int, int] = {}
    for number, facts in enumerate(judged.groups):
        group_by_fact |= dict.fromkeys(facts, number)
    released = []
    judges = []
    for number, (_, facts) in enumerate(known.groups):
        released += [number] * len(facts)
        judges += [group_by_fact[fact] for fact in facts]
    # The matrix counts each pair twice, once in each order.
    (tn, fp), (fn, tp) = (pair_confusion_matrix(released, judges) // 2).tolist()
    rand = float(adjusted_rand_score(released, judges))
    return Tally((tp, fp, fn, tn, 1, fp == fn == 0, rand))


def score_grouping(counts: Sequence[float]) -> dict[str, float]:
    tp, fp, fn, _, responses, exact, rand = counts
    return {
        **_table_scores(tp, fp, fn),
        "exact_match": ratio(exact, responses),
        "adjusted_rand": ratio(rand, responses),
    }


def _table_scores(tp: float, fp: float, fn: float) -> dict[str, float]:
    return {
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
    }


def linkable(known: Known) -> list[tuple[str, tuple[int, ...]]]:
    """Return the released groups whose entity is a candidate."""
    candidates = known.generation.entities
    return [(entity, facts) for entity, facts in known.groups if facts and entity in candidates]


def count_linking(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Count groups whose entity is the released one, and all.

    A group of whose facts nothing has a verdict is unscored.
    """
    (judged,) = parts
    right = []
    unscored = []
    released = [entity for entity, _ in linkable(known)]
    for entity, group, link in zip(released, judged.groups, judged.links, strict=True):
        cells = [cell for fact in group for cell in judged.matrix[fact]]
        if all(cell.outcome == "unscored" for cell in cells):
            unscored.append(cells[0].reason)
        else:
            right.append(link is not None and judged.entities[link] == entity)
    return Tally((sum(right), len(right)) if right else (), unscored)


def count_verification(known: Known, parts: Sequence[JudgedBiography]) -> Tally:
    """Count pairs of a fact and an entity by whether its page supports the fact.

    An irrelevant fact is not a supported one.
    """
    pairs = []
    unscored = []
    for judged in parts:
        (entity,) = judged.entities
        released = [verdict for (_, page), verdict in known.verdicts.items() if page == entity]
        for is_supported, (cell,) in zip(released, judged.matrix, strict=True):
            if cell.outcome == "unscored":
                unscored.append(cell.reason)
            else:
                pairs.append((cell.outcome == "supported", is_supported))
    kinds = ((True, True), (True, False), (False, True), (False, False))
    return Tally([pairs.count(kind) for kind in kinds] if pairs else (), unscored)


def score_verification(counts: Sequence[float]) -> dict[str, float]:
    tp, fp, fn, tn = counts
    total = tp + fp + fn + tn
    accuracy = ratio(tp + tn, total)
    scores = _table_scores(tp, fp, fn)
    # Cohen's kappa: agreement beyond that of judges who only know how often each answer is given.
    chance = ratio((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn), total * total)
    return {
        "accuracy": accuracy,
        **scores,
        "balanced_accuracy": (scores["recall"] + ratio(tn, tn + fp)) / 2,
        "kappa": ratio(accuracy - chance, 1 - chance),
    }
