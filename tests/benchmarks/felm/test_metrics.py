"""Scores against the reference, by hand, and their bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges.answers import Answer
from lm_factuality.benchmarks.felm.judging import score_baselines
from lm_factuality.benchmarks.felm.metrics import (
    COUNTS,
    MEASURES,
    count_best,
    count_detections,
    count_worst,
    detection_scores,
    report_detection_scores,
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
def rows(shared: Path) -> list[FelmRow]:
    return read_felm_rows(shared / "data" / "felm" / "all.jsonl")


@pytest.mark.parametrize("kind", ["plain", "cot"])
@pytest.mark.parametrize("protocol", ["paper", "code"])
def test_the_reference_is_met_exactly(
    shared: Path, rows: list[FelmRow], kind: str, protocol: str
) -> None:
    folder = shared / "reference" / "felm_scoring"
    expected = json.loads((folder / f"{kind}_expected.json").read_text())
    judged = read_saved_outputs(folder / f"{kind}_outputs.jsonl", rows, protocol)
    report = report_detection_scores(judged, protocol)
    assert {name: report[name] for name in expected} == expected
    assert report["unscored"]["responses"] == 0


def test_the_file_is_the_published_one(rows: list[FelmRow]) -> None:
    labels = [label for row in rows for label in row.labels]
    assert (len(rows), len(labels), labels.count(False)) == (847, 4426, 787)
    assert sum(bool(row.reference_texts) for row in rows) == 299


def test_flagging_everything_gives_the_known_f1(rows: list[FelmRow]) -> None:
    responses = [read_judged_response(row.domain, row.labels, problem="not asked") for row in rows]
    everything, nothing, at_random = (
        report["segment"] for report in score_baselines(responses).values()
    )
    assert round(100 * everything["f1"], 1) == 30.2
    assert everything["balanced_accuracy"] == 0.5
    assert [nothing[name] for name in COUNTS] == [0, 0, 787, 3639]
    assert abs(at_random["balanced_accuracy"] - 0.5) < 0.03


def response(errors: list[bool], flagged: list[bool] | None, domain: str = "wk") -> JudgedResponse:
    is_scored = flagged is not None
    return JudgedResponse(
        domain, tuple(errors), tuple(flagged) if is_scored else None, None if is_scored else "why"
    )


def test_counts_and_scores_by_hand() -> None:
    errors = [True, True, True, False, False, False, False]
    flagged = [True, True, False, True, False, False, False]
    counts = count_detections(response(errors, flagged), "segment")
    assert counts == [2, 1, 1, 3]
    assert detection_scores(counts) == pytest.approx(
        {
            "precision": 2 / 3,
            "recall": 2 / 3,
            "f1": 2 / 3,
            "balanced_accuracy": (2 / 3 + 3 / 4) / 2,
        }
    )


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        ((0, 0, 0, 0), {"precision", "recall", "f1", "balanced_accuracy"}),
        ((0, 0, 3, 1), {"precision"}),
        ((0, 0, 0, 3), {"precision", "recall", "f1", "balanced_accuracy"}),
        ((0, 3, 0, 0), {"recall", "balanced_accuracy"}),
    ],
)
def test_undefined_scores_are_no_numbers(counts: tuple[int, ...], undefined: set[str]) -> None:
    scores = detection_scores(counts)
    assert {name for name in MEASURES if math.isnan(scores[name])} == undefined


def counts_of(
    responses: list[JudgedResponse],
    count: Callable[[JudgedResponse, str], list[int]] = count_detections,
) -> list[list[int]]:
    """The pooled counts of segments, and of responses."""
    pooled = score_pooled_counts(responses, count)
    return [[pooled[level][name] for name in COUNTS] for level in ("segment", "response")]


def test_a_response_is_wrong_if_any_segment_is() -> None:
    responses = [
        response([False, True], [True, False]),
        response([False, False], [False, True]),
        response([True], [False]),
    ]
    assert counts_of(responses) == [[0, 2, 2, 1], [1, 1, 1, 0]]


def test_unscored_responses_are_in_the_bounds_alone() -> None:
    responses = [response([True, False], [True, False]), response([True, False, False], None)]
    assert counts_of(responses) == [[1, 0, 0, 1], [1, 0, 0, 0]]
    assert counts_of(responses, count_worst) == [[1, 2, 1, 1], [1, 0, 1, 0]]
    assert counts_of(responses, count_best) == [[2, 0, 0, 3], [2, 0, 0, 0]]


def test_the_report_counts_what_is_missing() -> None:
    report = report_detection_scores(
        [response([True], [True]), response([True, False], None, "math")], "paper"
    )
    unscored = report["unscored"]
    assert (unscored["responses"], unscored["segments"]) == (1, 2)
    assert unscored["reasons"] == {"why": 1}
    assert unscored["domains"] == {"math": 1, "wk": 0}
    assert report["math"]["segment"]["f1"] is None
    for end, expected in (("worst", [1, 1, 1, 0]), ("best", [2, 0, 0, 1])):
        assert [unscored[end]["segment"][name] for name in COUNTS] == expected
    json.dumps(report, allow_nan=False)


def test_a_segment_is_wrong_if_any_of_its_claims_is() -> None:
    labels = [True, False, True]
    owners = [1, 1, 2, 2, 3]
    judged = read_judged_response("wk", labels, [Answer("Answer: 3, 4")], owners)
    assert judged.flagged == (False, True, False)
    outside = read_judged_response("wk", labels, [Answer("Answer: 6")], owners)
    assert outside.reason == "id 6; the last is 5"


BROKEN: dict[str, tuple[Any, str]] = {
    "no object": ([1], "found 1; expected"),
    "no index": ([{"domain": "wk", "output": "1"}], "index is missing"),
    "unknown row": ([{"index": "7", "domain": "wk", "output": "1"}], "no row has the index '7'"),
    "twice": ([{"index": "0", "domain": "wk", "output": "1"}] * 2, "appears twice"),
    "other domain": (
        [{"index": "0", "domain": "math", "output": "1"}],
        "row 0 is of domain 'wk', found 'math'",
    ),
    "other domain in a sample": (
        [{"doc": {"index": "0", "domain": "math"}, "resps": [["1"]]}],
        "row 0 is of domain 'wk', found 'math'",
    ),
    "no text": (
        [{"index": "0", "domain": "wk", "output": 3}],
        "is 3; expected a valid string",
    ),
    "nothing": ([], "no outputs"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_outputs_are_refused(name: str, tmp_path: Path) -> None:
    lines, message = BROKEN[name]
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = FelmRow("0", "wk", "Why?", ("So.",), (True,), (), ())
    with pytest.raises(DataError, match=message):
        read_saved_outputs(path, [row], "paper")


def test_rows_without_output_and_empty_outputs_are_unscored(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text('{"index": "0", "domain": "wk", "output": null}\n')
    rows = [FelmRow(index, "wk", "Why?", ("So.",), (True,), (), ()) for index in "01"]
    judged = read_saved_outputs(path, rows, "paper")
    assert [each.reason for each in judged] == ["empty output", "no output for this row"]
