"""The benchmark of the filters' speed, beside that of their bare models on prepared batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.factor_gen.__main__ import main
from bench.factor_gen.filters import sample_examples
from tests.factor_gen.tiny import save_deberta


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> list[str]:
    """Return the arguments of a benchmark of two rows, which is run three times."""
    deberta = save_deberta(tmp_path_factory.mktemp("deberta"), checkpoint, places=512)
    models = ["--nli", str(deberta), "--fluency", str(checkpoint)]
    return ["filters", *models, "--rows", "2", "--runs", "3"]


@pytest.fixture(scope="module")
def results(
    arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Return the results of the benchmark by the name of the filter."""
    path = tmp_path_factory.mktemp("results") / "results.json"
    assert main([*arguments, "--json", str(path)]) == 0
    return {result["name"]: result for result in json.loads(path.read_text())["filters"]}


def test_every_text_of_the_rows_is_scored(results: dict[str, dict[str, Any]]) -> None:
    """Two rows have six contradictions. The fluency filter scores their two completions as well."""
    num_contradictions = sum(len(example.candidates) for example in sample_examples(2))

    assert num_contradictions == 6
    assert results["nli"]["texts"] == 6
    assert results["fluency"]["texts"] == 6 + 2


@pytest.mark.parametrize("name", ["nli", "fluency"])
@pytest.mark.parametrize("measurement", ["filter_seconds", "bare_seconds"])
def test_the_filter_and_its_model_alone_are_timed_in_every_run(
    results: dict[str, dict[str, Any]], name: str, measurement: str
) -> None:
    """Each of the three runs times the filter, and the bare model without our filter around it."""
    seconds = results[name][measurement]

    assert len(seconds) == 3
    assert min(seconds) > 0


def test_the_benchmark_prints_the_share_of_the_speed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the share of the bare model's speed that the filter reaches."""
    exit_code = main(arguments)

    assert exit_code == 0
    assert "share" in capsys.readouterr().out


def test_the_benchmark_fails_if_a_filter_is_slower_than_required(arguments: list[str]) -> None:
    """No filter is a thousand times as fast as its bare model."""
    exit_code = main([*arguments, "--least", "1000"])

    assert exit_code == 1


def test_a_missing_model_is_reported_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder has no model in it."""
    exit_code = main(["filters", "--nli", str(tmp_path), "--fluency", str(tmp_path)])

    message = capsys.readouterr().err
    assert exit_code == 1
    assert f"'{tmp_path}' cannot be loaded" in message
    assert "Traceback" not in message


def test_the_part_to_benchmark_has_to_be_named() -> None:
    """The parser ends the program with its usage."""
    with pytest.raises(SystemExit):
        main([])
