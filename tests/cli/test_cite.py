"""``lm-factuality cite`` as a user types it."""

from __future__ import annotations

import json

import pytest

from lm_factuality.cli import main

PAGE = {
    "title": "Ada Lind (painter)",
    "text": "Ada Lind was a painter from Orrmark. She was born in 1871 and died in 1923.",
}
SUPPORTED_RESPONSE = "Ada Lind was a painter from Orrmark [1]. She was born in 1871 [1]."
UNSUPPORTED_RESPONSE = "Ada Lind rowed at the games in 1908 [1]."
RESPONSE_WITHOUT_CITATIONS = "No."


def write_generations(path, responses):
    """Write a file of responses about Ada Lind that were written from `PAGE`."""
    rows = [
        {"question": "Tell me a bio of Ada Lind", "docs": [PAGE], "output": response}
        for response in responses
    ]
    path.write_text(json.dumps({"data": rows}), encoding="utf-8")


@pytest.fixture
def cite(tmp_path):
    """Return a function that scores the citations of responses about Ada Lind.

    Its arguments are the responses, which were written from `PAGE`, and further options. It returns
    the folder with the results.
    """

    def run_cite(responses, *options):
        path = tmp_path / "generations.json"
        write_generations(path, responses)
        out = tmp_path / "cited"
        paths = ["--generations", str(path), "--out", str(out)]
        assert main(["cite", *paths, "--nli", "lexical", *options]) == 0
        return out

    return run_cite


def read_metrics(folder):
    """Read the metrics in a folder of results."""
    return json.loads((folder / "metrics.json").read_text())


def test_recall_and_precision_of_citations_are_written(cite):
    """A response without citations lowers the recall, and is not counted in the precision."""
    supported = "Ada Lind was a painter from Orrmark [1]. She was born in 1871 [1]."
    unsupported = "Ada Lind rowed at the games in 1908 [1]."
    without_citations = "No."

    out = cite([supported, unsupported, without_citations])

    metrics = read_metrics(out)
    assert metrics["citation_recall"] == pytest.approx((1 + 0 + 0) / 3)
    assert metrics["citation_precision"] == (1 + 0) / 2
    assert metrics["about"]["nli"].startswith("lexical ")


def test_precision_without_citations_is_0_by_protocol_code(cite):
    """The authors' script counts a response without citations as 0."""
    supported = "Ada Lind was a painter from Orrmark [1]. She was born in 1871 [1]."
    unsupported = "Ada Lind rowed at the games in 1908 [1]."
    without_citations = "No."

    out = cite([supported, unsupported, without_citations], "--protocol", "code")

    assert read_metrics(out)["citation_precision"] == pytest.approx((1 + 0 + 0) / 3)


def test_a_record_of_each_response_is_written(cite):
    """A user can look up which sentence is not supported by what it cites."""
    out = cite([SUPPORTED_RESPONSE, UNSUPPORTED_RESPONSE, RESPONSE_WITHOUT_CITATIONS])

    lines = (out / "citations.jsonl").read_text().splitlines()
    supported, unsupported, without_citations = [json.loads(line) for line in lines]
    assert supported["citation_recall"] == 1.0
    assert [sentence["supported"] for sentence in supported["sentences"]] == [True, True]
    assert unsupported["citation_recall"] == 0.0
    assert without_citations["citation_recall"] == 0.0


def test_a_table_is_printed_with_the_numbers_of_responses_and_sentences(cite, capsys):
    cite([SUPPORTED_RESPONSE, UNSUPPORTED_RESPONSE, RESPONSE_WITHOUT_CITATIONS])

    output = capsys.readouterr().out
    assert "citation recall" in output
    assert "3 responses (1 without a citation, 0 without a sentence), 4 sentences" in output


def test_unloadable_inference_model_is_named(tmp_path, capsys):
    generations_path = tmp_path / "generations.json"
    write_generations(generations_path, ["She sang [1]."])
    options = ["--generations", str(generations_path), "--out", str(tmp_path / "out")]

    exit_code = main(["cite", *options, "--nli", "gone/model"])

    assert exit_code == 1
    assert "the inference model 'gone/model' cannot be loaded" in capsys.readouterr().err


def test_a_missing_file_of_generations_is_named(tmp_path, capsys):
    paths = ["--generations", "gone.json", "--out", str(tmp_path / "out")]

    exit_code = main(["cite", *paths, "--nli", "lexical"])

    assert exit_code == 1
    assert "gone.json: no such file" in capsys.readouterr().err
