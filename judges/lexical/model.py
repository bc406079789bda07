"""The probability that passages support a claim, by a logistic regression, and the reason in words.

`judges.backends.lexical` asks it as a judge. `bench.lexical.fit` fits the coefficients.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.special import expit

from judges.lexical.comparison import Comparison
from judges.lexical.words import ADDITIVES, KINSHIP, ParsedPassage, ParsedText, Word
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import to_model
from lm_factuality.ground.settings import Number

COEFFICIENTS = Path(__file__).resolve().parent / "coefficients.json"
_SHOWN = 5  # missing names and words that a reason tells

# What is measured of a claim beside its passages. Every feature is a share in [0, 1], or a yes (1)
# or no (0), so that the length of the texts does not change its scale. Of a claim without content
# words, all that could be missing is there.
FEATURES: dict[str, Callable[[Comparison], float]] = {
    # The share of the claim's content words that a passage has.
    "coverage": lambda pair: 1 - _missing(pair, pair.claim.content),
    # The share of which no passage has a related word either.
    "unrelated": lambda pair: _share(pair.unrelated, pair.claim.content),
    # What passages say in different places, a claim may have put together wrongly.
    "together": lambda pair: pair.together,
    # The share that one passage has in the claim's order. The names of what the passages are about
    # do not count, for they are on every line.
    "in_order": lambda pair: max(
        (
            common_order_share(
                _without(pair.claim, pair.about), _without(passage.words, pair.about)
            )
            for passage in pair.passages
        ),
        default=0.0,
    ),
    # The share of the second half of the claim, where what is new stands, that no passage has.
    "missing_end": lambda pair: _missing(pair, pair.claim.content[len(pair.claim.content) // 2 :]),
    # The claim has a number: there is more to get wrong, and more to check it by.
    "has_numbers": lambda pair: any(word.is_number for word in pair.claim.words),
    # The shares of the claim's numbers, words of names, and names that no passage has.
    "missing_numbers": lambda pair: _missing(
        pair, [word for word in pair.claim.words if word.is_number]
    ),
    "missing_name_words": lambda pair: _missing(
        pair, [word for word in pair.claim.words if word.is_name]
    ),
    "missing_names": lambda pair: _share(pair.missing_names, pair.names),
    "negation_differs": lambda pair: pair.negation_differs,
    # The passages are about different bearers of one name.
    "namesakes": lambda pair: bool(pair.namesakes),
    # The claim says that it comes on top of something else (also, additionally), which is one more
    # thing to support.
    "is_additive": lambda pair: _has_any(pair.claim, ADDITIVES),
    # The claim names relatives, whom a passage may have the other way round.
    "has_kinship": lambda pair: _has_any(pair.claim, KINSHIP),
}


def common_order_share(needles: Sequence[str], haystack: Sequence[str]) -> float:
    """The share of ``needles`` that ``haystack`` has in the same order.

    That is the length of the longest common subsequence, divided by the number of needles.
    """
    if not needles:
        return 1.0
    words = np.array(haystack, dtype=object)
    lengths = np.zeros(len(words) + 1, dtype=np.int64)  # of the best match up to each word
    for needle in needles:
        longer = lengths.copy()
        longer[1:] = np.where(words == needle, lengths[:-1] + 1, lengths[1:])
        lengths = np.maximum.accumulate(longer)
    return int(lengths[-1]) / len(needles)


def feature_vector(
    pair: Comparison, names: Collection[str] = tuple(FEATURES)
) -> npt.NDArray[np.float64]:
    """The features called ``names`` in their order: shape (len(names),)."""
    return np.array([FEATURES[name](pair) for name in names], dtype=np.float64)


def _share(part: Sequence[Any], whole: Sequence[Any]) -> float:
    return len(part) / len(whole) if whole else 0.0


def _missing(pair: Comparison, words: Sequence[Word]) -> float:
    """The share of ``words`` of the claim that no passage has."""
    return _share([word for word in words if word in pair.missing], words)


def _without(text: ParsedText, stems: set[str]) -> list[str]:
    return [stem for stem in text.sequence if stem not in stems]


def _has_any(claim: ParsedText, words: frozenset[str]) -> bool:
    return any(word.text.lower() in words for word in claim.words)


@dataclass(frozen=True)
class LexicalVerdict:
    """What the judge says of a claim beside its passages."""

    probability: float
    """That the passages support the claim."""

    is_supported: bool
    """Whether the probability reaches the threshold."""

    reason: str
    """What is missing, in one line."""


@dataclass(frozen=True)
class LexicalModel:
    """A logistic regression on the features, as a file of coefficients has it."""

    coefficients: dict[str, Number]
    """By feature, for the features as they are measured."""

    intercept: Number
    threshold: Annotated[Number, Field(ge=0, le=1)]
    """The probability from which a claim counts as supported."""

    fitted_on: Mapping[str, Any]
    """Where all of that comes from."""

    @cached_property
    def identity(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the coefficients and the threshold."""
        numbers = [self.coefficients, self.intercept, self.threshold]
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    def probability(self, pair: Comparison) -> float:
        """The probability in [0, 1] that the passages support the claim."""
        weights = np.array(list(self.coefficients.values()))
        return float(expit(self.intercept + feature_vector(pair, self.coefficients) @ weights))

    def judge(self, claim: str, passages: Sequence[ParsedPassage]) -> LexicalVerdict:
        """Whether ``passages`` support ``claim``, and why."""
        pair = Comparison(claim, passages)
        probability = self.probability(pair)
        return LexicalVerdict(probability, probability >= self.threshold, reason(pair))


def reason(pair: Comparison) -> str:
    """What was found and what is missing, in one line."""
    content = pair.claim.content
    if not content:
        return "no content words to look for"
    parts = [f"{len(content) - len(pair.missing)} of {len(content)} content words covered"]
    names = [" ".join(word.text for word in name) for name in pair.missing_names]
    words = [word.text for word in pair.missing if not word.is_name]
    missing = [*names, *words]
    if missing:
        parts.append(f"not in the passages: {', '.join(missing[:_SHOWN])}")
    if pair.negation_differs:
        parts.append("negation differs")
    if pair.namesakes:
        titles = ", ".join(passage.title for passage in pair.namesakes)
        parts.append(f"the passages are about namesakes: {titles}")
    return "; ".join(parts)


def load_lexical_model(path: Path = COEFFICIENTS) -> LexicalModel:
    """Read the model that ``python -m bench.lexical.fit`` wrote to ``path``.

    Raises:
        DataError: There is no such file, or it is not one that the command writes.
    """
    try:
        model = to_model(LexicalModel, parse_json(path.read_text(encoding="utf-8")))
        unknown = [name for name in model.coefficients if name not in FEATURES]
        if unknown:
            raise ValueError(f"no feature is called {', '.join(unknown)}")
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not coefficients of the lexical judge: {error}; expected a file that 'python"
            " -m bench.lexical.fit --citations FILE --out FILE' wrote in a checkout of the suite"
        ) from error
    return model
