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
def index(tmp_path_factory):
    """Return the folder of a BM25 index of the sample's encyclopedia."""
    folder = tmp_path_factory.mktemp("index") / "bm25"
    build_index(ENCYCLOPEDIA, folder)
    return folder


@pytest.fixture
def names_path(tmp_path):
    """Return a file in AmbigBio's form with a name that two people share, and an unknown name."""
    path = tmp_path / "names.csv"
    path.write_text(
        "Tell me a bio of Lianelle Dickess\t['Lianelle Dickess (disambiguation)']\r\n"
        "Tell me a bio of Qqq\t['Qqq']\r\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def retrieve(index, names_path, tmp_path):
    """Return a function that retrieves three passages for each name, and returns the file."""

    def run_retrieve():
        path = tmp_path / "new" / "retrieved.json"
        paths = ["--names", str(names_path), "--index", str(index), "--out", str(path)]
        assert main(["retrieve", *paths, "--k", "3"]) == 0
        return path

    return run_retrieve


def read_json(path):
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_row_has_the_question_and_the_name(retrieve):
    """The file adds "(disambiguation)" to the name."""
    (row,) = read_json(retrieve())["data"]

    assert row["question"] == "Tell me a bio of Lianelle Dickess"
    assert row["name"] == "Lianelle Dickess"


def test_passages_have_the_keys_of_alce(retrieve):
    """Programs that read the files of ALCE can read this file as well."""
    (row,) = read_json(retrieve())["data"]

    assert list(row["docs"][0]) == ["id", "title", "text", "score"]


def test_three_passages_are_listed_in_descending_order(retrieve):
    """The command is told to retrieve three passages for the name "Lianelle Dickess"."""
    (row,) = read_json(retrieve())["data"]

    titles = [passage["title"] for passage in row["docs"]]
    scores = [passage["score"] for passage in row["docs"]]
    assert "Lianelle Dickess (painter)" in titles
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_written_file_describes_its_origin(retrieve):
    """Others can retrieve the same passages again."""
    about = read_json(retrieve())["about"]

    assert about["kind"] == "bm25"
    assert about["k"] == 3
    assert about["names"] == 2


def test_the_number_of_names_with_passages_is_printed(retrieve, capsys):
    """The sample's encyclopedia has no page about the second name, "Qqq"."""
    retrieve()

    assert "Passages for 1 of 2 names" in capsys.readouterr().out


def test_names_without_passages_are_listed(retrieve):
    """The sample's encyclopedia has no page about "Qqq"."""
    about = read_json(retrieve())["about"]

    assert about["without_passages"] == ["Qqq"]


def test_retrieved_passages_are_read_as_input_of_the_biographies_task(retrieve):
    """A model writes biographies from these passages, and a judge reads them."""
    generations = read_generations([retrieve()], with_outputs=False)

    assert [generation.name for generation in generations] == ["Lianelle Dickess"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--k", "0", "--k 0: expected at least 1"),
        ("--names", "gone.csv", "gone.csv: no such file"),
        ("--index", "gone", "gone: not an index"),
    ],
)
def test_invalid_option_is_refused(index, names_path, tmp_path, capsys, option, value, message):
    """If an option is given twice, the last value counts."""
    out = tmp_path / "out.json"
    paths = ["--names", str(names_path), "--index", str(index), "--out", str(out)]

    exit_code = main(["retrieve", *paths, option, value])

    assert exit_code == 1
    assert message in capsys.readouterr().err
    assert not out.exists()
