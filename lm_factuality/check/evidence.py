"""Finds evidence for claims, in people's documents or with a web search service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.claims import Evidence
from judges.judge import Judge
from judges.queries import queries_for_claims
from lm_factuality.benchmarks.longform.benchmark import FoundPassages
from lm_factuality.check.check import EvidenceSource, FoundEvidence
from lm_factuality.check.passages import cut_into_passages
from lm_factuality.retrieval.bm25 import Searcher

if TYPE_CHECKING:
    from lm_factuality.retrieval.search.service import SearchReport, SearchService


class SearchEvidence:
    """Evidence from a search service. The judge writes the queries."""

    problems: tuple[str, ...] = ()
    """None, because a search that fails is the reason of its claim."""

    def __init__(self, path: Path, service: SearchService, judge: Judge | None) -> None:
        """Use a search service.

        Args:
            path: The YAML file that describes the service.
            service: The service.
            judge: The judge, which writes queries. Without a judge that is a model, the words
                of a claim are its query.
        """
        self._path = path
        self._service = service
        self._judge = judge
        self._num_sent = 0
        self._num_failed = 0

    def describe(self) -> dict[str, Any]:
        """Return what the evidence is, and the numbers of searches so far, for ``summary.json``."""
        return {
            "search": str(self._path),
            "searches_sent": self._num_sent,
            "searches_failed": self._num_failed,
        }

    def find(self, claims: Sequence[str], count: int) -> list[FoundEvidence]:
        """Search for each claim, and return the passages of the results that are nearest to it.

        Raises:
            BackendDownError: No query can succeed. Results received so far are kept.
        """
        queries_of_claims = queries_for_claims(self._judge, claims)
        # Several claims may have the same query, which is sent once.
        distinct_queries = dict.fromkeys(chain.from_iterable(queries_of_claims))
        report = self._service.search_all(list(distinct_queries))
        self._num_sent += report.num_sent
        self._num_failed += len(report.problems)
        return [
            _nearest_passages(claim, queries_of_claim, report, count)
            for claim, queries_of_claim in zip(claims, queries_of_claims, strict=True)
        ]


@dataclass(frozen=True)
class FactEvidence:
    """Passages about the facts of long answers, from the sources of checks."""

    source: EvidenceSource
    """The documents or the search service."""

    identity: str | None
    """The identity of the documents. None for a search."""

    def find_passages(self, queries: Sequence[str], count: int) -> list[FoundPassages]:
        """Find at most ``count`` passages for each query.

        The text of a passage begins with its title, if it has one.
        """
        results = []
        for found in self.source.find(queries, count):
            titled_texts = tuple(evidence.passage for evidence in found.passages)
            results.append(FoundPassages(titled_texts, found.problem))
        return results


def _nearest_passages(
    claim: str, queries: Sequence[str], report: SearchReport, count: int
) -> FoundEvidence:
    """Return the passages of a claim's search results that are nearest to it.

    Returns:
        The passages. If there are none and a query failed, the reason why the first such query
        failed, since nobody knows what it would have found.
    """
    candidates = _passages_found(queries, report)
    if not candidates:
        failures = [report.problems[query].reason for query in queries if query in report.problems]
        return FoundEvidence(problem=failures[0] if failures else "")

    searcher = Searcher.from_texts([passage.passage for passage in candidates])
    ranking = searcher.rank(claim, count)
    nearest = tuple(candidates[number] for number, _ in ranking)
    return FoundEvidence(nearest, tuple(score for _, score in ranking))


def _passages_found(queries: Sequence[str], report: SearchReport) -> list[Evidence]:
    """Return the distinct passages of the pages that queries have found."""
    passages: list[Evidence] = []
    for query in queries:
        for result in report.results.get(query, ()):
            texts = cut_into_passages(result.text)
            passages += [Evidence(result.url, result.title, text) for text in texts]
    # Two queries may find the same passage.
    return list(dict.fromkeys(passages))
