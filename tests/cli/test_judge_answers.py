"""``lm-factuality judge longform`` on answers that were written outside of lm_eval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_factuality.cli.main import main
from lm_factuality.ground.files import write_lines
from lm_factuality.retrieval.build import build_index

PAGE = {"title": "Grayport", "text": "Grayport is a harbour town. It was founded in 1702."}
FILES = {
    "answers.csv": "ask,reply\nWhat is Grayport?,Grayport is a harbour town.\n",
    "answers.jsonl": '{"ask": "What is Grayport?", "reply": "Grayport is a harbour town."}\n',
}
COLUMNS = ("--columns", "answer=reply", "question=ask")


@pytest.fixture
def judge_answers(tmp_path, monkeypatch):
    """Return a function that judges a file with the lexical judge, and returns the exit status."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    write_lines(tmp_path / "pages.jsonl", [json.dumps(PAGE)])
    build_index(tmp_path / "pages.jsonl", tmp_path / "index")

    def run(path: Path, *options: str) -> int:
        paths = ["--samples", str(path), "--out", str(tmp_path / "judged")]
        return main(["judge", "longform", *paths, "--judge", "lexical", *options])

    return run


@pytest.mark.parametrize("name", FILES)
def test_answers_of_a_table_are_judged_by_an_index(judge_answers, tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")

    status = judge_answers(path, *COLUMNS, "--metadata", f"knowledge={tmp_path / 'index'}")

    metrics = json.loads((tmp_path / "judged" / "metrics.json").read_text())
    assert status == 0
    assert metrics["responses"] == 1
    assert metrics["facts"]["supported"] == 1


def test_an_index_is_asked_for(judge_answers, tmp_path, capsys):
    path = tmp_path / "ada.txt"
    path.write_text("Grayport is a harbour town.", encoding="utf-8")

    assert judge_answers(path) == 1
    assert "name it: --metadata knowledge=DIR" in capsys.readouterr().err


def test_unclear_columns_are_listed_with_the_option_to_write(judge_answers, tmp_path, capsys):
    path = tmp_path / "answers.csv"
    path.write_text(FILES["answers.csv"].replace("reply", "antwort"), encoding="utf-8")

    assert judge_answers(path) == 1
    error = capsys.readouterr().err
    assert "Columns: ask, antwort" in error
    assert "--columns answer=NAME" in error
