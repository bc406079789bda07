"""References on disk, one JSON file a link, written whole or not at all, and the report on what
became of the links."""

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json, write_json, write_text
from lm_factuality.ground.published import cache_folder
from lm_factuality.retrieval.references.links import KINDS

_FORMAT = 1
_COLUMNS = (
    "url",
    "outcome",
    "from_cache",
    "status",
    "final_url",
    "error",
    "fetched_at",
    "num_characters",
    "note",
)


@dataclass(frozen=True)
class Reference:
    """What a link gave: a ``text``, or the ``error`` why there is none, in a sentence, and its
    ``kind`` (a key of ``links.KINDS``). ``final_url`` is where redirects led, ``status`` the last
    HTTP status (None if no server answered), ``fetched_at`` a moment in UTC, ``sha256`` and
    ``num_bytes`` of the decompressed document, ``note`` what was left out."""

    url: str
    text: str | None = None
    title: str | None = None
    kind: str | None = None
    error: str | None = None
    final_url: str | None = None
    status: int | None = None
    fetched_at: str | None = None
    content_type: str | None = None
    sha256: str | None = None
    num_bytes: int | None = None
    note: str | None = None

    @property
    def is_dead(self) -> bool:
        return self.text is None

    @property
    def outcome(self) -> str:
        """``fetched``, ``http 404`` and the like, or the kind of death."""
        if self.text is not None:
            return "fetched"
        return f"http {self.status}" if self.kind == "http" else str(self.kind)


class ReferenceCache:
    """The references in ``folder`` (default: in the suite's cache), by normalised address as of
    ``collect_links``."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "references"

    def path(self, url: str) -> Path:
        """Where ``url`` is or would be kept."""
        return self.folder / f"{hashlib.sha256(url.encode()).hexdigest()}.json"

    def get(self, url: str) -> Reference | None:
        """What was found at ``url``; None if it was never asked for. Raises DataError: its file is
        damaged."""
        path = self.path(url)
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            if content.pop("format") != _FORMAT or content["url"] != url:
                raise ValueError(f"not a reference of format {_FORMAT} for this address")
            return Reference(**content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{path}: not a reference as 'data fetch-references' writes it ({error}); delete it"
                " and run that command again"
            ) from error

    def put(self, reference: Reference) -> None:
        """Keeps ``reference``, in the place of an earlier one. Raises DataError: the folder cannot
        be written."""
        text = json.dumps({"format": _FORMAT, **asdict(reference)}, ensure_ascii=False, indent=1)
        # A page may hold half a surrogate pair as an entity; it is no character.
        write_text(self.path(reference.url), text.encode("utf-8", "replace").decode("utf-8"))


@dataclass(frozen=True)
class Report:
    """The outcome of one run: what ``fetch_references`` yielded, and the entries that hold no
    address."""

    found: tuple[tuple[Reference, bool], ...]
    not_links: tuple[str, ...] = ()

    def counts(self) -> list[tuple[str, int, int, str]]:
        """(outcome, number in this run, number from the cache, what it means), live ones first,
        then the most frequent."""
        counts = Counter((reference.outcome, from_cache) for reference, from_cache in self.found)
        kinds = {reference.outcome: reference.kind for reference, _ in self.found}
        ordered = sorted(
            kinds,
            key=lambda name: (name != "fetched", -counts[name, False] - counts[name, True], name),
        )
        meanings = {
            name: KINDS.get(kind or "", "text is in the cache") for name, kind in kinds.items()
        }
        return [(name, counts[name, False], counts[name, True], meanings[name]) for name in ordered]

    def write(self, path: Path) -> None:
        """As JSON: counts, dead links, all links, entries that are none. Raises DataError: the file
        cannot be written."""
        rows: list[dict[str, Any]] = [
            {name: getattr(reference, name, None) for name in _COLUMNS}
            | {"from_cache": from_cache, "num_characters": len(reference.text or "")}
            for reference, from_cache in sorted(self.found, key=lambda pair: pair[0].url)
        ]
        content = {
            "suite_version": __version__,
            "counts": {
                name: {"this_run": new, "from_cache": old} for name, new, old, _ in self.counts()
            },
            "dead": [row for row in rows if row["outcome"] != "fetched"],
            "links": rows,
            "not_links": list(self.not_links),
        }
        write_json(path, content)
