"""The folder of a build is a task of lm_eval, wherever it lies."""

from __future__ import annotations

import shutil

import pytest
import yaml

from factor_gen.output.write import write_benchmark
from factor_gen.settings import CorpusSettings
from lm_factuality.cli.validation import check_targets as validate
from tests.factor_gen.output.conftest import make_settings


@pytest.fixture
def folder(tmp_path, items, provenance):
    """A build that was moved after it was made."""
    settings = make_settings(
        corpus=CorpusSettings(path="x.txt", license="CC BY: 4.0 # of the harbour")
    )
    write_benchmark(settings, items, tmp_path / "built", provenance)
    return shutil.move(tmp_path / "built", tmp_path / "moved")


def test_validate_finds_nothing_wrong(folder):
    (report,) = validate([str(folder / "harbours.yaml")])
    assert report.problems == ()
    assert (report.num_rows, report.num_requests) == (3, 12)
    context, continuation = report.example[0]
    assert context.startswith("The harbour is old.")
    assert continuation.strip().startswith("Its first keeper")


def test_names_and_languages_that_yaml_reads_as_something_else_are_texts(
    tmp_path, items, provenance
):
    settings = make_settings(name="2024", corpus=CorpusSettings(path="x.txt", language="no"))
    write_benchmark(settings, items, tmp_path, provenance)
    task = yaml.safe_load((tmp_path / "2024.yaml").read_text().replace("!function", ""))
    head = yaml.safe_load((tmp_path / "README.md").read_text().split("---\n")[1])
    assert (task["task"], task["metadata"]["language"]) == ("2024", "no")
    assert (head["pretty_name"], head["language"]) == ("2024", ["no"])


def test_lm_eval_runs_it(folder, evaluate, checkpoint):
    results = evaluate(
        "hf",
        ["harbours"],
        include=folder,
        model_args={"pretrained": str(checkpoint), "dtype": "float32"},
    )
    found = results["results"]["harbours"]
    assert 0 <= found["factor_acc,none"] <= 1
    assert found["unscored,none"] == 0
    assert "factor_acc_vs_predicate,none" in found
    assert results["configs"]["harbours"]["metadata"]["license"] == "CC BY: 4.0 # of the harbour"
