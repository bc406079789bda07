"""Reading of settings and records, as YAML or JSON has them, into pydantic models.

Every reader of a file calls `read_settings`, which names all problems of the file at once."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
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
        lines = [f"{where}: {problem}" for problem in problems_of(model, error, content)]
        raise ConfigError("\n".join(lines)) from error
    return settings


def problems_of(model: Any, error: ValidationError, content: Any) -> list[str]:
    """Say in a sentence each what is wrong with the content of a model.

    Example:
        ``window.words is x; expected a valid integer``
    """
    sentences = [_sentence(model, details, content) for details in error.errors(include_url=False)]
    return list(dict.fromkeys(sentences))


def unknown_key(name: str, names: Iterable[str], section: str = "") -> str:
    """Say that a key is unknown, which one may be meant, and which there are."""
    names = list(names)
    of_section = f" of {section}" if section else ""
    hint = did_you_mean(name, names)
    return f"unknown key {name!r}{of_section}{hint}; known: {', '.join(names)}"


def _sentence(model: Any, details: ErrorDetails, content: Any) -> str:
    kind = details["type"]
    place = _find_place(model, details, content)
    if kind in _UNKNOWN_KEY:
        return unknown_key(place.path[-1].lstrip("."), place.fields, place.section)

    key = "".join(place.path).removeprefix(".")
    expected = details["msg"].replace("Input should be", "expected")
    if kind == "value_error":
        expected = str(details["ctx"]["error"])
    elif place.description:
        expected = f"expected {place.description}"
    elif kind == "missing" and isinstance(details["input"], Mapping):
        expected = f"found {', '.join(map(str, details['input'])) or 'no keys'}"

    if kind == "missing":
        return f"{key} is missing; {expected}"
    if kind == "value_error" and not expected.startswith("expected "):
        return f"{key} {expected}".strip()
    value = "empty" if details["input"] is None else short(details["input"])
    return f"{key} is {value}; {expected}" if key else f"found {value}; {expected}"


@dataclasses.dataclass
class _Place:
    """Where in a file a problem is."""

    path: list[str]
    """Keys as ``.key`` and indexes as ``[index]``."""

    fields: dict[str, FieldInfo]
    """The fields of the innermost section."""

    description: str | None = None
    """The description of the field itself."""

    @property
    def section(self) -> str:
        """The path of the section that the last key is in."""
        return "".join(self.path[:-1]).removeprefix(".")


def _find_place(model: Any, details: ErrorDetails, content: Any) -> _Place:
    """Follow a problem's path through the model and the content.

    Pydantic's path also names the members of unions. They are no part of the file, so that parts
    which are neither in the content nor a field are left out.
    """
    place = _Place([], _fields_of(model))
    for part in details["loc"]:
        is_key = isinstance(content, Mapping) and part in content
        is_index = isinstance(content, list | tuple) and part in range(len(content))
        field = place.fields.get(str(part))
        if not (is_key or is_index or field or details["type"] in _UNKNOWN_KEY):
            continue
        content = content[part] if is_key or is_index else None
        place.path.append(f"[{part}]" if isinstance(part, int) else f".{part}")
        place.description = field.description if field else None
        place.fields = _fields_of(field.annotation) if field else place.fields
    return place


def _fields_of(annotation: Any) -> dict[str, FieldInfo]:
    """Return the fields, by their names in files, of the models within an annotation."""
    if hasattr(annotation, "__pydantic_fields__"):
        fields = annotation.__pydantic_fields__.items()
        return {field.alias or name: field for name, field in fields}
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        hints = get_type_hints(annotation, include_extras=True).items()
        return {name: FieldInfo.from_annotation(hint) for name, hint in hints}
    found: dict[str, FieldInfo] = {}
    for part in get_args(annotation):
        found |= _fields_of(part)
    return found
