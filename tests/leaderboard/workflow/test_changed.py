import subprocess
from pathlib import Path

import pytest

from lm_factuality.ground.errors import ConfigError
from lm_factuality.leaderboard.workflow import changed_submissions


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def write(folder: Path, name: str, text: str = "{}") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A board with one submission, on main."""
    folder = tmp_path / "board"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, "README.md", "board")
    write(folder, "submissions/README.md", "here")
    write(folder, "submissions/a__one/factor/2026/submission.json")
    write(folder, "submissions/a__one/factor/2026/samples.jsonl")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "begin")
    git(folder, "checkout", "-qb", "pull")
    return folder


def changes(repository: Path) -> tuple[list[str], list[str]]:
    """The folders to check, and the codes."""
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "change")
    found = changed_submissions(repository / "submissions", "main")
    return [each.relative_to(repository).as_posix() for each in found.submissions], [
        problem.code for problem in found.problems
    ]


def test_a_new_submission(repository: Path) -> None:
    write(repository, "submissions/b__two é/factor/2026/submission.json")
    write(repository, "submissions/b__two é/factor/2026/deep/samples.jsonl")
    assert changes(repository) == (["submissions/b__two é/factor/2026"], [])


def test_a_changed_file_of_an_old_one(repository: Path) -> None:
    write(repository, "submissions/a__one/factor/2026/samples.jsonl", "changed")
    assert changes(repository) == ([], ["SUBMISSION_CHANGED"])


def test_a_manifest_inside_an_old_one(repository: Path) -> None:
    write(repository, "submissions/a__one/factor/2026/new/submission.json")
    assert changes(repository) == ([], ["SUBMISSION_CHANGED"])


def test_beside_an_old_one_of_the_same_model(repository: Path) -> None:
    write(repository, "submissions/a__one/factor/2027/submission.json")
    assert changes(repository) == (["submissions/a__one/factor/2027"], [])


def test_a_submission_without_a_folder_of_its_own(repository: Path) -> None:
    write(repository, "submissions/submission.json")
    assert changes(repository) == ([], ["FILE_EXTRA"])


def test_a_removed_submission(repository: Path) -> None:
    git(repository, "rm", "-rq", "submissions/a__one")
    folders, codes = changes(repository)
    assert (folders, set(codes)) == ([], {"SUBMISSION_CHANGED"})


def test_a_stray_file(repository: Path) -> None:
    write(repository, "submissions/c/notes.txt")
    assert changes(repository) == ([], ["FILE_EXTRA"])


@pytest.mark.parametrize("name", ["README.md", "submissions/README.md", "submissions2/x", "config"])
def test_a_submission_changes_nothing_else(repository: Path, name: str) -> None:
    write(repository, "submissions/b/submission.json")
    write(repository, name, "changed")
    assert changes(repository) == (["submissions/b"], ["OUTSIDE_SUBMISSIONS"])


def test_a_pull_request_without_a_submission(repository: Path) -> None:
    write(repository, "README.md", "changed")
    assert changes(repository) == ([], [])


def test_what_main_has_got_since_is_not_the_pull_requests(repository: Path) -> None:
    git(repository, "checkout", "-q", "main")
    write(repository, "submissions/late/submission.json")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "late")
    git(repository, "checkout", "-q", "pull")
    write(repository, "submissions/b/submission.json")
    assert changes(repository) == (["submissions/b"], [])


def test_an_unknown_base(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="all commits"):
        changed_submissions(repository / "submissions", "0" * 40)
    with pytest.raises(ConfigError, match="git rev-parse"):
        changed_submissions(tmp_path, "main")
