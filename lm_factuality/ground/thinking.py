"""Separation of a model's answer from its thoughts, by the marks of ``thinking.yaml``.

Evaluated models and judges both use it: for texts of local models, and for replies of servers,
which may return thoughts in separate fields.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_factuality.ground.packages import load_yaml, replaced

if TYPE_CHECKING:
    from lm_eval.api.model import LM

_Reply = dict[str, Any]
"""A server's reply to a chat request, as the OpenAI chat API defines it."""

# The reason why an output without an answer is unscored.
UNFINISHED = "thinking without an end"
ROOM_TO_THINK = 4096  # tokens to add to the limit of a model that turns out to think

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
# The marks that we add where a thought has none.
_THINK_OPENING = "<think>"
_THINK_CLOSING = "</think>"
# Soft hyphen, zero-width characters, marks of direction.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_PLAIN_SIGNS = str.maketrans(
    "\u2018\u2019\u201c\u201d\u2010\u2011\u2012\u2013\u2014\u2212", "''\"\"------"
)
_CODE = re.compile(r"```\w*|`")
# Stars stay within a number (1*2 is not 12), and underscores within a word (ALL_CORRECT).
_EMPHASIS = (
    re.compile(r"(?<=\d)(\*+)(?=\d)|\*+"),
    re.compile(r"(?<=[^\W_])(_+)(?=[^\W_])|_+"),
)


@dataclass(frozen=True)
class Output:
    """The text that a model wrote, divided into its answer and its thoughts."""

    written: str
    """The whole text, with thoughts and marks."""

    spans: tuple[tuple[int, int], ...]
    """The start and end offset in ``written`` of each piece of the answer, in order.

    The rest of ``written`` is thoughts and marks.
    """

    is_unfinished: bool
    """Whether a thought is still open at the end, so that the model gave no answer."""

    @property
    def text(self) -> str:
        """The answer: the text without thoughts and marks."""
        return "".join(self.written[start:end] for start, end in self.spans)

    def written_up_to(self, length: int) -> str:
        """Cut the written text off after the first characters of the answer.

        Characters of thoughts, which lie between the pieces of the answer, do not count.

        Example:
            In ``<think>Who?</think> Ada.``, the first 4 characters of the answer are `` Ada``, so
            the text is cut off before the full stop.

        Args:
            length: The number of characters of `text` to keep.

        Returns:
            The beginning of ``written``, with all thoughts that precede the cut. The whole of
            ``written`` if the answer is not longer than ``length``.
        """
        remaining = length
        for start, end in self.spans:
            # The cut lies within this piece of the answer.
            if remaining <= end - start:
                return self.written[: start + remaining]
            remaining -= end - start
        return self.written


def read_output(written: str) -> Output:
    """Divide the text that a model wrote into its answer and its thoughts, in linear time.

    Thoughts are the reasoning that a model writes between marks such as ``<think>`` and
    ``</think>``. If a closing mark has no opening mark, all text before it is a thought: chat
    templates may open the thought in the prompt, and servers leave that mark out.

    Args:
        written: The whole text, with its marks.

    Returns:
        The divided text. For ``<think>Who?</think> Ada.`` the answer is ``Ada.``
    """
    spans: list[tuple[int, int]] = []
    start = 0  # where the present piece of the answer begins
    open_thought: _Mark | None = None  # the opening mark of the thought that is being read
    has_thought = False

    for mark in _marks_in(written):
        if open_thought is not None:
            # Other marks within a thought belong to it, such as <think> in a quotation.
            if not mark.closes(open_thought):
                continue
        elif mark.kind == "closes":
            # A closing mark that is a plain sentence ends nothing without its opening mark.
            if not mark.may_be_alone:
                continue
            # The thought began in the prompt, so all text before this mark belongs to it.
            spans.clear()
        else:
            # Each other mark ends a piece of the answer. Only an opening mark begins a thought:
            # after a mark between two messages, the next piece begins.
            spans.append((start, mark.start))
            start = mark.end
            open_thought = mark if mark.kind == "opens" else None
            continue

        # The thought ends here. Some models mark their answer too, for example with <answer>.
        answer_mark = _ANSWER_OPENS.match(written, mark.end)
        start = answer_mark.end() if answer_mark else mark.end
        open_thought = None
        has_thought = True

    # The text after the last thought is the last piece, without a mark such as </answer>.
    if open_thought is None:
        closing = _ANSWER_CLOSES.search(written, start) if has_thought else None
        spans.append((start, closing.start() if closing else len(written)))

    filled_spans = tuple((begin, end) for begin, end in spans if begin < end)
    return Output(written, filled_spans, is_unfinished=open_thought is not None)


class _Mark(NamedTuple):
    """A mark of a thought, or between two messages, in a text."""

    kind: str
    """``opens``, ``closes`` or ``between``."""

    format_number: str
    """The place of its format in ``thinking.yaml``, such as ``0``. Empty for ``between``."""

    start: int
    """The offset in the text at which it begins."""

    end: int
    """The offset after it."""

    def closes(self, opening: "_Mark") -> bool:
        """Tell whether the mark ends the thought that another mark began."""
        return self.kind == "closes" and self.format_number == opening.format_number

    @property
    def may_be_alone(self) -> bool:
        """Whether this closing mark ends a thought whose opening mark is missing."""
        return bool(_THOUGHTS[int(self.format_number)].get("alone", True))


def _marks_in(text: str) -> Iterator[_Mark]:
    """Yield the marks in a text, in order."""
    for match in _MARKS.finditer(text):
        # The name of the group that matched is "opens_0", "closes_0" or "between".
        kind, _, format_number = str(match.lastgroup).partition("_")
        yield _Mark(kind, format_number, match.start(), match.end())


def without_thinking(written: str) -> str | None:
    """Return a model's answer without its thoughts, or None if its thinking never ends.

    Args:
        written: The whole text that the model wrote, such as ``<think>Who?</think> Ada.``

    Returns:
        The answer, such as ``Ada.``
    """
    output = read_output(written)
    return None if output.is_unfinished else output.text


def answer_or_thoughts(written: str) -> str:
    """Return a model's answer, or all that it wrote if its thinking never ends.

    Pages show this text, so that a reader sees why there is no answer.
    """
    answer = without_thinking(written)
    return written if answer is None else answer


def trailing_opening_mark(prompt: str) -> str:
    """Return the mark at the end of a prompt that opens a thought, or an empty string.

    Chat templates of reasoning models often end in one. For ``Who wrote it? <think>`` the mark is
    ``<think>``.
    """
    prompt_end = prompt.rstrip()[-_LONGEST_OPENING:]
    for mark in _marks_in(prompt_end):
        if mark.kind == "opens" and mark.end == len(prompt_end):
            return prompt_end[mark.start :]
    return ""


def marks_thoughts(text: str) -> bool:
    """Tell whether a chat template or a token contains a mark of a thought."""
    return any(mark.kind != "between" for mark in _marks_in(text))


def plain_answer(written: str) -> str | None:
    """Simplify a model's answer so that a parser can read it.

    Markdown emphasis, code marks, invisible characters and empty lines are removed. Compatibility
    forms (NFKC), quotes, hyphens and white space are each written in one way.

    Args:
        written: The whole text that the model wrote.

    Returns:
        The answer without thoughts, or None if the thinking never ends. ``**1**, `2` `` becomes
        ``1, 2``.
    """
    normalized = unicodedata.normalize("NFKC", written)
    text = without_thinking(_INVISIBLE.sub("", normalized))
    if text is None:
        # The thinking never ends, so there is no answer to simplify.
        return None

    # Models that write Markdown escape the underscores of names such as ALL\_CORRECT.
    text = text.replace("\\_", "_").translate(_PLAIN_SIGNS)
    text = _CODE.sub("", text)
    for emphasis in _EMPHASIS:
        text = emphasis.sub(r"\1", text)

    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(line for line in lines if line)


def content_of(choice: Mapping[str, Any]) -> str | None:
    """Return the text of one choice of a server's chat reply, or None if it has no text.

    If the token limit cut the reply off before its text began, all tokens went into thoughts,
    which servers return in a separate field or hide. The function then returns ``<think>`` and
    these thoughts, without ``</think>``, so that readers know why there is no answer.

    Args:
        choice: An entry of ``choices``, as the OpenAI chat API defines it.

    Returns:
        The content, the refusal, or ``<think>`` and the unfinished thoughts.
    """
    message = choice["message"]
    content: str | None = message.get("content")
    # OpenAI's models write a refusal into a field of its own.
    text: str | None = content or message.get("refusal")
    if text:
        return text
    if choice.get("finish_reason") == "length":
        # The thoughts used up the token limit.
        return f"{_THINK_OPENING}{reasoning_of(choice)}"
    # The reply is complete, so its empty content is the model's answer.
    return content


def reasoning_of(choice: Mapping[str, Any]) -> str:
    """Return the thoughts that a server's chat reply has beside its text, empty if it has none."""
    message = choice["message"]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def _text_with_thoughts(choice: Mapping[str, Any]) -> str | None:
    """Return a chat reply as one text, in which the thoughts come before the answer.

    Servers return thoughts in a field of their own, where lm_eval does not read them.

    Example:
        The content ``Ada.`` with the reasoning ``Who?`` gives ``<think>Who?</think>Ada.``

    Args:
        choice: An entry of ``choices``, as the OpenAI chat API defines it.
    """
    text = content_of(choice)
    thoughts = reasoning_of(choice)
    # Some servers send the thoughts in the text as well. They are not added a second time.
    if not text or not thoughts or marks_thoughts(text):
        return text
    # A mark such as </think> within the thoughts would end them too early.
    thoughts = _MARKS.sub("", thoughts)
    return f"{_THINK_OPENING}{thoughts}{_THINK_CLOSING}{text}"


@contextmanager
def thoughts_kept(model: "LM") -> Iterator[Callable[[str], str]]:
    """Make a model of lm_eval return its thoughts with its answers while the block runs.

    lm_eval drops thoughts in three ways, which are turned off meanwhile: it cuts texts off at the
    ``think_end_token``, it drops special tokens such as ``<think>``, and it ignores the fields for
    thoughts in the replies of chat servers.

    Args:
        model: The model, of which some methods and attributes are replaced.

    Yields:
        A function to apply to each text of the model. It replaces a ``think_end_token`` that
        `read_output` does not know, such as ``[done]``, by ``</think>``.
    """
    special_tokens = _special_tokens_of(model)
    end_mark = _think_end_mark(model, special_tokens)

    replacements: dict[str, Any] = {}
    if end_mark is not None:
        # lm_eval cuts no text off if this attribute is None.
        replacements["think_end_token"] = None
    # Most models have no special tokens for thoughts, and decode as before.
    has_marks = any(token == end_mark or marks_thoughts(token) for token in special_tokens.values())
    if has_marks and hasattr(model, "tok_decode"):
        dropped_tokens = _tokens_to_drop(special_tokens, end_mark)
        replacements["tok_decode"] = partial(_decode_with_marks, model.tok_decode, dropped_tokens)
    if _ignores_thoughts_of_servers(model):
        replacements["parse_generations"] = partial(_parse_with_thoughts, model.parse_generations)

    with replaced(model, **replacements):
        yield partial(_restore_end_mark, end_mark)


def _special_tokens_of(model: "LM") -> dict[int, str]:
    """Return the special tokens of a model's tokenizer by their ids. Empty without a tokenizer."""
    added_tokens = getattr(getattr(model, "tokenizer", None), "added_tokens_decoder", {})
    return {token_id: str(token) for token_id, token in added_tokens.items() if token.special}


def _ignores_thoughts_of_servers(model: "LM") -> bool:
    """Tell whether a model is lm_eval's client of chat servers, which reads no thoughts."""
    # An import of the class would need the packages of an extra.
    return any(base.__name__ == "LocalChatCompletion" for base in type(model).__mro__)


def _restore_end_mark(end_mark: str | None, text: str) -> str:
    """Write the end of each thought as ``</think>``, if `read_output` does not know its mark."""
    # A mark that `read_output` takes for a piece of an answer is one that it does not know.
    if end_mark and read_output(end_mark).spans:
        return text.replace(end_mark, _THINK_CLOSING)
    return text


def _tokens_to_drop(special_tokens: Mapping[int, str], end_mark: str | None) -> set[int]:
    """Return the ids of the special tokens that belong to no thinking mark.

    A thinking mark is a text that begins or ends a thought, such as ``<think>``. Tokens of marks
    must stay in decoded texts. A token such as ``<|im_end|>`` belongs to no mark and is dropped.

    Args:
        special_tokens: The special tokens of a tokenizer by their ids.
        end_mark: The mark with which the model ends its thoughts, or None if it is not known.
    """
    token_ids = set()
    for token_id, token in special_tokens.items():
        if token != end_mark and not _PART_OF_MARK.fullmatch(token):
            token_ids.add(token_id)
    return token_ids


def _think_end_mark(model: "LM", special_tokens: Mapping[int, str]) -> str | None:
    """Return the text of a model's ``think_end_token``, which lm_eval takes as a text or a number.

    Args:
        model: The model.
        special_tokens: The special tokens of its tokenizer by their ids.

    Returns:
        The text, such as ``</think>``, or None if the model has no such token.
    """
    token: str | int | None = getattr(model, "think_end_token", None)
    if isinstance(token, int):
        return special_tokens.get(token) or str(model.tokenizer.decode([token]))
    return token


def _decode_with_marks(
    decode: Callable[..., str],
    dropped: Collection[int],
    tokens: Iterable[int] | int,
    skip_special_tokens: bool = True,
) -> str:
    """Decode tokens like a model's ``tok_decode``, but keep the marks of thoughts.

    Marks such as ``<think>`` are special tokens of some tokenizers, which ``tok_decode`` drops.

    Args:
        decode: The model's ``tok_decode``.
        dropped: The ids of the special tokens to leave out.
        tokens: The tokens.
        skip_special_tokens: Whether to leave out the tokens in ``dropped``.
    """
    # lm_eval decodes a single token to show it, and then wants it in any case.
    if skip_special_tokens and not isinstance(tokens, int):
        tokens = [token for token in tokens if int(token) not in dropped]
    # ``decode`` would skip the marks too, so it must skip nothing.
    return decode(tokens, skip_special_tokens=False)


def _parse_with_thoughts(
    parse: Callable[..., list[str]], outputs: _Reply | list[_Reply], **options: Any
) -> list[str]:
    """Read the texts of replies like a chat client's ``parse_generations``, but with thoughts.

    The content of each reply is changed in place: reasoning from other fields is put before the
    content, between ``<think>`` and ``</think>``.

    Args:
        parse: The client's ``parse_generations``, which reads only the content of a reply.
        outputs: One reply of the server, or several.
        **options: What else lm_eval passes on to ``parse``.
    """
    # lm_eval passes a single reply without a list.
    replies = outputs if isinstance(outputs, list) else [outputs]
    for reply in replies:
        # A reply without these fields, such as an error, stays as it is: ``parse`` reports it.
        with suppress(LookupError, TypeError, AttributeError):
            for choice in reply["choices"]:
                choice["message"]["content"] = _text_with_thoughts(choice)
    return parse(outputs, **options)
