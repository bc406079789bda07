"""What people expect of a repository: a citation, a list of changes, forms for issues, workflows.
They agree with the rest."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

import lm_factuality
from tests.conftest import REPOSITORY, TASKS
from tests.test_project import PROJECT

GITHUB = REPOSITORY / ".github"
CITATION = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))


def test_citation_and_changes_are_of_this_version():
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert CITATION["version"] == lm_factuality.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert (
        re.findall(r"(?m)^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$", changes)[0]
        == lm_factuality.__version__
    )
    # Of the file format's version 1.2.0; the schema requires these.
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["message"]
    assert CITATION["authors"]


@pytest.mark.parametrize("paper", CITATION["references"], ids=lambda paper: paper["notes"])
def test_papers_are_cited_as_the_tasks_cite_them(paper):
    readmes = " ".join(
        re.sub(r"[{}]|\s+", " ", path.read_text(encoding="utf-8"))
        for path in TASKS.glob("*/README.md")
    )
    readmes = re.sub(r"\s+", " ", readmes)
    assert re.sub(r"\s+:", ":", paper["title"]) in re.sub(r"\s+:", ":", readmes)
    assert paper["url"] in readmes
    named = " and ".join(
        f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]
    )
    assert named in readmes
    if "start" in paper:
        assert f"{paper['start']}--{paper['end']}" in readmes


@pytest.mark.parametrize(
    "workflow", sorted(GITHUB.glob("workflows/*.yml")), ids=lambda path: path.stem
)
def test_workflows_run_what_exists_and_may_do_little(workflow):
    read = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert read["permissions"] == {"contents": "read"}
    for job in read["jobs"].values():
        assert set(job.get("permissions", {})) <= {"id-token"}
        for step in job["steps"]:
            if "run" in step:
                assert (REPOSITORY / step["run"].strip()).is_file(), step["run"]
            else:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"])


def test_a_release_is_refused_where_its_tag_or_its_changes_say_otherwise(tmp_path):
    """The checks before anything is built, in a copy whose changes are not yet released."""
    for path in (".ci/dist", "lm_factuality/__init__.py", "CITATION.cff", "CHANGELOG.md"):
        copy = tmp_path / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((REPOSITORY / path).read_bytes())
        copy.chmod(0o755)
    version = lm_factuality.__version__
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## [{version}] - to be released\n", encoding="utf-8"
    )

    def refused(tag: str) -> str:
        done = subprocess.run(
            [tmp_path / ".ci/dist"],
            env={"PATH": "/usr/bin:/bin", "TAG": tag},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        return done.stderr

    assert "the tag is v9.9.9" in refused("v9.9.9")
    assert "no date of release" in refused(f"v{version}")
    (tmp_path / "CITATION.cff").write_text("version: 0.0.1\n", encoding="utf-8")
    assert f"does not name version {version}" in refused(f"v{version}")
