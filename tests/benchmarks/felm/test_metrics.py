"""The scores of FELM: against the authors' script, worked out by hand, and their bounds."""

import json
import math

import pytest

from judges.answers import Answer
from lm_factuality.benchmarks.felm.judging import score_baselines
from lm_factuality.benchmarks.felm.metrics import (
    COUNTS,
    MEASURES,
    SCORES,
    count_best,
    count_detections,
    count_worst,
    detection_scores,
    report_detection_scores,
    response_metrics,
    score_pooled_counts,
)
from lm_factuality.benchmarks.felm.rows import FelmRow, read_felm_rows
from lm_factuality.benchmarks.felm.verdicts import (
    JudgedResponse,
    read_judged_response,
    read_saved_outputs,
)
from lm_factuality.ground.errors import DataError


@pytest.fixture(scope="module")
def rows(shared):
    """Return the rows of the published file."""
    return read_felm_rows(shared / "data" / "felm" / "all.jsonl")


@pytest.fixture(scope="module")
def baselines(rows):
    """Return the scores on segments of three baselines: flag everything, nothing and at random."""
    responses = [read_judged_response(row.domain, row.labels, problem="not asked") for row in rows]
    return [report["segment"] for report in score_baselines(responses).values()]


def make_row(index):
    """Make a row of one segment, which is labelled correct."""
    return FelmRow(index, "wk", "Why?", ("So.",), (True,), (), ())


def make_scored(errors, flagged):
    """Make a response of which both the errors and the judge's flags of its segments are known."""
    return JudgedResponse("wk", tuple(errors), tuple(flagged), None)


def make_unscored(errors, domain="wk", reason="cut off"):
    """Make a response on which no verdict of the judge could be read."""
    return JudgedResponse(domain, tuple(errors), None, reason)


def named_counts(scores):
    """Return the counts among the scores. A positive is a segment that the judge flags as wrong."""
    return {name: scores[name] for name in COUNTS}


@pytest.mark.parametrize("kind", ["plain", "cot"])
@pytest.mark.parametrize("protocol", ["chat", "paper", "code"])
def test_scores_equal_the_authors_script(shared, rows, kind, protocol):
    """The authors' script computed the reference from the same outputs."""
    folder = shared / "reference" / "felm_scoring"
    expected = json.loads((folder / f"{kind}_expected.json").read_text())
    judged = read_saved_outputs(folder / f"{kind}_outputs.jsonl", rows, protocol)

    report = report_detection_scores(judged, protocol)

    assert {name: report[name] for name in expected} == expected
    assert report["unscored"]["responses"] == 0


def test_the_file_has_the_published_numbers_of_responses_and_segments(rows):
    """Scores can be compared with the paper's only if they are of the same file."""
    labels = []
    for row in rows:
        labels += row.labels

    assert len(rows) == 847
    assert len(labels) == 4426
    assert labels.count(False) == 787


def test_the_file_has_reference_texts_for_some_rows(rows):
    """The other rows have at most links, whose pages are not in the file."""
    rows_with_texts = [row for row in rows if row.reference_texts]

    assert len(rows_with_texts) == 299


def test_flagging_everything_gives_the_known_f1(baselines):
    """A judge is of use only above this baseline."""
    everything, _nothing, _at_random = baselines

    num_segments, num_wrong = 4426, 787  # of the published file
    precision = num_wrong / num_segments
    recall = 1
    f1 = 2 * precision * recall / (precision + recall)
    assert everything["f1"] == pytest.approx(f1)
    assert round(100 * everything["f1"], 1) == 30.2
    assert everything["balanced_accuracy"] == 0.5


def test_flagging_nothing_misses_every_wrong_segment(baselines):
    """Of the 4426 segments of the published file, 787 are wrong."""
    _everything, nothing, _at_random = baselines

    assert named_counts(nothing) == {"tp": 0, "fp": 0, "fn": 787, "tn": 4426 - 787}


def test_flagging_at_random_gives_a_balanced_accuracy_of_about_a_half(baselines):
    """Unlike F1, this score does not depend on how many segments are wrong."""
    _everything, _nothing, at_random = baselines

    assert abs(at_random["balanced_accuracy"] - 0.5) < 0.03


def test_detections_are_counted():
    """A true positive is a wrong segment that the judge flags."""
    response = make_scored(
        errors=[True, True, True, False, False, False, False],
        flagged=[True, True, False, True, False, False, False],
    )

    true_positives, false_positives, false_negatives, true_negatives = count_detections(
        response, "segment"
    )

    assert (true_positives, false_positives) == (2, 1)
    assert (false_negatives, true_negatives) == (1, 3)


def test_scores_follow_from_the_counts():
    scores = detection_scores(counts(tp=5, fp=3, fn=2, tn=10))

    precision = 5 / (5 + 3)
    recall = 5 / (5 + 2)
    specificity = 10 / (10 + 3)
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)
    assert scores["f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert scores["balanced_accuracy"] == pytest.approx((recall + specificity) / 2)


@pytest.mark.parametrize(
    ("counts_by_name", "undefined"),
    [
        pytest.param(
            {"tp": 0, "fp": 0, "fn": 0, "tn": 0},
            {"precision", "recall", "f1", "balanced_accuracy"},
            id="no segments",
        ),
        pytest.param({"tp": 0, "fp": 0, "fn": 3, "tn": 1}, {"precision"}, id="nothing flagged"),
        pytest.param(
            {"tp": 0, "fp": 0, "fn": 0, "tn": 3},
            {"precision", "recall", "f1", "balanced_accuracy"},
            id="no errors, nothing flagged",
        ),
        pytest.param(
            {"tp": 0, "fp": 3, "fn": 0, "tn": 0},
            {"recall", "balanced_accuracy"},
            id="no errors, all flagged",
        ),
    ],
)
def test_score_with_a_zero_denominator_is_nan(counts_by_name, undefined):
    """A value of 0 would look like a bad score, where nothing was measured."""
    scores = detection_scores(counts(**counts_by_name))

    assert {name for name in MEASURES if math.isnan(scores[name])} == undefined


def test_response_with_any_wrong_segment_is_wrong():
    """A wrong response counts as found even if the judge flags another segment of it."""
    responses = [
        make_scored(errors=[False, True], flagged=[True, False]),  # wrong and flagged
        make_scored(errors=[False, False], flagged=[False, True]),  # right, but flagged
        make_scored(errors=[True], flagged=[False]),  # wrong, but not flagged
    ]

    pooled = score_pooled_counts(responses, count_detections)

    assert named_counts(pooled["segment"]) == {"tp": 0, "fp": 2, "fn": 2, "tn": 1}
    assert named_counts(pooled["response"]) == {"tp": 1, "fp": 1, "fn": 1, "tn": 0}


@pytest.mark.parametrize(
    ("count", "segment_counts", "response_counts"),
    [
        pytest.param(
            count_detections,
            {"tp": 1, "fp": 0, "fn": 0, "tn": 1},
            {"tp": 1, "fp": 0, "fn": 0, "tn": 0},
            id="left out of the counts",
        ),
        pytest.param(
            count_worst,
            {"tp": 1, "fp": 2, "fn": 1, "tn": 1},
            {"tp": 1, "fp": 0, "fn": 1, "tn": 0},
            id="all verdicts are wrong at worst",
        ),
        pytest.param(
            count_best,
            {"tp": 2, "fp": 0, "fn": 0, "tn": 3},
            {"tp": 2, "fp": 0, "fn": 0, "tn": 0},
            id="all verdicts are right at best",
        ),
    ],
)
def test_unscored_responses_affect_only_the_bounds(count, segment_counts, response_counts):
    """Counted as right, they would favour judges that fail on hard responses."""
    responses = [
        make_scored(errors=[True, False], flagged=[True, False]),
        make_unscored(errors=[True, False, False]),
    ]

    pooled = score_pooled_counts(responses, count)

    assert named_counts(pooled["segment"]) == segment_counts
    assert named_counts(pooled["response"]) == response_counts


def test_report_counts_unscored_responses():
    """A user sees how many responses the scores lack, and why."""
    scored = make_scored(errors=[True], flagged=[True])
    unscored = make_unscored(errors=[True, False], domain="math", reason="cut off")

    report = report_detection_scores([scored, unscored], "paper")

    assert report["unscored"]["responses"] == 1
    assert report["unscored"]["segments"] == 2
    assert report["unscored"]["reasons"] == {"cut off": 1}
    assert report["unscored"]["domains"] == {"math": 1, "wk": 0}


def test_report_bounds_the_counts_for_unscored_responses():
    """At worst the judge would have flagged the right segment instead of the wrong one."""
    scored = make_scored(errors=[True], flagged=[True])
    unscored = make_unscored(errors=[True, False])

    report = report_detection_scores([scored, unscored], "paper")

    worst = report["unscored"]["worst"]["segment"]
    best = report["unscored"]["best"]["segment"]
    assert named_counts(worst) == {"tp": 1, "fp": 1, "fn": 1, "tn": 0}
    assert named_counts(best) == {"tp": 2, "fp": 0, "fn": 0, "tn": 1}


def test_the_report_has_null_for_an_undefined_score():
    """NaN is no JSON, so other programs could not read the report."""
    scored = make_scored(errors=[True], flagged=[True])
    unscored = make_unscored(errors=[True, False], domain="math")

    report = report_detection_scores([scored, unscored], "paper")

    assert report["math"]["segment"]["f1"] is None
    json.dumps(report, allow_nan=False)


def test_segment_with_any_flagged_claim_is_flagged():
    """The judge flags claims 3 and 4, which are in the second segment."""
    judged = read_judged_response(
        "wk",
        labels=[True, False, True],
        answers=[Answer("Answer: 3, 4")],
        segment_of_claim=[1, 1, 2, 2, 3],
    )

    assert judged.flagged == (False, True, False)


def test_nonexistent_claim_number_leaves_the_response_unscored():
    """The judge may have meant any of five claims with "6"."""
    judged = read_judged_response(
        "wk",
        labels=[True, False, True],
        answers=[Answer("Answer: 6")],
        segment_of_claim=[1, 1, 2, 2, 3],
    )

    assert judged.reason == "id 6; the last is 5"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([1], "found 1; expected", id="number"),
        pytest.param([{"domain": "wk", "output": "1"}], "index is missing", id="no index"),
        pytest.param(
            [{"index": "7", "domain": "wk", "output": "1"}],
            "no row has the index '7'",
            id="unknown index",
        ),
        pytest.param(
            [{"index": "0", "domain": "wk", "output": "1"}] * 2, "appears twice", id="index twice"
        ),
        pytest.param(
            [{"index": "0", "domain": "math", "output": "1"}],
            "row 0 is of domain 'wk', found 'math'",
            id="other domain",
        ),
        pytest.param(
            [{"doc": {"index": "0", "domain": "math"}, "resps": [["1"]]}],
            "row 0 is of domain 'wk', found 'math'",
            id="other domain in a sample of lm_eval",
        ),
        pytest.param(
            [{"index": "0", "domain": "wk", "output": 3}],
            "is 3; expected a valid string",
            id="output that is a number",
        ),
        pytest.param([], "no outputs", id="empty file"),
    ],
)
def test_a_broken_file_of_outputs_is_refused(lines, message, tmp_path):
    """Outputs that are matched with the wrong rows would give wrong scores."""
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with pytest.raises(DataError, match=message):
        read_saved_outputs(path, [make_row("0")], "paper")


def test_row_with_empty_or_missing_output_is_unscored(tmp_path):
    """Neither says that the response has no error."""
    path = tmp_path / "outputs.jsonl"
    path.write_text('{"index": "0", "domain": "wk", "output": null}\n')

    with_empty_output, without_output = read_saved_outputs(
        path, [make_row("0"), make_row("1")], "paper"
    )

    assert with_empty_output.reason == "empty output"
    assert without_output.reason == "no output for this row"


def make_doc(labels=(True,), domain="math", mode="plain"):
    """Make the document of a response. A label says whether a segment is right."""
    return {
        "domain": domain,
        "labels": list(labels),
        "owners": None,
        "problem": "",
        "mode": mode,
    }


def counts(tp=0, fp=0, fn=0, tn=0):
    """Return true and false positives, and false and true negatives, in the order of metrics."""
    return [tp, fp, fn, tn]


def test_response_counts_in_its_domain_and_in_the_total():
    """Only the second segment is wrong, and the judge flags the second and the third."""
    doc = make_doc(labels=[True, False, True], domain="math")

    metrics = response_metrics(doc, ["Answer: 2, 3"], protocol="chat", mode="plain")

    assert metrics["flagged"] == [2, 3]
    assert metrics["segment_f1"] == counts(tp=1, fp=1, tn=1)
    assert metrics["segment_f1_math"] == counts(tp=1, fp=1, tn=1)
    assert metrics["response_f1"] == counts(tp=1)
    assert metrics["response_f1_math"] == counts(tp=1)
    assert metrics["unscored"] is None
    assert metrics["unscored_math"] is None


def test_response_adds_nothing_to_the_counts_of_another_domain():
    doc = make_doc(labels=[True, False, True], domain="math")

    metrics = response_metrics(doc, ["Answer: 2, 3"], protocol="chat", mode="plain")

    assert metrics["segment_f1_wk"] == counts()
    assert metrics["response_f1_wk"] == counts()


def test_unjudged_response_is_unscored_in_its_domain_and_in_the_total():
    doc = make_doc(labels=[True, False, True], domain="math")
    empty_output = ""

    metrics = response_metrics(doc, [empty_output], protocol="chat", mode="plain")

    assert metrics["unscored"] == "empty output"
    assert metrics["unscored_math"] == "empty output"
    assert metrics["unscored_wk"] is None  # another domain
    assert metrics["flagged"] is None


def test_unjudged_response_counts_only_in_the_bounds():
    """At worst the verdicts on all three segments would be wrong, and at best right."""
    doc = make_doc(labels=[True, False, True], domain="math")
    empty_output = ""

    metrics = response_metrics(doc, [empty_output], protocol="chat", mode="plain")

    assert metrics["segment_f1"] == counts()
    assert metrics["segment_f1_worst"] == counts(fp=2, fn=1)
    assert metrics["segment_f1_best"] == counts(tp=1, tn=2)


@pytest.mark.parametrize(
    ("domain", "asked_mode", "lacks_references"),
    [("wk", "plain", 1.0), ("wk", "link", 0.0), ("math", "plain", 0.0)],
)
def test_missing_references_count_only_in_domains_with_references(
    domain, asked_mode, lacks_references
):
    """The task asks for mode ``link``, which falls back to the plain prompt for such rows."""
    doc = make_doc(domain=domain, mode=asked_mode)

    metrics = response_metrics(doc, ["ALL_CORRECT"], protocol="chat", mode="link")

    assert metrics["without_references"] == lacks_references


def test_results_count_the_flagged_segments_of_responses_with_a_verdict():
    (score,) = [score for score in SCORES if score.name == "flagged"]
    unscored = None

    count = score.aggregation([[1, 3], unscored, [], [2]])

    assert count == 2 + 0 + 1


def test_fewer_rows_without_verdict_or_references_are_better():
    """Tables mark the better of two runs by the declared direction of a score."""
    worse_if_higher = {score.name for score in SCORES if score.higher_is_better is False}

    assert {"unscored", "unscored_math", "without_references"} <= worse_if_higher
