from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResultEntry, parse_eval_result_entries

from lm_factuality.benchmarks.chosen import figure
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.results.hub import Benchmark, export_hub, parse_benchmark
from lm_factuality.results.read import read_results_files

BENCHMARK = parse_benchmark("sample_factor=acme/factor:sample@0123abcd")
MODEL = "acme/small"


@pytest.fixture(scope="module")
def limited(short_run: Path) -> ResultsFile:
    """A model's run on twelve rows or documents of each task."""
    return read_results_files([short_run])[0]


@pytest.fixture(scope="module")
def whole(limited: ResultsFile) -> ResultsFile:
    """The same, as if the twelve were all that the tasks have."""
    tasks = tuple(
        replace(task, limit=None, num_samples=task.effective)
        for task in limited.tasks
        if task.kind in ("factor", "perplexity")
    )
    return replace(limited, tasks=tasks)


def with_metrics(file: ResultsFile, **metrics: float) -> ResultsFile:
    task = file.task("sample_factor")
    assert task is not None
    return replace(file, tasks=(replace(task, metrics=metrics),))


def read(path: Path) -> EvalResultEntry:
    (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text(encoding="utf-8")))
    return entry


def test_what_is_written_is_what_huggingface_hub_reads(whole: ResultsFile, tmp_path: Path) -> None:
    source = {"url": "https://example.org/report", "name": "Report", "org": "acme"}
    task = whole.task("sample_factor")
    assert task is not None
    score = figure(task, "factor_acc")
    assert score is not None

    (path,), _ = export_hub([whole], tmp_path, [BENCHMARK], MODEL, source)

    assert path == tmp_path / "acme/small/.eval_results/factor_sample.yaml"
    entry = read(path)
    assert entry == EvalResultEntry(
        dataset_id="acme/factor",
        task_id="sample",
        value=round(100 * score.value, 4),
        dataset_revision="0123abcd",
        date=entry.date,
        source_url="https://example.org/report",
        source_name="Report",
        source_org="acme",
        notes=entry.notes,
    )
    assert str(entry.notes).startswith(
        f"factor_acc in per cent; 95% interval {100 * score.low:.2f} to {100 * score.high:.2f};"
        " 0 of 12 unscored"
    )
    assert str(entry.date).startswith("20")


def test_notes_say_what_unscored_items_could_do(whole: ResultsFile, tmp_path: Path) -> None:
    file = with_metrics(
        whole, factor_acc=0.5, unscored=3.0, factor_acc_worst=0.4, factor_acc_best=0.6
    )
    (path,), _ = export_hub([file], tmp_path, [BENCHMARK], MODEL)
    assert "3 of 12 unscored; 40.00 to 60.00 if those are wrong or right" in str(read(path).notes)


def test_the_newest_run_counts(whole: ResultsFile, tmp_path: Path) -> None:
    older = replace(with_metrics(whole, factor_acc=0.001), date=whole.date - 1000)
    (path,), left_out = export_hub([whole, older], tmp_path, [BENCHMARK], MODEL)
    assert read(path).value != 0.1
    assert left_out == [
        "sample_factor_perplexity: no dataset is named for it; add --benchmark"
        " sample_factor_perplexity=ORG/DATASET",
        f"sample_factor of {whole.path.name}: {whole.path.name} is newer",
    ]


def test_a_perplexity_is_not_in_per_cent(whole: ResultsFile, tmp_path: Path) -> None:
    task = whole.task("sample_factor_perplexity")
    assert task is not None
    (path,), _ = export_hub([whole], tmp_path, [Benchmark(task.task, "acme/factor", "text")], MODEL)
    assert read(path).value == pytest.approx(task.metrics["perplexity"], abs=1e-4)


def test_a_limited_run_is_refused(limited: ResultsFile, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--limit 12"):
        export_hub([limited], tmp_path, [BENCHMARK], MODEL)
    assert not list(tmp_path.iterdir())


def test_a_run_without_a_score_is_refused(whole: ResultsFile, tmp_path: Path) -> None:
    file = with_metrics(whole, factor_acc=float("nan"), unscored=12.0)
    with pytest.raises(DataError, match="12 of 12 unscored"):
        export_hub([file], tmp_path, [BENCHMARK], MODEL)


def test_a_date_that_is_none_is_refused(whole: ResultsFile, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'date' is 1e\\+300, no number of seconds since 1970"):
        export_hub([replace(whole, date=1e300)], tmp_path, [BENCHMARK], MODEL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmarks": []}, "--benchmark TASK=ORG/DATASET"),
        ({"benchmarks": [parse_benchmark("sample_facto=a/b")]}, "did you mean sample_factor"),
        ({"model": "data/small"}, "expected ORG/NAME as on the Hub"),
        ({"model": None}, "expected ORG/NAME as on the Hub"),
        ({"source": {"url": "javascript:alert(1)"}}, "expected an address with https://"),
    ],
)
def test_what_the_hub_would_not_take_is_refused(
    arguments: dict[str, Any], message: str, whole: ResultsFile, tmp_path: Path
) -> None:
    settings = {"benchmarks": [BENCHMARK], "model": MODEL, **arguments}
    with pytest.raises(ConfigError, match=message):
        export_hub([whole], tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_one_name_for_two_models_is_refused(whole: ResultsFile, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the results are of 2 models"):
        export_hub([whole, replace(whole, model="larger")], tmp_path, [BENCHMARK], MODEL)


def test_benchmarks_as_text() -> None:
    assert parse_benchmark("felm=hkust-nlp/felm") == Benchmark("felm", "hkust-nlp/felm", "felm")


@pytest.mark.parametrize(
    "text", ["felm", "felm=felm", "felm=a/b/c", "felm=a/b@main", "=a/b", "felm=.a/b"]
)
def test_another_form_of_a_benchmark_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected TASK=ORG"):
        parse_benchmark(text)
