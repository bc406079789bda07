"""Scores made anew from samples are those that lm_eval wrote, for every kind of task."""

from __future__ import annotations

import json
import math

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.harness.samples import read_samples
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import differences, recompute
from tests.report.results import factor_task, write_results
from tests.results.conftest import KINDS


def find(folder, name):
    (file,) = read_results_files([folder])
    return file.task(name)


@pytest.mark.parametrize("name", KINDS)
def test_scores_made_anew_are_those_of_the_run(name, short_run):
    task = find(short_run, name)
    found = recompute(task)
    assert task.kind == KINDS[name]
    assert differences(task, found) == []
    defined = {key: value for key, value in task.metrics.items() if not math.isnan(value)}
    assert {
        key: value for key, value in found.metrics.items() if not math.isnan(value)
    } == pytest.approx(defined, abs=1e-9)
    assert {
        key for key, value in task.stderrs.items() if not math.isnan(value)
    } <= found.stderrs.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_changed_score_is_a_difference(name, short_run):
    task = find(short_run, name)
    metric = next(key for key, value in task.metrics.items() if not math.isnan(value))
    changed = dict(task.metrics) | {metric: task.metrics[metric] + 1e-6}
    forged = type(task)(**{**vars(task), "metrics": changed})
    assert [each.split(":")[0] for each in differences(forged, recompute(task))] == [metric]


def test_a_file_says_what_was_run(short_run):
    (file,) = read_results_files([short_run])
    assert (file.backend, file.dtype, file.variant, file.num_parameters) == (
        "hf",
        "float32",
        "",
        231168,
    )
    assert {"lm_eval", "suite", "transformers"} <= file.versions.keys()
    assert {each.task for each in file.tasks} == set(KINDS)
    task = file.task("sample_factor")
    assert (task.limit, task.num_samples, task.effective, task.version) == (12, 432, 12, "1.0")
    assert task.samples is not None
    assert task.metadata["data"]["rows"] == 432


@pytest.mark.parametrize(
    ("backend", "arguments", "variant"),
    [
        ("hf-tree", "pretrained=org/m,dtype=float16,max_length=512", ""),
        ("hf-prefix-free", "pretrained=org/m,dtype=float16", "hf-prefix-free"),
        ("hf-dola", "pretrained=org/m,layers=low,formula=code", "hf-dola formula=code layers=low"),
        (
            "hf-ralm",
            {"pretrained": "org/m", "index": "/data/wikipedia/", "stride": 4},
            "hf-ralm index=wikipedia stride=4",
        ),
        ("org/m", "rule=spacing", "rule=spacing"),  # a baseline is called by its --model
        (
            "anthropic-chat",
            "model=org/m,base_url=https://u:key@host/v1,num_concurrent=8",
            "anthropic-chat",
        ),
    ],
)
def test_a_variant_says_what_makes_another_model(backend, arguments, variant, tmp_path):
    path = write_results(tmp_path, {"t": factor_task([True, False])}, "org/m", model_args=arguments)
    path.write_text(
        path.read_text(encoding="utf-8").replace('"model": "hf"', f'"model": "{backend}"'),
        encoding="utf-8",
    )
    (file,) = read_results_files([path])
    assert file.variant == variant


def test_samples_of_another_task_are_an_error(short_run):
    task = find(short_run, "sample_factor")
    with pytest.raises(
        DataError, match="sample_factor, doc_id 0: not a sample as this task writes it"
    ):
        recompute(task, read_samples(find(short_run, "sample_felm").samples))


def test_a_logprob_that_is_no_number_is_an_error(short_run):
    task = find(short_run, "sample_factor")
    rows = list(read_samples(task.samples))
    rows[2]["resps"][0][0][0] = rows[2]["filtered_resps"][0][0] = "high"
    with pytest.raises(DataError, match="sample_factor, doc_id 2"):
        recompute(task, rows)


def test_responses_that_are_not_the_filtered_ones_are_an_error(short_run):
    task = find(short_run, "sample_factor")
    rows = list(read_samples(task.samples))
    rows[1]["filtered_resps"][0][0] = "-0.1"
    with pytest.raises(DataError, match="'filtered_resps' are not 'resps'"):
        recompute(task, rows)


def test_a_row_whose_own_metric_is_changed_is_named(short_run):
    task = find(short_run, "sample_factor")
    rows = [dict(each) for each in read_samples(task.samples)]
    rows[4]["factor_acc"] = 1.0 - rows[4]["factor_acc"]
    assert differences(task, recompute(task, rows)) == [
        "doc_id 4: its factor_acc does not follow from the row"
    ]


def test_samples_are_needed(short_run, tmp_path):
    (file,) = read_results_files([short_run])
    copy = tmp_path / file.path.name
    copy.write_bytes(file.path.read_bytes())
    (alone,) = read_results_files([copy])
    assert {each.samples for each in alone.tasks} == {None}
    with pytest.raises(DataError, match="--log_samples"):
        recompute(alone.tasks[0])


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"results": {"a": {}}}',
        '{"results": {"a": 3}, "configs": {"a": {}}}',
        "[" * 100_000,
    ],
)
def test_a_file_that_lm_eval_did_not_write_is_an_error(content, tmp_path):
    path = tmp_path / "results_2026-01-01T00-00-00.000000.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="not a results file of lm_eval"):
        read_results_files([path])


def test_no_results_are_an_error(tmp_path):
    with pytest.raises(DataError, match="no results_"):
        read_results_files([tmp_path])


def test_several_files_are_found_in_a_tree_once(short_run):
    (file,) = read_results_files([short_run, short_run])
    assert file.path.parent != short_run


@pytest.mark.parametrize("line", ["{", "3", '{"doc_id": 1}'])
def test_a_line_that_is_no_sample_is_named(line, tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps({"doc_id": 0, "doc": {}}) + f"\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match="samples.jsonl:2"):
        list(read_samples(path))
