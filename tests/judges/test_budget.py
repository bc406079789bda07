"""What a judge's calls are charged, and how long they wait for its limits."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from judges import budget
from judges.answers import Answer, Decoding, Prices, Request
from judges.budget import Budget, RateLimiter, SpendingLimit
from judges.config import JudgeConfig
from lm_factuality.ground.errors import BackendDownError

# A server counts at most 37 tokens in the prompt: 3 in "Why", 2 in the system's "Be" and 32 of its
# template. With an answer of 100 tokens, the call costs at most 37 * 1 + 100 * 2 = 237 USD.
REQUEST = Request("Why", system="Be", decoding=Decoding(max_tokens=100))
PRICES = Prices(prompt=1e6, completion=2e6)  # USD for a million tokens, so 1 and 2 USD a token


@pytest.fixture
def clock(monkeypatch):
    """Stop the clock that rates are measured by; ``clock[0]`` is the time in seconds."""
    now = [100.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    return now


def make_budget(spending_limit=None, **settings):
    """Make the budget of a judge with prices."""
    config = JudgeConfig("small", "openai", model="m", **{"prices": PRICES, **settings})
    return Budget(config, spending_limit)


def call(judge_budget, answer=None, is_free=False):
    """Send `REQUEST`, and return the seconds of its pauses. Without an answer, nothing is counted."""
    pauses = []
    with judge_budget.metered_call(REQUEST, pauses.append) as bill:
        if answer is not None:
            bill.answer = answer
        bill.is_free = is_free
    return pauses


def test_a_spending_limit_may_be_reached_and_not_exceeded():
    """Calls of 6 and 4 USD use up the limit of 10 USD exactly."""
    spending_limit = SpendingLimit(10)

    assert spending_limit.reserve(6)
    assert spending_limit.reserve(4)
    assert not spending_limit.reserve(0.01)


def test_without_a_limit_any_call_is_allowed():
    """A user who sets no ``max_cost`` accepts any price, here of a billion USD."""
    assert SpendingLimit(None).reserve(1e9)


def test_finished_call_frees_only_its_own_reservation():
    spending_limit = SpendingLimit(10)
    spending_limit.reserve(4)  # for a call that is still under way at the end
    spending_limit.reserve(4)

    spending_limit.settle(reserved_cost=4, cost=1)

    assert spending_limit.spent == 1
    # 10 - 4 - 1 = 5 USD are free.
    assert not spending_limit.reserve(5.5)
    assert spending_limit.reserve(5)


def test_exhausted_limit_without_pending_calls_is_an_error():
    """Without a call under way, waiting for more than is left would never end."""
    spending_limit = SpendingLimit(10)
    spending_limit.reserve(4)
    spending_limit.settle(reserved_cost=4, cost=4)

    # 10 - 4 = 6 USD are left.
    with pytest.raises(BackendDownError, match="max_cost of \\$10 leaves no room"):
        spending_limit.reserve(7)
    assert spending_limit.reserve(6)


def test_the_last_finished_call_leaves_nothing_reserved():
    """The sum of three times 0.1 is not exactly 0.3, and must not block a later call."""
    spending_limit = SpendingLimit(0.3)
    for _ in range(3):
        spending_limit.reserve(0.1)
    for _ in range(3):
        spending_limit.settle(reserved_cost=0.1, cost=0.0)

    assert spending_limit.reserve(0.3)


def test_requests_are_spread_evenly(clock):
    requests_per_minute = 60  # one in a second
    rate = RateLimiter(requests_per_minute)

    waits = [rate.reserve(), rate.reserve(), rate.reserve()]
    clock[0] += 1.5  # seconds
    later_wait = rate.reserve()

    assert waits == [0, 1, 2]
    assert later_wait == 3 - 1.5  # so that it is sent three seconds after the first request


def test_waiting_time_is_proportional_to_tokens(clock):
    tokens_per_minute = 120  # two in a second
    rate = RateLimiter(tokens_per_minute)

    waits = [rate.reserve(4), rate.reserve(6), rate.reserve()]

    assert waits == [0, 4 / 2, 4 / 2 + 6 / 2]


def test_unused_time_does_not_accumulate(clock):
    """A pause must not be followed by a burst, which the server would refuse."""
    requests_per_minute = 60  # one in a second
    rate = RateLimiter(requests_per_minute)
    rate.reserve()
    clock[0] += 100  # seconds

    waits = [rate.reserve(), rate.reserve()]

    assert waits == [0, 1]


def test_a_rate_without_a_limit_never_waits(clock):
    """A local server takes requests as fast as they come."""
    rate = RateLimiter(None)

    waits = [rate.reserve(1000), rate.reserve(1000)]

    assert waits == [0, 0]


def test_released_tokens_shorten_the_next_wait(clock):
    tokens_per_minute = 60  # one in a second
    rate = RateLimiter(tokens_per_minute)
    rate.reserve(10)
    rate.release(7)

    wait = rate.reserve()

    assert wait == 10 - 7


# A token of the prompt costs 1 USD, and one of the answer 2 USD. The prompt has at most 37 tokens,
# and the answer 100.
@pytest.mark.parametrize(
    ("prompt_tokens", "completion_tokens", "cost"),
    [
        pytest.param(5, 7, 5 * 1 + 7 * 2, id="both counted"),
        pytest.param(1, 1, 1 * 1 + 1 * 2, id="the fewest"),
        pytest.param(3700, 10_000, 3700 * 1 + 10_000 * 2, id="a hundred times the most"),
    ],
)
def test_call_is_charged_by_the_tokens_that_the_server_counts(
    prompt_tokens, completion_tokens, cost
):
    judge_budget = make_budget()

    call(
        judge_budget, Answer("So", prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    )

    assert judge_budget.usage.calls == 1
    assert judge_budget.usage.prompt_tokens == prompt_tokens
    assert judge_budget.usage.completion_tokens == completion_tokens
    assert judge_budget.usage.cost == cost


@pytest.mark.parametrize(
    ("answer", "prompt_tokens", "completion_tokens", "cost"),
    [
        pytest.param(
            Answer("So", prompt_tokens=5, completion_tokens=None),
            5,
            0,
            5 * 1 + 100 * 2,
            id="no count of the answer",
        ),
        pytest.param(
            Answer("So", prompt_tokens=None, completion_tokens=7),
            0,
            7,
            37 * 1 + 7 * 2,
            id="no count of the prompt",
        ),
        pytest.param(None, 0, 0, 37 * 1 + 100 * 2, id="no answer"),
        pytest.param(
            Answer("So", prompt_tokens=0, completion_tokens=0),
            0,
            0,
            37 * 1 + 100 * 2,
            id="fewer than a text can have",
        ),
        pytest.param(
            Answer("So", prompt_tokens=3701, completion_tokens=10_001),
            0,
            0,
            37 * 1 + 100 * 2,
            id="more than a hundred times the most",
        ),
    ],
)
def test_missing_and_implausible_counts_are_charged_at_the_maximum(
    answer, prompt_tokens, completion_tokens, cost
):
    """The server may have billed as much. The usage shows only counts that are believed."""
    judge_budget = make_budget()

    call(judge_budget, answer)

    assert judge_budget.usage.calls == 1
    assert judge_budget.usage.prompt_tokens == prompt_tokens
    assert judge_budget.usage.completion_tokens == completion_tokens
    assert judge_budget.usage.cost == cost


def test_empty_answer_may_have_no_tokens():
    judge_budget = make_budget()

    call(judge_budget, Answer("", prompt_tokens=5, completion_tokens=0))

    assert judge_budget.usage.cost == 5


def test_unsent_call_costs_nothing():
    """Nobody bills a connection that was refused."""
    judge_budget = make_budget()

    call(judge_budget, is_free=True)

    assert judge_budget.usage.calls == 1
    assert judge_budget.usage.cost == 0


def test_failed_call_is_charged_at_the_maximum():
    """The server may have finished and billed the answer that did not arrive."""
    judge_budget = make_budget()

    with suppress(OSError), judge_budget.metered_call(REQUEST, time.sleep):
        raise OSError("the connection broke")

    # The prompt has at most 37 tokens of 1 USD, and the answer 100 tokens of 2 USD.
    assert judge_budget.usage.cost == 37 * 1 + 100 * 2


def test_without_prices_the_cost_is_unknown():
    """An unknown cost is not reported as zero."""
    judge_budget = make_budget(prices=None)

    call(judge_budget, Answer("So", prompt_tokens=5, completion_tokens=7))

    assert judge_budget.usage.prompt_tokens == 5
    assert judge_budget.usage.cost is None


def test_judges_share_a_spending_limit():
    spending_limit = SpendingLimit(1000)
    prices = Prices(prompt=1e6, completion=2e6)  # 1 and 2 USD a token
    first_judge = make_budget(spending_limit, prices=prices)
    second_judge = make_budget(spending_limit, prices=prices)

    call(first_judge, Answer("So", prompt_tokens=5, completion_tokens=7))
    call(second_judge, Answer("So", prompt_tokens=5, completion_tokens=7))

    cost_of_call = 5 * 1 + 7 * 2
    assert spending_limit.spent == 2 * cost_of_call


def test_call_waits_until_pending_calls_free_enough_money():
    """A call that has finished for less than was reserved leaves the rest to others."""
    highest_cost_of_call = 37 * 1 + 100 * 2
    room_for_one_call = SpendingLimit(1.5 * highest_cost_of_call)
    judge_budget = make_budget(room_for_one_call)
    room_for_one_call.reserve(highest_cost_of_call)  # for another call
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 4:
            room_for_one_call.settle(reserved_cost=highest_cost_of_call, cost=0.0)

    with judge_budget.metered_call(REQUEST, pause):
        pauses_for_rates = [0, 0]  # of requests and of tokens, which have no limit here
        pauses_for_money = [0.05, 0.05]
        assert pauses == pauses_for_rates + pauses_for_money


def test_a_call_waits_for_its_request_and_then_for_its_tokens(clock):
    """Servers limit both rates, and a call has to keep to each."""
    one_request_a_second = 60
    hundred_tokens_a_second = 6000
    judge_budget = make_budget(
        requests_per_minute=one_request_a_second, tokens_per_minute=hundred_tokens_a_second
    )

    # Each call is expected to use 2 tokens of the prompt and 100 of the answer.
    first_pauses = call(judge_budget)
    second_pauses = call(judge_budget)

    pause_for_request, pause_for_tokens = second_pauses
    assert first_pauses == [0, 0]
    assert pause_for_request == 1
    assert pause_for_tokens == pytest.approx(102 / 100)


def test_unused_tokens_shorten_the_next_wait(clock):
    """The next call waits for the tokens that the first has used, and not for all it could use."""
    judge_budget = make_budget(tokens_per_minute=6000)  # 100 in a second
    call(judge_budget, Answer("So", prompt_tokens=20, completion_tokens=30))

    pauses = call(judge_budget)

    pause_for_request, pause_for_tokens = pauses
    assert pause_for_request == 0
    assert pause_for_tokens == pytest.approx((20 + 30) / 100)
