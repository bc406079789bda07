"""The first stage (section 3.2.1): one sentence a document, and all the text before it. A
completion is a whole running sentence in the language of the corpus, no headline and nothing of a
page's machinery."""

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

_RULES = 5  # raised when a change of the rules can change what is selected
_EMPTY, _ALONE, _JOINED, _REPEATED, _KNOWN, _CODE, _HALF, _NO_OTHER = (
    "the text is empty",
    "no text before the sentence",
    "no white space before the sentence",
    "no sentence that the rest of the text does not repeat",
    "no sentence that is not in a document before it",
    "no sentence outside code and tables",
    "no sentence that begins after the end of another",
    "no other sentence",
)
# a line that ends as no sentence does: what follows is the rest of it
_WORDS_THAT_GO_ON = (
    "a an the of to in on at by for from with and or but that which is are was were be as if"
    " not its"
)
_OPEN = re.compile(rf"(?:,|\b(?:{_WORDS_THAT_GO_ON.replace(' ', '|')}))[ \t\r]*\n\s*\Z")


class Select:
    """Examples whose ``prefix`` is a whole document in, a sentence as ``completion`` and what
    stands before it out: the first that will do of those that no draw before has ``tried``."""

    name = "select"

    def __init__(self, settings: SelectSettings, seed: int, language: str = ENGLISH) -> None:
        self._settings = settings
        self._seed = seed
        self._language = language

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        seed = {"seed": self._seed} if self._settings.position == "random" else {}
        language = {"language": self._language, "py3langid": version("py3langid")}
        about = {
            "rules": _RULES,
            **language,
            "sentencex": version("sentencex"),
            **asdict(self._settings),
            **seed,
        }
        del about["draws"]  # another draw is another folder, and leaves those before it as they are
        return about

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Each document with its sentence, or the reason why none of its sentences will do."""
        return [example if example.unused else self._select(example) for example in examples]

    def _select(self, example: Example) -> Example:
        doc_id, text = example.doc_id, example.prefix
        bounds = example.spans or tuple(chain.from_iterable(sentences(text, self._language)))
        is_code, known = (
            verbatim(text.split("\n")),
            set(example.repeated if self._settings.once else ()),
        )
        # each sentence that will do is as likely as the others to be the first of them in a random
        # order
        order = list(range(len(bounds) // 2))
        if self._settings.position == "random":
            random.Random(f"{self._seed}/select/{doc_id}").shuffle(order)
        elif self._settings.position == "last":
            order.reverse()
        whole = plain(text)
        furthest = (-1, _EMPTY)
        for tried, number in enumerate(order[example.tried :], start=example.tried + 1):
            start, end = bounds[2 * number : 2 * number + 2]
            sentence = text[start:end]
            failure = failed(sentence, self._settings, self._language) or _misplaced(
                text[:start], sentence, whole
            )
            if failure is None and start in known:
                failure = 105, _KNOWN
            elif failure is None and is_code[text.count("\n", 0, start)]:
                failure = 104, _CODE
            if failure is None:
                return Example(
                    doc_id, text[:start], sentence, draw=example.draw, spans=bounds, tried=tried
                )
            furthest = max(furthest, failure)
        reason = _NO_OTHER if example.tried else furthest[1]
        return Example(doc_id, draw=example.draw).drop(self.name, reason)


def _misplaced(prefix: str, sentence: str, whole: str) -> tuple[int, str] | None:
    """Why the text around ``sentence`` forbids it, told as :func:`factor_gen.select.failed` does;
    these come after its own."""
    if not prefix or prefix.isspace():
        return 100, _ALONE
    if not prefix[-1].isspace() and not _UNSPACED.search(prefix[-40:]):
        return 101, _JOINED
    if _OPEN.search(prefix[-40:]):
        return 103, _HALF
    found = plain(sentence)
    if whole.find(found, whole.find(found) + 1) >= 0:
        return 102, _REPEATED
    return None


def _count(sentence: str) -> float:
    """The words of a sentence; of a script without spaces, two signs count as one."""
    return (
        sum(any(map(str.isalnum, word)) for word in (*sentence.split(), *spaced(sentence).split()))
        / 2
    )


_LONGEST_WORD = 60  # characters
_HEADLINE_WORD = 5  # letters: shorter words are often small in headlines and capital in names
_END = re.compile(r"[.!?。！？।؟][\"'“”’»«)\]」』）》]*\Z")
_ELLIPSIS = re.compile(r"(\.\s*\.|…|\b(?:e\.g|i\.e|viz|cf)\.)[\"'”’»)\]]*\Z")
_WEB = re.compile(
    r"(?i:https?:|www\.|\w@\w)|\b[a-z0-9-]+\.(?:com|org|net|gov|edu|co\.uk|html?|php)\b"
)  # not Amazon.com
_MARKUP = re.compile(
    r"\](?=[\[(])|</?[A-Za-z!][^>]*>?|&(?:#x?[0-9a-fA-F]+|[A-Za-z]+);|\{\{|\}\}|\[\[|\]\]|[|{}\\^~\t•●■▪►→]"
)
_OPENING = "\"'“„‘«»([$€£¥¿¡「『《（"
_PAIRS = {")": "(", "]": "[", "”": "“", "»": "«", "」": "「", "』": "『", "》": "《", "）": "（"}
_UNSPACED = re.compile(
    r"([。！？][”」』）》]*|^\w+:)\Z", re.MULTILINE
)  # ends of sentences, and labels, that no space follows


def failed(
    sentence: str, settings: SelectSettings, language: str = ENGLISH
) -> tuple[int, str] | None:
    """The number of the first check that ``sentence`` fails and what then may be said of a document
    of such sentences."""
    for number, (reason, passes) in enumerate(_CHECKS):
        if not passes(sentence, settings):
            return number, reason.format(settings=settings)
    return (
        None
        if identified(sentence) in ("", language)
        else (len(_CHECKS), f"no sentence in the language {language}")
    )


def _has_begin(sentence: str, _: SelectSettings) -> bool:
    bare = sentence.lstrip(_OPENING)
    return len(sentence) - len(bare) <= 2 and (
        bare[:1].isdecimal() or (bare[:1].isalpha() and not bare[:1].islower())
    )


def _is_short(sentence: str, settings: SelectSettings) -> bool:
    words = spaced(sentence).split()
    return (
        _count(sentence) <= settings.max_words and max(map(len, words), default=0) <= _LONGEST_WORD
    )


def _is_running(sentence: str, _: SelectSettings) -> bool:
    """Mostly letters, some of them small, and no more capitals than small ones."""
    letters = sum(map(str.isalpha, sentence))
    return (
        2 * letters > sum(not character.isspace() for character in sentence)
        and 2 * sum(map(str.isupper, sentence)) < letters
    )


def _is_no_title(sentence: str, _: SelectSettings) -> bool:
    words = [word for word in re.findall(r"[^\W\d_]+", sentence)[1:] if len(word) >= _HEADLINE_WORD]
    return len(words) < 4 or sum(word[0].isupper() for word in words) < 0.9 * len(words)


def _is_balanced(sentence: str, _: SelectSettings) -> bool:
    """Brackets and quotes that open and close within the sentence."""
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
    ("no sentence that begins with a capital or a digit", _has_begin),
    (
        "no sentence of {settings.min_words} words or more",
        lambda sentence, settings: _count(sentence) >= settings.min_words,
    ),
    ("no sentence that is short enough", _is_short),
    ("no sentence of running text", _is_running),
    ("no sentence that isn't a headline", _is_no_title),
    # nor format characters, signs of text that was decoded wrongly, and what Unicode doesn't know
    (
        "no sentence without control characters",
        lambda sentence, _: (
            not any(
                each == "\N{REPLACEMENT CHARACTER}" or unicodedata.category(each)[0] == "C"
                for each in sentence
            )
        ),
    ),
    ("no sentence without markup", lambda sentence, _: not _MARKUP.search(sentence)),
    ("no sentence without a web address", lambda sentence, _: not _WEB.search(sentence)),
    ("no sentence whose quotes and brackets are balanced", _is_balanced),
)
