"""The store of searches: an SQLite file with the results of queries, the pages, and their dates.

`lm_factuality.retrieval.search.service` looks queries and pages up here, so that a second run asks
nothing again. The file holds no keys of services.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.records import to_model
from lm_factuality.ground.replies import replace_surrogates
from lm_factuality.ground.sqlite import exclusive_access, open_store
from lm_factuality.retrieval.references.cache import CachedReference
from lm_factuality.retrieval.search.response import FoundPage

_Content = TypeVar("_Content")

# What the store keeps, for error messages.
_CONTENTS = "searches"
# The number in the header ("lmfs" in ASCII) that marks an SQLite file as a store of searches.
_APPLICATION_ID = 0x6C6D6673
_TABLES = (
    "CREATE TABLE IF NOT EXISTS searches (key TEXT PRIMARY KEY, query TEXT NOT NULL,"
    " service TEXT NOT NULL, results TEXT NOT NULL, time TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, page TEXT NOT NULL,"
    " time TEXT NOT NULL)",
)


@dataclass(frozen=True)
class StoredSearch:
    """The answer of a service to one query."""

    pages: tuple[FoundPage, ...]
    """The results in the order of the service. There may be none."""

    date: str
    """When the service answered, in UTC, such as ``2025-06-01T12:00:00+00:00``."""


class SearchStore:
    """Searches and pages on disk. Several threads and processes may share the file.

    An answer is committed when it is put, so a killed process loses none. The file must be on a
    local disk, since SQLite's write-ahead log does not work on network file systems.

    Attributes:
        path: The SQLite file.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open a store, and create the file if it is missing.

        Args:
            path: The SQLite file. By default the store in the user's cache folder.

        Raises:
            DataError: The file cannot be opened, or is not a store of searches.
        """
        self.path = Path(path or cache_folder() / "searches.sqlite")
        self._lock = threading.Lock()
        with self._exclusive_access():
            self._database = open_store(self.path, _APPLICATION_ID, _TABLES, _CONTENTS)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def get_searches(self, keys: Iterable[str]) -> dict[str, StoredSearch]:
        """Return the stored answers to queries.

        Returns:
            The answers by key. Keys without an answer are left out.

        Raises:
            DataError: An answer is damaged, or the store cannot be used.
        """
        rows = self._select(
            "SELECT key, results, time FROM searches WHERE key IN (SELECT value FROM json_each(?))",
            keys,
        )
        searches = {}
        for key, text, date in rows:
            pages = self._parse(list[FoundPage], text, "searches", key)
            searches[key] = StoredSearch(tuple(pages), date)
        return searches

    def put_search(
        self, key: str, query: str, service: str, pages: Sequence[FoundPage]
    ) -> StoredSearch:
        """Store the answer to a query, with the present time, and return it.

        Args:
            key: The key of the query (`SearchConfig.identity`).
            query: The query, for people who look into the file.
            service: The address of the service, for the same people.
            pages: The results.

        Raises:
            DataError: The store cannot be used.
        """
        text = json.dumps([asdict(page) for page in pages], ensure_ascii=False)
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self._exclusive_access():
            self._database.execute(
                "INSERT OR REPLACE INTO searches VALUES (?, ?, ?, ?, ?)",
                (key, replace_surrogates(query), service, text, date),
            )
        return StoredSearch(tuple(pages), date)

    def get_pages(self, urls: Iterable[str]) -> dict[str, CachedReference]:
        """Return the stored pages, which may be dead, by URL. Others are left out.

        Raises:
            DataError: A page is damaged, or the store cannot be used.
        """
        rows = self._select(
            "SELECT url, page FROM pages WHERE url IN (SELECT value FROM json_each(?))", urls
        )
        return {url: self._parse(CachedReference, text, "pages", url) for url, text in rows}

    def put_page(self, page: CachedReference) -> None:
        """Store a page, in place of an earlier state of it.

        Raises:
            DataError: The store cannot be used.
        """
        text = json.dumps(asdict(page), ensure_ascii=False)
        with self._exclusive_access():
            self._database.execute(
                "INSERT OR REPLACE INTO pages VALUES (?, ?, ?)",
                (page.url, replace_surrogates(text), page.fetched_at or ""),
            )

    def _select(self, statement: str, keys: Iterable[str]) -> list[tuple[Any, ...]]:
        """Run a statement whose only value is a JSON list of keys, and return its rows."""
        with self._exclusive_access():
            return self._database.execute(statement, [json.dumps(list(keys))]).fetchall()

    def _parse(self, content_type: type[_Content], text: str, table: str, key: str) -> _Content:
        """Read the JSON of a row, such as a list of `FoundPage`. The error names the table and key.

        Raises:
            DataError: The row is damaged.
        """
        try:
            return to_model(content_type, parse_json(text))
        except ValueError as error:
            raise DataError(
                f"{self.path}: the row {key} of the table {table} cannot be read: {error}; delete"
                " the row to ask again"
            ) from error

    def _exclusive_access(self) -> AbstractContextManager[None]:
        """Return the context in which one thread at a time uses the file."""
        return exclusive_access(self._lock, self.path, _CONTENTS)
