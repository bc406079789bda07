"""The workflow's own steps, run in order as GitHub would: in a clone, with their environment,
published data from a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_factuality.benchmarks import all_sources
from lm_factuality.ground.published import blob_id
from lm_factuality.leaderboard.workflow import init_repository
from tests.conftest import REPOSITORY
from tests.leaderboard.workflow.test_changed import git

CONTENT = b"what the server has for every published file"


@dataclass
class Mirror:
    address: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *arguments: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Mirror(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A repository of submissions as ``init`` makes it, on a branch of its own."""
    folder = tmp_path / "board"
    init_repository(folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "begin")
    git(folder, "checkout", "-qb", "pull")
    return folder


def environment(tmp_path: Path, mirror: Mirror) -> dict[str, str]:
    """A runner's, with nothing fetched yet; the suite there expects of every published file what
    the server has."""
    (tmp_path / "content").write_bytes(CONTENT)
    patch = (
        "import dataclasses\nfrom lm_factuality.benchmarks import all_sources\n"
        f"all_sources().update({{n: dataclasses.replace(s, blob={blob_id(tmp_path / 'content')!r}) for n, s in all_sources().items()}})\n"
    )
    (tmp_path / "start").mkdir(exist_ok=True)
    (tmp_path / "start" / "sitecustomize.py").write_text(patch)
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "LM_FACTUALITY_HOME": str(tmp_path / "home"),
        "LM_FACTUALITY_MIRROR": mirror.address,
        "PYTHONPATH": f"{tmp_path / 'start'}{os.pathsep}{REPOSITORY}",
    }


def run_job(
    board: Path, name: str, surroundings: dict[str, str], base: str = ""
) -> tuple[int, str]:
    """Exit code and output of the steps of a job up to the first that fails; actions and pip are
    not run."""
    workflow = yaml.safe_load((board / ".github" / "workflows" / "leaderboard.yml").read_text())
    output = ""
    for step in workflow["jobs"][name]["steps"]:
        if "run" not in step or step["run"].startswith("pip install"):
            continue
        own = {
            **workflow.get("env", {}),
            **workflow["jobs"][name].get("env", {}),
            **step.get("env", {}),
        }
        own = {
            key: value.replace("${{ github.event.pull_request.base.sha }}", base)
            for key, value in own.items()
        }
        assert not any("${{" in value for value in own.values())
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command,
            cwd=board,
            env={**surroundings, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output += done.stdout
        if done.returncode:
            return done.returncode, output
    return 0, output


def test_an_honest_submission_is_accepted_and_published(
    board: Path, honest: Path, mirror: Mirror, tmp_path: Path
) -> None:
    base = git(board, "rev-parse", "main")
    shutil.copytree(honest, board / "submissions" / "example__smaller" / "sample" / "2026")
    git(board, "add", "-A")
    git(board, "commit", "-qm", "submit")
    surroundings = environment(tmp_path, mirror)
    code, output = run_job(board, "check", surroundings, base)
    assert code == 0, output
    assert "2026: accepted" in output
    assert len(mirror.asked) == len({source.path for source in all_sources().values()})
    git(board, "checkout", "-q", "main")
    git(board, "merge", "-q", "pull")
    code, output = run_job(board, "publish", surroundings)
    assert code == 0, output
    assert "1 model of 1 submission, 0 refused" in output
    assert (board / "site" / "index.html").is_file()


@pytest.mark.slow
def test_a_broken_one_fails_the_check_and_leaves_the_site(
    board: Path, mirror: Mirror, tmp_path: Path
) -> None:
    base = git(board, "rev-parse", "main")
    (board / "submissions" / "broken").mkdir()
    (board / "submissions" / "broken" / "submission.json").write_text("{")
    git(board, "add", "-A")
    git(board, "commit", "-qm", "submit")
    surroundings = environment(tmp_path, mirror)
    code, output = run_job(board, "check", surroundings, base)
    assert (code, "SUBMISSION_INVALID" in output) == (1, True)
    code, output = run_job(board, "publish", surroundings)
    assert code == 0, output
    assert "0 models of 0 submissions, 1 refused" in output
