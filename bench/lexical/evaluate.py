"""Tests the lexical judge on labelled citations: ``python -m bench.lexical.evaluate --citations
FILE [--plot FILE]``.

How good its probabilities of support are: ranking, decisions, and whether they mean what they say.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score
from tqdm import tqdm

from judges.lexical.comparison import Comparison
from judges.lexical.model import COEFFICIENTS, LexicalModel, load_lexical_model
from judges.lexical.words import ParsedPassage, parse_passage
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.ground.records import read_text
from lm_factuality.scores.statistics import pooled_interval

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

BINS = 10
_LOG = "autoais_log"  # the name that the ALCE citation scorer gives to its list of decisions


def split_passages(joined: str) -> tuple[ParsedPassage, ...]:
    """The passages of a text in which each begins with a line ``Title: ...``."""
    return tuple(parse_passage(part) for part in re.split(r"\n(?=Title: )", joined) if part.strip())


@dataclass(frozen=True)
class CitedClaim:
    """``group`` is the name that was asked about: claims of one group share their passages and are
    never split between fitting and testing."""

    group: str
    claim: str
    passages: tuple[ParsedPassage, ...]
    is_entailed: bool


def read_citations(path: Path) -> tuple[CitedClaim, ...]:
    """The labelled claims of a JSON file (also .gz), in file order.

    Raises:
        DataError: the file cannot be read, or a row is not as expected; the text names the row.
    """
    expected = f"expected labelled citations: JSON with a list {_LOG!r}"
    try:
        rows = json.loads(read_text(path, expected))[_LOG]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not labelled citations ({error!r}); {expected}") from error
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: {_LOG!r} holds no rows")
    return tuple(_cited_claim(path, number, row) for number, row in enumerate(rows))


def _cited_claim(path: Path, number: int, row: object) -> CitedClaim:
    match row:
        case {
            "qid": group,
            "claim": str(claim),
            "passage": [*texts],
            "model_output": 0 | 1 as label,
        } if all(isinstance(text, str) for text in texts):
            passages = tuple(passage for text in texts for passage in split_passages(text))
            return CitedClaim(str(group), claim, passages, bool(label))
    found = sorted(row) if isinstance(row, dict) else type(row).__name__
    raise DataError(
        f"{path}: row {number} of {_LOG!r}: expected qid, claim (text), passage (list of texts) and model_output (0 or 1), "
        f"found {found}"
    )


@dataclass(frozen=True)
class Bin:
    """The pairs whose probability lies from ``low`` to below ``high``: their mean probability and
    their share entailed."""

    low: float
    high: float
    count: int
    mean_probability: float
    share_supported: float


@dataclass(frozen=True)
class Reliability:
    """``brier`` is the mean squared error of the probabilities, ``ece`` the mean distance between a
    bin's probability and its share, weighted by pairs (expected calibration error); the interval is
    of ``balanced_accuracy``."""

    num_pairs: int
    share_supported: float
    auc: float
    balanced_accuracy: float
    interval: tuple[float, float]
    ece: float
    brier: float
    bins: tuple[Bin, ...]


def evaluate(model: LexicalModel, path: Path) -> Reliability:
    """How well ``model`` agrees with the labels of the citations in ``path``.

    Raises:
        DataError: the file cannot be read, or its labels are all the same.
    """
    pairs = read_citations(path)
    labels = np.array([pair.is_entailed for pair in pairs])
    if labels.all() or not labels.any():
        raise DataError(
            f"{path}: all labels are the same; needs entailed and not entailed claims to test on"
        )
    measured = (
        model.probability(Comparison(pair.claim, pair.passages))
        for pair in tqdm(pairs, desc=path.name, delay=2)
    )
    return assess(np.array(list(measured)), labels, [pair.group for pair in pairs], model.threshold)


def assess(
    probabilities: Floats, labels: Flags, groups: Sequence[str], threshold: float
) -> Reliability:
    """All of it for pairs (n,); the bootstrap of the interval draws whole groups (95%,
    percentiles)."""
    bins = _bins(probabilities, labels)
    ece = sum(
        each.count * abs(each.mean_probability - each.share_supported) for each in bins
    ) / len(labels)
    said = probabilities >= threshold
    outcomes = np.column_stack([said & labels, labels, ~said & ~labels, ~labels])
    rows = [
        outcomes[np.array(groups) == group].sum(axis=0).tolist() for group in sorted(set(groups))
    ]
    return Reliability(
        num_pairs=len(labels),
        share_supported=float(labels.mean()),
        auc=float(roc_auc_score(labels, probabilities)),
        balanced_accuracy=_balanced_accuracy(outcomes.sum(axis=0)),
        interval=pooled_interval(rows, _balanced_accuracy),
        ece=float(ece),
        brier=float(((probabilities - labels) ** 2).mean()),
        bins=bins,
    )


def _balanced_accuracy(totals: Sequence[float]) -> float:
    hits, supported, rejections, unsupported = totals
    return (
        float(hits / supported + rejections / unsupported) / 2
        if supported and unsupported
        else math.nan
    )


def _bins(probabilities: Floats, labels: Flags) -> tuple[Bin, ...]:
    numbers = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    found = []
    for number in np.unique(numbers).tolist():
        inside = numbers == number
        means = float(probabilities[inside].mean()), float(labels[inside].mean())
        found.append(Bin(number / BINS, (number + 1) / BINS, int(inside.sum()), *means))
    return tuple(found)


def _draw(result: Reliability, path: Path, title: str) -> None:
    """Draws the bins over the diagonal of perfect reliability, with the number of pairs in each bin
    below."""
    figure = Figure(figsize=(5, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 1], [0, 1], color="gray", linestyle=":", label="perfectly reliable")
    shares = [each.share_supported for each in result.bins]
    label = f"AUC {result.auc:.3f}, ECE {result.ece:.3f}"
    upper.plot([each.mean_probability for each in result.bins], shares, marker="o", label=label)
    upper.set(ylabel="share supported", title=title, xlim=(0, 1), ylim=(0, 1.02))
    upper.legend(loc="lower right")
    upper.grid(alpha=0.3)
    lows, counts = [each.low for each in result.bins], [each.count for each in result.bins]
    lower.bar(lows, counts, width=1 / BINS, align="edge", edgecolor="white")
    lower.set(xlabel="probability of support", ylabel="pairs")
    figure.savefig(path, dpi=200)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures and the table of reliability; draws the plot if one is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lexical.evaluate", description="Tests the lexical judge."
    )
    parser.add_argument(
        "--citations",
        type=Path,
        required=True,
        metavar="FILE",
        help="labelled citations, JSON or JSON.gz",
    )
    parser.add_argument(
        "--coefficients",
        type=Path,
        default=COEFFICIENTS,
        metavar="FILE",
        help="default: the suite's",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="reliability plot: .png, .svg or .pdf"
    )
    parsed = parser.parse_args(argv)
    try:
        model = load_lexical_model(parsed.coefficients)
        result = evaluate(model, parsed.citations)
        if parsed.plot:
            _draw(result, parsed.plot, f"lexical judge, {parsed.citations.name}")
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    low, high = result.interval
    print_table(
        f"Reliability of the lexical judge on {parsed.citations.name}",
        ("probability", "#pairs", "#mean probability", "#share supported"),
        [
            (
                f"{each.low:.1f} - {each.high:.1f}",
                str(each.count),
                f"{each.mean_probability:.3f}",
                f"{each.share_supported:.3f}",
            )
            for each in result.bins
        ],
        [
            f"{result.num_pairs:,} pairs, {result.share_supported:.1%} supported; "
            f"fitted on {model.fitted_on.get('file', 'an unnamed file')}",
            f"AUC {result.auc:.3f}",
            f"balanced accuracy {result.balanced_accuracy:.3f} at threshold {model.threshold:.3f} "
            f"(95% bootstrap over names {low:.3f} - {high:.3f})",
            f"expected calibration error {result.ece:.3f}, Brier score {result.brier:.3f}",
            *([f"plot: {parsed.plot}"] if parsed.plot else []),
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
