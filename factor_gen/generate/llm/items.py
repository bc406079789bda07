"""The numbered entries of a model's answer: a plan of edits and the contradiction that follows from it (tables 7 to 12)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABELS = r"(?:Pronouns?|Changes?|Additional changes?|Contradiction)"
_START = re.compile(
    rf"^\W{{0,4}}\d{{1,3}}[.)][ \t*_]*(?=\S)|(?<=\s)\d{{1,3}}[.)][ \t*_]+(?={_LABELS}\W*:)",
    re.IGNORECASE | re.MULTILINE,
)
_BARE_START = re.compile(rf"\W{{0,4}}{_LABELS}\W{{0,3}}:", re.IGNORECASE)
_END = re.compile(r"^\W{0,4}(?:##|(?:Context|Completion|Sentence)\W{0,3}:)", re.MULTILINE)  # goes on to another example
_CONTRADICTION = re.compile(r"[*_]*\bContradiction\W{0,3}:[*_]*[ \t]*", re.IGNORECASE)
_PLAN = re.compile(r"\bChanges?\b\W{0,3}:(.*)", re.IGNORECASE | re.DOTALL)
_QUOTED = r"[\"\u201c\u201d\u00ab](?P<{0}>[^\n]{1}?)[\"\u201c\u201d\u00bb]"
_EDIT = re.compile(
    _QUOTED.format("old", "+")
    + r"\s*(?:\bto\b|->|\u2192)\s*"
    + _QUOTED.format("new", "*")
    + r"(?=\s*(?:[,.;)]|$|\n|\band\b|\bAdditional\b))",
    re.IGNORECASE,
)
_NONE = re.compile(r"\W*(?:answer\W*)?n\W?a\W*", re.IGNORECASE)


@dataclass(frozen=True)
class Edit:
    """Words of the completion, and what is to stand in their place."""

    old: str
    new: str


@dataclass(frozen=True)
class Item:
    """One entry: its planned edits, none if there is no plan, and the contradiction, None if it is not there."""

    edits: tuple[Edit, ...]
    contradiction: str | None


def read_items(answer: str) -> list[Item]:
    """The entries of ``answer`` in their order. What stands before the first and from another ``##`` on is not read."""
    if end := _END.search(answer):
        answer = answer[: end.start()]
    starts = list(_START.finditer(answer))
    bodies = [
        answer[start.end() : following.start() if following else None]
        for start, following in zip(starts, [*starts[1:], None], strict=False)
    ]
    before = answer[: starts[0].start()] if starts else answer
    if _BARE_START.match(before.strip()):  # the first number is often left to the prompt
        bodies.insert(0, before)
    return [_read_item(body) for body in bodies]


def is_none(answer: str) -> bool:
    """Whether ``answer`` says that there is nothing to change."""
    return _NONE.fullmatch(answer) is not None


def _read_item(body: str) -> Item:
    plan, *rest = _CONTRADICTION.split(body, maxsplit=1)
    edits = _PLAN.search(plan)
    found = _EDIT.finditer(edits[1]) if edits else ()
    text = rest[0].strip() if rest else ""
    return Item(tuple(Edit(each["old"].strip(), each["new"].strip()) for each in found), text or None)
