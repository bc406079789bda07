"""What an operator sees: the completion, analysed, and the names of the text before it."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from factor_gen.generate.rules.contexts import Contexts
from factor_gen.generate.rules.words import WORDS, frequency
from factor_gen.text import Analysis, Entity, Tagger, Token
from factor_gen.text.analysis import FINITE, NAME, NAMES, NATIONALITY, ORGANISATION, PERSON, PLACE
from factor_gen.text.names import related

Value = TypeVar("Value", int, str)
# characters before the completion in which names are looked for: what the work is linear in
NEAR = 20_000
AGENCIES = frozenset(
    [
        "Reuters",
        "Associated Press",
        "AP",
        "AFP",
        "CNBC",
        "CNN",
        "BBC",
        "Bloomberg",
        "RIA",
        "Xinhua",
        "TASS",
        "Interfax",
    ]
)
_CHUNK = re.compile(r"\S+")
_QUOTED = re.compile(
    r"“[^”]{1,400}”|\"[^\"]{1,400}\"|‘[^’]{1,80}’(?!\w)|(?<!\w)'[A-Z][^']{1,80}'(?!\w)"
)
_CODE = re.compile(
    r"\w_|_\w|\w\(|::|--\w|[^\W\d]\.\w\w|[a-z][A-Z]|\w=|=\w|[\w.]/\w|[%$@\\][^\W\d]|\w#|^-\w"
)  # an identifier
_DATELINE = re.compile(
    r"[A-Z][^()]{0,80}\(Reuters\)\s?[-–—]+\s?|[A-Z]{3,}[^()]{0,40}\s[-–—]{1,2}\s"
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in the text before the completion; ``article``: it has ``the`` before it there."""

    text: str
    kind: str
    article: bool
    start: int


@dataclass(frozen=True, eq=False)
class Sentence:
    """The completion with its tokens and entities, and ``mentions``, the names before it in order.
    Only itself is equal to it."""

    text: str
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]
    mentions: tuple[Mention, ...]
    contexts: Contexts = field(default_factory=Contexts)
    every: bool = False  # whether every chance is taken, whatever gives true sentences away
    spare: bool = (
        False  # whether, besides, a number or date has more values, where nothing else is left
    )

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
        return frozenset(self.small)

    @cached_property
    def starts(self) -> dict[int, int]:
        """Which token starts at a character."""
        return {token.start: i for i, token in enumerate(self.tokens)}

    @cached_property
    def ends(self) -> dict[int, int]:
        """Which token ends at a character."""
        return {token.end: i for i, token in enumerate(self.tokens)}

    @cached_property
    def quotes(self) -> tuple[tuple[int, int], ...]:
        return tuple(match.span() for match in _QUOTED.finditer(self.text))

    @cached_property
    def shielded(self) -> bytes:
        """One for each character in which words stay as they are: names, titles in quotation marks,
        identifiers of programs, the line of place and date that an agency's report starts with."""
        shield = bytearray(len(self.text))
        names = [
            (each.start, each.end)
            for each in self.entities
            if each.kind in NAMES or each.kind == NATIONALITY
        ]
        codes = [word.span() for word in _CHUNK.finditer(self.text) if _CODE.search(word.group())]
        for start, end in (*names, *self.titles, *codes, (0, self.dateline)):
            shield[start:end] = b"\1" * (end - start)
        return bytes(shield)

    @cached_property
    def dateline(self) -> int:
        """Where the dateline ends: the place and date that an agency's report starts with."""
        found = _DATELINE.match(self.text)
        return found.end() if found else 0

    @cached_property
    def titles(self) -> tuple[tuple[int, int], ...]:
        """Short quotations in capitals, which name a work, and others that begin no sentence:
        terms, messages of programs."""
        found = []
        for start, end in self.quotes:
            words = self.text[start + 1 : end - 1].split()
            is_title = sum(word[:1].isupper() for word in words) * 2 > len(words)
            if (len(words) <= 8 and is_title) or (0 < len(words) <= 5 and words[0][:1].islower()):
                found.append((start, end))
        return tuple(found)

    def in_title(self, start: int, end: int) -> bool:
        """Whether the place is in the title of a work, or in the dateline."""
        return start < self.dateline or any(a < end and start < b for a, b in self.titles)

    def is_free(self, start: int, end: int) -> bool:
        """Whether words there may be edited."""
        return not any(self.shielded[start:end])

    @cached_property
    def is_past(self) -> bool:
        """Whether it tells what was."""
        return any(token.tag == "VBD" for token in self.tokens)

    def is_qualified(self, i: int) -> bool:
        """Whether the verb at ``i`` is of a relative or another dependent clause (*the file that is
        read*, *said that it is*), or has a subject that counts or picks out (*all files*): its
        denial would not be that of the sentence, or read badly."""
        before = [*self.clause(i - 1, -1)]
        for at in before:
            if self.tag(at) in FINITE:
                break
            is_bare = self.tag(at) in ("PRP", "DT") and self.tag(at - 1) in (
                "NN",
                "NNS",
            )  # the file you opened
            is_bare &= self.tag(at) == "PRP" or (
                self.tag(before[-1]) != "IN" and self.word(at - 1) not in WORDS["spans of time"]
            )
            if at > 0 and (self.small[at] in WORDS["relative"] or is_bare):
                return True
        return any(self.small[at] in WORDS["picking out"] for at in before)

    def takes(self, i: int, end: int, new: str, in_slot: bool = False) -> bool:
        """Whether the corpus allows ``new`` for the tokens from ``i`` up to ``end``; ``in_slot`` as
        of :meth:`Contexts.fit`."""
        return self.contexts.fit(self.text, *self.span(i, end), new, in_slot)

    def drawn(self, rng: random.Random, old: str, others: Iterable[str]) -> list[str]:
        """Those of the ``others`` that ``old`` is changed to this time, in a random order.

        Were every chance taken, a word much commoner than its counterpart would tell the true
        sentence by itself. Each way is therefore taken as often as the other, unless there is
        little else to change."""
        found = [
            each for each in others if rng.random() < frequency(each) / frequency(old) or self.every
        ]
        rng.shuffle(found)
        return found

    @property
    def more_values(self) -> int:
        """How many values a number or date has beyond those that it always has."""
        return 2 if self.spare else 0

    def some(self, rng: random.Random, values: Sequence[Value], least: int = 1) -> list[Value]:
        """``least`` of ``values`` in a random order, and :attr:`more_values`."""
        return rng.sample(values, min(least + self.more_values, len(values)))

    def tag(self, i: int) -> str:
        return self.tokens[i].tag if 0 <= i < len(self.tokens) else ""

    def word(self, i: int) -> str:
        """The token in lower case; empty where there is none."""
        return self.small[i] if 0 <= i < len(self.small) else ""

    def is_capital(self, i: int) -> bool:
        """Whether there is such a token and it begins with a capital letter."""
        return 0 <= i < len(self.tokens) and self.tokens[i].text[:1].isupper()

    def kind_at(self, i: int) -> str:
        """The kind of the entity that starts with token ``i``; empty where none does."""
        return self._kinds.get(self.tokens[i].start, "") if 0 <= i < len(self.tokens) else ""

    def span(self, i: int, end: int) -> tuple[int, int]:
        """The characters of the tokens from ``i`` up to ``end``."""
        return self.tokens[i].start, self.tokens[end - 1].end

    def is_joined(self, i: int, end: int, *marks: str) -> bool:
        """Whether one of ``marks`` stands right before or behind the tokens."""
        start, stop = self.span(i, end)
        return self.text[start - 1 : start] in marks or self.text[stop : stop + 1] in marks

    def may_change(self, i: int, end: int, *marks: str) -> bool:
        """Whether the tokens may be edited: words with single spaces between them, without one of
        ``marks`` right before or behind them."""
        start, stop = self.span(i, end)
        words = [word for word in self.small[i:end] if word != ","]
        return (
            self.is_free(start, stop)
            and not self.is_joined(i, end, *marks)
            and self.text[start:stop].lower().replace(",", "").split() == words
        )

    def clause(self, i: int, step: int = 1) -> Iterator[int]:
        """The tokens from ``i`` on, or with ``step`` -1 back from it, up to the mark that ends the
        clause."""
        while 0 <= i < len(self.tokens) and self.small[i] not in (",", ".", ";", ":"):
            yield i
            i += step

    @cached_property
    def _kinds(self) -> dict[int, str]:
        return {entity.start: entity.kind for entity in self.entities}

    def occurrences(self, name: str) -> Iterator[tuple[int, int]]:
        """Where the name stands as whole words."""
        for match in re.finditer(rf"(?<![\w]){re.escape(name)}(?![\w])", self.text):
            yield match.span()

    def knows(self, name: str) -> bool:
        """Whether the sentence names the same thing already: itself, a part of its name, or another
        name for it."""
        return any(related(name, entity.text) for entity in self.entities) or bool(
            {word for word in name.split() if word[0].isupper()}
            & {token.text for token in self.tokens}
        )


def read(
    tagger: Tagger, prefix: str, completion: str, contexts: Contexts | None = None
) -> Sentence:
    """A completion as the operators see it; ``contexts`` are those of the corpus."""
    analysis = tagger.analyse(completion)
    near = prefix[-NEAR:]
    mentions = tuple(
        Mention(
            each.text,
            each.kind,
            near[max(0, each.start - 4) : each.start].lower() == "the ",
            each.start,
        )
        for each in tagger.names(near)
        if each.kind in NAMES
        and "\n" not in each.text
        and each.text not in AGENCIES
        and not _is_ticker(near, each)
    )
    return _resolved(analysis, mentions, contexts or Contexts())


def _is_ticker(text: str, entity: Entity) -> bool:
    """Whether a name is the code of a share: *(TSLA.O)*."""
    return text[entity.start - 1 : entity.start] == "(" and text[entity.end : entity.end + 1] in (
        ".",
        "=",
        ")",
        ":",
    )


def _resolved(analysis: Analysis, mentions: Sequence[Mention], contexts: Contexts) -> Sentence:
    """Names of unknown kind take the kind that the same name, or the person of that surname, has
    elsewhere."""
    kinds: dict[str, str] = {}
    named: list[Mention | Entity] = [*mentions, *analysis.entities]
    for each in named:
        if each.kind == PERSON and " " in each.text:
            kinds.setdefault(each.text.split()[-1], PERSON)
        if each.kind in (PERSON, PLACE, ORGANISATION):
            kinds.setdefault(each.text, each.kind)
    entities = tuple(
        replace(each, kind=kinds.get(each.text, NAME)) if each.kind == NAME else each
        for each in analysis.entities
    )
    resolved = tuple(
        replace(each, kind=kinds.get(each.text, NAME)) if each.kind == NAME else each
        for each in mentions
    )
    return Sentence(analysis.text, analysis.tokens, entities, resolved, contexts)
