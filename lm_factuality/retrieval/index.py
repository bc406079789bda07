"""What every index can do: say what it is made of, and return the best passages for queries.

`bm25` and `dense` have the two kinds. `build` makes and opens indexes.
"""

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

FORMAT: Literal[2] = 2
NAME = "manifest.json"
PARTIAL = ".partial"
_AGAIN = "build the index again: lm-factuality index build SOURCE --out {folder} --overwrite"
# So many passages are looked at first where some may be excluded.
_FIRST_FETCH = 32

Ranking = list[tuple[int, float]]
"""Numbers of passages and their scores, best first, equal scores by number."""


@dataclass(frozen=True)
class IndexFile:
    """A file of an index: its path in the folder, its size in bytes and the sum of its bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What is known about an index without opening its files."""

    kind: Literal["bm25", "dense"]
    parameters: Mapping[str, Any]
    sources: tuple[SourceRecord, ...]
    num_passages: int
    content: str
    """A sum of the passages, and of their vectors if the index is dense. The files of two builds
    of the same passages may differ, but this sum does not."""

    files: tuple[IndexFile, ...]
    suite_version: str
    format: Literal[2] = FORMAT

    @cached_property
    def identity(self) -> str:
        """16 hexadecimal digits that change with everything that can change a result."""
        content = {
            "format": self.format,
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "content": self.content,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def list_files(folder: Path) -> tuple[IndexFile, ...]:
    """Sum up every file in a folder but its lock, in order of their names."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return tuple(
        IndexFile(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_of(path))
        for path in tqdm(paths, desc="sum up", unit=" files")
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest into a folder."""
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index.

    Raises:
        DataError: There is no index in the folder, or it is unfinished or not understood.
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
            f"{path}: not a manifest of an index: {error}; {_AGAIN.format(folder=folder)}"
        ) from error


def check_files(folder: Path, manifest: Manifest, sums: bool = False) -> None:
    """Compare the files of an index with its manifest.

    Args:
        sums: Whether sums are compared, beside sizes.

    Raises:
        DataError: A file is not as it was built.
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
        again = _AGAIN.format(folder=folder)
        raise DataError(f"{path}: {problem}; copy the whole folder again, or {again}")


@dataclass(frozen=True)
class Hit:
    """A passage that a query has found."""

    number: int
    """Its number in the index."""

    score: float
    passage: Passage


Exclude = Callable[[int, Hit], bool]
"""Returns whether a hit is not wanted for the query of that number."""


class Index(ABC):
    """A searchable set of passages in a folder. Subclasses say how a search ranks them."""

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
        """It changes with everything that can change a result, for caches and results files."""
        return self.manifest.identity

    def __len__(self) -> int:
        return len(self.passages)

    @abstractmethod
    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return the ``k`` best for each of some different queries, fewer where fewer match."""

    def retrieve(
        self, queries: Sequence[str], k: int, exclude: Exclude | None = None
    ) -> list[list[Hit]]:
        """Return the ``k`` best passages for each query, best first, equal scores by number.

        There are fewer where fewer match. A query without a known word has none. Equal queries are
        searched for once.

        Args:
            exclude: Says which passages are not wanted. The next best ones take their place.

        Raises:
            ConfigError: ``k`` is less than 1.
        """
        if k < 1:
            raise ConfigError(f"k is {k}, expected at least 1 passage per query")
        hits: list[list[Hit]] = [[] for _ in queries]
        # The numbers of the queries that need more passages, by their text.
        unfilled: dict[str, list[int]] = {}
        for number, query in enumerate(queries):
            unfilled.setdefault(query, []).append(number)
        num_fetched = k if exclude is None else max(2 * k, _FIRST_FETCH)
        while unfilled:
            num_fetched = min(num_fetched, len(self))
            texts = list(unfilled)
            for text, ranking in zip(texts, self._search(texts, num_fetched), strict=True):
                numbers = unfilled.pop(text)
                for number in numbers:
                    hits[number] = self._best(ranking, k, number, exclude)
                is_exhausted = len(ranking) < num_fetched or num_fetched == len(self)
                missing = [number for number in numbers if len(hits[number]) < k]
                if missing and not is_exhausted:
                    unfilled[text] = missing
            num_fetched *= 2
        return hits

    def _best(self, ranking: Ranking, k: int, number: int, exclude: Exclude | None) -> list[Hit]:
        """Return the first ``k`` passages that are not excluded for the query of that number."""
        ranked = (Hit(passage, score, self.passages[passage]) for passage, score in ranking)
        wanted = (hit for hit in ranked if exclude is None or not exclude(number, hit))
        return list(islice(wanted, k))
