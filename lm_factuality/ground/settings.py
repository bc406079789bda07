"""Settings of YAML and JSON files as pydantic models; every problem is told in a sentence that
names its place and its cure."""

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from lm_factuality.ground.errors import ConfigError, did_you_mean

Model = TypeVar("Model")

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
"""For a ``BaseModel`` (``Strict`` has it): no unknown keys, no text taken for a number. A list for
a tuple: ``Field(strict=False)``."""
FORBID = ConfigDict(extra="forbid")
"""For a dataclass (``__pydantic_config__ = FORBID``, which holds for those in it too): a strict one
would take no mapping, so that its fields are strict by the types below. A plain dataclass is
checked where it is read, not where it is made."""
Text = Annotated[str, Field(strict=True, min_length=1)]
Integer = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Truth = Annotated[bool, Field(strict=True)]

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument", "invalid_key")
_SHOWN = 200  # characters of a value


class Strict(BaseModel):
    model_config = STRICT


class Form(NamedTuple):
    """How a sentence says what was found, and that a section has an unknown key."""

    found: str = "{key} is {found}; {text}"
    unknown: str = "unknown key {name!r} of {section}"


PLAIN = Form()
TASK = Form("{key}: found {found}, {text}", "{section}: unknown key {name!r}")
"""``TASK`` is for the YAMLs of lm_eval tasks, whose other errors read like this."""


def read_settings(model: type[Model], content: Any, where: str, form: Form = PLAIN) -> Model:
    """``content``, as YAML or JSON has it, as a ``model``: a ``BaseModel`` or a dataclass.
    ``where`` is the file. What is expected follows from the type of a field, unless
    ``Field(description=...)`` says it in better words. A validator of the model raises
    ``ValueError``. A text such as ``expected a name`` stands after what was found (``FILE: KEY is
    3; expected a name``), any other one after the key (``FILE: KEY needs prices``). Raises
    ConfigError: all that is wrong, a line each."""
    try:
        return TypeAdapter(model).validate_python(content, context={"where": where})
    except ValidationError as error:
        raise ConfigError("\n".join(problems(model, error, where, form))) from error


def problems(model: Any, error: ValidationError, where: str, form: Form = PLAIN) -> list[str]:
    """A sentence for each problem that ``error`` has found in the content of a ``model``."""
    found = error.errors(include_url=False)
    below = {
        each["loc"][:-1] for each in found
    }  # a list is called too short if its only word is wrong
    found = [each for each in found if each["type"] != "too_short" or each["loc"] not in below]
    return list(dict.fromkeys(f"{where}: {_sentence(model, each, form)}" for each in found))


def unknown_key(name: str, known: Iterable[str], section: str = "", form: Form = PLAIN) -> str:
    """The sentence about a key that is none of those ``known`` in its ``section``."""
    names = list(known)
    told = form.unknown.format(name=name, section=section) if section else f"unknown key {name!r}"
    return f"{told}{did_you_mean(name, names)}; known: {', '.join(names)}"


def _sentence(model: Any, error: ErrorDetails, form: Form) -> str:
    kind, found, loc = error["type"], error["input"], error["loc"]
    if kind in _UNKNOWN:
        section, about, _ = _place(model, loc[:-1])
        return unknown_key(str(loc[-1]), _fields(_bare(about)[0]) or (), section, form)
    key, about, description = _place(model, loc)
    expected = description or _expected(about, error)
    if kind == "missing":
        return f"{key} is missing; expected {expected}"
    text = str(error["ctx"]["error"]) if kind == "value_error" else f"expected {expected}"
    if not text.startswith("expected "):
        return f"{key} {text}".strip()
    shown = "empty" if found is None else repr(found)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return form.found.format(key=key, found=shown, text=text) if key else f"found {shown}; {text}"


def _expected(about: Any, error: ErrorDetails) -> str:
    found = error.get("input")
    kind, metadata = _bare(about)
    members = [each for each in get_args(kind) if each is not type(None)] if _is_union(kind) else []
    if members:
        return " or ".join(dict.fromkeys(_expected(each, error) for each in members))
    if get_origin(kind) is Literal:
        names = [str(each) for each in get_args(kind)]
        near = did_you_mean(found, names) if isinstance(found, str) else ""
        return f"{', '.join(names[:-1])} or {names[-1]}{near}" if names[1:] else names[0]
    if _fields(kind) is not None:
        rest = "" if error["type"] == "missing" else "; leave the line out for the defaults"
        required = any(each.is_required() for each in (_fields(kind) or {}).values())
        return f"a mapping with {', '.join(_fields(kind) or ())}{'' if required else rest}"
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return f"a {'whole ' if kind is int else ''}number{_bounds(metadata)}"
    if isinstance(get_origin(kind) or kind, type):
        origin = get_origin(kind) or kind
        if issubclass(origin, str):
            pattern = next(
                (each.pattern for each in metadata if getattr(each, "pattern", None)), None
            )
            quotes = (
                ": put it in quotes"
                if found is not None and not isinstance(found, str | list | Mapping)
                else ""
            )
            return f"a text{f' that fits {pattern}' if pattern else quotes}"
        if issubclass(origin, Mapping):
            return "a mapping of names to values"
        if issubclass(origin, Sequence | set | frozenset):
            items = _bare(next(iter(get_args(kind)), Any))[0]
            names = [str(each) for each in get_args(items)] if get_origin(items) is Literal else []
            return f"a list with some of {', '.join(names)}" if names else "a list"
    return error["msg"].removeprefix("Input should be ")


def _bounds(metadata: Sequence[Any]) -> str:
    bounds = (
        (name, getattr(each, name, None)) for each in metadata for name in ("ge", "gt", "le", "lt")
    )
    shown = {name: f"{value:g}" for name, value in bounds if value is not None}
    if "ge" in shown and "le" in shown:
        return f" from {shown['ge']} to {shown['le']}"
    words = {"ge": " of {} or more", "gt": " above {}", "le": " of {} or less", "lt": " below {}"}
    return " and".join(words[name].format(value) for name, value in shown.items())


def _place(model: Any, loc: Sequence[int | str]) -> tuple[str, Any, str | None]:
    """The path of a value as a reader of the file has it, the annotation of its field, and the
    field's description."""
    key, about, description = "", model, None
    for number, part in enumerate(loc):
        kind, _ = _bare(about)
        fields = _fields(kind)
        members = get_args(kind) if _is_union(kind) else ()
        if member := next(
            (each for each in members if part == getattr(_bare(each)[0], "__name__", "")), None
        ):
            about = about if _fields(_bare(member)[0]) is None else member
            continue  # pydantic's name of the member is no part of the file
        if fields is not None and part in fields:
            field = fields[str(part)]
            about = (
                Annotated[(field.annotation, *field.metadata)]
                if field.metadata
                else field.annotation
            )
            description = field.description
        else:
            items = [each for each in get_args(kind) if each is not ...]
            about, description = items[-1] if items else Any, None
        if part == "[key]":
            continue
        if not isinstance(part, int):
            key += f".{part}" if key else str(part)
        elif number < len(loc) - 1:  # of a list of words the word itself is shown
            key += f"[{part}]"
    return key, about, description


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _bare(about: Any) -> tuple[Any, list[Any]]:
    """An annotation without ``Annotated`` and ``| None``, and what stood in ``Annotated``."""
    metadata: list[Any] = []
    while True:
        if get_origin(about) is Annotated:
            about, *more = get_args(about)
            metadata += [
                inner
                for each in more
                for inner in (each.metadata if isinstance(each, FieldInfo) else [each])
            ]
            continue
        members = (
            [each for each in get_args(about) if each is not type(None)] if _is_union(about) else []
        )
        if len(members) != 1:
            return about, metadata
        about = members[0]


def _fields(kind: Any) -> dict[str, FieldInfo] | None:
    """The fields of a model by the names that a file has for them; None if ``kind`` is no model."""
    if not isinstance(kind, type) or not (
        issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)
    ):
        return None
    fields: dict[str, FieldInfo] | None = getattr(kind, "__pydantic_fields__", None)
    if fields is None:
        hints = get_type_hints(kind, include_extras=True)
        fields = {
            each.name: FieldInfo.from_annotated_attribute(hints[each.name], each)
            for each in dataclasses.fields(kind)
        }
    return {field.alias or name: field for name, field in fields.items()}
