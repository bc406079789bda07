"""What a model thinks and what it says, told apart in one place by the marks of ``thinking.yaml``.

This serves evaluated models and judges alike: texts of local models, and replies of servers, which
may hold thoughts in fields of their own.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lm_factuality.ground.packages import load_yaml, replaced

# Why what a model wrote is unscored that never came to an answer.
UNFINISHED = "thinking without an end"
ROOM_TO_THINK = 4096  # tokens, for a model that turns out to think

_FORMATS: Mapping[str, Any] = load_yaml(__package__, "thinking.yaml")
_THOUGHTS: list[Mapping[str, Any]] = _FORMATS["thoughts"]
_PATTERNS = [
    f"(?P<{kind}_{number}>{thought[kind]})"
    for number, thought in enumerate(_THOUGHTS)
    for kind in ("closes", "opens")
]
_MARKS = re.compile(
    f"(?={_FORMATS['begins']})(?:{'|'.join(_PATTERNS)}|(?P<between>{_FORMATS['between']}))",
    re.IGNORECASE,
)
_ANSWER_OPENS = re.compile(rf"\s*(?:(?:{_FORMATS['answer_opens']})\s*)?", re.IGNORECASE)
_ANSWER_CLOSES = re.compile(rf"(?:{_FORMATS['answer_closes']})\s*\Z", re.IGNORECASE)
_PART_OF_MARK = re.compile(_FORMATS["tokens"], re.IGNORECASE)
_LONGEST_OPENING = 60  # characters of an opening mark at the end of a prompt
# The marks of a thought that came without any.
_OPENS = "<think>"
_CLOSES = "</think>"
# Soft hyphen, zero-width characters, marks of direction.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_PLAIN_SIGNS = str.maketrans(
    "\u2018\u2019\u201c\u201d\u2010\u2011\u2012\u2013\u2014\u2212", "''\"\"------"
)
_CODE = re.compile(r"```\w*|`")
# Stars stay within a number (1*2 is not 12), and underscores within a word (ALL_CORRECT).
_EMPHASIS = (r"(?<=\d)(\*+)(?=\d)|\*+", r"(?<=[^\W_])(_+)(?=[^\W_])|_+")


@dataclass(frozen=True)
class Output:
    """What a model wrote."""

    written: str

    spans: tuple[tuple[int, int], ...]
    """Beginnings and ends of the parts of ``written`` that the model says.

    All else is thoughts and marks.
    """

    is_unfinished: bool
    """Whether a thought is open at the end: there is no answer, whatever was said before."""

    @property
    def text(self) -> str:
        """What the model says."""
        return "".join(self.written[start:end] for start, end in self.spans)

    def cut(self, length: int) -> str:
        """What was written up to the end of the first ``length`` characters of ``text``."""
        for start, end in self.spans:
            if length <= end - start:
                return self.written[: start + length]
            length -= end - start
        return self.written


def read_output(written: str) -> Output:
    """Tell what a model says from what it thinks, in linear time.

    All before a closing mark that has no opening one is a thought: chat templates may open it in
    the prompt, and servers keep the mark to themselves.

    Example: The text of ``<think>Who?</think> Ada.`` is ``Ada.``
    """
    spans: list[tuple[int, int]] = []
    start = 0
    open_thought = ""  # the number of its marks in the table
    has_thought = False
    for mark in _MARKS.finditer(written):
        kind, _, number = str(mark.lastgroup).partition("_")
        if kind != "closes":
            if not open_thought:
                spans.append((start, mark.start()))
                start = mark.end()
                open_thought = number
            continue
        if not open_thought and _THOUGHTS[int(number)].get("alone", True):
            spans.clear()
        elif open_thought != number:
            continue
        opening = _ANSWER_OPENS.match(written, mark.end())
        start = opening.end() if opening else mark.end()
        open_thought = ""
        has_thought = True
    if not open_thought:
        closing = _ANSWER_CLOSES.search(written, start) if has_thought else None
        spans.append((start, closing.start() if closing else len(written)))
    filled = tuple((begin, end) for begin, end in spans if begin < end)
    return Output(written, filled, bool(open_thought))


def without_thinking(written: str) -> str | None:
    """What a model says. None if its thinking never ends."""
    output = read_output(written)
    return None if output.is_unfinished else output.text


def said(written: str) -> str:
    """What a model says, or all that it wrote if its thinking never ends.

    Readers then see why there is no answer.
    """
    text = without_thinking(written)
    return written if text is None else text


def opened_by(prompt: str) -> str:
    """The mark by which ``prompt`` ends in an open thought. Empty if it does not."""
    end = prompt.rstrip()[-_LONGEST_OPENING:]
    for mark in _MARKS.finditer(end):
        if mark.end() == len(end) and str(mark.lastgroup).startswith("opens"):
            return mark[0]
    return ""


def marks_thoughts(text: str) -> bool:
    """Whether ``text``, a chat template or a token, has a mark of a thought."""
    return any(mark.lastgroup != "between" for mark in _MARKS.finditer(text))


def plain(output: str) -> str | None:
    """What a model says, in plain signs for a parser. None if its thinking never ends.

    Emphasis, code marks, invisible characters and empty lines are left out. Compatibility forms
    (NFKC), quotes, hyphens and white space are written in one way.

    Example: ``**1**, `2` `` becomes ``1, 2``.
    """
    text = without_thinking(_INVISIBLE.sub("", unicodedata.normalize("NFKC", output)))
    if text is None:
        return None
    text = _CODE.sub("", text.replace("\\_", "_").translate(_PLAIN_SIGNS))
    for emphasis in _EMPHASIS:
        text = re.sub(emphasis, r"\1", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def content_of(choice: Mapping[str, Any], usage: Any = None) -> Any:
    """The text of a choice in a server's chat reply. None if there is none.

    Where the reply was cut off before a word was said, but after thoughts, the text is a thought
    without an end. Servers hold thoughts in ``reasoning_content`` or ``reasoning``, or only count
    hidden ones in ``usage``.
    """
    message = choice["message"]
    content = message.get("content")
    content = content or message.get("refusal") or content
    if content or choice.get("finish_reason") != "length":
        return content
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    has_hidden_thoughts = isinstance(details, dict) and details.get("reasoning_tokens")
    return f"{_OPENS}{thought}" if thought or has_hidden_thoughts else content


@contextmanager
def whole_texts(model: Any) -> Iterator[Callable[[str], str]]:
    """Have a model of lm_eval give its thoughts, too, while the block lasts.

    The model then neither strips them by its ``think_end_token``, nor leaves out marks that are
    special tokens, nor the endless thought of a chat server.

    Yields:
        What has to be done to each text: a ``think_end_token`` that is no known mark is replaced
        by one.
    """
    tokenizer = getattr(model, "tokenizer", None)
    added_tokens = getattr(tokenizer, "added_tokens_decoder", {})
    special = {number: str(token) for number, token in added_tokens.items() if token.special}
    end = getattr(model, "think_end_token", None)
    attributes: dict[str, Any] = {} if end is None else {"think_end_token": None}
    if isinstance(end, int):
        end = special.get(end) or tokenizer.decode([end])  # type: ignore[union-attr]
    marks = [token for token in special.values() if marks_thoughts(token) or token == end]
    if marks and hasattr(model, "tok_decode"):
        dropped = {
            number
            for number, token in special.items()
            if token != end and not _PART_OF_MARK.fullmatch(token)
        }
        attributes["tok_decode"] = _keeping_marks(model.tok_decode, dropped)
    if any(base.__name__ == "LocalChatCompletion" for base in type(model).__mro__):
        attributes["parse_generations"] = _with_thoughts(model.parse_generations)
    unknown_end = str(end) if end and read_output(end).spans else ""
    with replaced(model, **attributes):
        yield lambda text: text.replace(unknown_end, _CLOSES) if unknown_end else text


def _keeping_marks(decode: Callable[..., str], dropped: set[int]) -> Callable[..., str]:
    """A model's ``tok_decode`` that drops no other special tokens than those numbered."""

    def tok_decode(tokens: Any, skip_special_tokens: bool = True) -> str:
        if skip_special_tokens and not isinstance(tokens, int):
            tokens = [token for token in tokens if int(token) not in dropped]
        return decode(tokens, skip_special_tokens=False)

    return tok_decode


def _with_thoughts(parse: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """A chat client's ``parse_generations`` that reads thoughts in fields of their own."""

    def parse_generations(outputs: Any, **options: Any) -> list[str]:
        for reply in outputs if isinstance(outputs, list) else [outputs]:
            with suppress(LookupError, TypeError, AttributeError):  # lm_eval says what is wrong
                for choice in reply["choices"]:
                    choice["message"]["content"] = content_of(choice, reply.get("usage"))
        return parse(outputs, **options)

    return parse_generations
