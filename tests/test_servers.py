"""Servers that users run, ``vllm serve`` and ``transformers serve``, as models and as judges.

``make test-vllm`` builds the environment that this needs and runs it there.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.conftest import REPOSITORY, TASKS
from tests.serving import ENVIRONMENT, command_to_serve, serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="needs vLLM; make test-vllm installs it"
    ),
]

PROGRAM = Path(sys.executable).with_name("lm-factuality")
CONTEXT = 8192  # tokens; FELM's longest prompt with documents has fewer
CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
KEY = "not-a-real-key"
NUM_ROWS = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Save a tiny GPT-2 with random weights, a long context and a chat template.

    Its answers are noise, which has to come out as unscored.
    """
    import torch
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(TASKS / "sample" / "models" / "larger")
    tokenizer.model_max_length = CONTEXT
    tokenizer.chat_template = CHAT_TEMPLATE
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


class ServedModel(NamedTuple):
    """A model behind a server."""

    base_url: str
    """The address, which ends in ``/v1``."""

    name: str
    """The name by which the server knows the model."""


@pytest.fixture(scope="module", params=["vllm", "transformers"])
def served_model(request, model) -> Iterator[ServedModel]:
    """Serve the model by each of the two programs."""
    with serve(command_to_serve(request.param, model, CONTEXT)) as url:
        yield ServedModel(f"{url}/v1", str(model))


def run_command(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run ``lm-factuality`` in a process of its own.

    Args:
        *arguments: The command and its options.
        home: The folder for its stores and caches.
    """
    environment = {**ENVIRONMENT, "LM_FACTUALITY_HOME": str(home), "OPENAI_API_KEY": KEY}
    return subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1400,
    )


class FactorRun(NamedTuple):
    """What a run of FACTOR's chat task left."""

    stderr: str
    """What the command logged."""

    results: dict[str, Any]
    """The content of the results file."""

    samples: list[dict[str, Any]]
    """The rows of the samples file."""


@pytest.fixture(scope="module")
def factor_run(served_model, tmp_path_factory) -> FactorRun:
    """Run FACTOR's chat task on the served model."""
    folder = tmp_path_factory.mktemp("factor")
    model_args = (
        f"model={served_model.name},base_url={served_model.base_url}/chat/completions,"
        "num_concurrent=8,max_retries=3"
    )
    process = run_command(
        "run",
        *("--model", "local-chat-completions"),
        "--apply_chat_template",
        *("--tasks", "sample_factor_chat"),
        *("--model_args", model_args),
        *("--limit", str(NUM_ROWS)),
        *("--output_path", str(folder)),
        "--log_samples",
        home=folder / "home",
    )
    assert process.returncode == 0, process.stderr[-4000:]
    (results_path,) = folder.rglob("results_*.json")
    (samples_path,) = folder.rglob("samples_sample_factor_chat_*.jsonl")
    sample_lines = samples_path.read_text(encoding="utf-8").splitlines()
    return FactorRun(
        process.stderr,
        json.loads(results_path.read_text()),
        [json.loads(line) for line in sample_lines],
    )


def test_answers_are_read_as_words_without_log_probabilities(factor_run):
    """The model writes noise, with neither "True" nor "False" among its most likely tokens."""
    metadata = factor_run.results["configs"]["sample_factor_chat"]["metadata"]

    assert metadata["answers_read"] == "words"
    assert "the server gives no log-probabilities of answers" in factor_run.stderr


def test_noise_is_unscored_with_a_reason(factor_run):
    """Noise must not be taken for an answer, right or wrong."""
    scores = factor_run.results["results"]["sample_factor_chat"]

    assert scores["unscored,none"] == NUM_ROWS
    for sample in factor_run.samples:
        reason = sample["unscored"]
        assert "none of True, False" in reason or "empty" in reason


@pytest.fixture
def certify(served_model, tmp_path):
    """Return a function that runs ``certify`` with the served model as the judge."""
    judge_path = tmp_path / "judge.yaml"
    judge = {
        "backend": "openai",
        "model": served_model.name,
        "base_url": served_model.base_url,
        "decoding": {"temperature": 0.0, "max_tokens": 4},
        "concurrency": 8,
    }
    judge_path.write_text(yaml.safe_dump(judge), encoding="utf-8")
    arguments = [
        "certify",
        *("--judge", str(judge_path)),
        *("--setting", "segment_vanilla"),
        "--sample",
        *("--store", str(tmp_path / "answers")),
    ]
    return lambda *options: run_command(*arguments, *options, home=tmp_path)


def test_noisy_judge_gets_no_certificate(certify):
    """No certificate may state an agreement with people that rests on no verdict."""
    certified = certify()

    assert certified.returncode == 1, certified.stderr[-4000:]
    # The sample of FELM has 120 responses.
    assert "no verdict on any of 120 responses" in certified.stderr


def test_stored_answers_of_a_served_judge_are_reused(certify):
    """A user who certifies a judge again does not pay again, even for answers without a verdict."""
    certify()

    planned = certify("--dry-run")

    assert planned.returncode == 0, planned.stderr[-4000:]
    words_of_plan = " ".join(planned.stdout.split())
    # The columns of the plan: step, requests, on disk, to send.
    assert "segment_vanilla 120 120 0" in words_of_plan


def test_the_key_of_a_server_is_not_stored_with_its_answers(certify, tmp_path):
    """The file of answers is shared with others, so that no key may be in it."""
    certify()

    assert KEY.encode() not in (tmp_path / "answers").read_bytes()
