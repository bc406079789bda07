"""Reading of settings and records, as YAML or JSON has them, into pydantic models.

Every reader of a file calls `read_settings`, which names all problems of the file at once."""

import dataclasses
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from lm_factuality.ground.errors import ConfigError, did_you_mean, short

Model = TypeVar("Model")

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
"""For a ``BaseModel`` (`Strict` has it): no unknown keys, and no text is taken for a number. A
list for a tuple needs ``Field(strict=False)``."""

FORBID = ConfigDict(extra="forbid")
"""For a dataclass: ``__pydantic_config__ = FORBID``, which also holds for dataclasses within it.

A strict dataclass would refuse a mapping, so the types below make its fields strict instead."""

Text = Annotated[str, Field(strict=True, min_length=1)]
Integer = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Truth = Annotated[bool, Field(strict=True)]

adapter_of: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""The validator of a model, which takes long to build."""

# What pydantic calls a member of a union, such as ``int`` and ``list[str]``, which is no key.
_UNION_MEMBER = re.compile(r"(?:constrained-)?(?:str|int|float|bool|none)|[a-z-]+\[.*")
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


class Strict(BaseModel):
    """A model without unknown keys, whose values have exactly the types of its fields."""

    model_config = STRICT


def read_settings(model: type[Model], content: Any, where: str) -> Model:
    """Read the content of a settings file.

    Args:
        model: A ``BaseModel`` or a dataclass. The description of a field, if it has one, says what
            is expected in its place.
        content: What the YAML or JSON holds.
        where: The file, with which each sentence of an error begins.

    Raises:
        ConfigError: The content does not fit. Each problem has a line of its own.
    """
    try:
        settings: Model = adapter_of(model).validate_python(content, context={"where": where})
    except ValidationError as error:
        lines = [f"{where}: {problem}" for problem in problems_of(model, error)]
        raise ConfigError("\n".join(lines)) from error
    return settings


def problems_of(model: Any, error: ValidationError) -> list[str]:
    """Say in a sentence each what is wrong with the content of a model.

    Example:
        ``window.words is x; expected a valid integer``
    """
    sentences = []
    for details in error.errors(include_url=False):
        fields = _fields_of(model)
        key = ""
        description = None
        for part in details["loc"]:
            if part not in fields and _UNION_MEMBER.fullmatch(str(part)):
                continue
            key += f"[{part}]" if isinstance(part, int) else f".{part}"
            field = fields.get(str(part))
            description = field.description if field else None
            if field and part != details["loc"][-1]:
                fields = _fields_of(field.annotation)
        sentences.append(_sentence(key.removeprefix("."), details, description, fields))
    return list(dict.fromkeys(sentences))


def unknown_key(name: str, names: Iterable[str]) -> str:
    """Say that a key is unknown, which one may be meant, and which there are."""
    names = list(names)
    section, _, key = name.rpartition(".")
    of_section = f" of {section}" if section else ""
    return f"unknown key {key!r}{of_section}{did_you_mean(key, names)}; known: {', '.join(names)}"


def _sentence(
    key: str, details: ErrorDetails, description: str | None, names: Iterable[str]
) -> str:
    if details["type"] in _UNKNOWN_KEY:
        return unknown_key(key, names)
    value = "empty" if details["input"] is None else short(details["input"])
    expected = details["msg"].replace("Input should be", "expected").removeprefix("Value error, ")
    if description:
        expected = f"expected {description}"
    if details["type"] == "missing":
        return f"{key} is missing; {expected if description else f'found {value}'}"
    if details["type"] == "value_error" and not expected.startswith("expected "):
        return f"{key} {expected}".strip()
    return f"{key} is {value}; {expected}" if key else f"found {value}; {expected}"


def _fields_of(annotation: Any) -> dict[str, FieldInfo]:
    """Return the fields, by their names in files, of the models within an annotation."""
    if hasattr(annotation, "__pydantic_fields__"):
        fields = annotation.__pydantic_fields__.items()
        return {field.alias or name: field for name, field in fields}
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        hints = get_type_hints(annotation, include_extras=True).items()
        return {name: FieldInfo.from_annotation(hint) for name, hint in hints}
    fields_of_parts: dict[str, FieldInfo] = {}
    for part in get_args(annotation):
        fields_of_parts |= _fields_of(part)
    return fields_of_parts
