"""A judge works through rows of FELM: what becomes of its answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.judge import Judge
from lm_factuality.benchmarks.certifiable import CertifyOptions
from lm_factuality.benchmarks.felm.judging import FelmTrial
from tests.judges.server import Act


def line(index: str, *segments: str) -> str:
    row = {"index": index, "domain": "wk", "prompt": f"Why {index}?"}
    row |= {"segmented_response": segments, "labels": [True] * len(segments)}
    return json.dumps(row)


@pytest.mark.parametrize(
    ("finish_reason", "flagged", "reason"),
    [("stop", (True, True, False), None), ("length", None, "cut off in the answer")],
)
def test_a_list_that_may_be_cut_off_is_no_verdict(
    server, config, tmp_path: Path, finish_reason, flagged, reason
):
    """Of the answer ``1, 2`` a third id may be missing if it ended for want of tokens; another
    row's answer is whole."""

    def script(prompt: str, attempt: int) -> Act:
        whole = "Why second?" in prompt
        return Act(
            text="Answer: 3" if whole else "Answer: 1, 2",
            finish_reason="stop" if whole else finish_reason,
        )

    server.script = script
    lines = [
        line("first", "Iron rusts.", "Gold rusts.", "Salt melts."),
        line("second", "One.", "Two.", "Three."),
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    trial = FelmTrial("segment", "vanilla", CertifyOptions(data_dir=str(tmp_path)))
    for _ in range(2):  # the second time out of the store
        with Judge.open(config(), store=tmp_path / "a.sqlite") as judge:
            first, second = trial.ask(judge)
        assert (first.flagged, first.reason) == (flagged, reason)
        assert (second.flagged, second.reason) == ((False, False, True), None)
    assert len(server.bodies) == 2
