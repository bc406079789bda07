"""Drawing again: sentences of a document are tried one after the other, until one gives enough contradictions; the best is kept.

A draw is a pass of the stages ``select`` to ``filter``. The second and later ones see the documents alone that the one before
left without a row of two types, so that a corpus where the first sentence mostly does costs little more than one draw. What a
draw does depends on the seed and the document alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from factor_gen.choose import standing
from factor_gen.records import Example
from factor_gen.settings import BuildSettings
from factor_gen.shards import StageFolder
from factor_gen.stages import ALL_STAGES, READ

_TYPES = 2  # of the contradictions of a row, that no other sentence is tried


@dataclass(frozen=True)
class Wanted:
    """What ends the draws of a document: so many contradictions, of so many types."""

    contradictions: int
    types: int

    @classmethod
    def by(cls, settings: BuildSettings) -> "Wanted":
        """Two types where rows of them can be had at all, more if the settings want more."""
        possible = min(_TYPES, settings.choose.contradictions, len(settings.types.types))
        return cls(settings.choose.contradictions, max(settings.choose.min_types, possible))

    def rank(self, example: Example) -> tuple[int, int, int]:
        """How far a draw got: the stage, then contradictions, then types, none counted beyond what is wanted."""
        left = standing(example)
        stage = example.unused.partition(":")[0]
        reached = ALL_STAGES.index(stage) if stage in ALL_STAGES else len(ALL_STAGES)
        kinds = {each.type for each in left}
        return reached, min(len(left), self.contradictions), min(len(kinds), self.types)

    def met_by(self, example: Example) -> bool:
        """Whether no other sentence is tried."""
        return not example.unused and self.rank(example)[1:] == (self.contradictions, self.types)


@dataclass(frozen=True)
class Again:
    """Stands for a folder, as the input of another draw: of the ``documents`` that were read those that the ``last`` draw left
    without a row. One without another sentence is not drawn from again."""

    documents: StageFolder
    last: StageFolder
    draw: int
    wanted: Wanted

    def read(self, number: int) -> list[Example]:
        """The documents of a shard.

        Raises:
            DataError: a shard is not there, or damaged.
        """
        over = (READ, "select")  # there was no sentence to draw
        drawn = [each for each in self.last.stream(number) if each.unused.partition(":")[0] not in over]
        left = {each.doc_id for each in drawn if not self.wanted.met_by(each)}
        if not left:
            return []
        found = (each for each in self.documents.stream(number) if each.doc_id in left and not each.unused)
        return [replace(each, draw=self.draw) for each in found]


def best_draws(folders: Sequence[StageFolder], shards: int, wanted: Wanted) -> Iterator[Example]:
    """Each document once, by the draw of it that got furthest, the first of several; ``folders`` hold a draw each.

    ``draws`` is how many were made of it; ``lost`` counts those of all, and candidates are of the one that is kept.
    """
    for number in range(shards):
        first, *others = (folder.stream(number) for folder in folders)
        heads = [next(each, None) for each in others]
        for example in first:
            draws = [example]
            for place, head in enumerate(heads):
                if head is not None and head.doc_id == example.doc_id:
                    draws.append(head)
                    heads[place] = next(others[place], None)
            made = [each for each in draws if not each.unused.startswith((f"{READ}:", "select:"))]
            lost: dict[str, int] = {}
            for reason, count in (item for each in draws for item in each.lost.items()):
                lost[reason] = lost.get(reason, 0) + count
            yield replace(max(draws, key=wanted.rank), draws=len(made), lost=lost)
