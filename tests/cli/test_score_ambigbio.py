"""``lm-factuality score ambigbio`` as a user types it."""

from __future__ import annotations

import json

import pytest

from lm_factuality.cli import main

FACT = {"atom": "a", "is_supported": True, "supporting_topic": "A"}


@pytest.fixture
def decisions(tmp_path):
    path = tmp_path / "decisions.json"
    path.write_text(
        json.dumps({"decisions": [[FACT, FACT], None], "global_decisions": [[FACT], None]}),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("protocol", ["code", "fixed", None])
def test_metrics_and_table(decisions, tmp_path, capsys, protocol):
    out = tmp_path / "metrics.json"
    extra = ["--protocol", protocol] if protocol else []
    assert (
        main(["score", "ambigbio", "--decisions", str(decisions), "--out", str(out), *extra]) == 0
    )
    metrics = json.loads(out.read_text())
    assert metrics["protocol"] == (protocol or "code")
    assert (metrics["factscore"], metrics["respond_ratio"], metrics["num_biographies"]) == (
        1.0,
        0.5,
        None,
    )
    output = capsys.readouterr().out
    assert "D-FActScore" in output
    assert "grouping lost 1 facts" in output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["ambigbio", "--decisions", "gone.json"], "gone.json: no such file")],
)
def test_wrong_arguments(tmp_path, capsys, arguments, expected):
    assert main(["score", *arguments, "--out", str(tmp_path / "out.json")]) == 1
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
