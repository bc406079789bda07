"""The sentence that the operators edit, with its tokens and its names.

`tag_sentence` analyses a completion; each operator gets the `TaggedSentence` that it returns.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import NamedTuple

from factor_gen.generate.rules.collocations import Collocations
from factor_gen.generate.rules.conditions import TABLES
from factor_gen.generate.rules.words import DATA, word_frequency
from factor_gen.text import Entity, Tagger, Token
from factor_gen.text.analysis import NAMES, NATIONALITY
from factor_gen.text.conditions import TokenContext, letter_case
from factor_gen.text.lists import read_first_column

_PREFIX_END_LENGTH = 3_000  # characters
EXTRA_VALUES = 2
"""How many more values than usual a number or date is changed to if little else can be edited."""

_WORD_WITH_MARKS = re.compile(r"\S+")
_QUOTATION = re.compile(
    r"“[^”]{1,400}”|\"[^\"]{1,400}\"|‘[^’]{1,80}’(?!\w)|(?<!\w)'[A-Z][^']{1,80}'(?!\w)"
)
# An identifier or option of a program, such as init_all(), --large or config.yaml.
_IDENTIFIER = re.compile(
    r"\w_|_\w|\w\(|::|--\w|[^\W\d]\.\w\w|[a-z][A-Z]|\w=|=\w|[\w.]/\w|[%$@\\][^\W\d]|\w#|^-\w"
)
# The start of an agency's report, such as "LONDON, May 3 (Reuters) - ".
_DATELINE = re.compile(
    r"(?:[A-Z][^()]{0,80}\(Reuters\)\s?[-–—]+\s?|[A-Z]{3,}[^()]{0,40}\s[-–—]{1,2}\s)"
)
_FIXED_PHRASES = sorted(
    read_first_column(DATA / "fixed_phrases.txt"), key=lambda phrase: (-len(phrase), phrase)
)
_FIXED_PHRASE = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, _FIXED_PHRASES))})(?![\w-])", re.IGNORECASE
)
_MOST_TITLE_WORDS = 8


class Span(NamedTuple):
    """The characters ``text[start:end]`` of a sentence."""

    start: int
    end: int


@dataclass(frozen=True, eq=False)
class TaggedSentence:
    """A completion with its analysis, and what the operators may make of it.

    A tagged sentence is equal only to itself, so that it can be a key of a cache.
    """

    text: str
    """The completion."""
    tokens: tuple[Token, ...]
    entities: tuple[Entity, ...]
    """The names, dates and quantities of the completion, in order."""
    prefix_end: str = ""
    """The last characters of the prefix, with whose numbers and dates an edit must agree."""
    collocations: Collocations = field(default_factory=Collocations)
    """The corpus in which a substitute must have been seen. An empty one allows all."""
    offers_all_edits: bool = False
    """Whether operators return all edits that they find.

    Otherwise they leave out some rare words at random, since these would show which sentences are
    false.
    """
    extra_values: int = 0
    """How many more values than usual each number or date is changed to."""

    @cached_property
    def text_with_prefix(self) -> str:
        """The end of the prefix and the completion."""
        return f"{self.prefix_end} {self.text}"

    @cached_property
    def lowercase_words(self) -> tuple[str, ...]:
        """The text of each token in lower case."""
        return tuple(token.text.lower() for token in self.tokens)

    @cached_property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The properties of each token that the tables of ``conditions.yaml`` ask for."""
        # A token has the kind of the entity that begins with it.
        kinds = {entity.start: entity.kind for entity in self.entities}
        return {
            "word": self.lowercase_words,
            "tag": [token.tag for token in self.tokens],
            "shape": [letter_case(token.text) for token in self.tokens],
            "token": [f"{token.text.lower()}/{token.tag}" for token in self.tokens],
            "kind": [kinds.get(token.start, "") for token in self.tokens],
        }

    @cached_property
    def dateline_and_titles(self) -> Sequence[Span]:
        """The line of place and date with which a report starts, and titles in quotation marks."""
        dateline = _DATELINE.match(self.text)
        spans = [Span(*dateline.span())] if dateline else []
        for quotation in find_spans(_QUOTATION, self.text):
            # Short quotations are often the title of a work, or a term. Longer ones are what
            # somebody said.
            words = self.text[quotation.start : quotation.end].split()
            if len(words) <= _MOST_TITLE_WORDS:
                spans.append(quotation)
        return spans

    @cached_property
    def fixed_phrases(self) -> Sequence[Span]:
        """The phrases with a meaning of their own, such as *on the other hand*."""
        return find_spans(_FIXED_PHRASE, self.text)

    @cached_property
    def _protected_spans(self) -> Sequence[Span]:
        """The parts of the sentence that are never edited.

        These are its dateline and titles, names such as *Oslo*, and identifiers of programs such
        as *init_all()*.
        """
        spans = list(self.dateline_and_titles)
        for entity in self.entities:
            if entity.kind in (*NAMES, NATIONALITY):
                spans.append(Span(entity.start, entity.end))
        # Words with all their marks, because the marks show which of them are identifiers.
        for word in find_spans(_WORD_WITH_MARKS, self.text):
            if _IDENTIFIER.search(self.text[word.start : word.end]):
                spans.append(word)
        return spans

    def is_in_title(self, entity: Entity) -> bool:
        """Whether an entity is part of the dateline or of a title."""
        return overlaps_any(self.dateline_and_titles, Span(entity.start, entity.end))

    def is_editable(self, span: Span) -> bool:
        """Whether no character of a span is part of a name, a title or an identifier."""
        return not overlaps_any(self._protected_spans, span)

    def are_tokens_editable(self, start: int, end: int) -> bool:
        """Whether other words may take the place of tokens, such as *set* and *up*.

        They may not if the tokens belong to a name, a title or an identifier, to a compound such as
        *post-war* or an alternative such as *and/or*, or if they are written in an unusual way,
        such as with two spaces between them.

        Args:
            start: The index of the first token.
            end: The index after the last token.
        """
        span = self.span_of_tokens(start, end)
        # A comma is a token, but has no space before it in the text.
        usual_text = " ".join(self.lowercase_words[start:end]).replace(" ,", ",")
        if self.text[span.start : span.end].lower() != usual_text:
            return False
        # The character before the tokens and the one after them, if there is one.
        neighbours = self.text[: span.start][-1:] + self.text[span.end :][:1]
        is_compound = "-" in neighbours or "/" in neighbours
        return not is_compound and self.is_editable(span)

    def span_of_tokens(self, start: int, end: int | None = None) -> Span:
        """Return the characters of tokens.

        Args:
            start: The index of the first token.
            end: The index after the last token; None for one token.
        """
        last_token = self.tokens[start if end is None else end - 1]
        return Span(self.tokens[start].start, last_token.end)

    def context_of_tokens(
        self,
        start: int,
        end: int | None = None,
        facts: Mapping[str, Iterable[object]] | None = None,
    ) -> TokenContext:
        """Return tokens in their context, of which the tables of ``conditions.yaml`` are asked.

        Args:
            start: The index of the first token.
            end: The index after the last token; None for one token.
            facts: The values of features that the operator itself knows, such as ``operator``.
        """
        return TokenContext(self, TABLES, start, start + 1 if end is None else end, facts or {})

    def context_of_characters(
        self, start: int, end: int, facts: Mapping[str, Iterable[object]]
    ) -> TokenContext:
        """Return the tokens that hold some characters, in their context.

        Args:
            start: The position of the first character, which may be within a token: *30* is a part
                of the token *30%*.
            end: The position after the last character.
            facts: The values of features that the operator itself knows, such as ``clause text``.
        """
        tokens = self.tokens
        # The token of the first character is the last one that starts there or before it. The token
        # of the last character is the first one that ends there or after it.
        first_token_index = bisect_right(tokens, start, key=lambda token: token.start) - 1
        last_token_index = bisect_left(tokens, end, key=lambda token: token.end)

        starts_with_token = any(token.start == start for token in tokens)
        ends_with_token = any(token.end == end for token in tokens)
        all_facts = {
            **facts,
            "text before": [self.text[:start]],
            "text after": [self.text[end:]],
            "whole tokens": [starts_with_token and ends_with_token],
        }
        return self.context_of_tokens(first_token_index, last_token_index + 1, all_facts)

    def draw_substitutes(self, rng: Random, old_word: str, substitutes: Iterable[str]) -> list[str]:
        """Draw the substitutes that replace a word this time, so that rare words stay rare.

        If a common word such as *house* always became a rare one such as *mill*, the common word
        would give away which sentence is the original. A substitute is therefore drawn with the
        probability frequency of the substitute / frequency of the old word, if that is less than 1.

        Args:
            rng: The random numbers to draw with.
            old_word: The word that is replaced.
            substitutes: The words that may replace it.

        Returns:
            The substitutes that were drawn, in a random order. If the sentence offers all edits,
            all substitutes.
        """
        drawn = []
        for substitute in substitutes:
            probability = word_frequency(substitute) / word_frequency(old_word)
            # A number is drawn in any case, so that later draws do not depend on the setting.
            if rng.random() < probability or self.offers_all_edits:
                drawn.append(substitute)
        rng.shuffle(drawn)
        return drawn


def find_spans(pattern: re.Pattern[str], text: str) -> list[Span]:
    """Return the characters of all matches of a regular expression, from left to right."""
    return [Span(*match.span()) for match in pattern.finditer(text)]


def overlaps_any(spans: Iterable[Span], span: Span) -> bool:
    """Whether a span shares a character with one of several others."""
    return any(first < span.end and span.start < last for first, last in spans)


def tag_sentence(
    tagger: Tagger, prefix: str, completion: str, collocations: Collocations | None = None
) -> TaggedSentence:
    """Analyse a completion.

    Args:
        tagger: The tagger of the completion.
        prefix: The text before the completion.
        completion: The sentence that is to be edited.
        collocations: The collocations of the corpus; None allows every substitute.
    """
    analysis = tagger.analyse(completion)
    return TaggedSentence(
        text=analysis.text,
        tokens=analysis.tokens,
        entities=analysis.entities,
        prefix_end=prefix[-_PREFIX_END_LENGTH:],
        collocations=collocations or Collocations(),
    )
