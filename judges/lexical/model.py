"""The probability that passages support a claim: features of the pair, a logistic regression on
them, and the reason in words."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from judges.lexical.comparison import Comparison
from judges.lexical.words import ADDITIVES, KINSHIP, Passage, Text, Word
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json

COEFFICIENTS = Path(__file__).resolve().parent / "coefficients.json"
_SHOWN = 3  # missing things of a kind that a reason names
_LEAST = 4  # words of the narrowest window
_WINDOW = 3.0  # times as many content words as the claim has
_SUBJECT = 4  # words at the beginning of a claim among which its subject is looked for

FEATURES: dict[str, Callable[[Comparison], float]] = {
    # the share of the claim's content words that a passage has
    "coverage": lambda pair: _share(pair.covered),
    # the share that lie close together in one passage
    "together": lambda pair: max(
        (
            densest_window(pair.claim.sequence, passage.words.sequence, _WINDOW)
            for passage in pair.passages
        ),
        default=0.0,
    ),
    # the share that one passage has in the claim's order; the names of what the passages are about
    # are on every line
    "in_order": lambda pair: max(
        (
            common_order(_without(pair.claim, pair.about), _without(each.words, pair.about))
            for each in pair.passages
        ),
        default=0.0,
    ),
    # the share of missing words in the second half of the claim, where what is new stands
    "missing_end": lambda pair: 1 - _share(pair.covered[len(pair.covered) // 2 :]),
    # the shares of the claim's numbers, dates (in full), words of names, and names as they stand
    # that no passage has
    "missing_numbers": lambda pair: (
        1 - _share([covered for word, covered in _words(pair) if word.is_number])
    ),
    "missing_dates": lambda pair: len(pair.missing_dates) / len(pair.dates) if pair.dates else 0.0,
    "missing_name_words": lambda pair: (
        1 - _share([covered for word, covered in _words(pair) if word.is_name])
    ),
    "missing_names": lambda pair: len(pair.missing_names) / len(pair.names) if pair.names else 0.0,
    # one of the claim and the sentence closest to it denies what the other affirms
    "negation_differs": lambda pair: float(pair.negation_differs),
    # the passages are about different bearers of one name
    "namesakes": lambda pair: float(bool(pair.namesakes)),
    # the claim has a number: there is more to get wrong, and more to check it by
    "has_numbers": lambda pair: float(any(word.is_number for word in pair.claim.content)),
    # the share of the claim's words that are content words: a list says more in a sentence than a
    # plain statement
    "density": lambda pair: (
        len(pair.claim.content) / len(pair.claim.words) if pair.claim.words else 0.0
    ),
    # the claim says that it comes on top of something else (also, additionally), which is one more
    # thing to support
    "is_additive": lambda pair: _has_any(pair, ADDITIVES),
    # the claim names a relation between relatives, which a passage may have the other way round
    "has_kinship": lambda pair: _has_any(pair, KINSHIP),
    # the claim begins with a name and the passages' titles have no word of it
    "about_another": lambda pair: float(
        bool(pair.about and (start := _start(pair.claim))) and not pair.about & start
    ),
}
"""What is measured of a claim beside its passages, in the order of the coefficients.

Every feature is a share in [0, 1] or a yes (1) and no (0), so that neither the length of the claim
nor that of the passages changes its scale. Of a claim without content words all that could be
missing is there.
"""


def densest_window(needles: Sequence[str], haystack: Sequence[str], width: float) -> float:
    """The largest share of ``needles`` inside one window of ``haystack``, ``width`` times as long
    as they are."""
    if not needles:
        return 1.0
    counts = Counter(needles)
    size = max(_LEAST, math.ceil(width * len(needles)))
    inside: Counter[str] = Counter()
    found = best = 0
    for position, word in enumerate(haystack):
        if word in counts:
            inside[word] += 1
            found += counts[word] if inside[word] == 1 else 0
        if position >= size and (gone := haystack[position - size]) in counts:
            inside[gone] -= 1
            found -= counts[gone] if not inside[gone] else 0
        best = max(best, found)
    return best / len(needles)


def common_order(needles: Sequence[str], haystack: Sequence[str]) -> float:
    """The share of ``needles`` in the longest subsequence common to both: those that ``haystack``
    has in the same order."""
    if not needles:
        return 1.0
    words = np.array(haystack, dtype=object)
    previous = np.zeros(len(words) + 1, dtype=np.int64)
    for needle in needles:
        current = previous.copy()
        current[1:] = np.where(words == needle, previous[:-1] + 1, previous[1:])
        previous = np.maximum.accumulate(current)
    return int(previous[-1]) / len(needles)


def vector(pair: Comparison, names: Collection[str] = tuple(FEATURES)) -> npt.NDArray[np.float64]:
    """The features called ``names`` (keys of ``FEATURES``) in their order: shape (len(names),)."""
    return np.array([FEATURES[name](pair) for name in names], dtype=np.float64)


def _words(pair: Comparison) -> Iterator[tuple[Word, bool]]:
    return zip(pair.claim.content, pair.covered, strict=True)


def _without(text: Text, stems: frozenset[str]) -> list[str]:
    return [stem for stem in text.sequence if stem not in stems]


def _start(claim: Text) -> set[str]:
    """The stems of capitalised content words at the beginning of ``claim``, where its subject is
    looked for."""
    return {
        word.stem for word in claim.words[:_SUBJECT] if word.is_content and word.text[0].isupper()
    }


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 1.0


def _has_any(pair: Comparison, words: frozenset[str]) -> float:
    return float(any(word.text.lower() in words for word in pair.claim.words))


@dataclass(frozen=True)
class Support:
    """``probability`` that the passages support the claim, whether it reaches the threshold, and
    why in one line."""

    probability: float
    is_supported: bool
    reason: str


@dataclass(frozen=True)
class LexicalModel:
    """Coefficients by feature, for the features as they are measured; ``threshold`` is the
    probability from which a claim counts as supported; ``fitted_on`` says where all of that comes
    from."""

    coefficients: Mapping[str, float]
    intercept: float
    threshold: float
    fitted_on: Mapping[str, Any]

    @cached_property
    def identity(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the coefficients and the threshold."""
        numbers = [dict(self.coefficients), self.intercept, self.threshold]
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    def probability(self, pair: Comparison) -> float:
        """The probability in [0, 1] that the passages of ``pair`` support its claim."""
        weights = np.array(list(self.coefficients.values()))
        return float(expit(self.intercept + vector(pair, self.coefficients) @ weights))

    def judge(self, claim: str, passages: Sequence[Passage]) -> Support:
        """Whether ``passages`` support ``claim``. One without content words asserts nothing that
        they could lack."""
        pair = Comparison(claim, passages)
        probability = self.probability(pair)
        return Support(probability, probability >= self.threshold, reason(pair))


def reason(pair: Comparison) -> str:
    """What was found and what is missing, in one line."""
    if not pair.claim.content:
        return "no content words to look for"
    parts = [f"{sum(pair.covered)} of {len(pair.covered)} content words covered"]
    parts += _nowhere("date", [str(date) for date in pair.missing_dates])
    parts += _nowhere("number", [word.text for word in pair.missing if word.is_number])
    parts += _nowhere("name", [" ".join(word.text for word in name) for name in pair.missing_names])
    parts += _nowhere(
        "word", [word.text for word in pair.missing if not word.is_number and not word.is_name]
    )
    if pair.negation_differs:
        parts.append("negation differs")
    if pair.namesakes:
        parts.append(
            "the passages are about namesakes: " + ", ".join(p.title for p in pair.namesakes)
        )
    return "; ".join(parts)


def load_model(path: Path = COEFFICIENTS) -> LexicalModel:
    """The model that ``python -m bench.lexical.fit`` wrote to ``path``.

    Raises:
        DataError: there is no such file, or it is not one that the command writes.
    """
    expected = (
        "expected a file that 'python -m bench.lexical.fit --citations FILE --out FILE' wrote in a"
        " checkout of the suite"
    )
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        coefficients = {str(name): float(value) for name, value in content["coefficients"].items()}
        intercept, threshold = float(content["intercept"]), float(content["threshold"])
        fitted_on = dict(content["fitted_on"])
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; {expected}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: not coefficients of the lexical judge ({error!r}); {expected}"
        ) from error
    if unknown := [name for name in coefficients if name not in FEATURES]:
        raise DataError(
            f"{path}: no feature is called {', '.join(unknown)}; known: {', '.join(FEATURES)};"
            f" {expected}"
        )
    if (
        not all(math.isfinite(number) for number in (*coefficients.values(), intercept))
        or not 0 <= threshold <= 1
    ):
        raise DataError(
            f"{path}: coefficients must be finite and the threshold between 0 and 1; {expected}"
        )
    return LexicalModel(coefficients, intercept, threshold, fitted_on)


def _nowhere(kind: str, missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    shown = ", ".join(missing[:_SHOWN]) + (
        f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    )
    many = len(missing) > 1
    return [
        f"{kind}{'s' if many else ''} {shown} {'are' if many else 'is'} nowhere in the passages"
    ]
