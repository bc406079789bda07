"""A small build to write out."""

from __future__ import annotations

from pathlib import Path

import pytest

from factor_gen.choose import ChosenRow
from factor_gen.output.write import Provenance
from factor_gen.records import CIRCUMSTANCE, ENTITY, PREDICATE, Candidate, Example
from factor_gen.settings import BuildSettings, CorpusSettings, FilterSettings, GenerateSettings

OFF = FilterSettings(nli=None, fluency=None)


def make_settings(**changes: object) -> BuildSettings:
    values = {
        "name": "harbours",
        "folder": Path(),
        "seed": 7,
        "filter": OFF,
        "corpus": CorpusSettings(path="harbours.jsonl", license="MIT", source="the harbour master"),
        "generate": GenerateSettings(generator="rules"),
    }
    return BuildSettings(**{**values, **changes})  # type: ignore[arg-type]


def make_chosen(
    number: int = 0, prefix: str = "The harbour is old. ", completion: str = "", **changes: object
) -> ChosenRow:
    completion = (
        completion or f"Its first keeper came from the north in {1700 + number} and never left it."
    )
    found = (
        Candidate(
            completion.replace("north", "south"),
            ENTITY,
            "north -> south",
            "rules/swap",
            0.75,
            -0.125,
        ),
        Candidate(completion.replace("17", "18"), CIRCUMSTANCE, "1700 -> 1800", "rules/date"),
        Candidate(
            completion.replace("never left", "soon fled"),
            PREDICATE,
            "never left -> soon fled",
            "rules/verb",
        ),
        Candidate("Nonsense.", PREDICATE, "all -> nothing", "rules/verb", rejected="not fluent"),
    )
    values = {
        "doc_id": f"d{number}",
        "prefix": prefix,
        "completion": completion,
        "candidates": found,
        **changes,
    }
    return ChosenRow(Example(**values), found[:3])  # type: ignore[arg-type]


@pytest.fixture
def items() -> list[ChosenRow | Example]:
    """Three rows and four documents that gave none, two of them for the same reason."""
    return [
        make_chosen(0),
        Example("short").drop("select", "no sentence of 10 words or more"),
        make_chosen(1, lost={"no change": 2}),
        Example("empty").drop("select", "no sentence of 10 words or more"),
        Example("twice").drop("read", "repeated id"),
        make_chosen(2),
        Example("odd", candidates=make_chosen().contradictions[:1], lost={"no change": 1}).drop(
            "choose", "fewer than 3 contradictions"
        ),
    ]


@pytest.fixture
def provenance() -> Provenance:
    return Provenance(
        corpus={"files": [{"name": "harbours.jsonl", "bytes": 12, "sha256": "00"}]},
        stages={"select": {"min_words": 10}},
        num_left_out={},
    )
