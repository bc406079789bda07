"""What lm_eval leaves of a short run of every kind of task."""

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


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve documents of each, by the tiny checkpoint and the offline judge."""
    folder = tmp_path_factory.mktemp("short")
    code = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [
        "run",
        "--model",
        "hf",
        "--model_args",
        f"pretrained={TASKS / 'sample' / 'models' / 'smaller'},dtype=float32",
        "--device",
        "cpu",
        "--batch_size",
        "12",
        "--tasks",
        ",".join(KINDS),
        "--limit",
        "12",
        "--metadata",
        "judge=lexical",
        "--gen_kwargs",
        "max_gen_toks=16",
        "--output_path",
        str(folder),
        "--log_samples",
    ]
    environment = {**os.environ, "LM_FACTUALITY_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        env=environment,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder
