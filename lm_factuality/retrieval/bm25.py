"""BM25 by Tantivy, over an index on disk or over a few texts in memory.

A text is split at everything that is neither letter nor digit, and lower-cased. With the stemmer
``english``, the 33 stopwords of Lucene are left out and the rest is stemmed as Snowball does.
``none`` takes words as they are. Tantivy fixes k1 = 1.2 and b = 0.75, the defaults of Lucene, whose
BM25 it computes. A passage's length is kept in one byte, as there.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import tantivy
from tantivy import Filter, Occur, Query
from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval.index import Index, Manifest, Ranking
from lm_factuality.retrieval.passages import PASSAGES, PassageStore

STEMMERS = ("english", "none")
FOLDER = "tantivy"

# Fields of Tantivy's documents, and the name of the analyzer of the first.
_CONTENTS = "contents"
_NUMBER = "number"
_ANALYZER = "words"
# Bytes of postings in memory before they are written. The second is Tantivy's least.
_HEAP = 150_000_000
_SMALL_HEAP = 15_000_000
# A build that is interrupted goes on after its last commit of so many passages.
_COMMIT = 50_000
# Digits of a score that count. Further ones of a sum of 32-bit floats depend on its order.
_DIGITS = 5


@dataclass(frozen=True)
class BM25Parameters:
    """What a user can choose. Tantivy fixes the rest."""

    stemmer: str = "english"
    kind: ClassVar[Literal["bm25"]] = "bm25"

    def __post_init__(self) -> None:
        if self.stemmer not in STEMMERS:
            raise ConfigError(f"stemmer: found {self.stemmer!r}, expected {' or '.join(STEMMERS)}")

    def recorded(self) -> dict[str, Any]:
        """Return what the manifest says."""
        return {"method": "tantivy", "k1": 1.2, "b": 0.75, "stemmer": self.stemmer}

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Make an index of passages, or go on with one.

        Returns:
            A sum of what it finds.

        Raises:
            DataError: There are no words, or the disk is full.
        """
        tantivy_folder = folder / FOLDER
        tantivy_folder.mkdir(exist_ok=True)
        try:
            index = _open(self.stemmer, tantivy_folder)
            # Passages are added in order and in whole commits.
            start = index.searcher().num_docs
            texts = (passage.contents for passage in passages.since(start))
            with tqdm(texts, "index", len(passages), initial=start, unit=" passages") as bar:
                _fill(index, bar, start, _HEAP)
            index.reload()
            if not index.searcher().terms_with_prefix(_CONTENTS, "", limit=1):
                raise DataError("no passage has a word, stopwords aside; expected texts")
            for path in tantivy_folder.iterdir():
                if path.suffix == ".lock":
                    path.unlink()
                else:
                    # Tantivy lets nobody else read its files.
                    path.chmod((folder / PASSAGES).stat().st_mode)
        except (ValueError, OSError) as error:
            raise DataError(
                f"{folder}: Tantivy cannot write the index: {error}; make room and give the same"
                " command"
            ) from error
        return passages.sha256()


class BM25Index(Index):
    """A BM25 index on disk, of which only what queries touch is read."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        try:
            stemmer = BM25Parameters(stemmer=manifest.parameters["stemmer"]).stemmer
            # Tantivy writes locks even to read, and the folder may be read-only.
            links = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, links, ignore_errors=True)
            for path in (folder / FOLDER).iterdir():
                Path(links, path.name).symlink_to(path.resolve())
            self._searcher = Searcher(tantivy.Index.open(links), stemmer)
        except (ValueError, OSError, KeyError) as error:
            raise DataError(
                f"{folder}: not the files of a BM25 index: {error}; build the index again"
            ) from error

    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        return [self._searcher.best(query, k) for query in queries]


class Searcher:
    """Ranks the texts of a Tantivy index for queries of any text."""

    def __init__(self, index: tantivy.Index, stemmer: str) -> None:
        index.config_reader("manual")
        index.reload()
        self._index = index
        self._searcher = index.searcher()
        self._analyzer = _analyzer(stemmer)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Searcher:
        """Make a searcher over a few English texts in memory."""
        index = _open("english")
        _fill(index, texts, 0, _SMALL_HEAP)
        return cls(index, "english")

    def best(self, query: str, k: int) -> Ranking:
        """Return the ``k`` best texts that have a word of the query.

        Scores are rounded, because the order of a sum must tell no equal texts apart. Of equal
        texts Tantivy returns any, so more are asked for until one is worse than the ``k``-th.
        """
        counts = Counter(self._analyzer.analyze(_encodable(query)))
        clauses = []
        for term, count in sorted(counts.items()):
            term_query = Query.term_query(self._index.schema, _CONTENTS, term, "freq")
            clauses.append((Occur.Should, Query.boost_query(term_query, float(count))))
        boolean_query = Query.boolean_query(clauses)
        limit = k + 1
        while True:
            hits = self._searcher.search(boolean_query, limit, count=False).hits
            scores = [float(f"{score:.{_DIGITS}g}") for score, _ in hits]
            if len(hits) < limit or scores[-1] < scores[k - 1]:
                break
            limit *= 4
        numbers = self._searcher.fast_field_values(_NUMBER, [address for _, address in hits])
        ranking: Ranking = [
            (int(number), score)  # type: ignore[arg-type]
            for number, score in zip(numbers, scores, strict=True)
        ]
        return sorted(ranking, key=lambda entry: (-entry[1], entry[0]))[:k]


def _analyzer(stemmer: str) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(Filter.lowercase())
    if stemmer == "english":
        builder = builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english"))
    return builder.build()


def _open(stemmer: str, folder: Path | None = None) -> tantivy.Index:
    """Open the index in a folder, which may be new, or one in memory."""
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(_CONTENTS, tokenizer_name=_ANALYZER, index_option="freq")
    schema.add_unsigned_field(_NUMBER, fast=True)
    index = tantivy.Index(schema.build(), str(folder) if folder else None)
    index.register_tokenizer(_ANALYZER, _analyzer(stemmer))
    return index


def _fill(index: tantivy.Index, texts: Iterable[str], start: int, heap: int) -> None:
    """Add texts, numbered from ``start``."""
    # One thread, so that a commit holds the texts in their order.
    writer = index.writer(heap, 1)
    # A build that was killed has left files.
    writer.garbage_collect_files()
    for number, text in enumerate(texts, start):
        document = tantivy.Document()
        document.add_text(_CONTENTS, _encodable(text))
        document.add_unsigned(_NUMBER, number)
        writer.add_document(document)
        if (number + 1) % _COMMIT == 0:
            writer.commit()
    writer.commit()
    writer.wait_merging_threads()


def _encodable(text: str) -> str:
    """Replace halves of surrogate pairs, which models may write and UTF-8 does not have."""
    return text.encode("utf-8", "replace").decode("utf-8")
