"""``lm-factuality judge`` on saved samples."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from lm_factuality.cli.main import main
from tests.benchmarks.felm_gen.rule import ROWS, mark
from tests.judges.server import JudgeServer

RESPONSES = (
    "It is seven years old. It is iron.",
    "A current.",
    "3 * 4 = 12. It is seven.",
    "",
    "Twelve.",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def server():
    running = JudgeServer(mark)
    yield running
    running.close()


@pytest.fixture
def judge_yaml(server, tmp_path) -> Path:
    path = tmp_path / "my_judge.yaml"
    prices = {"prompt": 100.0, "completion": 100.0}
    content = {
        "backend": "openai",
        "model": "small-judge",
        "base_url": server.base_url,
        "prices": prices,
        "concurrency": 1,
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.fixture
def samples(tmp_path) -> Path:
    path = tmp_path / "samples_felm_gen.jsonl"
    lines = [
        {
            "doc": {"index": index, "domain": domain, "prompt": prompt, "reference_texts": [text]},
            "resps": [[response]],
        }
        for (index, domain, prompt, text), response in zip(ROWS, RESPONSES, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def judge(samples, judge_yaml, tmp_path):
    def run(*options: str, name: str | Path = judge_yaml, out: str = "judged") -> int:
        return main(
            [
                "judge",
                "felm_gen",
                "--samples",
                str(samples),
                "--judge",
                str(name),
                "--out",
                str(tmp_path / out),
                *options,
            ]
        )

    return run


def read(folder: Path) -> tuple[dict, list[dict]]:
    lines = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8")), [
        json.loads(line) for line in lines
    ]


def test_metrics_verdicts_and_a_table(judge, tmp_path, capsys):
    assert judge() == 0
    metrics, verdicts = read(tmp_path / "judged")
    assert metrics["wrong_segments"] == {"knowledge": 1, "reasoning": 1}
    assert metrics["unscored"] == {}
    assert metrics["no_answer"] == {"empty": 1}
    assert metrics["about"]["judge"]["name"] == "my_judge"
    assert metrics["about"]["samples"] == ["samples_felm_gen.jsonl"]
    assert [each["index"] for each in verdicts] == [row[0] for row in ROWS]
    assert verdicts[0]["errors"] == ["knowledge", None]
    printed = capsys.readouterr().out
    assert "33.3" in printed
    assert (
        "marking segments (behind all scores): not certified; run lm-factuality certify --judge"
        in printed
    )
    assert str(tmp_path / "judged" / "metrics.json") in printed


def test_a_dry_run_sends_nothing(judge, server, tmp_path, capsys):
    assert judge("--dry-run") == 0
    assert not server.bodies
    assert not (tmp_path / "judged").exists()
    printed = capsys.readouterr().out
    assert "marking" in printed
    assert "Nothing was sent" in printed
    assert "USD estimated" in printed
    assert "USD at most" in printed
    estimated, most = (
        float(found)
        for found in re.search(r"\$([\d.]+) estimated, at most \$([\d.]+)", printed).groups()
    )
    assert 0 < estimated < most
    assert judge("--max-cost", str(most * 1.001)) == 0  # what it says is enough


def test_the_lexical_judge_needs_no_server(judge, tmp_path, capsys):
    assert judge(name="lexical") == 0
    metrics, _ = read(tmp_path / "judged")
    assert (metrics["unscored"], metrics["no_answer"]) == ({"no evidence": 2}, {"empty": 1})
    assert "Unscored: no evidence 2." in capsys.readouterr().out


def test_bad_samples_are_refused_before_anything_is_asked(judge, samples, server, capsys):
    lines = samples.read_text(encoding="utf-8").splitlines()
    samples.write_text("\n".join([lines[0], "{}", lines[0], "no"]) + "\n", encoding="utf-8")
    assert judge() == 1
    message = capsys.readouterr().err
    assert f"{samples}:2: " in message
    assert not server.bodies


def test_wrong_names_are_refused(judge, samples, tmp_path, capsys):
    assert judge(name="lexicl") == 1
    assert "did you mean lexical" in capsys.readouterr().err
    arguments = ["--samples", str(samples), "--judge", "lexical", "--out", str(tmp_path)]
    assert main(["judge", "felm", *arguments]) == 2
    assert "did you mean felm_gen" in capsys.readouterr().err
