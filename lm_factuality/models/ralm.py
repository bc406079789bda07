"""In-context RALM without torch: its windows, the inserted passages, and the excluded articles.

Ram et al. (2023), section 3, with the stride and query length of FACTOR's section 4.3. The document
under evaluation is not retrieved. A passage that is recognised as a part of it bans its whole
article, because another part of it may state the answer in other words. `hf_ralm` uses all of this.
"""

from __future__ import annotations

import functools
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
# A document is searched for in pieces of so many words, to find its articles ...
_PIECE = 64
# ... among so many passages for each piece.
_NUM_CANDIDATES = 10

Run = tuple[str, ...]
Owner = tuple[str, int]
"""A row by its task and number. Its document is not retrieved for it."""

Query = tuple[str, Owner]


@dataclass(frozen=True)
class EvaluatedDocument:
    """The features by which passages of the document behind a row are recognised."""

    ids: frozenset[str] = frozenset()
    """The ids of the document in the index."""

    titles: frozenset[str] = frozenset()
    """The titles of the document, with normalised case and spaces."""

    runs: frozenset[Run] = field(default=frozenset(), repr=False)
    """All sequences of a fixed number of consecutive words in its texts."""

    pieces: tuple[str, ...] = field(default=(), repr=False)
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
        return cls(tuple(id_keys), "title" in names, overlap if "overlap" in names else 0)

    def document(
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
        for key in self.id_keys:
            if any(key not in row for row in rows):
                raise DataError(
                    f"exclude=id:{key}: a row has no key {key!r}; name the key that holds ids of"
                    " the index, or leave the rule out"
                )
        runs: set[Run] = set()
        pieces: dict[str, None] = {}
        for text in texts if self.overlap else ():
            runs |= _runs(text, self.overlap)
            pieces.update(dict.fromkeys(_pieces(text, self.overlap)))
        titles = _values(rows, _TITLE_KEYS if self.by_title else ())
        return EvaluatedDocument(
            ids=_values(rows, self.id_keys),
            titles=frozenset(map(_normalise, titles)),
            runs=frozenset(runs),
            pieces=tuple(pieces),
        )

    def reason(self, document: EvaluatedDocument, passage: Passage, is_split: bool) -> str:
        """Return the name of the rule by which a passage belongs to the document.

        Args:
            document: The features of the document.
            passage: The passage that a search returned.
            is_split: Whether the index has split texts and numbered their parts, as in ``ID#0``.

        Returns:
            "id", "title" or "overlap", or an empty string if no rule applies.
        """
        if _text_id(passage, is_split) in document.ids:
            return "id"
        if passage.title and _normalise(passage.title) in document.titles:
            return "title"
        if document.runs and not document.runs.isdisjoint(_runs(passage.text, self.overlap)):
            return "overlap"
        return ""


class RetrievedPassages(NamedTuple):
    """The passages that a search returned, and those that it left out."""

    hits: list[Hit]
    """The passages that the model reads, the best first."""

    excluded: dict[Hit, str]
    """Better passages that were left out, each with the rule that excluded it, or `ARTICLE`."""


class Search:
    """Retrieves passages for rows, but never from the article that a row was made from."""

    def __init__(
        self, index: Index, exclusion: Exclusion, documents: Mapping[Owner, EvaluatedDocument]
    ) -> None:
        """Search for the texts of the documents, to find and ban their articles beforehand."""
        self._index = index
        self._exclusion = exclusion
        self._documents = documents
        self._is_split = index.manifest.parameters.get("words") is not None
        # The articles of each row's document, each with the passage by which it was recognised.
        self.banned: dict[Owner, dict[str, int]] = {owner: {} for owner in documents}
        pieces: list[str] = []
        owners: list[Owner] = []
        for owner, document in documents.items():
            pieces += document.pieces
            owners += [owner] * len(document.pieces)
        for owner, hits in zip(owners, index.retrieve(pieces, _NUM_CANDIDATES), strict=True):
            for hit in hits:
                self._why_excluded(owner, hit)

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
        missing = list(dict.fromkeys(queries))
        while missing:
            results |= self._retrieve_once(missing, k)
            missing = [
                query
                for query, retrieved in results.items()
                if any(self._why_excluded(query[1], hit) for hit in retrieved.hits)
            ]
        return results

    def _retrieve_once(self, queries: list[Query], k: int) -> dict[Query, RetrievedPassages]:
        """Search for all queries at once, without passages of articles banned until now."""
        excluded: list[dict[Hit, str]] = [{} for _ in queries]

        def exclude(number: int, hit: Hit) -> bool:
            reason = self._why_excluded(queries[number][1], hit)
            if reason:
                excluded[number][hit] = reason
            return bool(reason)

        hits = self._index.retrieve([text for text, _ in queries], k, exclude)
        return dict(zip(queries, map(RetrievedPassages, hits, excluded), strict=True))

    def _why_excluded(self, owner: Owner, hit: Hit) -> str:
        """Return why a passage is excluded for a row, and ban its article if a rule applies.

        Args:
            owner: The row, as its task and number. Its entry in ``banned`` may be extended.
            hit: A passage that a search returned.

        Returns:
            The name of the rule, `ARTICLE` if another passage got the article banned, or an empty
            string if the passage is permitted.
        """
        articles = self._articles(hit)
        banned = self.banned[owner]
        reason = self._exclusion.reason(self._documents[owner], hit.passage, self._is_split)
        if reason:
            self.banned[owner] = dict.fromkeys(articles, hit.number) | banned
            return reason
        return "" if banned.keys().isdisjoint(articles) else ARTICLE

    def _articles(self, hit: Hit) -> list[str]:
        """Return the keys of the article that a passage belongs to.

        Passages of one article have the same title or the same id before the ``#``.

        Returns:
            Keys such as "title ada lovelace" or "id 12", or "passage 7" if there are none.
        """
        articles = []
        title = _normalise(hit.passage.title)
        if title:
            articles.append(f"title {title}")
        if self._is_split:
            articles.append(f"id {_text_id(hit.passage, self._is_split)}")
        return articles or [f"passage {hit.number}"]


def _text_id(passage: Passage, is_split: bool) -> str:
    """Return the id of the text that a passage was split from: ``12#3`` becomes ``12``."""
    return _PART.sub("", passage.id) if is_split else passage.id


def _values(rows: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> frozenset[str]:
    """Return the distinct values of the keys in all rows as text, without empty ones."""
    values = [row.get(key) for key in keys for row in rows]
    return frozenset(str(value) for value in values if value not in (None, ""))


def _normalise(title: str) -> str:
    """Return the title in lower case with single spaces: " Ada  Lovelace" → "ada lovelace"."""
    return " ".join(title.split()).casefold()


@functools.lru_cache(maxsize=4096)
def _runs(text: str, length: int) -> frozenset[Run]:
    """Return all sequences of ``length`` consecutive words, in lower case.

    For example, "A big red dog" has the runs ("a", "big", "red") and ("big", "red", "dog") of
    length 3.
    """
    words = _WORD.findall(text.casefold())
    starts = range(len(words) - length + 1)
    return frozenset(tuple(words[start : start + length]) for start in starts)


def _pieces(text: str, overlap: int) -> list[str]:
    """Split a text into overlapping pieces to search for.

    Args:
        text: The text of a document.
        overlap: Every sequence of so many words lies completely in at least one piece.

    Returns:
        The pieces, each of 64 words or twice the overlap if that is more. The last may be shorter.
    """
    words = text.split()
    size = max(_PIECE, 2 * overlap)
    num_runs = max(1, len(words) - overlap + 1)
    starts = range(0, num_runs, size - overlap + 1)
    return [" ".join(words[start : start + size]) for start in starts]


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
    for number, (_, context, continuation) in enumerate(requests):
        for start in range(0, len(continuation), stride):
            before = context + continuation[:start]
            windows.append(Window(number, before, continuation[start : start + stride]))
    return windows


def augment(
    window: Window,
    document: Sequence[int],
    insertion: str,
    max_length: int,
    first_token: int | None,
    limit: int | None = None,
) -> list[int]:
    """Insert retrieved passages into the context of a window, in tokens.

    Args:
        window: The tokens to predict and the tokens before them.
        document: The tokens of the retrieved passages. Without any, the context is unchanged.
        insertion: With ``paper`` the document stands before the text, and the beginning of a text
            that does not fit is left out. With ``code`` the text is cut to ``max_length`` tokens
            with its targets, and the document overwrites its beginning even if there was room.
        max_length: How many tokens the model takes as input.
        first_token: The token that the tokenizer puts before every text. It stays first.
        limit: How many tokens the task lets the model see, targets included (1,024 in the paper).
            None is the model's own limit.

    Returns:
        The tokens that the model reads before the targets.
    """
    if not document:
        return window.before
    if insertion == "code":
        room = min(max_length, limit or max_length) - len(window.targets)
        context = window.before[-room:]
        inserted = list(document)[: len(context)]
        return inserted + context[len(inserted) :]

    num_first = int(window.before[:1] == [first_token])
    text = window.before[num_first:]
    # The model predicts the last target but does not read it, so one more token fits.
    room = min(max_length + 1, limit or max_length + 1) - len(window.targets) - num_first
    passages = list(document)[: max(0, room)]
    num_left_out = max(0, len(text) - (room - len(passages)))
    return [*window.before[:num_first], *passages, *text[num_left_out:]]
