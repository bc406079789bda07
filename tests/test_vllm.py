"""The sample benchmark through vLLM in this process and through a ``vllm serve``: the same accuracy
as ``hf``.

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

from tests.conftest import REPOSITORY, TASKS
from tests.serving import ENVIRONMENT, serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="needs vLLM; make test-vllm installs it"
    ),
]

MODEL = TASKS / "sample" / "models" / "larger"
BIN = Path(sys.executable).parent


def run(folder: Path, model: str, arguments: str) -> dict[int, dict]:
    command = [
        str(BIN / "lm-factuality"),
        "run",
        "--model",
        model,
        "--model_args",
        arguments,
        "--tasks",
        "sample_factor",
        "--limit",
        "120",
        "--output_path",
        str(folder),
        "--log_samples",
        "--batch_size",
        "16" if model == "hf" else "1",
    ]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=ENVIRONMENT, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr[-4000:]
    samples = next(folder.rglob("samples_sample_factor_*.jsonl"))
    return {sample["doc_id"]: sample for sample in map(json.loads, samples.open(encoding="utf-8"))}


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> dict[int, dict]:
    return run(tmp_path_factory.mktemp("hf"), "hf", f"pretrained={MODEL},dtype=float32")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    def command(port: str) -> list[str]:
        return [
            str(BIN / "vllm"),
            "serve",
            str(MODEL),
            "--served-model-name",
            "tiny",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--dtype",
            "float32",
            "--enforce-eager",
            "--enable-tokenizer-info-endpoint",
            "--max-model-len",
            "512",
        ]

    with serve(command) as url:
        yield f"{url}/v1/completions"


def compare(local: dict[int, dict], other: dict[int, dict]) -> None:
    assert local.keys() == other.keys()
    flips = 0
    for row, sample in local.items():
        assert sample["factor_num_tokens"] == other[row]["factor_num_tokens"]
        assert sample["factor_mean_logprob"] == pytest.approx(
            other[row]["factor_mean_logprob"], abs=2e-3
        )
        flips += sample["factor_acc"] != other[row]["factor_acc"]
    assert flips <= 1  # rounding may decide a row that is nearly a tie


@pytest.mark.timeout(900)
def test_vllm_scores_as_hf_does(local, tmp_path):
    arguments = f"pretrained={MODEL},dtype=float32,enforce_eager=True,max_model_len=512"
    compare(local, run(tmp_path, "vllm", arguments))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", ["huggingface", "remote"])
def test_a_vllm_server_scores_as_hf_does(local, server, tmp_path, backend):
    tokenizer = f",tokenizer={MODEL}" if backend == "huggingface" else ""
    arguments = f"model=tiny,base_url={server},tokenizer_backend={backend},max_length=512,num_concurrent=4{tokenizer}"
    compare(local, run(tmp_path, "local-completions", arguments))
