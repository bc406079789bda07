"""How long to wait, and what is let through in a minute."""

from __future__ import annotations

import threading

import pytest

from judges.budget import RateLimiter, SpendingLimit
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.http import (
    FIRST_DELAY,
    MAX_DELAY,
    MAX_RETRY_AFTER,
    parse_retry_after,
    retry_delay,
)


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
    """The header may hold a date as well, and then the suite waits as long as after any fault."""
    assert parse_retry_after(header) == seconds


@pytest.mark.parametrize("attempt", [0, 1, 3, 20])
def test_delays_are_spread_below_a_bound(attempt):
    """Threads that were refused together must not come back together."""
    bound = min(MAX_DELAY, FIRST_DELAY * 2**attempt)

    delays = [retry_delay(attempt) for _ in range(200)]

    assert all(0 <= seconds <= bound for seconds in delays)
    assert max(delays) - min(delays) > bound / 2


@pytest.mark.parametrize("attempt", [0, 1, 3, 20])
def test_delay_is_at_least_as_long_as_the_server_asks(attempt):
    """A client that comes back too early is refused again."""
    delays = [retry_delay(attempt, retry_after=7) for _ in range(50)]

    assert all(7 <= seconds <= 7 + FIRST_DELAY for seconds in delays)


@pytest.mark.parametrize("attempt", [0, 1, 3, 20])
def test_a_delay_that_the_server_asks_for_is_bounded(attempt):
    """A server that names 12 days must not hang a run."""
    assert retry_delay(attempt, retry_after=1e6) <= MAX_RETRY_AFTER + FIRST_DELAY


def test_released_reservation_shortens_the_next_wait():
    """A short answer uses fewer tokens than were reserved for the longest one."""
    tokens_per_minute = 6000  # 100 in a second
    rate_limiter = RateLimiter(tokens_per_minute)
    rate_limiter.reserve(100)

    rate_limiter.release(90)

    seconds_to_wait = rate_limiter.reserve()
    assert seconds_to_wait == pytest.approx((100 - 90) / 100, abs=0.05)


def test_a_spending_limit_waits_for_calls_under_way():
    """A call under way may cost less than was reserved for it."""
    spending_limit = SpendingLimit(10)
    spending_limit.reserve(6)

    fits_meanwhile = spending_limit.reserve(6)  # 6 + 6 USD exceed 10
    spending_limit.settle(reserved_cost=6, cost=1)
    fits_afterwards = spending_limit.reserve(6)  # 1 + 6 USD do not

    assert not fits_meanwhile
    assert fits_afterwards


def test_spending_limit_refuses_excessive_calls():
    """The message tells how much to add to the budget."""
    spending_limit = SpendingLimit(10)
    spending_limit.reserve(6)
    spending_limit.settle(reserved_cost=6, cost=6)

    assert spending_limit.spent == 6
    with pytest.raises(BackendDownError, match=r"\$6.0+ is spent, and the next may cost \$6.0+;"):
        spending_limit.reserve(6)


def test_threads_never_exceed_a_spending_limit():
    spending_limit = SpendingLimit(50)

    def spend() -> None:
        for _ in range(100):
            try:
                if spending_limit.reserve(2):
                    spending_limit.settle(reserved_cost=2, cost=1)
            except BackendDownError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # Another call might cost 2 USD, so 1 of 50 USD is left.
    assert spending_limit.spent == 49
