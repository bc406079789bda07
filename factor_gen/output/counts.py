"""What became of the documents and of what was generated for them, counted as they pass."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from factor_gen.audit.words import distance
from factor_gen.choose import Chosen
from factor_gen.records import ERROR_TYPES, Example
from factor_gen.stages import ALL_STAGES


@dataclass
class Counts:
    """The counts so far."""

    unused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Documents that gave no row, by stage and reason."""
    generated: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Candidates by type and generator."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Candidates by what a filter says against them."""
    lost: Counter[str] = field(default_factory=Counter)
    """What could not be used as it was written, by reason."""
    chosen: Counter[str] = field(default_factory=Counter)
    """Contradictions by type."""
    doubtful: Counter[int] = field(default_factory=Counter)
    """Contradictions by how doubtful they are."""
    row_types: Counter[int] = field(default_factory=Counter)
    """Rows by the number of types of their contradictions."""
    distances: Counter[int] = field(default_factory=Counter)
    """Contradictions by their edit distance in words."""
    draws: Counter[int] = field(default_factory=Counter)
    """Documents by the number of sentences that were drawn from them."""
    drawn: Counter[int] = field(default_factory=Counter)
    """Rows by the draw that gave them."""

    @property
    def documents(self) -> int:
        """The documents that have passed."""
        return self.draws.total()

    @property
    def rows(self) -> int:
        """The rows that were chosen."""
        return self.drawn.total()

    def add(self, item: Chosen | Example) -> None:
        """Count a row, a document that gave none, or one that is not done with."""
        example = item.example if isinstance(item, Chosen) else item
        self.lost.update(example.lost)
        self.draws[example.draws] += 1
        for candidate in example.candidates:
            self.generated[candidate.type, candidate.generator] += 1
            if candidate.rejected:
                self.rejected[candidate.rejected] += 1
        if isinstance(item, Chosen):
            self.drawn[example.draw] += 1
            types = [candidate.type for candidate in item.contradictions]
            self.chosen.update(types)
            self.row_types[len(set(types))] += 1
            for candidate in item.contradictions:
                self.doubtful[candidate.doubtful] += 1
                self.distances[distance(example.completion, candidate.text)] += 1
        elif item.unused:
            self.unused[stage_and_reason(item)] += 1

    @property
    def eligible(self) -> int:
        """Documents in which a sentence was found."""
        return self.documents - self._given_up("read") - self._given_up("select")

    def _given_up(self, stage: str) -> int:
        return sum(count for (name, _), count in self.unused.items() if name == stage)

    def stages(self) -> list[tuple[str, int, int]]:
        """Return each stage with the documents that came to it and those that it gave up."""
        rows = []
        came = self.documents
        for stage in ALL_STAGES:
            given_up = self._given_up(stage)
            rows.append((stage, came, given_up))
            came -= given_up
        return rows

    def by_draw(self) -> list[tuple[int, int, int]]:
        """Return each draw with the documents it was made of and the rows it gave in the end."""
        rows = []
        for draw in range(1, max(self.draws, default=0) + 1):
            documents = sum(count for number, count in self.draws.items() if number >= draw)
            rows.append((draw, documents, self.drawn[draw]))
        return rows

    def distance(self) -> tuple[float, float]:
        """Return mean and standard deviation of the edit distance in words; NaN without rows."""
        total = self.distances.total()
        if not total:
            return math.nan, math.nan
        mean = sum(words * count for words, count in self.distances.items()) / total
        squares = sum((words - mean) ** 2 * count for words, count in self.distances.items())
        return mean, math.sqrt(squares / total)

    def to_json(self) -> dict[str, Any]:
        """Return the counts for the manifest, in an order that is not that of the documents."""
        mean, deviation = self.distance()
        unused = sorted(self.unused, key=lambda key: (ALL_STAGES.index(key[0]), key))
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
            "chosen": {kind: self.chosen[kind] for kind in ERROR_TYPES},
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


def stage_and_reason(example: Example) -> tuple[str, str]:
    """Return which stage gave a document up, and why."""
    stage, _, reason = example.unused.partition(": ")
    return stage, reason
