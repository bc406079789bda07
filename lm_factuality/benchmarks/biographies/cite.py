"""The sentences of a response and the passages that each cites.

``fixed`` reads every way in which models cite: ``[1][2]``, ``[1, 2]``, ``[1-3]``, ``[1],[2]``, ``[1]-[3]``, ``[Document 1]``,
also behind the full stop and in a line of their own, in all lines. ``code`` reads as the authors do with ALCE's scorer: the first
line only, of a bracket its first number only, three citations a sentence at most, and ``[0]`` as the last passage."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lm_factuality.benchmarks.biographies.types import Generation
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.sentences import split_sentences
from lm_factuality.ground.thinking import without_thinking

Protocol = Literal["fixed", "code"]
PROTOCOLS: tuple[Protocol, ...] = ("fixed", "code")
Splitter = Callable[[str], list[str]]
MOST_CITATIONS = 3  # of a sentence under ``code``

_NUMBER = r"(?:(?:documents?|docs?|passages?|sources?)\s*)?\d{1,3}"
_SIGN = r"(?:[,;&-]|\u2013|\band\b)"  # between numbers, and between brackets
_BRACKET = rf"\[\s*{_NUMBER}(?:\s*{_SIGN}\s*{_NUMBER})*\s*\]"
_BRACKETS = re.compile(rf"(?<!\s)\s*{_BRACKET}(?:\s*(?:{_SIGN}\s*)?{_BRACKET})*", re.IGNORECASE)
_LEADING = re.compile(rf"(?P<citations>{_BRACKETS.pattern})[.,;]?", re.IGNORECASE)
_JOINT = re.compile(r"\]\s*([-\u2013])\s*\[")
_RANGE = re.compile(r"(\d+)\s*(?:-|\u2013)\s*(\d+)")
_LONGEST_RANGE = 20  # passages; anything longer is no citation but, say, years


@dataclass(frozen=True)
class CitedSentence:
    """``text`` as it was written, ``claim`` without its citations; ``citations`` are places in the passages, from 0, in the order
    in which they stand; those with no passage behind them are counted in ``num_dangling``. Once judged, ``is_supported``, and
    ``precise`` for each citation: None where there is no verdict."""

    text: str
    claim: str
    citations: tuple[int, ...]
    num_dangling: int = 0
    is_supported: bool | None = None
    precise: tuple[bool | None, ...] = ()

    @property
    def is_citing(self) -> bool:
        """Whether it cites anything, be it no passage."""
        return bool(self.citations or self.num_dangling)


def cited_sentences(generation: Generation, protocol: Protocol, split: Splitter = split_sentences) -> list[CitedSentence]:
    """The sentences of a response as ``protocol`` reads them; ``split`` cuts one line into sentences.

    A thought without an end has none. Under ``code`` a dangling citation leaves the sentence without any, for it is then not
    supported and none of its citations counts."""
    if without_thinking(generation.output) is None:
        return []
    passages = len(generation.passages)
    if protocol == "code":
        first_line = generation.output.strip().split("\n")[0]
        return [_as_alce(sentence, passages) for sentence in split(first_line)]
    found: list[str] = []
    for line in generation.output.splitlines():
        if not _has_words(line):  # a line of citations belongs to what stands above it
            if found:
                found[-1] += "".join(_BRACKETS.findall(line))
            continue
        own: list[str] = []
        begin = ""  # citations that the line begins with
        for sentence in split(line):
            if not own and not _has_words(sentence):
                begin += "".join(_BRACKETS.findall(sentence))
                continue
            match = _LEADING.match(sentence)
            if match and own:  # citations behind the full stop belong to what stands before it
                own[-1] += match["citations"]
                sentence = sentence[match.end() :].strip()
            if _has_words(sentence):
                own.append(f"{begin} {sentence}" if begin else sentence)
                begin = ""
        found += own
    return [_fixed(sentence, passages) for sentence in found]


def find_splitter(name: str) -> Splitter:
    """``rules``: the suite's own; ``punkt``: NLTK's, which ALCE uses. Raises ConfigError: no such splitter, or NLTK or its data
    is not on this machine."""
    if name == "rules":
        return split_sentences
    if name != "punkt":
        raise ConfigError(f"--sentences: found {name!r}, expected rules or punkt")
    try:
        from nltk.tokenize import sent_tokenize

        sent_tokenize("One. Two.")
    except ImportError as error:
        raise ConfigError("--sentences punkt needs NLTK; install it with: pip install nltk, or use --sentences rules") from error
    except LookupError as error:
        raise ConfigError(
            "--sentences punkt needs NLTK's data 'punkt_tab'; fetch it with: python -m nltk.downloader punkt_tab "
            "(NLTK_DATA names its folder), or use --sentences rules"
        ) from error
    split: Splitter = sent_tokenize
    return split


def _fixed(sentence: str, passages: int) -> CitedSentence:
    brackets = (_JOINT.sub(r"\1", match[0]) for match in _BRACKETS.finditer(sentence))
    distinct = list(dict.fromkeys(number for each in brackets for number in _listed(each)))
    cited = tuple(number - 1 for number in distinct if 1 <= number <= passages)
    return CitedSentence(sentence, _BRACKETS.sub("", sentence).strip(), cited, len(distinct) - len(cited))


def _has_words(text: str) -> bool:
    """Whether there is more than citations."""
    return re.search(r"\w", _BRACKETS.sub("", text)) is not None


def _listed(numbers: str) -> list[int]:
    """The numbers in brackets, ranges in full."""

    def spell_out(match: re.Match[str]) -> str:
        first, last = int(match[1]), int(match[2])
        spelled = range(first, last + 1) if first <= last <= first + _LONGEST_RANGE else (first, last)
        return ",".join(map(str, spelled))

    return [int(number) for number in re.findall(r"\d+", _RANGE.sub(spell_out, numbers))]


def _as_alce(sentence: str, passages: int) -> CitedSentence:
    numbers = [int(number) - 1 for number in re.findall(r"\[(\d{1,9})", sentence)]  # nobody gives as many passages
    claim = re.sub(r" ?\[\d+", "", sentence).replace(" |", "").replace("]", "").strip()
    if any(number >= passages for number in numbers):
        return CitedSentence(sentence, claim, (), len(numbers))
    return CitedSentence(sentence, claim, tuple(number % passages for number in numbers[:MOST_CITATIONS]))
