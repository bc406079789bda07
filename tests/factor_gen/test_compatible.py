"""What may hold beside the original is no contradiction; what cannot is one. Tables of both."""

from __future__ import annotations

import pytest

from factor_gen.generate.compatible import REASONS, compatible

NAME, NOBODY, QUANTITY, WITHIN_TIME, TIMES, PLACE = REASONS

HOLD = [
    # comparators leave much open
    (QUANTITY, "The mill sold over 200 boats.", "200", "300"),
    (QUANTITY, "The mill sold over 300 boats.", "300", "200"),
    (QUANTITY, "The mill sold more than five boats.", "five", "seven"),
    (QUANTITY, "The mill sold at least 40 boats.", "40", "60"),
    (QUANTITY, "The mill sold no fewer than 40 boats.", "40", "30"),
    (QUANTITY, "The mill sold up to 40 boats.", "40", "60"),
    (QUANTITY, "The mill sold at most 40 boats.", "40", "30"),
    (QUANTITY, "The mill sold no more than 40 boats.", "40", "50"),
    (QUANTITY, "It is used if there are fewer than 25 samples.", "25", "35"),
    (QUANTITY, "It works within 30 days.", "30", "20"),
    (QUANTITY, "About 200 boats were sold.", "200", "210"),
    (QUANTITY, "Roughly $40 was paid.", "$40", "$42"),
    (QUANTITY, "Nearly 200 boats were sold.", "Nearly", "About"),
    (QUANTITY, "It needs 512 or more megabytes.", "512", "640"),
    (QUANTITY, "It needs version 4.14 or later.", "4.14", "5.37"),
    (QUANTITY, "Children of 12 years and younger go free.", "12", "14"),
    (QUANTITY, "It has 40+ settings.", "40", "60"),
    (QUANTITY, "The mill sold 40 boats.", "40", "over 30"),
    (QUANTITY, "It took between 5 and 10 days.", "5", "7"),
    (QUANTITY, "It took between 5 and 10 days.", "10", "14"),
    (QUANTITY, "It took between 5 days and 10 days.", "10", "14"),
    (QUANTITY, "It took 5-10 days.", "10", "14"),
    (QUANTITY, "It took 5 to 10 days.", "5", "4"),
    # a time within a time
    (WITHIN_TIME, "It opened in 1985.", "1985", "the 1980s"),
    (WITHIN_TIME, "It opened in the 1980s.", "the 1980s", "1985"),
    (WITHIN_TIME, "It opened in 1985.", "1985", "the 20th century"),
    (WITHIN_TIME, "It opened in the 1980s.", "the 1980s", "the 20th century"),
    (WITHIN_TIME, "It opened on May 5, 1985.", "May 5, 1985", "May 1985"),
    (WITHIN_TIME, "It opened on May 5, 1985.", "May 5, 1985", "1985"),
    (WITHIN_TIME, "It opened in May 1985.", "May 1985", "1985"),
    (WITHIN_TIME, "It opened in 1985.", "1985", "June 1985"),
    (WITHIN_TIME, "It opened on Friday, May 5.", "Friday, May 5", "May 5"),
    (TIMES, "It opened last week.", "last week", "last month"),
    (TIMES, "It opened last year.", "year", "month"),
    (TIMES, "It opens this month.", "month", "year"),
    (TIMES, "It has rained for weeks.", "weeks", "months"),
    (TIMES, "Prices rose from a year earlier.", "a year earlier", "a month earlier"),
    (TIMES, "Prices rose 4% year-on-year.", "year-on-year", "month-on-month"),
    # a place within a place
    (PLACE, "It stands in Wales.", "Wales", "Britain"),
    (PLACE, "It stands in Britain.", "Britain", "Wales"),
    (PLACE, "It stands in Scotland.", "Scotland", "the United Kingdom"),
    (PLACE, "It stands in Paris.", "Paris", "France"),
    (PLACE, "It stands in Paris.", "Paris", "Europe"),
    (PLACE, "It stands in France.", "France", "Europe"),
    (PLACE, "It stands in Houston.", "Houston", "Texas"),
    (PLACE, "It stands in Texas.", "Texas", "America"),
    (PLACE, "It stands in Sicily.", "Sicily", "Italy"),
    (PLACE, "It stands in Kyiv.", "Kyiv", "Kiev"),
    (PLACE, "It is a European firm.", "European", "Spanish"),
    # nobody in particular
    (NOBODY, "We can see that it works.", "We", "They"),
    (NOBODY, "It gives you what you need.", "you", "they"),
    (NOBODY, "It shows how they are made.", "they", "you"),
    (NOBODY, "One cannot know this.", "One", "You"),
    # parts of names
    (NAME, "The proof is in [5] below.", "5", "6"),
    (NAME, "It calls realloc(3) once.", "3", "2"),
    (NAME, "It is shown in figure 3 there.", "3", "4"),
    (NAME, "It follows RFC 2119 here.", "2119", "1854"),
    (NAME, "Python 3 is needed for it.", "3", "5"),
    (NAME, "The shops open on Black Friday.", "Friday", "Monday"),
]
CONTRADICT = [
    ("The mill sold 200 boats.", "200", "300"),
    ("The mill sold over 200 boats.", "over", "under"),
    ("The mill sold more than five boats.", "more than", "less than"),
    ("The mill sold at least 40 boats.", "at least", "at most"),
    ("The mill sold at least 40 boats.", "at least 40", "30"),
    ("The mill sold up to 40 boats.", "up to 40", "50"),
    ("Nearly 200 boats were sold.", "Nearly", "More than"),
    ("Nearly 200 boats were sold.", "200", "300"),
    ("About 200 boats were sold.", "200", "300"),
    ("The mill sold two boats and three oars.", "two", "four"),
    ("Output rose from 5 to 10 tonnes.", "5", "7"),
    ("Output rose from 5 to 10 tonnes.", "10", "7"),
    ("The three towns lie there.", "three", "six"),
    ("It cost $1.98 there.", "1.98", "2.47"),
    ("It grew by 5.6% there.", "5.6", "3.1"),
    ("It opened in 1985.", "1985", "1987"),
    ("It opened in 1985.", "1985", "the 1970s"),
    ("It opened in 1985.", "1985", "the 19th century"),
    ("It opened in the 1980s.", "1980", "1990"),
    ("It opened on May 5, 1985.", "May 5, 1985", "June 7, 1985"),
    ("It opened on May 5, 1985.", "May 5", "May 7"),
    ("It opened in May 1985.", "May", "June"),
    ("It opened on Friday.", "Friday", "Monday"),
    ("It took three weeks.", "weeks", "months"),
    ("It costs $5 per week.", "week", "month"),
    ("It opened a year ago.", "a year ago", "a month ago"),
    ("It closed a day earlier.", "a day earlier", "a week earlier"),
    ("It opened last week.", "last week", "next spring"),
    ("It stands in Wales.", "Wales", "Scotland"),
    ("It stands in Paris.", "Paris", "Rome"),
    ("It stands in Paris.", "Paris", "Germany"),
    ("It stands in France.", "France", "Asia"),
    ("It stands in Houston.", "Houston", "Ohio"),
    ("It stands in Britain.", "Britain", "Spain"),
    ("It is a Spanish firm.", "Spanish", "French"),
    ("“We opened it,” the mayor said.", "We", "They"),
    ("He opened it in May.", "He", "She"),
    ("He opened it in May.", "He", "Anna Berg"),
    ("The shops open on Friday.", "Friday", "Monday"),
    ("The 3 figures there are new.", "3", "4"),
    ("The mill is old.", "old", "new"),
]


@pytest.mark.parametrize(("reason", "text", "old", "new"), HOLD)
def test_what_may_hold_too(reason: str, text: str, old: str, new: str) -> None:
    start = text.index(old)
    assert compatible(text, start, start + len(old), new) == reason


@pytest.mark.parametrize(("text", "old", "new"), CONTRADICT)
def test_what_contradicts(text: str, old: str, new: str) -> None:
    start = text.index(old)
    assert compatible(text, start, start + len(old), new) is None


def test_the_tables_are_large_enough() -> None:
    assert len(HOLD) >= 30
    assert len(CONTRADICT) >= 30
    assert {reason for reason, *_ in HOLD} == set(REASONS)
