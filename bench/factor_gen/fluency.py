"""Measures how many good and how many broken sentences the fluency filter rejects.

``python -m bench.factor_gen fluency`` calls `measure_rejections`. It needs contradictions that
somebody read. Broken sentences are made of them by script, in five ways.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.timing import Record
from factor_gen.filter_models import FluencyModel
from factor_gen.fluency import Comparison, measure_fluency, other_forms
from factor_gen.language import ENGLISH
from factor_gen.records import last_words
from factor_gen.settings import FluencySettings

_GOOD = "good"
_BROKEN = "broken"
# Words that agree with others. The rest of a sentence's words are tried for a wrong inflection.
_AGREEING = frozenset(
    ("is", "are", "was", "were", "has", "have", "does", "do", "a", "an", "this", "these")
)
_MOST_SHUFFLED = 5
# L2 of the findings: the earlier filter rejected most of the short sentences.
_SHORT, _LONG = 18, 25  # words


class _Case(NamedTuple):
    """A sentence that the filter compares with its original."""

    kind: str
    """What was done to it, such as ``doubled word``."""

    half: str
    """The half of the sentences that it belongs to: ``tuned`` or ``held out``."""

    comparison: Comparison
    """The sentence with its original."""


def measure_rejections(path: Path, settings: FluencySettings) -> Iterator[Record]:
    """Yield the share of each kind of sentences that the filter rejects.

    Args:
        path: A CSV file with the columns ``prefix``, ``completion``, ``contradiction`` and
            ``verdict``. The verdict of a reader is ``good``, ``broken``, or anything else for a
            contradiction that is fluent but wrong for another reason, which is left out.
        settings: The model and the limits of the filter.

    Yields:
        For each kind of sentences and each half, how many there are and how many are rejected: by
        the filter, and by a margin of mean log-likelihoods of 0.2 nats, which is the paper's.
    """
    cases = list(_read_cases(path, settings.context))
    model = FluencyModel(settings)
    comparisons = [case.comparison for case in cases]
    measures = measure_fluency(model, comparisons, ENGLISH)
    contexts = [comparison.context for comparison in comparisons]
    originals = model.score([comparison.completion for comparison in comparisons], contexts)
    edited = model.score([comparison.candidate for comparison in comparisons], contexts)

    by_kind: dict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    for case, measure, original, candidate in zip(cases, measures, originals, edited, strict=True):
        if measure is None or original is None or candidate is None:
            continue
        is_rejected = (
            measure.change <= -settings.drop
            or measure.better_form >= settings.form
            or measure.doubles_word
        )
        mean_change = float(candidate.logprobs.mean() - original.logprobs.mean())
        outcome = (is_rejected, mean_change <= -0.2)
        for kind in _kinds_of(case):
            by_kind[kind, case.half].append(outcome)

    for (kind, half), outcomes in sorted(by_kind.items()):
        yield {
            "kind": kind,
            "half": half,
            "model": settings.model,
            "sentences": len(outcomes),
            "rejected": sum(new for new, _ in outcomes) / len(outcomes),
            "rejected_by_mean": sum(old for _, old in outcomes) / len(outcomes),
        }


def _kinds_of(case: _Case) -> list[str]:
    """Return the lines of the table in which a sentence counts."""
    if case.kind != _GOOD:
        # Contradictions that were published broken are too few to count with the others.
        return [case.kind] if case.kind.startswith("published") else [case.kind, "all broken"]
    num_words = len(case.comparison.completion.split())
    if num_words <= _SHORT:
        return [_GOOD, f"{_GOOD}, up to {_SHORT} words"]
    return [_GOOD, f"{_GOOD}, above {_LONG} words"] if num_words > _LONG else [_GOOD]


def _read_cases(path: Path, context: int) -> Iterator[_Case]:
    """Yield the sentences of a file, and the broken ones that are made of them.

    Args:
        path: The file.
        context: How many words before the sentence the model reads.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows: Sequence[Mapping[str, str]] = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        half = "held out" if number % 2 else "tuned"
        before = last_words(row["prefix"], context)
        completion = row["completion"]

        def make_case(kind: str, text: str) -> _Case:
            return _Case(kind, half, Comparison(before, completion, text))  # noqa: B023

        # What is broken is either the original or a good contradiction of it.
        sources = [completion]
        if row["verdict"] == _GOOD:
            yield make_case(_GOOD, row["contradiction"])
            sources.append(row["contradiction"])
        elif row["verdict"] == _BROKEN:
            yield make_case("published, broken", row["contradiction"])
        for source in sources:
            for kind, text in break_sentence(source, random.Random(number)).items():
                yield make_case(kind, text)


def break_sentence(sentence: str, rng: random.Random) -> dict[str, str]:
    """Break a sentence in each of five ways.

    Args:
        sentence: A sentence of at least six words.
        rng: Where the sentence is broken.

    Returns:
        The broken sentences by the way. A way that needs words that the sentence lacks is missing.
    """
    words = sentence.split()
    shuffled = words[:]
    start = rng.randrange(max(1, len(words) - _MOST_SHUFFLED))
    while shuffled == words:
        part = shuffled[start : start + _MOST_SHUFFLED]
        rng.shuffle(part)
        shuffled[start : start + _MOST_SHUFFLED] = part

    doubled = rng.randrange(len(words) - 1)
    end = rng.randrange(len(words) // 2, len(words) - 1)
    broken = {
        "shuffled words": " ".join(shuffled),
        "doubled word": " ".join([*words[: doubled + 1], *words[doubled:]]),
        "cut off": " ".join(words[:end]).rstrip(".,;:") + ".",
    }
    agreeing = [position for position, word in enumerate(words) if word in _AGREEING]
    inflected = []
    for position, word in enumerate(words):
        if position and word.islower() and word not in _AGREEING and len(other_forms(word)):
            inflected.append(position)
    for kind, positions in (("wrong agreement", agreeing), ("wrong inflection", inflected)):
        if positions:
            position = rng.choice(positions)
            form = rng.choice(other_forms(words[position]))
            broken[kind] = " ".join([*words[:position], form, *words[position + 1 :]])
    return broken
