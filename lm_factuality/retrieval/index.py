"""What every index can do: say in ``manifest.json`` what it is made of, and return the best
passages for many queries at once."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json, sha256_of
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.passages import Passage, PassageStore, SourceRecord

FORMAT = 2  # 1: BM25 of our own, before Tantivy
NAME = "manifest.json"
PARTIAL = ".partial"
_CHECKED_AT_OPENING = 64 << 20  # bytes of an index whose sums are compared each time it is opened
_AGAIN = "build the index again: lm-factuality index build SOURCE --out {folder} --overwrite"
Ranking = list[
    tuple[int, float]
]  # numbers of passages and scores, best first, equal scores by number

_FIRST_FETCH = 32  # passages that are looked at first where some may be excluded


@dataclass(frozen=True)
class IndexFile:
    """A file of an index: its path in the folder, its size in bytes, the SHA-256 of its bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All that is known about an index without opening its files. ``content`` is a sum of what an
    index finds: of its passages, and their vectors if it is dense. The files of two builds of the
    same passages may differ, it does not."""

    kind: Literal["bm25", "dense"]
    parameters: Mapping[str, Any]
    sources: tuple[SourceRecord, ...]
    num_passages: int
    content: str
    files: tuple[IndexFile, ...]
    suite_version: str
    format: int = FORMAT

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits that change with everything that can change a result: kind,
        parameters, content."""
        content = {
            "format": self.format,
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "content": self.content,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def list_files(folder: Path, exclude: str) -> tuple[IndexFile, ...]:
    """Every file in ``folder`` but ``exclude`` with its size and sum, in order of their names."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != exclude)
    bar = tqdm(paths, desc="sum up", unit=" files")
    return tuple(
        IndexFile(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_of(path))
        for path in bar
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes ``manifest`` into ``folder``."""
    (folder / NAME).write_text(
        json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the index in ``folder``. Raises DataError: there is no index, or it is
    unfinished or not understood."""
    path, build = folder / NAME, "'lm-factuality index build SOURCE --out {}'"
    if not folder.is_dir():
        if (partial := folder.with_name(folder.name + PARTIAL)).is_dir():
            cure = "run the same 'lm-factuality index build' again to continue from there"
            raise DataError(
                f"{folder}: its build was interrupted ({partial} is unfinished); {cure}"
            )
        raise DataError(
            f"{folder}: no such folder; expected an index, which {build.format(folder)} makes"
        )
    if folder.name.endswith(PARTIAL):
        whole = folder.with_name(folder.name.removesuffix(PARTIAL))
        raise DataError(
            f"{folder}: a half-built index; run the same {build.format(whole)} again to finish it"
        )
    if not path.is_file():
        raise DataError(
            f"{folder}: no {NAME} in it, so it is not an index; give the folder of 'lm-factuality"
            " index build'"
        )
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or "format" not in values:
            raise ValueError("no key 'format'")
        if values["format"] != FORMAT:
            older = " (1 was the suite's own BM25, before Tantivy)" if values["format"] == 1 else ""
            raise ValueError(
                f"format {values['format']!r}, but this version of the suite reads format"
                f" {FORMAT}{older}"
            )
        manifest = to_model(Manifest, values)
        if any(
            Path(file.name).is_absolute() or ".." in Path(file.name).parts
            for file in manifest.files
        ):
            raise ValueError("a file outside the folder")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path}: not a manifest of an index: {error}; {_AGAIN.format(folder=folder)}"
        ) from error
    return manifest


def check_files(folder: Path, manifest: Manifest, sums: bool | None = None) -> None:
    """Compares the files' sizes with the manifest, and sums if ``sums`` (None: if small). Raises
    DataError: not as built."""
    again = _AGAIN.format(folder=folder)
    for file in manifest.files:
        path = folder / file.name
        found = f"{path.stat().st_size} bytes" if path.is_file() else "missing"
        if found != f"{file.size} bytes":
            raise DataError(
                f"{path}: {found}, expected {file.size} bytes; copy the whole folder, or {again}"
            )
    is_small = sum(file.size for file in manifest.files) < _CHECKED_AT_OPENING
    for file in manifest.files if (is_small if sums is None else sums) else ():
        if (found := sha256_of(folder / file.name)) != file.sha256:
            raise DataError(
                f"{folder / file.name}: altered since it was built: SHA-256 {found[:12]}...,"
                f" expected {file.sha256[:12]}...; copy the folder again, or {again}"
            )


@dataclass(frozen=True)
class Hit:
    """A passage that was found: its number in the index, its score, and the passage."""

    number: int
    score: float
    passage: Passage


Exclude = Callable[[int, Hit], bool]


class Index(ABC):
    """A searchable set of passages in a folder; subclasses say how one search ranks them."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self.passages = PassageStore(folder)
        if len(self.passages) != manifest.num_passages:
            raise DataError(
                f"{folder}: {len(self.passages)} passages, expected {manifest.num_passages} as in"
                " the manifest; build the index again"
            )

    @property
    def identity(self) -> str:
        """Changes with everything that can change a result; for cache keys and results files."""
        return self.manifest.identity

    def __len__(self) -> int:
        return len(self.passages)

    @abstractmethod
    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The ``k`` best for each of the different ``queries``, fewer where fewer match."""

    def retrieve(
        self, queries: Sequence[str], k: int, exclude: Exclude | None = None
    ) -> list[list[Hit]]:
        """The ``k`` best passages for each query, best first, equal scores by number; fewer where
        fewer match. A query without a known word has none. ``exclude(i, hit)`` says that ``hit`` is
        not wanted for ``queries[i]``; the next best ones take its place. Queries that are equal are
        searched for once. Raises ConfigError: ``k`` is less than 1."""
        if k < 1:
            raise ConfigError(f"k is {k}, expected at least 1 passage per query")
        hits: list[list[Hit]] = [[] for _ in queries]
        places: dict[str, list[int]] = {}
        for place, query in enumerate(queries):
            places.setdefault(query, []).append(place)
        fetch = k if exclude is None else max(2 * k, _FIRST_FETCH)
        while places:
            fetch = min(fetch, len(self))
            for query, ranking in zip(list(places), self._search(list(places), fetch), strict=True):
                for place in places[query]:
                    found = (Hit(number, score, self.passages[number]) for number, score in ranking)
                    hits[place] = list(
                        islice(
                            (hit for hit in found if exclude is None or not exclude(place, hit)), k
                        )
                    )
                exhausted = len(ranking) < fetch or fetch == len(self)
                places[query] = (
                    [] if exhausted else [place for place in places[query] if len(hits[place]) < k]
                )
            places = {query: unfilled for query, unfilled in places.items() if unfilled}
            fetch *= 2
        return hits
