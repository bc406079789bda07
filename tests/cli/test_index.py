"""``lm-factuality index`` as a user types it."""

from __future__ import annotations

import pytest

from lm_factuality.cli import main
from tests.conftest import TASKS

ENCYCLOPEDIA = str(TASKS / "sample" / "encyclopedia.jsonl")


@pytest.fixture
def folder(tmp_path, capsys):
    path = tmp_path / "index"
    assert main(["index", "build", ENCYCLOPEDIA, "--out", str(path)]) == 0
    assert f"{path}: 220 passages, index " in capsys.readouterr().out
    return path


def test_info_says_what_it_is(folder, capsys):
    assert main(["index", "info", str(folder), "--verify"]) == 0
    output = capsys.readouterr().out
    for text in (
        "bm25 index",
        "220 passages",
        "k1 1.2, b 0.75, stemmer english",
        "encyclopedia.jsonl: 167,124 bytes",
        "as it was built",
    ):
        assert text in output
    (folder / "passages.sqlite").write_bytes(b"x" * (folder / "passages.sqlite").stat().st_size)
    assert main(["index", "info", str(folder), "--verify"]) == 1
    assert "passages.sqlite: altered since it was built" in capsys.readouterr().err


def test_options_reach_the_index(tmp_path, capsys):
    folder = str(tmp_path / "index")
    build = ["index", "build", ENCYCLOPEDIA, "--out", folder, "--stemmer", "none"]
    assert main([*build, "--words", "20", "--fields", "id=name,title=kind"]) == 0
    assert main(["index", "info", folder]) == 0
    assert "k1 1.2, b 0.75, stemmer none, words 20" in capsys.readouterr().out
    assert main(["index", "query", folder, "Lianelle Dickess", "-k", "1"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "Dickess#" in line]
    assert "person" in line


# arguments after "index", {0} the folder of an index and {1} an empty one: what the error must say
WRONG = {
    "k": (["query", "{0}", "a", "-k", "0"], "k is 0, expected at least 1"),
    "no index": (["query", "{1}/gone", "a"], "gone: not an index"),
    "no index for info": (["info", "{1}"], "not an index, because it has no"),
    "index exists": (
        ["build", ENCYCLOPEDIA, "--out", "{0}"],
        "exists; give another folder, or --overwrite",
    ),
    "no source": (["build", "gone.tsv", "--out", "{1}/new"], "gone.tsv: no such file"),
    "words": (["build", ENCYCLOPEDIA, "--out", "{1}/new", "--words", "0"], "words is 0"),
    "field": (
        ["build", ENCYCLOPEDIA, "--out", "{1}/new", "--fields", "txt=a"],
        "did you mean text?",
    ),
    "column": (
        ["build", ENCYCLOPEDIA, "--out", "{1}/new", "--fields", "text=body"],
        "encyclopedia.jsonl:1: no column 'body'",
    ),
    "model of BM25": (
        ["build", ENCYCLOPEDIA, "--out", "{1}/new", "--model", "m"],
        "--model is not for --kind bm25",
    ),
    "stemmer of dense": (
        ["build", ENCYCLOPEDIA, "--out", "{1}/new", "--kind", "dense", "--stemmer", "none"],
        "--stemmer is not for --kind dense",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_errors_are_a_sentence(kind, folder, tmp_path, capsys):
    arguments, expected = WRONG[kind]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["index", *(argument.format(folder, empty) for argument in arguments)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("lm-factuality: ")
    assert expected in error
    assert not list(empty.iterdir())


def test_an_interrupted_build_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lm_factuality.retrieval.bm25._add_texts", interrupt)
    arguments = ["index", "build", ENCYCLOPEDIA, "--out", str(tmp_path / "index")]
    monkeypatch.setattr("sys.argv", ["lm-factuality", *arguments])
    assert main(arguments) == 130
    (last,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert "interrupted" in last
    assert last.endswith(f"To continue: lm-factuality {' '.join(arguments)}")
    assert main(["index", "info", str(tmp_path / "index")]) == 1
    assert "resume its interrupted build" in capsys.readouterr().err
    monkeypatch.undo()
    assert main(arguments) == 0
