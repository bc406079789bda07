"""BM25 by Tantivy, over an index on disk or over a few texts in memory.

A text is split at everything that is neither letter nor digit, and lower-cased. Under the stemmer
``english`` the 33 stopwords of Lucene are left out and the rest stemmed as Snowball does; ``none``
takes words as they are. Tantivy fixes k1 = 1.2 and b = 0.75, the defaults of Lucene, whose BM25 it
computes; a passage's length is kept in one byte, as there."""

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
_CONTENTS, _NUMBER, _ANALYZER = "contents", "number", "words"
_HEAP, _SMALL_HEAP = (
    150_000_000,
    15_000_000,
)  # bytes of postings before they are written; the latter is Tantivy's least
_COMMIT = 50_000  # passages; a build that is interrupted goes on after its last commit
_DIGITS = (
    5  # of a score that count; sums of 32-bit floats differ behind them with the order of the terms
)


@dataclass(frozen=True)
class BM25Parameters:
    """The stemmer; the rest is Tantivy's."""

    stemmer: str = "english"
    kind: ClassVar[Literal["bm25"]] = "bm25"

    def __post_init__(self) -> None:
        if self.stemmer not in STEMMERS:
            raise ConfigError(f"stemmer: found {self.stemmer!r}, expected {' or '.join(STEMMERS)}")

    def recorded(self) -> dict[str, Any]:
        """What the manifest says."""
        return {"method": "tantivy", "k1": 1.2, "b": 0.75, "stemmer": self.stemmer}

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Makes or goes on with the index; returns a sum of what it finds. Raises DataError: no
        words, or the disk is full."""
        (folder / FOLDER).mkdir(exist_ok=True)
        try:
            index = _index(self.stemmer, folder / FOLDER)
            begin = index.searcher().num_docs  # whole commits: passages are added in order
            texts = (passage.contents for passage in passages.since(begin))
            with tqdm(total=len(passages), initial=begin, desc="index", unit=" passages") as bar:
                _fill(index, texts, begin, _HEAP, bar)
            index.reload()
            if not index.searcher().terms_with_prefix(_CONTENTS, "", limit=1):
                raise DataError("no passage has a word, stopwords aside; expected texts")
            for path in (folder / FOLDER).iterdir():
                if path.suffix == ".lock":
                    path.unlink()
                else:
                    path.chmod(
                        (folder / PASSAGES).stat().st_mode
                    )  # Tantivy's own lets nobody else read it
        except (ValueError, OSError) as error:
            raise DataError(
                f"{folder}: Tantivy cannot write the index: {error}; make room and give the same"
                " command"
            ) from error
        return passages.sha256()


class BM25Index(Index):
    """A BM25 index that was opened; only what queries touch is read from disk."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        try:
            stemmer = BM25Parameters(stemmer=manifest.parameters["stemmer"]).stemmer
            links = (
                tempfile.mkdtemp()
            )  # Tantivy writes locks even to read, and the folder may be read-only
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
        self._index, self._searcher, self._analyzer = index, index.searcher(), _analyzer(stemmer)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Searcher:
        """Over a few English texts, in memory."""
        index = _index("english")
        _fill(index, texts, 0, _SMALL_HEAP)
        return cls(index, "english")

    def best(self, query: str, k: int) -> Ranking:
        """The ``k`` best texts that have a word of ``query``, best first, equal ones by number.
        Scores are rounded: the order of sums must tell no equals apart. Of these Tantivy returns
        any: more are asked for until one is worse than the ``k``-th."""
        terms = sorted(Counter(self._analyzer.analyze(_encodable(query))).items())
        parts = [
            (Query.term_query(self._index.schema, _CONTENTS, term, "freq"), float(count))
            for term, count in terms
        ]
        asked = Query.boolean_query(
            [(Occur.Should, Query.boost_query(part, count)) for part, count in parts]
        )
        limit = k + 1
        while True:
            found = self._searcher.search(asked, limit, count=False).hits
            scores = [float(f"{score:.{_DIGITS}g}") for score, _ in found]
            if len(found) < limit or scores[-1] < scores[k - 1]:
                break
            limit *= 4
        numbers = self._searcher.fast_field_values(_NUMBER, [address for _, address in found])
        ranking: Ranking = list(zip(map(int, numbers), scores, strict=True))  # type: ignore[arg-type]
        return sorted(ranking, key=lambda each: (-each[1], each[0]))[:k]


def _analyzer(stemmer: str) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(Filter.lowercase())
    if stemmer == "english":
        builder = builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english"))
    return builder.build()


def _index(stemmer: str, folder: Path | None = None) -> tantivy.Index:
    """The index in ``folder``, new if there is none; without a folder one in memory."""
    schema = tantivy.SchemaBuilder().add_text_field(
        _CONTENTS, tokenizer_name=_ANALYZER, index_option="freq"
    )
    index = tantivy.Index(
        schema.add_unsigned_field(_NUMBER, fast=True).build(), str(folder) if folder else None
    )
    index.register_tokenizer(_ANALYZER, _analyzer(stemmer))
    return index


def _fill(
    index: tantivy.Index, texts: Iterable[str], begin: int, heap: int, bar: tqdm[Any] | None = None
) -> None:
    """Adds ``texts``, numbered from ``begin``; one thread, so that a commit holds them in their
    order."""
    writer = index.writer(heap, 1)
    writer.garbage_collect_files()  # of a build that was killed
    for number, text in enumerate(texts, begin):
        document = tantivy.Document()
        document.add_text(_CONTENTS, _encodable(text))
        document.add_unsigned(_NUMBER, number)
        writer.add_document(document)
        if bar is not None:
            bar.update()
        if (number + 1) % _COMMIT == 0:
            writer.commit()
    writer.commit()
    writer.wait_merging_threads()


def _encodable(text: str) -> str:
    """``text`` with question marks for halves of surrogate pairs, which models may write and UTF-8
    does not have."""
    return text.encode("utf-8", "replace").decode("utf-8")
