"""The site of real submissions: the sample's, as ``pack`` makes it, and forged copies."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.leaderboard.check import find_submissions
from lm_factuality.leaderboard.site import build as build_module
from lm_factuality.leaderboard.site.build import BOARD_FILE, build_site
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from tests.conftest import REPOSITORY

SAMPLE_RULES = REPOSITORY / "configs" / "leaderboard" / "rules" / "sample.yaml"


@pytest.fixture(scope="module")
def submissions(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of an honest submission, one with a changed score, and one without JSON."""
    folder = tmp_path_factory.mktemp("submissions")
    shutil.copytree(honest, folder / "honest")

    forged = shutil.copytree(honest, folder / "forged")
    (results,) = forged.glob("results_*.json")
    content = json.loads(results.read_text())
    content["results"]["sample_factor"]["factor_acc,none"] = 0.99
    results.write_text(json.dumps(content))

    (folder / "broken").mkdir()
    (folder / "broken" / "submission.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def site(submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site of these three submissions, and return its folder."""
    folder = tmp_path_factory.mktemp("built") / "site"
    build_site(submissions, folder)
    return folder


@pytest.fixture
def one_submission(honest: Path, tmp_path: Path) -> Path:
    """Return a folder of submissions with the honest one in it."""
    folder = tmp_path / "submissions"
    shutil.copytree(honest, folder / "one")
    return folder


def read_board(site: Path) -> dict[str, Any]:
    """Read the JSON of a site."""
    return json.loads((site / BOARD_FILE).read_text())


def only_model(site: Path) -> dict[str, Any]:
    """Return the JSON of the only accepted model of a site."""
    (leaderboard,) = read_board(site)["leaderboards"]
    (model,) = leaderboard["models"]
    return model


def test_the_honest_submission_is_shown_with_the_scores_of_its_results(site, honest):
    """Each task is shown with its headline, the score by which models are ranked."""
    model = only_model(site)

    (results_path,) = honest.glob("results_*.json")
    results = json.loads(results_path.read_text())["results"]
    assert model["folder"] == "honest"
    assert {score["task"]: score["value"] for score in model["scores"]} == {
        "sample_factor": results["sample_factor"]["factor_acc,none"],
        "sample_felm_gen": results["sample_felm_gen"]["segment_error_rate,judge"],
        "sample_ambigbio": results["sample_ambigbio"]["d_factscore,judge"],
    }


def test_only_model_ranks_first_or_not_at_all(site):
    """A score without an interval has no rank."""
    ranks = {score["rank"] for score in only_model(site)["scores"]}

    assert ranks <= {1, None}


@pytest.fixture(scope="module")
def judge_steps(site) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what the site's JSON says of each step of the judge, by task and by step."""
    steps_by_task = {}
    for score in only_model(site)["scores"]:
        steps = {}
        for step in score["steps"]:
            name, _, _ = step["step"].partition(" (")
            steps[name] = step
        steps_by_task[score["task"]] = steps
    return steps_by_task


def test_score_without_a_judge_has_no_judge_steps(judge_steps):
    """FACTOR compares log-probabilities, and nobody judges."""
    assert judge_steps["sample_factor"] == {}


def test_a_certified_step_of_the_judge_is_shown_with_its_agreement(judge_steps):
    """The submission has a certificate of how well its judge agrees with people in this step."""
    step = judge_steps["sample_felm_gen"]["marking segments"]

    agreement = r"F1 of segments with errors [\d.]+% \[[\d.]+%, [\d.]+%\] \(segment_doc, "
    assert step["is_certified"]
    assert re.match(agreement, step["text"])


def test_uncertified_steps_are_shown_as_uncertified(judge_steps):
    """A reader learns that nobody has compared the judge with people in these steps."""
    steps = judge_steps["sample_ambigbio"]

    assert set(steps) == {"decomposition", "grouping", "linking", "verification"}
    for step in steps.values():
        assert not step["is_certified"]


def test_start_page_counts_certified_steps(site):
    """None of the four steps of judging biographies has a certificate."""
    page = (site / "index.html").read_text()

    assert "0 of 4 steps of the judge certified" in page


def test_page_of_a_model_has_the_command_that_certifies_a_step(site):
    (page_path,) = (site / "models").glob("*.html")

    command = "lm-factuality certify --judge lexical --setting biographies_grouping"
    assert f"not certified; run {command}" in page_path.read_text()


def drop_file(submission: Path, name: str) -> None:
    """Remove a file from a submission and from its list of files."""
    (submission / name).unlink()
    content = json.loads((submission / SUBMISSION_FILE).read_text())
    content["files"] = [file for file in content["files"] if file["path"] != name]
    (submission / SUBMISSION_FILE).write_text(json.dumps(content))


def test_certificate_without_the_judges_answers_is_shown_as_claimed(one_submission, tmp_path):
    """Nobody can compute the certificate again without the answers."""
    drop_file(one_submission / "one", "certificate.answers.jsonl")

    build_site(one_submission, tmp_path / "site")

    page = (tmp_path / "site" / "index.html").read_text()
    scores = {score["task"]: score for score in only_model(tmp_path / "site")["scores"]}
    steps = scores["sample_felm_gen"]["steps"]
    (claimed_step,) = [step for step in steps if step["is_claimed"]]
    assert claimed_step["text"].startswith("claimed: F1 of segments with errors")
    assert not any(step["is_certified"] for step in steps)
    assert "0 of 2 steps of the judge certified, 1 claimed" in page


def test_refused_submissions_are_listed_with_their_codes(site):
    codes_by_folder = {}
    for refused in read_board(site)["refused"]:
        codes_by_folder[refused["folder"]] = [problem["code"] for problem in refused["problems"]]

    assert codes_by_folder == {"broken": ["SUBMISSION_INVALID"], "forged": ["FILE_CHANGED"]}
    assert "FILE_CHANGED" in (site / "refused.html").read_text()


def test_every_link_of_the_site_leads_to_a_file(site):
    """The site is published without a server that could redirect links."""
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"#:]+)"', page.read_text()):
            assert (page.parent / link).is_file(), (page, link)


def test_a_model_s_page_links_to_the_report_of_its_samples(one_submission, tmp_path):
    """The report shows the single answers of the model."""
    site = tmp_path / "site"

    build_site(one_submission, site, reports=True)

    (page,) = (site / "models").glob("*.html")
    (report_link,) = set(re.findall(r'href="([^"]*reports/[^"]*)"', page.read_text()))
    assert (page.parent / report_link).is_file()


def test_a_site_is_not_built_into_a_folder_with_files_of_the_user(submissions, tmp_path):
    """The user may have named the wrong folder."""
    (tmp_path / "diary.txt").write_text("dear diary")

    with pytest.raises(DataError, match=BOARD_FILE):
        build_site(submissions, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_a_folder_without_submissions_gives_no_site(tmp_path):
    """A mistyped folder must not replace a board by an empty one."""
    empty_folder = tmp_path / "empty"
    empty_folder.mkdir()

    with pytest.raises(DataError, match=r"no submission\.json"):
        build_site(empty_folder, tmp_path / "site")

    assert not (tmp_path / "site").exists()


@pytest.fixture
def submission_below_stray_files(honest, tmp_path) -> Path:
    """Return a folder with a submission at ``a/one`` and a ``submission.json`` alone above it.

    The stray files lie in the folder itself and in ``a``.
    """
    folder = tmp_path / "submissions"
    shutil.copytree(honest, folder / "a" / "one")
    shutil.copy(honest / "submission.json", folder)
    shutil.copy(honest / "submission.json", folder / "a")
    return folder


def test_each_folder_with_a_submission_file_is_found(submission_below_stray_files):
    """The search goes on below a submission, where other submissions may be."""
    folders = find_submissions(submission_below_stray_files)

    assert folders == [
        submission_below_stray_files,
        submission_below_stray_files / "a",
        submission_below_stray_files / "a" / "one",
    ]


def test_a_submission_below_a_stray_submission_file_is_on_the_board(
    submission_below_stray_files, tmp_path
):
    """One participant's stray file must not take another's submission off the board."""
    board = build_site(submission_below_stray_files, tmp_path / "site")

    assert len(board.models) == 1
    assert only_model(tmp_path / "site")["folder"] == "a/one"
    assert len(board.refused) == 2  # the two stray files, which have no results


def test_folder_with_an_unprintable_name_is_refused(honest, tmp_path):
    """Such names could change a terminal, a log or a page."""
    folder = tmp_path / "submissions"
    no_utf8 = b"\xff"
    control_characters = b"\x1b[2Jevil\n::error::x"
    for name in (no_utf8, control_characters, b"good"):
        shutil.copytree(os.fsencode(honest), os.fsencode(folder) + b"/" + name)

    board = build_site(folder, tmp_path / "site")

    assert len(board.models) == 1
    assert len(board.refused) == 2
    assert "\\x1b[2Jevil\\n" in (tmp_path / "site" / "refused.html").read_text(encoding="utf-8")


def test_a_report_that_fails_does_not_stop_the_site(one_submission, tmp_path, monkeypatch):
    """A broken row of one participant must not stop the board of all."""

    def fail(*arguments: Any) -> None:
        raise OverflowError

    monkeypatch.setattr(build_module, "build_report", fail)

    board = build_site(one_submission, tmp_path / "site", reports=True)

    assert len(board.models) == 1
    assert not (tmp_path / "site" / "reports").exists()


def test_a_folder_without_rules_is_an_error_of_the_command(submissions, tmp_path):
    """Without rules, every submission would be refused."""
    with pytest.raises(ConfigError, match="no rules of a leaderboard here"):
        build_site(submissions, tmp_path / "site", rules=tmp_path)

    assert not (tmp_path / "site").exists()


def write_rules_of_seven_documents(folder: Path) -> None:
    """Write rules for the sample that no submission fulfils, since the sample has 432 documents."""
    folder.mkdir(parents=True)
    rules = SAMPLE_RULES.read_text().replace("documents: 432", "documents: 7")
    (folder / "sample.yaml").write_text(rules)


def test_rules_in_the_working_folder_are_not_applied(one_submission, tmp_path, monkeypatch):
    """A repository of submissions could otherwise bring weaker rules.

    The rules in the working folder of this test would refuse the submission.
    """
    write_rules_of_seven_documents(tmp_path / "configs" / "leaderboard" / "rules")
    monkeypatch.chdir(tmp_path)

    board = build_site(one_submission, tmp_path / "site")

    assert len(board.models) == 1


def test_rules_named_by_the_user_are_applied(one_submission, tmp_path):
    write_rules_of_seven_documents(tmp_path / "my_rules")

    board = build_site(one_submission, tmp_path / "site", rules=tmp_path / "my_rules")

    assert len(board.models) == 0
    assert len(board.refused) == 1
