"""In-context RALM without torch: its windows, what the model is shown, and what is never retrieved.

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
    """What is known of the document that some requests were made from."""

    ids: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    runs: frozenset[Run] = field(default=frozenset(), repr=False)
    """Words that follow each other in one of its texts."""

    pieces: tuple[str, ...] = field(default=(), repr=False)
    """Pieces of its texts to search for."""


@dataclass(frozen=True)
class Exclusion:
    """The rules by which a passage counts as part of the evaluated document."""

    id_keys: tuple[str, ...] = ()
    """Keys of rows whose values are ids of this index. Numbers seldom count the same things, so
    ids are only compared if such a key is named."""

    by_title: bool = True
    overlap: int = 13
    """How many words in a row a passage may not share with the document. 0 turns the rule off."""

    @classmethod
    def parse(cls, rules: str, overlap: int) -> Exclusion:
        """Read rules that fit `RULES`, such as ``id:page+title+overlap``."""
        names = rules.split("+")
        id_keys = [name.removeprefix("id:") for name in names if name.startswith("id:")]
        return cls(tuple(id_keys), "title" in names, overlap if "overlap" in names else 0)

    def document(
        self, rows: Sequence[Mapping[str, Any]], texts: Iterable[str]
    ) -> EvaluatedDocument:
        """Collect what is known of a document.

        Args:
            rows: The rows that a benchmark made of it.
            texts: Its texts, as far as requests hold them.

        Raises:
            DataError: A row lacks an id key.
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
        """Return the rule by which a passage is part of the document, or nothing.

        Args:
            is_split: Whether the index has split texts and numbered their parts.
        """
        if _text_id(passage, is_split) in document.ids:
            return "id"
        if passage.title and _normalise(passage.title) in document.titles:
            return "title"
        if document.runs and not document.runs.isdisjoint(_runs(passage.text, self.overlap)):
            return "overlap"
        return ""


class RetrievedPassages(NamedTuple):
    """What a query has found."""

    hits: list[Hit]
    excluded: dict[Hit, str]
    """Higher ranking passages that were left out, each with the rule, or `ARTICLE`."""


class Search:
    """Retrieves passages for rows without the articles of their documents."""

    def __init__(
        self, index: Index, exclusion: Exclusion, documents: Mapping[Owner, EvaluatedDocument]
    ) -> None:
        """Search for the documents' own texts, to know their articles before any query."""
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
        """Return the ``k`` best passages for each query.

        An article may be recognised late, by a passage that another query has found. Its earlier
        passages are then replaced.
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
        excluded: list[dict[Hit, str]] = [{} for _ in queries]

        def exclude(number: int, hit: Hit) -> bool:
            reason = self._why_excluded(queries[number][1], hit)
            if reason:
                excluded[number][hit] = reason
            return bool(reason)

        hits = self._index.retrieve([text for text, _ in queries], k, exclude)
        return dict(zip(queries, map(RetrievedPassages, hits, excluded), strict=True))

    def _why_excluded(self, owner: Owner, hit: Hit) -> str:
        """Return the reason why a passage is excluded for a row, and ban its article."""
        articles = self._articles(hit)
        banned = self.banned[owner]
        reason = self._exclusion.reason(self._documents[owner], hit.passage, self._is_split)
        if reason:
            self.banned[owner] = dict.fromkeys(articles, hit.number) | banned
            return reason
        return "" if banned.keys().isdisjoint(articles) else ARTICLE

    def _articles(self, hit: Hit) -> list[str]:
        """Return what a passage shares with others of its article, or else only itself."""
        articles = []
        title = _normalise(hit.passage.title)
        if title:
            articles.append(f"title {title}")
        if self._is_split:
            articles.append(f"id {_text_id(hit.passage, self._is_split)}")
        return articles or [f"passage {hit.number}"]


def _text_id(passage: Passage, is_split: bool) -> str:
    return _PART.sub("", passage.id) if is_split else passage.id


def _values(rows: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> frozenset[str]:
    values = [row.get(key) for key in keys for row in rows]
    return frozenset(str(value) for value in values if value not in (None, ""))


def _normalise(title: str) -> str:
    return " ".join(title.split()).casefold()


@functools.lru_cache(maxsize=4096)
def _runs(text: str, length: int) -> frozenset[Run]:
    """Return all runs of ``length`` words."""
    words = _WORD.findall(text.casefold())
    starts = range(len(words) - length + 1)
    return frozenset(tuple(words[start : start + length]) for start in starts)


def _pieces(text: str, overlap: int) -> list[str]:
    """Cut a text such that each run of ``overlap`` words is in one piece as a whole."""
    words = text.split()
    size = max(_PIECE, 2 * overlap)
    num_runs = max(1, len(words) - overlap + 1)
    starts = range(0, num_runs, size - overlap + 1)
    return [" ".join(words[start : start + size]) for start in starts]


@dataclass(frozen=True)
class Window:
    """Up to a stride of tokens that are predicted from one retrieval."""

    request: int
    """The number of its request."""

    before: list[int]
    """All tokens of the request before the targets."""

    targets: list[int]


def cut_windows(requests: Sequence[tuple[Any, list[int], list[int]]], stride: int) -> list[Window]:
    """Cut the continuation of each (key, context, continuation) into windows of ``stride`` tokens.

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
    """Return the context of a window's targets with retrieved text in it, in tokens.

    Args:
        document: The tokens of what was retrieved.
        insertion: With ``paper`` the document stands before the text, and the beginning of a text
            that does not fit is left out. With ``code`` the text is cut to ``max_length`` tokens
            with its targets, and the document overwrites its beginning even if there was room.
        max_length: How many tokens the model takes as input.
        first_token: The token that the tokenizer puts before every text. It stays first.
        limit: How many tokens the task lets the model see, targets included (1,024 in the paper).
    """
    if not document:
        return window.before
    if insertion == "code":
        room = min(max_length, limit or max_length) - len(window.targets)
        context = window.before[-room:]
        written = list(document)[: len(context)]
        return written + context[len(written) :]
    num_first = int(window.before[:1] == [first_token])
    text = window.before[num_first:]
    # The last target is no input of the model.
    room = min(max_length + 1, limit or max_length + 1) - len(window.targets) - num_first
    passages = list(document)[: max(0, room)]
    num_left_out = max(0, len(text) - (room - len(passages)))
    return [*window.before[:num_first], *passages, *text[num_left_out:]]
