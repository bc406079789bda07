import pytest

from lm_factuality.benchmarks.biographies.viewer import fact_statuses
from tests.report.conftest import biography


@pytest.mark.parametrize(
    ("outcomes", "groups", "expected"),
    [
        (
            (("supported", "not_supported"), ("not_supported", "supported")),
            ((0, 1),),
            ["supported", "elsewhere"],
        ),
        (
            (("supported", "not_supported"), ("not_supported", "supported")),
            ((0,), (1,)),
            ["supported", "supported"],
        ),
        (
            (("supported", "not_supported"), ("not_supported", "not_supported")),
            ((0, 1),),
            ["supported", "not_supported"],
        ),
        (
            (("supported", "not_supported"), ("unscored", "supported")),
            ((0, 1),),
            ["supported", "unscored"],
        ),
        (
            (("supported", "not_supported"), ("irrelevant", "irrelevant")),
            ((0, 1),),
            ["supported", "irrelevant"],
        ),
        (
            (("supported", "not_supported"), ("unscored", "not_supported")),
            (),
            ["ungrouped", "unscored"],
        ),
        (
            (("supported", "not_supported"), ("not_supported", "supported")),
            ((1,),),
            ["ungrouped", "supported"],
        ),
        (
            (("not_supported", "irrelevant"), ("not_supported", "supported")),
            ((1,),),
            ["not_supported", "supported"],
        ),
    ],
)
def test_a_fact_is_true_of_its_individual_or_of_another_or_of_nobody(outcomes, groups, expected):
    assert fact_statuses(biography(outcomes=outcomes, groups=groups)) == expected
