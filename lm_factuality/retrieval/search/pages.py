"""The pages of search results, read as cited pages are: never from a private address.

`lm_factuality.retrieval.search.service` calls `PageReader` if the configuration says ``fetch``.
"""

import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import anyio
import httpx
from tqdm.auto import tqdm

from lm_factuality.retrieval.references.cache import CachedReference
from lm_factuality.retrieval.references.connection import Network
from lm_factuality.retrieval.references.fetcher import Fetcher, need_libraries
from lm_factuality.retrieval.search.store import SearchStore

# Why a page has no text today, although it may have one tomorrow. These are not stored.
_PASSING_KINDS = ("dns", "timeout", "unreachable", "broken")
_PASSING_STATUSES = (408, 425, 429)


class PageReader:
    """Reads pages at once from several hosts, and one after the other from each host."""

    def __init__(
        self, store: SearchStore, network: Network, delay: float, concurrency: int
    ) -> None:
        """Prepare to read pages. Nothing is sent.

        Args:
            store: The pages that were read before. It gets those that are read now.
            network: The client, which refuses private addresses.
            delay: The seconds between two requests to a host. Its robots.txt may ask for more.
            concurrency: The number of hosts that are asked at once.

        Raises:
            ConfigError: A library that reads pages is not installed.
        """
        need_libraries()
        self._store = store
        self._fetcher = Fetcher(network, delay)
        self._concurrency = concurrency

    def read(self, urls: Sequence[str]) -> dict[str, CachedReference]:
        """Read the pages that the store lacks.

        Returns:
            Each page by its URL. A page that cannot be read is dead, with the reason.

        Raises:
            DataError: The store cannot be used.
        """
        pages = self._store.get_pages(urls)
        urls_by_host = defaultdict(list)
        for url in dict.fromkeys(urls):
            if url not in pages:
                urls_by_host[httpx.URL(url).host].append(url)

        return pages | self._read_from_hosts(list(urls_by_host.values()))

    def _read_from_hosts(self, hosts: Sequence[Sequence[str]]) -> dict[str, CachedReference]:
        """Read pages from several hosts at once, given the URLs of each host."""
        pages: dict[str, CachedReference] = {}
        stopped = threading.Event()
        with ThreadPoolExecutor(self._concurrency) as pool:
            futures = [pool.submit(self._read_from_host, urls, stopped) for urls in hosts]
            finished = tqdm(
                as_completed(futures), "reading pages", len(hosts), unit=" hosts", disable=not hosts
            )
            try:
                for future in finished:
                    pages |= future.result()
            except BaseException:
                # After Ctrl-C no further page begins. Those that were read are in the store.
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return pages

    def _read_from_host(
        self, urls: Sequence[str], stopped: threading.Event
    ) -> dict[str, CachedReference]:
        """Read the pages of one host in turn, with the pause that the fetcher keeps."""
        pages = {}
        for url in urls:
            if stopped.is_set():
                break
            page = anyio.run(self._fetcher.fetch, url)
            pages[url] = page
            # The next run asks again for a page that may have a text then.
            if not _is_temporary_failure(page):
                self._store.put_page(page)
        return pages


def _is_temporary_failure(page: CachedReference) -> bool:
    """Tell whether a page has no text for a reason that may pass, such as a busy server."""
    if page.kind == "http":
        return page.status in _PASSING_STATUSES or (page.status or 0) >= 500
    return page.kind in _PASSING_KINDS
