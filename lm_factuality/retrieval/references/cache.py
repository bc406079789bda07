"""Fetched pages on disk, one JSON file per link, and the report of a run of the fetcher.

`fetcher` fills the cache. FELM's and FELM-gen's tasks read the texts from it.
"""

import hashlib
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json, write_json, write_text
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.replies import replace_surrogates
from lm_factuality.retrieval.references.links import FAILURE_MEANINGS

# The version of the format of the JSON files.
_FORMAT = 1
_FETCHED = "fetched"


@dataclass(frozen=True)
class CachedReference:
    """The document behind a link, or the reason why there is none.

    The fields are the keys of its JSON file.
    """

    url: str
    """The URL of the link."""

    text: str | None = None
    """The text of the document. None if the link is dead."""

    title: str | None = None
    """The title of the document, if it has one."""

    kind: str | None = None
    """The reason why the link is dead, a key of `FAILURE_MEANINGS`. None if it is not dead."""

    error: str | None = None
    """The reason why the link is dead, in a sentence. None if it is not dead."""

    final_url: str | None = None
    """The URL to which redirects led."""

    status: int | None = None
    """The last HTTP status. None if no server responded."""

    fetched_at: str | None = None
    """The time in UTC."""

    content_type: str | None = None
    """The header ``Content-Type``."""

    sha256: str | None = None
    """The SHA-256 of the decompressed document."""

    num_bytes: int | None = None
    """The size of the decompressed document."""

    note: str | None = None
    """The part of the document that the text comes from, if it is not the whole document."""

    @property
    def is_dead(self) -> bool:
        """Whether the link has no text."""
        return self.text is None

    @property
    def outcome(self) -> str:
        """``fetched``, or the reason why the link is dead, such as ``http 404`` or ``timeout``."""
        if self.text is not None:
            return _FETCHED
        # The status tells more than the kind: 404 is gone for good, 503 may come back.
        return f"http {self.status}" if self.kind == "http" else str(self.kind)


class ReferenceCache:
    """A folder of fetched references, found by the URL as `collect_links` normalises it."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use a folder. The default is ``references`` in the suite's cache folder."""
        self.folder = folder or cache_folder() / "references"

    def path(self, url: str) -> Path:
        """Return the path of the JSON file for a URL, whether it exists or not."""
        return self.folder / f"{hashlib.sha256(url.encode()).hexdigest()}.json"

    def get(self, url: str) -> CachedReference | None:
        """Return the reference for a URL, which may be dead, or None if it was never fetched.

        Raises:
            DataError: The file of the reference is damaged.
        """
        path = self.path(url)
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            if content.pop("format") != _FORMAT or content["url"] != url:
                raise ValueError(f"not a reference of format {_FORMAT} for this address")
            return CachedReference(**content)
        # A file in the place of the folder counts as an empty cache.
        except (FileNotFoundError, NotADirectoryError):
            return None
        # JSON of another shape raises one of several errors.
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path}: not a reference as 'data fetch-references' writes it ({error}); delete it"
                " and run that command again"
            ) from error

    def put(self, reference: CachedReference) -> None:
        """Write a reference to its file, in place of an earlier one.

        Raises:
            DataError: The folder cannot be written.
        """
        text = json.dumps({"format": _FORMAT, **asdict(reference)}, ensure_ascii=False, indent=1)
        # An HTML entity in a page can be half of a surrogate pair, which UTF-8 cannot encode.
        write_text(self.path(reference.url), replace_surrogates(text))


class FetchedReference(NamedTuple):
    """A reference that `fetch_references` yielded."""

    reference: CachedReference
    """The document behind the link, or the reason why there is none."""

    from_cache: bool
    """Whether an earlier run had fetched it."""


class OutcomeCount(NamedTuple):
    """The number of references with the same outcome."""

    outcome: str
    """``fetched``, or the reason why links are dead, such as ``http 404``."""

    num_fetched: int
    """The number of references that this run fetched."""

    num_cached: int
    """The number of references that were in the cache."""

    meaning: str
    """The explanation of the outcome."""


@dataclass(frozen=True)
class FetchReport:
    """The references of one run of ``data fetch-references``."""

    references: tuple[FetchedReference, ...]
    """The references of all links."""

    not_links: tuple[str, ...]
    """The annotators' entries that hold no link."""

    def counts(self) -> list[OutcomeCount]:
        """Count the references by outcome.

        Returns:
            One count for each outcome that occurs. ``fetched`` comes first, and then the reasons of
            dead links, the most frequent first.
        """
        references_by_outcome: defaultdict[str, list[FetchedReference]] = defaultdict(list)
        for fetched in self.references:
            references_by_outcome[fetched.reference.outcome].append(fetched)

        counts = []
        for outcome, references in references_by_outcome.items():
            num_cached = sum(fetched.from_cache for fetched in references)
            # References with the same outcome are dead for the same reason.
            kind = references[0].reference.kind
            meaning = "text is in the cache" if kind is None else FAILURE_MEANINGS.get(kind, kind)
            num_fetched = len(references) - num_cached
            counts.append(OutcomeCount(outcome, num_fetched, num_cached, meaning))
        return sorted(counts, key=_place_of_count)

    def write(self, path: Path) -> None:
        """Write the report as JSON: the counts, the dead links, all links, and the other entries.

        Raises:
            DataError: The file cannot be written.
        """
        # The report of the same links is in the same order, whatever the cache held.
        references = sorted(self.references, key=lambda fetched: fetched.reference.url)
        rows = [_report_row(fetched) for fetched in references]
        counts = {
            count.outcome: {"this_run": count.num_fetched, "from_cache": count.num_cached}
            for count in self.counts()
        }
        content = {
            "suite_version": __version__,
            "counts": counts,
            "dead": [row for row in rows if row["outcome"] != _FETCHED],
            "links": rows,
            "not_links": list(self.not_links),
        }
        write_json(path, content)


def _place_of_count(count: OutcomeCount) -> tuple[bool, int, str]:
    """Return what counts are sorted by: ``fetched`` first, then the most frequent reasons."""
    is_dead = count.outcome != _FETCHED
    num_references = count.num_fetched + count.num_cached
    return is_dead, -num_references, count.outcome


def _report_row(fetched: FetchedReference) -> dict[str, object]:
    """Return the row of the report for one reference, which has the length of its text."""
    reference = fetched.reference
    return {
        "url": reference.url,
        "outcome": reference.outcome,
        "from_cache": fetched.from_cache,
        "status": reference.status,
        "final_url": reference.final_url,
        "error": reference.error,
        "fetched_at": reference.fetched_at,
        "num_characters": len(reference.text or ""),
        "note": reference.note,
    }
