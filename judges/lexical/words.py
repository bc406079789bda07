"""A text as the lexical judge reads it: stemmed words that know their sentence, with numbers and
dates in one spelling.

So that a claim and a passage that say the same in other signs meet: accents and citation marks go,
``1,200`` is ``1200``, ``twelve`` is ``12``, ``1st`` is ``first``; ``(3 May 1901 - 7 June 1980)``
behind a name reads as born and died, as a biography would put it; ``passed away`` is ``died``.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby

import tantivy

from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences

CAPITALS = "A-Z" + "".join(letter for letter in map(chr, range(0xC0, 0x2000)) if letter.isupper())


def read_patterns(name: str) -> dict[str, re.Pattern[str]]:
    """The regular expressions in ``name.yaml``. A list is one expression in pieces; ``{{name}}``
    stands for an earlier one, and ``A-Z`` for the capitals of all alphabets that have them."""
    texts: dict[str, str] = {}
    for key, value in load_yaml(__package__, f"{name}.yaml").items():
        text = value if isinstance(value, str) else "".join(value)
        texts[key] = re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], text)
    return {key: re.compile(text.replace("A-Z", CAPITALS)) for key, text in texts.items()}


_TABLE = load_yaml(__package__, "words.yaml")
STOPWORDS = frozenset(_TABLE["stopwords"].split())
NEGATIONS = frozenset(_TABLE["negations"].split())
ADDITIVES = frozenset(_TABLE["additives"].split())
KINSHIP = frozenset(_TABLE["kinship"].split())
MONTHS: tuple[str, ...] = tuple(_TABLE["months"].split())
_NUMBER_WORDS: dict[str, int] = _TABLE["numbers"]
_ORDINALS: dict[str, str] = _TABLE["ordinals"]

MONTH_NAMES = "|".join(
    (*(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS), "sept")
)  # as a pattern
_MONTH = rf"(?:{MONTH_NAMES})\.?"
_DAY = r"(?:[0-3]?\d)(?:st|nd|rd|th)?"
_DATE = rf"(?:(?:c(?:irca|\.)? ?)?(?:{_DAY} {_MONTH},? )?\d{{4}}|{_MONTH} {_DAY},? \d{{4}})"
_LIFE = re.compile(
    rf"\(([^()]{{0,60}}?)({_DATE})(?: \([^()]*\))?\s*[-\u2013\u2014]\s*({_DATE})\)", re.IGNORECASE
)
_CITATION = re.compile(r"\[\d+(?:\s*[,;\u2013-]\s*\d+)*\]")
_PASSED = re.compile(r"\bpass(?:ed|es) away\b", re.IGNORECASE)
_STATES = re.compile(r"\bU\.? ?S\.?(?: ?A\.?)?(?=\W|$)")
_INITIALS = re.compile(r"\b(?:[A-Z]\.){2,}")
_NUMBER = r"\d+(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+"
_TOKEN = re.compile(
    rf"(?P<number>{_NUMBER})(?P<suffix>st|nd|rd|th|s)?(?![^\W\d_])|[^\W_]+(?:['\u2019][^\W_]+)*"
)
_CACHED = 4096  # passages that are read once, however many claims cite them

_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


@dataclass(frozen=True, slots=True)
class Word:
    """``stem`` is what is compared; ``sentence`` the number of its sentence; ``is_name`` that it is
    capitalised and not merely because a sentence begins with it."""

    text: str
    stem: str
    sentence: int
    is_content: bool
    is_number: bool
    is_name: bool


@dataclass(frozen=True)
class Text:
    """The words of a text in their order."""

    words: tuple[Word, ...]

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The content words: neither stopwords nor negations."""
        return tuple(word for word in self.words if word.is_content)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.content)

    @cached_property
    def sentences(self) -> tuple[tuple[Word, ...], ...]:
        """The words of each sentence that has any."""
        return tuple(
            tuple(words) for _, words in groupby(self.words, key=lambda word: word.sentence)
        )

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """The stems of the content words in their order."""
        return tuple(word.stem for word in self.content)


def fold(text: str) -> str:
    """``text`` without accents (Unicode NFKD, combining marks dropped) and without citation marks
    such as ``[1, 2]``."""
    decomposed = unicodedata.normalize("NFKD", _CITATION.sub(" ", text))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def sentences(text: str) -> list[str]:
    """The sentences of ``text``; a line ends one too."""
    return [sentence for line in text.split("\n") for sentence in split_sentences(line)]


@lru_cache(_CACHED)
def read(text: str) -> Text:
    """The words of ``text``."""
    folded = _LIFE.sub(r"(\1 born \2, died \3)", fold(text))
    folded = _STATES.sub("United States", _PASSED.sub("died", folded))
    folded = _INITIALS.sub(lambda match: match[0].replace(".", ""), folded)
    words: list[Word] = []
    for number, sentence in enumerate(sentences(folded)):
        words += _words(sentence, number)
    return Text(tuple(words))


def _words(sentence: str, number: int) -> list[Word]:
    matches = list(_TOKEN.finditer(sentence))
    words = []
    for index, match in enumerate(matches):
        text = match[0]
        if match["number"]:
            stem, is_number = _number(match["number"], match["suffix"]), True
        else:
            lower = re.sub(r"['\u2019](?:s|d|ll|re|ve|m)$", "", text.lower())
            is_number = lower in _NUMBER_WORDS
            stem = str(_NUMBER_WORDS[lower]) if is_number else lower
            negated = lower in NEGATIONS or lower.endswith(("n't", "n\u2019t"))
            is_month = lower == "may" and index > 0 and text[0].isupper()
            if (lower in STOPWORDS and not is_month) or negated:
                words.append(Word(text, "not" if negated else lower, number, False, False, False))
                continue
            stem = stem if is_number else _stem(lower)
        capital = text[0].isupper()
        follows = index + 1 < len(matches) and matches[index + 1][0][0].isupper()
        words.append(
            Word(
                text,
                stem,
                number,
                True,
                is_number,
                capital and not is_number and (index > 0 or follows),
            )
        )
    return words


@lru_cache(1 << 16)
def _stem(word: str) -> str:
    return _STEMMER.analyze(word)[0]


def _number(digits: str, suffix: str | None) -> str:
    plain = digits.replace(",", "")
    if suffix in ("st", "nd", "rd", "th") and plain.lstrip("0") in _ORDINALS:
        return _ORDINALS[plain.lstrip("0")]
    return f"{plain}s" if suffix == "s" else plain


_TITLED = re.compile(r"\s*Title:\s*(?P<title>[^\n]*)\n(?P<text>.*)", re.DOTALL)
_BRACKETS = re.compile(r"\([^()]*\)")


@dataclass(frozen=True)
class Passage:
    """``title`` is empty where there is none; a bracket in it, as in ``Ada Hill (painter)``, tells
    namesakes apart."""

    text: str
    title: str = ""

    @cached_property
    def words(self) -> Text:
        """The words of title and text, the title as a sentence of its own."""
        return read(f"{self.title}\n{self.text}" if self.title else self.text)

    @cached_property
    def name(self) -> frozenset[str]:
        """The stems of the title without its bracket: the name of what the passage is about."""
        return read(_BRACKETS.sub(" ", self.title)).stems


def parse_passage(text: str) -> Passage:
    """``text`` as a passage; a first line ``Title: ...`` is its title, as the citations of
    D-FActScore have it."""
    match = _TITLED.fullmatch(text)
    return Passage(match["text"], match["title"].strip()) if match else Passage(text)
