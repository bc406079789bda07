"""An honest submission, made once: the sample's leaderboard, by the tiny checkpoint and the offline
judge."""

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

from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from tests.conftest import REPOSITORY, TASKS
from tests.leaderboard.reseal import hashes_of, read_rows, seal_files, write_rows

MODEL = "example/smaller"


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``configs/leaderboard/sample.yaml`` leaves."""
    folder = tmp_path_factory.mktemp("run")
    command = [
        "lm-factuality",
        "run",
        "--config",
        str(REPOSITORY / "configs" / "leaderboard" / "sample.yaml"),
        "--device",
        "cpu",
        "--batch_size",
        "32",
        "--model_args",
        f"pretrained={TASKS / 'sample' / 'models' / 'smaller'},dtype=float32",
        "--output_path",
        str(folder),
    ]
    environment = {**os.environ, "LM_FACTUALITY_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    code = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *command[1:]],
        capture_output=True,
        text=True,
        env=environment,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The offline judge's, on the sample."""
    from lm_factuality.cli import main

    path = tmp_path_factory.mktemp("certificate") / "certificate.json"
    store = str(path.with_name("store.sqlite"))
    assert (
        main(["certify", "--judge", "lexical", "--sample", "--store", store, "--out", str(path)])
        == 0
    )
    return path


@pytest.fixture(scope="session")
def honest(sample_run: Path, certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The submission's folder; not to be changed."""
    return pack(
        [sample_run],
        PackOptions(MODEL, certificate=certificate),
        tmp_path_factory.mktemp("submissions"),
    )


class Forger:
    """A copy of a submission, to be changed; ``seal`` makes hashes and sizes right again, as a
    forger would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def submission(self) -> dict[str, Any]:
        return json.loads((self.folder / SUBMISSION_FILE).read_text(encoding="utf-8"))

    def change_submission(self, change: Callable[[dict[str, Any]], Any]) -> None:
        self._change(self.folder / SUBMISSION_FILE, change)

    def change_results(self, change: Callable[[dict[str, Any]], Any], seal: bool = True) -> None:
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
        """``change`` works on the list of samples; with ``rehash`` lm_eval's own hashes are made
        right too."""
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
        return next(self.folder.glob("results_*.json"))

    def samples(self, task: str) -> Path:
        return next(self.folder.glob(f"samples_{task}_2*.jsonl"))

    def seal(self) -> None:
        seal_files(self.folder)

    @staticmethod
    def _change(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


@pytest.fixture
def forger(honest: Path, tmp_path: Path) -> Forger:
    return Forger(Path(shutil.copytree(honest, tmp_path / "submission")))
