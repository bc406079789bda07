"""Parsing of claims and passages for the lexical judge, into stemmed words.

Different spellings of the same thing become the same word: accents and citation marks are removed,
``1,200`` and ``1200`` are one number, ``twelve`` is ``12``, ``1st`` is ``first``, and ``passed
away`` is ``died``. `judges.lexical.comparison` compares the results.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

import tantivy

from lm_factuality.ground.packages import Patterns, load_yaml
from lm_factuality.ground.sentences import split_sentences

# All capital letters, for a character class of a regular expression. U+2000 ends the alphabets.
CAPITALS = "A-Z" + "".join(letter for letter in map(chr, range(0xC0, 0x2000)) if letter.isupper())


def read_patterns(name: str) -> Patterns:
    """Read the regular expressions in the YAML file of this package with a name.

    A long expression is a list of texts. ``{{day}}`` stands for the expression ``day``.

    Example:
        ``day: '[0-3]?[0-9]'`` and ``date: ['{{day}} ', '[A-Z][a-z]+']`` → ``date`` is ``[0-3]?[0-9]
        [A-Z][a-z]+``
    """
    texts: dict[str, str] = {}
    # An expression may refer to those above it in the file.
    for key, pieces in load_yaml(__package__, f"{name}.yaml").items():
        text = "".join(pieces) if isinstance(pieces, list) else pieces
        texts[key] = re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], text)
    # In the files, "A-Z" stands for the capitals of all alphabets, such as "É".
    return Patterns({key: text.replace("A-Z", CAPITALS) for key, text in texts.items()})


_PATTERNS = read_patterns("reading")
_WORD_LISTS = load_yaml(__package__, "words.yaml")
STOPWORDS = frozenset(_WORD_LISTS["stopwords"].split())
NEGATIONS = frozenset(_WORD_LISTS["negations"].split())
ADDITIVES = frozenset(_WORD_LISTS["additives"].split())
KINSHIP = frozenset(_WORD_LISTS["kinship"].split())
_NUMBER_WORDS: dict[str, str] = _WORD_LISTS["numbers"]
_ORDINALS: dict[str, str] = _WORD_LISTS["ordinals"]
_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text."""

    text: str
    """The word as it is written."""

    stem: str
    """The form that is compared, such as ``prize`` for ``prizes``. Negations have ``not``."""

    is_content: bool = False
    """Whether it is neither a stopword nor a negation."""

    is_number: bool = False
    """Whether it is a number, in digits or as a word."""

    is_name: bool = False
    """Whether it is capitalised for another reason than that it begins a sentence."""


def join_words(words: Iterable[Word]) -> str:
    """Return words as they are written, with spaces between them."""
    return " ".join(word.text for word in words)


def stems_of(words: Iterable[Word]) -> set[str]:
    """Return the stems of words, each once."""
    return {word.stem for word in words}


def content_stems_of(words: Iterable[Word]) -> set[str]:
    """Return the stems of the content words among some words, each once."""
    return stems_of(word for word in words if word.is_content)


@dataclass(frozen=True)
class ParsedText:
    """The words of a text, in their order."""

    sentences: tuple[tuple[Word, ...], ...]
    """The words of each sentence that has any."""

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words of all sentences."""
        return tuple(chain.from_iterable(self.sentences))

    @cached_property
    def content_words(self) -> tuple[Word, ...]:
        """The words that are neither stopwords nor negations."""
        return tuple(word for word in self.words if word.is_content)

    @cached_property
    def stem_sequence(self) -> tuple[str, ...]:
        """The stems of the content words, in the order of the text."""
        return tuple(word.stem for word in self.content_words)

    @cached_property
    def stem_set(self) -> frozenset[str]:
        """The stems of the content words, each once."""
        return frozenset(self.stem_sequence)


def without_accents(text: str) -> str:
    """Return a text without accents and without citation marks.

    Example:
        ``Zoë won [1, 2].`` → ``Zoe won  .``
    """
    without_citations = _PATTERNS["citation"].sub(" ", text)
    # NFKD writes a letter with an accent as the letter and a combining mark.
    decomposed = unicodedata.normalize("NFKD", without_citations)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


# Many claims cite the same passages, so the last texts are kept parsed.
@lru_cache(4096)
def parse_text(text: str) -> ParsedText:
    """Parse a text into sentences of stemmed words.

    Example:
        ``She won 1,200 prizes.`` → words with the stems ``she``, ``won``, ``1200`` and ``prize``

    Args:
        text: An English text, of which each line has whole sentences.

    Returns:
        The words by sentence.
    """
    text = without_accents(text)
    # "(3 May 1901 - 7 June 1980)" becomes "(born 3 May 1901, died 7 June 1980)".
    text = _PATTERNS["life"].sub(r"(\1 born \2, died \3)", text)
    text = _PATTERNS["passed_away"].sub("died", text)
    text = _PATTERNS["united_states"].sub("United States", text)
    # "J.R.R. Tolkien" becomes "JRR Tolkien", so that no sentence ends at a period.
    text = _PATTERNS["initials"].sub(lambda match: match[0].replace(".", ""), text)

    sentences = []
    # Headings and list items have no period, so a sentence also ends with its line.
    for line in text.split("\n"):
        for sentence in split_sentences(line):
            words = _parse_sentence(sentence)
            if words:
                sentences.append(words)
    return ParsedText(tuple(sentences))


def _parse_sentence(sentence: str) -> tuple[Word, ...]:
    """Parse the words of a sentence, in which accents are removed already."""
    tokens = list(_PATTERNS["token"].finditer(sentence))
    words = []
    for index, token in enumerate(tokens):
        next_text = tokens[index + 1][0] if index + 1 < len(tokens) else ""
        words.append(_parse_word(token, is_first=index == 0, next_text=next_text))
    return tuple(words)


def _parse_word(token: re.Match[str], *, is_first: bool, next_text: str) -> Word:
    """Parse a word of a sentence.

    The first kind that fits decides: a number, a negation, a stopword or any other word.

    Args:
        token: The match of the word, with the groups ``number`` and ``suffix`` if it is a number.
        is_first: Whether the word begins the sentence.
        next_text: The next word, empty at the end of the sentence.

    Returns:
        The word with its stem.
    """
    text = token[0]
    is_capitalised = text[0].isupper()
    # "Ada's" is compared with "Ada", so endings such as "'s" are dropped.
    lower = _PATTERNS["ending"].sub("", text.lower())

    # Numbers are content words, in digits ("12") or as a word ("twelve").
    digits = token["number"] or _NUMBER_WORDS.get(lower)
    if digits:
        stem = _number_stem(digits, token["suffix"])
        return Word(text, stem, is_content=True, is_number=True)

    if lower in NEGATIONS or lower.endswith(("n't", "n\u2019t")):
        return Word(text, "not")

    # "May" within a sentence is the month, and "may" is a stopword.
    is_month_of_may = lower == "may" and is_capitalised and not is_first
    if lower in STOPWORDS and not is_month_of_may:
        return Word(text, lower)

    # The first word is always capitalised. It is taken for a name if the next one is too.
    is_name = is_capitalised and (not is_first or next_text[:1].isupper())
    stem = _STEMMER.analyze(lower)[0]
    return Word(text, stem, is_content=True, is_name=is_name)


def _number_stem(digits: str, suffix: str | None) -> str:
    """Return the canonical spelling of a number, which all its spellings have as their stem.

    Example:
        ``1,200`` → ``1200``; ``1`` with the suffix ``st`` → ``first``; ``21`` with ``st`` → ``21``;
        ``1990`` with ``s`` → ``1990s``
    """
    plain_digits = digits.replace(",", "")
    if suffix is None:
        return plain_digits
    # "1990s" is a decade and not the year 1990.
    if suffix == "s":
        return f"{plain_digits}s"
    # "01st" is "first" too.
    return _ORDINALS.get(plain_digits.lstrip("0"), plain_digits)


@dataclass(frozen=True)
class ParsedPassage:
    """A passage that claims are compared with."""

    text: str
    """The text without the title."""

    title: str = ""
    """The title, empty if there is none. A bracket, as in ``Ada Hill (painter)``, is part of it."""

    @cached_property
    def parsed_text(self) -> ParsedText:
        """The words of the title, which is a sentence of its own, and of the text."""
        return parse_text(f"{self.title}\n{self.text}" if self.title else self.text)

    @cached_property
    def title_stems(self) -> frozenset[str]:
        """The stems of the title without its bracket, i.e. the name of the passage's topic."""
        return parse_text(_PATTERNS["brackets"].sub(" ", self.title)).stem_set


def parse_passage(text: str) -> ParsedPassage:
    r"""Split a passage into title and text, as the data of D-FActScore joins them.

    Example:
        ``Title: Ada Hill\nAda Hill was a painter.`` → a passage with the title ``Ada Hill`` and the
        text ``Ada Hill was a painter.``
    """
    match = _PATTERNS["titled"].fullmatch(text)
    # Passages of other data have no title.
    if match is None:
        return ParsedPassage(text)
    return ParsedPassage(match["text"], match["title"].strip())
