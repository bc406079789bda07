"""What an operator sees: the completion, analysed, and the names of the text before it."""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from factor_gen.generate.rules.contexts import Contexts
from factor_gen.generate.rules.words import DATA, WORDS, frequency
from factor_gen.text import Entity, Tagger, Token
from factor_gen.text.analysis import FINITE, NAME, NAMES, NATIONALITY, ORGANISATION, PERSON, PLACE
from factor_gen.text.lists import entries
from factor_gen.text.names import related

Value = TypeVar("Value", int, str)
Name = TypeVar("Name", "Mention", Entity)
NEAR = 20_000
"""Characters before the completion in which names are looked for: the work is linear in them."""
AGENCIES = entries(DATA / "agencies.txt")

_MORE_VALUES = 2
_CHUNK = re.compile(r"\S+")
_QUOTED = re.compile(
    r"“[^”]{1,400}”|\"[^\"]{1,400}\"|‘[^’]{1,80}’(?!\w)|(?<!\w)'[A-Z][^']{1,80}'(?!\w)"
)
_CODE = re.compile(
    r"\w_|_\w|\w\(|::|--\w|[^\W\d]\.\w\w|[a-z][A-Z]|\w=|=\w|[\w.]/\w|[%$@\\][^\W\d]|\w#|^-\w"
)  # an identifier
_DATELINE = re.compile(
    r"(?:[A-Z][^()]{0,80}\(Reuters\)\s?[-–—]+\s?|[A-Z]{3,}[^()]{0,40}\s[-–—]{1,2}\s)?"
)
_LONGEST_TITLE, _LONGEST_TERM = 8, 5  # words
_TICKER = re.compile(r"\([^()]*[.=):]")  # the code of a share: (TSLA.O)


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in the text before the completion."""

    text: str
    kind: str
    article: bool
    """Whether it has ``the`` before it there."""
    start: int


@dataclass(frozen=True, eq=False)
class Sentence:
    """The completion, and the names of the text before it. Only itself is equal to it."""

    text: str
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]
    mentions: tuple[Mention, ...]
    """The names before the completion, in order."""
    contexts: Contexts = field(default_factory=Contexts)
    every: bool = False
    """Whether every chance is taken, whatever gives true sentences away."""
    spare: bool = False
    """Whether, besides, a number or date has more values, where nothing else is left."""

    @cached_property
    def small(self) -> tuple[str, ...]:
        """The tokens in lower case."""
        return tuple(token.text.lower() for token in self.tokens)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The tags of the tokens."""
        return tuple(token.tag for token in self.tokens)

    @cached_property
    def words(self) -> frozenset[str]:
        """The different tokens in lower case."""
        return frozenset(self.small)

    @cached_property
    def starts(self) -> Mapping[int, int]:
        """Which token starts at a character."""
        return {token.start: i for i, token in enumerate(self.tokens)}

    @cached_property
    def ends(self) -> Mapping[int, int]:
        """Which token ends at a character."""
        return {token.end: i for i, token in enumerate(self.tokens)}

    @cached_property
    def quotes(self) -> tuple[tuple[int, int], ...]:
        """Where quotations stand."""
        return tuple(match.span() for match in _QUOTED.finditer(self.text))

    @cached_property
    def dateline(self) -> int:
        """Where the line of place and date ends that an agency's report starts with."""
        dateline = _DATELINE.match(self.text)
        return dateline.end() if dateline else 0

    @cached_property
    def titles(self) -> tuple[tuple[int, int], ...]:
        """Where titles of works stand, and quoted terms and messages of programs."""
        titles = []
        for start, end in self.quotes:
            words = self.text[start + 1 : end - 1].split()
            capitals = sum(word[0].isupper() for word in words)
            is_title = len(words) <= _LONGEST_TITLE and capitals * 2 > len(words)
            is_term = 0 < len(words) <= _LONGEST_TERM and words[0][0].islower()
            if is_title or is_term:
                titles.append((start, end))
        return tuple(titles)

    @cached_property
    def _is_protected(self) -> bytes:
        """One for each character of what stays as it is: names, titles, identifiers, dateline."""
        kinds = (*NAMES, NATIONALITY)
        names = [(name.start, name.end) for name in self.entities if name.kind in kinds]
        chunks = _CHUNK.finditer(self.text)
        codes = [chunk.span() for chunk in chunks if _CODE.search(chunk.group())]
        protected = bytearray(len(self.text))
        for start, end in (*names, *self.titles, *codes, (0, self.dateline)):
            protected[start:end] = b"\1" * (end - start)
        return bytes(protected)

    def in_title(self, start: int, end: int) -> bool:
        """Whether some characters are in the title of a work, or in the dateline."""
        titles = ((0, self.dateline), *self.titles)
        return any(first < end and start < last for first, last in titles)

    def is_free(self, start: int, end: int) -> bool:
        """Whether some characters may be edited."""
        return not any(self._is_protected[start:end])

    def may_change(self, i: int, end: int, *marks: str) -> bool:
        """Whether the tokens may be edited: words with single spaces between them.

        Args:
            marks: Characters that may stand neither right before the tokens nor right behind.
        """
        start, stop = self.span(i, end)
        words = [word for word in self.small[i:end] if word != ","]
        neighbours = self.text[max(0, start - 1) : start] + self.text[stop : stop + 1]
        return (
            self.is_free(start, stop)
            and not any(mark in neighbours for mark in marks)
            and self.text[start:stop].lower().replace(",", "").split() == words
        )

    @cached_property
    def is_past(self) -> bool:
        """Whether it tells what was."""
        return "VBD" in self.tags

    def is_qualified(self, i: int) -> bool:
        """Whether the denial of the verb at a token would not deny the sentence, or read badly.

        The verb is of a relative or another dependent clause (*the file that is read*, *said that
        it is*), or has a subject that counts or picks out (*all files*).
        """
        before = list(self.clause(i - 1, -1))
        for at in before:
            if self.tag(at) in FINITE:
                break
            if at > 0 and self.small[at] in WORDS["relative"]:
                return True
            # the file you opened
            if self.tag(at) in ("PRP", "DT") and self.tag(at - 1) in ("NN", "NNS"):
                is_time = (
                    self.tag(before[-1]) == "IN" or self.word(at - 1) in WORDS["spans of time"]
                )
                if self.tag(at) == "PRP" or not is_time:
                    return True
        return any(self.small[at] in WORDS["picking out"] for at in before)

    def takes(self, i: int, end: int, new: str, in_slot: bool = False) -> bool:
        """Whether the corpus allows ``new`` for the tokens; ``in_slot`` as of `Contexts.fit`."""
        return self.contexts.fit(self.text, *self.span(i, end), new, in_slot)

    def drawn(self, rng: random.Random, old: str, others: Iterable[str]) -> list[str]:
        """Those of the ``others`` that ``old`` is changed to this time, in a random order.

        Were every chance taken, a word much commoner than its counterpart would tell the true
        sentence by itself. Each way is therefore taken as often as the other, unless there is
        little else to change.
        """
        drawn = []
        for other in others:
            if rng.random() < frequency(other) / frequency(old) or self.every:
                drawn.append(other)
        rng.shuffle(drawn)
        return drawn

    @property
    def more_values(self) -> int:
        """How many values a number or date has beyond those that it always has."""
        return _MORE_VALUES if self.spare else 0

    def some(self, rng: random.Random, values: Sequence[Value], least: int = 1) -> list[Value]:
        """``least`` of the values in a random order, and `more_values`."""
        return rng.sample(values, min(least + self.more_values, len(values)))

    def tag(self, i: int) -> str:
        """The tag of a token; empty where there is none."""
        return self.tags[i] if 0 <= i < len(self.tags) else ""

    def word(self, i: int) -> str:
        """The token in lower case; empty where there is none."""
        return self.small[i] if 0 <= i < len(self.small) else ""

    def is_capital(self, i: int) -> bool:
        """Whether there is such a token and it begins with a capital letter."""
        return 0 <= i < len(self.tokens) and self.tokens[i].text[0].isupper()

    def kind_at(self, i: int) -> str:
        """The kind of the entity that starts with a token; empty where none does."""
        return self._kinds.get(i, "")

    @cached_property
    def _kinds(self) -> Mapping[int, str]:
        return {self.starts.get(entity.start, -1): entity.kind for entity in self.entities}

    def span(self, i: int, end: int) -> tuple[int, int]:
        """The characters of the tokens from ``i`` up to ``end``."""
        return self.tokens[i].start, self.tokens[end - 1].end

    def clause(self, i: int, step: int = 1) -> Iterator[int]:
        """The tokens from ``i`` on up to the mark that ends the clause; back with ``step`` -1."""
        while 0 <= i < len(self.tokens) and self.small[i] not in (",", ".", ";", ":"):
            yield i
            i += step

    def occurrences(self, name: str) -> list[tuple[int, int]]:
        """Where the name stands as whole words."""
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
        return [match.span() for match in re.finditer(pattern, self.text)]

    def knows(self, name: str) -> bool:
        """Whether the sentence names the same: a part of the name, or another name for it."""
        capitals = {word for word in name.split() if word[0].isupper()}
        if not capitals.isdisjoint(token.text for token in self.tokens):
            return True
        return any(related(name, entity.text) for entity in self.entities)


def read(
    tagger: Tagger, prefix: str, completion: str, contexts: Contexts | None = None
) -> Sentence:
    """Analyse a completion and name what stands before it.

    Args:
        contexts: Those of the corpus. Without them, every substitute passes.
    """
    analysis = tagger.analyse(completion)
    near = prefix[-NEAR:]
    mentions = []
    for name in tagger.names(near):
        is_ticker = _TICKER.fullmatch(near[max(0, name.start - 1) : name.end + 1])
        if name.kind not in NAMES or "\n" in name.text or name.text in AGENCIES or is_ticker:
            continue
        has_article = near[max(0, name.start - 4) : name.start].lower() == "the "
        mentions.append(Mention(name.text, name.kind, has_article, name.start))
    kinds = _kinds_of_names([*mentions, *analysis.entities])
    return Sentence(
        analysis.text,
        analysis.tokens,
        tuple(_resolved(entity, kinds) for entity in analysis.entities),
        tuple(_resolved(mention, kinds) for mention in mentions),
        contexts or Contexts(),
    )


def _kinds_of_names(names: Iterable[Mention | Entity]) -> Mapping[str, str]:
    """The kind that each name, or the person of that surname, has where it can be told."""
    kinds: dict[str, str] = {}
    for name in names:
        if name.kind == PERSON and " " in name.text:
            kinds.setdefault(name.text.split()[-1], PERSON)
        if name.kind in (PERSON, PLACE, ORGANISATION):
            kinds.setdefault(name.text, name.kind)
    return kinds


def _resolved(name: Name, kinds: Mapping[str, str]) -> Name:
    """A name with its kind elsewhere, if it has none by itself."""
    return replace(name, kind=kinds.get(name.text, NAME)) if name.kind == NAME else name
