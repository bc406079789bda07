"""Keys planted in every place that takes text: each is refused before anything is made of it, and
none is written anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import factor_gen.cli
from lm_factuality.cli import main

KEY = "Zk4-planted-7Qx9-hidden-Wm2"  # which looks like no known kind of key
RUN = [
    "run",
    "--model",
    "local-chat-completions",
    "--tasks",
    "sample_felm",
    "--apply_chat_template",
]
GENERATE = ["factor-gen", "build"]
PLACES = {
    "user in an address": [
        *RUN,
        "--model_args",
        f"model=m,base_url=http://user:{KEY}@127.0.0.1:9/v1",
    ],
    "query": [*RUN, "--model_args", f"model=m,base_url=http://127.0.0.1:9/v1?key={KEY}"],
    "header": [*RUN, "--model_args", json.dumps({"model": "m", "header": {"x-api-key": KEY}})],
    "argument": [*RUN, "--model_args", f"model=m,api_key={KEY}"],
    "metadata": [
        *RUN,
        "--model_args",
        "model=m",
        "--metadata",
        json.dumps({"deep": {"auth_token": KEY}}),
    ],
    "generation": [*RUN, "--model_args", "model=m", "--gen_kwargs", f"user_token={KEY}"],
    "output": [*RUN, "--model_args", "model=m", "--output_path", f"results/{KEY}"],
    "a file of a run": ["run", "--config", "run.yaml"],
    "a judge": [
        *RUN,
        "--model_args",
        "model=m",
        "--metadata",
        "judge=judge.yaml",
        "--tasks",
        "sample_felm_gen",
    ],
    "settings of saved samples": [
        "judge",
        "felm_gen",
        "--samples",
        "s.jsonl",
        "--metadata",
        json.dumps({"api_key": KEY}),
    ],
    "notes": [
        "leaderboard",
        "pack",
        "results",
        "--model",
        "a/b",
        "--out",
        "o",
        "--notes",
        f"ran with {KEY}",
    ],
    "a title": ["report", "results", "--out", "o", "--title", f"password={KEY}"],
    "a build": [*GENERATE, "build.yaml", "--out", "o"],
    "an option of a build": [*GENERATE, "good.yaml", "--out", f"o/token={KEY}"],
}


@pytest.mark.parametrize("place", PLACES)
def test_a_key_is_written_nowhere(place, tmp_path: Path, monkeypatch, capfd, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judge = {"backend": "openai", "model": "m", "base_url": f"http://127.0.0.1:9/v1?sig={KEY}"}
    files = {
        "judge.yaml": judge,
        "run.yaml": {
            "model": "hf",
            "tasks": ["sample_felm"],
            "model_args": {"pretrained": "x", "token": KEY},
        },
        "build.yaml": {"corpus": f"https://me:{KEY}@127.0.0.1/texts/*.txt"},
        "good.yaml": {"corpus": "*.txt"},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    given = PLACES[place]
    assert (factor_gen.cli.main(given[1:]) if given[0] == "factor-gen" else main(given)) == 1
    told = capfd.readouterr()
    assert "OPENAI_API_KEY" in told.err or "keys come from the environment" in told.err
    assert KEY not in told.out + told.err + caplog.text
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in files]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert not [path for path in tmp_path.rglob("*") if KEY in path.name]
