"""What became of the documents and of what was generated for them, counted as they pass."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factor_gen.choose import ChosenRow
from factor_gen.records import ERROR_TYPES, Example
from factor_gen.stages import ALL_STAGES


class BuiltBenchmark:
    """What a build made: its files, and the counts of all documents."""

    def __init__(self, files: Mapping[str, Path], filtered: Mapping[str, int]) -> None:
        """Begin to count.

        Args:
            files: The files by what they are.
            filtered: Rows of tables that ``corpus.where`` left out, by reason.
        """
        self.files = files
        self.filtered = filtered
        self.unused: Counter[tuple[str, str]] = Counter()
        """Documents that gave no row, by stage and reason."""
        self.lost: Counter[str] = Counter()
        """What a generator wrote and could not be used, by reason."""
        self._generated: Counter[tuple[str, str]] = Counter()
        self._rejected: Counter[str] = Counter()
        self._chosen: Counter[tuple[str, int]] = Counter()
        """Contradictions by type and by how doubtful they are."""
        self._types_of_row: Counter[int] = Counter()
        self._draws: Counter[int] = Counter()
        """Documents by the number of sentences that were drawn from them."""
        self._drawn: Counter[int] = Counter()
        """Rows by the draw that gave them."""

    @property
    def documents(self) -> int:
        """The documents that have passed."""
        return self._draws.total()

    @property
    def rows(self) -> int:
        """The rows that were chosen."""
        return self._drawn.total()

    def add(self, item: ChosenRow | Example) -> None:
        """Count a row, or a document that gave none."""
        example = item.example if isinstance(item, ChosenRow) else item
        self.lost.update(example.lost)
        self._draws[example.draw.total] += 1
        for candidate in example.candidates:
            self._generated[candidate.type, candidate.generator] += 1
            if candidate.rejected:
                self._rejected[candidate.rejected] += 1
        if isinstance(item, Example):
            self.unused[item.refusal] += 1
            return
        self._drawn[example.draw.number] += 1
        self._types_of_row[len({candidate.type for candidate in item.contradictions})] += 1
        for candidate in item.contradictions:
            self._chosen[candidate.type, candidate.doubtful] += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts for the manifest, in an order that is not that of the documents."""
        stages = []
        came = self.documents
        for stage in ALL_STAGES:
            given_up = sum(count for (name, _), count in self.unused.items() if name == stage)
            stages.append({"stage": stage, "came": came, "given_up": given_up})
            came -= given_up
        draws = []
        for draw in range(1, max(self._draws, default=0) + 1):
            documents = sum(count for number, count in self._draws.items() if number >= draw)
            draws.append({"draw": draw, "documents": documents, "rows": self._drawn[draw]})
        unused = sorted(self.unused, key=lambda key: (ALL_STAGES.index(key[0]), key))
        chosen: dict[str, int] = dict.fromkeys(ERROR_TYPES, 0)
        doubtful = {"0": 0, "1": 0, "2": 0}
        for (kind, degree), count in self._chosen.items():
            chosen[kind] += count
            doubtful[str(degree)] += count
        return {
            "documents": self.documents,
            "eligible": stages[2]["came"],
            "rows": self.rows,
            "filtered": dict(sorted(self.filtered.items())),
            "stages": stages,
            "unused": [
                {"stage": stage, "reason": reason, "documents": self.unused[stage, reason]}
                for stage, reason in unused
            ],
            "generated": [
                {"type": kind, "generator": generator, "candidates": count}
                for (kind, generator), count in sorted(self._generated.items())
            ],
            "rejected": dict(sorted(self._rejected.items())),
            "lost": dict(sorted(self.lost.items())),
            "chosen": chosen,
            "doubtful": doubtful,
            "types_in_a_row": {
                str(number): count for number, count in sorted(self._types_of_row.items())
            },
            "draws": draws,
        }
