"""The authors' scores on their own data, through both commands a user would type."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

TASKS = ("news_factor", "expert_factor")
BIN = Path(sys.executable).parent
COMMANDS = {
    "lm-factuality, hf": [str(BIN / "lm-factuality"), "run", "--model", "hf"],
    "lm-factuality, hf-tree": [str(BIN / "lm-factuality"), "run", "--model", "hf-tree"],
    "lm_eval, hf": [str(BIN / "lm_eval"), "run", "--include_path", "tasks", "--model", "hf"],
}


def reference(shared: Path, task: str) -> list[dict]:
    return [
        json.loads(line)
        for line in (shared / "reference" / "factor_parity" / f"{task}.jsonl").open(
            encoding="utf-8"
        )
    ]


# hf takes minutes for what hf-tree is tested to equal, and the plain command runs the same code.
_WAYS = [
    name if name.endswith("hf-tree") else pytest.param(name, marks=pytest.mark.slow)
    for name in COMMANDS
]


@pytest.fixture(scope="module", params=_WAYS)
def output(request, shared, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parity")
    model = shared / "reference" / "factor_parity" / "model"
    command = [
        *COMMANDS[request.param],
        "--model_args",
        f"pretrained={model},max_length=1023,dtype=float32",
        "--device",
        "cpu",
        "--tasks",
        ",".join(TASKS),
        "--metadata",
        f"data_dir={shared / 'data' / 'factor'}",
        "--output_path",
        str(folder),
        "--log_samples",
        "--batch_size",
        "8",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_every_row_has_the_authors_scores(output, shared, task):
    samples = {}
    for path in output.rglob(f"samples_{task}_*.jsonl"):
        samples = {
            sample["doc_id"]: sample for sample in map(json.loads, path.open(encoding="utf-8"))
        }
    rows = reference(shared, task)
    assert len(samples) == len(rows)
    # truncated ones too: the task caps prefix and completion at 1,024 tokens, as the script does
    for row in rows:
        sample = samples[row["row"]]
        assert sample["factor_num_tokens"] == row["num_tokens"], row["row"]
        assert bool(sample["truncated"]) == row["truncated"], row["row"]
        assert bool(sample["factor_acc"]) == row["correct"], row["row"]
        for mean_logprob, mean_nll in zip(
            sample["factor_mean_logprob"], row["mean_nll"], strict=True
        ):
            assert mean_logprob == pytest.approx(-mean_nll, abs=1e-4), row["row"]


def test_the_results_file_has_the_accuracies_and_says_what_they_stand_for(output, shared):
    accuracies = json.loads(
        (shared / "reference" / "factor_parity" / "accuracy.json").read_text(encoding="utf-8")
    )
    content = json.loads(next(output.rglob("results_*.json")).read_text(encoding="utf-8"))
    for task in TASKS:
        results, metadata = content["results"][task], content["configs"][task]["metadata"]
        assert results["factor_acc,none"] == pytest.approx(accuracies[task], abs=1e-12)
        for metric in ("factor_acc", "acc", "acc_bytes"):
            assert 0.005 < results[f"{metric}_stderr,none"] < 0.05
        assert results["unscored,none"] == 0
        assert (
            results["factor_acc_worst,none"]
            == results["factor_acc_best,none"]
            == results["factor_acc,none"]
        )
        assert metadata["window"] == 1024
        assert metadata["data"]["is_upstream"] == (task == "expert_factor")
    assert "74.0%" in content["configs"]["expert_factor"]["metadata"]["caution"]
    assert content["results"]["news_factor"]["truncated,none"] == 26
