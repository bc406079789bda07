"""The audit of a FACTOR benchmark: what blind baselines score, and which rows to look at.

``factor-gen audit`` calls `audit_rows`. A build calls it on some of its rows for the dataset card.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence

from tqdm.auto import tqdm

from factor_gen.audit.baselines import classifier_scores, similarity_scores, surface_scores
from factor_gen.audit.evaluate import (
    assign_folds,
    document_groups,
    evaluate_baselines,
)
from factor_gen.audit.flags import content_key, contradictions_of, flag_rows
from factor_gen.audit.records import LEARNED, BenchmarkAudit, ChoiceScores, Distance, EstimatedShare
from factor_gen.audit.words import word_edit_distance
from lm_factuality.benchmarks.factor.metrics import guess_accuracy
from lm_factuality.benchmarks.factor.rows import Row


def audit_rows(rows: Sequence[Row], seed: int = 0, sample_size: int = 5000) -> BenchmarkAudit:
    """Audit a FACTOR benchmark: score blind baselines on it, and flag rows to look at.

    Each row has a prefix, its true completion, and contradictions, which are edits of the true
    completion. A blind baseline picks one of these choices without reading the prefix.

    Args:
        rows: All rows of the benchmark.
        seed: Decides all random steps, such as which rows the baselines score.
        sample_size: How many rows the baselines score at most.

    Returns:
        The results, which are the same for the same rows and seed.

    Raises:
        ConfigError: A library is not installed.
    """
    # The baselines score a sample of different rows, because they take long on a large benchmark.
    usable_rows = [row for row in rows if not row.problem]
    distinct_rows = _drop_repeated_rows(usable_rows)
    sampled_rows = draw_rows(distinct_rows, sample_size, f"{seed}/audit/sample")
    scores = _score_choices(sampled_rows, seed)

    # A model that knows nothing may give each word a random weight, or pick a choice at random.
    documents = document_groups(sampled_rows)
    shares_by_weights = [guess_accuracy(row.choices, row.gold, seed) for row in sampled_rows]
    shares_by_picks = [1 / len(row.choices) for row in sampled_rows]

    # Rows that cannot be scored are flagged too.
    flags = flag_rows(tqdm(rows, desc="rows", delay=2, leave=False, unit=" rows"))
    return BenchmarkAudit(
        rows=len(rows),
        documents=len({row.doc_id for row in rows}),
        sampled=len(sampled_rows),
        guess_baseline=EstimatedShare.of(shares_by_weights, documents),
        even_chance=EstimatedShare.of(shares_by_picks, documents).value,
        baselines=tuple(evaluate_baselines(scores, sampled_rows, seed)),
        flags=tuple(flags),
        distance=_measure_distance(usable_rows),
        types=_count_error_types(usable_rows),
        notes=_describe_omissions(len(distinct_rows), len(sampled_rows), scores),
    )


def _drop_repeated_rows(rows: Sequence[Row]) -> list[Row]:
    """Keep the first of all rows that have the same prefix and the same choices."""
    first_rows: dict[object, Row] = {}
    for row in rows:
        first_rows.setdefault(content_key(row), row)
    return list(first_rows.values())


def draw_rows(rows: Sequence[Row], size: int, seed: str) -> list[Row]:
    """Draw ``size`` rows at random, or all if there are no more, and keep their order."""
    if size >= len(rows):
        return list(rows)
    indexes = random.Random(seed).sample(range(len(rows)), size)
    # Sorting restores the order of the rows.
    return [rows[index] for index in sorted(indexes)]


def _score_choices(rows: Sequence[Row], seed: int) -> list[ChoiceScores]:
    """Score all choices by every blind baseline. Without rows there are no scores.

    The seed decides which rows the classifier learns from together.
    """
    if not rows:
        return []

    scores = list(surface_scores(rows))
    folds = assign_folds(rows, seed)
    # The classifier can only learn from other documents.
    if len(set(folds)) > 1:
        scores.append(classifier_scores(rows, folds))
    scores.append(similarity_scores(rows))
    return scores


def _describe_omissions(
    num_rows: int, num_sampled: int, scores: Sequence[ChoiceScores]
) -> tuple[str, ...]:
    """Say what is missing from the results of the baselines: some rows, or the classifier.

    Args:
        num_rows: How many distinct rows the benchmark has.
        num_sampled: How many of them the baselines scored.
        scores: The scores of each baseline.

    Returns:
        A sentence for each thing that is missing.
    """
    notes = []
    if num_sampled < num_rows:
        notes.append(
            f"baselines were scored on {num_sampled:,} of {num_rows:,} rows, drawn by the seed;"
            " --sample N draws N"
        )
    # The classifier is the only baseline that learns.
    has_classifier = any(baseline.family == LEARNED for baseline in scores)
    # Without rows, there are no scores of any baseline.
    if scores and not has_classifier:
        notes.append(
            "no classifier: all rows are of one document, or of documents that share a text, so"
            " that it could not learn from other documents"
        )
    return tuple(notes)


def _measure_distance(rows: Sequence[Row]) -> Distance:
    """Measure the edit distance in words between each contradiction and its true completion.

    Words are taken as they are in the file. Some files have a space before a full stop, which then
    counts as a word. So measured, the published files have about the distances of the paper.

    Returns:
        The mean and the standard deviation; NaN without contradictions.
    """
    distances = []
    for row in tqdm(rows, desc="edit distances", delay=2, leave=False):
        for contradiction in contradictions_of(row):
            distances.append(word_edit_distance(row.choices[row.gold], contradiction))
    if not distances:
        return Distance(math.nan, math.nan, 0)

    mean = sum(distances) / len(distances)
    mean_square = sum(distance**2 for distance in distances) / len(distances)
    # Rounding may put a variance of zero slightly below it.
    variance = max(0.0, mean_square - mean**2)
    return Distance(mean, variance**0.5, len(distances))


def _count_error_types(rows: Sequence[Row]) -> dict[str, int]:
    """Count the contradictions of each error type that the file states, most frequent first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(error_type.strip().lower() for error_type in row.error_types)
    # The true completions have an empty type.
    del counts[""]
    return dict(counts.most_common())
