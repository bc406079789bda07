"""Error types by rule: a table of edits, and contradictions of the published files that were
read."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import pytest

from factor_gen.settings import TypesSettings
from factor_gen.text import load_tagger
from factor_gen.types import type_of

TRUE = "After completing his term, he became Chief Justice of Nauru and Tuvalu in 1985."


@pytest.mark.parametrize(
    ("true", "false", "kind"),
    [
        (
            TRUE,
            "After completing his term, he became the Queen of Nauru and Tuvalu in 1985.",
            "entity",
        ),
        (
            TRUE,
            "After completing his term, he declined the position of Chief Justice of Nauru and Tuvalu in 1985.",
            "predicate",
        ),
        (TRUE, TRUE.replace("1985", "1987"), "circumstance"),
        (
            TRUE,
            "After completing her term, she became Chief Justice of Nauru and Tuvalu in 1985.",
            "coreference",
        ),
        (TRUE, TRUE.replace("After", "Before"), "link"),
        ("The mayor lives in Paris.", "The mayor lives in London.", "circumstance"),
        ("Paris lost the final.", "London lost the final.", "entity"),
        ("The bridge is old.", "The bridge is new.", "predicate"),
        ("The old bridge fell.", "The new bridge fell.", "entity"),
        ("The council met on Monday.", "The council never met on Monday.", "predicate"),
        ("Prices rose by 3% in May.", "Prices rose by 5% in May.", "circumstance"),
        ("He said that she had left.", "He said that Bradley had left.", "coreference"),
        ("They won because it rained.", "They won although it rained.", "link"),
    ],
)
def test_edits(true: str, false: str, kind: str) -> None:
    assert type_of(true, false, load_tagger(TypesSettings())) == kind


# What a reader said of 20 contradictions of each file, drawn by seed and not looked at before the
# rule was done; quantities count as circumstances.
_READ = {
    "news_factor": "c c p e co c e e c p e e p p co c p c p c",
    "expert_factor": "e e p p p p p p e e p p p p p c e p e p",
}
_KINDS = {"p": "predicate", "e": "entity", "c": "circumstance", "co": "coreference", "l": "link"}


def test_contradictions_of_the_published_files_that_were_read(shared: Path) -> None:
    csv.field_size_limit(1 << 30)
    dice, tagger, right = random.Random(20261122), load_tagger(TypesSettings()), Counter[str]()
    for name, labels in _READ.items():
        with (shared / "data" / "factor" / f"{name}.csv").open(
            encoding="utf-8", newline=""
        ) as file:
            pairs = [
                (row["completion"], row[f"contradiction_{place}"])
                for row in csv.DictReader(file)
                for place in range(3)
            ]
        drawn = dice.sample(pairs, 20)
        right[name] = sum(
            type_of(*pair, tagger) == _KINDS[label]
            for pair, label in zip(drawn, labels.split(), strict=True)
        )
    assert right.total() >= 31  # of 40, as the audit says beside its table
