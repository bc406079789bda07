"""``python -m bench.real.known``: what is known of FACTOR's published files, as ``known.yaml`` and
``docs/known.md`` have it.

Reads the published files, and the samples of the steps ``expert``, ``news`` and ``no_prefix`` of
``make real``.
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
from bench.real.table import put_on_page
from factor_gen.audit.audit import audit_rows
from factor_gen.audit.baselines import CENTRAL, CLASSIFIER
from factor_gen.audit.read import read_benchmark
from lm_factuality.benchmarks.factor.rows import Row, normalise_spacing, spaces_before_punctuation
from lm_factuality.ground.files import write_text
from lm_factuality.harness.samples import read_samples

TARGET = Path(__file__).with_name("known.yaml")
_HEAD = """\
# What is known of the published files, in per cent, whoever is evaluated. Made by: make real && python -m bench.real.known
# rows: those measured. central: the most central of the four choices (least summed edit distance) is the true one. lot: word weights by
# lot pick the true one, which is what knowing nothing scores. classifier_pairs: the classifier that sees one choice at a time prefers
# the true one to a single contradiction. only_true_spaced: rows in which the true completion alone has a space before punctuation.
# models: accuracy with the prefix, without it, and without it against a single contradiction (without_pairs).
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
NAMES = {"published": "", "normalised": ", spaces removed"}


def to_table(known: Mapping[str, Any], model: str) -> str:
    """The file as a table of Markdown."""
    lines = [
        ["", *(head.format(model=model) for head in _COLUMNS.values())],
        ["---", *["---:"] * len(_COLUMNS)],
    ]
    for source, spacings in known.items():
        for spacing in (each for each in NAMES if each in spacings):
            found = {**spacings[spacing]["models"].get(model, {}), **spacings[spacing]}
            lines.append(
                [f"{source}{NAMES[spacing]}", *(str(found.get(column, "–")) for column in _COLUMNS)]
            )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def of_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """What rows give away by themselves."""
    audit = audit_rows(rows)
    spaced = [[spaces_before_punctuation(choice) > 0 for choice in row.choices] for row in rows]
    return {
        "rows": len(rows),
        "central": _percent(audit.baseline(CENTRAL).rows_won.value),
        "lot": _percent(audit.guess_baseline.value),
        "classifier_pairs": _percent(audit.baseline(CLASSIFIER).pairs_won.value),
        "only_true_spaced": sum(
            each[row.gold] and sum(each) == 1 for each, row in zip(spaced, rows, strict=True)
        ),
    }


def of_model(out: Path, task: str) -> dict[str, Any]:
    """What the model of ``make real`` scores on ``task``."""
    whole, without = (_samples(out / step, task) for step in (task.partition("_")[0], "no_prefix"))
    margins = [
        means[sample["doc"]["gold"]] > mean
        for sample in without
        for means in [sample["factor_mean_logprob"]]
        for index, mean in enumerate(means)
        if index != sample["doc"]["gold"]
    ]
    return {
        "rows": len(whole),
        "with_prefix": _accuracy(whole),
        "without": _accuracy(without),
        "without_pairs": _percent(sum(margins) / len(margins)),
    }


def _samples(folder: Path, task: str) -> list[Mapping[str, Any]]:
    (path,) = folder.rglob(f"samples_{task}_[0-9]*.jsonl")
    return list(read_samples(path))


def _accuracy(samples: Sequence[Mapping[str, Any]]) -> float:
    return _percent(sum(sample["factor_acc"] for sample in samples) / len(samples))


def _percent(share: float) -> float:
    return round(100 * share, 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the file."""
    parser = argparse.ArgumentParser("python -m bench.real.known", description=__doc__)
    parser.add_argument(
        "--real",
        type=Path,
        default=REPOSITORY / "results" / "real",
        metavar="DIR",
        help="the --out of make real",
    )
    parser.add_argument("--model", default="SmolLM2-135M-Instruct", help="the name of its model")
    parser.add_argument("--out", type=Path, default=TARGET, metavar="FILE")
    options = parser.parse_args(argv)
    os.environ.setdefault("LM_FACTUALITY_DATA", str(options.real / "data"))
    found: dict[str, Any] = {}
    for source in ("expert_factor", "news_factor"):
        rows = read_benchmark(source).rows
        ways = {"published": (rows, source)}
        if source == "expert_factor":
            ways["normalised"] = [normalise_spacing(row) for row in rows], f"{source}_clean"
        found[source] = {
            spacing: {**of_rows(texts), "models": {options.model: of_model(options.real, task)}}
            for spacing, (texts, task) in ways.items()
        }
    whole, clean = (
        _samples(options.real / "expert", task) for task in ("expert_factor", "expert_factor_clean")
    )
    pairs = [
        (one["factor_acc"], other["factor_acc"]) for one, other in zip(whole, clean, strict=True)
    ]
    found["expert_factor"]["mended_by_spacing"] = pairs.count((0.0, 1.0))
    found["expert_factor"]["broken_by_spacing"] = pairs.count((1.0, 0.0))
    write_text(options.out, _HEAD + yaml.safe_dump(found, sort_keys=False))
    put_on_page(REPOSITORY / "docs" / "known.md", to_table(found, options.model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
