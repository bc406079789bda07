"""Which rows are learned from and which are asked: never both of one document."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lm_factuality.factor.rows import Row

FOLDS = 5


def folds(rows: Sequence[Row], seed: int, count: int = FOLDS) -> list[int]:
    """The fold of each row: documents dealt out by lot. Documents that share a true completion count as one, lest a row be
    learned by heart. Fewer folds than ``count`` where there are fewer documents."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for row in rows:
        parents[root(f"text {row.choices[row.gold].strip()}")] = root(f"document {row.doc_id}")
    groups = [root(f"document {row.doc_id}") for row in rows]
    names = list(dict.fromkeys(groups))
    random.Random(f"{seed}/audit/folds").shuffle(names)
    fold = {name: number % count for number, name in enumerate(names)}
    return [fold[name] for name in groups]
