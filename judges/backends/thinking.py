"""Models of lm_eval, and replies of servers, that keep what was thought, so that it can be told
from what was said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lm_factuality.ground.thinking import is_of_mark, marks_thoughts, read_output, without_thinking

if TYPE_CHECKING:
    from lm_eval.api.model import LM

    from judges.answers import Answer

ROOM_TO_THINK = 4096  # tokens, for a judge that turns out to think
_OPENS, _CLOSES = "<think>", "</think>"  # the marks of thoughts that came without any


def is_cut_off_in_thought(answer: Answer) -> bool:
    """Whether more tokens may bring an answer to its end; so also where it is not known why it
    ended."""
    return (
        answer.finish_reason in ("length", None)
        and answer.text is not None
        and without_thinking(answer.text) is None
    )


def content_of(choice: Mapping[str, Any], usage: Any = None) -> Any:
    """The text of a chat reply's choice, None where there is none. Where the reply was cut off
    before a word was said, but has thoughts, in ``reasoning_content`` or ``reasoning`` or hidden
    ones by its ``usage``, the text is a thought without an end."""
    message = choice["message"]
    content = message.get("content") or message.get("refusal") or message.get("content")
    if content or choice.get("finish_reason") != "length":
        return content
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    hidden = isinstance(details, dict) and details.get("reasoning_tokens")
    thought = message.get("reasoning_content") or message.get("reasoning")
    return f"{_OPENS}{thought or ''}" if thought or hidden else content


@contextlib.contextmanager
def whole_texts(lm: LM) -> Iterator[Callable[[str], str]]:
    """While it lasts, ``lm`` gives what it thinks, too: it neither strips it by its
    ``think_end_token``, nor leaves out the marks where they are special tokens, nor the thought
    without an end of a server. The function given has to see each text: it puts a known mark for a
    ``think_end_token`` that is none."""
    model: Any = lm
    tokenizer: Any = getattr(model, "tokenizer", None)
    ends: Any = getattr(model, "think_end_token", None)
    replaced: dict[str, Any] = {} if ends is None else {"think_end_token": None}
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()
    special = {number: str(each) for number, each in added if getattr(each, "special", False)}
    if isinstance(ends, int):
        ends = special.get(ends) or tokenizer.decode([ends])
    if hasattr(model, "tok_decode") and any(
        marks_thoughts(token) or token == ends for token in special.values()
    ):
        dropped = {
            number for number, token in special.items() if token != ends and not is_of_mark(token)
        }
        replaced["tok_decode"] = _keeping_marks(model.tok_decode, dropped)
    if any(base.__name__ == "LocalChatCompletion" for base in type(model).__mro__):
        replaced["parse_generations"] = _with_thoughts(model.parse_generations)
    own = {name: vars(model)[name] for name in replaced if name in vars(model)}
    vars(model).update(replaced)
    try:
        is_known = not ends or read_output(ends).spans == ()
        yield (lambda text: text) if is_known else lambda text: text.replace(str(ends), _CLOSES)
    finally:
        for name in replaced:
            del vars(model)[name]
        vars(model).update(own)


def _keeping_marks(decode: Callable[..., str], dropped: set[int]) -> Callable[..., str]:
    def tok_decode(tokens: Any, skip_special_tokens: bool = True) -> str:
        if skip_special_tokens and not isinstance(tokens, int):
            tokens = [token for token in tokens if int(token) not in dropped]
        return decode(tokens, skip_special_tokens=False)

    return tok_decode


def _with_thoughts(parse: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def parse_generations(outputs: Any, **options: Any) -> list[str]:
        for reply in outputs if isinstance(outputs, list) else [outputs]:
            for choice in (reply.get("choices") or ()) if isinstance(reply, dict) else ():
                with contextlib.suppress(
                    KeyError, TypeError, AttributeError
                ):  # lm_eval says what is wrong with it
                    choice["message"]["content"] = content_of(choice, reply.get("usage"))
        return parse(outputs, **options)

    return parse_generations
