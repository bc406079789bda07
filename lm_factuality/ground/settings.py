"""Reading of settings and records, as YAML or JSON has them, into pydantic models.

Every reader of a settings file calls `read_settings`, which reports all problems at once.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from lm_factuality.ground.errors import ConfigError, did_you_mean, short

Model = TypeVar("Model")

# A model is built at its first use (``defer_build``), since most commands use few of them.
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
"""The configuration of `Strict`: unknown keys are refused, and a text is no number.

A field that takes a list for a tuple needs ``Field(strict=False)``.
"""

FORBID = ConfigDict(extra="forbid", defer_build=True)
"""The configuration of dataclasses, ``__pydantic_config__ = FORBID``: unknown keys are refused.

A strict dataclass would refuse a mapping, so the types below make its fields strict instead.
"""

Text = Annotated[str, Field(strict=True, min_length=1)]
Integer = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Truth = Annotated[bool, Field(strict=True)]

adapter_of: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""The validator of a model, which takes long to build."""

# How pydantic names the members of a union in the path of an error: ``int``, ``list[str]``.
_UNION_MEMBER = re.compile(r"(?:constrained-)?(?:str|int|float|bool|none)|[a-z-]+\[.*")
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


class Strict(BaseModel):
    """A model without unknown keys, whose values have exactly the types of its fields."""

    model_config = STRICT


def read_settings(model_type: type[Model], content: object, where: str) -> Model:
    """Turn the content of a settings file into a pydantic model or a dataclass.

    Args:
        model_type: The class of the result. If a field has a description, errors quote it as the
            expected value.
        content: The parsed YAML or JSON.
        where: The file, with which each line of an error begins. Validators of the model find it
            in their context under ``where``, for errors and for files beside it.

    Raises:
        ConfigError: The content does not fit. The text has a line for each problem.
    """
    try:
        settings: Model = adapter_of(model_type).validate_python(content, context={"where": where})
    except ValidationError as error:
        lines = [f"{where}: {problem}" for problem in problems_of(model_type, error)]
        raise ConfigError("\n".join(lines)) from error
    return settings


class _FieldLocation(NamedTuple):
    """The field that an error of pydantic is about."""

    key: str
    """The keys that lead to the field, such as ``window.words`` or ``judges[0]``."""

    description: str | None
    """What is expected in the field, if its author described it."""

    names: Collection[str]
    """The valid keys of the section that the field is in."""


def problems_of(model_type: type[object], error: ValidationError) -> list[str]:
    """Translate pydantic's errors about the content of a model into sentences for users.

    Args:
        model_type: The pydantic model or dataclass that refused the content.
        error: The errors of pydantic.

    Returns:
        A sentence for each problem, without repetitions, such as
        ``window.words is 'x'; expected a valid integer``.
    """
    sentences = []
    for details in error.errors(include_url=False):
        location = _locate_field(model_type, details["loc"])
        sentences.append(_describe_problem(location, details))
    # Each member of a union reports the same problem.
    return list(dict.fromkeys(sentences))


def _locate_field(model_type: type[object], path: Sequence[str | int]) -> _FieldLocation:
    """Find the field that an error is about.

    Args:
        model_type: The pydantic model or dataclass that refused the content.
        path: The keys and list indices of the error, such as ``("judges", 0, "name")``. The key of
            this field is ``judges[0].name``.
    """
    key = ""
    section_fields = _fields_of(model_type)  # of the section that the present step is in
    field: FieldInfo | None = None  # the field that the last step named, if it named one
    for step in path:
        # The last step named a section or a list of sections. `_fields_of` looks inside lists, so
        # an index between the list and the next key leads no further.
        if field:
            section_fields = _fields_of(field.annotation)
        # For ``int | Window``, pydantic adds the type that it tried to the path. Users do not
        # write that type, so it is left out of their key.
        is_type = step not in section_fields and _UNION_MEMBER.fullmatch(str(step))
        if not is_type:
            key += f"[{step}]" if isinstance(step, int) else f".{step}"
            field = section_fields.get(str(step))
    description = field.description if field else None
    return _FieldLocation(key.removeprefix("."), description, section_fields)


def unknown_key(name: str, names: Iterable[str]) -> str:
    """Say that a key of a settings file is unknown, and which keys there are.

    Args:
        name: The key, with dots between levels, such as ``window.word``.
        names: The valid keys of its section.

    Returns:
        A sentence such as ``unknown key 'word' of window; did you mean words?; known: words``.
    """
    names = list(names)
    section, _, key = name.rpartition(".")
    of_section = f" of {section}" if section else ""
    return f"unknown key {key!r}{of_section}{did_you_mean(key, names)}; known: {', '.join(names)}"


def _describe_problem(location: _FieldLocation, details: ErrorDetails) -> str:
    """Describe one of pydantic's errors in a sentence.

    Args:
        location: The field. Its key is empty for the whole content.
        details: The error.

    Returns:
        A sentence such as ``window.words is 'x'; expected a valid integer``, ``window.words is
        missing; expected a number of words`` or ``unknown key 'word' of window; known: words``.
    """
    key = location.key
    kind = details["type"]
    if kind in _UNKNOWN_KEY:
        return unknown_key(key, location.names)

    # YAML reads ``key:`` as None.
    value = "empty" if details["input"] is None else short(details["input"])
    expected = f"expected {location.description}" if location.description else ""
    if kind == "missing":
        # The value of this error is the section that lacks the key.
        remedy = expected or f"found {value}"
        return f"{key} is missing; {remedy}"

    # pydantic writes "Input should be a valid integer", and "Value error, " before our texts.
    message = details["msg"].replace("Input should be", "expected").removeprefix("Value error, ")
    remedy = expected or message
    if kind == "value_error" and not remedy.startswith("expected "):
        # Our own validators may raise a phrase that follows the key, such as "needs a model".
        return f"{key} {remedy}".strip()
    if not key:
        return f"found {value}; {remedy}"
    return f"{key} is {value}; {remedy}"


def _fields_of(annotation: object) -> dict[str, FieldInfo]:
    """Return the fields of a model, or of all models inside an annotation.

    Args:
        annotation: A pydantic model, a dataclass, or a type such as ``list[Window] | None``.

    Returns:
        The fields, by the names that they have in files. Empty if there is no model inside.
    """
    # pydantic sets this attribute of its models, and of dataclasses that are validators already.
    if hasattr(annotation, "__pydantic_fields__"):
        model_fields = annotation.__pydantic_fields__
        # An alias is the name in files of a field that Python names differently.
        return {field.alias or name: field for name, field in model_fields.items()}

    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        # The metadata in Annotated holds the descriptions.
        hints = get_type_hints(annotation, include_extras=True)
        return {name: FieldInfo.from_annotation(hint) for name, hint in hints.items()}

    # The arguments of ``list[Window] | None`` are list[Window] and None.
    fields: dict[str, FieldInfo] = {}
    for member in get_args(annotation):
        fields |= _fields_of(member)
    return fields
