"""The results of a short run of every kind of task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, TASKS

KINDS = {
    "sample_factor": "factor",
    "sample_factor_chat": "factor_chat",
    "sample_factor_perplexity": "perplexity",
    "sample_felm": "felm",
    "sample_felm_gen": "felm_gen",
    "sample_factor_generation": "factor_generation",
    "sample_ambigbio": "ambigbio",
}

RUN_MAIN = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run twelve documents of each task on the tiny checkpoint, and return the results folder."""
    folder = tmp_path_factory.mktemp("short")
    checkpoint = TASKS / "sample" / "models" / "smaller"
    command = [sys.executable, "-c", RUN_MAIN, "run", "--model", "hf", "--device", "cpu"]
    command += ["--model_args", f"pretrained={checkpoint},dtype=float32", "--batch_size", "12"]
    command += ["--tasks", ",".join(KINDS), "--limit", "12", "--metadata", "judge=lexical"]
    command += ["--gen_kwargs", "max_gen_toks=16", "--output_path", str(folder), "--log_samples"]
    environment = {**os.environ, "LM_FACTUALITY_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=REPOSITORY
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return folder
