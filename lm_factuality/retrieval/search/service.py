"""Queries to a search service, sent from several threads, with retries and a store.

The command ``check`` asks a `SearchService` for the evidence of claims.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import chain

from tqdm.auto import tqdm

from lm_factuality.ground.errors import BackendDownError, short
from lm_factuality.ground.http import retry_delay
from lm_factuality.retrieval.references.cache import CachedReference
from lm_factuality.retrieval.references.connection import Network
from lm_factuality.retrieval.references.links import FAILURE_MEANINGS, DeadLinkError, normalise_url
from lm_factuality.retrieval.search.client import (
    RESUME_HINT,
    FailedSearchError,
    RetryableSearchError,
    SearchClient,
)
from lm_factuality.retrieval.search.config import SearchConfig
from lm_factuality.retrieval.search.pages import PageReader
from lm_factuality.retrieval.search.response import FoundPage
from lm_factuality.retrieval.search.store import SearchStore, StoredSearch

logger = logging.getLogger(__name__)

# Queries that failed; then the service counts as down. One that fails half of the time hardly ever
# fails so often in a row.
_MAX_FAILURES_IN_A_ROW = 24
_MAX_TRIES_TO_CONNECT = 3  # as long as the service has not answered at all
_PAGE_DELAY = 1.0  # seconds between two requests to the host of a page


@dataclass(frozen=True)
class SearchResult:
    """A page that was found for a query, with the text that serves as evidence."""

    url: str
    """The normalised address of the page. Empty if the service gave one that is not of the web."""

    title: str
    """The title. It may be empty."""

    text: str
    """The text of the page or, if ``is_snippet``, the text that the service shows of it."""

    date_read: str
    """When the text was read, in UTC, such as ``2025-06-01T12:00:00+00:00``."""

    is_snippet: bool = True
    """Whether the text comes from the service and not from the page."""

    note: str = ""
    """Why the page was not read, or which part of it was. Empty if there is nothing to say."""


@dataclass(frozen=True)
class SearchProblem:
    """A query without results because the search failed, not because nothing was found."""

    reason: str
    """What happened, without the key of the service."""


@dataclass(frozen=True)
class SearchReport:
    """What was found for several queries."""

    results: Mapping[str, tuple[SearchResult, ...]]
    """The results by query, the best first. A query may have found nothing."""

    problems: Mapping[str, SearchProblem]
    """The queries that failed."""

    num_sent: int
    """The number of queries that were sent. The others were in the store or failed before."""


class _StoppedError(Exception):
    """The work was stopped before a query was answered."""


class SearchService:
    """A search service with the results that it gave before.

    A service that fails now and then leaves some queries with a `SearchProblem`. Problems are not
    stored, so that the next run asks those queries again.
    """

    def __init__(
        self, config: SearchConfig, store: SearchStore, network: Network | None = None
    ) -> None:
        """Open the service. Nothing is sent.

        Args:
            config: The service.
            store: The store. The caller closes it.
            network: The client that reads pages, if the configuration says so. By default it
                connects to the public internet alone. The service itself may be anywhere.

        Raises:
            ConfigError: The key of the service is not set, or a library is missing.
        """
        self._config = config
        self._store = store
        self._client = SearchClient(config)
        self._page_reader = None
        if config.fetch:
            page_network = network or Network()
            self._page_reader = PageReader(store, page_network, _PAGE_DELAY, config.concurrency)
        self._stopped = threading.Event()
        self._failure: BackendDownError | None = None
        # Several threads count at once, so the lock guards the counts.
        self._lock = threading.Lock()
        self._has_answered = False
        self._failures_in_a_row = 0

    def close(self) -> None:
        """Close the connections to the service."""
        self._client.close()

    def search_all(self, queries: Sequence[str]) -> SearchReport:
        """Search for several queries at once.

        Results that the store has are not asked for again. New ones are stored as they arrive, so
        that an interrupted run continues where it ended.

        Returns:
            The results or the problem of each query.

        Raises:
            BackendDownError: The service cannot be reached or refuses everybody, or 24 queries in
                a row failed. Results so far are stored.
            DataError: The store cannot be used.
        """
        key_by_query = {query: self._config.identity(query) for query in queries}
        stored_searches = self._store.get_searches(key_by_query.values())

        outcomes: dict[str, StoredSearch | SearchProblem] = {}
        missing_queries = []
        for query, key in key_by_query.items():
            if key in stored_searches:
                outcomes[query] = stored_searches[key]
            elif not query.strip():
                outcomes[query] = SearchProblem("nothing to search for")
            else:
                missing_queries.append(query)
        outcomes |= self._ask_all(missing_queries)

        searches: dict[str, StoredSearch] = {}
        problems: dict[str, SearchProblem] = {}
        # The queries keep their order, whatever was answered first.
        for query in key_by_query:
            outcome = outcomes[query]
            if isinstance(outcome, SearchProblem):
                problems[query] = outcome
            else:
                searches[query] = outcome
        return SearchReport(self._read_results(searches), problems, len(missing_queries))

    def _ask_all(self, queries: Sequence[str]) -> dict[str, StoredSearch | SearchProblem]:
        """Ask the service, with several requests under way at once.

        Returns:
            The stored answer or the problem of each query.
        """
        self._stopped.clear()
        self._failure = None
        outcomes: dict[str, StoredSearch | SearchProblem] = {}
        with ThreadPoolExecutor(self._config.concurrency) as pool:
            query_of_future = {pool.submit(self._ask_and_store, query): query for query in queries}
            finished_futures = tqdm(
                as_completed(query_of_future),
                "searching",
                len(queries),
                unit=" queries",
                disable=not queries,
            )
            try:
                for future in finished_futures:
                    outcome = future.result()
                    # A query that was stopped has neither results nor a problem.
                    if outcome is not None:
                        outcomes[query_of_future[future]] = outcome
            except BaseException:
                # Queries under way are paid for, so they still end and are stored.
                self._stopped.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if self._failure is not None:
            raise self._failure
        return outcomes

    def _ask_and_store(self, query: str) -> StoredSearch | SearchProblem | None:
        """Send one query until it is answered or has used up its retries, and store the answer.

        Returns:
            The stored answer or the problem. None if the work was stopped before.
        """
        try:
            pages = self._search_with_retries(query)
        except FailedSearchError as error:
            self._count_failure(str(error))
            return SearchProblem(f"the search failed: {error}")
        except _StoppedError:
            return None
        except BackendDownError as error:
            self._stop(error)
            return None

        with self._lock:
            self._has_answered = True
            self._failures_in_a_row = 0
        key = self._config.identity(query)
        return self._store.put_search(key, query, self._config.url, pages)

    def _stop(self, failure: BackendDownError) -> None:
        """Let no further query begin. The caller's thread raises the first failure."""
        with self._lock:
            self._failure = self._failure or failure
        self._stopped.set()

    def _search_with_retries(self, query: str) -> list[FoundPage]:
        """Send one query, and wait longer and longer between two tries.

        Raises:
            FailedSearchError: The last try failed, or another one would not help.
            BackendDownError: No other query can succeed either.
            _StoppedError: The work was stopped before there was an answer.
        """
        tries = 0
        while True:
            if self._stopped.is_set():
                raise _StoppedError
            tries += 1
            try:
                return self._client.search(query)
            except RetryableSearchError as error:
                self._check_connection(error, tries)
                if tries > self._config.max_retries:
                    raise FailedSearchError(f"{error} (given up after {tries} tries)") from None
                seconds = retry_delay(tries - 1, error.retry_after)
                logger.debug("%s; trying again in %.1f s", error, seconds)
            self._stopped.wait(seconds)

    def _check_connection(self, failure: RetryableSearchError, tries: int) -> None:
        """Give up on a service that has never answered, because it is probably not running.

        Raises:
            BackendDownError: The last of several tries could not connect either.
        """
        is_last_try = tries >= min(_MAX_TRIES_TO_CONNECT, self._config.max_retries + 1)
        if failure.is_unreachable and not self._has_answered and is_last_try:
            raise BackendDownError(
                f"{self._config.url} cannot be reached: {failure}; is the search service running?"
                f" {RESUME_HINT}"
            ) from None

    def _count_failure(self, last_reason: str) -> None:
        """Count a query that failed, and stop if too many in a row did."""
        with self._lock:
            self._failures_in_a_row += 1
            num_failures = self._failures_in_a_row
        if num_failures >= _MAX_FAILURES_IN_A_ROW:
            self._stop(
                BackendDownError(
                    f"{self._config.url}: {num_failures} searches in a row failed, the last:"
                    f" {last_reason}; {RESUME_HINT}"
                )
            )

    def _read_results(
        self, searches: Mapping[str, StoredSearch]
    ) -> dict[str, tuple[SearchResult, ...]]:
        """Turn what the service found into evidence, with the texts of pages if they are wanted."""
        pages: Mapping[str, CachedReference] = {}
        if self._page_reader is not None:
            found_pages = chain.from_iterable(search.pages for search in searches.values())
            urls = [_web_url(found_page) for found_page in found_pages]
            pages = self._page_reader.read([url for url in urls if url])

        return {query: _results_of(search, pages) for query, search in searches.items()}


def _results_of(
    search: StoredSearch, pages: Mapping[str, CachedReference]
) -> tuple[SearchResult, ...]:
    """Return the results of one query, each page once.

    Args:
        search: What the service found.
        pages: The pages that were read, by URL. Empty if none are wanted.
    """
    result_by_url: dict[str, SearchResult] = {}
    for found_page in search.pages:
        result = _to_result(found_page, search.date, pages)
        # Some services list a page twice, and the first place counts.
        result_by_url.setdefault(result.url or found_page.url, result)
    return tuple(result_by_url.values())


def _web_url(found_page: FoundPage) -> str:
    """Return the normalised address of a result. Empty if it is not one of the web."""
    try:
        return normalise_url(found_page.url)
    except DeadLinkError:
        return ""


def _to_result(
    found_page: FoundPage, date: str, pages: Mapping[str, CachedReference]
) -> SearchResult:
    """Return a result with the text of its page, or else with the snippet of the service.

    Args:
        found_page: The result as the service describes it.
        date: When the service answered.
        pages: The pages that were read, by URL. Empty if none are wanted.
    """
    # A link to an address that is not of the web could run a script, so the URL is empty then.
    url = _web_url(found_page)
    snippet = SearchResult(
        url=url, title=found_page.title, text=found_page.snippet, date_read=date, is_snippet=True
    )
    if not url:
        note = f"its address {short(found_page.url)} is not one of the web"
        return replace(snippet, note=note)
    page = pages.get(url)
    if page is None:
        return snippet
    if page.text is None:
        # The outcome names the failure, such as "http 404" or "timeout".
        meaning = FAILURE_MEANINGS.get(page.kind or "", "no text")
        note = f"only the snippet, since the page was not read: {page.outcome}: {meaning}"
        return replace(snippet, note=note)
    return SearchResult(
        url=url,
        title=page.title or found_page.title,
        text=page.text,
        date_read=page.fetched_at or date,
        is_snippet=False,
        note=page.note or "",
    )
