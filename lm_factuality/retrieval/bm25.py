"""BM25 search by Tantivy, over an index on disk or over a few texts in memory.

`lm_factuality.retrieval.build` makes and opens the indexes on disk. Tantivy computes BM25 as Lucene
does, with Lucene's defaults k1 = 1.2 and b = 0.75, and also keeps the length of a passage in one
byte. A text is split at each character that is neither a letter nor a digit, and lower-cased.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import tantivy
from tantivy import Filter, Occur, Query
from tqdm.auto import tqdm

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.replies import replace_surrogates
from lm_factuality.retrieval.index import Index, Manifest, Ranking, sort_ranking
from lm_factuality.retrieval.passages import PASSAGES, PassageStore

STEMMERS = ("english", "none")
TANTIVY = "tantivy"

# The fields of Tantivy's documents, and the name of the analyzer of the first field.
_CONTENTS = "contents"
_NUMBER = "number"
_ANALYZER = "words"
HEAP_BYTES = 150_000_000
"""Bytes of postings that Tantivy holds in memory before it writes them."""

# The smallest number of bytes that Tantivy accepts.
_SMALL_HEAP_BYTES = 15_000_000
# The number of passages after which a build commits. An interrupted build resumes from there.
_COMMIT_INTERVAL = 50_000
# Further digits of a sum of 32-bit floats depend on the order of the terms.
_SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True)
class BM25Parameters:
    """The parameters of a BM25 index that a user can choose."""

    stemmer: str = "english"
    """How words are stemmed, one of `STEMMERS`.

    ``english`` drops Lucene's 33 stopwords and stems by Snowball. ``none`` keeps words as they are.
    """

    kind: ClassVar[Literal["bm25"]] = "bm25"

    def __post_init__(self) -> None:
        """Raise a ConfigError if the stemmer is unknown."""
        if self.stemmer not in STEMMERS:
            raise ConfigError(f"stemmer: found {self.stemmer!r}, expected {' or '.join(STEMMERS)}")

    def for_manifest(self) -> dict[str, Any]:
        """Return the parameters, including those that Tantivy fixes, for the index's manifest."""
        return {"method": "tantivy", "k1": 1.2, "b": 0.75, "stemmer": self.stemmer}

    def write(self, folder: Path, passages: PassageStore) -> str:
        """Write the BM25 index of all passages, or resume an interrupted write.

        Args:
            folder: The folder of the index. Tantivy's files go into its subfolder ``tantivy``.
            passages: The passages to index.

        Returns:
            The SHA-256 of the passages, which determine everything that the index can find.

        Raises:
            DataError: No passage has a word, or the files cannot be written.
        """
        tantivy_folder = folder / TANTIVY
        tantivy_folder.mkdir(exist_ok=True)
        try:
            index = open_tantivy(self.stemmer, tantivy_folder)

            # Passages are added in order, so those in the index are always the first ones.
            num_indexed = index.searcher().num_docs
            contents = (passage.contents for passage in passages.iterate_from(num_indexed))
            texts = enumerate(contents, num_indexed)
            with tqdm(
                texts, "index", len(passages), initial=num_indexed, unit=" passages"
            ) as progress:
                add_texts(index, progress, HEAP_BYTES)

            index.reload()
            if not index.searcher().terms_with_prefix(_CONTENTS, "", limit=1):
                raise DataError(
                    "the passages have no words, or only stopwords; give passages with text"
                )
            # The passages have the permissions that the user's system gives to new files.
            _finish_files(tantivy_folder, (folder / PASSAGES).stat().st_mode)
        except (ValueError, OSError) as error:
            raise DataError(
                f"{folder}: Tantivy cannot write the index: {error}; free disk space and run the"
                " same command again"
            ) from error
        return passages.sha256()


def _finish_files(tantivy_folder: Path, mode: int) -> None:
    """Delete Tantivy's lock files and set the permissions of its other files.

    Args:
        tantivy_folder: The folder with Tantivy's files, which only their owner can read so far.
        mode: The permissions, as `os.stat` returns them.
    """
    for path in tantivy_folder.iterdir():
        # An index that is only read, or copied elsewhere, needs no locks.
        if path.suffix == ".lock":
            path.unlink()
        else:
            path.chmod(mode)


class BM25Index(Index):
    """A BM25 index on disk. A search reads only the parts of the files that it needs."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the index in a folder, also if the user may not write to it.

        Args:
            folder: The folder of the index.
            manifest: The index's manifest, which names the stemmer.

        Raises:
            DataError: The folder does not hold the files of a BM25 index.
        """
        super().__init__(folder, manifest)
        try:
            # The parameters refuse a stemmer that this version does not know.
            parameters = BM25Parameters(stemmer=manifest.parameters["stemmer"])
            index = tantivy.Index.open(self._link_files(folder / TANTIVY))
            self._searcher = Searcher(index, parameters.stemmer)
        except (ValueError, OSError, KeyError) as error:
            raise DataError(
                f"{folder}: not the files of a BM25 index: {error}; build the index again"
            ) from error

    def _link_files(self, tantivy_folder: Path) -> str:
        """Return a temporary folder with links to Tantivy's files.

        Tantivy writes lock files into the folder of an index even to read the index, which may be
        read-only. The temporary folder is deleted along with this object.
        """
        link_folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, link_folder, ignore_errors=True)
        for path in tantivy_folder.iterdir():
            Path(link_folder, path.name).symlink_to(path.resolve())
        return link_folder

    def _search(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Rank the ``k`` best passages for each query."""
        return [self._searcher.rank(query, k) for query in queries]


class _Hit(NamedTuple):
    """A text that Tantivy found."""

    score: float
    """The BM25 score."""

    address: tantivy.DocAddress
    """Where Tantivy keeps the text."""


class Searcher:
    """Ranks the texts of a Tantivy index by their BM25 score for a query."""

    def __init__(self, index: tantivy.Index, stemmer: str) -> None:
        """Search a Tantivy index in its present state.

        Args:
            index: The index. Texts that are added to it later are not found.
            stemmer: The stemmer that the index was made with, ``english`` or ``none``.
        """
        # Tantivy would otherwise watch the index for changes in the background.
        index.config_reader("manual")
        index.reload()
        self._index = index
        self._searcher = index.searcher()
        self._analyzer = _analyzer(stemmer)

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> Searcher:
        """Index a few English texts in memory and return a searcher over them."""
        index = open_tantivy("english")
        add_texts(index, enumerate(texts), _SMALL_HEAP_BYTES)
        return cls(index, "english")

    def rank(self, query: str, k: int) -> Ranking:
        """Rank the ``k`` texts with the highest BM25 scores for a query.

        Args:
            query: Any text. A word that occurs twice counts twice.
            k: The number of texts to return, at least 1.

        Returns:
            The number and score of each text, best first, and equal scores by number. There are
            fewer than ``k`` if fewer texts share a word with the query.
        """
        hits = self._best_hits(self._parse_query(query), k)
        # A hit has Tantivy's address of the text, which depends on how the index was written. The
        # number of the text does not, so rankings are the same on every machine.
        numbers = self._searcher.fast_field_values(_NUMBER, [hit.address for hit in hits])
        ranking: Ranking = []
        for number, hit in zip(numbers, hits, strict=True):
            ranking.append((int(number), hit.score))  # type: ignore[arg-type]
        return sort_ranking(ranking)[:k]

    def _best_hits(self, query: Query, k: int) -> list[_Hit]:
        """Return the ``k`` best hits for a query, and at least those that tie with the k-th.

        Tantivy orders equal scores arbitrarily. Hits are requested until one scores less than the
        k-th. Usually one more than ``k`` is enough.
        """
        limit = k + 1
        while True:
            hits = []
            for score, address in self._searcher.search(query, limit, count=False).hits:
                hits.append(_Hit(_round_score(score), address))
            has_all_hits = len(hits) < limit
            if has_all_hits or hits[-1].score < hits[k - 1].score:
                return hits
            limit *= 4

    def _parse_query(self, query: str) -> Query:
        """Parse a text into a Tantivy query for the texts that have any of its terms.

        Example:
            ``the bridge of bridges`` becomes the term ``bridg`` with weight 2.
        """
        term_counts = Counter(self._analyzer.analyze(replace_surrogates(query)))
        clauses = []
        for term, count in sorted(term_counts.items()):
            term_query = Query.term_query(self._index.schema, _CONTENTS, term, "freq")
            clauses.append((Occur.Should, Query.boost_query(term_query, float(count))))
        return Query.boolean_query(clauses)


def _round_score(score: float) -> float:
    """Round a score to its significant digits, such as 12.34567 to 12.346.

    Equal texts then score equally, whatever the order in which Tantivy adds up their terms.
    """
    return float(f"{score:.{_SIGNIFICANT_DIGITS}g}")


def _analyzer(stemmer: str) -> tantivy.TextAnalyzer:
    """Return the analyzer that turns a text into index terms: ``The Bridges`` into ``bridg``."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(Filter.lowercase())
    if stemmer == "english":
        builder = builder.filter(Filter.stopword("english")).filter(Filter.stemmer("english"))
    return builder.build()


def open_tantivy(
    stemmer: str, folder: Path | None = None, can_remove: bool = False
) -> tantivy.Index:
    """Open a Tantivy index of numbered texts, or create it if its folder is empty.

    Args:
        stemmer: How words are stemmed, ``english`` or ``none``.
        folder: The folder of the index, which must exist. None keeps the index in memory.
        can_remove: Whether `remove_texts` can remove texts, for which the index is a little larger.
    """
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(_CONTENTS, tokenizer_name=_ANALYZER, index_option="freq")
    # A fast field is stored by column, so that the numbers of hits are read at once.
    schema.add_unsigned_field(_NUMBER, fast=True, indexed=can_remove)
    index = tantivy.Index(schema.build(), str(folder) if folder else None)
    index.register_tokenizer(_ANALYZER, _analyzer(stemmer))
    return index


def add_texts(
    index: tantivy.Index, numbered_texts: Iterable[tuple[int, str]], heap_bytes: int
) -> None:
    """Add texts with their numbers to an index and commit them.

    Args:
        index: The index to which the texts are added.
        numbered_texts: The number and the text of each, in the order of the numbers.
        heap_bytes: The bytes of memory that Tantivy may fill before it writes to disk.
    """
    # A single thread adds the texts in order, so that an interrupted build can be resumed.
    writer = index.writer(heap_bytes, num_threads=1)
    # A build that was killed may have left unused files.
    writer.garbage_collect_files()

    for number, text in numbered_texts:
        document = tantivy.Document()
        document.add_text(_CONTENTS, replace_surrogates(text))
        document.add_unsigned(_NUMBER, number)
        writer.add_document(document)
        if (number + 1) % _COMMIT_INTERVAL == 0:
            writer.commit()
    writer.commit()
    writer.wait_merging_threads()


def remove_texts(index: tantivy.Index, numbers: Iterable[int]) -> None:
    """Remove the texts with the given numbers from an index, which may then get new texts.

    Args:
        index: The index, which `open_tantivy` opened with ``can_remove``.
        numbers: The numbers of the texts. Until Tantivy merges the files that they are in, they
            still count in the frequencies of words.
    """
    writer = index.writer(_SMALL_HEAP_BYTES, num_threads=1)
    # Deletion by a term would compare signed numbers, which these are not.
    writer.delete_documents_by_query(Query.term_set_query(index.schema, _NUMBER, list(numbers)))
    writer.commit()
    writer.wait_merging_threads()
