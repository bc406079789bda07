"""The counts of a build: what became of the documents and of the generated contradictions.

:func:`factor_gen.output.write.write_benchmark` counts them while it writes the rows.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factor_gen.choose import ChosenRow, DocumentOutcome
from factor_gen.records import (
    ERROR_TYPES,
    NO_REFUSAL,
    Example,
    ModelUse,
    Refusal,
    add_model_use,
)
from factor_gen.stages import ALL_STAGES
from judges.answers import Prices

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass
class ContradictionCounts:
    """The counts of what the generator made of the documents.

    Several sentences of a document may be tried, of which the document keeps one.
    """

    lost: Counter[str] = field(default_factory=Counter)
    """Outputs of the generator that could not be used, by reason."""

    generated: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Contradictions of the kept sentences, by error type and generator."""

    kept: Counter[Refusal] = field(default_factory=Counter)
    """Contradictions of the kept sentences, by the stage and reason of their rejection.

    Contradictions that no stage rejected are counted under `NO_REFUSAL`.
    """

    tried: Counter[Refusal] = field(default_factory=Counter)
    """Contradictions of all sentences that were tried, counted in the same way as ``kept``."""

    def add(self, example: Example) -> None:
        """Count what was generated for a document, whether it gave a row or not."""
        self.lost.update(example.lost)
        for candidate in example.candidates:
            self.generated[candidate.type, candidate.generator] += 1
            refusal = Refusal.parse(candidate.rejected)
            self.kept[refusal] += 1
            self.tried[refusal] += 1
        # The contradictions of sentences that the document does not keep, by their ``rejected``.
        for rejected, count in example.discarded.items():
            self.tried[Refusal.parse(rejected)] += count

    def to_json(self) -> dict[str, Any]:
        """Return the counts of generated, rejected and lost contradictions, each sorted."""
        generated = [
            {"type": error_type, "generator": generator, "candidates": count}
            for (error_type, generator), count in sorted(self.generated.items())
        ]
        rejected = {}
        for refusal, count in sorted(self.kept.items()):
            if refusal != NO_REFUSAL:
                rejected[f"{refusal.stage}: {refusal.reason}"] = count
        return {
            "generated": generated,
            "rejected": rejected,
            "lost": dict(sorted(self.lost.items())),
        }


@dataclass
class RowCounts:
    """The counts of the rows of a benchmark."""

    contradictions: Counter[str] = field(default_factory=Counter)
    """Contradictions in rows, by error type."""

    by_num_types: Counter[int] = field(default_factory=Counter)
    """Rows by how many error types their contradictions have."""

    by_draw: Counter[int] = field(default_factory=Counter)
    """Rows by the number of the draw whose sentence they have."""

    def add(self, row: ChosenRow) -> None:
        """Count a row and its contradictions."""
        types = [candidate.type for candidate in row.contradictions]
        self.contradictions.update(types)
        self.by_num_types[len(set(types))] += 1
        self.by_draw[row.example.draw.number] += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts of error types. Types that no contradiction has are listed with 0."""
        by_num_types = sorted(self.by_num_types.items())
        return {
            "chosen": {error_type: self.contradictions[error_type] for error_type in ERROR_TYPES},
            # The keys of a JSON object are texts.
            "types_in_a_row": {str(num_types): count for num_types, count in by_num_types},
        }


@dataclass
class BuiltBenchmark:
    """The result of a build: the files of the benchmark, and the counts of all documents.

    It is created before any document is counted.
    """

    files: Mapping[str, Path]
    """The files of the benchmark by kind, such as ``csv`` and ``task``."""

    filtered: Mapping[str, int]
    """How many rows of tables ``corpus.where`` left out, by reason."""

    prices: Mapping[str, Prices | None] = field(default_factory=dict)
    """The prices of the model that a stage asks, by stage."""

    unused: Counter[Refusal] = field(default_factory=Counter)
    """Documents that gave no row, by stage and reason."""

    documents_by_num_draws: Counter[int] = field(default_factory=Counter)
    """Documents by the number of their draws.

    In each draw, one sentence of a document goes through the stages. The document keeps the best of
    these sentences.
    """

    model_use: dict[str, ModelUse] = field(default_factory=dict)
    """What each stage asked a model."""

    contradictions: ContradictionCounts = field(default_factory=ContradictionCounts)

    row_counts: RowCounts = field(default_factory=RowCounts)

    @property
    def documents(self) -> int:
        """The number of documents that were counted."""
        return self.documents_by_num_draws.total()

    @property
    def rows(self) -> int:
        """The number of rows of the benchmark."""
        return self.row_counts.by_draw.total()

    def to_pandas(self) -> "DataFrame":
        """Return the rows of the benchmark as a pandas DataFrame, with the columns of its CSV."""
        import pandas

        return pandas.read_csv(self.files["csv"])

    def count(self, outcome: DocumentOutcome) -> None:
        """Add a document to the counts: the row that it gave, or the document if it gave none."""
        if isinstance(outcome, ChosenRow):
            example = outcome.example
            self.row_counts.add(outcome)
        else:
            example = outcome
            self.unused[example.refusal] += 1
        self.contradictions.add(example)
        self.documents_by_num_draws[example.draw.total] += 1
        self.model_use = add_model_use(self.model_use, example.model_use)

    def cost(self, stage: str) -> float | None:
        """Return what a stage paid for its model in USD. None if the prices are not known."""
        prices = self.prices.get(stage)
        use = self.model_use[stage]
        return prices.cost(use.prompt_tokens, use.answer_tokens) if prices else None

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object for the manifest and the dataset card.

        All members are sorted, or in the order of the stages or the paper, so that they do not
        depend on the order in which documents were counted.
        """
        stages = self._count_by_stage()
        # A document is eligible if the stage "select" found a sentence in it, so that it entered
        # the next stage.
        eligible = stages[ALL_STAGES.index("types")]["entered"]

        return {
            "documents": self.documents,
            "eligible": eligible,
            "rows": self.rows,
            "filtered": dict(sorted(self.filtered.items())),
            "stages": stages,
            "unused": self._count_unused(),
            **self.contradictions.to_json(),
            **self.row_counts.to_json(),
            "draws": self._count_by_draw(),
            "model_use": self._describe_model_use(),
        }

    def _describe_model_use(self) -> dict[str, dict[str, Any]]:
        """Return what each stage that asked a model asked it, and paid for it.

        Example:
            ``{"generate": {"requests": 90, "prompt_tokens": 40000, ..., "usd": 0.25}}``
        """
        return {
            stage: {**self.model_use[stage]._asdict(), "usd": self.cost(stage)}
            for stage in ALL_STAGES
            if stage in self.model_use
        }

    def _count_unused(self) -> list[dict[str, Any]]:
        """Count the documents without a row by the stage that gave them up, and by its reason.

        The objects are in the order of the stages, and those of a stage in alphabetical order.

        Example:
            ``[{"stage": "select", "reason": "the text is empty", "documents": 12}]``
        """
        in_order = sorted(
            self.unused, key=lambda refusal: (ALL_STAGES.index(refusal.stage), refusal.reason)
        )
        return [{**refusal._asdict(), "documents": self.unused[refusal]} for refusal in in_order]

    def _count_by_stage(self) -> list[dict[str, Any]]:
        """Count for each stage, in order, the documents that entered it and those that it dropped.

        Example:
            ``[{"stage": "read", "entered": 90, "dropped": 2}, {"stage": "select", ...}, ...]``
        """
        unused_by_stage: Counter[str] = Counter()
        for refusal, count in self.unused.items():
            unused_by_stage[refusal.stage] += count

        stages = []
        num_documents = self.documents
        for stage in ALL_STAGES:
            num_unused = unused_by_stage[stage]
            stages.append({"stage": stage, "entered": num_documents, "dropped": num_unused})
            num_documents -= num_unused
        return stages

    def _count_by_draw(self) -> list[dict[str, int]]:
        """Count the documents that took part in each draw, and the rows that it led to.

        A draw tries one more sentence of each document that has no good row yet.

        Example:
            ``{"draw": 2, "documents": 30, "rows": 11}`` if a second sentence of 30 documents was
            tried, and 11 of these sentences are in rows.
        """
        counts = []
        num_drawing = self.documents
        last_draw = max(self.documents_by_num_draws, default=0)
        for draw in range(1, last_draw + 1):
            # Documents whose last draw was the one before do not take part in this one.
            num_drawing -= self.documents_by_num_draws[draw - 1]
            num_rows = self.row_counts.by_draw[draw]
            counts.append({"draw": draw, "documents": num_drawing, "rows": num_rows})
        return counts
