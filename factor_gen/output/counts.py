"""What became of the documents and of what was generated for them, counted as they pass."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from factor_gen.audit.words import distance
from factor_gen.choose import Chosen
from factor_gen.records import ERROR_TYPES, Example
from factor_gen.stages import ALL_STAGES


@dataclass
class Counts:
    """Counts so far: of documents, rows, and

    ``unused``     documents by (stage, reason); ``generated``  candidates by (type, generator);
    ``rejected``   candidates by what a filter says of them, and ``lost`` what could not be used as
    it was written, by reason; ``chosen``     contradictions by type, and ``doubtful`` by how
    doubtful they are; ``row_types`` rows by their number of types; ``distances`` contradictions by
    the words between them and their original; ``draws``      documents by the sentences that were
    drawn from them, and ``drawn`` rows by the draw that gave them.
    """

    documents: int = 0
    rows: int = 0
    unused: Counter[tuple[str, str]] = field(default_factory=Counter)
    generated: Counter[tuple[str, str]] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    chosen: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[int] = field(default_factory=Counter)
    row_types: Counter[int] = field(default_factory=Counter)
    distances: Counter[int] = field(default_factory=Counter)
    draws: Counter[int] = field(default_factory=Counter)
    drawn: Counter[int] = field(default_factory=Counter)

    def add(self, item: Chosen | Example) -> None:
        """Counts a row, a document that gave none, or one that is not done with."""
        example = item.example if isinstance(item, Chosen) else item
        self.documents += 1
        self.lost.update(example.lost)
        self.draws[example.draws] += 1
        for candidate in example.candidates:
            self.generated[candidate.type, candidate.generator] += 1
            if candidate.rejected:
                self.rejected[candidate.rejected] += 1
        if isinstance(item, Chosen):
            types = [candidate.type for candidate in item.contradictions]
            self.rows += 1
            self.drawn[example.draw] += 1
            self.chosen.update(types)
            self.doubtful.update(candidate.doubtful for candidate in item.contradictions)
            self.row_types[len(set(types))] += 1
            self.distances.update(
                distance(example.completion, each.text) for each in item.contradictions
            )
        elif item.unused:
            self.unused[stage_and_reason(item)] += 1

    @property
    def eligible(self) -> int:
        """Documents in which a sentence was found."""
        return self.documents - sum(
            count for (stage, _), count in self.unused.items() if stage in ("read", "select")
        )

    def stages(self) -> list[tuple[str, int, int]]:
        """Each stage with the documents that came to it and those that it gave up."""
        found, left = [], self.documents
        others = [stage for stage, _ in self.unused if stage not in ALL_STAGES]
        for stage in (*ALL_STAGES, *dict.fromkeys(sorted(others))):
            gone = sum(count for (name, _), count in self.unused.items() if name == stage)
            found.append((stage, left, gone))
            left -= gone
        return found

    def by_draw(self) -> list[tuple[int, int, int]]:
        """Each draw with the documents that it was made of, and the rows that came of it in the
        end."""
        numbers = range(1, max(self.draws, default=0) + 1)
        return [
            (draw, sum(self.draws[each] for each in self.draws if each >= draw), self.drawn[draw])
            for draw in numbers
        ]

    def distance(self) -> tuple[float, float]:
        """Mean and standard deviation of the edit distance in words; NaN without rows."""
        count = self.distances.total()
        if not count:
            return math.nan, math.nan
        mean = sum(distance * times for distance, times in self.distances.items()) / count
        return mean, math.sqrt(
            sum((distance - mean) ** 2 * times for distance, times in self.distances.items())
            / count
        )

    def to_json(self) -> dict[str, Any]:
        """The counts in an order of their own, not that of the documents."""
        mean, deviation = self.distance()
        order = [stage for stage, _, _ in self.stages()]
        unused = sorted(self.unused, key=lambda each: (order.index(each[0]), each))
        return {
            "documents": self.documents,
            "eligible": self.eligible,
            "rows": self.rows,
            "unused": [
                {"stage": stage, "reason": reason, "documents": self.unused[stage, reason]}
                for stage, reason in unused
            ],
            "generated": [
                {"type": kind, "generator": generator, "candidates": count}
                for (kind, generator), count in sorted(self.generated.items())
            ],
            "rejected": dict(sorted(self.rejected.items())),
            "lost": dict(sorted(self.lost.items())),
            "chosen": {
                kind: self.chosen[kind]
                for kind in (*ERROR_TYPES, *sorted(set(self.chosen) - set(ERROR_TYPES)))
            },
            "doubtful": {str(degree): self.doubtful[degree] for degree in (0, 1, 2)},
            "types_in_a_row": {
                str(number): count for number, count in sorted(self.row_types.items())
            },
            "draws": [
                {"draw": draw, "documents": documents, "rows": rows}
                for draw, documents, rows in self.by_draw()
            ],
            "edit_distance": {"mean": mean, "standard_deviation": deviation} if self.rows else None,
        }


def count_examples(examples: Iterable[Example]) -> Counts:
    """Count examples that no rows were chosen from."""
    counts = Counts()
    for example in examples:
        counts.add(example)
    return counts


def stage_and_reason(example: Example) -> tuple[str, str]:
    """The two halves of ``example.unused``."""
    stage, _, reason = example.unused.partition(": ")
    return (stage, reason) if reason else ("choose", example.unused or "no reason given")
