"""The folder of a benchmark is a task of lm_eval, wherever it is moved to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from factor_gen.choose import DocumentOutcome
from factor_gen.output.write import Provenance, write_benchmark
from factor_gen.settings import CorpusSettings
from lm_factuality.cli.validation import check_targets
from tests.factor_gen.output.conftest import make_settings

LICENSE = "CC BY: 4.0 # of the harbour"
"""A licence with the signs that separate keys and begin comments in YAML."""


@pytest.fixture
def folder(tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance) -> Path:
    """Return the folder of a benchmark that was moved after it was written."""
    settings = make_settings(corpus=CorpusSettings(path="x.txt", license=LICENSE))
    write_benchmark(settings, outcomes, tmp_path / "built", provenance)
    return shutil.move(tmp_path / "built", tmp_path / "moved")


def test_the_validation_finds_no_problems(folder: Path) -> None:
    """The command that checks users' tasks must accept our own."""
    [report] = check_targets([str(folder / "harbours.yaml")])

    assert report.problems == ()
    assert report.num_rows == 3
    # One for each of the four choices of a row.
    assert report.num_requests == 12


def test_a_request_has_the_prefix_and_a_choice(folder: Path) -> None:
    """A task without a mistake in form may still ask about the wrong columns."""
    [report] = check_targets([str(folder / "harbours.yaml")])

    context, continuation = report.example[0]
    assert context.startswith("The harbour is old.")
    assert continuation.strip().startswith("Its first keeper")


def test_names_and_languages_are_texts_in_the_yaml_of_a_task(
    tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance
) -> None:
    """Without quotes, YAML reads 2024 as a number, and "no", the code of Norwegian, as false."""
    settings = make_settings(name="2024", corpus=CorpusSettings(path="x.txt", language="no"))

    write_benchmark(settings, outcomes, tmp_path, provenance)

    text = (tmp_path / "2024.yaml").read_text()
    # Only lm_eval knows the tag of its functions.
    task = yaml.safe_load(text.replace("!function", ""))
    assert task["task"] == "2024"
    assert task["metadata"]["language"] == "no"


def test_names_and_languages_are_texts_in_the_dataset_card(
    tmp_path: Path, outcomes: list[DocumentOutcome], provenance: Provenance
) -> None:
    """Without quotes, YAML reads 2024 as a number, and "no", the code of Norwegian, as false."""
    settings = make_settings(name="2024", corpus=CorpusSettings(path="x.txt", language="no"))

    write_benchmark(settings, outcomes, tmp_path, provenance)

    _, front_matter_text, *_ = (tmp_path / "README.md").read_text().split("---\n")
    front_matter = yaml.safe_load(front_matter_text)
    assert front_matter["pretty_name"] == "2024"
    assert front_matter["language"] == ["no"]


@pytest.fixture
def lm_eval_results(
    folder: Path, evaluate: Callable[..., dict[str, Any]], checkpoint: Path
) -> dict[str, Any]:
    """Return the results of lm_eval's own model class on the benchmark."""
    model_args = {"pretrained": str(checkpoint), "dtype": "float32"}
    return evaluate("hf", ["harbours"], include=folder, model_args=model_args)


def test_lm_eval_runs_the_task(lm_eval_results: dict[str, Any]) -> None:
    """Users of lm_eval need no class of this suite."""
    scores = lm_eval_results["results"]["harbours"]

    assert 0 <= scores["factor_acc,none"] <= 1
    assert scores["unscored,none"] == 0
    assert "factor_acc_vs_predicate,none" in scores
    # The licence went through YAML unchanged.
    assert lm_eval_results["configs"]["harbours"]["metadata"]["license"] == LICENSE
