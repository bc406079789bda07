"""The audit of a FACTOR benchmark: what blind baselines score, which rows to look at, how far
choices lie apart."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tqdm import tqdm

from factor_gen.audit.baselines import classifier_scores, comparing, surface
from factor_gen.audit.evaluate import evaluate, floor, folds
from factor_gen.audit.flags import flag_rows, identity
from factor_gen.audit.records import Audit, Distance, Scores
from factor_gen.audit.words import distance
from factor_gen.choose import Chosen
from factor_gen.records import Example
from lm_factuality.benchmarks.factor.rows import Row, make_row

SAMPLE = 5000  # rows that baselines are scored on
_KEPT = 1000  # rows of a build: enough to see a leak of four points


def audit_rows(rows: Sequence[Row], seed: int = 0, sample: int | None = SAMPLE) -> Audit:
    """What ``rows`` give away; the same for the same rows and seed. Rows that repeat others count
    once in baselines. If there are more rows than ``sample``, the baselines see that many, drawn by
    ``seed``. Raises ConfigError: a library is not installed."""
    usable = [row for row in rows if not row.problem]
    different = list({identity(row): row for row in reversed(usable)}.values())[::-1]
    drawn, notes = _draw(different, seed, sample)
    unscorable, repeated = len(rows) - len(usable), len(usable) - len(different)
    if unscorable:
        notes.append(
            f"{unscorable:,} rows cannot be scored: they are left out of the figures and counted"
            " under their own flag"
        )
    if repeated:
        notes.append(f"{repeated:,} rows repeat others and count once in baselines")
    if drawn and len({row.gold for row in drawn}) == 1:
        notes.append(
            "the true completion has a place of its own in the file, so that choices have no order"
            " to tell it by"
        )
    scores: list[Scores] = []
    if drawn:
        scores += [*surface(drawn), *_learned(drawn, seed, notes), *comparing(drawn)]
    baselines = evaluate(scores, drawn, seed)
    types = Counter(
        kind.strip().lower() for row in usable for kind in row.error_types if kind.strip()
    )
    flags = flag_rows(tqdm(rows, desc="rows", delay=2, leave=False, unit=" rows"))
    return Audit(
        rows=len(rows),
        documents=len({row.doc_id for row in rows}),
        unscorable=unscorable,
        sampled=len(drawn),
        floor=floor(drawn, seed),
        baselines=tuple(baselines),
        flags=tuple(flags),
        distance=_distance(usable),
        types=dict(types.most_common()),
        notes=tuple(notes),
    )


def _draw(rows: Sequence[Row], seed: int, sample: int | None) -> tuple[list[Row], list[str]]:
    if sample is None or len(rows) <= sample:
        return list(rows), []
    chosen = sorted(random.Random(f"{seed}/audit/sample").sample(range(len(rows)), sample))
    note = (
        f"baselines were scored on {sample:,} of {len(rows):,} rows, drawn by the seed; --sample N"
        " draws N"
    )
    return [rows[index] for index in chosen], [note]


def _learned(rows: Sequence[Row], seed: int, notes: list[str]) -> list[Scores]:
    parts = folds(rows, seed)
    if len(set(parts)) < 2:
        notes.append(
            "one document only, or such as share a text: nothing can be learned from others, so no"
            " classifier"
        )
        return []
    return [classifier_scores(rows, parts)]


def _distance(rows: Sequence[Row]) -> Distance:
    """In words of the file as it is, spaces before punctuation included, as the paper's figures
    seem to be."""
    apart = [
        distance(row.choices[row.gold], choice)
        for row in tqdm(rows, desc="edit distances", delay=2, leave=False)
        for index, choice in enumerate(row.choices)
        if index != row.gold
    ]
    if not apart:
        return Distance(math.nan, math.nan, 0)
    mean = sum(apart) / len(apart)
    return Distance(
        mean, max(0.0, sum(each**2 for each in apart) / len(apart) - mean**2) ** 0.5, len(apart)
    )


class Reservoir:
    """At most ``size`` of a build's rows, kept as they stream past: each as likely as any other;
    which ones, the seed decides."""

    def __init__(self, seed: int, size: int = _KEPT) -> None:
        self._rng = random.Random(f"{seed}/audit/reservoir")
        self._size = size
        self._seen = 0
        self._kept: dict[int, Row] = {}

    @property
    def rows(self) -> list[Row]:
        """What was kept, by its place in the reservoir."""
        return [self._kept[place] for place in sorted(self._kept)]

    def watch(self, items: Iterable[Chosen | Example]) -> Iterator[Chosen | Example]:
        """The items as they are."""
        for item in items:
            if isinstance(item, Chosen):
                place = (
                    self._seen if self._seen < self._size else self._rng.randrange(self._seen + 1)
                )
                if place < self._size:
                    example, false = item.example, item.contradictions
                    choices, types = [each.text for each in false], [each.type for each in false]
                    self._kept[place] = make_row(
                        example.doc_id,
                        example.doc_id,
                        example.prefix,
                        [example.completion, *choices],
                        0,
                        ["", *types],
                    )
                self._seen += 1
            yield item
