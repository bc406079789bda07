"""Baselines that read nothing: properties of a choice, its place, and how choices compare with each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from factor_gen.audit.records import BY_LOT, COMPARES, SURFACE, Scores
from factor_gen.audit.words import departures, summed_distances
from factor_gen.surface import STATISTICS
from lm_factuality.factor.rows import Row, normalise_spacing


def surface(rows: Sequence[Row]) -> Iterator[Scores]:
    """Most and least of every statistic, first and last in sorted order, and each place in the file where choices have places.

    In the authors' columns they have none: the true completion has its own, and whoever asks a model shuffles the choices.
    """
    for name, statistic in STATISTICS.items():
        values = [[statistic(choice) for choice in row.choices] for row in rows]
        yield Scores(f"most {name}", SURFACE, values)
        yield Scores(f"least {name}", SURFACE, [[-value for value in each] for each in values])
    ranks = [_ranks(row.choices) for row in rows]
    yield Scores("first in sorted order", SURFACE, [[-rank for rank in each] for each in ranks])
    yield Scores("last in sorted order", SURFACE, ranks)
    if len({row.gold for row in rows}) > 1:
        for place in range(max(len(row.choices) for row in rows)):
            picked = [_place(row, place) for row in rows]
            yield Scores(f"choice {place + 1} in the file", SURFACE, picked)


def by_lot(rows: Sequence[Row], seed: int) -> Iterator[Scores]:
    """A number for each word, drawn once for all rows and added up: how a model scores that knows no word from another."""

    def weight(word: str) -> float:
        digest = hashlib.blake2b(f"{seed}/{word}".encode("utf-8", "replace"), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64 - 0.5

    values = [[sum(map(weight, choice.split())) for choice in row.choices] for row in rows]
    yield Scores("word weights by lot", BY_LOT, values)


def comparing(rows: Sequence[Row]) -> Iterator[Scores]:
    """What comparing the choices of a row finds; spaces before punctuation, which are counted elsewhere, taken away."""
    clean = [normalise_spacing(row) for row in rows]
    yield _compare(
        "most central (least summed edit distance)", clean, lambda texts: [-x for x in summed_distances(texts)]
    )
    yield _compare("leaves the majority last", clean, departures)
    yield _compare("leaves the majority first", clean, lambda texts: [-x for x in departures(texts)])


def _compare(name: str, rows: Sequence[Row], values: Callable[[Sequence[str]], list[int]]) -> Scores:
    return Scores(name, COMPARES, [values(row.choices) for row in rows])


def _ranks(choices: Sequence[str]) -> list[float]:
    order = {text: float(rank) for rank, text in enumerate(sorted(set(choices)))}
    return [order[choice] for choice in choices]


def _place(row: Row, place: int) -> list[float] | None:
    return [float(index == place) for index in range(len(row.choices))] if place < len(row.choices) else None
