"""What pack writes, and what it refuses to write."""

from __future__ import annotations

import argparse
import json
import re
import shutil

import pytest

from lm_factuality.cli import leaderboard as command
from lm_factuality.errors import ConfigError, DataError
from lm_factuality.leaderboard import Told, pack, read_submission
from lm_factuality.leaderboard.pack import weights_hash
from lm_factuality.leaderboard.submission import FILE, sha256_of
from tests.conftest import TASKS
from tests.leaderboard.conftest import MODEL

TOKEN = "hf_" + "a1B2" * 9


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.options(parser)
    return command.leaderboard(parser.parse_args(arguments))


@pytest.fixture
def copied_run(sample_run, tmp_path):
    return shutil.copytree(sample_run, tmp_path / "run")


def test_files_are_as_lm_eval_wrote_them(honest, sample_run):
    written = {path.name: path for path in sample_run.rglob("*_2*.json*") if path.parent.name != "generations"}
    names = {path.name for path in honest.iterdir()}
    assert names == {FILE, "certificate.json", *written}
    for name, path in written.items():
        assert (honest / name).read_bytes() == path.read_bytes()


def test_a_submission_says_what_was_run(honest):
    found = read_submission(honest)
    assert found.leaderboard == "sample"
    assert found.model.name == MODEL
    assert found.model.revision == weights_hash(TASKS / "sample" / "models" / "smaller")
    assert (found.model.dtype, found.model.backend, found.model.num_parameters) == ("float32", "hf", 231168)
    assert [each.task for each in found.tasks] == ["sample_factor", "sample_felm_gen", "sample_ambigbio"]
    factor, felm_gen, _ = found.tasks
    assert factor.settings["window"] == 1024
    assert factor.data["git_blob"] == "081263ca5771eb9e85ac63c76cf614191221ff3c"
    assert factor.judge is None
    assert set(felm_gen.judge["prompt_hashes"]) == {"felm_gen/segment", "felm_gen/mark_segments"}
    assert found.certificate.content["setting"] == "segment_doc"
    assert {each.path: each.sha256 for each in found.files} == {
        path.name: sha256_of(path) for path in honest.iterdir() if path.name != FILE
    }
    assert honest.relative_to(honest.parents[2]).parts[:2] == ("example__smaller", "sample")


def test_a_second_time_is_refused(sample_run, certificate, honest):
    with pytest.raises(DataError, match="is there already"):
        pack([sample_run], Told(MODEL, certificate=certificate), honest.parents[2])


def test_a_secret_is_refused_and_not_shown(copied_run, certificate, tmp_path):
    path = next(copied_run.rglob("results_*.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["config"]["model_args"]["token"] = TOKEN
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="SECRET") as error:
        pack([copied_run], Told(MODEL, certificate=certificate), tmp_path / "out")
    assert "config.model_args.token" in str(error.value)
    assert TOKEN not in str(error.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_value_of_a_key_in_the_environment_is_refused(copied_run, certificate, tmp_path, monkeypatch):
    monkeypatch.setenv("SOMEBODYS_API_KEY", "correct-horse-battery")
    path = next(copied_run.rglob("samples_sample_felm_gen_*.jsonl"))
    path.write_text(path.read_text(encoding="utf-8").replace("Answer", "correct-horse-battery", 1), encoding="utf-8")
    with pytest.raises(DataError, match="SOMEBODYS_API_KEY") as error:
        pack([copied_run], Told(MODEL, certificate=certificate), tmp_path / "out")
    assert "correct-horse" not in str(error.value)


def test_what_check_refuses_is_not_packed(copied_run, certificate, tmp_path):
    path = next(copied_run.rglob("results_*.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["results"]["sample_factor"]["factor_acc,none"] = 1.0
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        DataError, match=r"SCORE_CHANGED sample_factor: factor_acc: the results say 1, the samples give"
    ):
        pack([copied_run], Told(MODEL, certificate=certificate), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"model": "smaller"}, "expected ORG/NAME"),
        ({"model": "../../x"}, "expected ORG/NAME"),
        ({"leaderboard": "smaple"}, "did you mean sample"),
        ({"revision": "main"}, "leave --revision out"),
        ({"leaderboard": "factor"}, "wiki_factor: not in the results"),
    ],
)
def test_what_is_told_must_be_in_order(told, message, sample_run, tmp_path):
    with pytest.raises((ConfigError, DataError), match=re.escape(message)):
        pack([sample_run], Told(**{"model": MODEL, **told}), tmp_path / "out")


def test_results_without_weights_need_a_revision(copied_run, certificate, tmp_path):
    path = next(copied_run.rglob("results_*.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model_name"] = "gone/model"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError, match="does not say which weights were run"):
        pack([copied_run], Told(MODEL, certificate=certificate), tmp_path / "out")
    folder = pack([copied_run], Told(MODEL, certificate=certificate, revision="ab" * 20), tmp_path / "out")
    assert read_submission(folder).model.revision == "ab" * 20


def test_samples_are_needed(copied_run, tmp_path):
    next(copied_run.rglob("samples_sample_factor_*.jsonl")).unlink()
    with pytest.raises(DataError, match="sample_factor: .* has no samples beside it; run it again with --log_samples"):
        pack([copied_run], Told(MODEL, leaderboard="sample"), tmp_path / "out")


def test_the_commands_pack_and_check(sample_run, certificate, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert run("pack", str(sample_run), "--model", MODEL, "--out", out, "--certificate", str(certificate)) == 0
    assert "every score follows from its samples" in capsys.readouterr().out
    assert run("check", out) == 0
    assert capsys.readouterr().out.endswith(": accepted\n")
    samples = next((tmp_path / "out").rglob("samples_sample_factor_*.jsonl"))
    samples.write_bytes(samples.read_bytes() + b"\n")
    assert run("check", out) == 1
    assert "SAMPLES_CHANGED" in capsys.readouterr().out
    assert run("check", out, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["accepted"] is False
    assert [each["code"] for each in found["submissions"][0]["refusals"]] == ["SAMPLES_CHANGED"]


def test_no_submission_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no submission.json here or below"):
        run("check", str(tmp_path))
