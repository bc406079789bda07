"""The status that the viewer shows of each fact."""

import pytest

from lm_factuality.benchmarks.biographies.viewer import fact_statuses
from tests.report.conftest import biography

OUTCOMES = {"+": "supported", "-": "not_supported", "?": "unscored", "i": "irrelevant"}


@pytest.mark.parametrize(
    ("rows", "groups", "statuses"),
    [
        (["+-", "-+"], ((0, 1),), ["supported", "elsewhere"]),
        (["+-", "-+"], ((0,), (1,)), ["supported", "supported"]),
        (["+-", "--"], ((0, 1),), ["supported", "not_supported"]),
        (["+-", "?+"], ((0, 1),), ["supported", "unscored"]),
        (["+-", "ii"], ((0, 1),), ["supported", "irrelevant"]),
        (["+-", "?-"], (), ["ungrouped", "unscored"]),
        (["+-", "-+"], ((1,),), ["ungrouped", "supported"]),
        (["-i", "-+"], ((1,),), ["not_supported", "supported"]),
    ],
)
def test_a_fact_is_true_of_its_individual_or_of_another_or_of_nobody(rows, groups, statuses):
    """Each fact has a row of signs, one for each of two entities."""
    outcomes = tuple(tuple(OUTCOMES[sign] for sign in row) for row in rows)

    assert fact_statuses(biography(outcomes=outcomes, groups=groups)) == statuses
