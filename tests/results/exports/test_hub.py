from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from lm_factuality.benchmarks.chosen import figure
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.results.exports.about import HUB, check_against
from lm_factuality.results.exports.hub import Benchmark, export_hub, parse_benchmark

BENCHMARK = parse_benchmark("sample_factor=acme/factor:sample@0123abcd")


def read(path: Path) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = yaml.safe_load(path.read_text())
    return content


def test_what_is_written_is_what_huggingface_hub_reads(
    whole: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    source = {"url": "https://example.org/report", "name": "Report", "org": "acme"}
    (path,), _ = export_hub(whole, tmp_path, [BENCHMARK], "acme/small", source)
    assert path == tmp_path / "acme/small/.eval_results/factor_sample.yaml"
    check_against(HUB, [read(path)], path.name)
    (entry,) = parse_eval_result_entries(read(path))
    task = whole[0].task("sample_factor")
    assert task is not None
    found = figure(task, "factor_acc")
    assert found is not None
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == (
        "acme/factor",
        "sample",
        "0123abcd",
    )
    assert entry.value == pytest.approx(100 * found.value, abs=1e-4)
    assert (entry.source_url, entry.source_name, entry.source_org) == (
        "https://example.org/report",
        "Report",
        "acme",
    )
    assert entry.notes is not None
    assert (
        f"factor_acc in per cent; 95% interval {100 * found.low:.2f} to {100 * found.high:.2f}; 0 of 40 unscored"
        in entry.notes
    )
    assert isinstance(entry.date, str)
    assert entry.date.startswith("20")


def test_unscored_and_what_they_could_do(whole: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    task = replace(
        whole[0].tasks[0],
        metrics={
            "factor_acc": 0.5,
            "unscored": 3.0,
            "factor_acc_worst": 0.4,
            "factor_acc_best": 0.6,
        },
    )
    (path,), _ = export_hub([replace(whole[0], tasks=(task,))], tmp_path, [BENCHMARK], "acme/small")
    assert "3 of 40 unscored; 40.00 to 60.00 if those are wrong or right" in read(path)[0]["notes"]


def test_the_newest_run_counts(whole: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    older = replace(
        whole[0],
        date=whole[0].date - 1000,
        tasks=(replace(whole[0].tasks[0], metrics={"factor_acc": 0.001}),),
    )
    (path,), left_out = export_hub([older, *whole], tmp_path, [BENCHMARK], "acme/small")
    assert read(path)[0]["value"] != 0.1
    names = whole[0].path.name
    others = [f"{task.task}: no dataset" for task in whole[0].tasks[1:]]
    assert [said.partition(" stands")[0] for said in left_out] == [
        *sorted(others),
        f"{BENCHMARK.task} of {names}: {names} is newer",
    ]


def test_a_perplexity_is_no_share(scored: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    (file,) = scored
    task = file.task("sample_factor_perplexity")
    assert task is not None
    (path,), _ = export_hub(
        [replace(file, tasks=(replace(task, limit=None),))],
        tmp_path,
        [Benchmark(task.task, "acme/factor", "text")],
        "acme/small",
    )
    assert read(path)[0]["value"] == pytest.approx(task.metrics["perplexity"], abs=1e-4)


def test_a_limited_run_is_refused(scored: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--limit 40"):
        export_hub(scored, tmp_path, [BENCHMARK], "acme/small")
    assert not list(tmp_path.iterdir())


def test_no_score_is_no_result(whole: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    task = replace(whole[0].tasks[0], metrics={"factor_acc": float("nan"), "unscored": 401.0})
    with pytest.raises(DataError, match="401 of 40 unscored"):
        export_hub([replace(whole[0], tasks=(task,))], tmp_path, [BENCHMARK], "acme/small")


def test_the_benchmark_has_to_be_named(whole: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--benchmark TASK=ORG/DATASET"):
        export_hub(whole, tmp_path, [], "acme/small")
    with pytest.raises(ConfigError, match="did you mean sample_factor"):
        export_hub(whole, tmp_path, [parse_benchmark("sample_facto=acme/factor")], "acme/small")


def test_benchmarks_as_text() -> None:
    assert parse_benchmark("felm=hkust-nlp/felm") == Benchmark("felm", "hkust-nlp/felm", "felm")
    for wrong in ("felm", "felm=felm", "felm=a/b/c", "felm=a/b@main", "=a/b"):
        with pytest.raises(ConfigError, match="expected TASK=ORG"):
            parse_benchmark(wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": {"id": "factor", "task_id": "x"}},
        {"dataset": {"id": "acme/factor"}},
        {"value": "84.5"},
        {"date": "yesterday"},
        {"source": {"name": "Report"}},
        {"source": {"url": "javascript:alert(1)"}},
        {"score": 1},
    ],
)
def test_a_broken_file_is_refused(change: dict[str, Any]) -> None:
    sound = {"dataset": {"id": "acme/factor", "task_id": "x"}, "value": 84.5, "date": "2026-11-21"}
    check_against(HUB, [[sound]], "file")
    with pytest.raises(DataError, match="hub_eval_results"):
        check_against(HUB, [[sound | change]], "file")


def test_a_date_that_is_none_is_refused(whole: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'date' is 1e\\+300, no number of seconds since 1970"):
        export_hub([replace(whole[0], date=1e300)], tmp_path, [BENCHMARK], "acme/small")
