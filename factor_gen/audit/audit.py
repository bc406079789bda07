"""The audit of a FACTOR benchmark: what blind baselines score, and which rows to look at.

``factor-gen audit`` calls :func:`audit_rows`; a build does for its card, on a sample of its rows.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tqdm import tqdm

from factor_gen.audit.baselines import classifier_scores, comparing, surface
from factor_gen.audit.evaluate import evaluate, floor, folds
from factor_gen.audit.flags import contradictions_of, flag_rows, identity
from factor_gen.audit.records import Audit, Distance, Scores
from factor_gen.audit.words import distance
from factor_gen.choose import Chosen
from factor_gen.records import Example
from lm_factuality.benchmarks.factor.rows import Row, make_row

SAMPLE = 5000  # rows that baselines are scored on
_KEPT = 1000  # rows of a build: enough to see a leak of four points


def audit_rows(rows: Sequence[Row], seed: int = 0, sample: int = SAMPLE) -> Audit:
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
    distinct = list(first_rows.values())
    sampled = distinct
    notes = []
    if len(distinct) > sample:
        places = random.Random(f"{seed}/audit/sample").sample(range(len(distinct)), sample)
        sampled = [distinct[place] for place in sorted(places)]
        notes.append(
            f"baselines were scored on {sample:,} of {len(distinct):,} rows, drawn by the seed;"
            " --sample N draws N"
        )
    unscorable = len(rows) - len(usable)
    repeated = len(usable) - len(distinct)
    if unscorable:
        notes.append(
            f"{unscorable:,} rows cannot be scored: they are left out of the figures and counted"
            " under their own flag"
        )
    if repeated:
        notes.append(f"{repeated:,} rows repeat others and count once in baselines")
    scores: list[Scores] = []
    if sampled:
        if len({row.gold for row in sampled}) == 1:
            notes.append(
                "the true completion has a place of its own in the file, so that choices have no"
                " order to tell it by"
            )
        scores += surface(sampled)
        fold_of_row = folds(sampled, seed)
        if len(set(fold_of_row)) > 1:
            scores.append(classifier_scores(sampled, fold_of_row))
        else:
            notes.append(
                "one document only, or such as share a text: nothing can be learned from others, so"
                " no classifier"
            )
        scores.append(comparing(sampled))
    types = [kind.strip().lower() for row in usable for kind in row.error_types]
    return Audit(
        rows=len(rows),
        documents=len({row.doc_id for row in rows}),
        unscorable=unscorable,
        sampled=len(sampled),
        floor=floor(sampled, seed),
        baselines=tuple(evaluate(scores, sampled, seed)),
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


class Reservoir:
    """Keeps at most ``size`` of a build's rows as they stream past.

    Each is as likely to be kept as any other; which ones, the seed decides.
    """

    def __init__(self, seed: int, size: int = _KEPT) -> None:
        self._rng = random.Random(f"{seed}/audit/reservoir")
        self._size = size
        self._seen = 0
        self.rows: list[Row] = []

    def watch(self, items: Iterable[Chosen | Example]) -> Iterator[Chosen | Example]:
        """Yield the items as they are."""
        for item in items:
            if isinstance(item, Chosen):
                self._keep(item)
            yield item

    def _keep(self, item: Chosen) -> None:
        is_full = self._seen >= self._size
        place = self._rng.randrange(self._seen + 1) if is_full else self._seen
        self._seen += 1
        if place >= self._size:
            return
        example = item.example
        texts = [candidate.text for candidate in item.contradictions]
        types = [candidate.type for candidate in item.contradictions]
        doc_id = example.doc_id
        choices = [example.completion, *texts]
        self.rows[place : place + 1] = [
            make_row(doc_id, doc_id, example.prefix, choices, 0, ["", *types])
        ]
