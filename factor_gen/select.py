"""The stage ``select`` (section 3.2.1): one sentence a document, and all the text before it.

A completion is a whole running sentence in the language of the corpus, no headline and nothing of
a page's machinery.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

from factor_gen.language import ENGLISH, identified
from factor_gen.records import Draw, Example, Sentence
from factor_gen.settings import SelectSettings
from factor_gen.text.layout import verbatim
from factor_gen.text.sentences import plain
from lm_factuality.ground.sentences import spaced

_RULES = 5
"""Raised when a change of the rules can change what is selected."""
_LONGEST_WORD = 60  # characters
_HEADLINE_WORD = 5  # letters: shorter words are often small in headlines and capital in names
_NEAR = 40  # characters before a sentence that are looked at
_END = re.compile(r"[.!?。！？।؟][\"'“”’»«)\]」』）》]*\Z")
_ELLIPSIS = re.compile(r"(\.\s*\.|…|\b(?:e\.g|i\.e|viz|cf)\.)[\"'”’»)\]]*\Z")
# not Amazon.com
_WEB = re.compile(
    r"(?i:https?:|www\.|\w@\w)|\b[a-z0-9-]+\.(?:com|org|net|gov|edu|co\.uk|html?|php)\b"
)
_MARKUP = re.compile(
    r"\](?=[\[(])|</?[A-Za-z!][^>]*>?|&(?:#x?[0-9a-fA-F]+|[A-Za-z]+);|\{\{|\}\}|\[\[|\]\]|[|{}\\^~\t•●■▪►→]"
)
_OPENING = "\"'“„‘«»([$€£¥¿¡「『《（"
_PAIRS = {")": "(", "]": "[", "”": "“", "»": "«", "」": "「", "』": "『", "》": "《", "）": "（"}
# ends of sentences, and labels, that no space follows
_UNSPACED = re.compile(r"([。！？][”」』）》]*|^\w+:)\Z", re.MULTILINE)
# a line that ends as no sentence does: what follows is the rest of it
_WORDS_THAT_GO_ON = (
    "a an the of to in on at by for from with and or but that which is are was were be as if"
    " not its"
)
_OPEN = re.compile(rf"(?:,|\b(?:{_WORDS_THAT_GO_ON.replace(' ', '|')}))[ \t\r]*\n\s*\Z")


class Select:
    """Draws a sentence of each document.

    Examples come in with a whole document as their ``prefix``. They go out with a sentence as
    their ``completion`` and what stands before it as their ``prefix``. The sentence is the first
    that will do of those that no draw before has ``tried``.
    """

    name = "select"

    def __init__(self, settings: SelectSettings, seed: int, language: str = ENGLISH) -> None:
        self._settings = settings
        self._seed = seed
        self._language = language

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The settings and versions that decide what is selected."""
        fingerprint = {
            "rules": _RULES,
            "language": self._language,
            "py3langid": version("py3langid"),
            "sentencex": version("sentencex"),
            **asdict(self._settings),
        }
        del fingerprint["draws"]  # what a draw gives does not depend on how many there are
        if self._settings.position == "random":
            fingerprint["seed"] = self._seed
        return fingerprint

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Return each document with a sentence, or the reason why none will do."""
        return [example if example.unused else self._select(example) for example in examples]

    def _select(self, example: Example) -> Example:
        document = _Document(example, self._settings, self._language)
        order = self._order(example)
        furthest = -1
        for tried in range(example.draw.tried, len(order)):
            place = _Place(document, example.sentences[order[tried]])
            failure = place.first_failure()
            if failure is None:
                return Example(
                    example.doc_id,
                    prefix=place.prefix,
                    completion=place.sentence,
                    draw=replace(example.draw, tried=tried + 1),
                )
            furthest = max(furthest, failure)
        reason = "the text is empty"
        if example.draw.tried:
            reason = "no other sentence"
        elif furthest >= 0:
            reason = _CHECKS[furthest][0].format(settings=self._settings, language=self._language)
        return Example(example.doc_id, draw=Draw(example.draw.number)).drop(self.name, reason)

    def _order(self, example: Example) -> list[int]:
        """Return the order in which the sentences of a document are tried.

        In a random order, each that will do is as likely as the others to be the first of them.
        """
        order = list(range(len(example.sentences)))
        if self._settings.position == "random":
            random.Random(f"{self._seed}/select/{example.doc_id}").shuffle(order)
        elif self._settings.position == "last":
            order.reverse()
        return order


class _Document:
    """A document, and what the checks of all its sentences ask about it."""

    def __init__(self, example: Example, settings: SelectSettings, language: str) -> None:
        self.text = example.prefix
        self.settings = settings
        self.language = language
        self.is_code = verbatim(self.text.split("\n"))
        """Of each line."""
        self.plain = plain(self.text)


class _Place:
    """A sentence in its document."""

    def __init__(self, document: _Document, span: Sentence) -> None:
        self.document = document
        self.span = span
        self.prefix = document.text[: span.start]
        self.sentence = document.text[span.start : span.end]
        self.near = self.prefix[-_NEAR:]

    def first_failure(self) -> int | None:
        """Return the number of the first check that the sentence fails; None if it will do."""
        failures = (number for number, (_, passes) in enumerate(_CHECKS) if not passes(self))
        return next(failures, None)


def _has_begin(place: _Place) -> bool:
    bare = place.sentence.lstrip(_OPENING)
    first = bare[:1]
    is_capital = first.isalpha() and not first.islower()
    return len(place.sentence) - len(bare) <= 2 and (first.isdecimal() or is_capital)


def _count_words(sentence: str) -> float:
    """Count the words of a sentence; of a script without spaces, two signs count as one."""
    words = [*sentence.split(), *spaced(sentence).split()]
    return sum(any(map(str.isalnum, word)) for word in words) / 2


def _is_short(place: _Place) -> bool:
    longest = max(map(len, spaced(place.sentence).split()), default=0)
    most_words = place.document.settings.max_words
    return _count_words(place.sentence) <= most_words and longest <= _LONGEST_WORD


def _is_running(place: _Place) -> bool:
    """Mostly letters, some of them small, and no more capitals than small ones."""
    letters = sum(map(str.isalpha, place.sentence))
    capitals = sum(map(str.isupper, place.sentence))
    signs = sum(not character.isspace() for character in place.sentence)
    return 2 * letters > signs and 2 * capitals < letters


def _is_no_title(place: _Place) -> bool:
    _, *words = re.findall(r"[^\W\d_]+", place.sentence) or [""]
    long_words = [word for word in words if len(word) >= _HEADLINE_WORD]
    capitals = sum(word[0].isupper() for word in long_words)
    return len(long_words) < 4 or capitals < 0.9 * len(long_words)


def _has_no_controls(place: _Place) -> bool:
    """No control or format characters, wrongly decoded text, or what Unicode does not know."""
    return "\N{REPLACEMENT CHARACTER}" not in place.sentence and not any(
        unicodedata.category(character)[0] == "C" for character in place.sentence
    )


def _is_balanced(place: _Place) -> bool:
    """Brackets and quotes open and close within the sentence."""
    if place.sentence.count('"') % 2:
        return False
    still_open: list[str] = []
    for character in place.sentence:
        if still_open[-1:] == ["„"] and character in "“”":
            still_open.pop()
        elif character == "„" or character in _PAIRS.values():
            still_open.append(character)
        elif character in _PAIRS and (not still_open or still_open.pop() != _PAIRS[character]):
            return False
    return not still_open


def _is_repeated(place: _Place) -> bool:
    """Whether another place of the document has the sentence too."""
    text = place.document.plain
    sentence = plain(place.sentence)
    return text.find(sentence, text.find(sentence) + 1) >= 0


_CHECKS: Sequence[tuple[str, Callable[[_Place], bool]]] = (
    (
        "no sentence that ends with . ! or ?",
        lambda place: bool(_END.search(place.sentence)) and not _ELLIPSIS.search(place.sentence),
    ),
    (
        "no sentence that begins with a capital or a digit",
        _has_begin,
    ),
    (
        "no sentence of {settings.min_words} words or more",
        lambda place: _count_words(place.sentence) >= place.document.settings.min_words,
    ),
    ("no sentence that is short enough", _is_short),
    ("no sentence of running text", _is_running),
    ("no sentence that isn't a headline", _is_no_title),
    ("no sentence without control characters", _has_no_controls),
    ("no sentence without markup", lambda place: not _MARKUP.search(place.sentence)),
    ("no sentence without a web address", lambda place: not _WEB.search(place.sentence)),
    (
        "no sentence whose quotes and brackets are balanced",
        _is_balanced,
    ),
    (
        "no sentence in the language {language}",
        lambda place: identified(place.sentence) in ("", place.document.language),
    ),
    ("no text before the sentence", lambda place: bool(place.prefix.strip())),
    (
        "no white space before the sentence",
        lambda place: place.near[-1].isspace() or bool(_UNSPACED.search(place.near)),
    ),
    (
        "no sentence that begins after the end of another",
        lambda place: not _OPEN.search(place.near),
    ),
    (
        "no sentence that the rest of the text does not repeat",
        lambda place: not _is_repeated(place),
    ),
    (
        "no sentence that is not in a document before it",
        lambda place: not (place.span.is_repeated and place.document.settings.once),
    ),
    (
        "no sentence outside code and tables",
        lambda place: not place.document.is_code[place.prefix.count("\n")],
    ),
)
"""What is checked of a sentence, in order, and what may be said of a document whose sentences got
no further."""
