"""``lm-factuality score ambigbio`` as a user types it."""

from __future__ import annotations

import json

import pytest

from lm_factuality.cli import main

SUPPORTED_FACT = {"atom": "a", "is_supported": True, "supporting_topic": "A"}


@pytest.fixture
def score_decisions(tmp_path):
    """Return a function that scores decisions, and returns the metrics that the command writes.

    Its arguments are the facts of each response before and after they were grouped by person (None
    for a response that abstains), and further options.
    """

    def run_score(decisions, grouped_decisions, *options):
        path = tmp_path / "decisions.json"
        content = {"decisions": decisions, "global_decisions": grouped_decisions}
        path.write_text(json.dumps(content), encoding="utf-8")
        paths = ["--decisions", str(path), "--out", str(tmp_path / "metrics.json")]
        assert main(["score", "ambigbio", *paths, *options]) == 0
        return json.loads((tmp_path / "metrics.json").read_text())

    return run_score


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        pytest.param([], "code", id="by default"),
        pytest.param(["--protocol", "code"], "code", id="code"),
        pytest.param(["--protocol", "fixed"], "fixed", id="fixed"),
    ],
)
def test_metrics_are_written_with_their_protocol(score_decisions, options, protocol):
    """One of two responses has two supported facts, and the other abstains."""
    decisions = [[SUPPORTED_FACT, SUPPORTED_FACT], None]

    metrics = score_decisions(decisions, decisions, *options)

    assert metrics["protocol"] == protocol
    assert metrics["factscore"] == 1.0
    assert metrics["respond_ratio"] == 1 / 2


def test_the_number_of_biographies_is_not_known(score_decisions):
    """The authors' files of decisions do not have it."""
    one_fact = [[SUPPORTED_FACT]]

    metrics = score_decisions(decisions=one_fact, grouped_decisions=one_fact)

    assert metrics["num_biographies"] is None


@pytest.mark.parametrize("protocol", ["code", "fixed"])
def test_a_table_says_how_many_facts_grouping_lost(score_decisions, capsys, protocol):
    """Grouping should keep all facts, and here it keeps one of two."""
    decisions = [[SUPPORTED_FACT, SUPPORTED_FACT]]
    grouped_decisions = [[SUPPORTED_FACT]]

    score_decisions(decisions, grouped_decisions, "--protocol", protocol)

    output = capsys.readouterr().out
    assert "D-FActScore" in output
    assert "grouping lost 1 facts" in output


def test_a_missing_file_of_decisions_is_refused(tmp_path, capsys):
    out = tmp_path / "metrics.json"

    exit_code = main(["score", "ambigbio", "--decisions", "gone.json", "--out", str(out)])

    assert exit_code == 1
    assert "gone.json: no such file" in capsys.readouterr().err
    assert not out.exists()
