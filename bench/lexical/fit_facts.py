"""Fits the lexical judge of atomic facts to released decisions.

    python -m bench.lexical.fit_facts --decisions FILE --generations FILE --out FILE

To compare a fact with the page of an individual is another question than to compare a sentence with
the passages that it cites, which `bench.lexical.fit` is about: facts are short, and most pages are
about somebody else. The labels are those of the authors' decision files, which say which page
supports each fact.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench.lexical.evaluate import Floats
from bench.lexical.fit import FACT_FEATURES, NUM_FOLDS, fit, write_fit
from judges.lexical.comparison import Comparison
from judges.lexical.model import feature_vector
from judges.lexical.words import parse_passage
from lm_factuality.benchmarks.biographies.decisions import (
    DecidedResponse,
    match_texts,
    read_decisions,
)
from lm_factuality.benchmarks.biographies.generations import passages_by_title, read_generations
from lm_factuality.benchmarks.biographies.matrix import pair_facts_with_pages
from lm_factuality.benchmarks.biographies.types import Fact, GeneratedText
from lm_factuality.ground.errors import DataError

_SOURCE = (
    "atomic facts of ChatGPT's biographies, each with the passages given on each candidate and"
    " whether its page was found to support the fact, from the authors' repository of D-FActScore;"
    " only numbers fitted on them are here, none of their text"
)


@dataclass(frozen=True)
class _LabelledPair:
    """A fact and the page of an individual, with a label."""

    name: str
    """The name that was asked about."""

    features: Floats
    """The features of the pair, of shape (features,)."""

    is_supported: bool
    """Whether the page supports the fact."""


def fit_files(decisions: Path, generations: Path) -> dict[str, Any]:
    """Fit the judge to the decisions about some generations.

    Args:
        decisions: A decision file of the authors.
        generations: The generations that were judged, with their passages.

    Returns:
        The content of a file of coefficients. The threshold has the best balanced accuracy out of
        fold.

    Raises:
        DataError: A file cannot be read, or too few of the decisions are about the generations.
    """
    responses = read_decisions(decisions).responses
    matches = list(match_texts(responses, read_generations([generations])))
    pairs: list[_LabelledPair] = []
    for response, generation in tqdm(matches, desc="features", delay=2):
        pairs.extend(_label_pairs(response, generation))
    names = [pair.name for pair in pairs]
    labels = np.array([pair.is_supported for pair in pairs])
    if len(set(names)) < NUM_FOLDS or labels.all() or not labels.any():
        raise DataError(
            f"{decisions}: {len(matches)} of its responses are in {generations}; needs those of at"
            f" least {NUM_FOLDS} names, with facts that are supported and facts that are not"
        )

    features = np.array([pair.features for pair in pairs])
    is_hard = np.ones(len(labels), dtype=np.bool_)
    hashes = {}
    for path in (decisions, generations):
        hashes[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return fit(features, labels, names, is_hard).to_json(
        FACT_FEATURES,
        labels,
        names,
        files=hashes,
        source=_SOURCE,
        responses=len(matches),
        threshold_chosen_on="all pairs, out of fold",
        command="python -m bench.lexical.fit_facts",
    )


def _label_pairs(response: DecidedResponse, generation: GeneratedText) -> Iterator[_LabelledPair]:
    """Yield each fact of a response with each individual's page, measured and labelled."""
    facts = [Fact(fact.atom, 0) for fact in response.facts]
    find_page = passages_by_title(generation).get
    pairs_by_key = {
        (pair.fact, pair.entity): pair
        for pair in pair_facts_with_pages(facts, generation.entities, find_page)
    }
    for fact in response.facts:
        for entity in generation.entities:
            pair = pairs_by_key[fact.atom, entity]
            # Without a page there is nothing to compare.
            if pair.preset_judgement is not None:
                continue
            passages = [parse_passage(text) for text in pair.verification_variables["passages"]]
            features = feature_vector(Comparison(fact.atom, passages), FACT_FEATURES)
            is_supported = fact.is_supported and fact.supporting_topic == entity
            yield _LabelledPair(generation.name, features, is_supported)


def main(argv: Sequence[str] | None = None) -> int:
    """Fit the judge, write its file, print the coefficients, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lexical.fit_facts",
        description="Fit the lexical judge of atomic facts to released decisions.",
    )
    parser.add_argument(
        "--decisions", type=Path, required=True, metavar="FILE", help="a released decision file"
    )
    parser.add_argument(
        "--generations",
        type=Path,
        required=True,
        metavar="FILE",
        help="the generations that were judged, in ALCE's JSON format",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the file for the coefficients"
    )
    arguments = parser.parse_args(argv)
    return write_fit(
        arguments.out,
        lambda: fit_files(arguments.decisions, arguments.generations),
        _describe_decisions,
    )


def _describe_decisions(fitted_on: Mapping[str, Any]) -> str:
    """Describe the decisions that a judge was fitted to."""
    return (
        f"{', '.join(fitted_on['files'])}: {fitted_on['pairs']:,} pairs of a fact and an individual"
        f" from {fitted_on['responses']} responses, {fitted_on['supported']:,} supported"
    )


if __name__ == "__main__":
    sys.exit(main())
