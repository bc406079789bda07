"""Scores that are recomputed from samples are those that lm_eval wrote."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.harness.samples import read_samples
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import differences, recompute
from tests.report.results import factor_task, write_results
from tests.results.conftest import KINDS


def task_of(folder, name):
    """Return a task of the one results file in a folder."""
    (file,) = read_results_files([folder])
    return file.task(name)


def defined_scores(scores):
    """Return the scores that are not NaN."""
    return {name: value for name, value in scores.items() if not math.isnan(value)}


@pytest.mark.parametrize("name", KINDS)
def test_recomputed_scores_equal_the_scores_of_the_run(name, short_run):
    """The suite's own formulas must agree with what lm_eval aggregated in the run."""
    task = task_of(short_run, name)

    recomputed = recompute(task)

    assert task.kind == KINDS[name]
    assert differences(task, recomputed) == []
    assert defined_scores(recomputed.metrics) == pytest.approx(
        defined_scores(task.metrics), abs=1e-9
    )
    assert defined_scores(task.stderrs).keys() <= recomputed.stderrs.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_changed_score_is_a_difference(name, short_run):
    """A change in the sixth decimal is found."""
    task = task_of(short_run, name)
    any_metric, *_ = defined_scores(task.metrics)
    forged_metrics = {**task.metrics, any_metric: task.metrics[any_metric] + 1e-6}
    forged_task = replace(task, metrics=forged_metrics)

    (sentence,) = differences(forged_task, recompute(task))

    assert sentence.startswith(f"{any_metric}:")


def test_results_name_the_model_and_the_versions_of_the_run(short_run):
    """Whoever repeats a run needs both; the tiny checkpoint has 231,168 parameters."""
    (file,) = read_results_files([short_run])

    assert file.backend == "hf"
    assert file.dtype == "float32"
    assert file.variant == ""
    assert file.num_parameters == 231168
    assert {"lm_eval", "suite", "transformers"} <= file.versions.keys()


def test_results_list_all_tasks_of_the_run(short_run):
    (results_file,) = read_results_files([short_run])

    assert {task.task for task in results_file.tasks} == {
        "sample_factor",
        "sample_factor_chat",
        "sample_factor_perplexity",
        "sample_felm",
        "sample_felm_gen",
        "sample_factor_generation",
        "sample_ambigbio",
    }


def test_results_say_how_many_rows_were_run(short_run):
    """The run took 12 of the 432 rows, which a reader of the scores must be able to see."""
    (results_file,) = read_results_files([short_run])

    task = results_file.task("sample_factor")
    assert task.limit == 12
    assert task.effective == 12  # what lm_eval calls the number of rows that were run
    assert task.num_samples == 432
    assert task.metadata["data"]["rows"] == 432
    assert task.version == "1.0"  # of the task
    assert task.samples is not None


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
def test_variant_names_arguments_affecting_the_model(backend, arguments, variant, tmp_path):
    """A table must tell a model with retrieval from the bare one, and show no key or path."""
    tasks = {"t": factor_task([True, False])}
    path = write_results(tmp_path, tasks, "org/m", model_args=arguments)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["config"]["model"] = backend
    path.write_text(json.dumps(content), encoding="utf-8")

    (file,) = read_results_files([path])

    assert file.variant == variant


@pytest.fixture
def factor_results(short_run):
    """Return the task sample_factor of the run."""
    return task_of(short_run, "sample_factor")


@pytest.fixture
def factor_samples(factor_results):
    """Return the samples of the task sample_factor."""
    return list(read_samples(factor_results.samples))


def test_samples_of_another_task_are_refused(short_run, factor_results):
    """Scores of other rows would look like these."""
    felm_samples = read_samples(task_of(short_run, "sample_felm").samples)

    with pytest.raises(
        DataError, match="sample_factor, doc_id 0: not a sample as this task writes it"
    ):
        recompute(factor_results, felm_samples)


def test_log_probability_must_be_a_number(factor_results, factor_samples):
    """The message names the row."""
    factor_samples[2]["resps"][0][0][0] = "high"
    factor_samples[2]["filtered_resps"][0][0] = "high"

    with pytest.raises(DataError, match="sample_factor, doc_id 2"):
        recompute(factor_results, factor_samples)


def test_filtered_responses_must_equal_the_responses(factor_results, factor_samples):
    """Scores are computed from one of the two fields, and readers look at the other one."""
    factor_samples[1]["filtered_resps"][0][0] = "-0.1"

    with pytest.raises(DataError, match="'filtered_resps' are not 'resps'"):
        recompute(factor_results, factor_samples)


def test_a_row_with_a_changed_metric_is_a_difference(factor_results, factor_samples):
    """Readers look at single rows, so each must follow from its responses."""
    factor_samples[4]["factor_acc"] = 1.0 - factor_samples[4]["factor_acc"]

    sentences = differences(factor_results, recompute(factor_results, factor_samples))

    assert sentences == ["doc_id 4: its factor_acc does not follow from the row"]


def test_results_without_samples_are_not_recomputed(short_run, tmp_path):
    """Nothing but the samples shows how a score came about."""
    (file,) = read_results_files([short_run])
    copy = tmp_path / file.path.name
    copy.write_bytes(file.path.read_bytes())

    (file_without_samples,) = read_results_files([copy])

    assert {task.samples for task in file_without_samples.tasks} == {None}
    with pytest.raises(DataError, match="--log_samples"):
        recompute(file_without_samples.tasks[0])


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"results": {"a": {}}}',
        '{"results": {"a": 3}, "configs": {"a": {}}}',
        pytest.param("[" * 100_000, id="deeply nested"),
    ],
)
def test_foreign_results_file_is_refused(content, tmp_path):
    """The user learns which file is wrong, instead of a traceback or a score that means nothing."""
    path = tmp_path / "results_2026-01-01T00-00-00.000000.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(DataError, match="not a results file of lm_eval"):
        read_results_files([path])


def test_a_folder_without_results_is_refused(tmp_path):
    """The folder is a typing error, or its run did not end."""
    with pytest.raises(DataError, match="no results_"):
        read_results_files([tmp_path])


def test_a_folder_that_is_named_twice_is_read_once(short_run):
    """A user may name a folder twice, and no model must count twice."""
    files = read_results_files([short_run, short_run])

    assert len(files) == 1


def test_results_in_a_folder_of_the_folder_are_read(short_run):
    """lm_eval makes a folder for the model in the folder that the user named."""
    (file,) = read_results_files([short_run])

    assert file.path.parent.parent == short_run


@pytest.mark.parametrize("line", ["{", "3", '{"doc_id": 1}'])
def test_malformed_sample_is_refused_with_its_line_number(line, tmp_path):
    """The second line is the bad one. A file of samples has thousands, so its number is needed."""
    path = tmp_path / "samples.jsonl"
    sound_line = json.dumps({"doc_id": 0, "doc": {}})
    path.write_text(f"{sound_line}\n{line}\n", encoding="utf-8")

    with pytest.raises(DataError, match="samples.jsonl:2"):
        list(read_samples(path))
