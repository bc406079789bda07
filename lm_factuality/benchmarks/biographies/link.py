"""Which entity an individual is: the one whose page supports most of the facts of its group
(equation 1 of the paper).

``greedy`` links each group by itself, as the paper's results do, so that two may have one entity;
of equals it takes the one retrieved earlier or, under ``protocol: code``, as the published code,
the first in the alphabet. ``hungarian`` (appendix C.1) gives an entity to one group at most, so
that most facts are supported; a group that finds none left has no entity."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lm_factuality.benchmarks.biographies.types import Judgement

PROTOCOLS = ("paper", "code")
Groups = Sequence[Sequence[int]]
Matrix = Sequence[Sequence[Judgement]]
Links = tuple[int | None, ...]
Support = np.ndarray[tuple[int, int], np.dtype[np.int64]]


def support(groups: Groups, matrix: Matrix, num_entities: int) -> Support:
    """How many facts of each group (rows) each entity (columns) supports."""
    counts = np.zeros((len(groups), num_entities), dtype=np.int64)
    for row, group in enumerate(groups):
        for fact in group:
            counts[row] += np.array(
                [judgement.outcome == "supported" for judgement in matrix[fact]], dtype=np.int64
            )
    return counts


def greedy(counts: Support, order: Sequence[int]) -> Links:
    """For each group the entity with the highest support, of equals the first in ``order``; None if
    it supports no fact."""
    return tuple(
        max(order, key=lambda entity: (row[entity], -order.index(entity))) if row.any() else None
        for row in counts
    )


def hungarian(counts: Support, order: Sequence[int]) -> Links:
    """The assignment of different entities to groups with the highest sum of support; none to a
    group that gets no support. Of assignments with the same sum it takes the one in which more
    groups have their highest support, then what scipy finds."""
    from scipy.optimize import (
        linear_sum_assignment,
    )  # takes long to import, and few ask for this linking

    links: list[int | None] = [None] * len(counts)
    if counts.size:
        columns = counts[:, list(order)]
        favour = columns == columns.max(axis=1, keepdims=True)
        rows, chosen = linear_sum_assignment(columns * (len(counts) + 1) + favour, maximize=True)
        for row, column in zip(rows.tolist(), chosen.tolist(), strict=True):
            links[row] = order[column] if columns[row, column] else None
    return tuple(links)


LINKINGS: Mapping[str, Callable[[Support, Sequence[int]], Links]] = {
    "greedy": greedy,
    "hungarian": hungarian,
}


def link(
    groups: Groups,
    entities: Sequence[str],
    matrix: Matrix,
    linking: str = "greedy",
    protocol: str = "paper",
) -> Links:
    order = list(range(len(entities)))
    if protocol == "code":
        order.sort(key=lambda number: entities[number])
    return LINKINGS[linking](support(groups, matrix, len(entities)), order)
