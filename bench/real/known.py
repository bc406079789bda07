"""Measures what FACTOR's published files give away, for ``known.yaml`` and ``docs/known.md``.

Run ``make real``, and then ``python -m bench.real.known``. It audits the published files, and reads
the samples of the steps ``expert``, ``news`` and ``no_prefix``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.real.__main__ import REPOSITORY
from bench.real.model import NAME
from bench.real.read import read_task_samples
from bench.real.table import markdown_lines, put_on_page
from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL, CLASSIFIER
from factor_gen.audit.read import read_benchmark
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing, spaces_before_punctuation
from lm_factuality.ground.files import write_text

TARGET = Path(__file__).with_name("known.yaml")
"""The file with the figures."""

Figures = dict[str, Any]
"""Numbers by name, as ``known.yaml`` has them. Shares are in per cent."""

Sample = Mapping[str, Any]
"""A line of lm_eval's samples file."""

_EXPERT = "expert_factor"
_EXPERT_CLEAN = "expert_factor_clean"
_NEWS = "news_factor"
_HEAD = """\
# What FACTOR's published files give away, in per cent. This command writes the file:
#
#     make real && python -m bench.real.known
#
# published, normalised: the file as it is, and without spaces before punctuation.
# rows: the number of rows that were measured.
# central: the most central of the four choices, with the smallest sum of edit distances, is true.
# lot: the true choice has the largest sum of random word weights, as a model without knowledge has.
# classifier_pairs: a classifier that sees one choice at a time prefers the true one of a pair.
# only_true_spaced: the number of rows in which only the true choice has spaces before punctuation.
# with_prefix, without: the accuracy of a model that sees the prefix, or does not.
# without_pairs: the share of contradictions that the model finds less likely than the true choice,
#     without the prefix.
# mended_by_spacing, broken_by_spacing: the number of rows that become right, or wrong, if the
#     spaces are removed.
"""
_COLUMNS = {
    "rows": "rows",
    "central": "most central, %",
    "lot": "random weights, %",
    "classifier_pairs": "classifier, pairs, %",
    "with_prefix": "{model}, %",
    "without": "without the prefix, %",
    "without_pairs": "without, pairs, %",
}
_SPACINGS = {"published": "", "normalised": ", spaces removed"}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the figures, and write the file and the table of ``docs/known.md``.

    Returns:
        The exit code, which is 0.
    """
    options = _parse_options(argv)
    os.environ.setdefault("LM_FACTUALITY_DATA", str(options.real / "data"))
    figures = measure(options.real, options.model)
    write_text(options.out, _HEAD + yaml.safe_dump(figures, sort_keys=False))
    put_on_page(REPOSITORY / "docs" / "known.md", to_table(figures, options.model))
    return 0


def _parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        "python -m bench.real.known",
        description="Measure what FACTOR's published files give away without knowledge of facts.",
    )
    parser.add_argument(
        "--real",
        type=Path,
        default=REPOSITORY / "results" / "real",
        metavar="DIR",
        help="the folder that make real has written (default: results/real)",
    )
    parser.add_argument(
        "--model", default=NAME, help="the name of the model that ran (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=TARGET,
        metavar="FILE",
        help="the file to write (default: bench/real/known.yaml)",
    )
    return parser.parse_args(argv)


def measure(real: Path, model: str) -> Figures:
    """Return the figures of each published file.

    Args:
        real: The folder that ``make real`` has written.
        model: The name of the model.
    """
    expert_rows = read_benchmark(_EXPERT).rows
    clean_rows = [normalise_spacing(row) for row in expert_rows]
    mended, broken = _count_changes(real)
    return {
        _EXPERT: {
            "published": _measure_file(expert_rows, real, model, _EXPERT),
            "normalised": _measure_file(clean_rows, real, model, _EXPERT_CLEAN),
            "mended_by_spacing": mended,
            "broken_by_spacing": broken,
        },
        _NEWS: {"published": _measure_file(read_benchmark(_NEWS).rows, real, model, _NEWS)},
    }


def _measure_file(rows: Sequence[Row], real: Path, model: str, task: str) -> Figures:
    """Return the figures of all rows, and those of the model on the task with these rows."""
    audit = audit_rows(rows)
    return {
        "rows": len(rows),
        "central": _percent(audit.baseline(CENTRAL).rows_won.value),
        "lot": _percent(audit.guess_baseline.value),
        "classifier_pairs": _percent(audit.baseline(CLASSIFIER).pairs_won.value),
        "only_true_spaced": sum(_is_only_true_choice_spaced(row) for row in rows),
        "models": {model: _measure_model(real, task)},
    }


def _is_only_true_choice_spaced(row: Row) -> bool:
    """Return whether the true choice alone has spaces before punctuation."""
    has_spaces = [spaces_before_punctuation(choice) > 0 for choice in row.choices]
    return has_spaces[row.gold] and sum(has_spaces) == 1


def _measure_model(real: Path, task: str) -> Figures:
    """Return what the model of ``make real`` scores on a task."""
    # The steps are called expert and news.
    step, _, _ = task.partition("_")
    samples = list(read_task_samples(real / step, task))
    samples_without_prefix = list(read_task_samples(real / "no_prefix", task))
    pairs_won = []
    for sample in samples_without_prefix:
        gold = sample["doc"]["gold"]
        mean_logprobs = sample["factor_mean_logprob"]
        for index, mean_logprob in enumerate(mean_logprobs):
            if index != gold:
                pairs_won.append(mean_logprobs[gold] > mean_logprob)
    return {
        "rows": len(samples),
        "with_prefix": _accuracy(samples),
        "without": _accuracy(samples_without_prefix),
        "without_pairs": _percent(sum(pairs_won) / len(pairs_won)),
    }


def _count_changes(real: Path) -> tuple[int, int]:
    """Count the rows of Expert-FACTOR that become right, and wrong, if the spaces are removed."""
    published_samples = read_task_samples(real / "expert", _EXPERT)
    clean_samples = read_task_samples(real / "expert", _EXPERT_CLEAN)
    changes = []
    for published, clean in zip(published_samples, clean_samples, strict=True):
        changes.append((published["factor_acc"], clean["factor_acc"]))
    return changes.count((0.0, 1.0)), changes.count((1.0, 0.0))


def _accuracy(samples: Sequence[Sample]) -> float:
    """Return the accuracy on some rows, in per cent."""
    return _percent(sum(sample["factor_acc"] for sample in samples) / len(samples))


def _percent(share: float) -> float:
    """Return a share in per cent with one decimal."""
    return round(100 * share, 1)


def to_table(figures: Mapping[str, Any], model: str) -> str:
    """Return the table of ``docs/known.md`` in Markdown.

    Args:
        figures: The content of ``known.yaml``.
        model: The name of the model to show.
    """
    heads = [head.format(model=model) for head in _COLUMNS.values()]
    rows = [["", *heads], ["---", *["---:"] * len(heads)]]
    for source, source_figures in figures.items():
        for spacing, note in _SPACINGS.items():
            if spacing not in source_figures:
                continue
            file_figures = source_figures[spacing]
            # Both have a number of rows, and the table shows that of the file.
            cells = {**file_figures["models"].get(model, {}), **file_figures}
            shown_figures = [str(cells.get(column, "–")) for column in _COLUMNS]
            rows.append([f"{source}{note}", *shown_figures])
    return markdown_lines(rows)


if __name__ == "__main__":
    sys.exit(main())
