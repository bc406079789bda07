import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.benchmarks.chosen import figure
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.results.exports.about import (
    EVERY_EVAL_EVER,
    EVERY_EVAL_EVER_INSTANCE,
    check_against,
    read_schema,
)
from lm_factuality.results.exports.every_eval_ever import export_every_eval_ever

PUBLISHER = ("A Lab", "third_party")
MODEL = "acme/small"


def export(
    files: tuple[ResultsFile, ...], out: Path, samples: bool = False
) -> dict[str, dict[str, Any]]:
    """The records by their task."""
    paths, _ = export_every_eval_ever(files, out, PUBLISHER, MODEL, samples)
    return {path.relative_to(out).parts[1]: json.loads(path.read_text()) for path in paths}


def scores(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["metric_config"]["metric_name"]: each for each in record["evaluation_results"]}


@pytest.fixture(scope="module")
def records(
    scored: tuple[ResultsFile, ...],
    answered: tuple[ResultsFile, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, Any]]:
    out = tmp_path_factory.mktemp("records")
    return export(scored, out, samples=True) | export(answered, out, samples=True)


def test_every_task_has_a_record_that_is_as_the_schema_says(
    records: dict[str, dict[str, Any]],
) -> None:
    assert set(records) == {
        "sample_factor",
        "sample_factor_perplexity",
        "sample_felm",
        "sample_felm_gen",
    }
    check_against(EVERY_EVAL_EVER, records.values(), "record")
    assert (
        {each["schema_version"] for each in records.values()}
        == {read_schema(EVERY_EVAL_EVER)["version"]}
        == {"0.3.0"}
    )


def test_scores_and_their_uncertainty_are_those_of_the_results(
    records: dict[str, dict[str, Any]], scored: tuple[ResultsFile, ...]
) -> None:
    task = scored[0].task("sample_factor")
    assert task is not None
    for name, result in scores(records["sample_factor"]).items():
        found, details = figure(task, name), result["score_details"]
        assert found is not None
        assert details["score"] == found.value == task.metrics[name]
        assert details["details"] | {"unscored": "0", "num_samples": "40"} == details["details"]
        if found.stderr is None:  # all rows of one document
            assert "confidence_interval" not in details["uncertainty"]
            continue
        assert details["uncertainty"]["standard_error"]["value"] == found.stderr
        interval = details["uncertainty"]["confidence_interval"]
        assert (interval["lower"], interval["upper"], interval["confidence_level"]) == (
            found.low,
            found.high,
            0.95,
        )
    assert {"factor_acc", "acc", "acc_bytes"} < scores(records["sample_factor"]).keys()


def test_counts_and_bounds_are_no_scores(records: dict[str, dict[str, Any]]) -> None:
    names = {name for record in records.values() for name in scores(record)}
    assert not [
        name
        for name in names
        if re.search("worst|best|unscored|num_|truncated|logprob|^errors", name)
    ]
    details = scores(records["sample_factor"])["factor_acc"]["score_details"]["details"]
    assert details["score_if_unscored_are_wrong"] == repr(
        scores(records["sample_factor"])["factor_acc"]["score_details"]["score"]
    )


def test_direction_and_range_of_a_metric(records: dict[str, dict[str, Any]]) -> None:
    perplexity = scores(records["sample_factor_perplexity"])["perplexity"]["metric_config"]
    assert (perplexity["lower_is_better"], perplexity["min_score"], perplexity["max_score"]) == (
        True,
        1,
        "Infinity",
    )
    rate = scores(records["sample_felm_gen"])["segment_error_rate"]["metric_config"]
    assert (rate["lower_is_better"], rate["min_score"], rate["max_score"]) == (True, 0, 1)
    assert scores(records["sample_factor"])["acc"]["metric_config"]["lower_is_better"] is False


def test_model_data_and_settings(
    records: dict[str, dict[str, Any]], scored: tuple[ResultsFile, ...]
) -> None:
    model = records["sample_factor"]["model_info"]
    assert (model["id"], model["developer"], model["inference_engine"]["name"]) == (
        MODEL,
        "acme",
        "transformers",
    )
    details = model["additional_details"]
    assert (
        details
        | {"dtype": "float32", "deployment_type": "self_deployed", "model_availability": "unknown"}
        == details
    )
    result = records["sample_factor"]["evaluation_results"][0]
    task = scored[0].task("sample_factor")
    assert task is not None
    assert (
        result["source_data"]["additional_details"]["git_blob"] == task.metadata["data"]["git_blob"]
    )
    settings = result["generation_config"]["additional_details"]
    assert (
        settings | {"window": "1024", "protocol": "paper", "limit": "40.0", "num_fewshot": "0"}
        == settings
    )


def test_published_data_is_named_by_its_commit(
    scored: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    from lm_factuality.benchmarks import all_sources

    task = scored[0].tasks[0]
    task = replace(
        task, metadata=task.metadata | {"data": {"git_blob": all_sources()["wiki_factor"].blob}}
    )
    (record,) = export((replace(scored[0], tasks=(task,)),), tmp_path).values()
    source = record["evaluation_results"][0]["source_data"]
    assert source["url"] == [
        f"https://github.com/AI21Labs/factor/blob/{all_sources()['wiki_factor'].commit}/data/wiki_factor.csv"
    ]


def test_a_judge_is_named_with_its_prompts(
    records: dict[str, dict[str, Any]], answered: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    rule = scores(records["sample_felm_gen"])["segment_error_rate"]["metric_config"]
    assert "llm_scoring" not in rule  # the lexical judge is no language model
    assert (
        rule["additional_details"] | {"judge": "lexical", "judge_certified": "false"}
        == rule["additional_details"]
    )
    task = answered[0].task("sample_felm_gen")
    assert task is not None
    judge = {
        **task.metadata["judge_config"],
        "backend": "openai",
        "model": "some-judge",
        "base_url": "https://user:word@host",
    }
    task = replace(task, metadata=task.metadata | {"judge_config": judge, "judge_certificate": {}})
    (record,) = export((replace(answered[0], tasks=(task,)),), tmp_path).values()
    found = scores(record)["segment_error_rate"]["metric_config"]["llm_scoring"]
    assert found["judges"][0]["model_info"]["id"] == "some-judge"
    assert found["judges"][0]["temperature"] == 0
    assert "felm_gen/segment" in found["input_prompt"]
    assert found["additional_details"]["judge_certified"] == "true"
    assert "user:word" not in json.dumps(record)


def test_paths_and_arguments_of_the_run_stay_here(
    records: dict[str, dict[str, Any]], checkpoint: Path
) -> None:
    assert str(checkpoint) not in json.dumps(records)
    assert "pretrained" not in json.dumps(records)


def test_the_same_results_give_the_same_files(
    scored: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    export(scored, tmp_path / "a", samples=True)
    export(scored, tmp_path / "b", samples=True)
    one, other = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.json*")}
        for root in (tmp_path / "a", tmp_path / "b")
    )
    assert one == other
    form = re.compile(
        r"data/\w+/acme/small/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(\.json|_samples\.jsonl)"
    )
    assert all(form.fullmatch(path.as_posix()) for path in one)
    assert len({path.name.split(".")[0].removesuffix("_samples") for path in one}) == 2


def test_instances_are_as_the_schema_says_and_average_to_the_score(
    scored: tuple[ResultsFile, ...], answered: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    found = export(scored, tmp_path, samples=True) | export(answered, tmp_path, samples=True)
    assert "detailed_evaluation_results" not in found["sample_factor_perplexity"]
    for name in ("sample_factor", "sample_felm", "sample_felm_gen"):
        record = found[name]
        reference = record["detailed_evaluation_results"]
        rows = [
            json.loads(line)
            for line in (tmp_path / reference["file_path"]).read_text().splitlines()
        ]
        check_against(EVERY_EVAL_EVER_INSTANCE, rows, "sample")
        assert len(rows) == reference["total_rows"]
        assert {row["evaluation_id"] for row in rows} == {record["evaluation_id"]}
        (result,) = {row["evaluation_result_id"] for row in rows}
        assert result in {each["evaluation_result_id"] for each in record["evaluation_results"]}
    rows = [
        json.loads(line)
        for line in (tmp_path / found["sample_factor"]["detailed_evaluation_results"]["file_path"])
        .read_text()
        .splitlines()
    ]
    accuracy = sum(row["evaluation"]["score"] for row in rows) / len(rows)
    assert accuracy == pytest.approx(
        scores(found["sample_factor"])["factor_acc"]["score_details"]["score"]
    )
    assert all(
        (row["output"]["raw"] == row["input"]["reference"]) == row["evaluation"]["is_correct"]
        for row in rows
    )


def test_a_sample_without_a_score_is_left_out(
    scored: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    task = scored[0].task("sample_factor")
    assert task is not None
    assert task.samples is not None
    rows = [json.loads(line) for line in task.samples.read_text().splitlines()]
    rows[3] |= {"factor_acc": None, "unscored": "empty completion"}
    samples = tmp_path / "samples.jsonl"
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    changed = replace(task, samples=samples, metrics=task.metrics | {"unscored": 1.0})
    (record,) = export(
        (replace(scored[0], tasks=(changed,)),), tmp_path / "out", samples=True
    ).values()
    reference = record["detailed_evaluation_results"]
    assert (reference["total_rows"], reference["additional_details"]["unscored"]) == (39, "1")
    assert scores(record)["factor_acc"]["score_details"]["uncertainty"]["num_samples"] == 39


def test_a_task_without_a_score_has_no_record(
    scored: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    task = scored[0].tasks[0]
    nothing = replace(task, metrics={name: float("nan") for name in task.metrics})
    with pytest.raises(DataError, match="no score"):
        export((replace(scored[0], tasks=(nothing,)),), tmp_path)
    assert not list(tmp_path.iterdir())


def broken(record: dict[str, Any], *path: Any, value: Any = None) -> dict[str, Any]:
    """A copy with one field changed, or gone."""
    copy: Any = json.loads(json.dumps(record))
    place = copy
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model_info",), None),
        (("model_info", "additional_details", "deployment_type"), "at_home"),
        (("evaluation_results", 0, "score_details", "score"), "0.8"),
        (("evaluation_results", 0, "score_details", "details", "unscored"), 0),
        (("evaluation_results", 0, "metric_config", "min_score"), None),
        (("source_metadata", "evaluator_relationship"), "friend"),
        (("my_field",), "x"),
    ],
)
def test_a_broken_record_is_refused(
    records: dict[str, dict[str, Any]], path: tuple[Any, ...], value: Any
) -> None:
    with pytest.raises(DataError, match=r"record\[0\]"):
        check_against(
            EVERY_EVAL_EVER, [broken(records["sample_factor"], *path, value=value)], "record"
        )


@pytest.mark.parametrize(
    "name", ["small", "a/b/c", "../x", "acme/..", "acme/.x", "data/small", "a b/c"]
)
def test_a_model_needs_a_name_of_the_hub(
    scored: tuple[ResultsFile, ...], tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError, match="expected ORG/NAME"):
        export_every_eval_ever(scored, tmp_path, PUBLISHER, name)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_name(scored: tuple[ResultsFile, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--model ORG/NAME"):
        export_every_eval_ever(scored, tmp_path, PUBLISHER)


def test_one_name_is_not_given_to_two_models(
    scored: tuple[ResultsFile, ...], answered: tuple[ResultsFile, ...], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="2 models"):
        export((*scored, *answered), tmp_path)
