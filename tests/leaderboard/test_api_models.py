"""Judged tasks through lm_eval's models of servers: their samples are read by everything that reads
samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lm_factuality.cli import main
from lm_factuality.harness.samples import read_samples, verdict_of
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import differences, recompute
from tests.conftest import REPOSITORY
from tests.judges.server import Act, JudgeServer

TASKS = ["sample_felm_gen", "sample_ambigbio"]
ANSWER = "Orla Weaver was born in 1920 [1]. She wrote 2 books."


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The sample's leaderboard without the task that needs log-likelihoods, which chat servers do
    not give."""
    folder = tmp_path / "rules"
    folder.mkdir()
    content = yaml.safe_load(
        (REPOSITORY / "configs" / "leaderboard" / "rules" / "sample.yaml").read_text(
            encoding="utf-8"
        )
    )
    content["tasks"] = {name: content["tasks"][name] for name in TASKS}
    content["chat_template"] = True
    (folder / "sample.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("client", "path", "is_chat"),
    [
        ("local-chat-completions", "chat/completions", True),
        pytest.param("local-completions", "completions", False, marks=pytest.mark.slow),
    ],
)
def test_a_run_is_reported_packed_and_checked(
    client, path, is_chat, rules, certificate, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    server = JudgeServer(lambda prompt, attempt: Act(text=ANSWER))
    out = tmp_path / "results"
    arguments = f"model=m,base_url={server.base_url}/{path},tokenizer_backend=None,num_concurrent=8"
    command = [
        "run",
        "--config",
        str(REPOSITORY / "configs" / "leaderboard" / "sample.yaml"),
        "--tasks",
        ",".join(TASKS),
    ]
    command += [
        "--model",
        client,
        "--model_args",
        arguments,
        "--output_path",
        str(out),
        "--batch_size",
        "1",
    ]
    try:
        assert main([*command, *(["--apply_chat_template"] if is_chat else [])]) == 0
    finally:
        server.close()
    (results,) = read_results_files([out])
    for name in TASKS:
        task = results.task(name)
        assert task is not None
        assert task.samples is not None
        samples = list(read_samples(task.samples))
        assert all(isinstance(verdict_of(sample), dict) for sample in samples)
        assert differences(task, recompute(task, samples)) == []
    assert main(["report", str(out), "--out", str(tmp_path / "report")]) == 0
    packed = [
        "--model",
        "example/m",
        "--dtype",
        "float32",
        "--revision",
        "f" * 40,
        "--certificate",
        str(certificate),
        "--out",
        str(tmp_path / "submissions"),
    ]
    assert main(["leaderboard", "pack", str(out), "--rules", str(rules), *packed]) == 0, (
        capsys.readouterr().err.splitlines()[-3:]
    )
    assert (
        main(["leaderboard", "check", str(tmp_path / "submissions"), "--rules", str(rules)]) == 0
    ), capsys.readouterr().out[-2000:]
    judged = [
        "--samples",
        str(next(out.rglob("samples_sample_ambigbio_*.jsonl"))),
        "--judge",
        "lexical",
    ]
    assert main(["judge", "ambigbio", *judged, "--out", str(tmp_path / "judged")]) == 0
