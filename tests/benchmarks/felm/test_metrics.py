"""Scores against the reference, by hand, and their bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.benchmarks.felm.judging import baselines
from lm_factuality.benchmarks.felm.metrics import Counts, count, pool, to_report
from lm_factuality.benchmarks.felm.rows import FelmRow, read_rows
from lm_factuality.benchmarks.felm.verdicts import (
    JudgedResponse,
    Outputs,
    judge_outputs,
    judge_response,
    read_outputs,
)


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
    outputs = read_outputs(folder / f"{kind}_outputs.jsonl", rows)
    report = to_report(judge_outputs(rows, outputs, protocol), protocol)
    assert {name: report[name] for name in expected} == expected
    assert report["unscored"]["responses"] == 0


def test_the_file_is_the_published_one(rows: list[FelmRow]) -> None:
    labels = [label for row in rows for label in row.labels]
    assert (len(rows), len(labels), labels.count(False)) == (847, 4426, 787)
    assert sum(bool(row.reference_texts) for row in rows) == 299


def test_flagging_everything_gives_the_known_f1(rows: list[FelmRow]) -> None:
    responses = judge_outputs(rows, {}, "paper")
    everything, nothing, at_random = (
        pool(each, "segment") for each in baselines(responses).values()
    )
    assert round(100 * everything.f1, 1) == 30.2
    assert everything.balanced_accuracy == 0.5
    assert nothing == Counts(0, 0, 787, 3639)
    assert abs(at_random.balanced_accuracy - 0.5) < 0.03


def response(errors: list[bool], flagged: list[bool] | None, domain: str = "wk") -> JudgedResponse:
    return JudgedResponse(
        "0",
        domain,
        tuple(errors),
        None if flagged is None else tuple(flagged),
        None if flagged else "why",
    )


def test_counts_and_scores_by_hand() -> None:
    counts = count(
        [True, True, True, False, False, False, False],
        [True, True, False, True, False, False, False],
    )
    assert counts == Counts(tp=2, fp=1, fn=1, tn=3)
    assert counts.precision == pytest.approx(2 / 3)
    assert counts.recall == pytest.approx(2 / 3)
    assert counts.f1 == pytest.approx(2 / 3)
    assert counts.balanced_accuracy == pytest.approx((2 / 3 + 3 / 4) / 2)


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        (Counts(), {"precision", "recall", "f1", "balanced_accuracy"}),
        (Counts(fn=3, tn=1), {"precision"}),
        (Counts(tn=3), {"precision", "recall", "f1", "balanced_accuracy"}),
        (Counts(fp=3), {"recall", "balanced_accuracy"}),
    ],
)
def test_undefined_scores_are_no_numbers(counts: Counts, undefined: set[str]) -> None:
    found = {
        name
        for name in ("precision", "recall", "f1", "balanced_accuracy")
        if math.isnan(getattr(counts, name))
    }
    assert found == undefined


def test_a_response_is_wrong_if_any_segment_is() -> None:
    responses = [
        response([False, True], [True, False]),
        response([False, False], [False, True]),
        response([True], [False]),
    ]
    assert pool(responses, "segment") == Counts(tp=0, fp=2, fn=2, tn=1)
    assert pool(responses, "response") == Counts(tp=1, fp=1, fn=1, tn=0)


def test_unscored_responses_are_in_the_bounds_alone() -> None:
    responses = [response([True, False], [True, False]), response([True, False, False], None)]
    assert pool(responses, "segment") == Counts(tp=1, tn=1)
    worst, best = (pool(responses, "segment", is_right) for is_right in (False, True))
    assert (worst, best) == (Counts(tp=1, fp=2, fn=1, tn=1), Counts(tp=2, tn=3))
    worst, best = (pool(responses, "response", is_right) for is_right in (False, True))
    assert (worst, best) == (Counts(tp=1, fn=1), Counts(tp=2))


def test_the_report_counts_what_is_missing() -> None:
    report = to_report([response([True], [True]), response([True, False], None, "math")], "paper")
    assert report["unscored"]["responses"] == 1
    assert report["unscored"]["segments"] == 2
    assert report["unscored"]["reasons"] == {"why": 1}
    assert report["unscored"]["domains"] == {"math": 1, "wk": 0}
    assert report["math"]["segment"]["f1"] is None
    worst, best = (report["unscored"][end]["segment"] for end in ("worst", "best"))
    assert (worst["tp"], worst["fp"], worst["fn"], worst["tn"]) == (1, 1, 1, 0)
    assert (best["tp"], best["fp"], best["fn"], best["tn"]) == (2, 0, 0, 1)
    json.dumps(report, allow_nan=False)


def test_a_segment_is_wrong_if_any_of_its_claims_is() -> None:
    owners = [1, 1, 2, 2, 3]
    judged = judge_response("0", "wk", [True, False, True], Outputs(["Answer: 3, 4"], owners))
    assert judged.flagged == (False, True, False)
    outside = judge_response("0", "wk", [True, False, True], Outputs(["Answer: 6"], owners))
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
    from lm_factuality.ground.errors import DataError

    lines, message = BROKEN[name]
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = FelmRow("0", "wk", "Why?", ("So.",), (True,), (), ())
    with pytest.raises(DataError, match=message):
        read_outputs(path, [row])


def test_rows_without_output_and_empty_outputs_are_unscored(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text('{"index": "0", "domain": "wk", "output": null}\n')
    rows = [FelmRow(index, "wk", "Why?", ("So.",), (True,), (), ()) for index in "01"]
    judged = judge_outputs(rows, read_outputs(path, rows), "paper")
    assert [each.reason for each in judged] == ["empty output", "no output for this row"]
