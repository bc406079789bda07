"""Fits the lexical judge to labelled citations.

    python -m bench.lexical.fit --citations FILE --out coefficients.json

The judge is a logistic regression with an L2 penalty. A cross-validation that keeps groups whole
chooses the penalty and the threshold. `bench.lexical.fit_facts` fits the judge of atomic facts with
the same functions.
"""

import argparse
import datetime
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
"""The penalties among which the cross-validation chooses."""

NUM_FOLDS = 5
"""The number of folds of the cross-validation, and so the smallest number of groups."""

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
"""The features for sentences and the passages that they cite.

A whole sentence has many words, so it is measured by related words and by how close to each other
the passages have them. Coverage and missing names add nothing to this out of fold. Missing ends and
the presence of numbers say more about Vicuna, which wrote the sentences, than about support.
"""

FACT_FEATURES = tuple(name for name in FEATURES if name not in ("unrelated", "together"))
"""The features for atomic facts, which are so short that each word is looked for."""

_SOURCE = (
    "claims of biographies, each with the passages it cites and whether the entailment model TRUE"
    " (T5-11B) found it entailed, from the authors' repository of D-FActScore; only numbers fitted"
    " on them are here, none of their text"
)
_NUM_DIGITS = 6  # of the numbers in files of coefficients
_MOSTLY_COPIED = 0.75  # the coverage from which most words of a claim are in its passages


class Regression(NamedTuple):
    """A logistic regression of labels on features."""

    coefficients: Floats
    """The coefficient of each feature as it is measured, of shape (features,)."""

    intercept: float
    """The intercept."""


@dataclass(frozen=True)
class Fit:
    """A regression, and how its penalty and threshold were chosen."""

    regression: Regression
    """The regression, fitted to all pairs."""

    penalty: float
    """The penalty with the smallest log loss out of fold."""

    threshold: float
    """The probability from which a claim counts as supported."""

    probabilities: Floats
    """The probability of each pair by a model that did not see the pair's group."""

    def to_json(
        self, features: Sequence[str], labels: Flags, groups: Sequence[str], **fitted_on: Any
    ) -> dict[str, Any]:
        """Return the content of a file of coefficients.

        Args:
            features: The names of the features.
            labels: Whether each pair is supported.
            groups: The group of each pair.
            **fitted_on: What else the file says about the data.
        """
        coefficients = {}
        for name, value in zip(features, self.regression.coefficients, strict=True):
            coefficients[name] = round(float(value), _NUM_DIGITS)
        return {
            "coefficients": coefficients,
            "intercept": round(self.regression.intercept, _NUM_DIGITS),
            "threshold": round(self.threshold, _NUM_DIGITS),
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
    """Fit a regression, and choose its penalty and threshold by cross-validation.

    Nothing is random: groups are dealt to the folds in the order of their names.

    Args:
        features: The features of each pair, of shape (pairs, features).
        labels: Whether each pair is supported, of shape (pairs,).
        groups: The group of each pair. A fold has whole groups.
        is_hard: Which pairs choose the threshold. Any threshold is right on the many easy pairs,
            which would only pull it away from where the decisions fall.
    """
    fold_of_group = {group: index % NUM_FOLDS for index, group in enumerate(sorted(set(groups)))}
    folds = PredefinedSplit([fold_of_group[group] for group in groups])
    probabilities_by_penalty = {}
    losses = {}
    for penalty in PENALTIES:
        both_classes = cross_val_predict(
            _make_pipeline(penalty), features, labels, cv=folds, method="predict_proba"
        )
        probabilities_by_penalty[penalty] = both_classes[:, 1]
        losses[penalty] = log_loss(labels, both_classes[:, 1])

    best_penalty = min(PENALTIES, key=losses.__getitem__)
    probabilities = probabilities_by_penalty[best_penalty]
    threshold = best_threshold(probabilities[is_hard], labels[is_hard])
    return Fit(regress(features, labels, best_penalty), best_penalty, threshold, probabilities)


def regress(features: Floats, labels: Flags, penalty: float) -> Regression:
    """Fit a logistic regression with an L2 penalty.

    It minimises the log loss plus half the penalty times the squared coefficients of the
    standardised features.

    Args:
        features: The features of each pair, of shape (pairs, features).
        labels: Whether each pair is supported, of shape (pairs,).
        penalty: The penalty.

    Returns:
        The regression for the features as they are measured.
    """
    scaler, standardised = _make_pipeline(penalty).fit(features, labels).named_steps.values()
    coefficients = standardised.coef_[0] / scaler.scale_
    intercept = float(standardised.intercept_[0] - coefficients @ scaler.mean_)
    return Regression(coefficients, intercept)


def _make_pipeline(penalty: float) -> Pipeline:
    """Make a regression that standardises its features."""
    regression = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000)
    return make_pipeline(StandardScaler(), regression)


def best_threshold(probabilities: Floats, labels: Flags) -> float:
    """Return the threshold with the best balanced accuracy.

    Args:
        probabilities: The probability of support of each pair, of shape (pairs,).
        labels: Whether each pair is supported, of shape (pairs,).

    Returns:
        The middle between the smallest probability that counts as supported and the next one.
    """
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    is_supported = labels[order]
    # If the first n pairs count as supported, for each n from 1.
    sensitivity = np.cumsum(is_supported) / is_supported.sum()
    specificity = 1 - np.cumsum(~is_supported) / (~is_supported).sum()
    balanced_accuracy = (sensitivity + specificity) / 2

    # A threshold cannot separate pairs with the same probability.
    is_last_of_equals = np.append(np.diff(ranked) != 0, True)
    last = int(np.argmax(np.where(is_last_of_equals, balanced_accuracy, -np.inf)))
    if last + 1 == len(ranked):
        return float(ranked[last])
    return float((ranked[last] + ranked[last + 1]) / 2)


def fit_file(path: Path, source: str = _SOURCE) -> dict[str, Any]:
    """Fit the judge to a file of labelled citations.

    Args:
        path: The file.
        source: Where the citations are from.

    Returns:
        The content of a file of coefficients.

    Raises:
        DataError: The file cannot be read, or its labels are all the same.
    """
    claims = read_citations(path)
    labels = np.array([claim.is_entailed for claim in claims])
    groups = [claim.group for claim in claims]
    if labels.all() or not labels.any() or len(set(groups)) < NUM_FOLDS:
        raise DataError(
            f"{path}: needs entailed and not entailed claims of at least {NUM_FOLDS} names to fit"
            " on"
        )

    vectors = []
    for claim in tqdm(claims, desc="features", delay=2):
        comparison = Comparison(claim.claim, claim.passages)
        vectors.append(feature_vector(comparison, ("coverage", *CITATION_FEATURES)))
    coverage = np.array(vectors)[:, 0]
    features = np.array(vectors)[:, 1:]
    is_hard = coverage >= _MOSTLY_COPIED
    if labels[is_hard].all() or not labels[is_hard].any():
        raise DataError(
            f"{path}: of the claims whose words the passages mostly have, all have the same label"
        )

    result = fit(features, labels, groups, is_hard)
    auc_of_hard = roc_auc_score(labels[is_hard], result.probabilities[is_hard])
    return result.to_json(
        CITATION_FEATURES,
        labels,
        groups,
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        source=source,
        auc_out_of_fold_mostly_copied=round(auc_of_hard, 4),
        threshold_chosen_on=(
            f"the {int(is_hard.sum())} pairs of coverage {_MOSTLY_COPIED} or more, out of fold"
        ),
        command="python -m bench.lexical.fit",
    )


def write_fit(
    out: Path,
    make_content: Callable[[], dict[str, Any]],
    describe_data: Callable[[Mapping[str, Any]], str],
) -> int:
    """Fit a judge, write its file of coefficients, and print them.

    Args:
        out: The file to write.
        make_content: Fits the judge, and returns the content of the file.
        describe_data: Describes the data in words, from the content's ``fitted_on``.

    Returns:
        The exit code.
    """
    try:
        content = make_content()
        write_text(out, json.dumps(content, indent=2) + "\n")
    except FactualityError as error:
        sys.stderr.write(f"{error}\n")
        return 1

    rows = [(name, f"{value:+.3f}") for name, value in content["coefficients"].items()]
    rows.append(("(intercept)", f"{content['intercept']:+.3f}"))
    fitted_on = content["fitted_on"]
    notes = [
        f"{describe_data(fitted_on)}; penalty {fitted_on['penalty']}",
        f"AUC out of fold {fitted_on['auc_out_of_fold']:.3f}; supported from"
        f" {content['threshold']:.3f}",
    ]
    print_table(f"{out}: fitted", ("feature", "#coefficient"), rows, notes)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Fit the judge, write its file, print the coefficients, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.lexical.fit",
        description="Fit the lexical judge to labelled citations.",
    )
    parser.add_argument(
        "--citations",
        type=Path,
        required=True,
        metavar="FILE",
        help="labelled citations, JSON or JSON.gz",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the file for the coefficients"
    )
    parser.add_argument(
        "--source",
        default=_SOURCE,
        help="where the citations are from, as the file says it (default: the authors' claims)",
    )
    arguments = parser.parse_args(argv)
    return write_fit(
        arguments.out, lambda: fit_file(arguments.citations, arguments.source), _describe_citations
    )


def _describe_citations(fitted_on: Mapping[str, Any]) -> str:
    """Describe the citations that a judge was fitted to."""
    return (
        f"{fitted_on['file']}: {fitted_on['pairs']:,} pairs, {fitted_on['supported']:,} supported,"
        f" {fitted_on['names']} names; AUC on mostly copied claims"
        f" {fitted_on['auc_out_of_fold_mostly_copied']:.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
