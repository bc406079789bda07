"""``lm-factuality retrieve`` as a user types it."""

from __future__ import annotations

import json

import pytest

from lm_factuality.benchmarks.biographies.generations import read_generations
from lm_factuality.cli import main
from lm_factuality.retrieval.build import build_index
from tests.conftest import TASKS

ENCYCLOPEDIA = TASKS / "sample" / "encyclopedia.jsonl"


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "bm25"
    build_index(ENCYCLOPEDIA, folder)
    return folder


@pytest.fixture
def names(tmp_path):
    """In AmbigBio's form: a name that two share, and one that the index knows nothing of."""
    path = tmp_path / "names.csv"
    path.write_text(
        "Tell me a bio of Lianelle Dickess\t['Lianelle Dickess (disambiguation)']\r\nTell me a bio of Qqq\t['Qqq']\r\n",
        encoding="utf-8",
    )
    return path


def test_alce_format(bm25, names, tmp_path, capsys):
    out = tmp_path / "new" / "retrieved.json"
    assert (
        main(
            ["retrieve", "--names", str(names), "--index", str(bm25), "--k", "3", "--out", str(out)]
        )
        == 0
    )
    content = json.loads(out.read_text(encoding="utf-8"))
    (first,) = content["data"]
    assert (first["question"], first["name"]) == (
        "Tell me a bio of Lianelle Dickess",
        "Lianelle Dickess",
    )
    assert {doc["title"] for doc in first["docs"]} >= {"Lianelle Dickess (painter)"}
    assert list(first["docs"][0]) == ["id", "title", "text", "score"]
    scores = [doc["score"] for doc in first["docs"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    about = content["about"]
    assert (about["kind"], about["k"], about["names"], about["without_passages"]) == (
        "bm25",
        3,
        2,
        ["Qqq"],
    )
    assert "Passages for 1 of 2 names" in capsys.readouterr().out
    found = read_generations([out], with_outputs=False)  # what the task and the judge read
    assert [each.name for each in found] == ["Lianelle Dickess"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"--k": "0"}, "--k 0: expected at least 1"),
        ({"--names": "gone.csv"}, "gone.csv: no such file"),
        ({"--index": "gone"}, "gone: not an index"),
    ],
)
def test_wrong_arguments(bm25, names, tmp_path, capsys, changes, expected):
    options = {
        "--names": str(names),
        "--index": str(bm25),
        "--out": str(tmp_path / "out.json"),
        **changes,
    }
    assert main(["retrieve", *(part for pair in options.items() for part in pair)]) == 1
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
