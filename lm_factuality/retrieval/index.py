"""The parts that all indexes share: the manifest, which describes an index, and the search.

`bm25` and `dense` hold the two kinds of index, and `build` makes and opens them.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json, sha256_of
from lm_factuality.ground.records import to_model
from lm_factuality.retrieval.passages import Passage, PassageStore, SourceRecord

FORMAT: Literal[2] = 2
NAME = "manifest.json"
PARTIAL = ".partial"
_REBUILD = "build the index again: lm-factuality index build SOURCE --out {folder} --overwrite"
# The least number of passages that a search fetches first if some of them may be excluded.
_FIRST_FETCH = 32

Ranking = list[tuple[int, float]]
"""The numbers of passages with their scores, best first, equal scores by number."""


def sort_ranking(ranking: Ranking) -> Ranking:
    """Sort passages from the highest score to the lowest, and equal scores by passage number."""
    return sorted(ranking, key=lambda entry: (-entry[1], entry[0]))


@dataclass(frozen=True)
class IndexFile:
    """A file of an index as it was built."""

    name: str
    """The path relative to the index's folder."""

    size: int
    """The number of bytes."""

    sha256: str
    """The SHA-256 of the content, in hexadecimal digits."""


@dataclass(frozen=True)
class Manifest:
    """The description of an index, kept in its file ``manifest.json``."""

    kind: Literal["bm25", "dense"]
    """How the index ranks passages."""

    parameters: Mapping[str, Any]
    """The parameters that the index was built with."""

    sources: tuple[SourceRecord, ...]
    """The sources of the passages."""

    num_passages: int
    """The number of passages."""

    content: str
    """The SHA-256 of the passages, and of their vectors if the index is dense.

    Two builds of the same passages may have different files, but this digest is the same.
    """

    files: tuple[IndexFile, ...]
    """The files of the index, without the manifest."""

    suite_version: str
    """The version of lm-factuality that built the index."""

    format: Literal[2] = FORMAT
    """The version of the index format."""

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits that differ for indexes that may give different results."""
        content = {
            "format": self.format,
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "content": self.content,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def list_files(folder: Path) -> tuple[IndexFile, ...]:
    """List all files of an index with their sizes and checksums, sorted by path.

    Args:
        folder: The folder of the index. Its lock file is left out.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    files = []
    for path in tqdm(paths, desc="sum up", unit=" files"):
        name = path.relative_to(folder).as_posix()
        files.append(IndexFile(name, path.stat().st_size, sha256_of(path)))
    return tuple(files)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest into the folder of its index."""
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the index in a folder.

    Raises:
        DataError: The folder holds no index, an unfinished one, or one with a damaged manifest.
    """
    path = folder / NAME
    if not path.is_file():
        raise DataError(
            f"{folder}: not an index, for there is no {path}; make it, or end its interrupted"
            f" build, with: lm-factuality index build SOURCE --out {folder}"
        )
    try:
        return to_model(Manifest, parse_json(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise DataError(
            f"{path}: not a manifest of an index: {error}; {_REBUILD.format(folder=folder)}"
        ) from error


def check_files(folder: Path, manifest: Manifest, sums: bool = False) -> None:
    """Check that the files of an index are as the manifest describes them.

    Args:
        folder: The folder of the index.
        manifest: The index's manifest.
        sums: Whether to compare checksums too. The default compares only sizes, which is fast.

    Raises:
        DataError: A file is missing or differs.
    """
    for file in manifest.files:
        path = folder / file.name
        size = path.stat().st_size if path.is_file() else "no"
        if size != file.size:
            problem = f"{size} bytes, expected {file.size}"
        elif sums and sha256_of(path) != file.sha256:
            problem = f"altered since it was built, expected the SHA-256 {file.sha256}"
        else:
            continue
        rebuild = _REBUILD.format(folder=folder)
        raise DataError(f"{path}: {problem}; copy the whole folder again, or {rebuild}")


@dataclass(frozen=True)
class Hit:
    """A passage that a search returned for a query."""

    number: int
    """The number of the passage in the index."""

    score: float
    """The BM25 score or the cosine. Higher is better."""

    passage: Passage
    """The passage itself."""


Exclude = Callable[[int, Hit], bool]
"""Returns whether to leave out a hit, given the position of the query in the list of queries."""


class Index(ABC):
    """A searchable set of passages in a folder. Each subclass ranks them in its own way.

    Attributes:
        manifest: The description of the index.
        passages: The passages by number.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the passages of an index.

        Args:
            folder: The folder of the index.
            manifest: The index's manifest.

        Raises:
            DataError: The passages cannot be read, or are not as many as the manifest says.
        """
        self.manifest = manifest
        self.passages = PassageStore(folder)
        if len(self.passages) != manifest.num_passages:
            raise DataError(
                f"{folder}: {len(self.passages)} passages, expected {manifest.num_passages} as in"
                " the manifest; build the index again"
            )

    @property
    def identity(self) -> str:
        """16 hexadecimal digits for caches and results files, see `Manifest.identity`."""
        return self.manifest.identity

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.passages)

    @abstractmethod
    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Rank the ``k`` best passages for each query.

        Args:
            queries: Distinct queries.
            k: The number of passages to rank. A ranking is shorter if fewer passages match.
        """

    def retrieve(
        self, queries: Sequence[str], k: int, exclude: Exclude | None = None
    ) -> list[list[Hit]]:
        """Return the ``k`` best passages for each query.

        Args:
            queries: Any texts. Equal queries are searched for once.
            k: The number of passages per query.
            exclude: Tells which hits to leave out. The next best ones take their places.

        Returns:
            The hits of each query, best first, and equal scores by number. There are fewer than
            ``k`` if fewer passages match, and none for a query without words of the index.

        Raises:
            ConfigError: ``k`` is less than 1.
        """
        if k < 1:
            raise ConfigError(f"k is {k}, expected at least 1 passage per query")

        hits: list[list[Hit]] = [[] for _ in queries]
        # For each text, the positions of the queries that still need more passages.
        unfilled: dict[str, list[int]] = defaultdict(list)
        for position, query in enumerate(queries):
            unfilled[query].append(position)

        num_fetched = k if exclude is None else max(2 * k, _FIRST_FETCH)
        while unfilled:
            num_fetched = min(num_fetched, len(self))
            texts = list(unfilled)
            for text, ranking in zip(texts, self._search(texts, num_fetched), strict=True):
                positions = unfilled.pop(text)
                for position in positions:
                    hits[position] = self._best(ranking, k, position, exclude)

                is_exhausted = len(ranking) < num_fetched or num_fetched == len(self)
                too_few = [position for position in positions if len(hits[position]) < k]
                if too_few and not is_exhausted:
                    unfilled[text] = too_few
            # So many hits were excluded that a longer ranking is needed.
            num_fetched *= 2
        return hits

    def _best(self, ranking: Ranking, k: int, position: int, exclude: Exclude | None) -> list[Hit]:
        """Return the first ``k`` passages of a ranking that are not excluded.

        Args:
            ranking: The passages that a search returned.
            k: The number of hits to return. There may be fewer.
            position: The position of the query, which ``exclude`` receives.
            exclude: Tells which hits to leave out, or None to keep all.
        """
        hits: list[Hit] = []
        for number, score in ranking:
            if len(hits) == k:
                break
            hit = Hit(number, score, self.passages[number])
            if exclude is None or not exclude(position, hit):
                hits.append(hit)
        return hits
