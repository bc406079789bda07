"""Typed answers: a question declares the model (pydantic) of its reply, a JSON object.

One reader validates what comes back. Backends that can are held to the model's JSON schema; others
are asked for the object in the words of the prompt. A reply that does not validate is asked for
once more, with the error; then it is unscored, with the reason.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from judges.answers import Answer, Request
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

NO_OBJECT = "no JSON object"
JUDGE_ERROR = "judge error"
CUT_OFF = "cut off"
_NO_ANSWER = Answer(None)
_NO_JSON = object()
_MOST_LISTED = 10  # numbers in a problem
_LONGEST_QUOTE = 2000  # characters of a reply that are shown to the judge again
_LONGEST_PROBLEM = 300  # characters, for a model may call a field what it likes
_WORDS_AROUND = 200  # characters of ours around both, at most


class Reply(BaseModel):
    """What a judge replies: an object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


R = TypeVar("R", bound=Reply)
ReplyCheck = Callable[
    [R, Mapping[str, Any]], str
]  # (reply, subject) to what is wrong with it beyond its type; "" if nothing is


@dataclass(frozen=True)
class ParsedReply(Generic[R]):
    """The reply that an answer holds, or the ``problem`` why it holds none."""

    value: R | None
    problem: str = ""
    answer: Answer = _NO_ANSWER


@cache
def json_schema_of(reply: type[Reply]) -> str:
    """The JSON schema of a reply as one line.

    Every field is required and none may be added: servers that are strict insist on both. The
    fields keep their order, in which some servers make a model write them: the reason before the
    verdict.
    """
    schema = reply.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part["required"] = list(part["properties"])
            part["additionalProperties"] = False
    return json.dumps(json.loads(json.dumps(schema), object_hook=_without_title))


def read_reply(
    answer: Answer, reply: type[R], subject: Mapping[str, Any], check: ReplyCheck[R] | None = None
) -> ParsedReply[R]:
    """Read an answer as a reply.

    A list alone is read as the only field of a reply, if that is a list.

    Args:
        answer: What the judge wrote.
        reply: The type of the reply.
        subject: What the question was about.
        check: Is asked about a reply that has the right type.
    """
    if answer.text is None or answer.error is not None:
        return ParsedReply(None, f"{JUDGE_ERROR}: {answer.error or 'no text'}", answer)
    text = without_thinking(answer.text)
    if text is None:
        return ParsedReply(None, UNFINISHED, answer)
    if not text.strip():
        is_filtered = answer.finish_reason == "content_filter"
        return ParsedReply(None, "content filter" if is_filtered else "empty answer", answer)
    found = _json_in(text.strip())
    if found is _NO_JSON:
        return ParsedReply(None, CUT_OFF if answer.is_cut_off else NO_OBJECT, answer)
    (name, field), *others = reply.model_fields.items()
    if isinstance(found, list) and not others and get_origin(field.annotation) in (list, tuple):
        found = {name: found}
    try:
        value = reply.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join("N" if isinstance(part, int) else part for part in first["loc"])
        fault = f"{place}: {first['msg']}" if place else str(first["msg"])
        return ParsedReply(None, f"wrong form: {fault[:_LONGEST_PROBLEM]}", answer)
    problem = check(value, subject) if check else ""
    return ParsedReply(None if problem else value, problem, answer)


def longest_retry_request(request: Request) -> Request:
    """A request that is no shorter than any `once_more` of it, for an estimate."""
    longest = _LONGEST_QUOTE + _LONGEST_PROBLEM + _WORDS_AROUND
    return replace(request, prompt=request.prompt + "\U00020000" * longest)


def numbering_problem(numbers: Sequence[int], count: int, what: str, is_whole: bool = True) -> str:
    """For a check: what is wrong with the numbers that a reply gives.

    Args:
        numbers: Should be from 1 to ``count``, none twice.
        count: How many there are.
        what: Is numbered, such as ``segment``.
        is_whole: Whether all numbers have to be there.

    Example: ``no segment 2, 3``
    """
    outside = [number for number in numbers if not 1 <= number <= count]
    if outside:
        return f"{what} {outside[0]} of {count}"
    twice = [number for number, times in Counter(numbers).items() if times > 1]
    if twice:
        return f"{what} {_listed(twice)} twice"
    missing = sorted(set(range(1, count + 1)).difference(numbers)) if is_whole else []
    return f"no {what} {_listed(missing)}" if missing else ""


def _listed(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:_MOST_LISTED]))
    return f"{listed}, ..." if len(numbers) > _MOST_LISTED else listed


def is_worth_retrying(read: ParsedReply[Any]) -> bool:
    """Whether the judge said something that it may say better.

    A thought without an end wants more tokens instead.
    """
    if read.value is not None or read.answer.error is not None or read.answer.text is None:
        return False
    return read.problem != UNFINISHED


def retry_request(request: Request, read: ParsedReply[Any]) -> Request:
    """The question again, with the reply that could not be used and the reason."""
    reply = without_thinking(read.answer.text or "") or ""
    if len(reply) > _LONGEST_QUOTE:
        reply = f"{reply[:_LONGEST_QUOTE]} ..."
    prompt = (
        f"{request.prompt}\n\nYour reply to this was:\n{reply.strip() or '(nothing)'}\n\nIt cannot"
        f" be used: {read.problem[:_LONGEST_PROBLEM]}. Reply once more, with the JSON object alone."
    )
    return replace(request, prompt=prompt)


def _json_in(text: str) -> Any:
    """The JSON in a reply, ``_NO_JSON`` if there is none.

    It is the whole text, what stands in its only code fence, or what is between its first brace and
    its last. Each is tried once, so that the time is linear in the text.
    """
    fences = text.split("```")
    fenced = fences[1].removeprefix("json") if len(fences) == 3 else ""
    # A list within an object that does not end is not the reply.
    start, end = "{}" if "{" in text else "[]"
    between = text[text.find(start) : text.rfind(end) + 1] if start in text else ""
    for candidate in (text, fenced, between):
        try:
            value = json.loads(candidate)
            # Halves of surrogate pairs, which no file can hold, become question marks.
            storable = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            return json.loads(storable)
        except (ValueError, RecursionError):
            continue
    return _NO_JSON


def _without_title(node: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema without the title that pydantic makes of a name."""
    return {
        name: value for name, value in node.items() if name != "title" or not isinstance(value, str)
    }
