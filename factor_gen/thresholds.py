"""Which threshold a filter should have: precision and share kept over thresholds 0.1 to 0.9, on
contradictions that people have labelled (appendix A.2)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factor_gen.records import ERROR_TYPES, whole
from lm_factuality.ground.errors import DataError, did_you_mean, refuse
from lm_factuality.ground.plots import new_figure, save_figure
from lm_factuality.ground.tables import Record, jsonl_rows, read_table
from lm_factuality.scores.statistics import defined

_TEXTS = ("prefix", "completion", "contradiction")
_LABELS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


@dataclass(frozen=True)
class Labelled:
    """One labelled contradiction: a filter's score of it (NaN: none), whether people say that it is
    what the filter looks for, and the texts, where a model is to score them."""

    score: float
    label: bool
    type: str = ""
    prefix: str = ""
    completion: str = ""
    contradiction: str = ""


def read_labelled(path: Path, label: str, score: str | None = None) -> list[Labelled]:
    """The rows of ``path``, each with a label in the column ``label``, and a score in the column
    ``score`` or, without one, with texts. Raises DataError: the file cannot be read, a column is
    missing, or a value cannot be used; says which rows."""
    rows = _rows(path)
    columns = {column for row in rows for column in row.values}
    if missing := [
        column
        for column in (*(_TEXTS if score is None else [score]), label)
        if column not in columns
    ]:
        raise DataError(
            f"{path}: has no column {', '.join(missing)}{did_you_mean(missing[0], columns)}; found"
            f" {', '.join(sorted(columns))}"
        )
    problems: list[str] = []
    found = [_sample(row.location, row.values, label, score, problems) for row in rows]
    refuse(problems, "problems", "fix these values, or leave the rows out")
    return found


def columns_of(path: Path) -> frozenset[str]:
    """The columns that the file has. Raises DataError: it cannot be read."""
    return frozenset(column for row in _rows(path) for column in row.values)


def _rows(path: Path) -> tuple[Record, ...]:
    table = read_table(path, otherwise=jsonl_rows)
    refuse(
        table.problems,
        "problems",
        "expected CSV in a file called .csv, or JSON lines: a row for each labelled contradiction",
    )
    return table.records


def _sample(
    where: str, row: Mapping[str, Any], label: str, score: str | None, problems: list[str]
) -> Labelled:
    texts = {column: row.get(column) for column in _TEXTS} if score is None else {}
    for column, text in texts.items():
        # a document's first sentence has no prefix, but nothing comes of an empty sentence
        if not isinstance(text, str) or not (text.strip() or column == "prefix"):
            problems.append(f"{where}: {column} is empty or no text")
        elif whole(text) != text:
            problems.append(
                f"{where}: {column} holds half of a surrogate pair, which is not a character"
            )
    kind = row.get("type") or ""
    if kind and kind not in ERROR_TYPES:
        close = did_you_mean(str(kind), ERROR_TYPES)
        problems.append(
            f"{where}: type is {kind!r}{close}; expected one of {', '.join(ERROR_TYPES)}, or an"
            " empty cell"
        )
    value = row.get(label)
    is_true = _LABELS.get(str(int(value)) if value in (0, 1) else str(value).strip().lower())
    if is_true is None:
        problems.append(f"{where}: {label} is {value!r}, expected 0 or 1")
    return Labelled(_score(where, score, row, problems), bool(is_true), str(kind), **texts)  # type: ignore[arg-type]


def _score(where: str, column: str | None, row: Mapping[str, Any], problems: list[str]) -> float:
    value = row.get(column) if column else None
    if value is None or value == "":  # an empty cell is no score
        return math.nan
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        problems.append(
            f"{where}: {column} is {value!r}, expected a number, or an empty cell where there is no"
            " score"
        )
    return score


THRESHOLDS = tuple(round(number / 10, 1) for number in range(1, 10))
MOST_FILTERED = 0.35  # of the samples, in the paper's rule


@dataclass(frozen=True)
class Share:
    """``count`` of ``total``, with Wilson's 95% interval; NaNs of nothing."""

    count: int
    total: int

    def __str__(self) -> str:
        return f"{self.value:.1%}" if self.total else "-"

    @property
    def value(self) -> float:
        return self.count / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson (1927): it stays within 0 and 1, and means something for few samples too."""
        from scipy.stats import binomtest

        if not self.total:
            return math.nan, math.nan
        low, high = binomtest(self.count, self.total).proportion_ci(method="wilson")
        return float(low), float(high)


@dataclass(frozen=True)
class Point:
    """What a threshold does: of the kept, how many are what they should be (``precision``); of all,
    how many are ``kept``."""

    threshold: float
    precision: Share
    kept: Share

    @property
    def filtered(self) -> float:
        """The share that is filtered out."""
        return 1 - self.kept.value


@dataclass(frozen=True)
class Curve:
    """All thresholds on the samples of ``group`` (a type, or ``all``). ``best`` is the paper's
    choice, None where there is none; ``true`` is how many samples are what they should be before
    anything is filtered."""

    group: str
    points: tuple[Point, ...]
    true: Share
    unscored: int

    @property
    def best(self) -> Point | None:
        """The highest precision with at most ``MOST_FILTERED`` filtered out; of equal ones the one
        that keeps more."""
        eligible = [
            each
            for each in self.points
            if each.kept.count and each.filtered <= MOST_FILTERED + 1e-9
        ]
        return max(eligible, key=lambda each: (each.precision.value, each.kept.count), default=None)


def curves(samples: Sequence[Labelled], is_margin: bool) -> list[Curve]:
    """Of all samples, and of each type where they have types. A sample is kept if its score is
    above the threshold; above the negative threshold for ``is_margin``, which is how the fluency
    filter has it. One without a score is never kept, as in a build."""
    types = sorted({each.type for each in samples if each.type})
    groups = {"all": samples} | {
        name: [each for each in samples if each.type == name] for name in types
    }
    return [_curve(name, group, is_margin) for name, group in groups.items()]


def to_json(curve: Curve) -> Mapping[str, Any]:
    """The curve as JSON has it; shares from 0 to 1, null where there is none."""
    return {
        "group": curve.group,
        "samples": curve.true.total,
        "true": curve.true.count,
        "unscored": curve.unscored,
        "best": None if curve.best is None else curve.best.threshold,
        "thresholds": [
            {
                "threshold": each.threshold,
                "kept": each.kept.count,
                "share_kept": each.kept.value,
                "precision": defined(each.precision.value),
                "precision_interval": [defined(bound) for bound in each.precision.interval],
            }
            for each in curve.points
        ],
    }


def _curve(name: str, samples: Sequence[Labelled], is_margin: bool) -> Curve:
    points = []
    for threshold in THRESHOLDS:
        bound = -threshold if is_margin else threshold
        kept = [each.label for each in samples if each.score > bound]  # a NaN is above nothing
        points.append(Point(threshold, Share(sum(kept), len(kept)), Share(len(kept), len(samples))))
    true = Share(sum(each.label for each in samples), len(samples))
    return Curve(name, tuple(points), true, sum(math.isnan(each.score) for each in samples))


def draw_thresholds(curves: Mapping[str, Curve], path: Path) -> None:
    """Draws the curves by the names of their filters, every threshold beside its point, with 95%
    intervals. Raises ConfigError: the name does not end in .png, .svg or .pdf; DataError: the file
    cannot be written."""
    figure = new_figure(6.5, 4.5)
    axes = figure.subplots()
    axes.axvline(
        1 - MOST_FILTERED, color="gray", linestyle=":", label=f"{MOST_FILTERED:.0%} filtered out"
    )
    for name, curve in curves.items():
        points = [each for each in curve.points if each.kept.count]
        shares, precisions = (
            [each.kept.value for each in points],
            [each.precision.value for each in points],
        )
        bounds = [each.precision.interval for each in points]
        below = [value - low for value, (low, _) in zip(precisions, bounds, strict=True)]
        above = [high - value for value, (_, high) in zip(precisions, bounds, strict=True)]
        label = f"{name}, {curve.true.total} samples" + (
            "" if curve.best is None else f", best {curve.best.threshold}"
        )
        axes.errorbar(
            shares, precisions, yerr=[below, above], marker="o", capsize=2, alpha=0.8, label=label
        )
        for each in points:
            place = (each.kept.value, each.precision.value)
            axes.annotate(
                f"{each.threshold}",
                place,
                xytext=(4, 4),
                textcoords="offset points",
                fontsize="x-small",
            )
    axes.set(xlabel="share kept", ylabel="precision of the kept", xlim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    save_figure(figure, path)
