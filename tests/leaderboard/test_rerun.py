"""A part of a submission run again with the real model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError
from lm_factuality.leaderboard.rerun import RERUN_SUFFIX, _is_same_output, describe_rerun, rerun
from lm_factuality.leaderboard.site.build import BOARD_FILE, build_site
from lm_factuality.leaderboard.site.entries import digest_of
from tests.conftest import REPOSITORY, TASKS
from tests.leaderboard.conftest import Forger
from tests.leaderboard.reseal import read_rows, reseal, write_rows


@pytest.fixture
def submissions(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "submissions" / "own")).parent


def test_an_honest_one_says_the_same_and_the_site_says_so(
    submissions: Path, tmp_path: Path, capsys
) -> None:
    own = submissions / "own"
    before = digest_of(own)
    assert main(["leaderboard", "rerun", str(own), "--rows", "3", "--seed", "7"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "sample_factor 3 3 same log-probabilities, within 0.1%" in said
    assert "sample_felm_gen 3 3 same texts" in said
    written = json.loads((submissions / f"own{RERUN_SUFFIX}").read_text(encoding="utf-8"))
    assert written["submission"] == digest_of(own) == before
    outcomes = {name: outcome for name, _, _, outcome, _ in written["tasks"]}
    assert outcomes["sample_ambigbio"] in ("sampled", "same")  # drawn at random
    build_site(submissions, tmp_path / "site")
    (model,) = json.loads((tmp_path / "site" / BOARD_FILE).read_text(encoding="utf-8"))[
        "leaderboards"
    ][0]["models"]
    assert model["rerun"].endswith(describe_rerun(own, before)[10:])
    assert "sample_factor same (3 of 3)" in model["rerun"]
    assert "Run again on" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    # Of other files it says nothing.
    (own / "notes.txt").write_text("x", encoding="utf-8")
    assert describe_rerun(own, digest_of(own)) == ""


def test_invented_log_probabilities_differ(submissions: Path, capsys) -> None:
    """What no check of files can see."""
    forger = Forger(submissions / "own")
    path = forger.samples("sample_factor")
    rows = read_rows(path)
    for row in rows:
        said, gold = row["filtered_resps"], row["doc"]["gold"]
        said[gold] = ["-1.5", *said[gold][1:]]
        row["resps"] = [[each] for each in said]
    write_rows(path, rows)
    reseal(forger.folder)
    folder = str(TASKS / "sample" / "models" / "smaller")
    assert (
        main(
            [
                "leaderboard",
                "rerun",
                str(forger.folder),
                "--rows",
                "2",
                "--model_args",
                f"pretrained={folder}",
            ]
        )
        == 1
    )
    assert "sample_factor 2 0 differs" in " ".join(capsys.readouterr().out.split())
    assert "sample_factor differs (0 of 2)" in describe_rerun(
        forger.folder, digest_of(forger.folder)
    )


def test_rules_of_ones_own(submissions: Path, tmp_path: Path, capsys) -> None:
    """They have the run config beside their folder, as the suite's do; without it nothing is
    run."""
    own, folder = submissions / "own", Path("configs/leaderboard")
    leaderboard = json.loads((own / "submission.json").read_text(encoding="utf-8"))["leaderboard"]
    rules = Path(shutil.copytree(REPOSITORY / folder / "rules", tmp_path / "rules"))
    with pytest.raises(
        ConfigError,
        match=f"{leaderboard}.yaml: no such file; expected the leaderboard's run config",
    ):
        rerun(own, 1, rules=rules)
    shutil.copy(REPOSITORY / folder / f"{leaderboard}.yaml", tmp_path)
    assert main(["leaderboard", "rerun", str(own), "--rows", "1", "--rules", str(rules)]) == 0
    (rules / f"{leaderboard}.yaml").unlink()
    assert main(["leaderboard", "rerun", str(own), "--rules", str(rules)]) == 1
    assert f"no leaderboard is called '{leaderboard}'" in capsys.readouterr().err


def test_what_is_not_accepted_is_not_run(submissions: Path) -> None:
    with pytest.raises(ConfigError, match="--rows is 0"):
        rerun(submissions / "own", 0)
    (submissions / "own" / "more.txt").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="FILE_EXTRA"):
        rerun(submissions / "own", 2)
    assert describe_rerun(submissions / "own", "") == ""
    (submissions / f"own{RERUN_SUFFIX}").write_text('{"submission": 1}', encoding="utf-8")
    assert describe_rerun(submissions / "own", "1") == ""


@pytest.mark.parametrize(
    ("one", "other", "share", "same"),
    [
        ("-30.01", "-30.02", 1e-3, True),
        ("-30.01", "-31.02", 1e-3, False),
        ("-30.01", "-31.02", 5e-2, True),
        ("12", "13", 5e-2, False),
        ("True", "False", 1e-3, True),
        ("None", "-3.5", 1e-3, False),
        ("a", "a", None, True),
        ("a", "b", None, False),
        ("True", "False", None, False),
    ],
)
def test_same_but_for_rounding(one: str, other: str, share: float | None, same: bool) -> None:
    assert _is_same_output(one, other, share) is same
