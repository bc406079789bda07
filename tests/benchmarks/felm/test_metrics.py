"""Scores against the reference, by hand, and their bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from judges.answers import Answer
from lm_factuality.benchmarks.felm.judging import baselines
from lm_factuality.benchmarks.felm.metrics import (
    LEVELS,
    DetectionCounts,
    count_response,
    pooled_scores,
    to_report,
)
from lm_factuality.benchmarks.felm.rows import FelmRow, read_rows
from lm_factuality.benchmarks.felm.verdicts import (
    JudgedResponse,
    judge_outputs,
    judge_response,
)
from lm_factuality.ground.errors import DataError


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[FelmRow]:
    return read_rows(shared / "data" / "felm" / "all.jsonl")


@pytest.mark.parametrize("kind", ["plain", "cot"])
@pytest.mark.parametrize("protocol", ["paper", "code"])
def test_the_reference_is_met_exactly(
    shared: Path, rows: list[FelmRow], kind: str, protocol: str
) -> None:
    folder = shared / "reference" / "felm_scoring"
    expected = json.loads((folder / f"{kind}_expected.json").read_text())
    judged = judge_outputs(folder / f"{kind}_outputs.jsonl", rows, protocol)
    report = to_report(judged, protocol)
    assert {name: report[name] for name in expected} == expected
    assert report["unscored"]["responses"] == 0


def test_the_file_is_the_published_one(rows: list[FelmRow]) -> None:
    labels = [label for row in rows for label in row.labels]
    assert (len(rows), len(labels), labels.count(False)) == (847, 4426, 787)
    assert sum(bool(row.reference_texts) for row in rows) == 299


def test_flagging_everything_gives_the_known_f1(rows: list[FelmRow]) -> None:
    responses = [judge_response(row.domain, row.labels, problem="not asked") for row in rows]
    everything, nothing, at_random = (report["segment"] for report in baselines(responses).values())
    assert round(100 * everything["f1"], 1) == 30.2
    assert everything["balanced_accuracy"] == 0.5
    assert [nothing[name] for name in DetectionCounts._fields] == [0, 0, 787, 3639]
    assert abs(at_random["balanced_accuracy"] - 0.5) < 0.03


def response(errors: list[bool], flagged: list[bool] | None, domain: str = "wk") -> JudgedResponse:
    is_scored = flagged is not None
    return JudgedResponse(
        domain, tuple(errors), tuple(flagged) if is_scored else None, None if is_scored else "why"
    )


def test_counts_and_scores_by_hand() -> None:
    errors = [True, True, True, False, False, False, False]
    flagged = [True, True, False, True, False, False, False]
    counts = count_response(response(errors, flagged), "segment")
    assert counts == DetectionCounts(tp=2, fp=1, fn=1, tn=3)
    assert counts.precision == pytest.approx(2 / 3)
    assert counts.recall == pytest.approx(2 / 3)
    assert counts.f1 == pytest.approx(2 / 3)
    assert counts.balanced_accuracy == pytest.approx((2 / 3 + 3 / 4) / 2)


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        (DetectionCounts(), {"precision", "recall", "f1", "balanced_accuracy"}),
        (DetectionCounts(fn=3, tn=1), {"precision"}),
        (DetectionCounts(tn=3), {"precision", "recall", "f1", "balanced_accuracy"}),
        (DetectionCounts(fp=3), {"recall", "balanced_accuracy"}),
    ],
)
def test_undefined_scores_are_no_numbers(counts: DetectionCounts, undefined: set[str]) -> None:
    for name in ("precision", "recall", "f1", "balanced_accuracy"):
        assert math.isnan(getattr(counts, name)) == (name in undefined)


def counts_of(
    responses: list[JudgedResponse], is_right: bool | None = None
) -> dict[str, DetectionCounts]:
    pooled = pooled_scores(responses, is_right)
    return {
        level: DetectionCounts(*(pooled[level][name] for name in DetectionCounts._fields))
        for level in LEVELS
    }


def test_a_response_is_wrong_if_any_segment_is() -> None:
    responses = [
        response([False, True], [True, False]),
        response([False, False], [False, True]),
        response([True], [False]),
    ]
    assert counts_of(responses) == {
        "segment": DetectionCounts(tp=0, fp=2, fn=2, tn=1),
        "response": DetectionCounts(tp=1, fp=1, fn=1, tn=0),
    }


def test_unscored_responses_are_in_the_bounds_alone() -> None:
    responses = [response([True, False], [True, False]), response([True, False, False], None)]
    assert counts_of(responses)["segment"] == DetectionCounts(tp=1, tn=1)
    assert counts_of(responses, is_right=False) == {
        "segment": DetectionCounts(tp=1, fp=2, fn=1, tn=1),
        "response": DetectionCounts(tp=1, fn=1),
    }
    assert counts_of(responses, is_right=True) == {
        "segment": DetectionCounts(tp=2, tn=3),
        "response": DetectionCounts(tp=2),
    }


def test_the_report_counts_what_is_missing() -> None:
    report = to_report([response([True], [True]), response([True, False], None, "math")], "paper")
    unscored = report["unscored"]
    assert (unscored["responses"], unscored["segments"]) == (1, 2)
    assert unscored["reasons"] == {"why": 1}
    assert unscored["domains"] == {"math": 1, "wk": 0}
    assert report["math"]["segment"]["f1"] is None
    for end, expected in (("worst", [1, 1, 1, 0]), ("best", [2, 0, 0, 1])):
        assert [unscored[end]["segment"][name] for name in DetectionCounts._fields] == expected
    json.dumps(report, allow_nan=False)


def test_a_segment_is_wrong_if_any_of_its_claims_is() -> None:
    labels = [True, False, True]
    owners = [1, 1, 2, 2, 3]
    judged = judge_response("wk", labels, [Answer("Answer: 3, 4")], owners)
    assert judged.flagged == (False, True, False)
    outside = judge_response("wk", labels, [Answer("Answer: 6")], owners)
    assert outside.reason == "id 6; the last is 5"


BROKEN: dict[str, tuple[Any, str]] = {
    "no object": ([1], "found 1; expected"),
    "no index": ([{"domain": "wk", "output": "1"}], "index is missing"),
    "unknown row": ([{"index": "7", "domain": "wk", "output": "1"}], "no row has the index '7'"),
    "other domain": (
        [{"index": "0", "domain": "math", "output": "1"}],
        "of domain 'wk', found 'math'",
    ),
    "twice": ([{"index": "0", "domain": "wk", "output": "1"}] * 2, "appears twice"),
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
        judge_outputs(path, [row], "paper")


def test_rows_without_output_and_empty_outputs_are_unscored(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text('{"index": "0", "domain": "wk", "output": null}\n')
    rows = [FelmRow(index, "wk", "Why?", ("So.",), (True,), (), ()) for index in "01"]
    judged = judge_outputs(path, rows, "paper")
    assert [each.reason for each in judged] == ["empty output", "no output for this row"]
