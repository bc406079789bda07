"""Decision files as D-FActScore's authors released them: which facts of each response were supported, and by whose page.

``decisions`` has the facts as they were decomposed, ``global_decisions`` those that came back from grouping, verified by the page
of their group's entity; both are lists with an entry a name, null where the model declined. Where one group ends and the next
begins is not in the files: they have the mean number of groups only (``num_groups``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text
from lm_factuality.harness.outputs import number_of

FACTS, GROUPED, NUM_GROUPS = "decisions", "global_decisions", "num_groups"
_EXPECTED = f"expected a released decision file: JSON, plain or gzipped, with the lists {FACTS!r} and {GROUPED!r}"


@dataclass(frozen=True)
class DecidedFact:
    """``entity`` is the title of the page that supports the fact; of some files only its first letter is left."""

    text: str
    is_supported: bool
    entity: str | None


@dataclass(frozen=True)
class DecidedResponse:
    """``facts``: at least one. ``grouped`` may be empty."""

    facts: tuple[DecidedFact, ...]
    grouped: tuple[DecidedFact, ...]


@dataclass(frozen=True)
class Decisions:
    """``responses`` has an entry a name, None where the model declined; ``recorded`` the figures that the file itself states."""

    path: Path
    responses: tuple[DecidedResponse | None, ...]
    recorded: Mapping[str, float]


def is_decision_file(path: Path) -> bool:
    """Whether ``path`` holds a JSON object with decisions; what cannot be read is none."""
    try:
        content = parse_json(read_text(path, _EXPECTED), is_shared=False)
    except (DataError, ValueError):
        return False
    return isinstance(content, dict) and FACTS in content


def read_decisions(path: Path) -> Decisions:
    """The decisions of one model. Raises DataError: the file cannot be read; or every row that is not as expected, and how."""
    try:
        content = parse_json(read_text(path, _EXPECTED), is_shared=False)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; {_EXPECTED}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: found a JSON {type(content).__name__}; {_EXPECTED}")
    lists = []
    for key in (FACTS, GROUPED):
        if not isinstance(content.get(key), list):
            found = type(content[key]).__name__ if key in content else f"only {', '.join(content) or 'nothing'}"
            raise DataError(f"{path}: {key!r}: found {found}, expected a list with an entry a name; {_EXPECTED}")
        lists.append(content[key])
    if len(lists[0]) != len(lists[1]):
        raise DataError(f"{path}: {len(lists[0])} entries in {FACTS!r} but {len(lists[1])} in {GROUPED!r}; {_EXPECTED}")
    responses: list[DecidedResponse | None] = []
    problems: list[str] = []
    for number, (facts, grouped) in enumerate(zip(*lists, strict=True)):
        try:
            responses.append(_response(facts, grouped))
        except ValueError as error:
            problems.append(f"{path}: entry {number}: {error}")
    refuse(problems, "entries", advice="Restore the file as it was released.")
    if not any(responses):
        raise DataError(f"{path}: no responses in its {len(responses)} entries; {_EXPECTED}")
    recorded = {key: stated for key, value in content.items() if (stated := number_of(value)) is not None}
    return Decisions(path, tuple(responses), recorded)


def _response(facts: Any, grouped: Any) -> DecidedResponse | None:
    if facts is None and grouped is None:
        return None
    if not isinstance(facts, list) or not isinstance(grouped, list):
        raise ValueError(  # noqa: TRY004
            f"{FACTS} is {_kind(facts)} and {GROUPED} is {_kind(grouped)}, expected two lists, or null in both if declined"
        )
    if not facts:
        raise ValueError(f"{FACTS} is an empty list, expected at least one fact, or null if the model declined")
    return DecidedResponse(
        tuple(_fact(FACTS, number, each) for number, each in enumerate(facts)),
        tuple(_fact(GROUPED, number, each) for number, each in enumerate(grouped)),
    )


def _fact(key: str, number: int, value: Any) -> DecidedFact:
    match value:
        case {"atom": str(text), "is_supported": bool(is_supported), "supporting_topic": None | [] | [None]}:
            return DecidedFact(text, is_supported, None)
        case {"atom": str(text), "is_supported": bool(is_supported), "supporting_topic": str(entity) | [str(entity)]}:
            return DecidedFact(text, is_supported, entity)
    found = ", ".join(f"{name}: {_kind(each)}" for name, each in value.items()) if isinstance(value, dict) else _kind(value)
    raise ValueError(
        f"{key}[{number}]: found {found}; expected atom (text), is_supported (true or false) and supporting_topic (title or null)"
    )


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
