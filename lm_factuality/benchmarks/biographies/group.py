"""Step 2: the facts of a response split into the individuals that a reader without prior knowledge sees (section 4.1).

A judge replies with the numbers of the facts of each individual; each fact is in exactly one group. In table 8 of the paper the
judge repeats the facts instead, with a line of ``====`` between individuals, and the published code loses the first fact of every
response, because its prompt ends with that fact's hyphen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.typed import Reply, Typed, misnumbered
from lm_factuality.benchmarks.biographies.types import Fact

PROMPT = "biographies/group"
MAX_TOKENS = 2048  # that a judge may write: all numbers, with room for white space

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Grouping:
    """The numbers of the facts of each individual, none empty, together each fact once; or the ``problem`` why there are none."""

    groups: Groups
    problem: str | None = None


class GroupsReply(Reply):
    """The numbers, from 1, of the facts of each individual."""

    groups: list[list[int]]


def group_subject(name: str, paragraph: str, facts: Sequence[Fact], sentences: Sequence[str]) -> dict[str, Any]:
    """What the prompt is about; ``sentences`` and ``owners`` are for a judge that reads no prose."""
    return {
        "kind": "group",
        "name": name,
        "paragraph": paragraph,
        "facts": [fact.text for fact in facts],
        "owners": [fact.sentence for fact in facts],
        "sentences": list(sentences),
    }


def check_groups(reply: GroupsReply, subject: Mapping[str, Any]) -> str:
    """A :data:`judges.typed.Check`: every fact is in exactly one group."""
    return misnumbered([number for group in reply.groups for number in group], len(subject["facts"]), "fact")


def to_grouping(read: Typed[GroupsReply]) -> Grouping:
    """The groups of a judge's reply in order of appearance, or its problem."""
    if read.value is None:
        return Grouping((), read.problem)
    return Grouping(tuple(tuple(sorted(number - 1 for number in group)) for group in read.value.groups if group))
