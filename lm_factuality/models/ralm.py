"""In-context RALM without torch: its windows, what the model is shown, and the evaluated document,
which is not retrieved.

Ram et al. (2023), section 3, with the stride and query length of FACTOR's section 4.3. A passage
that is recognised as a part of the evaluated document bans its whole article, since another part of
it may state the answer in other words. The document's own text is searched for before anything is
retrieved, so that a ban does not hang on what a window happens to find."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.retrieval.index import Hit, Index
from lm_factuality.retrieval.passages import Passage

RULES = ("title", "overlap")
ARTICLE = "article"  # the reason for a passage that is excluded for another one of its article

_TITLES = ("title", "doc_title", "document_title", "page")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"#\d+$")  # how an index numbers the parts of a passage that it has split
_PIECE = 64  # words of a document that are searched for at a time, to find its articles ...
_LOOKED_AT = 10  # ... among so many passages

Run = tuple[str, ...]
Owner = tuple[str, int]  # a row, whose document is not retrieved for it: its task and its number
Found = tuple[list[Hit], dict[Hit, str]]
"""What a query has found, and what was excluded of those that rank higher, with the reason: a rule,
or ``ARTICLE``."""


@dataclass(frozen=True)
class EvaluatedDocument:
    """What is known of the document of some requests: ``runs`` of words in its texts, ``pieces`` of
    them to search for."""

    ids: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    runs: frozenset[Run] = field(default=frozenset(), repr=False)
    pieces: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Exclusion:
    """Which passages count as the evaluated document: those whose id is in one of the row's
    ``id_keys``, with its title, or with ``overlap`` words in a row of it. Ids count only where such
    a key is given: numbers seldom count the same things."""

    id_keys: tuple[str, ...] = ()
    by_title: bool = True
    overlap: int = 13

    @classmethod
    def parse(cls, rules: str, overlap: int) -> Exclusion:
        """From rules joined by ``+``, such as ``id:page+title+overlap``, or ``none``. Raises
        ConfigError: an unknown rule."""
        names = [] if rules == "none" else rules.split("+")
        ids = [name for name in names if re.fullmatch("id:.+", name)]
        if unknown := [name for name in names if name not in (*ids, *RULES)]:
            raise ConfigError(
                f"exclude: unknown rule {unknown[0]!r}; expected none, or any of {', '.join(RULES)}"
                " and id:KEY joined by +, where KEY is the key of the task's rows that holds ids"
                " of this very index"
            )
        return cls(
            tuple(rule.removeprefix("id:") for rule in ids),
            "title" in names,
            overlap if "overlap" in names else 0,
        )

    def document(
        self, rows: Iterable[Mapping[str, Any]], texts: Iterable[str]
    ) -> EvaluatedDocument:
        """From the rows that a benchmark made of it, and the texts asked about. Raises DataError: a
        row lacks an id key."""
        rows, texts = list(rows), list(texts)
        for key, row in ((key, row) for key in self.id_keys for row in rows if key not in row):
            raise DataError(
                f"exclude=id:{key}: a row has no key {key!r}; found {', '.join(map(str, row))};"
                " name the key that holds ids of the index, or leave the rule out"
            )
        return EvaluatedDocument(
            _values(rows, self.id_keys),
            frozenset(map(_normal, _values(rows, _TITLES))) if self.by_title else frozenset(),
            (
                frozenset().union(*(_runs(text, self.overlap) for text in texts))
                if self.overlap
                else frozenset()
            ),
            (
                tuple(
                    dict.fromkeys(piece for text in texts for piece in _pieces(text, self.overlap))
                )
                if self.overlap
                else ()
            ),
        )

    def reason(self, document: EvaluatedDocument, passage: Passage, is_split: bool) -> str:
        """The rule by which a passage is a part of the document, or empty; ``is_split``: the index
        has cut and numbered texts."""
        if document.ids and _source(passage, is_split) in document.ids:
            return "id"
        if document.titles and _normal(passage.title) in document.titles:
            return "title"
        if document.runs and not document.runs.isdisjoint(_runs(passage.text, self.overlap)):
            return "overlap"
        return ""


class Search:
    """Retrieves for rows without the articles of their ``documents``; ``banned`` has these and the
    passage that told of each."""

    def __init__(
        self, index: Index, exclusion: Exclusion, documents: Mapping[Owner, EvaluatedDocument]
    ) -> None:
        self._index, self._exclusion, self._documents = index, exclusion, documents
        self._is_split = index.manifest.parameters.get("words") is not None
        self.banned: dict[Owner, dict[str, int]] = {owner: {} for owner in documents}
        pieces = [
            (piece, owner) for owner, document in documents.items() for piece in document.pieces
        ]
        for (_, owner), hits in zip(
            pieces, index.retrieve([piece for piece, _ in pieces], _LOOKED_AT), strict=True
        ):
            for hit in hits:
                self._reason(owner, hit)

    def retrieve(
        self, queries: Iterable[tuple[str, Owner]], k: int
    ) -> dict[tuple[str, Owner], Found]:
        """The ``k`` best passages for each query of a row. One may be recognised late; others then
        replace its article's."""
        found: dict[tuple[str, Owner], Found] = {}
        missing = list(dict.fromkeys(queries))
        while missing:
            excluded: list[dict[Hit, str]] = [{} for _ in missing]

            def excludes(
                at: int, hit: Hit, asked: Any = missing, kept: list[dict[Hit, str]] = excluded
            ) -> bool:
                if reason := self._reason(asked[at][1], hit):
                    kept[at][hit] = reason
                return bool(reason)

            hits = self._index.retrieve([query for query, _ in missing], k, excludes)
            found.update(zip(missing, zip(hits, excluded, strict=True), strict=True))
            missing = [
                query
                for query, (hits, _) in found.items()
                if any(self._reason(query[1], hit) for hit in hits)
            ]
        return found

    def _reason(self, owner: Owner, hit: Hit) -> str:
        articles = _articles(hit, self._is_split)
        if reason := self._exclusion.reason(self._documents[owner], hit.passage, self._is_split):
            self.banned[owner] = dict.fromkeys(articles, hit.number) | self.banned[owner]
            return reason
        return "" if self.banned[owner].keys().isdisjoint(articles) else ARTICLE


def _articles(hit: Hit, is_split: bool) -> list[str]:
    """What a passage shares with others of its article: title, and id of a text that was split; or
    itself alone."""
    title = _normal(hit.passage.title)
    names = [
        *([f"title {title}"] if title else []),
        *([f"id {_source(hit.passage, is_split)}"] if is_split else []),
    ]
    return names or [f"passage {hit.number}"]


def _source(passage: Passage, is_split: bool) -> str:
    return _PART.sub("", passage.id) if is_split else passage.id


def _values(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> frozenset[str]:
    return frozenset(
        str(row[key]) for row in rows for key in keys if row.get(key) not in (None, "")
    )


def _normal(title: str) -> str:
    return " ".join(title.split()).casefold()


@functools.lru_cache(maxsize=4096)
def _runs(text: str, length: int) -> frozenset[Run]:
    words = _WORD.findall(text.casefold())
    return frozenset(
        tuple(words[start : start + length]) for start in range(len(words) - length + 1)
    )


def _pieces(text: str, overlap: int) -> list[str]:
    """Stretches of the text, of which each run of ``overlap`` words stands whole in one."""
    words, size = text.split(), max(_PIECE, 2 * overlap)
    step = size - overlap + 1
    return [
        " ".join(words[start : start + size])
        for start in range(0, max(1, len(words) - overlap + 1), step)
    ]


@dataclass(frozen=True)
class Window:
    """Up to a stride of ``targets`` (token ids) after all tokens ``before`` them; ``request`` is
    the number of its request."""

    request: int
    before: list[int]
    targets: list[int]


def windows(requests: Sequence[tuple[list[int], list[int]]], stride: int) -> list[Window]:
    """The continuation of each (context, continuation) in windows of ``stride`` tokens, the last
    one of what is left."""
    return [
        Window(number, context + continuation[:start], continuation[start : start + stride])
        for number, (context, continuation) in enumerate(requests)
        for start in range(0, len(continuation), stride)
    ]


def augment(
    window: Window,
    document: Sequence[int],
    insertion: str,
    max_length: int,
    first_token: int | None,
    limit: int | None = None,
) -> tuple[list[int], list[int]]:
    """(context, targets) in tokens, with the document's tokens in it; ``max_length`` is what the
    model takes as input, ``limit`` what the task lets it see of everything, targets included (the
    paper's cap of 1,024), None for no such cap. ``paper``: the document stands before the text; of
    a text that does not fit beside it the beginning is left out. A first token that the tokenizer
    sets before every text stays first. ``code``: the text is cut to ``max_length`` tokens, targets
    included, and the document overwrites its beginning, which the model thus never sees, though
    there may have been room."""
    if not document:
        return window.before, window.targets
    targets = window.targets
    if insertion == "code":
        context = window.before[-(min(max_length, limit or max_length) - len(targets)) :]
        written = list(document)[: len(context)]
        return written + context[len(written) :], targets
    head, text = window.before[:0], window.before
    if first_token is not None and text[:1] == [first_token]:
        head, text = text[:1], text[1:]
    room = min(max_length + 1, limit or max_length + 1) - len(targets) - len(head)
    shown = list(document)[: max(0, room)]
    kept = text[max(0, len(text) - (room - len(shown))) :]
    return [*head, *shown, *kept], targets
