"""Drawing again: sentences of a document are tried one after the other, until one gives enough
contradictions; the best is kept.

A draw is a pass of the stages ``select`` to ``filter``; the second sees the documents alone that
the first left without a row of two types, and so on. What a draw does depends on the seed and the
document alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from factor_gen.choose import standing
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.shards import StageFolder
from factor_gen.stages import ALL_STAGES, READ

_NONE_LEFT = (READ, "select")  # stages whose refusal means that there was no sentence to draw


class Goal(NamedTuple):
    """How many contradictions, none of them doubtful, of how many types end the draws of a
    document; and how many types a row must have, and how doubtful its contradictions may be."""

    contradictions: int
    types: int
    least_types: int
    most_doubtful: int


def goal_of(settings: BuildSettings) -> Goal:
    """Two types where rows of them can be had at all, more if the settings want more."""
    most, least = settings.choose.contradictions, settings.choose.min_types
    return Goal(
        most,
        max(least, min(2, most, len(settings.types.types))),
        least,
        settings.choose.most_doubtful,
    )


def reached(example: Example, goal: Goal) -> tuple[int, int, int, int, int]:
    """How far a draw got: the stage, then contradictions, the types that a row must have, how
    little doubtful they are (0: not at all, -1, -2), and types, none counted beyond the goal."""
    left, stage = (
        standing(example, goal.contradictions, goal.least_types, goal.most_doubtful),
        _stage(example),
    )
    number = ALL_STAGES.index(stage) if stage else len(ALL_STAGES)
    doubtful = max((each.doubtful for each in left), default=0)
    types = len({each.type for each in left})
    return (
        number,
        min(len(left), goal.contradictions),
        min(types, goal.least_types),
        -doubtful,
        min(types, goal.types),
    )


def is_met(example: Example, goal: Goal) -> bool:
    """Whether a draw ends the draws of its document."""
    return reached(example, goal) == (
        len(ALL_STAGES),
        goal.contradictions,
        goal.least_types,
        0,
        goal.types,
    )


@dataclass(frozen=True)
class Again:
    """Stands for a folder, as the input of another draw: of the ``documents`` that were read those
    that the ``last`` draw left without a row. One without another sentence is not drawn from
    again."""

    documents: StageFolder
    last: StageFolder
    draw: int
    goal: Goal

    def read(self, number: int) -> list[Example]:
        """The documents of a shard; DataError if a shard is not there, or damaged."""
        drawn = (each for each in self.last.stream(number) if _stage(each) not in _NONE_LEFT)
        left = {
            each.doc_id: (each.spans, each.tried) for each in drawn if not is_met(each, self.goal)
        }
        found = (
            each
            for each in (self.documents.stream(number) if left else ())
            if each.doc_id in left and not each.unused
        )
        return [
            replace(each, draw=self.draw, spans=spans, tried=tried)
            for each in found
            for spans, tried in [left[each.doc_id]]
        ]


def best_draws(folders: Sequence[StageFolder], shards: int, goal: Goal) -> Iterator[Example]:
    """Each document once, by the draw of it that got furthest, the first of several; ``folders``
    hold a draw each.

    ``draws`` is how many were made of it; ``lost`` counts those of all, and candidates are of the
    one that is kept."""
    for number in range(shards):
        first, *others = (folder.stream(number) for folder in folders)
        heads = [next(each, None) for each in others]
        for example in first:
            draws = [example]
            for place, head in enumerate(heads):
                if head is not None and head.doc_id == example.doc_id:
                    draws.append(head)
                    heads[place] = next(others[place], None)
            reasons = dict.fromkeys(reason for each in draws for reason in each.lost)
            lost = {reason: sum(each.lost.get(reason, 0) for each in draws) for reason in reasons}
            made = sum(_stage(each) not in _NONE_LEFT for each in draws)
            yield replace(max(draws, key=lambda each: reached(each, goal)), draws=made, lost=lost)


def _stage(example: Example) -> str:
    """The stage that gave a document up; empty if none did."""
    return example.unused.partition(":")[0]
