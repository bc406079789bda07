"""In-context RALM without torch: its windows, the inserted passages, and the excluded articles.

Ram et al. (2023), section 3, with the stride and query length of FACTOR's section 4.3. The document
under evaluation is not retrieved. A passage that is recognised as a part of it bans its whole
article, because another part of it may state the answer in other words. `hf_ralm` uses all of this.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lm_factuality.ground.errors import DataError
from lm_factuality.retrieval.index import Hit, Index
from lm_factuality.retrieval.passages import Passage

# The reason for excluding a passage because of another passage of its article.
ARTICLE = "article"

RULES = r"none|(?:title|overlap|id:[^+]+)(?:\+(?:title|overlap|id:[^+]+))*"
"""What ``exclude`` may be. KEY in ``id:KEY`` is the key of rows that holds ids of the index."""

# The keys of rows that may hold the title of the document.
_TITLE_KEYS = ("title", "doc_title", "document_title", "page")
_WORD = re.compile(r"\w+")
# An index numbers the parts of a text that it has split: ``ID#0``.
_PART = re.compile(r"#\d+$")
# A document is searched for in pieces of at least so many words, to find its articles ...
_MIN_PIECE_WORDS = 64
# ... among so many passages for each piece.
_NUM_CANDIDATES = 10

WordSequence = tuple[str, ...]
RowId = tuple[str, int]
"""A row by its task and number. Its document is not retrieved for it."""


class Query(NamedTuple):
    """A text to search for, and the row that it is for."""

    text: str
    """The last words before the tokens to predict."""

    row: RowId
    """The row whose document must not be retrieved."""


@dataclass(frozen=True)
class EvaluatedDocument:
    """The features by which passages of the document behind a row are recognised."""

    ids: frozenset[str]
    """The ids of the document in the index."""

    titles: frozenset[str]
    """The titles of the document, with normalised case and spaces."""

    word_sequences: frozenset[WordSequence] = field(repr=False)
    """All sequences of a fixed number of consecutive words in its texts."""

    pieces: tuple[str, ...] = field(repr=False)
    """Pieces of its texts to search for."""


@dataclass(frozen=True)
class Exclusion:
    """The rules that decide whether a passage is part of the document behind a row."""

    id_keys: tuple[str, ...] = ()
    """Keys of rows whose values are ids of this index. Numbers seldom count the same things, so
    ids are only compared if such a key is named."""

    by_title: bool = True
    """Whether a passage with the title of the row is excluded."""

    overlap: int = 13
    """How many words in a row a passage may not share with the document. 0 turns the rule off."""

    @classmethod
    def parse(cls, rules: str, overlap: int) -> Exclusion:
        """Read the option ``exclude``.

        For example, ``id:page+title`` compares ids with the key ``page`` of rows, and titles.

        Args:
            rules: The names of rules, joined by ``+``, or ``none``. They match `RULES`.
            overlap: How many words in a row a passage may not share. It counts only if the rules
                include ``overlap``.
        """
        names = rules.split("+")
        id_keys = [name.removeprefix("id:") for name in names if name.startswith("id:")]
        return cls(
            id_keys=tuple(id_keys),
            by_title="title" in names,
            overlap=overlap if "overlap" in names else 0,
        )

    def collect_features(
        self, rows: Sequence[Mapping[str, Any]], texts: Iterable[str]
    ) -> EvaluatedDocument:
        """Collect the features by which passages of a document are recognised.

        Args:
            rows: The benchmark's rows that were made from the document.
            texts: The parts of the document that occur in requests.

        Returns:
            The ids, titles and word sequences of the document, as far as the rules need them.

        Raises:
            DataError: A row lacks a key that an ``id:KEY`` rule names.
        """
        self._check_id_keys(rows)
        titles = _distinct_texts(rows, _TITLE_KEYS) if self.by_title else ()
        # Only the rule ``overlap`` compares texts. It searches the index for each piece of the
        # document, and recognises a passage by a sequence of words that the document has too.
        compared_texts = list(texts) if self.overlap else []
        word_sequences = [_word_sequences(text, self.overlap) for text in compared_texts]
        pieces = [_split_into_pieces(text, self.overlap) for text in compared_texts]
        return EvaluatedDocument(
            ids=_distinct_texts(rows, self.id_keys),
            titles=frozenset(map(_normalise, titles)),
            word_sequences=frozenset(itertools.chain(*word_sequences)),
            # The keys of a dictionary are distinct and in order.
            pieces=tuple(dict.fromkeys(itertools.chain(*pieces))),
        )

    def _check_id_keys(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check that every row has the keys that ``id:KEY`` rules name.

        Raises:
            DataError: A row lacks one.
        """
        for key in self.id_keys:
            if any(key not in row for row in rows):
                raise DataError(
                    f"exclude=id:{key}: a row has no key {key!r}; name the key that holds ids of"
                    " the index, or leave the rule out"
                )

    def matching_rule(
        self, document: EvaluatedDocument, passage: Passage, is_split: bool
    ) -> str | None:
        """Return the name of the rule by which a passage belongs to the document.

        Args:
            document: The features of the document.
            passage: The passage that a search returned.
            is_split: Whether the index has split texts and numbered their parts, as in ``ID#0``.

        Returns:
            "id", "title" or "overlap", or None if no rule applies.
        """
        if _text_id(passage, is_split) in document.ids:
            return "id"
        if passage.title and _normalise(passage.title) in document.titles:
            return "title"
        # Without word sequences of the document, those of the passage need not be computed.
        if document.word_sequences and document.word_sequences & _word_sequences(
            passage.text, self.overlap
        ):
            return "overlap"
        return None


class RetrievedPassages(NamedTuple):
    """The passages that a search returned, and those that it left out."""

    hits: list[Hit]
    """The passages that the model reads, the best first."""

    excluded: dict[Hit, str]
    """Better passages that were left out, each with the rule that excluded it, or `ARTICLE`."""


class Search:
    """Retrieves passages for rows, but never from the article that a row was made from.

    A passage that is recognised as part of a row's document bans all passages of its article for
    this row.
    """

    def __init__(
        self, index: Index, exclusion: Exclusion, documents: Mapping[RowId, EvaluatedDocument]
    ) -> None:
        """Prepare a search and ban the articles that hold the rows' documents.

        Args:
            index: The passages.
            exclusion: The rules that recognise passages of a document.
            documents: The features of the document behind each row.
        """
        self._index = index
        self._exclusion = exclusion
        self._documents = documents
        # An index whose build has split texts records the number of words of a passage.
        self._is_split = index.manifest.parameters.get("words") is not None
        self.banned: dict[RowId, dict[str, int]] = {row: {} for row in documents}
        """The keys of the articles that each row's searches leave out.

        Each has the number of the passage by which the article was recognised.
        """
        # Most articles are found before the first query, so that few queries are repeated.
        self._ban_articles_of_documents()

    def _ban_articles_of_documents(self) -> None:
        """Ban the article that each row's document was copied from, before any other search.

        The index is searched for pieces of the document. Where a found passage is recognised as
        a part of the document, its whole article is banned for the row.
        """
        queries = []
        for row, document in self._documents.items():
            queries += [Query(piece, row) for piece in document.pieces]
        # One search for the pieces of all documents is faster than one per document.
        rankings = self._index.retrieve([query.text for query in queries], _NUM_CANDIDATES)
        for query, hits in zip(queries, rankings, strict=True):
            for hit in hits:
                self._ban_if_recognised(query.row, hit)

    def _ban_if_recognised(self, row: RowId, hit: Hit) -> str | None:
        """Ban the article of a passage if the passage is a part of the row's document.

        For example, if passage 7 has the title of the row, ``banned[row]`` becomes
        ``{"title ada lovelace": 7}``. All passages of this title are then left out for the row.

        Args:
            row: The row whose document must not be retrieved.
            hit: A passage that a search has found.

        Returns:
            The rule by which the passage is a part of the document, or None.
        """
        document = self._documents[row]
        rule = self._exclusion.matching_rule(document, hit.passage, self._is_split)
        if rule is not None:
            new_bans = dict.fromkeys(self._article_keys(hit), hit.number)
            # An article keeps the number of the passage that was recognised first, because the
            # right side of | wins.
            self.banned[row] = new_bans | self.banned[row]
        return rule

    def retrieve(self, queries: Iterable[Query], k: int) -> dict[Query, RetrievedPassages]:
        """Return the ``k`` best permitted passages for each query.

        A passage of one query may reveal that an article belongs to a row's document. Queries that
        already returned other passages of this article are then searched again.

        Args:
            queries: The text to search for and the row that it is for.
            k: How many passages to return for each query.

        Returns:
            The retrieved and the excluded passages of each distinct query.
        """
        results: dict[Query, RetrievedPassages] = {}
        # Equal queries are searched for once.
        pending = list(dict.fromkeys(queries))
        while pending:
            # Each search may ban further articles, whose passages older results may have.
            results |= self._retrieve_once(pending, k)
            pending = [
                query
                for query, retrieved in results.items()
                if any(self._is_banned(query.row, hit) for hit in retrieved.hits)
            ]
        return results

    def _retrieve_once(self, queries: Sequence[Query], k: int) -> dict[Query, RetrievedPassages]:
        """Search for all queries at once, without passages of banned articles.

        If the search finds a part of a row's document, the article of this part is banned as well.

        Args:
            queries: Distinct queries.
            k: How many passages to return for each query.

        Returns:
            For each query, its passages and those that were left out. They may include passages of
            an article that was banned only later in the search.
        """
        results = {query: RetrievedPassages(hits=[], excluded={}) for query in queries}

        def exclude_and_record(query_index: int, hit: Hit) -> bool:
            """Return whether to leave a passage out, and if so, record the reason."""
            query = queries[query_index]
            reason = self._ban_if_recognised(query.row, hit)
            # An unrecognised passage may be of an article that another passage has banned.
            if reason is None and self._is_banned(query.row, hit):
                reason = ARTICLE
            if reason is None:
                return False
            results[query].excluded[hit] = reason
            return True

        texts = [query.text for query in queries]
        rankings = self._index.retrieve(texts, k, exclude=exclude_and_record)
        for query, hits in zip(queries, rankings, strict=True):
            results[query].hits.extend(hits)
        return results

    def _is_banned(self, row: RowId, hit: Hit) -> bool:
        """Return whether the article of a passage is banned for a row."""
        return not self.banned[row].keys().isdisjoint(self._article_keys(hit))

    def _article_keys(self, hit: Hit) -> list[str]:
        """Return the keys of the article that a passage belongs to.

        Two passages are of the same article if they share a key. An article has up to two keys: its
        title and, in an index of split texts, its id, which is 12 for the passage ``12#3``.

        Returns:
            Keys such as ["title ada lovelace", "id 12"]. A passage without either is an article of
            its own, such as ["passage 7"].
        """
        keys = []
        title = _normalise(hit.passage.title)
        if title:
            keys.append(f"title {title}")
        if self._is_split:
            keys.append(f"id {_text_id(hit.passage, is_split=True)}")
        return keys or [f"passage {hit.number}"]


def _text_id(passage: Passage, is_split: bool) -> str:
    """Return the id of the text that a passage was split from: ``12#3`` becomes ``12``."""
    return _PART.sub("", passage.id) if is_split else passage.id


def _distinct_texts(rows: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> frozenset[str]:
    """Return the distinct values of the keys in all rows as text, without empty ones."""
    values = [row.get(key) for key in keys for row in rows]
    return frozenset(str(value) for value in values if value not in (None, ""))


def _normalise(title: str) -> str:
    """Return the title in lower case with single spaces: " Ada  Lovelace" → "ada lovelace"."""
    return " ".join(title.split()).casefold()


@functools.lru_cache(maxsize=4096)
def _word_sequences(text: str, length: int) -> frozenset[WordSequence]:
    """Return all sequences of ``length`` consecutive words, in lower case.

    For example, "A big red dog" has the sequences ("a", "big", "red") and ("big", "red", "dog") of
    length 3.
    """
    words = _WORD.findall(text.casefold())
    starts = range(len(words) - length + 1)
    return frozenset(tuple(words[start : start + length]) for start in starts)


def _split_into_pieces(text: str, sequence_length: int) -> list[str]:
    """Split a text into overlapping pieces, each of which becomes a query.

    For example, if a sequence had 3 words and a piece 6, the text "a b c d e f g h i j" would have
    the pieces "a b c d e f" and "e f g h i j". The second piece begins with the last two words of
    the first, so that the sequences "e f g" and "f g h" lie in it.

    Args:
        text: The text of a document.
        sequence_length: Every sequence of so many words lies completely in one piece.

    Returns:
        The pieces, each of 64 words, or of two sequences if that is more. The last may be shorter.
    """
    words = text.split()
    piece_length = max(_MIN_PIECE_WORDS, 2 * sequence_length)
    # The last words of a piece from which no whole sequence of it begins.
    num_repeated = sequence_length - 1
    # Every sequence of the text begins before its last words. A shorter text is a single piece.
    end_of_starts = max(1, len(words) - num_repeated)
    starts = range(0, end_of_starts, piece_length - num_repeated)
    return [" ".join(words[start : start + piece_length]) for start in starts]


@dataclass(frozen=True)
class Window:
    """A few consecutive tokens of a continuation that are predicted after one retrieval."""

    request: int
    """The index of the request that it was cut from."""

    before: list[int]
    """All tokens of the request before the targets."""

    targets: list[int]
    """The tokens to predict, as many as the retrieval stride or fewer at the end."""


def cut_windows(requests: Sequence[tuple[Any, list[int], list[int]]], stride: int) -> list[Window]:
    """Cut each continuation into windows of ``stride`` tokens.

    Args:
        requests: The cache key, the context and the continuation of each request, in tokens.
        stride: How many tokens are predicted after one retrieval.

    Returns:
        The windows of all requests, in order.

    Example:
        >>> cut_windows([(None, [1, 2], [3, 4, 5])], 2)[1]
        Window(request=0, before=[1, 2, 3, 4], targets=[5])
    """
    windows = []
    for request_index, (_, context, continuation) in enumerate(requests):
        for start in range(0, len(continuation), stride):
            before = context + continuation[:start]
            targets = continuation[start : start + stride]
            windows.append(Window(request_index, before, targets))
    return windows


def insert_passages(
    window: Window,
    passages: list[int],
    insertion: str,
    max_length: int,
    first_token: int | None,
    limit: int | None,
) -> list[int]:
    """Insert retrieved passages into the context of a window, in tokens.

    For example, the passage [7, 8] before the text [1, 2, 3] gives [7, 8, 1, 2, 3] as in the paper
    of RALM, and [7, 8, 3] as in the authors' code.

    Args:
        window: The tokens to predict and the tokens before them.
        passages: The tokens of the retrieved passages. Without any, the context is unchanged.
        insertion: With ``paper`` the passages stand before the text, and the beginning of a text
            that does not fit is left out. With ``code`` the text and the targets are cut to
            ``max_length`` tokens, and the passages overwrite the beginning of the text even if
            there was room.
        max_length: How many tokens the model takes as input.
        first_token: The token that the tokenizer puts before every text. It stays first.
        limit: How many tokens the task lets the model see, targets included (1,024 in the paper).
            None is the model's own limit.

    Returns:
        The tokens that the model reads before the targets.
    """
    if not passages:
        return window.before
    if insertion == "code":
        room = min(max_length, limit or max_length) - len(window.targets)
        return _overwrite_beginning(window.before, passages, room)
    # The model predicts the last target without reading it, so that the text and its targets may
    # be one token longer than the input. The authors' code leaves this token unused.
    max_tokens = max_length + 1
    room = min(max_tokens, limit or max_tokens) - len(window.targets)
    return _insert_before_text(window.before, passages, room, first_token)


def _overwrite_beginning(text: list[int], passages: list[int], room: int) -> list[int]:
    """Cut a text from the left and replace its first tokens by the passages.

    For example, the text [1, 2, 3, 4] and the passages [7, 8] give [7, 8, 4] if there is room for 3
    tokens.

    Args:
        text: The tokens of the text.
        passages: The tokens of the retrieved passages.
        room: How many tokens of the text are kept, and then overwritten.

    Returns:
        As many tokens as the cut text has, with its end unchanged.
    """
    cut_text = text[-room:]
    inserted = passages[: len(cut_text)]
    return inserted + cut_text[len(inserted) :]


def _insert_before_text(
    text: list[int], passages: list[int], room: int, first_token: int | None
) -> list[int]:
    """Put passages before a text and leave out the beginning of the text that does not fit.

    For example, the text [0, 1, 2, 3] with the first token 0 and the passages [7, 8] give
    [0, 7, 8, 2, 3] if there is room for 5 tokens.

    Args:
        text: The tokens of the text.
        passages: The tokens of the retrieved passages.
        room: How many tokens there may be in all.
        first_token: The token that the tokenizer puts before every text. It stays first.

    Returns:
        The first token if the text has it, the passages and the end of the text.
    """
    has_first_token = text[:1] == [first_token]
    beginning = text[:1] if has_first_token else []
    # The targets and the first token may leave no room at all.
    room = max(0, room - len(beginning))
    inserted = passages[:room]
    num_kept = min(room - len(inserted), len(text) - len(beginning))
    return [*beginning, *inserted, *text[len(text) - num_kept :]]
