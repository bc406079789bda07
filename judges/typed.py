"""Typed answers: a question declares the model (pydantic) of its reply, a JSON object, and one
reader validates what comes back.

Backends that can are held to the model's JSON schema; others are asked for the object in the words
of the prompt. A reply that does not validate is asked for once more, with the error; then it is
unscored, with the reason."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from judges.answers import Answer, Request
from lm_factuality.ground.errors import curable
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

NO_OBJECT = curable(
    "no JSON object",
    "take a stronger judge, or a server that holds replies to a schema (docs/judges.md)",
)
JUDGE_ERROR = curable(
    "judge error",
    "see that the judge's server answers; lm-factuality judge asks again what got no answer",
)
CUT_OFF = curable("cut off", "a larger max_tokens under decoding in the judge's YAML")
_NO_ANSWER = Answer(None)
_MOST_LISTED = 10  # numbers in a problem
_LONGEST_QUOTE = 2000  # characters of a reply that are shown to the judge again
_LONGEST_PROBLEM = 300  # characters, for a model may call a field what it likes
_WORDS_AROUND = 200  # characters of ours around both, at most


class Reply(BaseModel):
    """What a judge replies: an object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


R = TypeVar("R", bound=Reply)
Check = Callable[
    [R, Mapping[str, Any]], str
]  # (reply, subject) to what is wrong with it beyond its type; "" if nothing is


@dataclass(frozen=True)
class Typed(Generic[R]):
    """The reply that an answer holds, or the ``problem`` why it holds none."""

    value: R | None
    problem: str = ""
    answer: Answer = _NO_ANSWER


@cache
def schema_of(reply: type[Reply]) -> str:
    """The JSON schema of ``reply`` as one line, every field required and none added: servers that
    are strict insist on both. The fields keep their order, in which some servers make a model write
    them: the reason before the verdict."""
    schema = reply.model_json_schema()
    for each in (schema, *schema.get("$defs", {}).values()):
        if "properties" in each:
            each |= {"required": list(each["properties"]), "additionalProperties": False}
    return json.dumps(_without_titles(schema))


def read_reply(
    answer: Answer, reply: type[R], subject: Mapping[str, Any], check: Check[R] | None = None
) -> Typed[R]:
    """The object in ``answer``, alone or with words or a code fence around it; a bare list stands
    for the only field of a model that has a list alone. ``check`` says what is wrong with one that
    has the right type."""
    if answer.text is None or answer.error is not None:
        return Typed(None, f"{JUDGE_ERROR}: {answer.error or 'no text'}", answer)
    text = without_thinking(answer.text)
    if text is None:
        return Typed(None, UNFINISHED, answer)
    if not text.strip():
        return Typed(
            None,
            "content filter" if answer.finish_reason == "content_filter" else "empty answer",
            answer,
        )
    found, is_json = _json_in(text.strip())
    if not is_json:
        return Typed(None, CUT_OFF if answer.is_cut_off else NO_OBJECT, answer)
    (name, field), *others = reply.model_fields.items()
    if isinstance(found, list) and not others and get_origin(field.annotation) in (list, tuple):
        found = {name: found}
    try:
        value = reply.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join("N" if isinstance(part, int) else part for part in first["loc"])
        told = f"{place}: {first['msg']}" if place else str(first["msg"])
        return Typed(None, f"wrong form: {told[:_LONGEST_PROBLEM]}", answer)
    problem = check(value, subject) if check else ""
    return Typed(None if problem else value, problem, answer)


def longest_again(request: Request) -> Request:
    """No shorter than any :func:`once_more` of a request."""
    return replace(
        request,
        prompt=request.prompt + "\U00020000" * (_LONGEST_QUOTE + _LONGEST_PROBLEM + _WORDS_AROUND),
    )


def misnumbered(numbers: Sequence[int], count: int, what: str, is_whole: bool = True) -> str:
    """For a check: what is wrong with the ``numbers``, from 1 to ``count``, that a reply gives. One
    does not exist, some are there twice or, where it has to have them all (``is_whole``), some are
    missing."""
    if outside := [number for number in numbers if not 1 <= number <= count]:
        return f"{what} {outside[0]} of {count}"
    if twice := [number for number, times in Counter(numbers).items() if times > 1]:
        return f"{what} {_listed(twice)} twice"
    missing = sorted({*range(1, count + 1)} - {*numbers}) if is_whole else []
    return f"no {what} {_listed(missing)}" if missing else ""


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:_MOST_LISTED])) + (
        ", ..." if len(numbers) > _MOST_LISTED else ""
    )


def is_worth_another_try(read: Typed[Any]) -> bool:
    """Whether the judge said something that it may say better; a thought without an end wants more
    tokens instead."""
    return (
        read.value is None
        and read.answer.error is None
        and read.answer.text is not None
        and read.problem != UNFINISHED
    )


def once_more(request: Request, read: Typed[Any]) -> Request:
    """The question again, with the reply that could not be used and the reason."""
    said = without_thinking(read.answer.text or "") or ""
    quoted = said if len(said) <= _LONGEST_QUOTE else f"{said[:_LONGEST_QUOTE]} ..."
    prompt = (
        f"{request.prompt}\n\nYour reply to this was:\n{quoted.strip() or '(nothing)'}\n\nIt cannot"
        f" be used: {read.problem[:_LONGEST_PROBLEM]}. Reply once more, with the JSON object alone."
    )
    return replace(request, prompt=prompt)


def _json_in(text: str) -> tuple[Any, bool]:
    """(value, whether there is one): the whole text, what stands in its only code fence, or what is
    between its first brace and its last. Each is tried once, so that the time is linear in the
    text."""
    candidates = [text]
    if len(fenced := text.split("```")) == 3:
        candidates.append(fenced[1].removeprefix("json"))
    start, end = (
        "{}" if "{" in text else "[]"
    )  # a list within an object that does not end is not the reply
    candidates.append(text[text.find(start) : text.rfind(end) + 1] if start in text else "")
    for candidate in candidates:
        try:
            # halves of surrogate pairs, which a reply may escape and no file can hold, become
            # question marks
            return (
                json.loads(
                    json.dumps(json.loads(candidate), ensure_ascii=False).encode("utf-8", "replace")
                ),
                True,
            )
        except (ValueError, RecursionError):
            continue
    return None, False


def _without_titles(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name: _without_titles(each)
            for name, each in node.items()
            if not (name == "title" and isinstance(each, str))
        }
    return [_without_titles(each) for each in node] if isinstance(node, list) else node
