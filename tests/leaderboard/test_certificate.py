"""A packed certificate is computed again from the judge's answers, or shown as claimed."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from bench.attack.replies import ReplyingServer
from lm_factuality.cli import main
from lm_factuality.leaderboard.certificate import recompute_certificate
from lm_factuality.leaderboard.check import check_submission
from tests.judges.server import Act


@pytest.fixture
def copied(certificate, tmp_path):
    """Copy the certificate of the offline judge on the sample, with its answers."""
    folder = shutil.copytree(certificate.parent, tmp_path / "copied")
    return folder / certificate.name


@pytest.fixture
def answers(copied):
    """Return the file with the judge's answers beside the copied certificate."""
    return copied.with_name("certificate.answers.jsonl")


def read(path):
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def test_certificate_follows_from_the_accompanying_answers(copied):
    """Anyone can compute it again without asking the judge."""
    problem, claim = recompute_certificate(copied, read(copied))

    assert problem == ""
    assert claim == ""


@pytest.fixture
def unreliable_server(monkeypatch):
    """Start a server of a judge that fails, or writes no JSON, at some prompts."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    server = ReplyingServer()
    reply = server.script

    def fail_sometimes(prompt, attempt):
        faults = {0: Act(status=500), 1: Act(text="I cannot tell.")}
        return faults.get(len(prompt) % 5) or reply(prompt, attempt)

    server.script = fail_sometimes
    yield server
    server.close()


def test_certificate_of_an_unreliable_model_follows_from_its_answers(unreliable_server, tmp_path):
    """Missing answers count as well, and the judge is not asked again for them."""
    judge = {
        "backend": "openai",
        "model": "m",
        "base_url": unreliable_server.base_url,
        "samples": 2,
        "decoding": {"temperature": 0.7},
        "max_retries": 0,
    }
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump(judge))
    path = tmp_path / "certificate.json"
    options = ["--judge", tmp_path / "judge.yaml", "--store", tmp_path / "answers.sqlite"]
    options += ["--setting", "check_mutations", "--rows", 8, "--out", path]
    assert main(["certify", *map(str, options)]) == 0
    num_requests = len(unreliable_server.bodies)

    problem, claim = recompute_certificate(path, read(path))

    assert problem == ""
    assert claim == ""
    assert read(path)["scores"]["unscored"]["claims"] > 0
    assert len(unreliable_server.bodies) == num_requests


def set_value(content, path, value):
    """Set a value in a certificate, by a path such as ``scores.ALL`` or ``calibration.9``."""
    *keys, last_key = path.split(".")
    for key in keys:
        content = content[int(key) if isinstance(content, list) else key]
    content[last_key] = value


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param(
            "intervals.segment.f1",
            [0.99, 1.0],
            "intervals.segment.f1.0 is 0.99, expected 0.",
            id="interval",
        ),
        pytest.param(
            "scores.ALL.segment.f1", 0.9, "scores.ALL.segment.f1 is 0.9, expected 0.", id="score"
        ),
        pytest.param(
            "baselines.flag everything.segment.f1",
            0.0,
            "baselines.flag everything.segment.f1 is 0.0, expected 0.",
            id="baseline",
        ),
        pytest.param(
            "calibration.9.wrong", -1, "calibration.9.wrong is -1, expected", id="calibration"
        ),
        pytest.param(
            "scores.law",
            {"segment": {"f1": 1.0}},
            "scores.law is {'segment': {'f1': 1.0}}, expected None",
            id="a domain that the data do not have",
        ),
        pytest.param("scores", float("nan"), "scores is nan, expected {", id="NaN"),
    ],
)
def test_a_figure_that_does_not_follow_from_the_answers_is_named(copied, path, value, problem):
    """A participant who made a mistake can find it."""
    content = read(copied)
    set_value(content, path, value)

    reported_problem, _ = recompute_certificate(copied, content)

    assert problem in reported_problem
    assert "certificate.answers.jsonl" in reported_problem


def test_a_certificate_of_no_judge_is_refused(copied):
    content = read(copied)
    content["judge"] = {"backend": "none"}

    problem, _ = recompute_certificate(copied, content)

    assert "backend" in problem


@pytest.mark.parametrize(
    ("change_lines", "message"),
    [
        pytest.param(lambda lines: lines[1:], "fewer answers", id="fewer"),
        pytest.param(lambda lines: [*lines, lines[0]], "more answers", id="more"),
        pytest.param(
            lambda lines: ["[]", *lines], "answers.jsonl:1: not an answer", id="no answer"
        ),
        pytest.param(lambda lines: ["{", *lines], "answers.jsonl:1: not an answer", id="no JSON"),
        pytest.param(lambda lines: lines[::-1], "cannot be computed again", id="another order"),
    ],
)
def test_changed_answers_of_the_judge_are_refused(copied, answers, change_lines, message):
    """Better answers from elsewhere would make a better certificate."""
    lines = answers.read_text(encoding="utf-8").splitlines()
    answers.write_text("\n".join(change_lines(lines)) + "\n", encoding="utf-8")

    problem, _ = recompute_certificate(copied, read(copied))

    assert message in problem


def test_a_certificate_without_answers_is_claimed(copied, answers):
    """The certificate may be true, but nobody can check it."""
    answers.unlink()

    problem, claim = recompute_certificate(copied, read(copied))

    assert problem == ""
    assert claim == "there is no certificate.answers.jsonl"


def test_a_certificate_on_data_of_the_submitter_is_claimed(copied):
    """Nobody else can compute the certificate again."""
    content = read(copied)
    unknown_data = "0" * 40
    content["data"]["git_blob"] = unknown_data

    problem, claim = recompute_certificate(copied, content)

    assert problem == ""
    assert claim == "it is of data that others do not have"


def test_certificate_on_unavailable_published_data_is_claimed(copied, tmp_path, monkeypatch):
    """The certificate is accepted as a claim: without the data it cannot be computed again here."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LM_FACTUALITY_DATA", raising=False)
    content = read(copied)
    content["data"]["is_published"] = True

    problem, claim = recompute_certificate(copied, content)

    assert problem == ""
    assert "no such file" in claim


def forge_certificate(forger, path, value):
    """Set a value in the packed certificate, and correct the hash of the file."""
    file = forger.folder / "certificate.json"
    content = read(file)
    set_value(content, path, value)
    file.write_text(json.dumps(content), encoding="utf-8")
    forger.seal()


def test_the_check_refuses_a_forged_interval_and_names_it(forger):
    """The check computes the certificate again from the judge's answers."""
    forge_certificate(forger, "intervals.segment.f1", [0.99, 1.0])

    (refusal,) = check_submission(forger.folder).refusals

    beginning = "CERTIFICATE_CHANGED certificate.json: intervals.segment.f1.0 is 0.99, expected 0."
    assert str(refusal).startswith(beginning)


@pytest.mark.parametrize("date", ["2099-01-01T00:00:00+00:00", "never", 7, "9999-12-31T23:59:59"])
def test_the_check_refuses_a_certificate_without_a_date_in_the_past(forger, date):
    forge_certificate(forger, "date", date)

    refusals = {str(refusal) for refusal in check_submission(forger.folder).refusals}

    problem = f"certificate.json: its date is {date!r}, expected one before now"
    assert f"CERTIFICATE_MISMATCH sample_felm_gen: {problem}" in refusals


def test_the_check_says_that_a_certificate_is_claimed(forger, capsys):
    """The submission is accepted, but nobody can compute its certificate again."""
    answers_path = forger.folder / "certificate.answers.jsonl"

    def remove_answers(submission):
        first_file, *other_files = submission["files"]
        assert first_file["path"] == answers_path.name
        submission["files"] = other_files

    forger.change_submission(remove_answers)
    answers_path.unlink()

    exit_code = main(["leaderboard", "check", str(forger.folder)])

    claim = "certificate.json is claimed: there is no certificate.answers.jsonl"
    assert exit_code == 0
    assert f"{forger.folder}: accepted; {claim}" in capsys.readouterr().out
