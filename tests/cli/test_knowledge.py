"""``lm-factuality knowledge`` as a user types it."""

from __future__ import annotations

import pytest

from lm_factuality.cli import main
from tests.conftest import TASKS

ENCYCLOPEDIA = str(TASKS / "sample" / "encyclopedia.jsonl")


@pytest.fixture
def path(tmp_path, capsys):
    path = tmp_path / "knowledge.db"
    assert main(["knowledge", "build", ENCYCLOPEDIA, "--out", str(path)]) == 0
    assert f"{path}: 220 pages of 220 rows, knowledge " in capsys.readouterr().out
    return path


def test_info_says_what_it_is(path, capsys):
    assert main(["knowledge", "info", str(path)]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for text in (
        "pages 220",
        "encyclopedia.jsonl: 167,124 bytes, SHA-256",
        "by lm-factuality",
    ):
        assert text in output
    assert main(["knowledge", "info", str(path), "--title", "Lianelle_Dickess (painter)"]) == 0
    assert "Lianelle Dickess" in capsys.readouterr().out


# arguments after "knowledge", {0} a source and {1} an empty folder: what the error must say
WRONG = {
    "no such page": (
        ["info", "{0}", "--title", "Nobody"],
        "no page is called 'Nobody', nor with other spaces, underscores",
    ),
    "no file": (["info", "{1}/gone.db"], "gone.db: no such file; make it with"),
    "no source": (["build", "gone.jsonl", "--out", "{1}/new.db"], "gone.jsonl: no such file"),
    "exists": (
        ["build", ENCYCLOPEDIA, "--out", "{0}"],
        "exists; give another name, or --overwrite",
    ),
    "no titles": (
        ["build", ENCYCLOPEDIA, "--out", "{1}/new.db", "--fields", "title=heading"],
        "no column 'heading'",
    ),
    "wrong field": (
        ["build", ENCYCLOPEDIA, "--out", "{1}/new.db", "--fields", "titel=a"],
        "unknown key 'titel'",
    ),
}


@pytest.mark.parametrize(("arguments", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_arguments(path, tmp_path, capsys, arguments, expected):
    (tmp_path / "empty").mkdir()
    assert main(["knowledge", *(each.format(path, tmp_path / "empty") for each in arguments)]) == 1
    assert expected in capsys.readouterr().err
