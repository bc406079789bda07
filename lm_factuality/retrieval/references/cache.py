"""Fetched pages on disk, one JSON file per link, and the report on what became of the links.

`fetcher` fills the cache. FELM's and FELM-gen's tasks read the texts from it.
"""

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json, write_json, write_text
from lm_factuality.ground.published import cache_folder
from lm_factuality.retrieval.references.links import KINDS

_FORMAT = 1


@dataclass(frozen=True)
class LinkOutcome:
    """What a link gave, and where."""

    url: str
    text: str | None = None
    """None if the link is dead."""

    title: str | None = None
    kind: str | None = None
    """Why the link is dead: a key of `KINDS`."""

    error: str | None = None
    """Why the link is dead, in a sentence."""

    final_url: str | None = None
    """Where redirects led."""


@dataclass(frozen=True)
class CachedReference(LinkOutcome):
    """What a link gave, and the document there. The fields are the keys of its JSON file."""

    status: int | None = None
    """The last HTTP status. None if no server answered."""

    fetched_at: str | None = None
    """The time in UTC."""

    content_type: str | None = None
    sha256: str | None = None
    """Of the decompressed document, as ``num_bytes``."""

    num_bytes: int | None = None
    note: str | None = None
    """What was left out of the text."""

    @property
    def is_dead(self) -> bool:
        """Whether the link gave no text."""
        return self.text is None

    @property
    def outcome(self) -> str:
        """``fetched``, ``http 404`` and the like, or why the link is dead."""
        if self.text is not None:
            return "fetched"
        return f"http {self.status}" if self.kind == "http" else str(self.kind)


class ReferenceCache:
    """The references in a folder, by address as `collect_links` normalises it."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use a folder, or ``references`` in the cache folder of the suite."""
        self.folder = folder or cache_folder() / "references"

    def path(self, url: str) -> Path:
        """Return where the reference of an address is or would be kept."""
        return self.folder / f"{hashlib.sha256(url.encode()).hexdigest()}.json"

    def get(self, url: str) -> CachedReference | None:
        """Return what was found at an address. None if nobody asked for it.

        Raises:
            DataError: The file is damaged.
        """
        path = self.path(url)
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            if content.pop("format") != _FORMAT or content["url"] != url:
                raise ValueError(f"not a reference of format {_FORMAT} for this address")
            return CachedReference(**content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path}: not a reference as 'data fetch-references' writes it ({error}); delete it"
                " and run that command again"
            ) from error

    def put(self, reference: CachedReference) -> None:
        """Keep a reference in the place of an earlier one.

        Raises:
            DataError: The folder cannot be written.
        """
        text = json.dumps({"format": _FORMAT, **asdict(reference)}, ensure_ascii=False, indent=1)
        # A page may hold half a surrogate pair as an entity, which UTF-8 does not have.
        write_text(self.path(reference.url), text.encode("utf-8", "replace").decode("utf-8"))


@dataclass(frozen=True)
class FetchReport:
    """The outcome of one run."""

    found: tuple[tuple[CachedReference, bool], ...]
    """What `fetch_references` yielded."""

    not_links: tuple[str, ...] = ()

    def counts(self) -> list[tuple[str, int, int, str]]:
        """Count the outcomes, live links first and then the most frequent.

        Returns:
            For each outcome its name, the number in this run, the number from the cache, and what
            it means.
        """
        numbers = Counter((reference.outcome, from_cache) for reference, from_cache in self.found)
        meanings = {
            reference.outcome: KINDS.get(reference.kind or "", "text is in the cache")
            for reference, _ in self.found
        }
        rows = [
            (name, numbers[name, False], numbers[name, True], meaning)
            for name, meaning in meanings.items()
        ]
        return sorted(rows, key=lambda row: (row[0] != "fetched", -row[1] - row[2], row[0]))

    def write(self, path: Path) -> None:
        """Write counts, dead links, all links, and entries that are none as JSON.

        Raises:
            DataError: The file cannot be written.
        """
        rows = []
        for reference, from_cache in sorted(self.found, key=lambda pair: pair[0].url):
            row = {"url": reference.url, "outcome": reference.outcome, "from_cache": from_cache}
            for name in ("status", "final_url", "error", "fetched_at"):
                row[name] = getattr(reference, name)
            rows.append(row | {"num_characters": len(reference.text or ""), "note": reference.note})
        counts = {
            name: {"this_run": num_fetched, "from_cache": num_cached}
            for name, num_fetched, num_cached, _ in self.counts()
        }
        content = {
            "suite_version": __version__,
            "counts": counts,
            "dead": [row for row in rows if row["outcome"] != "fetched"],
            "links": rows,
            "not_links": list(self.not_links),
        }
        write_json(path, content)
