"""What the command pack writes and refuses, and what the command check prints."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

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


def leaderboard(*arguments):
    """Return the exit code of a command of ``lm-factuality leaderboard``."""
    return run_command("leaderboard", *map(str, arguments))


@pytest.fixture
def copied_run(sample_run, tmp_path):
    """Return a copy of the results folder, which a test may change."""
    return shutil.copytree(sample_run, tmp_path / "run")


@pytest.fixture
def out(tmp_path):
    """Return the folder for the submissions that a test packs."""
    return tmp_path / "out"


@pytest.fixture
def options(certificate):
    """Return the options of a pack that succeeds."""
    return PackOptions(MODEL, certificate=certificate)


def change_results(run, change):
    """Change the results file of a run by a function that takes its content."""
    (path,) = run.rglob("results_*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_files_are_packed_as_lm_eval_wrote_them(honest, sample_run):
    """Anyone can compare a submission with the run byte by byte."""
    # lm_eval puts the date into the name of a file, such as results_2026-01-02T03-04-05.json.
    results_paths = sample_run.rglob("results_2*.json")
    samples_paths = sample_run.rglob("samples_*_2*.jsonl")
    written_paths = {path.name: path for path in (*results_paths, *samples_paths)}

    packed_names = {path.name for path in honest.iterdir()}
    certificate_names = {"certificate.json", "certificate.answers.jsonl"}
    assert packed_names == {SUBMISSION_FILE, *certificate_names, *written_paths}
    for name, path in written_paths.items():
        assert (honest / name).read_bytes() == path.read_bytes()


def test_a_submission_names_its_leaderboard_and_model(honest):
    """A local model has no commit, so the hash of its weights is its revision."""
    submission = read_submission(honest)

    assert submission.leaderboard == "sample"
    assert submission.model.name == "example/smaller"
    assert submission.model.revision == weights_hash(TASKS / "sample" / "models" / "smaller")
    assert submission.model.dtype == "float32"
    assert submission.certificate == "certificate.json"


def test_a_submission_lies_in_a_folder_of_its_model_and_leaderboard(honest):
    """So pull requests of two participants add different folders."""
    leaderboard_folder = honest.parent
    model_folder = leaderboard_folder.parent

    assert model_folder.name == "example__smaller"
    assert leaderboard_folder.name == "sample"


def test_a_submission_lists_its_files_with_their_hashes(honest):
    """A file that is changed later does not have its hash any more."""
    listed_hashes = {entry.path: entry.sha256 for entry in read_submission(honest).files}

    assert listed_hashes == {
        path.name: sha256_of(path) for path in honest.iterdir() if path.name != SUBMISSION_FILE
    }


def test_a_run_is_not_packed_a_second_time(sample_run, options, honest):
    """A submission that was published must not be replaced."""
    with pytest.raises(DataError, match="is there already"):
        pack([sample_run], options, honest.parents[2])


def test_a_secret_is_refused_and_not_shown(copied_run, options, out):
    """A submission is public, and so may be the log of the command."""
    change_results(copied_run, lambda content: content["config"]["model_args"].update(token=TOKEN))

    with pytest.raises(DataError, match="SECRET") as error:
        pack([copied_run], options, out)

    assert "config.model_args.token" in str(error.value)
    assert TOKEN not in str(error.value)
    assert not out.exists(), "folders are left"


def test_the_value_of_a_key_in_the_environment_is_refused(copied_run, options, out, monkeypatch):
    """The value does not look like a key, but it is that of a variable called ``..._API_KEY``."""
    monkeypatch.setenv("SOMEBODYS_API_KEY", "correct-horse-battery")
    (samples_path,) = copied_run.rglob("samples_sample_felm_gen_*.jsonl")
    text = samples_path.read_text(encoding="utf-8")
    samples_path.write_text(text.replace("reason", "correct-horse-battery", 1), encoding="utf-8")

    with pytest.raises(DataError, match="SOMEBODYS_API_KEY") as error:
        pack([copied_run], options, out)

    assert "correct-horse" not in str(error.value)


def test_refused_submission_is_not_packed(copied_run, options, out):
    """A user learns of the problem before the submission is sent."""
    change_results(
        copied_run,
        lambda content: content["results"]["sample_factor"].update({"factor_acc,none": 1.0}),
    )

    with pytest.raises(
        DataError,
        match=r"SCORE_CHANGED sample_factor: factor_acc: the results say 1, the samples give",
    ):
        pack([copied_run], options, out)

    assert not out.exists(), "folders are left"


@pytest.mark.parametrize(
    ("wrong_options", "message"),
    [
        ({"model": "smaller"}, "expected ORG/NAME"),
        ({"model": "../../x"}, "expected ORG/NAME"),
        ({"revision": "main"}, "leave --revision out"),
    ],
)
def test_wrong_options_are_refused(wrong_options, message, sample_run, out):
    """A model is named as on the Hub. Local weights are identified by a hash, not by a branch."""
    with pytest.raises((ConfigError, DataError), match=re.escape(message)):
        pack([sample_run], PackOptions(**{"model": MODEL, **wrong_options}), out)


def test_a_run_without_weights_is_refused_without_a_revision(copied_run, options, out):
    """Nobody could tell which weights the name of the model stands for."""
    change_results(copied_run, lambda content: content.update(model_name="gone/model"))

    with pytest.raises(ConfigError, match="--revision is missing"):
        pack([copied_run], options, out)


def test_a_run_without_weights_is_packed_with_a_revision(copied_run, certificate, out):
    """The weights of the run are not on this machine, so the user names their commit on the Hub."""
    change_results(copied_run, lambda content: content.update(model_name="gone/model"))
    options = PackOptions(
        "example/smaller", revision="ab" * 20, dtype="torch.float32", certificate=certificate
    )

    folder = pack([copied_run], options, out)

    assert read_submission(folder).model.revision == "ab" * 20


def test_a_run_without_samples_is_refused(copied_run, out):
    """The scores could not be checked without samples."""
    next(copied_run.rglob("samples_sample_factor_*.jsonl")).unlink()

    with pytest.raises(
        DataError,
        match="sample_factor: its samples are not beside its results; run it with --log_samples",
    ):
        pack([copied_run], PackOptions(MODEL), out)


def test_the_command_packs_a_run_and_says_that_its_scores_were_checked(
    sample_run, certificate, out, capsys
):
    """A user learns before sending the submission that the check will accept it."""
    options = ["--model", MODEL, "--certificate", certificate, "--out", out]

    exit_code = leaderboard("pack", sample_run, *options)

    assert exit_code == 0
    assert "every score follows from its samples" in capsys.readouterr().out
    assert len(find_submissions(out)) == 1


def test_the_command_accepts_a_packed_submission(honest, capsys):
    exit_code = leaderboard("check", honest)

    message = ": accepted; certificate.json follows from its answers\n"
    assert exit_code == 0
    assert capsys.readouterr().out.endswith(message)


def test_the_command_refuses_changed_samples(honest, tmp_path, capsys):
    """An added line break is a change, although no score differs."""
    folder = shutil.copytree(honest, tmp_path / "submission")
    (samples_path,) = folder.rglob("samples_sample_factor_2*.jsonl")
    samples_path.write_bytes(samples_path.read_bytes() + b"\n")

    exit_code = leaderboard("check", folder)

    assert exit_code == 1
    assert "SAMPLES_CHANGED" in capsys.readouterr().out


def test_a_folder_without_submissions_is_refused(tmp_path):
    """A check of no submission would look like a success."""
    with pytest.raises(DataError, match="no submission.json here or below"):
        leaderboard("check", tmp_path)


def write_run_of(folder, *tasks, date="2026-01-02T03-04-05.000001"):
    """Write results of tasks of these names, whatever their benchmark, and return the file."""
    return write_results(folder, dict.fromkeys(tasks, factor_task([True, False])), date=date)


@pytest.mark.parametrize(
    ("tasks", "closest", "missing"),
    [
        (("sample_factor",), "sample", "sample_ambigbio, sample_felm_gen"),
        (("wiki_factor", "news_factor"), "factor", "expert_factor, expert_factor_clean"),
        (("felm_gen_x", "sample_factor", "sample_felm_gen"), "sample", "sample_ambigbio"),
    ],
)
def test_a_run_of_too_few_tasks_is_refused_with_the_closest_leaderboard(
    tasks, closest, missing, tmp_path, out
):
    """The closest leaderboard is the one that lacks the fewest tasks."""
    write_run_of(tmp_path / "run", *tasks)

    with pytest.raises(ConfigError, match=f"closest is {closest}, for which there is no {missing}"):
        pack([tmp_path / "run"], PackOptions(MODEL), out)


def test_run_of_too_many_tasks_is_refused_with_a_command(tmp_path, out):
    """A file is packed as it is, so a task that the leaderboard does not have cannot be removed."""
    tasks = ("wiki_factor", "news_factor", "expert_factor", "expert_factor_clean")
    write_run_of(tmp_path / "run", *tasks, "hellaswag")
    # lm_eval lists a group among the results, and a group is no further task.
    group = {"factor": {"sample_len": 2}}
    change_results(tmp_path / "run", lambda content: content["results"].update(group))

    message = r"TASKS_EXTRA hellaswag: is not of this leaderboard"
    with pytest.raises(DataError, match=message) as error:
        pack([tmp_path / "run"], PackOptions(MODEL, revision="a" * 40), out)

    assert "run: lm-factuality run --config configs/leaderboard/factor.yaml" in str(error.value)


def test_complete_file_is_preferred_to_a_newer_partial_file(tmp_path):
    """A file is packed as it is, so one of its tasks cannot be replaced by a newer result."""
    rules = read_rules("factor")
    whole = write_run_of(tmp_path / "whole", *rules.by_task)
    write_run_of(tmp_path / "newer", "wiki_factor", date="2026-01-03T03-04-05.000001")

    files_by_task = _choose_files(rules, read_results_files([tmp_path]))

    assert {file.path for file in files_by_task.values()} == {whole}


def test_newer_results_without_samples_are_not_packed(tmp_path):
    """The scores of a run without samples cannot be checked, so the older run is packed."""
    rules = read_rules("factor")
    whole = write_run_of(tmp_path / "whole", *rules.by_task)
    write_run_of(tmp_path / "newer", *rules.by_task, date="2026-01-03T03-04-05.000001")
    for samples_path in (tmp_path / "newer").glob("samples_*"):
        samples_path.unlink()

    files_by_task = _choose_files(rules, read_results_files([tmp_path]))

    assert {file.path for file in files_by_task.values()} == {whole}


def test_control_characters_in_names_are_printed_as_text(honest, tmp_path, capsys):
    """A name could clear a terminal, or give commands to GitHub's workflow in its log."""
    folder = shutil.copytree(honest, tmp_path / "\x1b[2Jevil")
    (folder / "\x1b]0;x\x07\n::error::y").write_text("")

    exit_code = leaderboard("check", tmp_path)

    output = capsys.readouterr().out
    assert exit_code == 1
    for line in output.splitlines():
        assert line.isprintable()
    assert r"\x1b[2Jevil: FILE_EXTRA \x1b]0;x\x07\n::error::y: is not listed" in output


def test_crashing_submission_does_not_hide_other_submissions(honest, tmp_path, capsys, monkeypatch):
    """An error in the submission of one participant must not stop the board of all."""

    def read_unless_broken(folder, submission, rules):
        if folder.name == "broken":
            raise OverflowError("x")
        return read_evidence(folder, submission, rules)

    monkeypatch.setattr(check, "read_evidence", read_unless_broken)
    shutil.copytree(honest, tmp_path / "broken")
    shutil.copytree(honest, tmp_path / "honest")

    exit_code = leaderboard("check", tmp_path)

    output = capsys.readouterr().out
    assert exit_code == 1
    assert "RESULTS_INVALID results: not as lm_eval writes it: OverflowError" in output
    assert f"{tmp_path / 'honest'}: accepted" in output


def test_an_empty_folder_in_a_submission_is_refused(honest, tmp_path, capsys):
    """Git does not store empty folders, so the submission would differ after a clone."""
    shutil.copytree(honest, tmp_path / "one")
    (tmp_path / "one" / "empty").mkdir()

    exit_code = leaderboard("check", tmp_path)

    assert exit_code == 1
    assert "one: FILE_EXTRA empty: is not listed" in capsys.readouterr().out


def test_a_link_to_a_submission_is_refused(honest, tmp_path, capsys):
    """One submission would appear under two names."""
    (tmp_path / "two").symlink_to(honest)

    exit_code = leaderboard("check", tmp_path)

    assert exit_code == 1
    assert "two: PATH_ESCAPES two: is a link" in capsys.readouterr().out


@pytest.fixture
def custom_rules(tmp_path):
    """Return a folder with the rules of the sample's leaderboard under another name."""
    folder = tmp_path / "rules"
    folder.mkdir()
    text = (REPOSITORY / "configs" / "leaderboard" / "rules" / "sample.yaml").read_text()
    (folder / "tiny.yaml").write_text(text.replace("title: Sample", "title: Tiny"))
    return folder


@pytest.fixture
def custom_submission(custom_rules, sample_run, options, out):
    """Return a submission by the custom rules."""
    return pack([sample_run], replace(options, rules=custom_rules), out)


def test_the_command_packs_by_custom_rules(custom_rules, sample_run, certificate, out, capsys):
    """The output shows by which rules the run was checked, so that nobody takes them for the suite's."""
    options = ["--model", MODEL, "--certificate", certificate, "--out", out]

    exit_code = leaderboard("pack", sample_run, *options, "--rules", custom_rules)

    assert exit_code == 0
    assert f"by the rules in {custom_rules}" in capsys.readouterr().out


def test_the_command_checks_by_custom_rules(custom_rules, custom_submission, capsys):
    """People who run another leaderboard can use the same command."""
    exit_code = leaderboard("check", custom_submission, "--rules", custom_rules)

    assert exit_code == 0
    assert f": accepted, by the rules in {custom_rules}" in capsys.readouterr().out


def test_a_submission_by_custom_rules_is_refused_without_them(custom_submission, capsys):
    """The custom rules are of a leaderboard called "tiny", which the suite does not have."""
    exit_code = leaderboard("check", custom_submission)

    assert exit_code == 1
    assert "LEADERBOARD_UNKNOWN" in capsys.readouterr().out


def test_a_folder_without_rules_is_refused(honest, tmp_path):
    """A folder of rules has a file ``NAME.yaml`` for each leaderboard."""
    with pytest.raises(ConfigError, match=r"no rules of a leaderboard here; expected NAME\.yaml"):
        leaderboard("check", honest, "--rules", tmp_path)


PACK_AND_DIE = """
import os, signal, sys
from pathlib import Path
from lm_factuality.leaderboard import pack as module

module.check_submission = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
run, certificate, out = map(Path, sys.argv[1:])
module.pack([run], module.PackOptions("example/smaller", certificate=certificate), out)
"""


@pytest.fixture
def unfinished_file(sample_run, certificate, out):
    """Kill a pack before the check, and return the submission.json that it leaves."""
    command = [sys.executable, "-c", PACK_AND_DIE, str(sample_run), str(certificate), str(out)]
    process = subprocess.run(command, capture_output=True, cwd=REPOSITORY, check=False)
    assert process.returncode == -signal.SIGKILL
    (path,) = out.rglob("submission.json")
    return path


def test_killed_pack_leaves_no_submission(unfinished_file, out):
    """An incomplete submission must not be published."""
    with pytest.raises(DataError, match=r"no submission\.json here"):
        find_submissions(out)


def test_next_pack_removes_leftovers_of_a_killed_pack(unfinished_file, sample_run, options, out):
    """Otherwise incomplete submissions would gather in the folder that is published."""
    folder = pack([sample_run], options, out)

    assert find_submissions(out) == [folder]
    assert not unfinished_file.exists()
