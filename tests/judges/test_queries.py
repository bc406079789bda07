"""The queries for claims: written by a judge, or made of the words of a claim."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge
from judges.queries import queries_for_claims, words_query
from tests.judges.server import Act


@pytest.fixture
def judge(config: Callable[..., JudgeConfig], tmp_path: Path) -> Iterator[Judge]:
    """Return a judge that asks ``server``."""
    with Judge.open(config(), store=tmp_path / "answers.sqlite") as model_judge:
        yield model_judge


def claims_in(prompt: str) -> list[str]:
    """Return the claims that a prompt asks about."""
    return re.findall(r"(?m)^Claim \d+: (.*)$", prompt)


def write_queries(prompt: str, _attempt: int) -> Act:
    """Write two queries for each claim of a prompt."""
    claims = [
        {"number": number, "queries": [f"who: {claim}", "prizes of Ada Hill"]}
        for number, claim in enumerate(claims_in(prompt), start=1)
    ]
    return Act(text=json.dumps({"claims": claims}))


def reply_with(*queries: str) -> Callable[[str, int], Act]:
    """Return a script that writes these queries for the first claim."""
    content = {"claims": [{"number": 1, "queries": list(queries)}]}
    return lambda _prompt, _attempt: Act(text=json.dumps(content))


def test_a_judge_writes_queries_for_eight_claims_at_once(server, judge):
    """A prompt for each claim would cost more."""
    server.script = write_queries
    claims = [f"Ada Hill won prize {number}." for number in range(11)]

    queries = queries_for_claims(judge, claims)

    assert queries == [[f"who: {claim}", "prizes of Ada Hill"] for claim in claims]
    claims_of_prompts = sorted(len(claims_in(prompt)) for prompt in server.attempts)
    assert claims_of_prompts == [3, 8]


def test_equal_claims_are_asked_about_once_and_blank_ones_never(server, judge):
    """Generated texts repeat themselves, and each question costs money."""
    server.script = reply_with("Ada rower")

    queries = queries_for_claims(judge, ["Ada rowed.", " ", "Ada rowed."])

    assert queries == [["Ada rower"], [], ["Ada rower"]]
    (prompt,) = server.attempts
    assert claims_in(prompt) == ["Ada rowed."]


def test_at_most_three_distinct_queries_are_taken_without_commands(server, judge):
    """The search engine SearXNG would take ``!!g`` and ``:en`` for commands."""
    server.script = reply_with("a  b", "", "a b", "!!g c", "d :en", "e")

    queries = queries_for_claims(judge, ["Ada rowed."])

    assert queries == [["a b", "g c", "d en"]]


def test_omitted_claim_is_searched_by_its_words(server, judge):
    """Without a query the claim would stay without evidence."""
    server.script = reply_with("first")

    queries = queries_for_claims(judge, ["Ada rowed.", "Bea was a pilot."])

    assert queries == [["first"], ["Bea pilot"]]


@pytest.mark.parametrize("text", ["I cannot.", '{"claims": [{"number": 9, "queries": ["a"]}]}'])
def test_after_two_unusable_replies_the_words_of_a_claim_are_searched(server, judge, text):
    server.script = lambda _prompt, _attempt: Act(text=text)

    queries = queries_for_claims(judge, ["Bea was a pilot."])

    num_tries = len(server.bodies)
    assert num_tries == 2
    assert queries == [["Bea pilot"]]


def test_a_second_run_asks_the_judge_nothing(server, judge):
    """The queries of the first run are in the store of answers."""
    server.script = reply_with("Ada rower")
    first_queries = queries_for_claims(judge, ["Ada rowed."])
    second_queries = queries_for_claims(judge, ["Ada rowed."])

    assert second_queries == first_queries
    assert len(server.bodies) == 1


def test_judge_without_prompts_searches_by_the_words_of_claims(tmp_path):
    """The offline judge cannot write, and a user without a model still gets evidence."""
    lexical_config = load_judge_config("lexical")

    with Judge.open(lexical_config, store=tmp_path / "answers.sqlite") as lexical_judge:
        queries = queries_for_claims(lexical_judge, ["Bea was not a pilot."])

    assert queries == [["Bea pilot"]]


@pytest.mark.parametrize(
    ("claim", "query"),
    [
        ("Ada Hill was not born in Oslo.", "Ada Hill born Oslo"),
        ("The bridge, of 1,200 m, opened on 3 May 1901.", "bridge 1,200 m opened 3 May 1901"),
        ("It was.", "It was."),
        ("她出生在奥斯陆。", "她出生在奥斯陆"),
    ],
)
def test_content_words_form_the_query(claim, query):
    """A search engine finds no more with "was", "the" and "of"."""
    assert words_query(claim) == query


def test_a_long_claim_has_a_query_of_32_words():
    """Search engines refuse or cut longer queries."""
    claim = " ".join(f"word{number}" for number in range(100_000))

    assert len(words_query(claim).split()) == 32
