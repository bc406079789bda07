"""Fits the lexical judge: ``python -m bench.lexical.fit --citations FILE --out coefficients.json``.

A logistic regression with an L2 penalty, its penalty and threshold chosen by cross-validation that
keeps groups whole.
"""

import argparse
import datetime
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from bench.lexical.evaluate import Flags, Floats, read_citations
from judges.lexical.comparison import Comparison
from judges.lexical.model import FEATURES, feature_vector
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.ground.files import write_text

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
FOLDS = 5
# A whole sentence has many words, so it is measured by related words and by how close to each other
# the passages have them. Coverage and missing names then add nothing out of fold, and missing ends
# and the presence of numbers say more about Vicuna than about support.
CITATION_FEATURES = (
    "unrelated",
    "together",
    "in_order",
    "missing_numbers",
    "missing_name_words",
    "negation_differs",
    "namesakes",
    "is_additive",
    "has_kinship",
)
# A short fact is found word by word.
FACT_FEATURES = tuple(name for name in FEATURES if name not in ("unrelated", "together"))
_SOURCE = (
    "claims of biographies, each with the passages it cites and whether the entailment model TRUE (T5-11B) found it entailed, "
    "from the authors' repository of D-FActScore; only numbers fitted on them are here, none of their text"
)
_DIGITS = 6
# the coverage from which a claim is mostly in its passages' words, and the threshold matters
_COPIED = 0.75


@dataclass(frozen=True)
class Fit:
    """Coefficients for the features as they are measured, and what the cross-validation showed:
    ``probabilities`` (one a pair) are from models that did not see the pair's group."""

    coefficients: Floats
    intercept: float
    penalty: float
    threshold: float
    probabilities: Floats

    def to_content(
        self, features: Sequence[str], labels: Flags, groups: Sequence[str], **fitted_on: Any
    ) -> dict[str, Any]:
        """The content of a coefficients file: the numbers, and on what they were fitted."""
        named = zip(features, self.coefficients, strict=True)
        return {
            "coefficients": {name: round(float(value), _DIGITS) for name, value in named},
            "intercept": round(self.intercept, _DIGITS),
            "threshold": round(self.threshold, _DIGITS),
            "fitted_on": {
                **fitted_on,
                "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                "pairs": len(labels),
                "supported": int(labels.sum()),
                "names": len(set(groups)),
                "penalty": self.penalty,
                "auc_out_of_fold": round(roc_auc_score(labels, self.probabilities), 4),
            },
        }


def fit(features: Floats, labels: Flags, groups: Sequence[str], is_hard: Flags) -> Fit:
    """The regression of ``labels`` (n,) on ``features`` (n, k).

    Of ``PENALTIES`` the one with the least log loss out of fold is used, then the threshold with
    the best balanced accuracy out of fold among the pairs that are hard (n,): the many that any
    threshold gets right would only pull it away from where the decisions fall. Nothing is random:
    groups are dealt to folds in the order of their names.
    """
    number = {group: index % FOLDS for index, group in enumerate(sorted(set(groups)))}
    folds = np.array([number[group] for group in groups])
    ways = {"cv": PredefinedSplit(folds), "method": "predict_proba"}
    out_of_fold = {
        each: cross_val_predict(_regression(each), features, labels, **ways)[:, 1]
        for each in PENALTIES
    }
    penalty = min(PENALTIES, key=lambda each: log_loss(labels, out_of_fold[each]))
    probabilities = out_of_fold[penalty]
    threshold = best_threshold(probabilities[is_hard], labels[is_hard])
    return Fit(*regress(features, labels, penalty), penalty, threshold, probabilities)


def regress(features: Floats, labels: Flags, penalty: float) -> tuple[Floats, float]:
    """(coefficients (k,), intercept): the least of log loss plus half the penalty times the squared
    coefficients of the standardised features; what is returned is for the features as they are."""
    scaler, regression = _regression(penalty).fit(features, labels).named_steps.values()
    coefficients = regression.coef_[0] / scaler.scale_
    return coefficients, float(regression.intercept_[0] - coefficients @ scaler.mean_)


def best_threshold(probabilities: Floats, labels: Flags) -> float:
    """The probability from which to say yes for the best balanced accuracy; between two neighbours,
    the middle."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, hits = probabilities[order], labels[order]
    balanced = (np.cumsum(hits) / hits.sum() + 1 - np.cumsum(~hits) / (~hits).sum()) / 2
    distinct = np.append(np.diff(ranked) != 0, True)
    best = int(np.argmax(np.where(distinct, balanced, -np.inf)))
    return float(ranked[best] if best + 1 == len(ranked) else (ranked[best] + ranked[best + 1]) / 2)


def _regression(penalty: float) -> Pipeline:
    return make_pipeline(
        StandardScaler(), LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000)
    )


def fit_file(path: Path, source: str = _SOURCE) -> dict[str, Any]:
    """The content of a coefficients file fitted on ``path``: coefficients, threshold, and on what
    they were fitted.

    Raises:
        DataError: the file cannot be read, or its labels are all the same.
    """
    pairs = read_citations(path)
    labels = np.array([pair.is_entailed for pair in pairs])
    groups = [pair.group for pair in pairs]
    if labels.all() or not labels.any() or len(set(groups)) < FOLDS:
        raise DataError(
            f"{path}: needs entailed and not entailed claims of at least {FOLDS} names to fit on"
        )
    measured = ("coverage", *CITATION_FEATURES)
    values = np.array(
        [
            feature_vector(Comparison(pair.claim, pair.passages), measured)
            for pair in tqdm(pairs, desc="features", delay=2)
        ]
    )
    is_hard, features = values[:, 0] >= _COPIED, values[:, 1:]
    if labels[is_hard].all() or not labels[is_hard].any():
        raise DataError(
            f"{path}: of the claims whose words the passages mostly have, all have the same label"
        )
    result = fit(features, labels, groups, is_hard)
    return result.to_content(
        CITATION_FEATURES,
        labels,
        groups,
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        source=source,
        auc_out_of_fold_mostly_copied=round(
            roc_auc_score(labels[is_hard], result.probabilities[is_hard]), 4
        ),
        threshold_chosen_on=f"the {int(is_hard.sum())} pairs of coverage {_COPIED} or more, out of fold",
        command="python -m bench.lexical.fit",
    )


def write_fit(
    out: Path, make: Callable[[], dict[str, Any]], about: Callable[[Mapping[str, Any]], str]
) -> int:
    """What a command that fits does: writes the content that ``make`` gives, prints the
    coefficients and ``about`` what they were fitted; the exit code."""
    try:
        content = make()
        write_text(out, json.dumps(content, indent=2) + "\n")
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    named = [*content["coefficients"].items(), ("(intercept)", content["intercept"])]
    rows = [(name, f"{value:+.3f}") for name, value in named]
    fitted = content["fitted_on"]
    numbers = f"AUC out of fold {fitted['auc_out_of_fold']:.3f}; supported from {content['threshold']:.3f}"
    print_table(
        f"{out}: fitted",
        ("feature", "#coefficient"),
        rows,
        [f"{about(fitted)}; penalty {fitted['penalty']}", numbers],
    )
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Fits, writes the file and prints the coefficients."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lexical.fit", description="Fits the lexical judge."
    )
    parser.add_argument(
        "--citations",
        type=Path,
        required=True,
        metavar="FILE",
        help="labelled citations, JSON or JSON.gz",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where the coefficients go"
    )
    parser.add_argument(
        "--source", default=_SOURCE, help="where the citations are from, for the file"
    )
    parsed = parser.parse_args(argv)
    return write_fit(
        parsed.out,
        lambda: fit_file(parsed.citations, parsed.source),
        lambda fitted: (
            f"{fitted['file']}: {fitted['pairs']:,} pairs, {fitted['supported']:,} supported, {fitted['names']} names; AUC on "
            f"mostly copied claims {fitted['auc_out_of_fold_mostly_copied']:.3f}"
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
