"""Quantities and dates keep their shape."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factor_gen.generate.rules.dates import change_dates
from factor_gen.generate.rules.numbers import change_quantities, nearby_number, ordinal_suffix
from tests.factor_gen.rules.support import results


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("The mill sold 36 boats.", r"The mill sold [1-9][1-9] boats\."),
        ("The mill sold 300 boats.", r"The mill sold [1-9]00 boats\."),
        ("The mill sold 12,500 boats.", r"The mill sold \d\d,[05]00 boats\."),
        ("Output rose by 5.6%.", r"Output rose by \d\.[1-9]%\."),
        ("It paid $1.98 for it.", r"It paid \$\d\.\d[1-9] for it\."),
        ("It sold four boats.", r"It sold (two|three|five|six|seven) boats\."),
    ],
)
def test_numbers_keep_their_shape(text: str, pattern: str) -> None:
    found = results(change_quantities, text)
    assert found
    assert all(re.fullmatch(pattern, each) for each in found), found


@pytest.mark.parametrize(
    "text",
    [
        "It sold one boat.",
        "The Boeing 737 landed.",
        "It grew by 100%.",
        "See page 12 there.",
        "She sold these two boats.",
        "The latter four boats were sold.",
        "It runs between two points.",
    ],
)
def test_numbers_that_count_nothing_stay(text: str) -> None:
    assert results(change_quantities, text) == set()


def test_the_order_of_a_range_stays() -> None:
    found = results(
        change_quantities,
        "It made a profit of between 12.4 billion and 14.3 billion euros.",
        tries=30,
    )
    for each in found:
        low, high = map(float, re.findall(r"\d+\.\d", each))
        assert low < high


@given(st.integers(2, 10**9), st.booleans(), st.integers(0, 1000))
def test_whole_numbers_keep_digits(value: int, more: bool, seed: int) -> None:
    new = nearby_number(f"{value}", more, random.Random(seed), [])
    if new is not None:
        assert len(new) == len(str(value))
        assert new != str(value)
        assert (int(new) > value) == more


@given(st.decimals("0.01", "99.99", places=2), st.integers(0, 1000))
def test_percentages_stay_below_a_hundred(value: object, seed: int) -> None:
    new = nearby_number(str(value), True, random.Random(seed), [100])
    assert new is None or 0 < float(new) < 100


@pytest.mark.parametrize(
    ("value", "expected"), [(1, "st"), (11, "th"), (22, "nd"), (103, "rd"), (113, "th")]
)
def test_suffixes(value: int, expected: str) -> None:
    assert ordinal_suffix(value) == expected


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("The mill burned in 1921.", r"The mill burned in 19(1[7-9]|2[0-5])\."),
        ("The mill burned on Monday.", r"The mill burned on (Tues|Wednes|Thurs|Fri)day\."),
        ("The mill burned on Sunday.", r"The mill burned on Saturday\."),
        ("It opens on Jan. 14.", r"It opens on ([A-Z][a-z]{2}\. 14|[A-Z][a-z]{2,3}\. [12]\d)\."),
        ("It opened on April 30.", r"It opened on (\w+ 30|\w+ [23]\d)\."),
        ("It dates from the 12th century.", r"It dates from the (10|11|13|14)th century\."),
        ("It grew in the third quarter.", r"It grew in the (first|second|fourth) quarter\."),
    ],
)
def test_dates_keep_their_shape(text: str, pattern: str) -> None:
    found = results(change_dates, text, tries=30)
    assert found
    assert all(re.fullmatch(pattern, each) and each != text for each in found), found


def test_no_month_is_too_short_for_its_day() -> None:
    assert not {
        each
        for each in results(change_dates, "It opened on July 31.", tries=60)
        if re.search(r"(June|April|February|September|November) 31", each)
    }


def test_years_keep_their_order() -> None:
    for each in results(change_dates, "He led it from 1931 to 1934.", tries=40):
        first, last = map(int, re.findall(r"\d+", each))
        assert first < last


@pytest.mark.parametrize(
    ("stays", "changes"),
    [
        ("It was kept since 1921.", "It was kept in 1921."),  # and so since 1923
        ("It was kept since early 1921.", "It was kept in early 1921."),
        ("It was kept in the 1960s and 1970s.", "It was kept in the 1960s."),
        ("It was kept in the 1960s or later.", "In the 1960s it was kept, or later."),
        ("It was kept in the 1960s and 1970s.", "It was kept in 1960 and 1970."),
    ],
)
def test_dates_that_leave_others_open_stay(stays: str, changes: str) -> None:
    assert results(change_dates, stays) == set()
    assert results(change_dates, changes)


def test_a_name_with_a_day_in_it_stays() -> None:
    assert results(change_dates, "The Sunday Mercury wrote of it.") == set()
