"""The audit of a FACTOR benchmark: what blind baselines score, and which rows to look at.

``factor-gen audit`` calls :func:`audit_rows`; a build does for its card, on a sample of its rows.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence

from tqdm import tqdm

from factor_gen.audit.baselines import classifier_scores, comparing, surface
from factor_gen.audit.evaluate import (
    assign_folds,
    document_groups,
    estimate_shares,
    evaluate_baselines,
)
from factor_gen.audit.flags import contradictions_of, flag_rows, identity
from factor_gen.audit.records import BenchmarkAudit, ChoiceScores, Distance
from factor_gen.audit.words import distance
from lm_factuality.benchmarks.factor.metrics import floor_accuracy
from lm_factuality.benchmarks.factor.rows import Row

SAMPLE = 5000  # rows that baselines are scored on


def audit_rows(rows: Sequence[Row], seed: int = 0, sample: int = SAMPLE) -> BenchmarkAudit:
    """Return what rows give away; the same for the same rows and seed.

    Args:
        rows: The rows. Those that repeat others count once in baselines.
        seed: Decides the sample, the folds of the classifier, and resamples.
        sample: How many rows the baselines see at most.

    Raises:
        ConfigError: A library is not installed.
    """
    usable = [row for row in rows if not row.problem]
    first_rows: dict[object, Row] = {}
    for row in usable:
        first_rows.setdefault(identity(row), row)
    sampled = list(first_rows.values())
    notes = []
    if len(sampled) > sample:
        notes.append(
            f"baselines were scored on {sample:,} of {len(sampled):,} rows, drawn by the seed;"
            " --sample N draws N"
        )
        places = random.Random(f"{seed}/audit/sample").sample(range(len(sampled)), sample)
        sampled = [sampled[place] for place in sorted(places)]
    scores: list[ChoiceScores] = []
    if sampled:
        scores += surface(sampled)
        fold_of_row = assign_folds(sampled, seed)
        if len(set(fold_of_row)) > 1:
            scores.append(classifier_scores(sampled, fold_of_row))
        else:
            notes.append(
                "one document only, or such as share a text: nothing can be learned from others, so"
                " no classifier"
            )
        scores.append(comparing(sampled))
    floors = [floor_accuracy(row.choices, row.gold, seed) for row in sampled]
    shares_of_one = [1 / len(row.choices) for row in sampled]
    floor, even = estimate_shares([floors, shares_of_one], document_groups(sampled), seed)
    types = [kind.strip().lower() for row in usable for kind in row.error_types]
    return BenchmarkAudit(
        rows=len(rows),
        documents=len({row.doc_id for row in rows}),
        sampled=len(sampled),
        floor=floor,
        even=even.value,
        baselines=tuple(evaluate_baselines(scores, sampled, seed)),
        flags=tuple(flag_rows(tqdm(rows, desc="rows", delay=2, leave=False, unit=" rows"))),
        distance=_distance(usable),
        types=dict(Counter(filter(None, types)).most_common()),
        notes=tuple(notes),
    )


def _distance(rows: Sequence[Row]) -> Distance:
    """Measure the edit distance in words of the file as it is, spaces before punctuation included.

    The paper's figures seem to be measured so.
    """
    distances = [
        distance(row.choices[row.gold], choice)
        for row in tqdm(rows, desc="edit distances", delay=2, leave=False)
        for choice in contradictions_of(row)
    ]
    if not distances:
        return Distance(math.nan, math.nan, 0)
    mean = sum(distances) / len(distances)
    variance = sum(words**2 for words in distances) / len(distances) - mean**2
    return Distance(mean, max(0.0, variance) ** 0.5, len(distances))
