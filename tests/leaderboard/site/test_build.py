"""The site of real submissions: the sample's, as ``pack`` makes it, and forged copies."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.leaderboard.check import find_submissions
from lm_factuality.leaderboard.site import build as building
from lm_factuality.leaderboard.site.build import BOARD_FILE, build_site
from tests.conftest import REPOSITORY

CONFIGS = REPOSITORY / "configs"


@pytest.fixture(scope="module")
def submissions(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest one, one with a changed score, and one that is no JSON."""
    folder = tmp_path_factory.mktemp("submissions")
    shutil.copytree(honest, folder / "honest")
    shutil.copytree(honest, folder / "forged")
    (results,) = (folder / "forged").glob("results_*.json")
    content = json.loads(results.read_text())
    content["results"]["sample_factor"]["factor_acc,none"] = 0.99
    results.write_text(json.dumps(content))
    (folder / "broken").mkdir()
    (folder / "broken" / "submission.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def built(submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "site"
    build_site(submissions, out)
    return out


def read(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / BOARD_FILE).read_text())
    return content


def test_the_honest_one_is_ranked_with_the_scores_of_its_results(built: Path, honest: Path) -> None:
    (table,) = read(built)["leaderboards"]
    (model,) = table["models"]
    (results,) = honest.glob("results_*.json")
    said = json.loads(results.read_text())["results"]
    assert model["folder"] == "honest"
    assert {each["task"]: each["value"] for each in model["scores"]} == {
        "sample_factor": said["sample_factor"]["factor_acc,none"],
        "sample_felm_gen": said["sample_felm_gen"]["segment_error_rate,judge"],
        "sample_ambigbio": said["sample_ambigbio"]["d_factscore,judge"],
    }
    assert {each["rank"] for each in model["scores"]} <= {1, None}


def test_what_is_known_of_the_judge_is_said_of_each_score(built: Path) -> None:
    (table,) = read(built)["leaderboards"]
    (model,) = table["models"]
    steps = {
        each["task"]: {step["step"].partition(" (")[0]: step for step in each["steps"]}
        for each in model["scores"]
    }
    assert steps["sample_factor"] == {}
    assert {name for name, each in steps["sample_felm_gen"].items() if each["is_certified"]} == {
        "marking segments"
    }
    assert re.match(
        r"F1 of segments with errors [\d.]+% \[[\d.]+%, [\d.]+%\] \(segment_doc, ",
        steps["sample_felm_gen"]["marking segments"]["text"],
    )  # the packed one
    assert set(steps["sample_ambigbio"]) == {"decomposition", "grouping", "linking", "verification"}
    assert not any(each["is_certified"] for each in steps["sample_ambigbio"].values())
    assert "0 of 4 steps of the judge certified" in (built / "index.html").read_text()
    (page,) = (built / "models").glob("*.html")
    assert (
        "not certified; run lm-factuality certify --judge lexical --setting biographies_grouping"
        in page.read_text()
    )


def test_the_others_are_listed_with_codes(built: Path) -> None:
    refused = {
        each["folder"]: [problem["code"] for problem in each["problems"]]
        for each in read(built)["refused"]
    }
    assert refused == {"broken": ["SUBMISSION_INVALID"], "forged": ["FILE_CHANGED"]}
    assert "FILE_CHANGED" in (built / "refused.html").read_text()


def test_every_link_leads_somewhere(built: Path) -> None:
    import re

    for page in built.rglob("*.html"):  # this one has no reports
        for link in re.findall(r'(?:href|src)="([^"#:]+)"', page.read_text()):
            assert (page.parent / link).is_file(), (page, link)


def test_a_model_leads_to_the_report_of_its_samples(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest, tmp_path / "submissions" / "one")
    build_site(tmp_path / "submissions", tmp_path / "site", reports=True)
    (page,) = (tmp_path / "site" / "models").glob("*.html")
    report = next(
        part.split('"')[0] for part in page.read_text().split('href="') if "reports/" in part
    )
    assert (page.parent / report).is_file()


def test_another_folder_is_left_as_it_is(submissions: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "diary.txt").write_text("dear diary")
    with pytest.raises(DataError, match=BOARD_FILE):
        build_site(submissions, out)
    assert [path.name for path in out.iterdir()] == ["diary.txt"]
    with pytest.raises(DataError, match=r"no submission\.json"):
        build_site(out, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_manifest_around_submissions_does_not_hide_them(honest: Path, tmp_path: Path) -> None:
    folder = tmp_path / "submissions"
    shutil.copytree(honest, folder / "a" / "one")
    for above in (folder, folder / "a"):
        shutil.copy(honest / "submission.json", above)
    assert find_submissions(folder) == [folder, folder / "a", folder / "a" / "one"]
    built = build_site(folder, tmp_path / "site")
    assert (len(built.models), len(built.refused)) == (1, 2)
    assert read(tmp_path / "site")["leaderboards"][0]["models"][0]["folder"] == "a/one"


def test_a_folder_whose_name_cannot_be_shown(honest: Path, tmp_path: Path) -> None:
    folder = tmp_path / "submissions"
    for name in (b"\xff", b"\x1b[2Jevil\n::error::x", b"good"):
        shutil.copytree(os.fsencode(honest), os.fsencode(folder) + b"/" + name)
    built = build_site(folder, tmp_path / "site")
    assert (len(built.models), len(built.refused)) == (1, 2)
    assert "\\x1b[2Jevil\\n" in (tmp_path / "site" / "refused.html").read_text(encoding="utf-8")


def test_samples_without_a_report_cost_only_the_report(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> None:
        raise OverflowError

    monkeypatch.setattr(building, "build_report", broken)
    shutil.copytree(honest, tmp_path / "submissions" / "one")
    built = build_site(tmp_path / "submissions", tmp_path / "site", reports=True)
    assert len(built.models) == 1
    assert not (tmp_path / "site" / "reports").exists()


def test_a_folder_without_rules_refuses_nobody(submissions: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rules of a leaderboard here"):
        build_site(submissions, tmp_path / "site", rules=tmp_path)
    assert not (tmp_path / "site").exists()


def test_rules_of_the_working_folder_are_not_the_suites(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only ``--rules`` takes others."""
    rules = tmp_path / "configs" / "leaderboard" / "rules"
    rules.mkdir(parents=True)
    own = (CONFIGS / "leaderboard" / "rules" / "sample.yaml").read_text()
    (rules / "sample.yaml").write_text(own.replace("documents: 432", "documents: 7"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(honest, tmp_path / "submissions" / "one")
    assert len(build_site(tmp_path / "submissions", tmp_path / "site").models) == 1
    built = build_site(tmp_path / "submissions", tmp_path / "site", rules=rules)
    assert (len(built.models), len(built.refused)) == (0, 1)
