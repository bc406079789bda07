"""What a model thinks and what it says (as plain words, too), told apart in one place by the marks
of ``thinking.yaml``."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lm_factuality.ground.errors import curable
from lm_factuality.ground.packages import load_yaml

# Why what a model wrote is unscored that never came to an answer.
UNFINISHED = curable("thinking without an end", "give it more room: --metadata thinking_tokens=N")

_FORMATS: Mapping[str, Any] = load_yaml(__package__, "thinking.yaml")
_THOUGHTS: list[Mapping[str, Any]] = _FORMATS["thoughts"]
_EACH = [
    f"(?P<{kind}_{number}>{each[kind]})"
    for number, each in enumerate(_THOUGHTS)
    for kind in ("closes", "opens")
]
_MARKS = re.compile(
    f"(?={_FORMATS['begins']})(?:{'|'.join(_EACH)}|(?P<between>{_FORMATS['between']}))",
    re.IGNORECASE,
)
_ANSWER_OPENS = re.compile(rf"\s*(?:(?:{_FORMATS['answer_opens']})\s*)?", re.IGNORECASE)
_ANSWER_CLOSES = re.compile(rf"(?:{_FORMATS['answer_closes']})\s*\Z", re.IGNORECASE)
_TOKENS = re.compile(_FORMATS["tokens"], re.IGNORECASE)
_OPENING = 60  # characters, the longest opening mark at the end of a prompt
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u2060\ufeff]"
)  # soft hyphen, zero-width characters, marks of direction
_SAME = str.maketrans(
    "\u2018\u2019\u201c\u201d\u2010\u2011\u2012\u2013\u2014\u2212", "''\"\"------"
)
_CODE = re.compile(r"```\w*|`")


@dataclass(frozen=True)
class Output:
    """What a model wrote. ``spans`` are the beginnings and ends of the parts of ``written`` that it
    says; all else is thoughts and marks. ``is_unfinished``: a thought is open at its end, so that
    there is no answer, whatever was said before."""

    written: str
    spans: tuple[tuple[int, int], ...]
    is_unfinished: bool

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(self.written[start:end] for start, end in self.spans)

    def cut(self, length: int) -> str:
        """What was written up to the end of the first ``length`` characters of ``text``."""
        for start, end in self.spans:
            if length <= end - start:
                return self.written[: start + length]
            length -= end - start
        return self.written


def read_output(written: str) -> Output:
    """``written`` and what of it is no thought, in linear time. All before a closing mark that has
    no opening one is a thought: chat templates may open it in the prompt, and servers keep the mark
    to themselves."""
    spans: list[tuple[int, int]] = []
    start, thought, has_thought = 0, "", False
    for mark in _MARKS.finditer(written):
        kind, _, number = str(mark.lastgroup).partition("_")
        if kind == "opens" and not thought:
            spans.append((start, mark.start()))
            thought = number
        elif kind == "closes" and (
            thought == number or (not thought and _THOUGHTS[int(number)].get("alone", True))
        ):
            if not thought:
                spans.clear()
            opening = _ANSWER_OPENS.match(written, mark.end())
            start, thought, has_thought = opening.end() if opening else mark.end(), "", True
        elif kind == "between" and not thought:
            spans.append((start, mark.start()))
            start = mark.end()
    if not thought:
        closing = _ANSWER_CLOSES.search(written, start) if has_thought else None
        spans.append((start, closing.start() if closing else len(written)))
    return Output(
        written, tuple((begin, end) for begin, end in spans if begin < end), bool(thought)
    )


def without_thinking(written: str) -> str | None:
    """What a model says; None if its thinking never ends."""
    output = read_output(written)
    return None if output.is_unfinished else output.text


def said(written: str) -> str:
    """What a model says; where its thinking never ends, all that it wrote, so that readers see why
    there is no answer."""
    answer = without_thinking(written)
    return written if answer is None else answer


def opened_by(prompt: str) -> str:
    """The mark by which ``prompt`` ends in an open thought; empty if it does not."""
    end = prompt.rstrip()[-_OPENING:]
    mark = next((each for each in _MARKS.finditer(end) if each.end() == len(end)), None)
    return mark[0] if mark and str(mark.lastgroup).startswith("opens") else ""


def marks_thoughts(text: str) -> bool:
    """Whether ``text``, a chat template or a token, has a mark of a thought."""
    return any(mark.lastgroup != "between" for mark in _MARKS.finditer(text))


def is_of_mark(token: str) -> bool:
    """Whether a special token is a part of what ``read_output`` looks for."""
    return _TOKENS.fullmatch(token) is not None


def plain(output: str) -> str | None:
    """``output`` without thinking, emphasis, code marks and invisible characters, in compatibility
    forms (NFKC), with straight quotes, plain hyphens and single spaces, empty lines left out; None
    if the thinking never ends."""
    text = without_thinking(_INVISIBLE.sub("", unicodedata.normalize("NFKC", output)))
    if text is None:
        return None
    text = _CODE.sub("", text.replace("\\_", "_").translate(_SAME))
    text = re.sub(r"_+", _within, re.sub(r"\*+", _within, text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _within(marks: re.Match[str]) -> str:
    """Stars within a number (1*2 is not 12) and lines within a word (ALL_CORRECT) as they are, else
    nothing."""
    around = (
        marks.string[max(0, marks.start() - 1) : marks.start()],
        marks.string[marks.end() : marks.end() + 1],
    )
    return marks[0] if all(map(str.isdigit if marks[0][0] == "*" else str.isalnum, around)) else ""
