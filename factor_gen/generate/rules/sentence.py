"""What an operator sees: the completion, analysed, and the names of the text before it."""

import random
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from factor_gen.generate.rules.conditions import TABLES
from factor_gen.generate.rules.contexts import Contexts
from factor_gen.generate.rules.words import DATA, frequency
from factor_gen.text import Entity, Tagger, Token
from factor_gen.text.analysis import NAME, NAMES, NATIONALITY, ORGANISATION, PERSON, PLACE
from factor_gen.text.conditions import TokenContext, shape
from factor_gen.text.lists import entries

Value = TypeVar("Value", int, str)
Span = tuple[int, int]
NEAR = 20_000
"""Characters before the completion in which names are looked for: the work is linear in them."""
AGENCIES = entries(DATA / "agencies.txt")
MORE_VALUES = 2
"""How many more values than usual a number or date has where little else is left."""

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
_FIXED_PHRASES = sorted(
    entries(DATA / "fixed_phrases.txt"), key=lambda phrase: (-len(phrase), phrase)
)
_FIXED_PHRASE = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, _FIXED_PHRASES))})(?![\w-])", re.IGNORECASE
)
_LONGEST_TITLE = 8  # words


class Mention(NamedTuple):
    """A name in the text before the completion."""

    text: str
    kind: str
    article: bool
    """Whether it has ``the`` before it there."""


@dataclass(frozen=True, eq=False)
class TaggedSentence:
    """The completion, and the names of the text before it. Only itself is equal to it."""

    text: str
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]
    mentions: tuple[Mention, ...]
    """The names before the completion, in order."""
    contexts: Contexts = field(default_factory=Contexts)
    every: bool = False
    """Whether every chance is taken, whatever gives true sentences away."""
    spare: int = 0
    """How many more values a number or date has, where nothing else is left."""

    @cached_property
    def small(self) -> tuple[str, ...]:
        """The tokens in lower case."""
        return tuple(token.text.lower() for token in self.tokens)

    @cached_property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """What the conditions of `factor_gen.text.conditions` ask for."""
        kinds = {entity.start: entity.kind for entity in self.entities}
        return {
            "word": self.small,
            "tag": [token.tag for token in self.tokens],
            "shape": [shape(token.text) for token in self.tokens],
            "token": [f"{token.text.lower()}/{token.tag}" for token in self.tokens],
            "kind": [kinds.get(token.start, "") for token in self.tokens],
        }

    def span(self, i: int, end: int) -> Span:
        """The characters of the tokens from ``i`` up to ``end``."""
        return self.tokens[i].start, self.tokens[end - 1].end

    def place(self, i: int, end: int | None = None, **facts: Iterable[object]) -> TokenContext:
        """The place of a token, or of those up to ``end``, for the tables of conditions."""
        return TokenContext(self, TABLES, i, i + 1 if end is None else end, facts)

    def place_of(self, start: int, end: int, **facts: Iterable[object]) -> TokenContext:
        """The place of some characters, which need not be whole tokens."""
        starts = [token.start for token in self.tokens]
        ends = [token.end for token in self.tokens]
        named = {name.replace("_", " "): value for name, value in facts.items()}
        named["text before"] = (self.text[:start],)
        named["text after"] = (self.text[end:],)
        named["whole tokens"] = (start in starts and end in ends,)
        return self.place(bisect_right(starts, start) - 1, bisect_left(ends, end) + 1, **named)

    @cached_property
    def quotes(self) -> Sequence[Span]:
        """Where quotations stand."""
        return [match.span() for match in _QUOTED.finditer(self.text)]

    @cached_property
    def dateline(self) -> int:
        """Where the line of place and date ends that an agency's report starts with."""
        dateline = _DATELINE.match(self.text)
        return dateline.end() if dateline else 0

    @cached_property
    def titles(self) -> Sequence[Span]:
        """Where the dateline, titles of works, and quoted terms and messages stand."""
        short = [
            (start, end)
            for start, end in self.quotes
            if len(self.text[start:end].split()) <= _LONGEST_TITLE
        ]
        return [(0, self.dateline), *short]

    @cached_property
    def _protected(self) -> Sequence[Span]:
        """What stays as it is: names, titles, identifiers and the dateline."""
        kinds = (*NAMES, NATIONALITY)
        names = [(name.start, name.end) for name in self.entities if name.kind in kinds]
        chunks = _CHUNK.finditer(self.text)
        codes = [chunk.span() for chunk in chunks if _CODE.search(chunk.group())]
        return [*names, *codes, *self.titles]

    def is_free(self, start: int, end: int) -> bool:
        """Whether some characters may be edited."""
        return not overlaps(self._protected, start, end)

    def may_change(self, i: int, end: int) -> bool:
        """Whether the tokens may be edited: words with single spaces between them, not joined."""
        start, stop = self.span(i, end)
        is_spaced = self.text[start:stop].lower() == " ".join(self.small[i:end]).replace(" ,", ",")
        neighbours = self.text[max(0, start - 1) : start] + self.text[stop : stop + 1]
        return is_spaced and not re.search("[-/]", neighbours) and self.is_free(start, stop)

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

    def some(self, rng: random.Random, values: Sequence[Value], least: int = 1) -> list[Value]:
        """``least`` of the values in a random order, and `spare` more."""
        return rng.sample(values, min(least + self.spare, len(values)))

    @cached_property
    def fixed_phrases(self) -> Sequence[Span]:
        """Where phrases with a meaning of their own stand."""
        return [match.span() for match in _FIXED_PHRASE.finditer(self.text)]


def overlaps(spans: Iterable[Span], start: int, end: int) -> bool:
    """Whether some characters are among those of the spans."""
    return any(first < end and start < last for first, last in spans)


def read(
    tagger: Tagger, prefix: str, completion: str, contexts: Contexts | None = None
) -> TaggedSentence:
    """Analyse a completion and name what stands before it.

    A name of no clear kind has the kind that it, or the person of that surname, has elsewhere.

    Args:
        contexts: Those of the corpus. Without them, every substitute passes.
    """
    analysis = tagger.analyse(completion)
    near = prefix[-NEAR:]
    names = [
        name
        for name in tagger.names(near)
        if name.kind in NAMES and "\n" not in name.text and name.text not in AGENCIES
    ]
    kinds: dict[str, str] = {}
    for name in (*names, *analysis.entities):
        if name.kind == PERSON and " " in name.text:
            kinds.setdefault(name.text.split()[-1], PERSON)
        if name.kind in (PERSON, PLACE, ORGANISATION):
            kinds.setdefault(name.text, name.kind)

    def kind_of(name: Entity) -> str:
        return kinds.get(name.text, NAME) if name.kind == NAME else name.kind

    mentions = []
    for name in names:
        has_article = near[max(0, name.start - 4) : name.start].lower() == "the "
        mentions.append(Mention(name.text, kind_of(name), has_article))
    entities = tuple(name._replace(kind=kind_of(name)) for name in analysis.entities)
    contexts = contexts or Contexts()
    return TaggedSentence(analysis.text, analysis.tokens, entities, tuple(mentions), contexts)
