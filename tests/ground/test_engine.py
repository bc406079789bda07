"""Another project's package ``judges``, installed over ours or before it on the path, is told in
one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import require_engine
from tests.conftest import REPOSITORY


@pytest.fixture
def run(tmp_path: Path):
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "__init__.py").write_text(
        "from judges.base import Judge\n", encoding="utf-8"
    )
    (tmp_path / "judges" / "base.py").write_text("class Judge: ...\n", encoding="utf-8")

    def run(code: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(tmp_path), str(REPOSITORY)])
        command = [sys.executable, "-c", f"import sys; {code}"]
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize(
    "code",
    [
        "from lm_factuality.cli import main; sys.exit(main(['ls']))",
        "from lm_factuality.cli import main; sys.exit(main(['run', '--tasks', 'sample_factor']))",
        "from lm_factuality.cli import main; sys.exit(main(['verify', 'pairs.jsonl', '--out', 'out']))",
        "from factor_gen.cli import main; sys.exit(main(['build', 'corpus.yaml', '--out', 'out']))",
    ],
)
def test_commands_say_so_in_one_sentence(run, code):
    done = run(code)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "another project's package 'judges'" in line
    assert "pip uninstall judges" in line


def test_the_class_of_a_task_says_so(run):
    done = run("import lm_factuality.benchmarks.felm_gen.task")
    assert "ConfigError" in (last := done.stderr.splitlines()[-1])
    assert "another project's package 'judges'" in last


def test_ours_is_the_engine(monkeypatch):
    require_engine()
    monkeypatch.setattr("lm_factuality.ground.packages.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="'judges' of lm-factuality is missing"):
        require_engine()
