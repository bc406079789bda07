"""The second part of the first run: what it leaves behind."""

from __future__ import annotations

import json

from lm_factuality.benchmarks.biographies.types import read_lines
from lm_factuality.sample.quickstart import PAGE, VERDICTS, judge_sample


def test_verdicts_and_page_are_left_in_the_folder(tmp_path):
    responses, _ = judge_sample(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "verdicts.jsonl",
        "biographies.html",
        "answers.sqlite",
    }
    lines = read_lines(tmp_path / VERDICTS)
    assert len(lines) == responses
    assert {(each.protocol, each.linking) for each in lines} == {("paper", "greedy")}
    record = json.loads((tmp_path / VERDICTS).read_text(encoding="utf-8").split("\n")[0])
    assert 0 <= record["scores"]["d_factscore"] <= record["scores"]["factscore"] <= 1
    assert '"settings":{"protocol":"paper","linking":"greedy"}' in (tmp_path / PAGE).read_text(
        encoding="utf-8"
    )
