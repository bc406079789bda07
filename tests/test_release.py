"""What people expect of a repository: a citation, a changelog and workflows that agree with it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

import lm_factuality
from tests.conftest import REPOSITORY, TASKS
from tests.test_project import PROJECT

VERSION = lm_factuality.__version__
CITATION = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


def test_the_citation_is_of_this_version():
    """People cite the version that they used."""
    assert CITATION["version"] == VERSION
    assert CITATION["license"] == PROJECT["license"]


def test_the_citation_has_the_fields_that_its_format_requires():
    """GitHub shows "Cite this repository" only for a file of this form."""
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["message"]
    assert CITATION["authors"]


def test_the_newest_release_of_the_changelog_is_this_version():
    """A release that is not in the changelog would be one that nobody knows."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")

    releases = re.findall(r"(?m)^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$", changelog)

    assert releases[0] == VERSION


def plain_words(text: str) -> str:
    """Return a text without BibTeX's braces, with single blanks and none before a colon."""
    return re.sub(r" +:", ":", re.sub(r"[{}\s]+", " ", text))


@pytest.fixture(scope="module")
def readmes() -> str:
    """Return the words of the READMEs of all tasks, which cite papers as BibTeX."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(TASKS.glob("*/README.md"))]
    return plain_words(" ".join(texts))


each_paper = pytest.mark.parametrize(
    "paper", CITATION["references"], ids=lambda paper: paper["notes"]
)


@each_paper
def test_a_paper_is_cited_with_the_title_and_address_of_the_tasks(paper, readmes):
    """Both are typed by hand in two places."""
    assert plain_words(paper["title"]) in readmes
    assert paper["url"] in readmes


@each_paper
def test_a_paper_is_cited_with_the_authors_of_the_tasks(paper, readmes):
    """The READMEs of the tasks cite the same papers as BibTeX, and both must agree."""
    authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]

    assert " and ".join(authors) in readmes


@pytest.mark.parametrize(
    "paper",
    [paper for paper in CITATION["references"] if "start" in paper],
    ids=lambda paper: paper["notes"],
)
def test_a_paper_is_cited_with_the_pages_of_the_tasks(paper, readmes):
    """The READMEs of the tasks cite the same papers as BibTeX, and both must agree."""
    assert f"{paper['start']}--{paper['end']}" in readmes


each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


@each_workflow
def test_workflows_have_minimal_permissions(path):
    """A workflow with more rights could be made to change the repository."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))

    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        permissions = job.get("permissions", {})
        assert permissions.get("contents", "read") == "read"
        assert set(permissions) <= {"contents", "id-token", "pages"}


def steps_of_workflow(path: Path) -> list[dict]:
    """Return the steps of all jobs of a workflow."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@each_workflow
def test_workflows_run_only_make_and_scripts_of_the_repository(path):
    """Contributors can run the commands of a workflow on their machines too."""
    commands = [step["run"].strip() for step in steps_of_workflow(path) if "run" in step]

    for command in commands:
        assert command.startswith("make ") or (REPOSITORY / command).is_file(), command


@each_workflow
def test_workflows_use_actions_of_a_fixed_version(path):
    """An action that is named by a branch may change without anybody in the project noticing."""
    action_with_version = re.compile(r"[\w-]+/[\w-]+@(v\d+|release/v1|[0-9a-f]{40})")

    actions = [step["uses"] for step in steps_of_workflow(path) if "run" not in step]

    for action in actions:
        assert action_with_version.fullmatch(action), action


@pytest.fixture
def unreleased_copy(tmp_path) -> Path:
    """Copy what the release script checks, with a changelog that has no date of release."""
    for name in (".ci/dist", "lm_factuality/__init__.py", "CITATION.cff"):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((REPOSITORY / name).read_bytes())
    (tmp_path / ".ci" / "dist").chmod(0o755)
    changelog = f"# Changelog\n\n## [{VERSION}] - to be released\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    return tmp_path


def refusal_of_release(folder: Path, tag: str) -> str:
    """Let the release script refuse a tag before it builds anything, and return its message."""
    process = subprocess.run(
        [folder / ".ci" / "dist"],
        env={"PATH": "/usr/bin:/bin", "TAG": tag},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    return process.stderr


def test_a_release_with_the_tag_of_another_version_is_refused(unreleased_copy):
    """A package is published under its version for good."""
    assert "the tag is v9.9.9" in refusal_of_release(unreleased_copy, "v9.9.9")


def test_a_release_without_a_date_in_the_changelog_is_refused(unreleased_copy):
    """Users read there when a version came out."""
    assert "no date of release" in refusal_of_release(unreleased_copy, f"v{VERSION}")


def test_a_release_with_the_citation_of_another_version_is_refused(unreleased_copy):
    """People would cite a version that they did not use."""
    (unreleased_copy / "CITATION.cff").write_text("version: 0.0.1\n", encoding="utf-8")

    message = refusal_of_release(unreleased_copy, f"v{VERSION}")

    assert f"does not name version {VERSION}" in message
