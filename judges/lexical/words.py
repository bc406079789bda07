"""A text as the lexical judge reads it: stemmed words, with numbers in one spelling.

A claim and a passage that say the same in other signs meet: accents and citation marks go,
``1,200`` is ``1200``, ``twelve`` is ``12``, ``1st`` is ``first``. ``(3 May 1901 - 7 June 1980)``
behind a name reads as born and died, as a biography would put it. ``passed away`` is ``died``.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

import tantivy

from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.sentences import split_sentences

CAPITALS = "A-Z" + "".join(letter for letter in map(chr, range(0xC0, 0x2000)) if letter.isupper())


def read_patterns(name: str) -> dict[str, re.Pattern[str]]:
    """The regular expressions in ``name.yaml``.

    A list is one expression in pieces. ``{{name}}`` stands for an earlier one, and ``A-Z`` for the
    capitals of all alphabets that have them.
    """
    texts: dict[str, str] = {}
    for key, pieces in load_yaml(__package__, f"{name}.yaml").items():
        text = "".join(pieces)
        texts[key] = re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], text)
    return {key: re.compile(text.replace("A-Z", CAPITALS)) for key, text in texts.items()}


_PATTERNS = read_patterns("reading")
_TABLE = load_yaml(__package__, "words.yaml")
STOPWORDS = frozenset(_TABLE["stopwords"].split())
NEGATIONS = frozenset(_TABLE["negations"].split())
ADDITIVES = frozenset(_TABLE["additives"].split())
KINSHIP = frozenset(_TABLE["kinship"].split())
_NUMBER_WORDS: dict[str, str] = _TABLE["numbers"]
_ORDINALS: dict[str, str] = _TABLE["ordinals"]
_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text."""

    text: str

    stem: str
    """What is compared. That of every negation with ``not`` in it is ``not``."""

    is_content: bool = False
    """Whether it is neither a stopword nor a negation."""

    is_number: bool = False

    is_name: bool = False
    """Whether it is capitalised, and not merely because a sentence begins with it."""


@dataclass(frozen=True)
class ParsedText:
    """The words of a text in their order, by sentence."""

    sentences: tuple[tuple[Word, ...], ...]
    """The words of each sentence that has any."""

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """All words."""
        return tuple(chain.from_iterable(self.sentences))

    @cached_property
    def content(self) -> tuple[Word, ...]:
        """The content words."""
        return tuple(word for word in self.words if word.is_content)

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """The stems of the content words in their order."""
        return tuple(word.stem for word in self.content)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the content words."""
        return frozenset(self.sequence)


def without_accents(text: str) -> str:
    """``text`` without accents (Unicode NFKD, no combining marks) and marks such as ``[1, 2]``."""
    decomposed = unicodedata.normalize("NFKD", _PATTERNS["citation"].sub(" ", text))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@lru_cache(4096)  # passages are read once, however many claims cite them
def parse_text(text: str) -> ParsedText:
    """The words of ``text``.

    Example: ``She won 1,200 prizes.`` has the words ``she``, ``won``, ``1200`` and ``prize``.
    """
    folded = _PATTERNS["life"].sub(r"(\1 born \2, died \3)", without_accents(text))
    folded = _PATTERNS["passed_away"].sub("died", folded)
    folded = _PATTERNS["united_states"].sub("United States", folded)
    folded = _PATTERNS["initials"].sub(lambda match: match[0].replace(".", ""), folded)
    lines = folded.split("\n")  # a line ends a sentence too
    sentences = chain.from_iterable(map(split_sentences, lines))
    return ParsedText(tuple(filter(None, map(_words, sentences))))


def _words(sentence: str) -> tuple[Word, ...]:
    """The words of a sentence."""
    matches = list(_PATTERNS["token"].finditer(sentence))
    words = []
    for index, match in enumerate(matches):
        text = match[0]
        lower = _PATTERNS["ending"].sub("", text.lower())
        digits = match["number"] or _NUMBER_WORDS.get(lower)
        if digits:
            stem = _number(digits, match["suffix"])
            words.append(Word(text, stem, is_content=True, is_number=True))
        elif lower in NEGATIONS or lower.endswith(("n't", "n\u2019t")):
            words.append(Word(text, "not"))
        elif lower in STOPWORDS and not (lower == "may" and index > 0 and text[0].isupper()):
            words.append(Word(text, lower))
        else:
            following = matches[index + 1][0] if index + 1 < len(matches) else ""
            is_name = text[0].isupper() and (index > 0 or following[:1].isupper())
            stem = _STEMMER.analyze(lower)[0]
            words.append(Word(text, stem, is_content=True, is_name=is_name))
    return tuple(words)


def _number(digits: str, suffix: str | None) -> str:
    """A number in one spelling. An ordinal up to the tenth is a word, and ``1990s`` stays so."""
    plain = digits.replace(",", "")
    if suffix == "s":
        return f"{plain}s"
    return _ORDINALS.get(plain.lstrip("0"), plain) if suffix else plain


@dataclass(frozen=True)
class ParsedPassage:
    """A text that is held against claims."""

    text: str

    title: str = ""
    """Empty if there is none. A bracket, as in ``Ada Hill (painter)``, tells namesakes apart."""

    @cached_property
    def words(self) -> ParsedText:
        """The words of title and text, the title as a sentence of its own."""
        return parse_text(f"{self.title}\n{self.text}" if self.title else self.text)

    @cached_property
    def name(self) -> frozenset[str]:
        """The stems of the title without its bracket: the name of what the passage is about."""
        return parse_text(_PATTERNS["brackets"].sub(" ", self.title)).stems


def parse_passage(text: str) -> ParsedPassage:
    """``text`` as a passage. A first line ``Title: ...`` is its title, as in D-FActScore's data."""
    match = _PATTERNS["titled"].fullmatch(text)
    return ParsedPassage(match["text"], match["title"].strip()) if match else ParsedPassage(text)
