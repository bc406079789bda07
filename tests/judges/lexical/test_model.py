"""The lexical judge: its verdicts, how well they agree with labelled citations, and its fit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from bench.lexical import fit as fitting_command
from bench.lexical.evaluate import assess, evaluate, read_citations
from bench.lexical.fit import best_threshold, fit, regress
from judges.lexical.model import COEFFICIENTS, FEATURES, load_lexical_model
from judges.lexical.verdicts import find_verdict
from judges.lexical.words import parse_passage
from lm_factuality.ground.errors import DataError

PAINTER_PASSAGE = (
    "Title: Ada Hill (painter)\n"
    "Ada Hill (5 May 1990 \u2013 3 June 2031) was a Swedish painter who was born in Lund. She painted"
    " large pictures of ships in the harbour of Malmo and won the Anchor Prize in 2015."
)
PILOT_PASSAGE = "Title: Ada Hill (pilot)\nAda Hill flies."


def judge_claim(claim: str, *passages: str):
    """Let the lexical judge decide whether the passages support a claim."""
    return load_lexical_model().judge(claim, [parse_passage(passage) for passage in passages])


@pytest.mark.parametrize(
    ("claim", "is_supported", "reason"),
    [
        pytest.param(
            "Ada Hill was born on May 5, 1990, in Lund.",
            True,
            "7 of 7 content words covered",
            id="birth",
        ),
        pytest.param(
            "Ada Hill painted large pictures of ships and won the Anchor Prize in 2015.",
            True,
            "10 of 10 content words",
            id="two facts",
        ),
        pytest.param(
            "Ada Hill was born on May 6, 1990, in Lund.",
            False,
            "not in the passages: 6",
            id="another day",
        ),
        pytest.param(
            "Ada Hill won the Anchor Prize in 1987.",
            False,
            "not in the passages: 1987",
            id="another year",
        ),
        pytest.param(
            "Ada Hill won the Laurel Prize in 2015.",
            False,
            "not in the passages: Laurel Prize",
            id="another prize",
        ),
        pytest.param(
            "Ada Hill never won the Anchor Prize.", False, "negation differs", id="denial"
        ),
        pytest.param(
            "Otto Berg taught chemistry in Oslo.",
            False,
            "0 of 5 content words covered",
            id="another person",
        ),
    ],
)
def test_a_verdict_has_a_reason_of_one_line(claim, is_supported, reason):
    """The reason says which words decided, because nobody can trust a bare number."""
    support = judge_claim(claim, PAINTER_PASSAGE)

    assert support.is_supported is is_supported
    assert reason in support.reason
    assert "\n" not in support.reason


def test_words_of_any_shown_passage_are_not_called_missing():
    claim = "A job that uses too much memory gets a warning first."
    passages = ["Memory is large.", "A job that is too large is killed without a warning."]

    finding = find_verdict(
        load_lexical_model(), claim, [parse_passage(passage) for passage in passages]
    )

    assert finding.reason.startswith(
        "3 of 6 content words covered; not in the passages: uses, gets, first"
    )


def test_scattered_name_is_not_called_missing():
    """Both words are in the passage, so a reader would not understand "missing"."""
    support = judge_claim("The Anchor Ships arrived.", "Anchor here. The long tale of the Ships.")

    assert "not together in the passages: Anchor Ships" in support.reason


def test_namesakes_lower_the_probability_and_are_named():
    """With passages about two people of one name, it is less certain whom the claim is about."""
    claim = "Ada Hill was born on May 5, 1990, in Lund."

    with_painter_only = judge_claim(claim, PAINTER_PASSAGE)
    with_namesake = judge_claim(claim, PAINTER_PASSAGE, PILOT_PASSAGE)

    assert with_namesake.probability < with_painter_only.probability
    assert "namesakes: Ada Hill (painter), Ada Hill (pilot)" in with_namesake.reason


@pytest.fixture(scope="module")
def citations(shared) -> Path:
    """Return the folder with labelled citations of several models."""
    return shared / "data" / "ambigbio" / "citations"


@pytest.fixture(scope="module")
def fitted_path(citations, tmp_path_factory) -> Path:
    """Fit coefficients on the citations of Vicuna by the command, and return their file."""
    path = tmp_path_factory.mktemp("fit") / "coefficients.json"
    source = citations / "vicuna-7b__ambig.json.gz"
    assert fitting_command.main(["--citations", str(source), "--out", str(path)]) == 0
    return path


def numbers_of(coefficients_file: dict[str, Any]) -> list[float]:
    """Return all numbers that decide a verdict: coefficients, intercept and threshold."""
    return [
        *coefficients_file["coefficients"].values(),
        coefficients_file["intercept"],
        coefficients_file["threshold"],
    ]


def test_command_reproduces_the_committed_coefficients(fitted_path):
    """Anyone with the citations can repeat the fit."""
    fitted = json.loads(fitted_path.read_text())
    committed = json.loads(COEFFICIENTS.read_text())

    # Both state a date, which differs.
    assert fitted["fitted_on"].pop("date")
    assert committed["fitted_on"].pop("date")
    assert fitted["fitted_on"] == committed["fitted_on"]
    assert list(fitted["coefficients"]) == list(committed["coefficients"])
    # Computers differ in the fourth decimal.
    np.testing.assert_allclose(numbers_of(fitted), numbers_of(committed), atol=2e-4)


def test_the_committed_coefficients_are_of_known_features():
    """A feature that was renamed would silently count nothing."""
    committed = json.loads(COEFFICIENTS.read_text())

    assert set(committed["coefficients"]) < set(FEATURES)


def test_coefficients_fitted_on_one_model_judge_the_citations_of_another(fitted_path, citations):
    """The figures in the documentation are these: 1,607 pairs of ChatGPT that the fit did not see."""
    model = load_lexical_model(fitted_path)

    reliability = evaluate(model, citations / "chatgpt-0301__no-ambig.json.gz")

    lower, upper = reliability.interval
    assert reliability.num_pairs == 1607
    assert reliability.auc >= 0.88
    assert reliability.balanced_accuracy >= 0.77
    assert lower < reliability.balanced_accuracy < upper
    assert reliability.ece <= 0.05  # expected calibration error


def test_best_threshold_equals_an_exhaustive_search():
    """The fast search over sorted probabilities must miss no better threshold."""
    randomness = np.random.default_rng(0)
    probabilities = randomness.integers(0, 20, size=200) / 20  # 0, 0.05, ..., 0.95
    labels = randomness.random(200) < 0.6

    threshold = best_threshold(probabilities, labels)

    # Each of the probabilities, and the middle between each two neighbours.
    all_thresholds = [number / 40 for number in range(41)]
    best_accuracy = max(
        balanced_accuracy_score(labels, probabilities >= candidate) for candidate in all_thresholds
    )
    accuracy = balanced_accuracy_score(labels, probabilities >= threshold)
    assert accuracy == pytest.approx(best_accuracy)


def test_reliability_matches_a_manual_computation():
    probabilities = np.array([0.05, 0.15, 0.95, 1.0])
    # With the threshold of one half, only the second pair is judged wrongly.
    labels = np.array([False, True, True, True])
    groups = ["a", "a", "b", "c"]

    reliability = assess(probabilities, labels, groups, threshold=0.5)

    assert [one_bin.low for one_bin in reliability.bins] == [0.0, 0.1, 0.9]
    assert [one_bin.count for one_bin in reliability.bins] == [1, 1, 2]
    assert [one_bin.share_supported for one_bin in reliability.bins] == [0.0, 1.0, 1.0]
    # The distance of each bin's mean probability from its share, weighted by its pairs. The mean of
    # the last bin is 0.975.
    assert reliability.ece == pytest.approx((0.05 + 0.85 + 2 * 0.025) / 4)
    # The squared distance of each probability from its label.
    assert reliability.brier == pytest.approx((0.05**2 + 0.85**2 + 0.05**2 + 0) / 4)
    # Two of three supported pairs are found, and the one that is not supported.
    assert reliability.balanced_accuracy == pytest.approx((2 / 3 + 1) / 2)
    # Each supported pair is more probable than the one that is not.
    assert reliability.auc == 1.0


NUM_ROWS = 20_000
TRUE_COEFFICIENTS = [1.0, -0.4, 0.0]
TRUE_INTERCEPT = 0.5


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    """Return three random features per row, the second with another mean and spread."""
    randomness = np.random.default_rng(0)
    return randomness.normal(loc=[0, 3, 0], scale=[1, 5, 1], size=(NUM_ROWS, 3))


@pytest.fixture(scope="module")
def labels(features) -> np.ndarray:
    """Return labels drawn from a logistic model with the true coefficients and intercept."""
    probabilities = expit(features @ TRUE_COEFFICIENTS + TRUE_INTERCEPT)
    return np.random.default_rng(1).random(NUM_ROWS) < probabilities


def test_a_regression_finds_the_coefficients_that_made_the_labels(features, labels):
    """With 20,000 rows the coefficients have a standard error of about 0.02."""
    coefficients, intercept = regress(features, labels, 1.0)

    np.testing.assert_allclose(coefficients, TRUE_COEFFICIENTS, atol=0.08)
    assert intercept == pytest.approx(TRUE_INTERCEPT, abs=0.08)


def test_fit_ranks_unseen_rows(features, labels):
    """Rows of one group are never in both parts of a split, where they would help each other."""
    fifty_groups = [str(number % 50) for number in range(NUM_ROWS)]
    all_rows_are_hard = np.ones(NUM_ROWS, dtype=bool)

    result = fit(features, labels, fifty_groups, all_rows_are_hard)

    # The probability of each row comes from a fit without it. Random ones would have an AUC of 0.5.
    assert roc_auc_score(labels, result.probabilities) > 0.8


def citation_row(**changes: Any) -> dict[str, Any]:
    """Return one row of labelled citations, an entailed claim, with changed keys."""
    row = {
        "qid": 1,
        "claim": "Ada won [1].",
        "passage": ["Title: Ada\nAda won."],
        "model_output": 1,
    }
    return {**row, **changes}


def test_labelled_citations_are_read_from_a_compressed_file(tmp_path):
    """The authors' files have number and text ids, and 1 for "entailed"."""
    rows = [citation_row(), citation_row(qid="b", model_output=0)]
    path = tmp_path / "citations.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"autoais_log": rows}).encode()))

    entailed, not_entailed = read_citations(path)

    assert entailed.group == "1"
    assert entailed.is_entailed
    assert entailed.passages[0].title == "Ada"
    assert not_entailed.group == "b"
    assert not not_entailed.is_entailed


@pytest.fixture
def write_coefficients(tmp_path):
    """Return a function that writes the committed coefficients with changed keys to a file."""

    def write(**changes: Any) -> Path:
        path = tmp_path / "coefficients.json"
        committed = json.loads(COEFFICIENTS.read_text())
        path.write_text(json.dumps({**committed, **changes}))
        return path

    return write


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"coefficients": {"charm": 1.0}}, "no feature is called charm", id="unknown feature"
        ),
        pytest.param({"threshold": 1.5}, "less than or equal to 1", id="threshold above 1"),
        pytest.param({"intercept": float("nan")}, "finite number", id="intercept no number"),
        pytest.param({"fitted_on": None}, "not coefficients", id="no origin"),
        pytest.param({"coefficients": [1]}, "not coefficients", id="no names"),
    ],
)
def test_a_wrong_file_of_coefficients_is_named_and_refused(write_coefficients, changes, message):
    """Users may fit their own; a wrong file must not give verdicts."""
    path = write_coefficients(**changes)

    with pytest.raises(DataError, match=message) as error:
        load_lexical_model(path)

    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "changes", [{"threshold": 0.5}, {"intercept": 0.0}], ids=["threshold", "intercept"]
)
def test_numbers_affecting_verdicts_are_part_of_the_identity(write_coefficients, changes):
    """Stored verdicts of other coefficients must not be found."""
    identity = load_lexical_model(write_coefficients()).identity

    assert load_lexical_model(write_coefficients(**changes)).identity != identity


def test_the_origin_of_the_coefficients_is_no_part_of_the_identity(write_coefficients):
    """A date in the file changes no verdict, so stored answers stay valid."""
    identity = load_lexical_model(write_coefficients()).identity

    assert load_lexical_model(write_coefficients(fitted_on={})).identity == identity
