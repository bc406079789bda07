"""Servers that users run, ``vllm serve`` and ``transformers serve``: asked as evaluated models, as
judges, and for contradictions.

``make test-vllm`` builds the environment that this needs and runs it there.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY, TASKS
from tests.serving import ENVIRONMENT, serve, started

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="needs vLLM; make test-vllm installs it"
    ),
]

BIN = Path(sys.executable).parent
CONTEXT = 8192  # tokens; FELM's longest prompt with documents has fewer
CHAT = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A tiny GPT-2 with a long context and a chat template; its answers are noise, which has to
    come out as unscored."""
    import torch
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(TASKS / "sample" / "models" / "larger")
    tokenizer.model_max_length, tokenizer.chat_template = CONTEXT, CHAT
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=CONTEXT,
        n_embd=64,
        n_layer=1,
        n_head=2,  # vLLM on a CPU wants heads of 32
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["vllm", "transformers"])
def server(request, model) -> Iterator[tuple[str, str]]:
    """(base URL that ends in /v1, the model's name there)."""

    with serve(started(request.param, model, CONTEXT)) as url:
        yield f"{url}/v1", str(model)


def command(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **ENVIRONMENT,
        "LM_FACTUALITY_HOME": str(home),
        "OPENAI_API_KEY": "not-a-real-key",
    }
    return subprocess.run(
        [str(BIN / "lm-factuality"), *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1400,
    )


def test_factor_is_asked_of_a_server_by_what_it_gives(server, tmp_path):
    url, name = server
    done = command(
        "run",
        "--model",
        "local-chat-completions",
        "--apply_chat_template",
        "--tasks",
        "sample_factor_chat",
        "--model_args",
        f"model={name},base_url={url}/chat/completions,num_concurrent=8,max_retries=3",
        "--limit",
        "12",
        "--output_path",
        str(tmp_path),
        "--log_samples",
        home=tmp_path / "home",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    content = json.loads(next(tmp_path.rglob("results_*.json")).read_text())
    results, metadata = (
        content["results"]["sample_factor_chat"],
        content["configs"]["sample_factor_chat"]["metadata"],
    )
    assert (
        metadata.get("answers_read", "words") == "words"
    )  # noise has neither word among its likeliest tokens
    assert "the server gives no log-probabilities of answers" in done.stderr
    assert results["unscored,none"] == 12
    (path,) = tmp_path.rglob("samples_sample_factor_chat_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(
        "none of True, False" in each["unscored"] or "empty" in each["unscored"] for each in samples
    )


def test_a_server_is_a_judge_and_is_asked_once(server, tmp_path):
    url, name = server
    judge = tmp_path / "judge.yaml"
    decoding = {"temperature": 0.0, "max_tokens": 4}
    config = {
        "backend": "openai",
        "model": name,
        "base_url": url,
        "decoding": decoding,
        "concurrency": 8,
    }
    judge.write_text(yaml.safe_dump(config), encoding="utf-8")
    arguments = [
        "certify",
        "--judge",
        str(judge),
        "--setting",
        "segment_vanilla",
        "--sample",
        "--store",
        str(tmp_path / "answers"),
    ]
    first = command(*arguments, home=tmp_path)
    assert first.returncode == 1, first.stderr[-4000:]
    assert (
        "no verdict on any of 120 responses" in first.stderr
    )  # its words are noise, and noise is no verdict
    again = command(*arguments, "--dry-run", home=tmp_path)
    assert again.returncode == 0, again.stderr[-4000:]
    (line,) = [
        line.split()
        for line in again.stdout.splitlines()
        if line.strip().startswith("felm/segment_vanilla")
    ]
    assert line[1:5] == ["120", "120", "120", "0"]  # requests, distinct, on disk, to send
    assert b"not-a-real-key" not in (tmp_path / "answers").read_bytes()
