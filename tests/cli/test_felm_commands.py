"""``score felm``, ``claims extract`` and ``certify`` as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from lm_factuality.cli import main
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

SAMPLE = TASKS / "sample" / "sample_felm.jsonl"


def answer(prompt: str, attempt: int) -> Act:
    """A judge that flags the first unit, and takes each segment for one claim; one prompt gets no
    claims."""
    asked = prompt.rsplit("Question:", 1)[1]
    if "Write down the factual claims" not in prompt:
        return Act(text="Thought: the first is wrong.\nAnswer: 1")
    if "Priswick Observatory" in asked:
        return Act(text="I cannot do that.")
    segments = re.findall(r"^(\d+)\. (.*)$", asked, flags=re.MULTILINE)
    return Act(
        text=json.dumps(
            {"segments": [{"segment": int(number), "claims": [text]} for number, text in segments]}
        )
    )


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """(YAML of a judge, its server)"""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    server = JudgeServer(answer)
    path = tmp_path / "judge.yaml"
    prices = {"prompt": 1.0, "completion": 2.0}
    path.write_text(
        yaml.safe_dump(
            {
                "backend": "openai",
                "model": "small-judge",
                "base_url": server.base_url,
                "prices": prices,
            }
        )
    )
    yield str(path), server
    server.close()


@pytest.fixture
def data_dir(tmp_path) -> Path:
    folder = tmp_path / "felm"
    folder.mkdir()
    (folder / "all.jsonl").write_text("".join(SAMPLE.read_text().splitlines(keepends=True)[:12]))
    return folder


def test_score_counts_what_it_cannot_read_and_refuses_what_is_broken(data_dir, tmp_path, capsys):
    outputs, out = tmp_path / "outputs.jsonl", tmp_path / "metrics.json"
    lines = [
        {"index": "0", "domain": "wk", "output": "Answer: 0"},
        {"index": "1", "domain": "wk", "output": "Answer: 1"},
    ]
    outputs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = [
        "score",
        "felm",
        "--outputs",
        str(outputs),
        "--data-dir",
        str(data_dir),
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    unscored = json.loads(out.read_text())["unscored"]
    assert unscored["responses"] == 11
    assert unscored["reasons"] == {"no output for this row": 10, "id 0; the last is 3": 1}
    printed = capsys.readouterr().out
    assert "unscored: 11 responses" in printed
    assert main([*arguments, "--protocol", "code"]) == 0
    out.unlink()
    outputs.write_text('{"index": "99", "domain": "wk", "output": "1"}\nnot json\n')
    assert main(arguments) == 1
    message = capsys.readouterr().err
    assert "outputs.jsonl:1: no row has the index '99'" in message
    assert "outputs.jsonl:2:" in message
    assert not out.exists()


def test_claims_are_extracted_once_and_scored_as_claims(judge, data_dir, tmp_path, capsys):
    config, server = judge
    out = tmp_path / "claims.jsonl"
    arguments = [
        "claims",
        "extract",
        "--judge",
        config,
        "--data-dir",
        str(data_dir),
        "--out",
        str(out),
    ]
    assert main([*arguments, "--dry-run"]) == 0
    assert not out.exists()
    assert not server.attempts
    assert main(arguments) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == 12
    assert sum(record["problem"] is not None for record in records) == 1
    assert (
        "rows without claims, which are unscored when claims are judged: 1"
        in capsys.readouterr().out
    )
    asked = sum(server.attempts.values())
    first = out.read_text()
    assert main(arguments) == 0
    assert sum(server.attempts.values()) == asked
    assert out.read_text() == first


def test_claims_by_rules_ask_nobody(data_dir, tmp_path):
    out = tmp_path / "claims.jsonl"
    assert (
        main(
            [
                "claims",
                "extract",
                "--judge",
                "rules",
                "--data-dir",
                str(data_dir),
                "--out",
                str(out),
            ]
        )
        == 0
    )
    assert {json.loads(line)["source"] for line in out.read_text().splitlines()} == {"rules"}


def test_a_certificate_says_how_good_a_judge_is_and_later_runs_find_it(
    judge, data_dir, tmp_path, capsys
):
    from judges.certificates import find_certificates
    from judges.config import load_judge_config
    from judges.judge import Judge

    config, server = judge
    out = tmp_path / "certificate.json"
    arguments = ["certify", "--judge", config, "--data-dir", str(data_dir)]
    assert main([*arguments, "--dry-run"]) == 0
    assert not server.attempts
    assert "All steps: $0.0" in capsys.readouterr().out
    assert main([*arguments, "--out", str(out)]) == 0
    certificate = json.loads(out.read_text())
    rows = [json.loads(line) for line in (data_dir / "all.jsonl").read_text().splitlines()]
    wrong = sum(not row["labels"][0] for row in rows)
    found = certificate["scores"]["ALL"]["segment"]
    assert (found["tp"], found["fp"]) == (wrong, 12 - wrong)
    assert certificate["setting"] == "segment_cot"
    assert certificate["usage"]["calls"] == 12
    assert len(certificate["intervals"]["segment"]["f1"]) == 2
    assert certificate["baselines"]["flag everything"]["segment"]["recall"] == 1
    assert certificate["data"]["is_published"] is False
    assert set(certificate["prompt_hashes"]) == {"felm/segment_cot"}
    assert "key-of-nobody" not in out.read_text()
    with Judge.open(load_judge_config(config)) as opened:
        assert find_certificates(opened) is None  # not the published data


def test_certificates_are_found_by_judge_and_setting(judge, tmp_path):
    import dataclasses

    from judges.certificates import certified_identity, find_certificates, save_certificate
    from judges.config import load_judge_config
    from judges.judge import Judge

    config, _ = judge
    other = tmp_path / "own.jinja"
    other.write_text("{{ question }}")
    plain = load_judge_config(config)
    variants = [
        plain,
        dataclasses.replace(plain, samples=3),
        dataclasses.replace(plain, system="Be strict."),
        dataclasses.replace(plain, thinking_tokens=4000),
        dataclasses.replace(plain, schema=False),
        dataclasses.replace(plain, prompts={"felm/segment_cot": other}),
    ]
    identities = set()
    for variant in variants:
        with Judge.open(variant, store=tmp_path / "answers") as opened:
            identities.add(certified_identity(opened.config, opened.identity))
    assert len(identities) == len(variants)

    def certificate(setting, date, is_published=True):
        with Judge.open(plain, store=tmp_path / "answers") as opened:
            identity = certified_identity(opened.config, opened.identity)
        scores = {"ALL": {"segment": {"f1": 0.5}}, "unscored": {"responses": 0}}
        return {
            "identity": identity,
            "judge": {"name": "j"},
            "setting": setting,
            "date": date,
            "suite_version": "0",
            "prompt_hashes": {},
            "intervals": {},
            "data": {"is_published": is_published},
            "scores": scores,
        }

    assert len(save_certificate(certificate("segment_cot", "first"), None)) == 1
    assert len(save_certificate(certificate("segment_doc", "second"), None)) == 1
    assert save_certificate(certificate("segment_cot", "third", is_published=False), None) == []
    with Judge.open(plain, store=tmp_path / "answers") as opened:
        found = find_certificates(opened) or {}
    assert {name: each["date"] for name, each in found.items()} == {
        "segment_cot": "first",
        "segment_doc": "second",
    }
    with Judge.open(variants[1], store=tmp_path / "answers") as opened:
        assert find_certificates(opened) is None
