"""Servers that users run, ``vllm serve`` and ``transformers serve``: asked as evaluated models, as
judges, and for contradictions.

``make test-vllm`` builds the environment that this needs and runs it there.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY, SHARED, TASKS
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


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> tuple[Path, int]:
    """FELM whole where it is at hand, else the sample in its place; and the number of rows."""
    published = SHARED / "data" / "felm"
    if published.is_dir():
        return published, 847
    folder = tmp_path_factory.mktemp("felm")
    shutil.copy(TASKS / "sample" / "sample_felm.jsonl", folder / "all.jsonl")
    return folder, 120


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


def test_felm_through_a_server(server, data_dir, tmp_path):
    url, name = server
    folder, num_rows = data_dir
    done = command(
        "run",
        "--model",
        "local-chat-completions",
        "--apply_chat_template",
        "--tasks",
        "felm_segment_vanilla",
        "--model_args",
        f"model={name},base_url={url}/chat/completions,num_concurrent=8,max_retries=3,tokenized_requests=False",
        "--gen_kwargs",
        "max_gen_toks=4",
        "--metadata",
        f"data_dir={folder}",
        "--output_path",
        str(tmp_path),
        "--log_samples",
        home=tmp_path / "home",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (path,) = tmp_path.rglob("samples_felm_segment_vanilla_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(samples) == num_rows
    assert all(isinstance(each["resps"][0][0], str) for each in samples)
    results = json.loads(next(tmp_path.rglob("results_*.json")).read_text())["results"][
        "felm_segment_vanilla"
    ]
    assert results["unscored,none"] == sum(each["unscored"] is not None for each in samples)


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


def test_a_server_is_a_judge_and_is_asked_once(server, data_dir, tmp_path):
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


def test_biographies_judged_by_a_model_that_answers_nonsense_are_all_accounted_for(
    server, tmp_path
):
    url, name = server
    judge = tmp_path / "judge.yaml"
    config = {
        "backend": "openai",
        "model": name,
        "base_url": url,
        "decoding": {"max_tokens": 16},
        "concurrency": 8,
    }
    judge.write_text(yaml.safe_dump(config), encoding="utf-8")
    generations = TASKS / "sample" / "sample_ambigbio_generations.json"
    done = command(
        "judge",
        "ambigbio",
        "--generations",
        str(generations),
        "--judge",
        str(judge),
        "--store",
        str(tmp_path / "answers"),
        "--out",
        str(tmp_path / "judged"),
        home=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    metrics = json.loads((tmp_path / "judged" / "metrics.json").read_text())
    scored = metrics["responses"] - metrics["abstained"] - metrics["unscored"]["responses"]
    assert (metrics["responses"], metrics["abstained"]) == (108, 4)
    assert sum(metrics["unscored"]["reasons"].values()) == metrics["unscored"]["responses"] > 0
    assert 0 <= scored <= 104
    assert metrics["about"]["judge_usage"]["errors"] == 0


def test_contradictions_by_a_model_that_answers_nonsense_are_all_accounted_for(server, tmp_path):
    from factor_gen.generate.llm.generator import LLMGenerator
    from factor_gen.records import ERROR_TYPES, Example
    from factor_gen.settings import GenerateSettings

    url, name = server
    config = {
        "backend": "openai",
        "model": name,
        "base_url": url,
        "decoding": {"max_tokens": 48},
        "concurrency": 8,
    }
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with (TASKS / "sample" / "sample_factor.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(12), strict=False)]
    examples = [
        Example(row["doc_id"], row["turncated_prefixes"], row["completion"], ERROR_TYPES)
        for row in rows
    ]
    found, sent = [], []
    for _ in range(2):
        stage = LLMGenerator(
            GenerateSettings(judge="judge.yaml"), tmp_path, store=tmp_path / "answers"
        )
        found.append(stage.run(examples))
        sent.append(stage._judge.usage.calls)
        stage.close()
    assert sent == [len(ERROR_TYPES) * len(examples), 0]
    assert found[0] == found[1]
    assert [each.doc_id for each in found[0]] == [row["doc_id"] for row in rows]
    for each in found[0]:
        assert len(each.candidates) + sum(each.lost.values()) >= len(
            ERROR_TYPES
        )  # each answer is used, or counted
        assert all(reason.startswith("llm: ") for reason in each.lost)
        assert "llm: backend error" not in each.lost
        assert each.candidates or each.unused == "generate: no contradiction could be read"
