import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError
from lm_factuality.leaderboard.workflow import init_repository


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    init_repository(tmp_path / "board")
    return tmp_path / "board"


@pytest.fixture
def workflow(repository: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(
        (repository / ".github" / "workflows" / "leaderboard.yml").read_text()
    )
    return content


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


def test_pull_requests_are_checked_without_rights_or_secrets(workflow: dict[Any, Any]) -> None:
    triggers = workflow[True]  # YAML 1.1 reads "on" so
    assert set(triggers) == {"pull_request", "push", "workflow_dispatch"}
    assert triggers["push"] == {"branches": ["main"]}
    assert workflow["permissions"] == {"contents": "read"}
    check = workflow["jobs"]["check"]
    assert check["if"] == "github.event_name == 'pull_request'"
    assert "permissions" not in check
    assert "leaderboard changed submissions --base" in commands(check)
    assert "secrets." not in yaml.safe_dump(workflow)


def test_only_main_is_published(workflow: dict[Any, Any]) -> None:
    publish = workflow["jobs"]["publish"]
    assert "github.ref == 'refs/heads/main'" in publish["if"]
    assert "github.event_name != 'pull_request'" in publish["if"]
    assert publish["permissions"] == {"contents": "read", "pages": "write", "id-token": "write"}
    assert "leaderboard build submissions --out site" in commands(publish)
    assert [step["uses"].split("@")[0] for step in publish["steps"] if "uses" in step][
        -1
    ] == "actions/deploy-pages"
    assert all("check" not in str(job.get("needs", "")) for job in workflow["jobs"].values())


def test_no_text_of_a_pull_request_becomes_part_of_a_command(workflow: dict[Any, Any]) -> None:
    for job in workflow["jobs"].values():
        assert "${{" not in commands(job)
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
        assert job["timeout-minutes"] <= 60


def test_every_command_in_it_is_one(workflow: dict[Any, Any]) -> None:
    import shlex

    from typer.main import get_command

    from lm_factuality.cli.leaderboard import app

    found = [
        shlex.split(line)[1:]
        for job in workflow["jobs"].values()
        for line in commands(job).splitlines()
        if "leaderboard" in line and "pip" not in line
    ]
    assert len(found) == 2
    for _, name, *arguments in found:
        get_command(app).commands[name].make_context(name, arguments)


def test_this_version_of_the_suite(workflow: dict[Any, Any], repository: Path) -> None:
    assert workflow["env"]["SUITE"] == f"lm-factuality=={__version__}"
    assert f"lm-factuality=={__version__}" in (repository / "README.md").read_text()


def test_nothing_is_overwritten(repository: Path) -> None:
    (repository / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"README\.md"):
        init_repository(repository)
    assert (repository / "README.md").read_text() == "mine"


def test_git_leaves_the_bytes_of_submissions_alone(repository: Path) -> None:
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    asked = ["submissions/a/samples_x.jsonl", "submissions/a/submission.json", "README.md"]
    found = subprocess.run(
        ["git", "-C", str(repository), "check-attr", "text", "filter", "--", *asked],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "submissions/a/samples_x.jsonl: text: unset" in found
    assert "submissions/a/submission.json: text: unset" in found
    assert "README.md: text: unspecified" in found
    assert "lfs" not in found
