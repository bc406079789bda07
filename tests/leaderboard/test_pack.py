"""What pack writes, and what it refuses to write."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.leaderboard import check
from lm_factuality.leaderboard.check import find_submissions
from lm_factuality.leaderboard.evidence import read_evidence
from lm_factuality.leaderboard.pack import PackOptions, _choose_files, pack, weights_hash
from lm_factuality.leaderboard.rules import read_rules
from lm_factuality.leaderboard.submission import SUBMISSION_FILE, read_submission
from lm_factuality.results.read import read_results_files
from tests.conftest import REPOSITORY, TASKS, run_command
from tests.leaderboard.conftest import MODEL
from tests.report.results import factor_task, write_results

TOKEN = "hf_" + "a1B2" * 9


def run(*arguments):
    return run_command("leaderboard", *arguments)


@pytest.fixture
def copied_run(sample_run, tmp_path):
    return shutil.copytree(sample_run, tmp_path / "run")


def test_files_are_as_lm_eval_wrote_them(honest, sample_run):
    written = {
        path.name: path
        for path in sample_run.rglob("*_2*.json*")
        if path.parent.name != "generations"
    }
    names = {path.name for path in honest.iterdir()}
    assert names == {SUBMISSION_FILE, "certificate.json", *written}
    for name, path in written.items():
        assert (honest / name).read_bytes() == path.read_bytes()


def test_a_submission_says_what_was_run(honest):
    found = read_submission(honest)
    assert found.leaderboard == "sample"
    assert found.model.name == MODEL
    assert found.model.revision == weights_hash(TASKS / "sample" / "models" / "smaller")
    assert found.model.dtype == "float32"
    assert found.certificate == "certificate.json"
    assert {each.path: each.sha256 for each in found.files} == {
        path.name: sha256_of(path) for path in honest.iterdir() if path.name != SUBMISSION_FILE
    }
    assert honest.relative_to(honest.parents[2]).parts[:2] == ("example__smaller", "sample")


def test_a_second_time_is_refused(sample_run, certificate, honest):
    with pytest.raises(DataError, match="is there already"):
        pack([sample_run], PackOptions(MODEL, certificate=certificate), honest.parents[2])


def test_a_secret_is_refused_and_not_shown(copied_run, certificate, tmp_path):
    path = next(copied_run.rglob("results_*.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["config"]["model_args"]["token"] = TOKEN
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="SECRET") as error:
        pack([copied_run], PackOptions(MODEL, certificate=certificate), tmp_path / "out")
    assert "config.model_args.token" in str(error.value)
    assert TOKEN not in str(error.value)
    assert not list((tmp_path / "out").rglob("*.json*"))


def test_the_value_of_a_key_in_the_environment_is_refused(
    copied_run, certificate, tmp_path, monkeypatch
):
    monkeypatch.setenv("SOMEBODYS_API_KEY", "correct-horse-battery")
    path = next(copied_run.rglob("samples_sample_felm_gen_*.jsonl"))
    path.write_text(
        path.read_text(encoding="utf-8").replace("reason", "correct-horse-battery", 1),
        encoding="utf-8",
    )
    with pytest.raises(DataError, match="SOMEBODYS_API_KEY") as error:
        pack([copied_run], PackOptions(MODEL, certificate=certificate), tmp_path / "out")
    assert "correct-horse" not in str(error.value)


def test_what_check_refuses_is_not_packed(copied_run, certificate, tmp_path):
    path = next(copied_run.rglob("results_*.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["results"]["sample_factor"]["factor_acc,none"] = 1.0
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        DataError,
        match=r"SCORE_CHANGED sample_factor: factor_acc: the results say 1, the samples give",
    ):
        pack([copied_run], PackOptions(MODEL, certificate=certificate), tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.json*"))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"model": "smaller"}, "expected ORG/NAME"),
        ({"model": "../../x"}, "expected ORG/NAME"),
        ({"revision": "main"}, "leave --revision out"),
    ],
)
def test_what_is_told_must_be_in_order(told, message, sample_run, tmp_path):
    with pytest.raises((ConfigError, DataError), match=re.escape(message)):
        pack([sample_run], PackOptions(**{"model": MODEL, **told}), tmp_path / "out")


def test_results_without_weights_need_a_revision(copied_run, certificate, tmp_path):
    path = next(copied_run.rglob("results_*.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model_name"] = "gone/model"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError, match="--revision is missing"):
        pack([copied_run], PackOptions(MODEL, certificate=certificate), tmp_path / "out")
    folder = pack(
        [copied_run],
        PackOptions(MODEL, certificate=certificate, revision="ab" * 20, dtype="torch.float32"),
        tmp_path / "out",
    )
    assert read_submission(folder).model.revision == "ab" * 20


def test_samples_are_needed(copied_run, tmp_path):
    next(copied_run.rglob("samples_sample_factor_*.jsonl")).unlink()
    with pytest.raises(
        DataError,
        match="sample_factor: its samples are not beside its results; run it with --log_samples",
    ):
        pack([copied_run], PackOptions(MODEL), tmp_path / "out")


def test_the_commands_pack_and_check(sample_run, certificate, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert (
        run(
            "pack",
            str(sample_run),
            "--model",
            MODEL,
            "--out",
            out,
            "--certificate",
            str(certificate),
        )
        == 0
    )
    assert "every score follows from its samples" in capsys.readouterr().out
    assert run("check", out) == 0
    assert capsys.readouterr().out.endswith(": accepted\n")
    samples = next((tmp_path / "out").rglob("samples_sample_factor_*.jsonl"))
    samples.write_bytes(samples.read_bytes() + b"\n")
    assert run("check", out) == 1
    assert "SAMPLES_CHANGED" in capsys.readouterr().out


def test_no_submission_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no submission.json here or below"):
        run("check", str(tmp_path))


def results_of(folder, *tasks, date="2026-01-02T03-04-05.000001", group=None):
    """Results of tasks of these names, of which only the names are right."""
    path = write_results(folder, dict.fromkeys(tasks, factor_task([True, False])), date=date)
    if group:
        content = json.loads(path.read_text())
        content["results"][group] = {"sample_len": 2}
        path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("tasks", "closest", "missing"),
    [
        (("sample_factor",), "sample", "sample_ambigbio, sample_felm_gen"),
        (("wiki_factor", "news_factor"), "factor", "expert_factor, expert_factor_clean"),
        (("felm_gen_x", "sample_factor", "sample_felm_gen"), "sample", "sample_ambigbio"),
    ],
)
def test_the_closest_leaderboard_is_that_of_most_tasks(tasks, closest, missing, tmp_path):
    results_of(tmp_path / "r", *tasks)
    with pytest.raises(ConfigError, match=f"closest is {closest}, for which there is no {missing}"):
        pack([tmp_path / "r"], PackOptions(MODEL), tmp_path / "out")


def test_other_tasks_in_the_file_are_named_with_what_to_run(tmp_path):
    names = ("wiki_factor", "news_factor", "expert_factor", "expert_factor_clean")
    results_of(tmp_path / "r", *names, "hellaswag", group="factor")
    with pytest.raises(
        DataError, match=r"TASKS_EXTRA hellaswag: is not of this leaderboard"
    ) as error:
        pack([tmp_path / "r"], PackOptions(MODEL, revision="a" * 40), tmp_path / "out")
    assert "run: lm-factuality run --config configs/leaderboard/factor.yaml" in str(error.value)


def test_a_whole_file_is_taken_before_newer_parts(tmp_path):
    """A file is packed as it is, so parts of it cannot be replaced by those of a newer one."""
    rules = read_rules("factor")
    whole = results_of(tmp_path / "r", *rules.by_task)
    results_of(tmp_path / "r" / "newer", "wiki_factor", date="2026-01-03T03-04-05.000001")
    chosen = _choose_files(rules, read_results_files([tmp_path / "r"]))
    assert {file.path for file in chosen.values()} == {whole}


def test_newer_results_without_samples_do_not_count(tmp_path):
    rules = read_rules("factor")
    whole = results_of(tmp_path / "r", *rules.by_task)
    newer = results_of(tmp_path / "n", *rules.by_task, date="2026-01-03T03-04-05.000001")
    for samples in newer.parent.glob("samples_*"):
        samples.unlink()
    chosen = _choose_files(rules, read_results_files([tmp_path]))
    assert {file.path for file in chosen.values()} == {whole}


def test_a_name_that_would_act_on_a_terminal_is_printed_as_text(honest, tmp_path, capsys):
    folder = tmp_path / "\x1b[2Jevil"
    shutil.copytree(honest, folder)
    (folder / "\x1b]0;x\x07\n::error::y").write_text("")
    assert run("check", str(tmp_path)) == 1
    printed = capsys.readouterr().out
    assert printed.isprintable() or all(line.isprintable() for line in printed.splitlines())
    assert r"\x1b[2Jevil: FILE_EXTRA \x1b]0;x\x07\n::error::y: is not listed" in printed


def test_one_that_breaks_the_check_does_not_hide_the_others(honest, tmp_path, capsys, monkeypatch):
    def broken(folder, submission, rules):
        if folder.name == "broken":
            raise OverflowError("x")
        return read_evidence(folder, submission, rules)

    monkeypatch.setattr(check, "read_evidence", broken)
    for name in ("broken", "honest"):
        shutil.copytree(honest, tmp_path / name)
    assert run("check", str(tmp_path)) == 1
    printed = capsys.readouterr().out
    assert "RESULTS_INVALID results: not as lm_eval writes it: OverflowError" in printed
    assert f"{tmp_path / 'honest'}: accepted" in printed


def test_empty_and_linked_folders_are_refused(honest, tmp_path, capsys):
    shutil.copytree(honest, tmp_path / "one")
    (tmp_path / "one" / "empty").mkdir()
    (tmp_path / "two").symlink_to(honest)
    assert run("check", str(tmp_path)) == 1
    printed = capsys.readouterr().out
    assert "one: FILE_EXTRA empty: is not listed" in printed
    assert "two: PATH_ESCAPES two: is a link" in printed


def test_rules_of_ones_own_are_used_and_said(honest, sample_run, certificate, tmp_path, capsys):
    rules = tmp_path / "rules"
    rules.mkdir()
    own = (REPOSITORY / "configs" / "leaderboard" / "rules" / "sample.yaml").read_text()
    (rules / "tiny.yaml").write_text(own.replace("title: Sample", "title: Tiny"))
    arguments = ["--model", MODEL, "--certificate", str(certificate), "--rules", str(rules)]
    assert run("pack", str(sample_run), "--out", str(tmp_path / "out"), *arguments) == 0
    assert f"by the rules in {rules}" in capsys.readouterr().out
    assert run("check", str(tmp_path / "out"), "--rules", str(rules)) == 0
    assert f": accepted, by the rules in {rules}" in capsys.readouterr().out
    assert run("check", str(tmp_path / "out")) == 1
    assert "LEADERBOARD_UNKNOWN" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"no rules of a leaderboard here; expected NAME\.yaml"):
        run("check", str(tmp_path / "out"), "--rules", str(tmp_path))


_KILLED = """
import os, signal, sys
from pathlib import Path
from lm_factuality.leaderboard import pack as module
module.check_submission = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
module.pack([Path(sys.argv[1])], module.PackOptions("example/smaller", certificate=Path(sys.argv[2])), Path(sys.argv[3]))
"""


def test_a_pack_that_was_killed_is_no_submission_and_the_next_one_clears_it(
    sample_run, certificate, tmp_path
):
    command = [sys.executable, "-c", _KILLED, str(sample_run), str(certificate), str(tmp_path)]
    assert (
        subprocess.run(command, capture_output=True, cwd=REPOSITORY, check=False).returncode
        == -signal.SIGKILL
    )
    (left,) = tmp_path.rglob("submission.json")
    with pytest.raises(DataError, match=r"no submission\.json here"):
        find_submissions(tmp_path)
    folder = pack([sample_run], PackOptions("example/smaller", certificate=certificate), tmp_path)
    assert find_submissions(tmp_path) == [folder]
    assert not left.exists()
