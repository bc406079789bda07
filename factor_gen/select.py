"""The stage ``select`` (section 3.2.1): one sentence a document, and all the text before it.

A completion is a whole running sentence in the language of the corpus, no headline and nothing of
a page's machinery.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain
from typing import Any

from factor_gen.language import ENGLISH, identified
from factor_gen.records import Example
from factor_gen.settings import SelectSettings
from factor_gen.text.layout import verbatim
from factor_gen.text.sentences import plain, sentences
from lm_factuality.ground.sentences import spaced

_RULES = 5
"""Raised when a change of the rules can change what is selected."""
Failure = tuple[int, str]
"""How far a sentence got, and what may be said of a document whose sentences got no further."""
_EMPTY: Failure = (-1, "the text is empty")
_NO_PREFIX: Failure = (100, "no text before the sentence")
_JOINED: Failure = (101, "no white space before the sentence")
_REPEATED: Failure = (102, "no sentence that the rest of the text does not repeat")
_HALF: Failure = (103, "no sentence that begins after the end of another")
_CODE: Failure = (104, "no sentence outside code and tables")
_KNOWN: Failure = (105, "no sentence that is not in a document before it")
_NO_OTHER = "no other sentence"

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
        text = example.prefix
        bounds = example.spans or tuple(chain.from_iterable(sentences(text, self._language)))
        order = self._order(example.doc_id, len(bounds) // 2)
        is_code = verbatim(text.split("\n"))
        known = set(example.repeated if self._settings.once else ())
        plain_text = plain(text)
        furthest = _EMPTY
        for tried, number in enumerate(order[example.tried :], start=example.tried + 1):
            start, end = bounds[2 * number : 2 * number + 2]
            sentence = text[start:end]
            failure = failed(sentence, self._settings, self._language)
            failure = failure or _misplaced(text[:start], sentence, plain_text)
            if failure is None and start in known:
                failure = _KNOWN
            if failure is None and is_code[text.count("\n", 0, start)]:
                failure = _CODE
            if failure is None:
                return Example(
                    example.doc_id,
                    prefix=text[:start],
                    completion=sentence,
                    draw=example.draw,
                    spans=bounds,
                    tried=tried,
                )
            furthest = max(furthest, failure)
        _, reason = furthest
        return Example(example.doc_id, draw=example.draw).drop(
            self.name, _NO_OTHER if example.tried else reason
        )

    def _order(self, doc_id: str, count: int) -> list[int]:
        """Return the order in which the sentences of a document are tried.

        In a random order, each that will do is as likely as the others to be the first of them.
        """
        order = list(range(count))
        if self._settings.position == "random":
            random.Random(f"{self._seed}/select/{doc_id}").shuffle(order)
        elif self._settings.position == "last":
            order.reverse()
        return order


def failed(sentence: str, settings: SelectSettings, language: str = ENGLISH) -> Failure | None:
    """Return the first check that a sentence fails; None if it will do."""
    for number, (reason, passes) in enumerate(_CHECKS):
        if not passes(sentence, settings):
            return number, reason.format(settings=settings)
    if identified(sentence) not in ("", language):
        return len(_CHECKS), f"no sentence in the language {language}"
    return None


def _misplaced(prefix: str, sentence: str, plain_text: str) -> Failure | None:
    """Return why the text around a sentence forbids it; None if it does not."""
    near = prefix[-_NEAR:]
    if not prefix or prefix.isspace():
        return _NO_PREFIX
    if not prefix[-1].isspace() and not _UNSPACED.search(near):
        return _JOINED
    if _OPEN.search(near):
        return _HALF
    plain_sentence = plain(sentence)
    first = plain_text.find(plain_sentence)
    if plain_text.find(plain_sentence, first + 1) >= 0:
        return _REPEATED
    return None


def _has_begin(sentence: str) -> bool:
    bare = sentence.lstrip(_OPENING)
    first = bare[:1]
    is_capital = first.isalpha() and not first.islower()
    return len(sentence) - len(bare) <= 2 and (first.isdecimal() or is_capital)


def _count_words(sentence: str) -> float:
    """Count the words of a sentence; of a script without spaces, two signs count as one."""
    words = [*sentence.split(), *spaced(sentence).split()]
    return sum(any(map(str.isalnum, word)) for word in words) / 2


def _is_short(sentence: str, settings: SelectSettings) -> bool:
    longest = max(map(len, spaced(sentence).split()), default=0)
    return _count_words(sentence) <= settings.max_words and longest <= _LONGEST_WORD


def _is_running(sentence: str) -> bool:
    """Mostly letters, some of them small, and no more capitals than small ones."""
    letters = sum(map(str.isalpha, sentence))
    capitals = sum(map(str.isupper, sentence))
    signs = sum(not character.isspace() for character in sentence)
    return 2 * letters > signs and 2 * capitals < letters


def _is_no_title(sentence: str) -> bool:
    _, *words = re.findall(r"[^\W\d_]+", sentence) or [""]
    long_words = [word for word in words if len(word) >= _HEADLINE_WORD]
    capitals = sum(word[0].isupper() for word in long_words)
    return len(long_words) < 4 or capitals < 0.9 * len(long_words)


def _has_no_controls(sentence: str) -> bool:
    """No control or format characters, wrongly decoded text, or what Unicode does not know."""
    return "\N{REPLACEMENT CHARACTER}" not in sentence and not any(
        unicodedata.category(character)[0] == "C" for character in sentence
    )


def _is_balanced(sentence: str) -> bool:
    """Brackets and quotes open and close within the sentence."""
    if sentence.count('"') % 2:
        return False
    still_open: list[str] = []
    for character in sentence:
        if still_open[-1:] == ["„"] and character in "“”":
            still_open.pop()
        elif character == "„" or character in _PAIRS.values():
            still_open.append(character)
        elif character in _PAIRS and (not still_open or still_open.pop() != _PAIRS[character]):
            return False
    return not still_open


_CHECKS: tuple[tuple[str, Callable[[str, SelectSettings], bool]], ...] = (
    (
        "no sentence that ends with . ! or ?",
        lambda sentence, _: bool(_END.search(sentence)) and not _ELLIPSIS.search(sentence),
    ),
    (
        "no sentence that begins with a capital or a digit",
        lambda sentence, _: _has_begin(sentence),
    ),
    (
        "no sentence of {settings.min_words} words or more",
        lambda sentence, settings: _count_words(sentence) >= settings.min_words,
    ),
    ("no sentence that is short enough", _is_short),
    ("no sentence of running text", lambda sentence, _: _is_running(sentence)),
    ("no sentence that isn't a headline", lambda sentence, _: _is_no_title(sentence)),
    ("no sentence without control characters", lambda sentence, _: _has_no_controls(sentence)),
    ("no sentence without markup", lambda sentence, _: not _MARKUP.search(sentence)),
    ("no sentence without a web address", lambda sentence, _: not _WEB.search(sentence)),
    (
        "no sentence whose quotes and brackets are balanced",
        lambda sentence, _: _is_balanced(sentence),
    ),
)
