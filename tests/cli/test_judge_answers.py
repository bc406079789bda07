"""``lm-factuality judge longform`` on answers that were written outside of lm_eval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_factuality.cli.main import main
from lm_factuality.ground.files import write_lines
from lm_factuality.retrieval.build import build_index
from tests.retrieval.test_search import Answer, searxng_hits, service, write_yaml

__all__ = ["service"]

COLUMNS = ("--columns", "answer=reply", "question=ask")


@pytest.fixture
def judge_answers(tmp_path, monkeypatch):
    """Return a function that judges a file with the lexical judge, and returns the exit status.

    The results are written to the folder ``judged``.
    """
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))

    def run(path: Path, *options: str) -> int:
        paths = ["--samples", str(path), "--out", str(tmp_path / "judged")]
        return main(["judge", "longform", *paths, "--judge", "lexical", *options])

    return run


@pytest.fixture
def index(tmp_path):
    """Return the folder ``index`` with an index of one page, which is about Grayport."""
    page = {"title": "Grayport", "text": "Grayport is a harbour town. It was founded in 1702."}
    write_lines(tmp_path / "pages.jsonl", [json.dumps(page)])
    build_index(tmp_path / "pages.jsonl", tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def documents(tmp_path):
    """Return the folder ``documents`` with one document, ``town.md``, which is about Grayport."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "town.md").write_text("# Grayport\n\nGrayport is a harbour town.\n")
    return folder


@pytest.fixture
def answers(tmp_path):
    """Return a table with one answer, which says one fact about Grayport."""
    path = tmp_path / "answers.csv"
    path.write_text("ask,reply\nWhat is Grayport?,Grayport is a harbour town.\n")
    return path


def read_metrics(tmp_path):
    """Read the metrics that ``judge`` has written."""
    return json.loads((tmp_path / "judged" / "metrics.json").read_text())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("answers.csv", "ask,reply\nWhat is Grayport?,Grayport is a harbour town.\n"),
        (
            "answers.jsonl",
            '{"ask": "What is Grayport?", "reply": "Grayport is a harbour town."}\n',
        ),
    ],
)
def test_answers_of_a_table_are_judged_by_an_index(judge_answers, index, tmp_path, name, content):
    """The index has a page that says the only fact of the only answer."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    columns = ["--columns", "answer=reply", "question=ask"]

    status = judge_answers(path, *columns, "--metadata", f"knowledge={index}")

    metrics = read_metrics(tmp_path)
    assert status == 0
    assert metrics["responses"] == 1
    assert metrics["facts"]["supported"] == 1


@pytest.mark.parametrize("source", ["documents", "documents/town.md", "index"])
@pytest.mark.usefixtures("documents", "index")
def test_knowledge_may_be_a_folder_a_document_or_an_index(judge_answers, answers, tmp_path, source):
    """Each of them says the only fact of the only answer."""
    status = judge_answers(answers, *COLUMNS, "--knowledge", str(tmp_path / source))

    assert status == 0
    assert read_metrics(tmp_path)["facts"]["supported"] == 1


def test_results_name_the_source_of_knowledge(judge_answers, answers, documents, tmp_path):
    """The identity of a source is a hash of its texts, so that a reader sees when they change."""
    judge_answers(answers, *COLUMNS, "--knowledge", str(documents))

    about = read_metrics(tmp_path)["about"]
    assert about["knowledge"] == "documents"
    assert len(about["knowledge_identity"]) == 16


def test_unreadable_document_is_named(judge_answers, answers, documents, capsys):
    """Without a warning, the user would not know why facts are "not supported"."""
    (documents / "photo.png").write_bytes(b"\x89PNG")

    judge_answers(answers, *COLUMNS, "--knowledge", str(documents))

    assert "photo.png" in capsys.readouterr().err


def search_form(service, tmp_path):
    """Write the YAML of a search service without retries, and return its path."""
    return write_yaml(
        tmp_path, {"service": "searxng", "url": service.url(), "max_retries": 0, "fetch": False}
    )


def test_answers_are_judged_by_a_search_service(judge_answers, service, tmp_path):
    """The service finds a page that says the only fact of the only answer."""
    path = tmp_path / "answers.csv"
    path.write_text("ask,reply\nWhat is Grayport?,Grayport is a harbour town.\n")
    hits = searxng_hits("https://a.example/x")
    hits["results"][0]["content"] = "Grayport is a harbour town."
    service.script = lambda _request: Answer(hits)

    judge_answers(path, *COLUMNS, "--search", str(search_form(service, tmp_path)))

    assert read_metrics(tmp_path)["facts"]["supported"] == 1


def test_a_search_query_has_the_words_of_the_question_and_the_fact(
    judge_answers, service, tmp_path
):
    """Words such as "what", "is" and "a" are left out. A word that stands in both is repeated."""
    path = tmp_path / "answers.csv"
    path.write_text("ask,reply\nWhat is Grayport?,Grayport is a harbour town.\n")

    judge_answers(path, *COLUMNS, "--search", str(search_form(service, tmp_path)))

    assert [request.query for request in service.requests] == ["Grayport Grayport harbour town"]


def test_fact_with_a_failed_search_is_unscored_with_the_reason(
    judge_answers, service, answers, tmp_path
):
    """A fact must not count as wrong because a service is busy."""
    service.script = lambda _request: Answer("busy", status=503)

    judge_answers(answers, *COLUMNS, "--search", str(search_form(service, tmp_path)))

    verdict = json.loads((tmp_path / "judged" / "verdicts.jsonl").read_text())
    judgement_of_fact = verdict["matrix"][0][0]
    assert read_metrics(tmp_path)["facts"]["unscored"] == 1
    assert "the search failed" in judgement_of_fact["reason"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ["--knowledge", "index", "--metadata", "knowledge=index"],
            "one source; name it once",
            id="the same source twice",
        ),
        pytest.param(
            ["--knowledge", "index", "--search", "search.yaml"],
            "one source; name it once",
            id="two sources",
        ),
        pytest.param(
            ["--knowledge", "index", "--metadata", "entities=true"],
            "no pages of entities",
            id="entities with an index",
        ),
        pytest.param(
            ["--knowledge", "nowhere"],
            "nowhere: no such file or folder",
            id="a source that does not exist",
        ),
        pytest.param(
            ["--knowledge", "pages.jsonl", "--metadata", "entities=true"],
            "only longform without",
            id="entities with a file of pages",
        ),
    ],
)
@pytest.mark.usefixtures("index")
def test_unusable_evidence_is_an_error(
    judge_answers, answers, tmp_path, capsys, monkeypatch, options, message
):
    """The user must not believe that a source was read when it was not."""
    monkeypatch.chdir(tmp_path)

    exit_code = judge_answers(answers, *COLUMNS, *options)

    assert exit_code == 1
    assert message in capsys.readouterr().err


def test_a_source_of_evidence_is_required(judge_answers, tmp_path, capsys):
    """Long answers have no references of their own, so the user has to name a source."""
    path = tmp_path / "ada.txt"
    path.write_text("Grayport is a harbour town.", encoding="utf-8")

    exit_code = judge_answers(path)

    assert exit_code == 1
    assert "name documents or an index: --knowledge DIR" in capsys.readouterr().err


def test_unknown_columns_are_listed_with_the_option_to_write(judge_answers, tmp_path, capsys):
    """The suite finds a column by its name, and "antwort" is not a name that it knows."""
    path = tmp_path / "answers.csv"
    path.write_text("ask,antwort\nWhat is Grayport?,Grayport is a harbour town.\n")

    exit_code = judge_answers(path)

    error = capsys.readouterr().err
    assert exit_code == 1
    assert "Columns: ask, antwort" in error
    assert "--columns answer=NAME" in error
