"""How long to wait, and what is let through in a minute."""

from __future__ import annotations

import threading

import pytest

from judges.backends.openai_http import FIRST_DELAY, MAX_DELAY, MAX_RETRY_AFTER, retry_delay
from judges.backends.server import parse_retry_after
from judges.budget import RateLimiter, SpendingLimit
from lm_factuality.ground.errors import BackendDownError


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("1.5", 1.5),
        (" 2 ", 2.0),
        ("-4", 0.0),
        ("Sun, 01 Mar 2026 12:00:30 GMT", None),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_is_a_number_of_seconds(header, seconds):
    assert parse_retry_after(header) == seconds


@pytest.mark.parametrize("attempt", [0, 1, 3, 20])
def test_delays_are_jittered_and_bounded(attempt):
    bound = min(MAX_DELAY, FIRST_DELAY * 2**attempt)
    delays = [retry_delay(attempt) for _ in range(200)]
    assert all(0 <= seconds <= bound for seconds in delays)
    assert max(delays) - min(delays) > bound / 2
    assert all(7 <= retry_delay(attempt, 7) <= 7 + FIRST_DELAY for _ in range(50))
    assert retry_delay(attempt, 1e6) <= MAX_RETRY_AFTER + FIRST_DELAY


def test_pace_gives_the_time_of_what_was_not_used_back():
    rate_limiter = RateLimiter(6000)  # 100 a second
    assert rate_limiter.reserve(100) == 0
    rate_limiter.release(90)
    assert rate_limiter.reserve() == pytest.approx(0.1, abs=0.05)


def test_a_purse_waits_for_calls_under_way_before_it_gives_up():
    spending_limit = SpendingLimit(10)
    assert spending_limit.reserve(6)
    assert not spending_limit.reserve(6)  # a call under way may cost less than was set aside
    spending_limit.settle(6, 1)
    assert spending_limit.reserve(6)
    spending_limit.settle(6, 5)
    assert spending_limit.spent == 6
    with pytest.raises(BackendDownError, match=r"\$6.0+ is spent, and the next may cost \$6.0+;"):
        spending_limit.reserve(6)


def test_threads_never_overspend_a_purse():
    spending_limit = SpendingLimit(50)

    def spend() -> None:
        for _ in range(100):
            try:
                if spending_limit.reserve(2):
                    spending_limit.settle(2, 1)
            except BackendDownError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spending_limit.spent == 49  # another call might cost 2
