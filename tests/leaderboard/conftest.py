"""An honest submission to the sample's leaderboard, and a forger that changes copies of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.cli import main
from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from tests.conftest import REPOSITORY, TASKS
from tests.leaderboard.reseal import hashes_of, read_rows, seal_files, write_rows

MODEL = "example/smaller"
RUN_MAIN = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the sample's leaderboard on the tiny checkpoint, and return the results folder."""
    folder = tmp_path_factory.mktemp("run")
    config = REPOSITORY / "configs" / "leaderboard" / "sample.yaml"
    checkpoint = TASKS / "sample" / "models" / "smaller"
    command = [sys.executable, "-c", RUN_MAIN, "run", "--config", str(config), "--device", "cpu"]
    command += ["--model_args", f"pretrained={checkpoint},dtype=float32", "--batch_size", "32"]
    command += ["--output_path", str(folder)]
    environment = {**os.environ, "LM_FACTUALITY_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=REPOSITORY
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return folder


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certify the offline judge on the sample, and return its certificate."""
    path = tmp_path_factory.mktemp("certificate") / "certificate.json"
    store = path.with_name("store.sqlite")
    options = ["--judge", "lexical", "--sample", "--store", str(store), "--out", str(path)]
    assert main(["certify", *options]) == 0
    return path


@pytest.fixture(scope="session")
def honest(sample_run: Path, certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack an honest submission, and return its folder, which tests do not change."""
    return pack(
        [sample_run],
        PackOptions(MODEL, certificate=certificate),
        tmp_path_factory.mktemp("submissions"),
    )


class Forger:
    """Changes a copy of a submission, and corrects hashes and sizes as a forger would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def submission(self) -> dict[str, Any]:
        """Return the content of ``submission.json``."""
        return json.loads((self.folder / SUBMISSION_FILE).read_text(encoding="utf-8"))

    def change_submission(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the content of ``submission.json``."""
        self._change(self.folder / SUBMISSION_FILE, change)

    def change_results(self, change: Callable[[dict[str, Any]], Any], seal: bool = True) -> None:
        """Change the content of the results file."""
        self._change(self.results, change)
        if seal:
            self.seal()

    def change_samples(
        self,
        task: str,
        change: Callable[[list[dict[str, Any]]], Any],
        seal: bool = True,
        rehash: bool = False,
    ) -> None:
        """Change the samples of a task.

        Args:
            task: The name of the task.
            change: Changes the list of samples in place.
            seal: Whether to correct hashes and sizes in ``submission.json``.
            rehash: Whether to correct lm_eval's hash of all samples in the results as well.
        """
        path = self.samples(task)
        rows = read_rows(path)
        change(rows)
        write_rows(path, rows)
        if rehash:
            digest = hashes_of(rows)
            self._change(
                self.results, lambda content: content["task_hashes"].update({task: digest})
            )
        if seal:
            self.seal()

    @property
    def results(self) -> Path:
        """Return the results file."""
        return next(self.folder.glob("results_*.json"))

    def samples(self, task: str) -> Path:
        """Return the samples file of a task."""
        return next(self.folder.glob(f"samples_{task}_2*.jsonl"))

    def seal(self) -> None:
        """Correct hashes and sizes in ``submission.json``."""
        seal_files(self.folder)

    @staticmethod
    def _change(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the content of a JSON file."""
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


@pytest.fixture
def forger(honest: Path, tmp_path: Path) -> Forger:
    """Return the forger of a copy of the honest submission."""
    return Forger(Path(shutil.copytree(honest, tmp_path / "submission")))
