"""Tables that compare accuracy with perplexity, and a model with and without retrieval.

``lm-factuality compare`` calls `comparison_tables`. The tables hold what section 5.3 and
figure 4 of the FACTOR paper show. Figures 2 and 3 are in the report.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import NamedTuple

import numpy as np

from lm_factuality.benchmarks.chosen import (
    ScoreFigure,
    newest_runs,
    pairs_without_and_with_retrieval,
    score_figure,
)
from lm_factuality.benchmarks.declaration import ComparisonTable, Run, Score
from lm_factuality.benchmarks.factor.corpus import PERPLEXITY_SUFFIX
from lm_factuality.benchmarks.factor.metrics import SCORES
from lm_factuality.benchmarks.pairs import (
    PairedDifference,
    adjust_p_values,
    format_difference,
    paired_difference,
)
from lm_factuality.benchmarks.perplexity.benchmark import SCORES as PERPLEXITY_SCORES
from lm_factuality.harness.outputs import number_of
from lm_factuality.scores.intervals import Floats

ACCURACY = SCORES[0]


_PERPLEXITIES = {
    "token": PERPLEXITY_SCORES[0],
    "byte": PERPLEXITY_SCORES[1],
}
"""The declared scores for the perplexity per token and per byte, by the unit."""


@dataclass(frozen=True, eq=False)
class ModelOnCorpus:
    """A model's accuracy on the FACTOR rows of a corpus, and its perplexity on the same texts."""

    run: Run
    """The run of the FACTOR task."""

    accuracy: ScoreFigure

    perplexity_run: Run | None = None
    """The run of the perplexity task on the same corpus, None if there is none."""

    @property
    def task(self) -> str:
        """The name of the FACTOR task."""
        return self.run.task.task

    @property
    def model_name(self) -> str:
        """The name of the model in tables."""
        return self.run.label

    @property
    def num_tokens(self) -> int | None:
        """The number of tokens that the model's tokenizer makes of the texts, None if not known."""
        if self.perplexity_run is None:
            return None
        count = number_of(self.perplexity_run.task.metrics.get("num_tokens"))
        return None if count is None else int(count)

    def perplexity(self, unit: str) -> ScoreFigure | None:
        """Return the perplexity, or None if it is not known.

        Args:
            unit: ``token`` or ``byte``.
        """
        if self.perplexity_run is None:
            return None
        return score_figure(self.perplexity_run.task, _PERPLEXITIES[unit].name)


class Disagreement(NamedTuple):
    """Two models on one corpus that perplexity and accuracy rank differently."""

    better_by_perplexity: ModelOnCorpus
    """The model with the lower perplexity."""

    better_by_accuracy: ModelOnCorpus
    """The model with the higher accuracy."""

    units: tuple[str, ...]
    """The units of perplexity by which they disagree: ``token``, ``byte`` or both."""

    accuracy_gap: PairedDifference
    """The accuracy of the model that is better by accuracy minus that of the other one."""


class RetrievalGain(NamedTuple):
    """The accuracy of a model with retrieval minus its accuracy without."""

    without_retrieval: ModelOnCorpus
    with_retrieval: ModelOnCorpus
    difference: PairedDifference


class RankAgreement(NamedTuple):
    """How far two scores rank models alike."""

    tau: float | None
    """Kendall's tau-b, from -1 to 1. None for fewer than two models, or if all are tied."""

    num_models: int


class ModelsOnCorpora(NamedTuple):
    """Models with their accuracies and perplexities, and notes on runs that are left out."""

    models: list[ModelOnCorpus]
    notes: list[str]


def comparison_tables(runs: Sequence[Run]) -> list[ComparisonTable]:
    """Return tables of accuracy and perplexity on the same corpora, and of gains by retrieval.

    Args:
        runs: Runs of FACTOR tasks and of perplexity tasks. Others are left out.

    Returns:
        The tables. If there is nothing to compare, one empty table holds the notes on the runs.
    """
    models, notes_on_omitted_runs = models_on_corpora(runs)
    notes = [*notes_on_omitted_runs, *_notes_on_perplexity_runs(runs)]

    tables = _agreement_tables(models, notes)
    # The table of agreement shows the notes. Without it, a table without rows shows them, because
    # they may say why there is nothing to compare.
    if not tables and notes:
        tables.append(ComparisonTable("", (), (), notes))
    gains = retrieval_gains(models)
    if gains:
        tables.append(_gain_table(gains))
    return tables


def _notes_on_perplexity_runs(runs: Sequence[Run]) -> list[str]:
    """Return the notes on all perplexity runs, such as on their windows, with task and model."""
    notes = []
    for run in _perplexity_runs(runs):
        notes += [f"{run.task.task}, {run.label}: {note}" for note in run.notes]
    return notes


def models_on_corpora(runs: Sequence[Run]) -> ModelsOnCorpora:
    """Pair each model's run of a FACTOR task with its perplexity run on the same corpus.

    Only the newest run of a model counts, and only runs by the authors' protocol.

    Args:
        runs: Runs of FACTOR tasks and of perplexity tasks. Others are left out.

    Returns:
        The models with an accuracy, sorted by task and model, and notes on the runs that are left
        out.
    """
    # A run has a ``protocol`` only if it is not the authors'.
    runs_by_authors_protocol = [
        run for run in runs if run.task.kind == "factor" and not run.protocol
    ]
    factor_runs, factor_notes = newest_runs(runs_by_authors_protocol)
    perplexity_runs, perplexity_notes = newest_runs(_perplexity_runs(runs))
    # The keys are pairs of a FACTOR task and a model.
    perplexity_run_by_key = {(_factor_task(run), run.label): run for run in perplexity_runs}

    models = []
    for run in factor_runs:
        accuracy = score_figure(run.task, ACCURACY.name)
        # A backend that shows no tokenizer has no accuracy per token.
        if accuracy is not None:
            perplexity_run = perplexity_run_by_key.get((run.task.task, run.label))
            models.append(ModelOnCorpus(run, accuracy, perplexity_run))
    # Sorting makes the order independent of the order of the files.
    models.sort(key=lambda entry: (entry.task, entry.model_name))

    notes = [*factor_notes, *perplexity_notes]
    keys_with_accuracy = {(entry.task, entry.model_name) for entry in models}
    for key, run in perplexity_run_by_key.items():
        if key not in keys_with_accuracy:
            notes.append(_note_without_accuracy(run, _factor_task(run)))
    return ModelsOnCorpora(models, notes)


def _factor_task(perplexity_run: Run) -> str:
    """Return the FACTOR task on the same texts, such as ``news_factor`` for its perplexity task."""
    return perplexity_run.task.task.removesuffix(PERPLEXITY_SUFFIX)


def _perplexity_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of perplexity tasks."""
    return [run for run in runs if run.task.kind == "perplexity"]


def _note_without_accuracy(run: Run, factor_task: str) -> str:
    """Say that a model has a perplexity on the texts of a FACTOR task, but no accuracy there.

    Args:
        run: The run of the perplexity task.
        factor_task: The name of the FACTOR task.

    Returns:
        A note such as ``x_factor_perplexity, gpt2: perplexity 8.00, per byte 1.800; no accuracy on
        x_factor to go with it``.
    """
    values = {}
    for unit, score in _PERPLEXITIES.items():
        figure = score_figure(run.task, score.name)
        # Without a tokenizer, there is no perplexity per token.
        values[unit] = "none" if figure is None else score.format_value(figure.value)
    return (
        f"{run.task.task}, {run.label}: perplexity {values['token']}, per byte {values['byte']};"
        f" no accuracy on {factor_task} to go with it"
    )


def kendall_tau(models: Sequence[ModelOnCorpus], unit: str) -> RankAgreement:
    """Compute Kendall's tau-b of accuracy and perplexity.

    Args:
        models: Models on one corpus. Those without a perplexity are left out.
        unit: The unit of perplexity, ``token`` or ``byte``.

    Returns:
        The agreement. It is 1 if the lower perplexity always goes with the higher accuracy, and -1
        for the reverse.
    """
    negated_perplexities = []
    accuracies = []
    for model in models:
        perplexity = model.perplexity(unit)
        if perplexity is not None:
            # A lower perplexity is better. With its sign changed, higher is better for both scores.
            negated_perplexities.append(-perplexity.value)
            accuracies.append(model.accuracy.value)

    # tau-b is the correlation of the two orders. `scipy.stats.kendalltau` gives the same, but the
    # import of scipy.stats alone takes longer than the comparison.
    perplexity_order = _pairwise_order(negated_perplexities)
    accuracy_order = _pairwise_order(accuracies)
    normaliser = math.sqrt(np.sum(perplexity_order**2) * np.sum(accuracy_order**2))
    tau = None
    # It is 0 for a single model, and if all models are equal in one of the scores.
    if normaliser:
        tau = float(np.sum(perplexity_order * accuracy_order) / normaliser)
    return RankAgreement(tau, len(accuracies))


def _pairwise_order(values: Sequence[float]) -> Floats:
    """Compare each value with each other one: 1 if it is higher, -1 if it is lower, 0 if equal.

    Example:
        ``[3, 5]`` gives ``[[0, -1], [1, 0]]``.
    """
    order: Floats = np.sign(np.subtract.outer(values, values))
    return order


def accuracy_difference(first: ModelOnCorpus, second: ModelOnCorpus) -> PairedDifference:
    """Return the accuracy of the first model minus that of the second.

    Args:
        first: A model on a corpus.
        second: Another model on the same corpus, or the same model without retrieval.

    Returns:
        The difference. It is paired by row and clustered by document if the samples of both runs
        are at hand. Otherwise it has no interval, and ``shared_rows`` is 0.
    """
    reported_difference = first.accuracy.value - second.accuracy.value
    first_rows = first.run.scored_rows.get(ACCURACY.name)
    second_rows = second.run.scored_rows.get(ACCURACY.name)
    # Runs without samples have no rows.
    if first_rows is not None and second_rows is not None:
        paired = paired_difference(first_rows, second_rows, ACCURACY)
        # The difference over shared rows is not the reported one if the runs scored different rows,
        # or if samples and results are not of the same run.
        if paired and math.isclose(paired.difference, reported_difference, abs_tol=1e-8):
            return paired

    return PairedDifference(
        first.accuracy.value,
        second.accuracy.value,
        reported_difference,
        interval=None,
        p_value=None,
        shared_rows=0,
        shared_clusters=0,
    )


def find_disagreements(models: Sequence[ModelOnCorpus]) -> list[Disagreement]:
    """Find every pair of models that perplexity and accuracy rank differently.

    Args:
        models: Models on one corpus.

    Returns:
        The pairs. Their p-values are corrected for all pairs of models with different accuracies,
        also for those on which perplexity and accuracy agree.
    """
    accuracy_gaps = {}
    # `permutations` gives each pair in both orders. The order with the better model first is kept.
    for first, second in permutations(models, 2):
        if first.accuracy.value > second.accuracy.value:
            accuracy_gaps[first, second] = accuracy_difference(first, second)

    disagreements = []
    for (better_model, worse_model), gap in adjust_p_values(accuracy_gaps).items():
        units = _units_ranked_differently(better_model, worse_model)
        if units:
            disagreements.append(
                Disagreement(
                    better_by_perplexity=worse_model,
                    better_by_accuracy=better_model,
                    units=units,
                    accuracy_gap=gap,
                )
            )
    return disagreements


def _units_ranked_differently(
    better_model: ModelOnCorpus, worse_model: ModelOnCorpus
) -> tuple[str, ...]:
    """Return the units, ``token`` or ``byte``, in which the worse model has the lower perplexity.

    Args:
        better_model: The model with the higher accuracy.
        worse_model: The model with the lower accuracy on the same corpus.
    """
    units = []
    for unit in _PERPLEXITIES:
        perplexity = better_model.perplexity(unit)
        perplexity_of_worse = worse_model.perplexity(unit)
        # Perplexity ranks two models only if both have one.
        if perplexity is None or perplexity_of_worse is None:
            continue
        if perplexity_of_worse.value < perplexity.value:
            units.append(unit)
    return tuple(units)


def retrieval_gains(models: Sequence[ModelOnCorpus]) -> list[RetrievalGain]:
    """Compare every model that was run with and without retrieval.

    Args:
        models: Models on all corpora.

    Returns:
        The gains. Their p-values are corrected for all models of a corpus.
    """
    gains = []
    for models_of_task in _models_by_task(models).values():
        # The variant of a run says whether the model was run with retrieval.
        model_by_variant = {
            (model.run.file.model, model.run.file.variant): model for model in models_of_task
        }
        differences = {}
        for pair in pairs_without_and_with_retrieval(model_by_variant):
            without_retrieval, with_retrieval = pair
            differences[pair] = accuracy_difference(with_retrieval, without_retrieval)
        # Holm's correction needs all differences of a corpus at once.
        for pair, difference in adjust_p_values(differences).items():
            without_retrieval, with_retrieval = pair
            gains.append(RetrievalGain(without_retrieval, with_retrieval, difference))
    return gains


def _models_by_task(models: Sequence[ModelOnCorpus]) -> dict[str, list[ModelOnCorpus]]:
    """Group models by the name of the FACTOR task, in the order in which the tasks first occur."""
    models_by_task: dict[str, list[ModelOnCorpus]] = defaultdict(list)
    for model in models:
        models_by_task[model.task].append(model)
    return models_by_task


_TAU_NOTE = (
    "Kendall's tau-b of perplexity and accuracy: 1 if the lower perplexity always goes with the"
    " higher accuracy, -1 if never."
)
_AGREEMENT_COLUMNS = (
    "task",
    "model",
    "#factor_acc",
    "#perplexity",
    "#byte perplexity",
    "#tokens",
)
_PAIR_COLUMNS = (
    "task",
    "lower perplexity",
    "higher accuracy",
    "#perplexities",
    "#byte perplexities",
    "#accuracies",
    "#difference",
    "#95% interval",
    "#p",
    "#p, Holm",
    "by perplexity per",
)
_PAIR_NOTE = (
    "Differences in percentage points: paired by row and clustered by document where both runs kept"
    " the samples of the same rows (--log_samples). Holm's correction is for all pairs of a corpus."
)


def _agreement_tables(
    models: Sequence[ModelOnCorpus], notes: Sequence[str]
) -> list[ComparisonTable]:
    """Show how far accuracy and perplexity rank the same models alike.

    Args:
        models: Models on all corpora. Those without a perplexity are left out.
        notes: Further notes for below the first table.

    Returns:
        A table of all models with both scores, and a table of the pairs of models that the two
        scores rank differently. A table without rows is left out.
    """
    # Without a perplexity there is nothing to compare the accuracy with.
    compared_models = [model for model in models if any(map(model.perplexity, _PERPLEXITIES))]
    if not compared_models:
        return []

    disagreements: list[Disagreement] = []
    for models_of_task in _models_by_task(compared_models).values():
        disagreements += find_disagreements(models_of_task)
    if not disagreements:
        # Without this note, readers could think that the table of pairs is missing.
        notes = ["No pair of models on which the two disagree.", *notes]
        return [_agreement_table(compared_models, notes)]

    title = f"\nPairs of models on which the two disagree, as measured: {len(disagreements)}"
    pair_rows = list(map(_disagreement_row, disagreements))
    pair_table = ComparisonTable(title, _PAIR_COLUMNS, pair_rows, [_PAIR_NOTE])
    return [_agreement_table(compared_models, notes), pair_table]


def _agreement_table(
    models: Sequence[ModelOnCorpus], further_notes: Sequence[str]
) -> ComparisonTable:
    """Return the table of accuracies and perplexities, with notes on each corpus below it.

    Args:
        models: Models on all corpora, each with a perplexity.
        further_notes: Notes to show below those on the corpora.
    """
    rows = []
    notes = [_TAU_NOTE]
    for task, models_of_task in _models_by_task(models).items():
        rows += _agreement_rows(models_of_task)
        for note in chain(_notes_on_tau(models_of_task), _reasons_not_comparable(models_of_task)):
            notes.append(f"{task}: {note}")
    title = "\nAccuracy and perplexity on one corpus, as measured"
    return ComparisonTable(title, _AGREEMENT_COLUMNS, rows, [*notes, *further_notes])


def _notes_on_tau(models: Sequence[ModelOnCorpus]) -> Iterator[str]:
    """Say how far accuracy and perplexity rank models on one corpus alike.

    Yields:
        A note for each unit of perplexity, such as ``0.67 over 4 models, perplexity per byte``.
        None for a unit in which there is nothing to rank.
    """
    for unit in _PERPLEXITIES:
        agreement = kendall_tau(models, unit)
        if agreement.tau is not None:
            yield f"{agreement.tau:.2f} over {agreement.num_models} models, perplexity per {unit}"


def _agreement_rows(models: Sequence[ModelOnCorpus]) -> list[tuple[str, ...]]:
    """Return the rows of a table of models on one corpus, the most accurate first.

    Args:
        models: Models on one corpus, each with a perplexity.

    Returns:
        The cells of each row: the task, the model, its accuracy, its perplexity per token and per
        byte, and its number of tokens, which shows which models share a tokenizer. A cell is empty
        if its value is not known.
    """
    rows = []
    for model in sorted(models, key=lambda model: model.accuracy.value, reverse=True):
        accuracy = _with_stderr(ACCURACY, model.accuracy)
        perplexities = [
            _with_stderr(score, model.perplexity(unit)) for unit, score in _PERPLEXITIES.items()
        ]
        # For example 12,345.
        num_tokens = "" if model.num_tokens is None else f"{model.num_tokens:,}"
        rows.append((model.task, model.model_name, accuracy, *perplexities, num_tokens))
    return rows


def _with_stderr(score: Score, figure: ScoreFigure | None) -> str:
    """Write a score with its standard error, such as ``8.31 ± 0.10``.

    Args:
        score: The score, which decides the number of decimals.
        figure: Its value for a model. None gives an empty text.
    """
    if figure is None:
        return ""
    value = score.format_value(figure.value)
    return value if figure.stderr is None else f"{value} ± {score.format_value(figure.stderr)}"


def _reasons_not_comparable(models: Sequence[ModelOnCorpus]) -> Iterator[str]:
    """Say why perplexities of models on one corpus cannot be compared.

    Args:
        models: Models on one corpus.

    Yields:
        A sentence if the models have different tokenizers, and one if they had different windows.
        Nothing if all perplexities can be compared.
    """
    # If the same texts have different numbers of tokens, they were cut by different tokenizers.
    token_counts = {model.num_tokens for model in models}
    # None stands for a number that is not known.
    if None in token_counts:
        yield (
            "perplexities per token compare only models of one tokenizer, and not all token counts"
            " are known"
        )
    elif len(token_counts) > 1:
        yield (
            "token counts differ, so models have different tokenizers and only perplexities per"
            " byte compare all of them"
        )

    # A longer window usually gives a lower perplexity.
    perplexity_runs = [model.perplexity_run for model in models if model.perplexity_run]
    windows = {run.task.metadata.get("window_used") for run in perplexity_runs}
    if len(windows) > 1:
        yield f"windows differ: {', '.join(sorted(map(str, windows)))} tokens"


def _disagreement_row(disagreement: Disagreement) -> tuple[str, ...]:
    """Return the row of a table for two models that perplexity and accuracy rank differently.

    Args:
        disagreement: The two models, and how far their accuracies are apart.

    Returns:
        The cells of ``_PAIR_COLUMNS``: the task, the two models, their perplexities per token and
        per byte, their accuracies, the difference of these with its p-values, and the units of
        perplexity. A cell with numbers of both models, such as ``8.31 vs 9.02``, has that of the
        model with the lower perplexity first.
    """
    first, second, units, gap = disagreement
    formatted_gap = format_difference(gap, ACCURACY)
    return (
        first.task,
        first.model_name,
        second.model_name,
        *[_perplexities_cell(first, second, unit) for unit in _PERPLEXITIES],
        _two_values(ACCURACY, first.accuracy, second.accuracy),
        formatted_gap.difference,
        formatted_gap.interval or "unknown",
        formatted_gap.p_value or "unknown",
        formatted_gap.adjusted_p_value,
        " and ".join(units),
    )


def _perplexities_cell(first: ModelOnCorpus, second: ModelOnCorpus, unit: str) -> str:
    """Write the perplexities of two models, or nothing if a model has none in this unit."""
    first_perplexity = first.perplexity(unit)
    second_perplexity = second.perplexity(unit)
    if first_perplexity is None or second_perplexity is None:
        return ""
    return _two_values(_PERPLEXITIES[unit], first_perplexity, second_perplexity)


def _two_values(score: Score, first: ScoreFigure, second: ScoreFigure) -> str:
    """Write the values of a score for two models, such as ``8.31 vs 9.02``."""
    return f"{score.format_value(first.value)} vs {score.format_value(second.value)}"


def _gain_table(gains: Sequence[RetrievalGain]) -> ComparisonTable:
    """Return the table of models' accuracies with and without retrieval.

    Args:
        gains: The models that were run both ways.

    Returns:
        The table, with one row for each model and corpus.
    """
    rows = []
    for without_retrieval, with_retrieval, difference in gains:
        accuracies = [
            _with_stderr(ACCURACY, model.accuracy) for model in (without_retrieval, with_retrieval)
        ]
        difference_cells = format_difference(difference, ACCURACY)
        # The label of the run with retrieval names it, such as `gpt2 (hf-ralm)`.
        rows.append(
            (with_retrieval.task, with_retrieval.model_name, *accuracies, *difference_cells)
        )
    # Columns of numbers begin with "#". The last five show the difference.
    columns = (
        "task",
        "model",
        "#without",
        "#with retrieval",
        "#gain",
        "#95% interval",
        "#p",
        "#p, Holm",
        "#detectable",
    )
    note = "Paired by row, in percentage points; Holm's correction is for all models of a task."
    return ComparisonTable("\nAccuracy with and without retrieval", columns, rows, [note])
