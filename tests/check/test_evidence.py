"""The evidence of claims: passages that claims share, and searches that failed in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.check import evidence
from lm_factuality.check.answers import answers_of_rows
from lm_factuality.check.check import FoundEvidence, check_answers
from lm_factuality.check.evidence import SearchEvidence
from lm_factuality.retrieval.search.service import SearchProblem, SearchReport, SearchResult
from tests.check.checked import BRIDGE, FERRY
from tests.check.test_bad_input import judge_server

__all__ = ["judge_server"]


class TwoPassages:
    """A source that finds `BRIDGE` for the first of two claims, and `FERRY` for the second."""

    def find(self, claims, count):
        """Return the passage of each claim."""
        bridge = FoundEvidence(passages=(BRIDGE,), scores=(7.5,))
        ferry = FoundEvidence(passages=(FERRY,), scores=(1.25,))
        return [bridge, ferry]


def test_shared_passage_has_a_score_only_for_its_own_query(judge_server, tmp_path):
    """Both claims get both passages, but a score belongs to the query that found the passage."""
    config = JudgeConfig("small", backend="openai", model="small", base_url=judge_server.base_url)
    answers = answers_of_rows(["Harrow Bridge opened in 1871. The ferry was sold in 1872."])

    with Judge.open(config, tmp_path / "store.sqlite") as judge:
        result = check_answers(answers, TwoPassages(), judge)

    bridge_claim, ferry_claim = result.claims
    assert bridge_claim.evidence == (BRIDGE, FERRY)
    assert bridge_claim.scores == (7.5, None)
    assert ferry_claim.evidence == (BRIDGE, FERRY)
    assert ferry_claim.scores == (None, 1.25)


class ServiceOfTwoQueries:
    """A search service that answers the query "one", and fails at the query "two"."""

    def __init__(self, *results):
        """Set the results of the query "one"."""
        self.results = results

    def search_all(self, queries):
        """Return the results of one query and the problem of the other."""
        failure = SearchProblem("the search failed: HTTP 500")
        return SearchReport({"one": self.results}, {"two": failure}, num_sent=2)


@pytest.fixture
def two_queries(monkeypatch):
    """Let the suite search for each claim with the queries "one" and "two"."""
    monkeypatch.setattr(evidence, "queries_for_claims", lambda judge, claims: [["one", "two"]])


@pytest.mark.usefixtures("two_queries")
def test_failed_query_is_a_problem_if_nothing_was_found():
    """The claim must not count as "not found", since one search failed."""
    search = SearchEvidence(Path("s.yaml"), ServiceOfTwoQueries(), None)

    (found_evidence,) = search.find(["The ferry was sold in 1872."], 5)

    assert found_evidence.problem == "the search failed: HTTP 500"
    assert found_evidence.passages == ()


@pytest.mark.usefixtures("two_queries")
def test_failed_query_is_no_problem_if_a_page_was_found():
    page = SearchResult("https://a.example", "Ferry", "The ferry was sold in 1872.", "2026-01-01")
    search = SearchEvidence(Path("s.yaml"), ServiceOfTwoQueries(page), None)

    (found_evidence,) = search.find(["The ferry was sold in 1872."], 5)

    assert found_evidence.problem == ""
    assert found_evidence.passages != ()
