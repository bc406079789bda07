"""The evidence of claims: passages that claims share, and searches that failed in part."""

from __future__ import annotations

from pathlib import Path

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


class ReplyingService:
    """A search service that answers queries as a test says.

    Args:
        results: The results of each query that succeeds.
        problems: The problem of each query that fails.
    """

    def __init__(self, results, problems):
        self.results = results
        self.problems = problems

    def search_all(self, queries):
        """Return the results and problems, after checking that these queries were sent."""
        assert set(queries) == {*self.results, *self.problems}
        return SearchReport(self.results, self.problems, num_sent=len(queries))


def find_for_one_claim(service, queries, monkeypatch):
    """Return the evidence that a service gives for one claim, for which these queries are sent."""
    monkeypatch.setattr(evidence, "queries_for_claims", lambda judge, claims: [queries])
    search = SearchEvidence(Path("s.yaml"), service, None)
    (found_evidence,) = search.find(["The ferry was sold in 1872."], 5)
    return found_evidence


FAILURE = SearchProblem("the search failed: HTTP 500")


def test_failed_query_is_a_problem_if_no_query_finds_a_page(monkeypatch):
    """The claim must not count as "not found", since one of two searches failed."""
    service = ReplyingService(results={"ferry 1872": ()}, problems={"ferry sold": FAILURE})

    found_evidence = find_for_one_claim(service, ["ferry 1872", "ferry sold"], monkeypatch)

    assert found_evidence.problem == "the search failed: HTTP 500"
    assert found_evidence.passages == ()


def test_failed_query_is_no_problem_if_another_query_finds_a_page(monkeypatch):
    """A judge can compare the claim with the page that was found."""
    page = SearchResult("https://a.example", "Ferry", "The ferry was sold in 1872.", "2026-01-01")
    service = ReplyingService(results={"ferry 1872": (page,)}, problems={"ferry sold": FAILURE})

    found_evidence = find_for_one_claim(service, ["ferry 1872", "ferry sold"], monkeypatch)

    assert found_evidence.problem == ""
    assert [passage.text for passage in found_evidence.passages] == ["The ferry was sold in 1872."]
