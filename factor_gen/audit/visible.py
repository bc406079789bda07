"""Baselines that read nothing: properties of a choice, its place, and how choices compare with each other."""

from collections.abc import Iterator, Sequence

from factor_gen.audit.records import COMPARES, SURFACE, Scores
from factor_gen.audit.words import summed_distances
from factor_gen.surface import STATISTICS
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing

CENTRAL = "most central (least summed edit distance)"


def surface(rows: Sequence[Row]) -> Iterator[Scores]:
    """Most and least of every statistic, first and last in sorted order, and each place in the file where choices have places. In
    the authors' columns they have none: the true completion has its own, and whoever asks a model shuffles the choices."""
    for name, values in _statistics(rows):
        yield Scores(f"most {name}", SURFACE, values)
        yield Scores(f"least {name}", SURFACE, [_negative(each) for each in values])
    ranks = [_ranks(row) for row in rows]
    yield Scores("first in sorted order", SURFACE, [_negative(each) for each in ranks])
    yield Scores("last in sorted order", SURFACE, ranks)
    if len({row.gold for row in rows}) > 1:
        for place in range(max(len(row.choices) for row in rows)):
            sizes = [len(row.choices) for row in rows]
            picked = [[float(index == place) for index in range(size)] if place < size else None for size in sizes]
            yield Scores(f"choice {place + 1} in the file", SURFACE, picked)


def comparing(rows: Sequence[Row]) -> Iterator[Scores]:
    """What comparing the choices of a row finds; spaces before punctuation, which are counted elsewhere, taken away."""
    clean = [normalise_spacing(row).choices for row in rows]
    yield Scores(CENTRAL, COMPARES, [_negative(summed_distances(choices)) for choices in clean])


def _negative(values: Sequence[float]) -> list[float]:
    return [-value for value in values]


def _ranks(row: Row) -> list[float]:
    order = {text: float(rank) for rank, text in enumerate(sorted(set(row.choices)))}
    return [order[choice] for choice in row.choices]


def _statistics(rows: Sequence[Row]) -> Iterator[tuple[str, list[list[float]]]]:
    for name, statistic in STATISTICS.items():
        yield name, [[statistic(choice) for choice in row.choices] for row in rows]
