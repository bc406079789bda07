"""A small build for the tests of its output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from factor_gen.choose import ChosenRow, DocumentOutcome
from factor_gen.output.write import Provenance
from factor_gen.records import CIRCUMSTANCE, ENTITY, PREDICATE, Candidate, Example
from factor_gen.settings import (
    BuildSettings,
    CorpusSettings,
    FilterSettings,
    GenerateSettings,
    NoCheckSettings,
)

NO_FILTERS = FilterSettings(fluency=None)


def make_settings(**changes: Any) -> BuildSettings:
    """Return the settings of a build without filters, in which rules make the contradictions.

    Args:
        changes: Other values of fields of `BuildSettings`.
    """
    values: Mapping[str, Any] = {
        "name": "harbours",
        "folder": Path(),
        "seed": 7,
        "filter": NO_FILTERS,
        "contradiction": NoCheckSettings(),
        "corpus": CorpusSettings(path="harbours.jsonl", license="MIT", source="the harbour master"),
        "generate": GenerateSettings(generator="rules"),
    }
    return BuildSettings(**{**values, **changes})


def make_row(
    number: int = 0, prefix: str = "The harbour is old. ", lost: Mapping[str, int] | None = None
) -> ChosenRow:
    """Return a row of three contradictions of three types. A filter rejected a fourth.

    Args:
        number: The number of its document, such as ``d0``. The year in the sentences depends on it.
        prefix: The text before the completion.
        lost: How many outputs of the generator could not be used, by reason.
    """
    completion = f"Its first keeper came from the north in {1700 + number} and never left it."
    south = Candidate(
        completion.replace("north", "south"),
        ENTITY,
        edit="north -> south",
        generator="rules/swap",
        contradiction=0.75,
        fluency=-0.125,
    )
    later = Candidate(
        completion.replace("17", "18"), CIRCUMSTANCE, edit="1700 -> 1800", generator="rules/date"
    )
    fled = Candidate(
        completion.replace("never left", "soon fled"),
        PREDICATE,
        edit="never left -> soon fled",
        generator="rules/verb",
    )
    rejected = Candidate(
        "Nonsense.",
        PREDICATE,
        edit="all -> nothing",
        generator="rules/verb",
        rejected="filter: not fluent",
    )
    example = Example(
        f"d{number}",
        prefix,
        completion,
        candidates=(south, later, fled, rejected),
        lost=lost or {},
    )
    return ChosenRow(example, (south, later, fled))


@pytest.fixture
def outcomes() -> list[DocumentOutcome]:
    """Return three rows and four documents that gave none, two of them for the same reason."""
    too_few = Example("odd", candidates=make_row().contradictions[:1], lost={"no change": 1})
    return [
        make_row(0),
        Example("short").drop("select", "no sentence of 10 words or more"),
        make_row(1, lost={"no change": 2}),
        Example("empty").drop("select", "no sentence of 10 words or more"),
        Example("twice").drop("read", "repeated id"),
        make_row(2),
        too_few.drop("choose", "fewer than 3 contradictions"),
    ]


@pytest.fixture
def provenance() -> Provenance:
    """Return where the rows of the small build come from."""
    return Provenance(
        corpus={"files": [{"name": "harbours.jsonl", "bytes": 12, "sha256": "00"}]},
        stages={"select": {"min_words": 10}},
        num_left_out={},
    )
