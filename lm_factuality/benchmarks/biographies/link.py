"""Which entity an individual is: the one whose page supports most of its facts (equation 1).

``greedy`` links each group by itself, as the paper's results do, so that two may have one entity;
of equals it takes the one retrieved earlier or, under ``protocol: code``, as the published code,
the first in the alphabet. ``hungarian`` (appendix C.1) gives an entity to one group at most, so
that most facts are supported; a group that finds none left has no entity.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lm_factuality.benchmarks.biographies.types import Judgement

Links = tuple[int | None, ...]
Support = NDArray[np.int64]
"""How many facts of each group (rows) each entity (columns) supports."""


def link_groups(
    groups: Sequence[Sequence[int]],
    entities: Sequence[str],
    matrix: Sequence[Sequence[Judgement]],
    linking: str = "greedy",
    protocol: str = "paper",
) -> Links:
    """Return the number of the entity of each group, or None."""
    counts = np.zeros((len(groups), len(entities)), dtype=np.int64)
    for row, group in enumerate(groups):
        for fact in group:
            for entity, judgement in enumerate(matrix[fact]):
                counts[row, entity] += judgement.outcome == "supported"
    order = list(range(len(entities)))
    if protocol == "code":
        order.sort(key=entities.__getitem__)
    return (
        link_one_to_one(counts, order) if linking == "hungarian" else link_greedily(counts, order)
    )


def link_greedily(counts: Support, order: Sequence[int]) -> Links:
    """Return for each group the entity with the highest support.

    Of equals it is the first in ``order``. A group without support has none.
    """
    return tuple(
        max(order, key=lambda entity: (row[entity], -order.index(entity))) if row.any() else None
        for row in counts
    )


def link_one_to_one(counts: Support, order: Sequence[int]) -> Links:
    """Return different entities for all groups, with the highest sum of support.

    A group that gets no support has none. Of assignments with the same sum it is the one in which
    more groups have their highest support, then what scipy finds.
    """
    # It takes long to import, and few ask for this linking.
    from scipy.optimize import linear_sum_assignment

    links: list[int | None] = [None] * len(counts)
    if counts.size:
        columns = counts[:, list(order)]
        favour = columns == columns.max(axis=1, keepdims=True)
        rows, chosen = linear_sum_assignment(columns * (len(counts) + 1) + favour, maximize=True)
        for row, column in zip(rows.tolist(), chosen.tolist(), strict=True):
            links[row] = order[column] if columns[row, column] else None
    return tuple(links)
