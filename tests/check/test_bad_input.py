"""The command ``check`` on input that cannot be used, wholly or in part."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import yaml

from lm_factuality.check import page
from lm_factuality.cli import main
from lm_factuality.ground.errors import DataError
from tests.check.test_command import TRUE, UNKNOWN
from tests.judges.server import Act, JudgeServer
from tests.retrieval.test_search import Answer, SearchRequest, searxng_hits

FERRY = "The ferry was sold in 1875."
BINARY = bytes(range(256)) * 20
NOT_UTF8 = "Le café était là en 1402.\n".encode("latin-1")
ROW = f"When?,{TRUE}\n"


@pytest.fixture
def write(tmp_path) -> Callable[[str, object], str]:
    """Return a function that writes a file and returns its path: bytes, a text, or YAML."""

    def write_file(name: str, content: object) -> str:
        path = tmp_path / name
        if isinstance(content, dict):
            content = yaml.safe_dump(content)
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
        return str(path)

    return write_file


@pytest.fixture
def judge_server() -> Iterator[JudgeServer]:
    """Run a server that says of each claim that it is supported."""
    with closing(JudgeServer(lambda prompt, attempt: Act(text=supported_reply(prompt)))) as server:
        yield server


def supported_reply(prompt: str) -> str:
    """Return the reply that all numbered claims of a prompt are supported."""
    claims = prompt.split("Claims:\n")[1].split("\n\nEach claim")[0].strip().splitlines()
    verdicts = [
        {"number": number, "reason": "so it says", "verdict": "supported", "probability": 0.9}
        for number, _ in enumerate(claims, start=1)
    ]
    return json.dumps({"verdicts": verdicts})


def half_of_parquet() -> bytes:
    """Return the first half of a Parquet file of answers."""
    table = pyarrow.table({"answer": [TRUE] * 1000, "question": [str(n) for n in range(1000)]})
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, buffer)
    content = buffer.getvalue().to_pybytes()
    return content[: len(content) // 2]


def error_line(capsys) -> str:
    """Return the error that the command printed, after checking that it is one line at the end."""
    lines = capsys.readouterr().err.replace("\r", "\n").strip().split("\n")
    errors = [line for line in lines if line.startswith("lm-factuality check: ")]
    assert errors == lines[-1:]
    return errors[0]


def summary_of(folder: Path) -> Any:
    """Return the content of ``summary.json``."""
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", "question,answer\n", "no answers"),
        ("a.csv", "question,answer\nWhen?,\n", "the answer is empty"),
        ("a.csv", BINARY, "a binary file"),
        ("a.txt", BINARY, "a binary file"),
        ("a.txt", NOT_UTF8, "save it as text in UTF-8"),
        ("a.json", '[{"answer": "Yes."', "not valid JSON"),
        ("a.jsonl", '{"answer": \n{{{\n', "not valid JSON"),
        ("a.parquet", half_of_parquet(), "not a readable Parquet file"),
        ("a.pdf", b"%PDF", "ends in '.pdf'"),
    ],
)
def test_unusable_answers_exit_with_code_2(
    write,
    documents,
    capsys,
    name,
    content,
    problem,
):
    """The exit code 1 would mean that too few claims are supported."""
    exit_code = main(["check", write(name, content), "--knowledge", str(documents)])

    assert exit_code == 2
    assert problem in error_line(capsys)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        pytest.param([], "no files in this folder", id="empty folder"),
        pytest.param(["a.png", "b.pdf", "c.txt"], "nothing here can be read", id="binary files"),
    ],
)
def test_unreadable_knowledge_exits_with_code_2(write, tmp_path, capsys, names, problem):
    """Without documents, every claim would be "not found"."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(BINARY)

    exit_code = main(["check", write("a.txt", TRUE), "--knowledge", str(folder)])

    assert exit_code == 2
    assert problem in error_line(capsys)


@pytest.mark.parametrize(
    ("option", "content", "problem"),
    [
        pytest.param("--judge", "backend: [\n", "not a readable YAML file", id="no YAML"),
        pytest.param(
            "--judge",
            {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"},
            "cannot be reached",
            id="no server at this port",
        ),
        pytest.param(
            "--search",
            {"service": "searxng", "url": "http://127.0.0.1:9/search"},
            "either",
            id="documents and a search service together",
        ),
    ],
)
def test_unusable_judge_or_service_exits_with_code_2(
    write,
    documents,
    capsys,
    option,
    content,
    problem,
):
    """The exit code 1 would mean that too few claims are supported."""
    options = [option, write("option.yaml", content)]

    exit_code = main(["check", write("a.txt", TRUE), "--knowledge", str(documents), *options])

    assert exit_code == 2
    assert problem in error_line(capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_answers_without_read_permission_exit_with_code_2(write, documents, capsys):
    """The file may belong to another user."""
    path = write("a.txt", TRUE)
    Path(path).chmod(0)

    exit_code = main(["check", path, "--knowledge", str(documents)])

    assert exit_code == 2
    assert "cannot be" in error_line(capsys)


def test_unreadable_rows_are_counted(
    write,
    documents,
    tmp_path,
    capsys,
):
    """The user must see that only two of four answers were checked."""
    row_with_too_many_cells = f"When?,{TRUE},more\n"
    row_with_too_few_cells = "Only\n"
    answers = write(
        "a.csv", f"question,answer\n{ROW}{ROW}{row_with_too_many_cells}{row_with_too_few_cells}"
    )
    out = tmp_path / "out"

    exit_code = main(["check", answers, "--knowledge", str(documents), "--out", str(out)])

    screen = capsys.readouterr().out
    with (out / "answers.csv").open(encoding="utf-8", newline="") as file:
        problem_by_answer = {row["answer"]: row["problem"] for row in csv.DictReader(file)}
    assert exit_code == 0
    assert "2 claims of 4 answers" in screen
    assert summary_of(out)["unread_answers"] == 2
    assert problem_by_answer["1"] == ""
    assert problem_by_answer["a.csv, row 4"].startswith("line 5: 1 cells, expected 2")


def test_the_exit_code_is_2_if_most_rows_cannot_be_read(write, documents):
    """Two of three rows are broken, so the user has probably named the wrong file."""
    answers = write("a.csv", f"question,answer\n{ROW}Only\nOne\n")

    exit_code = main(["check", answers, "--knowledge", str(documents)])

    assert exit_code == 2


@pytest.mark.slow
def test_an_answer_of_a_megabyte_is_checked(write, documents, tmp_path):
    """The answer repeats one sentence about 27,000 times, and each is a claim."""
    answers = write("a.txt", f"{TRUE} " * (2**20 // len(TRUE)))
    out = tmp_path / "out"

    exit_code = main(["check", answers, "--knowledge", str(documents), "--out", str(out)])

    assert exit_code == 0
    assert summary_of(out)["claims"]["supported"] > 20_000


@pytest.fixture
def command_with_failed_searches(write, service, tmp_path) -> list[str]:
    """Check 60 claims by searches of which every second one fails, and return the command.

    The command writes into the folder ``out``. Afterwards the service answers all searches.
    """
    claims = [f"The mill number {number} was built in {1400 + number}." for number in range(60)]

    def fail_half(request: SearchRequest) -> Answer:
        """Fail for every second claim."""
        is_even = int(request.query.split()[2]) % 2 == 0
        return Answer(searxng_hits()) if is_even else Answer("broken", 500)

    service.script = fail_half
    settings = {"service": "searxng", "url": service.url(), "max_retries": 0}
    command = ["check", write("a.txt", " ".join(claims)), "--out", str(tmp_path / "out")]
    command += ["--search", write("search.yaml", settings)]
    main(command)
    service.script = lambda _request: Answer(searxng_hits())
    return command


# The output of the fixture is captured, because ``capsys`` comes before it.
def test_failed_searches_leave_claims_unscored(capsys, command_with_failed_searches, tmp_path):
    """Every second of 60 searches fails, and a failed search does not mean "not found"."""
    assert "searches: 60 sent; 30 failed" in capsys.readouterr().out
    assert summary_of(tmp_path / "out")["claims"]["unscored"] == 30
    claims_text = (tmp_path / "out" / "claims.jsonl").read_text(encoding="utf-8")
    reasons = {json.loads(line)["reason"] for line in claims_text.splitlines()}
    assert any(reason.startswith("the search failed: ") for reason in reasons)


def test_only_failed_searches_are_repeated(command_with_failed_searches, service, tmp_path):
    """Of 60 searches, 30 failed and the results of the others are stored."""
    service.requests.clear()

    main(command_with_failed_searches)

    assert len(service.requests) == 30
    assert summary_of(tmp_path / "out")["claims"]["unscored"] == 0


def test_two_systems_share_the_limit_on_cost(write, documents, capsys, judge_server):
    """Each question costs 1 USD, so that the limit allows only that about the first system."""
    usage = {"prompt_tokens": 10, "completion_tokens": 10_000}
    judge_server.script = lambda prompt, attempt: Act(text=supported_reply(prompt), usage=usage)
    settings = {
        "backend": "openai",
        "base_url": judge_server.base_url,
        "model": "small-judge",
        "prices": {"prompt": 0, "completion": 100},
        "max_cost": 1,
    }
    first = write("first.csv", f"question,answer\n{ROW}")
    second = write("second.csv", "question,answer\nWhen?,The mill was built in 1502.\n")
    options = ["--knowledge", str(documents), "--judge", write("judge.yaml", settings)]

    exit_code = main(["check", first, "--against", second, *options])

    assert exit_code == 2
    assert "max_cost of $1 leaves no room for another call" in error_line(capsys)
    assert len(judge_server.bodies) == 1


@pytest.fixture
def command_with_failed_request(write, documents, tmp_path, judge_server) -> list[str]:
    """Check two claims by a judge that fails for the one about the ferry, and return the command.

    The command writes into the folder ``out``. Afterwards the judge answers all requests.
    """
    reply = judge_server.script
    judge_server.script = lambda prompt, attempt: (
        Act(status=400, text="no") if f"1. {FERRY}" in prompt else reply(prompt, attempt)
    )
    judge = {"backend": "openai", "model": "small-judge", "base_url": judge_server.base_url}
    # Claims with the same passages would share a request.
    (documents / "ferry.md").write_text("The ferry was sold in 1872.", encoding="utf-8")
    rows = [json.dumps({"answer": answer}) for answer in (TRUE, FERRY)]
    command = ["check", write("a.jsonl", "\n".join(rows)), "--knowledge", str(documents)]
    command += ["--judge", write("gpt.yaml", judge), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    judge_server.script = reply
    return command


@pytest.mark.usefixtures("command_with_failed_request")
def test_failed_judge_request_leaves_its_claim_unscored(tmp_path):
    """The other claim keeps its verdict."""
    assert summary_of(tmp_path / "out")["claims"] == {
        "supported": 1,
        "contradicted": 0,
        "not_found": 0,
        "unscored": 1,
    }


def test_only_the_failed_judge_request_is_repeated(command_with_failed_request, judge_server):
    """The answer to the other request is stored."""
    judge_server.bodies.clear()

    exit_code = main(command_with_failed_request)

    assert exit_code == 0
    assert len(judge_server.bodies) == 1


def test_the_screen_shows_calls_tokens_cost_and_seconds(
    write,
    documents,
    judge_server,
    capsys,
):
    """10 tokens at 0.001 USD and 5 tokens at 0.002 USD cost 0.02 USD."""
    judge = {
        "backend": "openai",
        "model": "small-judge",
        "base_url": judge_server.base_url,
        "prices": {"prompt": 1000, "completion": 2000},  # USD for a million tokens
    }
    command = ["check", write("a.txt", TRUE), "--knowledge", str(documents)]

    main([*command, "--judge", write("gpt.yaml", judge)])

    screen = capsys.readouterr().out
    assert "1 call to the judge, 10 prompt tokens, 5 completion tokens; 0.0200 USD" in screen
    assert " seconds." in screen


def test_files_of_an_earlier_check_stay_whole_if_writing_fails(
    write,
    documents,
    tmp_path,
    monkeypatch,
):
    """A failed check must not leave a mix of old and new files."""
    out = tmp_path / "out"
    command = ["--knowledge", str(documents), "--out", str(out)]
    main(["check", write("a.txt", TRUE), *command])
    (out / "corrections.csv").write_text("by a person", encoding="utf-8")
    files_before = {path.name: path.read_bytes() for path in out.iterdir()}

    def fail(*_: object, **__: object) -> None:
        """Fail as on a full disk."""
        raise DataError("no space left")

    monkeypatch.setattr(page, "write_page", fail)

    exit_code = main(["check", write("b.txt", UNKNOWN), *command])

    assert exit_code == 2
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files_before


def test_unwritable_folder_is_reported_before_the_judge_is_asked(
    write,
    documents,
    judge_server,
    capsys,
):
    """The answers of the judge are paid for."""
    judge = {"backend": "openai", "model": "small-judge", "base_url": judge_server.base_url}
    command = ["check", write("a.txt", TRUE), "--knowledge", str(documents)]
    command += ["--judge", write("gpt.yaml", judge), "--out", write("taken", "a file")]

    exit_code = main(command)

    assert exit_code == 2
    assert "taken" in error_line(capsys)
    assert judge_server.bodies == []
