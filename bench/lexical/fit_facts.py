"""Fits the lexical judge of atomic facts:
``python -m bench.lexical.fit_facts --decisions FILE --generations FILE --out FILE``.

A fact beside the page of an entity is another question than a whole sentence beside the passages
that it cites, which ``bench.lexical.fit`` is fitted on: facts are short, and most pages are of
somebody else. Here the labels are those of released decision files: which page supports each fact,
if any.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench.lexical.fit import FACT_FEATURES, FOLDS, fit, write_fit
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
    "atomic facts of ChatGPT's biographies, each with the passages given on each candidate and whether its page was found to "
    "support the fact, from the authors' repository of D-FActScore; only numbers fitted on them are here, none of their text"
)


@dataclass(frozen=True)
class _Pair:
    """A fact beside an entity: the name asked about, the features, and whether the entity's page
    supports the fact."""

    name: str
    features: np.ndarray[Any, np.dtype[np.float64]]
    is_supported: bool


def fit_files(decisions: Path, generations: Path) -> dict[str, Any]:
    """The content of a coefficients file for ``judges.lexical.model``; the threshold has the best
    balanced accuracy out of fold.

    Raises:
        DataError: a file cannot be read, or too few of the decisions are about the generations.
    """
    matched = list(
        match_texts(read_decisions(decisions).responses, read_generations([generations]))
    )
    pairs = [pair for each in tqdm(matched, desc="features", delay=2) for pair in _measure(*each)]
    names = [pair.name for pair in pairs]
    labels = np.array([pair.is_supported for pair in pairs])
    if len(set(names)) < FOLDS or labels.all() or not labels.any():
        raise DataError(
            f"{decisions}: {len(matched)} of its responses are in {generations}; needs those of at least {FOLDS} names, with "
            "facts that are supported and facts that are not"
        )
    result = fit(
        np.array([pair.features for pair in pairs]),
        labels,
        names,
        np.ones(len(labels), dtype=np.bool_),
    )
    return result.to_content(
        FACT_FEATURES,
        labels,
        names,
        files={
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (decisions, generations)
        },
        source=_SOURCE,
        responses=len(matched),
        threshold_chosen_on="all pairs, out of fold",
        command="python -m bench.lexical.fit_facts",
    )


def _measure(response: DecidedResponse, generation: GeneratedText) -> Iterator[_Pair]:
    facts = [Fact(fact.atom, 0) for fact in response.facts]
    pairs = pair_facts_with_pages(facts, generation.entities, passages_by_title(generation).get)
    asked = {(pair.fact, pair.entity): pair for pair in pairs}
    for fact in response.facts:
        for entity in generation.entities:
            pair = asked[fact.atom, entity]
            if pair.preset_judgement is None:
                passages = [parse_passage(text) for text in pair.verification_variables["passages"]]
                is_supported = fact.is_supported and fact.supporting_topic == entity
                features = feature_vector(Comparison(fact.atom, passages), FACT_FEATURES)
                yield _Pair(generation.name, features, is_supported)


def main(argv: Sequence[str] | None = None) -> int:
    """Fits, writes the file and prints the coefficients."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lexical.fit_facts",
        description="Fits the lexical judge of atomic facts.",
    )
    parser.add_argument(
        "--decisions", type=Path, required=True, metavar="FILE", help="a released decision file"
    )
    parser.add_argument(
        "--generations",
        type=Path,
        required=True,
        metavar="FILE",
        help="what was judged, ALCE's JSON",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where the coefficients go"
    )
    parsed = parser.parse_args(argv)
    return write_fit(
        parsed.out,
        lambda: fit_files(parsed.decisions, parsed.generations),
        lambda fitted: (
            f"{', '.join(fitted['files'])}: {fitted['pairs']:,} pairs of a fact and an entity from "
            f"{fitted['responses']} responses, {fitted['supported']:,} supported"
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
