"""``score felm``, ``claims extract`` and ``certify`` as they are typed."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
import yaml

from judges.certificates import certified_identity, find_certificates, save_certificate
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge
from lm_factuality.cli import main
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

SAMPLE = TASKS / "sample" / "sample_felm.jsonl"


def answer(prompt: str, attempt: int) -> Act:
    """Answer a judge's prompt.

    The first segment or claim of a response is always flagged. Each segment is taken for one claim,
    but the judge gives no claims about the Priswick Observatory.
    """
    question = prompt.rsplit("Question:", 1)[1]
    if "Write down the factual claims" not in prompt:
        return Act(text="Thought: the first is wrong.\nAnswer: 1")
    if "Priswick Observatory" in question:
        return Act(text="I cannot do that.")
    segments = re.findall(r"^(\d+)\. (.*)$", question, flags=re.MULTILINE)
    claims = [{"segment": int(number), "claims": [text]} for number, text in segments]
    return Act(text=json.dumps({"segments": claims}))


@pytest.fixture
def judge_yaml_and_server(tmp_path, monkeypatch):
    """Return the path of a judge's YAML, and its server, which replies by `answer`."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    server = JudgeServer(answer)
    path = tmp_path / "judge.yaml"
    content = {
        "backend": "openai",
        "model": "small-judge",
        "base_url": server.base_url,
        "prices": {"prompt": 1.0, "completion": 2.0},
    }
    path.write_text(yaml.safe_dump(content))
    yield str(path), server
    server.close()


@pytest.fixture
def data_dir(tmp_path) -> Path:
    """Return a folder with the first 12 rows of the sample in place of the published data."""
    folder = tmp_path / "felm"
    folder.mkdir()
    lines = SAMPLE.read_text().splitlines(keepends=True)
    (folder / "all.jsonl").write_text("".join(lines[:12]))
    return folder


@pytest.fixture
def score_outputs(data_dir, tmp_path):
    """Return a function that scores outputs of a model, and returns the exit status.

    Its arguments are the outputs as lines of JSON, and further options of ``score felm``. The
    command writes ``metrics.json``.
    """

    def run(outputs: str, *options: str) -> int:
        path = tmp_path / "outputs.jsonl"
        path.write_text(outputs)
        paths = ["--outputs", str(path), "--data-dir", str(data_dir)]
        return main(["score", "felm", *paths, "--out", str(tmp_path / "metrics.json"), *options])

    return run


def test_score_counts_rows_without_a_readable_output(score_outputs, tmp_path, capsys):
    """Two of twelve rows have an output, and one of them names the segment 0, which no row has."""
    output_of_no_segment = '{"index": "0", "domain": "wk", "output": "Answer: 0"}\n'
    output_of_first_segment = '{"index": "1", "domain": "wk", "output": "Answer: 1"}\n'

    exit_code = score_outputs(output_of_no_segment + output_of_first_segment)

    unscored = json.loads((tmp_path / "metrics.json").read_text())["unscored"]
    assert exit_code == 0
    assert unscored["responses"] == 10 + 1
    assert unscored["reasons"] == {"no output for this row": 10, "id 0; the last is 3": 1}
    assert "unscored: 11 responses" in capsys.readouterr().out


def test_score_can_follow_the_protocol_of_the_authors_code(score_outputs, tmp_path):
    """The script takes segment 0 for the last one. Otherwise this output has no score."""
    output = '{"index": "1", "domain": "wk", "output": "Answer: 0"}\n'

    exit_code = score_outputs(output, "--protocol", "code")

    counts = json.loads((tmp_path / "metrics.json").read_text())["ALL"]["segment"]
    num_flagged = counts["tp"] + counts["fp"]
    assert exit_code == 0
    assert num_flagged == 1


def test_score_refuses_broken_outputs(score_outputs, tmp_path, capsys):
    """A score on the readable lines would look like a score on all lines."""
    outputs = '{"index": "99", "domain": "wk", "output": "1"}\nnot json\n'

    exit_code = score_outputs(outputs)

    error = capsys.readouterr().err
    assert exit_code == 1
    assert "outputs.jsonl:1: no row has the index '99'" in error
    assert "outputs.jsonl:2:" in error
    assert not (tmp_path / "metrics.json").exists()


@pytest.fixture
def extract_claims(data_dir, tmp_path):
    """Return a function that lets a judge extract claims, and returns the exit status.

    Its arguments are the judge, and further options of ``claims extract``. The command writes
    ``claims.jsonl``.
    """

    def run(judge: str, *options: str) -> int:
        paths = ["--data-dir", str(data_dir), "--out", str(tmp_path / "claims.jsonl")]
        return main(["claims", "extract", "--judge", judge, *paths, *options])

    return run


def test_a_dry_run_extracts_no_claims(judge_yaml_and_server, extract_claims, tmp_path):
    judge_yaml, server = judge_yaml_and_server

    exit_code = extract_claims(judge_yaml, "--dry-run")

    assert exit_code == 0
    assert not (tmp_path / "claims.jsonl").exists()
    assert not server.attempts


def test_rows_without_claims_are_counted(judge_yaml_and_server, extract_claims, tmp_path, capsys):
    """Of 12 rows, the judge gives no claims for the one about the Priswick Observatory."""
    judge_yaml, _ = judge_yaml_and_server

    exit_code = extract_claims(judge_yaml)

    printed = capsys.readouterr().out
    records = [json.loads(line) for line in (tmp_path / "claims.jsonl").read_text().splitlines()]
    num_without_claims = sum(record["problem"] is not None for record in records)
    assert exit_code == 0
    assert len(records) == 12
    assert num_without_claims == 1
    assert "rows without claims, which are unscored when claims are judged: 1" in printed


def test_claims_are_asked_for_once(judge_yaml_and_server, extract_claims, tmp_path):
    """The answers are stored, so a repeated command costs nothing."""
    judge_yaml, server = judge_yaml_and_server
    assert extract_claims(judge_yaml) == 0
    attempts = dict(server.attempts)
    claims = (tmp_path / "claims.jsonl").read_text()

    exit_code = extract_claims(judge_yaml)

    assert exit_code == 0
    assert server.attempts == attempts
    assert (tmp_path / "claims.jsonl").read_text() == claims


def test_claims_can_be_extracted_by_rules(extract_claims, tmp_path):
    """Rules need no model and cost nothing."""
    exit_code = extract_claims("rules")

    lines = (tmp_path / "claims.jsonl").read_text().splitlines()
    assert exit_code == 0
    assert {json.loads(line)["source"] for line in lines} == {"rules"}


@pytest.fixture
def certificate(judge_yaml_and_server, data_dir, tmp_path) -> dict:
    """Return the certificate of the judge, who flags the first segment of each of 12 rows."""
    judge_yaml, _ = judge_yaml_and_server
    path = tmp_path / "certificate.json"
    options = ["--judge", judge_yaml, "--data-dir", str(data_dir), "--out", str(path)]
    assert main(["certify", *options]) == 0
    return json.loads(path.read_text())


def test_a_dry_run_of_certify_asks_nobody(judge_yaml_and_server, data_dir, capsys):
    judge_yaml, server = judge_yaml_and_server

    exit_code = main(["certify", "--judge", judge_yaml, "--data-dir", str(data_dir), "--dry-run"])

    assert exit_code == 0
    assert not server.attempts
    assert "Total: 12 requests (0 more are stored)" in capsys.readouterr().out


def test_a_certificate_says_how_good_a_judge_is(certificate, data_dir):
    """The judge calls the first segment of each of 12 rows wrong, and no other."""
    rows = [json.loads(line) for line in (data_dir / "all.jsonl").read_text().splitlines()]
    num_wrong_first_segments = sum(not row["labels"][0] for row in rows)

    segment_scores = certificate["scores"]["ALL"]["segment"]
    # True and false positives
    assert segment_scores["tp"] == num_wrong_first_segments
    assert segment_scores["fp"] == 12 - num_wrong_first_segments
    assert len(certificate["intervals"]["segment"]["f1"]) == 2
    assert certificate["baselines"]["flag everything"]["segment"]["recall"] == 1


def test_certificate_describes_its_origin(certificate):
    """Other people can repeat the certification."""
    assert certificate["setting"] == "segment_cot"
    assert certificate["usage"]["calls"] == 12  # one for each row of the data
    assert certificate["data"]["is_published"] is False
    assert set(certificate["prompt_hashes"]) == {"felm/segment_cot"}


def test_certificate_does_not_contain_the_key_of_the_judge(certificate):
    """Certificates are published. The judge has the key ``key-of-nobody`` in the environment."""
    assert "key-of-nobody" not in json.dumps(certificate)


def test_certificate_on_unpublished_data_is_not_found(judge_yaml_and_server, certificate):
    """Nobody knows how hard unpublished rows are."""
    judge_yaml, _ = judge_yaml_and_server

    with Judge.open(load_judge_config(judge_yaml)) as judge:
        assert find_certificates(judge) is None


@pytest.fixture
def judge_config(judge_yaml_and_server) -> JudgeConfig:
    """Return the configuration of the judge."""
    judge_yaml, _ = judge_yaml_and_server
    return load_judge_config(judge_yaml)


def read_identity(judge_config: JudgeConfig) -> str:
    """Return the identity under which the certificates of a judge with this config are kept."""
    with Judge.open(judge_config) as judge:
        return certified_identity(judge.config, judge.identity)


def make_certificate(
    judge_config: JudgeConfig, setting: str, date: str, is_published: bool = True
) -> dict:
    """Make a certificate of a judge.

    Args:
        judge_config: The configuration of the judge.
        setting: The setting of FELM in which it was measured.
        date: The date.
        is_published: Whether it was measured on the published data.
    """
    return {
        "identity": read_identity(judge_config),
        "judge": {"name": "j"},
        "setting": setting,
        "date": date,
        "suite_version": "0",
        "prompt_hashes": {},
        "intervals": {},
        "data": {"is_published": is_published},
        "scores": {"ALL": {"segment": {"f1": 0.5}}, "unscored": {"responses": 0}},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 3},
        {"system": "Be strict."},
        {"thinking_tokens": 4000},
        {"schema": False},
    ],
)
def test_setting_affecting_verdicts_needs_a_separate_certificate(judge_config, changes):
    """A certificate is found by the identity of its judge, which depends on the setting."""
    other_config = dataclasses.replace(judge_config, **changes)

    assert read_identity(other_config) != read_identity(judge_config)


def test_custom_prompt_needs_a_separate_certificate(judge_config, tmp_path):
    """Another prompt may make a judge better or worse, so it changes the identity of the judge."""
    prompt_path = tmp_path / "own.jinja"
    prompt_path.write_text("{{ question }}")
    other_config = dataclasses.replace(judge_config, prompts={"felm/segment_cot": prompt_path})

    assert read_identity(other_config) != read_identity(judge_config)


def test_certificates_of_a_judge_are_found_by_setting(judge_config):
    """A judge may agree with people if it reads documents, and disagree if it does not."""
    without_documents = make_certificate(judge_config, "segment_cot", "first")
    with_documents = make_certificate(judge_config, "segment_doc", "second")
    assert len(save_certificate(without_documents, None)) == 1
    assert len(save_certificate(with_documents, None)) == 1

    with Judge.open(judge_config) as judge:
        certificates = find_certificates(judge)

    assert set(certificates) == {"segment_cot", "segment_doc"}
    assert certificates["segment_cot"]["date"] == "first"
    assert certificates["segment_doc"]["date"] == "second"


def test_the_certificate_of_another_judge_is_not_found(judge_config):
    """A judge that votes with three samples is another judge."""
    save_certificate(make_certificate(judge_config, "segment_cot", "first"), None)

    with Judge.open(dataclasses.replace(judge_config, samples=3)) as other_judge:
        assert find_certificates(other_judge) is None


def test_certificate_on_unpublished_data_replaces_no_other_certificate(judge_config):
    """A certificate on published data is worth more."""
    save_certificate(make_certificate(judge_config, "segment_cot", "first"), None)
    unpublished = make_certificate(judge_config, "segment_cot", "second", is_published=False)

    assert save_certificate(unpublished, None) == []

    with Judge.open(judge_config) as judge:
        assert find_certificates(judge)["segment_cot"]["date"] == "first"
