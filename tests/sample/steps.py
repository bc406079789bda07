"""The made-up biographies judged step by step, against their known truth: what the offline judge is
tested by."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from bench.sample.claims import Biography, BiographySentence
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.ground.records import to_model
from lm_factuality.sample.quickstart import (
    JudgeComparison,
    Truth,
    compare_score,
    compare_with_truth,
    scores_of,
    truth_of,
)

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Steps:
    """``measures`` compare scores of responses; ``steps`` has the share of right decisions in each
    step, and out of how many."""

    measures: tuple[JudgeComparison, ...]
    steps: Mapping[str, tuple[float, int]]


@dataclass(frozen=True)
class _Fact:
    """A fact that the judge extracted: the individual that it was written about, and the titles of
    those of whom it holds."""

    individual: int
    holders: frozenset[str]


def compare_steps(judged: Sequence[JudgedBiography], truth: Sequence[Biography]) -> Steps:
    """The scores of ``judged`` beside those of ``truth``.

    Twice: beside the scores over the claims that were written, and (``same facts``) over the facts
    that the judge extracted, as in the paper's comparison, where people labelled the facts of the
    automatic evaluation.
    """
    told = [truth_of(each, truth) for each in judged]
    pairs = list(zip(judged, told, strict=True))
    facts = [known_facts(*pair) if pair[0].facts and pair[1].sentences else [] for pair in pairs]
    ours = [scores_of(each) for each in judged]
    on_facts = [_scores_on_facts(each, its) for each, its in zip(judged, facts, strict=True)]
    answered = (
        [{"answered": not each.abstained} for each in judged],
        [{"answered": not known.abstained} for known in told],
    )
    measures = (
        *compare_with_truth(judged, [to_model(Truth, each.to_truth()) for each in truth]),
        compare_score("FActScore, same facts", "factscore", ours, on_facts),
        compare_score("D-FActScore, same facts", "d_factscore", ours, on_facts),
        compare_score("answered", "answered", *answered),
    )
    numbers = [
        (our, known.to_truth())
        for our, known in zip(ours, told, strict=True)
        if not known.abstained
    ]
    same_number = [our.get("num_biographies") == its["num_biographies"] for our, its in numbers]
    decided = [(each, its) for each, its in zip(judged, facts, strict=True) if its]
    steps = {
        "abstention": _accuracy([each.abstained == known.abstained for each, known in pairs]),
        "grouping: biographies": _accuracy(same_number),
        "grouping: pairs of facts": _accuracy(
            [right for pair in decided for right in _pairs_of_facts(*pair)]
        ),
        "linking": _accuracy([right for pair in decided for right in _links(*pair)]),
        "verification": _accuracy([right for pair in decided for right in _verdicts(*pair)]),
    }
    return Steps(measures, steps)


def known_facts(judged: JudgedBiography, truth: Biography) -> list[_Fact]:
    """What is true of each fact of ``judged``. A fact makes those claims of its sentence whose
    words it has, and holds of whom they all hold; one without any is as its sentence is."""
    places = _places(judged.sentences, truth.sentences)
    facts = []
    individual = 0
    for fact in judged.facts:
        written = truth.sentences[places[fact.sentence]]
        individual = individual if written.individual is None else written.individual
        words = _words(fact.text)
        claims = [
            claim for claim in written.claims if _words(claim.words) <= words
        ] or written.claims
        titles = {title for claim in claims for title in claim.supported_by}
        holders = {
            title for title in titles if all(title in claim.supported_by for claim in claims)
        }
        facts.append(_Fact(individual, frozenset(holders)))
    return facts


def _scores_on_facts(judged: JudgedBiography, facts: Sequence[_Fact]) -> Mapping[str, Any]:
    """The true FActScore and D-FActScore over the facts of ``judged``."""
    if not facts:
        return {}
    held = 0
    for individual in {fact.individual for fact in facts}:
        own = [fact for fact in facts if fact.individual == individual]
        held += max(sum(title in fact.holders for fact in own) for title in judged.entities)
    return {
        "factscore": sum(bool(fact.holders) for fact in facts) / len(facts),
        "d_factscore": held / len(facts),
    }


def _pairs_of_facts(judged: JudgedBiography, facts: Sequence[_Fact]) -> Iterator[bool]:
    """For each two facts: whether the judge put them together exactly if a reader would."""
    group_of = {fact: number for number, group in enumerate(judged.groups) for fact in group}
    for one, other in combinations(sorted(group_of), 2):
        yield (group_of[one] == group_of[other]) == (
            facts[one].individual == facts[other].individual
        )


def _links(judged: JudgedBiography, facts: Sequence[_Fact]) -> Iterator[bool]:
    """For each group: whether its entity is one of which most of its facts hold."""
    if judged.groups:
        for group, link in zip(judged.groups, judged.links, strict=True):
            counts = [
                sum(title in facts[fact].holders for fact in group) for title in judged.entities
            ]
            yield (link is None and not any(counts)) or (
                link is not None and counts[link] == max(counts)
            )


def _verdicts(judged: JudgedBiography, facts: Sequence[_Fact]) -> Iterator[bool]:
    """For each fact and entity: whether the verdict is right; no verdict is not."""
    if judged.matrix:
        for fact, row in zip(facts, judged.matrix, strict=True):
            for title, judgement in zip(judged.entities, row, strict=True):
                supported = judgement.outcome == "supported"
                yield judgement.outcome != "unscored" and supported == (title in fact.holders)


def _accuracy(right: Sequence[bool]) -> tuple[float, int]:
    return (sum(right) / len(right) if right else math.nan), len(right)


def _places(sentences: Sequence[str], written: Sequence[BiographySentence]) -> list[int]:
    """Which of ``written`` each sentence is, or shares most words with; among equals, the next in
    the text."""
    known = [_words(each.text) for each in written]
    places: list[int] = []
    for sentence in sentences:
        words, last = _words(sentence), places[-1] if places else -1
        likeness = [len(words & other) / len(words | other) for other in known]
        places.append(
            max(range(len(written)), key=lambda number: (likeness[number], number > last, -number))
        )
    return places


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
