"""The lexical judge's model: a logistic regression on how a claim and its passages compare.

`judges.backends.lexical` asks it as a judge. `bench.lexical.fit` fits the coefficients.
"""

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from judges.lexical.comparison import Comparison
from judges.lexical.words import ADDITIVES, KINSHIP, ParsedPassage, Word, join_words, stems_of
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import to_model
from lm_factuality.ground.settings import Number

COEFFICIENTS = Path(__file__).resolve().parent / "coefficients.json"

# The most missing names and words that a reason lists.
_MAX_LISTED_WORDS = 5


def _coverage(comparison: Comparison) -> float:
    """Return the share of the claim's content words that the passages have."""
    return 1 - _share_of_missing(comparison, comparison.claim.content_words)


def _unrelated(comparison: Comparison) -> float:
    """Return the share of the claim's content words that no passage has, even in another form."""
    return _ratio(len(comparison.unrelated_words), len(comparison.claim.content_words))


def _in_order_share(comparison: Comparison) -> float:
    """Return the largest share of the claim's words that one passage has in the same order."""
    # The words of the passages' titles do not count, since every sentence is about them.
    topic_stems = comparison.topic_stems
    claim_stems = [stem for stem in comparison.claim.stem_sequence if stem not in topic_stems]
    shares = []
    # Words from several passages have no common order, so each passage is compared alone.
    for passage in comparison.passages:
        passage_stems = passage.parsed_text.stem_sequence
        stems = [stem for stem in passage_stems if stem not in topic_stems]
        shares.append(common_order_share(claim_stems, stems))
    return max(shares, default=0.0)


def _missing_end(comparison: Comparison) -> float:
    """Return the share of missing words in the second half of the claim, where the news is."""
    # A claim usually begins with what is known.
    content_words = comparison.claim.content_words
    second_half = content_words[len(content_words) // 2 :]
    return _share_of_missing(comparison, second_half)


def _has_numbers(comparison: Comparison) -> bool:
    """Return whether the claim has a number, which can be wrong but is also easy to check."""
    return any(word.is_number for word in comparison.claim.words)


def _missing_numbers(comparison: Comparison) -> float:
    """Return the share of the claim's numbers that no passage has."""
    numbers = [word for word in comparison.claim.words if word.is_number]
    return _share_of_missing(comparison, numbers)


def _missing_name_words(comparison: Comparison) -> float:
    """Return the share of the words of the claim's names that no passage has."""
    name_words = [word for word in comparison.claim.words if word.is_name]
    return _share_of_missing(comparison, name_words)


def _missing_names(comparison: Comparison) -> float:
    """Return the share of the claim's names whose words are close together in no passage."""
    return _ratio(len(comparison.missing_names), len(comparison.claim_names))


def _namesakes(comparison: Comparison) -> bool:
    """Return whether the passages are about different bearers of one name."""
    return bool(comparison.namesakes)


def _is_additive(comparison: Comparison) -> bool:
    """Return whether the claim has a word such as "also", which itself needs support."""
    return any(word.text.lower() in ADDITIVES for word in comparison.claim.words)


def _has_kinship(comparison: Comparison) -> bool:
    """Return whether the claim names a relative, whom a passage may have the other way round."""
    return any(word.text.lower() in KINSHIP for word in comparison.claim.words)


# The features by their names in files of coefficients. Each is a share from 0 to 1, or yes (1) or
# no (0), so that the length of the texts does not change its scale. If a claim has no words of a
# kind, none of them count as missing.
FEATURES: dict[str, Callable[[Comparison], float]] = {
    "coverage": _coverage,
    "unrelated": _unrelated,
    # A claim may combine wrongly what passages say in different places.
    "together": attrgetter("neighbouring_share"),
    "in_order": _in_order_share,
    "missing_end": _missing_end,
    "has_numbers": _has_numbers,
    "missing_numbers": _missing_numbers,
    "missing_name_words": _missing_name_words,
    "missing_names": _missing_names,
    "negation_differs": attrgetter("negation_differs"),
    "namesakes": _namesakes,
    "is_additive": _is_additive,
    "has_kinship": _has_kinship,
}


def common_order_share(claim_stems: Sequence[str], passage_stems: Sequence[str]) -> float:
    """Return the share of the claim's words that a passage has in the same order.

    That is the length of the longest common subsequence divided by the number of the claim's words.

    Example:
        ``["a", "b", "c"]`` and ``["c", "a", "x", "b"]`` → 2/3, for ``a`` and ``b``

    Args:
        claim_stems: The stems of the claim, in order. Without any the share is 1.
        passage_stems: The stems of the passage, in order.
    """
    if not claim_stems:
        return 1.0

    passage_array = np.array(passage_stems, dtype=object)
    # This is the table of the standard algorithm, row by row: lengths[n] is the length of the
    # longest common subsequence of the claim's words so far and the passage's first n words.
    lengths = np.zeros(len(passage_array) + 1, dtype=np.int64)
    for claim_stem in claim_stems:
        # Where the passage has this word, the subsequence of the words before it grows by one.
        grown_lengths = np.where(passage_array == claim_stem, lengths[:-1] + 1, lengths[1:])
        # A longer beginning of the passage has every subsequence of a shorter one.
        lengths[1:] = np.maximum.accumulate(grown_lengths)
    return int(lengths[-1]) / len(claim_stems)


def _share_of_missing(comparison: Comparison, words: Sequence[Word]) -> float:
    """Return the share of some words of the claim that no passage has, 0 without words."""
    missing = [word for word in words if word in comparison.missing_words]
    return _ratio(len(missing), len(words))


def _ratio(part: int, whole: int) -> float:
    """Return a part of a whole as a share, 0 if the whole is empty."""
    return part / whole if whole else 0.0


def feature_vector(
    comparison: Comparison, names: Collection[str] = tuple(FEATURES)
) -> npt.NDArray[np.float64]:
    """Return features of a claim and its passages, in the order of their names (by default all)."""
    return np.array([FEATURES[name](comparison) for name in names], dtype=np.float64)


@dataclass(frozen=True)
class LexicalVerdict:
    """The verdict of the lexical judge on a claim."""

    probability: float
    """The probability that the passages support the claim."""

    is_supported: bool
    """Whether the probability reaches the threshold."""

    reason: str
    """The number of words covered and what is missing, in one line."""


@dataclass(frozen=True)
class LexicalModel:
    """A logistic regression on the features, as a file of coefficients states it."""

    coefficients: dict[str, Number]
    """The coefficient of each feature, which is not standardised."""

    intercept: Number
    """The log-odds of support if all features are 0."""

    threshold: Annotated[Number, Field(ge=0, le=1)]
    """The lowest probability at which a claim counts as supported."""

    fitted_on: Mapping[str, Any]
    """The data and the command that the numbers come from."""

    @cached_property
    def identity(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the coefficients and the threshold."""
        numbers = [self.coefficients, self.intercept, self.threshold]
        return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]

    def probability(self, comparison: Comparison) -> float:
        """Return the probability that the passages support the claim, from 0 to 1."""
        # The features come in the order of the coefficients.
        weights = np.array(list(self.coefficients.values()))
        features = feature_vector(comparison, self.coefficients)
        log_odds = float(self.intercept + features @ weights)
        # This is scipy's `expit`, which takes a quarter of a second to import. Beyond 700, the
        # exponential would be too great for a number.
        return 1 / (1 + math.exp(min(-log_odds, 700.0)))

    def judge(self, claim: str, passages: Sequence[ParsedPassage]) -> LexicalVerdict:
        """Decide whether passages support a claim."""
        comparison = Comparison(claim, passages)
        probability = self.probability(comparison)
        is_supported = probability >= self.threshold
        return LexicalVerdict(probability, is_supported, explain(comparison))


def explain(comparison: Comparison, all_passages: Comparison | None = None) -> str:
    """Say in one line how many words of a claim some passages have, and which they lack.

    Example:
        ``3 of 5 content words covered; not in the passages: Ada Hill; negation differs``

    Args:
        comparison: The claim and its passages.
        all_passages: The claim with all passages that a reader sees, if ``comparison`` has only one
            of them. Words that stand in the others are not missing.

    Returns:
        The line, which lists at most five of the missing names and words.
    """
    num_words = len(comparison.claim.content_words)
    if num_words == 0:
        return "no content words to look for"

    searched = all_passages or comparison
    num_covered = num_words - len(searched.missing_words)
    parts = [f"{num_covered} of {num_words} content words covered"]
    if comparison.missing_words and not searched.missing_words:
        parts.append("no passage has all of them")

    missing: list[str] = []
    scattered_names: list[str] = []
    for name in searched.missing_names:
        # The words of a name may stand in different places of the passages.
        is_scattered = stems_of(name) <= searched.passage_stems
        (scattered_names if is_scattered else missing).append(join_words(name))
    # The words of names are listed already.
    missing += [word.text for word in searched.missing_words if not word.is_name]
    if missing:
        parts.append(f"not in the passages: {', '.join(missing[:_MAX_LISTED_WORDS])}")
    if scattered_names:
        names = ", ".join(scattered_names[:_MAX_LISTED_WORDS])
        parts.append(f"not together in the passages: {names}")

    if comparison.negation_differs:
        parts.append("negation differs")
    if comparison.namesakes:
        titles = ", ".join(passage.title for passage in comparison.namesakes)
        parts.append(f"the passages are about namesakes: {titles}")
    return "; ".join(parts)


def load_lexical_model(path: Path = COEFFICIENTS) -> LexicalModel:
    """Read a model from a file of coefficients.

    Args:
        path: The JSON file that ``python -m bench.lexical.fit`` wrote. By default the one that
            comes with the package.

    Returns:
        The model.

    Raises:
        DataError: The file is missing, or the command did not write it.
    """
    try:
        model = to_model(LexicalModel, parse_json(path.read_text(encoding="utf-8")))
        # A file of another version may have features that do not exist any more.
        unknown_features = [name for name in model.coefficients if name not in FEATURES]
        if unknown_features:
            raise ValueError(f"no feature is called {', '.join(unknown_features)}")
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not coefficients of the lexical judge: {error}; expected a file that 'python"
            " -m bench.lexical.fit --citations FILE --out FILE' wrote in a checkout of the suite"
        ) from error
    return model
