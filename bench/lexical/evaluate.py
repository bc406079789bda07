"""Tests the lexical judge's probabilities of support on labelled citations.

    python -m bench.lexical.evaluate --citations FILE [--plot FILE]

It measures how well the probabilities rank pairs, how well the judge decides, and whether the
probabilities are calibrated.
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
from sklearn.metrics import brier_score_loss, roc_auc_score
from tqdm import tqdm

from judges.lexical.comparison import Comparison
from judges.lexical.model import COEFFICIENTS, LexicalModel, load_lexical_model
from judges.lexical.words import ParsedPassage, parse_passage
from lm_factuality.ground.console import format_interval, print_table
from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.ground.records import read_text
from lm_factuality.scores.intervals import Interval, balanced_accuracy_interval

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_NUM_BINS = 10
_ROWS_KEY = "autoais_log"  # where the citation scorer of ALCE writes its decisions


@dataclass(frozen=True)
class CitedClaim:
    """A claim with the passages that it cites, and a label."""

    group: str
    """The name that was asked about.

    Claims of one group share their passages. Fitting and testing never split a group.
    """

    claim: str
    """The claim, which is a sentence of a biography."""

    passages: tuple[ParsedPassage, ...]
    """The cited passages."""

    is_entailed: bool
    """Whether the entailment model found that the passages entail the claim."""


@dataclass(frozen=True)
class Bin:
    """The pairs whose probability of support lies in one interval."""

    low: float
    """The lower end of the interval, which belongs to it."""

    high: float
    """The upper end of the interval, which does not belong to it."""

    count: int
    """The number of pairs."""

    mean_probability: float
    """The mean of their probabilities."""

    share_supported: float
    """The share of pairs that are labelled as supported."""


@dataclass(frozen=True)
class Reliability:
    """How well probabilities of support agree with labels."""

    num_pairs: int
    """The number of pairs of a claim and its passages."""

    share_supported: float
    """The share of pairs that are labelled as supported."""

    auc: float
    """The area under the ROC curve."""

    balanced_accuracy: float
    """The mean of sensitivity and specificity at the judge's threshold."""

    interval: Interval | None
    """The 95% interval of the balanced accuracy, clustered by group."""

    ece: float
    """The expected calibration error.

    It is the mean distance between a bin's mean probability and its share of supported pairs,
    weighted by the number of pairs.
    """

    brier: float
    """The Brier score, which is the mean squared error of the probabilities."""

    bins: tuple[Bin, ...]
    """The pairs by probability, without empty bins."""


def read_citations(path: Path) -> tuple[CitedClaim, ...]:
    """Read the labelled claims of a JSON file, which may be compressed by gzip.

    Returns:
        The claims in the order of the file.

    Raises:
        DataError: The file cannot be read, or a row is not as expected.
    """
    expected = f"expected labelled citations: JSON with a list {_ROWS_KEY!r}"
    try:
        rows = json.loads(read_text(path, expected))[_ROWS_KEY]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not labelled citations ({error!r}); {expected}") from error
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: {_ROWS_KEY!r} holds no rows")
    return tuple(_read_row(path, number, row) for number, row in enumerate(rows))


def _read_row(path: Path, number: int, row: object) -> CitedClaim:
    """Read one labelled claim.

    Args:
        path: The file, for the error.
        number: The number of the row, for the error.
        row: The row.

    Raises:
        DataError: The row is not as expected.
    """
    match row:
        case {
            "qid": group,
            "claim": str(claim),
            "passage": [*texts],
            "model_output": 0 | 1 as label,
        } if all(isinstance(text, str) for text in texts):
            passages: list[ParsedPassage] = []
            for text in texts:
                passages.extend(split_passages(text))
            return CitedClaim(str(group), claim, tuple(passages), bool(label))
    found = sorted(row) if isinstance(row, dict) else type(row).__name__
    raise DataError(
        f"{path}: row {number} of {_ROWS_KEY!r}: expected qid, claim (text), passage (list of"
        f" texts) and model_output (0 or 1), found {found}"
    )


def split_passages(joined: str) -> tuple[ParsedPassage, ...]:
    """Split a text into its passages, each of which begins with a line ``Title: ...``."""
    texts = re.split(r"\n(?=Title: )", joined)
    return tuple(parse_passage(text) for text in texts if text.strip())


def evaluate(model: LexicalModel, path: Path) -> Reliability:
    """Measure how well a model agrees with the labels of a file of citations.

    Raises:
        DataError: The file cannot be read, or its labels are all the same.
    """
    claims = read_citations(path)
    labels = np.array([claim.is_entailed for claim in claims])
    if labels.all() or not labels.any():
        raise DataError(
            f"{path}: all labels are the same; needs entailed and not entailed claims to test on"
        )
    probabilities = []
    for claim in tqdm(claims, desc=path.name, delay=2):
        probabilities.append(model.probability(Comparison(claim.claim, claim.passages)))
    groups = [claim.group for claim in claims]
    return assess(np.array(probabilities), labels, groups, model.threshold)


def assess(
    probabilities: Floats, labels: Flags, groups: Sequence[str], threshold: float
) -> Reliability:
    """Measure how well probabilities agree with labels.

    Args:
        probabilities: The probability of support of each pair, of shape (pairs,).
        labels: Whether each pair is supported, of shape (pairs,).
        groups: The group of each pair.
        threshold: The probability from which the judge says "supported".
    """
    bins = _make_bins(probabilities, labels)
    distances = [bin_.count * abs(bin_.mean_probability - bin_.share_supported) for bin_ in bins]

    is_positive = probabilities >= threshold
    # True positives, false positives, false negatives and true negatives.
    counts = np.column_stack(
        [is_positive & labels, is_positive & ~labels, ~is_positive & labels, ~is_positive & ~labels]
    )
    counts_by_group = []
    for group in sorted(set(groups)):
        in_group = np.array(groups) == group
        counts_by_group.append(counts[in_group].sum(axis=0).tolist())
    return Reliability(
        num_pairs=len(labels),
        share_supported=float(labels.mean()),
        auc=float(roc_auc_score(labels, probabilities)),
        balanced_accuracy=_balanced_accuracy(counts.sum(axis=0)),
        interval=balanced_accuracy_interval(counts_by_group),
        ece=float(sum(distances) / len(labels)),
        brier=float(brier_score_loss(labels, probabilities)),
        bins=bins,
    )


def _balanced_accuracy(counts: Sequence[float]) -> float:
    """Compute the mean of sensitivity and specificity, NaN if either is not defined.

    Args:
        counts: The numbers of true positives, false positives, false negatives and true
            negatives.
    """
    true_positives, false_positives, false_negatives, true_negatives = counts
    supported = true_positives + false_negatives
    unsupported = true_negatives + false_positives
    if not supported or not unsupported:
        return math.nan
    return float(true_positives / supported + true_negatives / unsupported) / 2


def _make_bins(probabilities: Floats, labels: Flags) -> tuple[Bin, ...]:
    """Divide pairs into bins of equal width by their probability."""
    # A probability of 1 belongs to the last bin.
    bin_numbers = np.minimum((probabilities * _NUM_BINS).astype(int), _NUM_BINS - 1)
    bins = []
    for number in np.unique(bin_numbers).tolist():
        in_bin = bin_numbers == number
        bins.append(
            Bin(
                low=number / _NUM_BINS,
                high=(number + 1) / _NUM_BINS,
                count=int(in_bin.sum()),
                mean_probability=float(probabilities[in_bin].mean()),
                share_supported=float(labels[in_bin].mean()),
            )
        )
    return tuple(bins)


def draw_reliability(reliability: Reliability, path: Path, title: str) -> None:
    """Draw the share of supported pairs against the probability, and the number of pairs below.

    Args:
        reliability: What to draw.
        path: The file of the plot, whose ending says its format.
        title: The title of the plot.
    """
    bins = reliability.bins
    figure = Figure(figsize=(5, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 1], [0, 1], color="gray", linestyle=":", label="perfectly calibrated")
    upper.plot(
        [bin_.mean_probability for bin_ in bins],
        [bin_.share_supported for bin_ in bins],
        marker="o",
        label=f"AUC {reliability.auc:.3f}, ECE {reliability.ece:.3f}",
    )
    upper.set(ylabel="share supported", title=title, xlim=(0, 1), ylim=(0, 1.02))
    upper.legend(loc="lower right")
    upper.grid(alpha=0.3)
    lower.bar(
        [bin_.low for bin_ in bins],
        [bin_.count for bin_ in bins],
        width=1 / _NUM_BINS,
        align="edge",
        edgecolor="white",
    )
    lower.set(xlabel="probability of support", ylabel="pairs")
    figure.savefig(path, dpi=200)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of bins, draw the plot if one is asked for, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lexical.evaluate",
        description="Test the lexical judge on labelled citations.",
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
        help="the judge's coefficients (default: the suite's)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw a reliability plot: .png, .svg or .pdf"
    )
    arguments = parser.parse_args(argv)
    citations = arguments.citations
    try:
        model = load_lexical_model(arguments.coefficients)
        reliability = evaluate(model, citations)
        if arguments.plot:
            draw_reliability(reliability, arguments.plot, f"lexical judge, {citations.name}")
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1

    _print_reliability(reliability, model, citations.name)
    if arguments.plot:
        sys.stdout.write(f"plot: {arguments.plot}\n")
    return 0


def _print_reliability(reliability: Reliability, model: LexicalModel, file_name: str) -> None:
    """Print the bins as a table, and the other figures below it."""
    rows = []
    for bin_ in reliability.bins:
        rows.append(
            (
                f"{bin_.low:.1f} - {bin_.high:.1f}",
                str(bin_.count),
                f"{bin_.mean_probability:.3f}",
                f"{bin_.share_supported:.3f}",
            )
        )
    notes = [
        f"{reliability.num_pairs:,} pairs, {reliability.share_supported:.1%} supported;"
        f" fitted on {model.fitted_on.get('file', 'an unnamed file')}",
        f"AUC {reliability.auc:.3f}",
        f"balanced accuracy {reliability.balanced_accuracy:.3f} at threshold"
        f" {model.threshold:.3f} (95% by name {format_interval(reliability.interval, '.3f')})",
        f"expected calibration error {reliability.ece:.3f}, Brier score {reliability.brier:.3f}",
    ]
    columns = ("probability", "#pairs", "#mean probability", "#share supported")
    print_table(f"Reliability of the lexical judge on {file_name}", columns, rows, notes)


if __name__ == "__main__":
    sys.exit(main())
