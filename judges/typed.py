"""Typed replies: a question declares its reply as a pydantic model, and judges answer in JSON.

`judges.judge` reads each answer with `read_reply`. Backends that can are sent the JSON schema of
the reply; other models are asked for the object by the prompt alone. An answer that does not fit is
asked for once more, with the reason. If the second does not fit either, the item is unscored.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from judges.answers import Answer, Request
from lm_factuality.ground.replies import KeyMask
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

# Problems of answers that hold no reply.
NO_OBJECT = "no JSON object"
JUDGE_ERROR = "judge error"
CUT_OFF = "cut off"
LOOP = "repeats itself to the end"

_NO_ANSWER = Answer(None)

# The most numbers that a problem lists.
_MAX_LISTED_NUMBERS = 10

# The most characters of an unusable reply that the judge is shown again.
_MAX_QUOTE = 2000

# The most characters of a problem. A model can make it long by inventing a long field name.
_MAX_PROBLEM = 300

# More characters than `retry_request` adds around the quote and the problem.
_MAX_RETRY_WORDING = 200


class Reply(BaseModel):
    """The reply of a judge: a JSON object that has the fields of a subclass and no others.

    The docstring of a subclass is part of its JSON schema, which is hashed into the keys of stored
    answers. Changing it therefore asks all questions again. Servers are not sent it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _match_case(cls, value: object, info: ValidationInfo) -> object:
        """Return a word of an enumeration as it is declared, so that ``Supported`` is read."""
        if not isinstance(value, str) or info.field_name is None:
            return value
        for word in _enumerated_words(cls.model_fields[info.field_name].annotation):
            if word.casefold() == value.strip().casefold():
                return word
        return value


def _enumerated_words(annotation: object) -> list[str]:
    """Return the texts that a type allows, such as ``a`` and ``b`` for ``Literal["a", "b"]``."""
    if get_origin(annotation) is Literal:
        return [word for word in get_args(annotation) if isinstance(word, str)]
    words = []
    # An optional enumeration is a union of the enumeration and None.
    for member in get_args(annotation):
        words += _enumerated_words(member)
    return words


ReplyT = TypeVar("ReplyT", bound=Reply)

# Returns the problem of a reply that its type does not show, "" if there is none. Its arguments are
# the reply and the subject of the question.
ReplyCheck = Callable[[ReplyT, Mapping[str, Any]], str]


@dataclass(frozen=True)
class ParsedReply(Generic[ReplyT]):
    """The reply that an answer holds, or the problem because of which it holds none."""

    value: ReplyT | None
    """The reply. None if there is a problem."""

    problem: str = ""
    """Why there is no reply, such as ``no JSON object``. Empty if there is one."""

    answer: Answer = _NO_ANSWER
    """The answer of the model."""

    earlier_answer: Answer | None = None
    """The answer that could not be used, so that the question was asked once more."""


@cache
def json_schema_of(reply_type: type[Reply]) -> str:
    """Return the JSON schema of a reply on one line, as strict servers accept it.

    The fields keep their order, since a model writes them in that order: the reason before the
    verdict.

    Example:
        ``{"properties": {"names": {"items": {"type": "string"}, ...``
    """
    schema = reply_type.model_json_schema()
    # Pydantic moves the schemas of nested models to "$defs".
    nested_schemas = schema.get("$defs", {}).values()
    for object_schema in (schema, *nested_schemas):
        if "properties" in object_schema:
            # Strict servers insist that every field is required and that no others are allowed.
            object_schema["required"] = list(object_schema["properties"])
            object_schema["additionalProperties"] = False
    return json.dumps(_without_annotations(schema, ("title",)))


def schema_to_send(schema: str) -> dict[str, Any]:
    """Return the schema from `json_schema_of` without defaults and descriptions, for servers.

    Strict servers refuse defaults, and the prompt describes the fields. The keys of stored answers
    are made with both, so `json_schema_of` keeps them.
    """
    sent = _without_annotations(json.loads(schema), ("default", "description"))
    assert isinstance(sent, dict)
    return sent


def _without_annotations(node: object, annotations: Collection[str]) -> object:
    """Return a part of a JSON schema without some keys that only describe it.

    Example:
        Without ``title``: ``{"title": "Reason", "type": "string"}`` → ``{"type": "string"}``
    """
    if isinstance(node, list):
        return [_without_annotations(item, annotations) for item in node]
    if not isinstance(node, dict):
        return node

    # A reply may have a field called "title", whose value is a schema and thus an object.
    return {
        name: _without_annotations(value, annotations)
        for name, value in node.items()
        if name not in annotations or isinstance(value, dict)
    }


def read_reply(
    answer: Answer,
    reply_type: type[ReplyT],
    subject: Mapping[str, Any],
    check: ReplyCheck[ReplyT] | None = None,
) -> ParsedReply[ReplyT]:
    """Parse the answer of a judge as a typed reply.

    Example:
        For a reply with the field ``names``: ``Sure! {"names": ["Ada"]}`` → a reply with
        ``names == ["Ada"]``; ``I cannot.`` → the problem ``no JSON object``.

    Args:
        answer: The answer.
        reply_type: The class of the reply.
        subject: The subject of the question, which ``check`` gets.
        check: Finds problems that the type does not show, such as a segment that does not exist.

    Returns:
        The reply, or the problem because of which there is none.
    """
    try:
        reply = _parse_reply(answer, reply_type)
    except ValueError as error:
        return ParsedReply(None, str(error), answer)

    problem = check(reply, subject) if check else ""
    if problem:
        return ParsedReply(None, problem, answer)
    return ParsedReply(reply, answer=answer)


def _parse_reply(answer: Answer, reply_type: type[ReplyT]) -> ReplyT:
    """Parse the answer of a judge, without its thinking, as a reply of a type.

    Raises:
        ValueError: The answer holds no reply of this type. The message says why.
    """
    # The constants below are texts, such as "no JSON object". Reports count replies by them.
    if answer.text is None or answer.error is not None:
        raise ValueError(f"{JUDGE_ERROR}: {answer.error or 'no text'}")

    text = without_thinking(answer.text)
    # An answer that ends within a thought has no text outside of it.
    if text is None:
        raise ValueError(UNFINISHED)
    if not text.strip():
        is_filtered = answer.finish_reason == "content_filter"
        raise ValueError("content filter" if is_filtered else "empty answer")

    try:
        content = _parse_json(text.strip())
    except ValueError:
        if _ends_in_loop(text):
            raise ValueError(LOOP) from None
        # A reply that was cut off may have been valid JSON with more tokens.
        raise ValueError(CUT_OFF if answer.is_cut_off else NO_OBJECT) from None
    try:
        return reply_type.model_validate(_wrap_list(content, reply_type))
    except ValidationError as error:
        raise ValueError(f"wrong form: {_form_problem(error)}") from None


def _ends_in_loop(text: str) -> bool:
    """Return whether a text ends with the same 8 to 200 characters four times in a row.

    Small models repeat themselves until they are cut off.
    """
    tail = text.rstrip()[-4 * 200 :]
    longest = len(tail) // 4
    return any(tail.endswith(4 * tail[-length:]) for length in range(8, longest + 1))


def _parse_json(text: str) -> object:
    """Parse the JSON in a model's text.

    Example:
        ``Here it is: {"grade": "A"} I hope this helps!`` → ``{"grade": "A"}``

    Returns:
        The JSON value. Characters that a database cannot store are replaced in its texts.

    Raises:
        ValueError: There is no JSON.
    """
    # One pair of code fences splits the text into what comes before, within and after it.
    parts = text.split("```")
    fenced_text = parts[1].removeprefix("json") if len(parts) == 3 else ""

    # Three tries are enough. To try each brace would take quadratic time.
    for candidate in (text, fenced_text, _bracketed_part(text)):
        try:
            # Without a key to remove, the mask only replaces characters that cannot be stored.
            return KeyMask().mask_json(json.loads(candidate))
        except (ValueError, RecursionError):
            continue
    raise ValueError(NO_OBJECT)


def _bracketed_part(text: str) -> str:
    """Return a text from its first opening bracket to its last closing one.

    Example:
        ``The names are ["Ada"].`` → ``["Ada"]``. A text without brackets gives an empty string.
    """
    # A list in a text with braces is a field of the object, even if the object is incomplete.
    opening, closing = "{}" if "{" in text else "[]"
    if opening not in text:
        return ""
    return text[text.index(opening) : text.rfind(closing) + 1]


def _wrap_list(content: object, reply_type: type[Reply]) -> object:
    """Put a list into an object if the type of the reply has a list as its only field.

    Small models often leave out the object around the list.

    Example:
        For a reply with the field ``names``: ``["Ada"]`` → ``{"names": ["Ada"]}``

    Returns:
        The object. Any other content, or the content for any other type, is returned unchanged.
    """
    if not isinstance(content, list) or len(reply_type.model_fields) != 1:
        return content
    [(name, field)] = reply_type.model_fields.items()
    is_list_field = get_origin(field.annotation) in (list, tuple)
    return {name: content} if is_list_field else content


def _form_problem(error: ValidationError) -> str:
    """Return the first problem that pydantic found in a reply, at most 300 characters of it.

    Example:
        ``names.N: Input should be a valid string``, where ``N`` stands for any index in a list
    """
    details = error.errors(include_url=False, include_input=False)[0]
    # Without its index, reports count the problem as the same in each item.
    keys = ["N" if isinstance(key, int) else key for key in details["loc"]]
    place = f"{'.'.join(keys)}: " if keys else ""
    return f"{place}{details['msg']}"[:_MAX_PROBLEM]


def numbering_problem(
    numbers: Sequence[int], count: int, noun: str, must_be_complete: bool = True
) -> str:
    """Return what is wrong with the numbers by which a reply names the items of a list.

    Example:
        Of 3 segments: ``[1, 4]`` → ``segment 4 of 3``; ``[1, 1]`` → ``segment 1 twice``; ``[1]`` →
        ``no segment 2, 3``.

    Args:
        numbers: The numbers in the reply.
        count: The number of items in the list.
        noun: The word for an item, such as ``segment``.
        must_be_complete: Whether every item has to have its number in the reply.

    Returns:
        The problem, for the judge to read. Empty if there is none.
    """
    for number in numbers:
        if not 1 <= number <= count:
            return f"{noun} {number} of {count}"

    repeated_numbers = [number for number, times in Counter(numbers).items() if times > 1]
    if repeated_numbers:
        return f"{noun} {_list_numbers(repeated_numbers)} twice"

    missing_numbers = sorted(set(range(1, count + 1)).difference(numbers))
    if must_be_complete and missing_numbers:
        return f"no {noun} {_list_numbers(missing_numbers)}"
    return ""


def _list_numbers(numbers: Sequence[int]) -> str:
    """Return the first ten numbers for a sentence, as in ``1, 2, 3, ...``."""
    listed = ", ".join(map(str, numbers[:_MAX_LISTED_NUMBERS]))
    return f"{listed}, ..." if len(numbers) > _MAX_LISTED_NUMBERS else listed


def is_worth_retrying(parsed_reply: ParsedReply[Any]) -> bool:
    """Return whether the judge may give a usable reply if it is told what was wrong."""
    if parsed_reply.value is not None:
        return False
    # The backend has retried errors already.
    answer = parsed_reply.answer
    if answer.error is not None or answer.text is None:
        return False
    # An unfinished thought needs more tokens instead, and a model in a loop gets into it again.
    return parsed_reply.problem not in (UNFINISHED, LOOP)


def retry_request(request: Request, parsed_reply: ParsedReply[Any]) -> Request:
    """Return the request that asks a question once more after a reply that cannot be used.

    Args:
        request: The first request.
        parsed_reply: The reply to it, with its problem.

    Returns:
        The same request, with the reply and the problem added to the prompt.
    """
    quote = _quote(parsed_reply.answer)
    # The limit keeps the request no longer than `longest_retry_request` expects.
    problem = parsed_reply.problem[:_MAX_PROBLEM]
    prompt = (
        f"{request.prompt}\n\nYour reply to this was:\n{quote}\n\nIt cannot be used: {problem}."
        " Reply once more, with the JSON object alone."
    )
    return replace(request, prompt=prompt)


def _quote(answer: Answer) -> str:
    """Return the text of an answer without its thinking, cut off after 2,000 characters."""
    # A judge that only thought has written nothing to quote.
    text = without_thinking(answer.text or "") or ""
    if len(text) > _MAX_QUOTE:
        text = f"{text[:_MAX_QUOTE]} ..."
    return text.strip() or "(nothing)"


def longest_retry_request(request: Request) -> Request:
    """Return a request that is at least as long as any `retry_request` of it, for estimates."""
    num_characters = _MAX_QUOTE + _MAX_PROBLEM + _MAX_RETRY_WORDING
    # This Chinese character takes 4 bytes, the most that a character can have in UTF-8.
    return replace(request, prompt=request.prompt + "\U00020000" * num_characters)
