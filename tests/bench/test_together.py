"""The benchmark of claims asked about together and one at a time."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
import yaml

from bench.check.together import Papers, measure_together
from tests.judges.server import Act, JudgeServer

DOCUMENT = "The mill at Grayport was built in 1402. The mill has three floors of oak."


def contradict_claims_asked_together(prompt: str, attempt: int) -> Act:
    """A script of the server: a claim alone is supported, and the second of several is not."""
    numbers = re.findall(r"^(\d+)\. ", prompt, re.MULTILINE)
    verdicts = [
        {
            "number": int(number),
            "reason": "so",
            "verdict": "contradicted" if number == "2" else "supported",
        }
        for number in numbers
    ]
    return Act(text=json.dumps({"verdicts": verdicts}))


@pytest.fixture
def judge_file(tmp_path, monkeypatch):
    """Write the YAML of a judge whose verdicts depend on the number of claims."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "cache"))
    with closing(JudgeServer(contradict_claims_asked_together)) as server:
        path = tmp_path / "judge.yaml"
        config = {"backend": "openai", "model": "m", "base_url": server.base_url}
        path.write_text(yaml.safe_dump(config))
        yield str(path)


@pytest.fixture
def papers(tmp_path):
    """Write a document, and an answer with two claims of which the second is wrong."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "mill.md").write_text(DOCUMENT)
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"id": "a", "answer": DOCUMENT.replace("three", "four")}))
    key = tmp_path / "key.jsonl"
    key.write_text(json.dumps({"id": "a", "statement": "The mill has four floors of oak."}))
    return Papers(answers, tmp_path / "documents", key)


def test_table_has_a_row_for_each_source_and_batch_size(judge_file, papers):
    """A question may be about up to 8 claims, which is cheaper, or about 1."""
    records = list(measure_together(judge_file, 3, papers, prints_differences=True))

    sources_and_sizes = [(record["source"], record["way"]) for record in records]
    assert sources_and_sizes == [
        ("mutated sentences", "up to 8"),
        ("mutated sentences", "1"),
        ("answers", "up to 8"),
        ("answers", "1"),
    ]


def test_claims_asked_about_together_are_compared_with_single_claims(judge_file, papers):
    """The judge finds the wrong claim only if one question is about both claims of the answer."""
    *_, together, single = measure_together(judge_file, 3, papers, prints_differences=True)

    assert together["claims"] == 2
    assert together["questions"] == 1
    assert together["wrong"] == "1 of 1"
    assert together["true"] == "0 of 1"
    assert single["questions"] == 2
    assert single["wrong"] == "0 of 1"
    assert single["agreement"] == "50.0% of 2"
