"""The FACTOR tasks in lm_eval: metrics, groups, data and what the results say of themselves."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from lm_eval.models.huggingface import HFLM

from lm_factuality.cli.main import main
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.harness.context import EvaluationRun, begin_run
from lm_factuality.models.hf_tree import HFTree
from tests.conftest import TASKS, example_row
from tests.two_processes import one_of_two


def write_csv(path: Path, rows: list[dict]) -> None:
    """Write rows with the same columns as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def data_dir(tmp_path) -> Path:
    """Return a folder that stands in for the published files, with 4, 6 and 8 rows."""
    folder = tmp_path / "published"
    folder.mkdir()
    for name, num_rows in (("wiki", 4), ("news", 6), ("expert", 8)):
        rows = [
            example_row(
                doc_id=str(number // 2),
                turncated_prefixes=f"Item {number} of {name}. ",
                completion=f"It fell in {1800 + number} ,then rose .",
            )
            for number in range(num_rows)
        ]
        write_csv(folder / f"{name}_factor.csv", rows)
    return folder


def row_with_shortest_choice(number: int, document: str, *, is_shortest_true: bool) -> dict:
    """Return a row of a document whose shortest choice is the true one or a contradiction."""
    completion, contradiction = "It fell down.", "It fell."
    if is_shortest_true:
        completion, contradiction = contradiction, completion
    return example_row(
        doc_id=document,
        prefix=f"Item {number}. ",
        completion=completion,
        contradiction_0=contradiction,
        contradiction_1="It fell far down.",
        contradiction_2="It fell very far down.",
    )


def test_standard_error_is_clustered_by_document(tmp_path, evaluate, factor_yaml, write_rows):
    """Rows of one document resemble each other, so they count less than independent ones."""
    # The baseline takes the shortest choice, which is true in the rows of two documents.
    rows = []
    for document in ("a", "b", "c", "d"):
        is_true = document in ("a", "b")
        rows += [
            row_with_shortest_choice(number, document, is_shortest_true=is_true)
            for number in range(3)
        ]
    write_rows(rows)
    factor_yaml(dataset_path="rows.jsonl")

    output = evaluate("surface-baseline", ["my_factor"], tmp_path, {"rule": "shortest"})

    accuracies = [sample["acc"] for sample in output["samples"]["my_factor"]]
    stderr = output["results"]["my_factor"]["acc_stderr,none"]
    assert accuracies == [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    # Of four documents, two have an accuracy of 1 and two of 0: sqrt(0.5 * 0.5 / (4 - 1)).
    assert stderr == pytest.approx(math.sqrt(0.25 / 3))


def test_results_record_the_data_and_the_suite_version(evaluate):
    """Two results are comparable only if both are the same."""
    output = evaluate("surface-baseline", ["sample_factor"], model_args={"rule": "random"}, limit=1)

    metadata = output["configs"]["sample_factor"]["metadata"]
    assert metadata["data"]["file"] == "sample_factor.csv"
    assert len(metadata["data"]["git_blob"]) == 40  # hexadecimal digits of a SHA-1
    assert metadata["suite_version"]


CORPORA = ("wiki", "news", "expert")


@pytest.fixture
def group_output(evaluate, checkpoint, data_dir):
    """Return the output of a run of the group ``factor`` on ``data_dir``."""
    arguments = {"pretrained": str(checkpoint), "dtype": "float32"}
    return evaluate("hf", ["factor"], model_args=arguments, metadata={"data_dir": str(data_dir)})


def test_group_score_is_the_unweighted_mean_of_its_corpora(group_output):
    """The corpora have 4, 6 and 8 rows, but each counts for a third."""
    scores = [group_output["results"][f"{name}_factor"]["factor_acc,none"] for name in CORPORA]

    group_score = group_output["groups"]["factor"]["factor_acc,none"]

    assert group_score == pytest.approx(sum(scores) / 3)


def test_the_group_runs_the_files_of_the_data_folder(group_output):
    """Users may keep the published files anywhere, since the suite does not ship them."""
    row_counts = [group_output["n-samples"][f"{name}_factor"]["effective"] for name in CORPORA]
    metadata = group_output["configs"]["wiki_factor"]["metadata"]

    assert row_counts == [4, 6, 8]  # as ``data_dir`` writes them
    assert metadata["data"]["is_published"] is False


@pytest.mark.parametrize(("rank", "expected_count"), [("0", 1), ("1", 0)])
def test_warning_is_logged_once_by_the_first_process(
    evaluate, data_dir, caplog, monkeypatch, rank, expected_count
):
    """The caution is that the spacing of Expert-FACTOR gives the answers away."""
    begin_run(EvaluationRun())
    monkeypatch.setenv("RANK", rank)

    for _ in range(2):  # the tasks are made twice in one run
        evaluate(
            "surface-baseline",
            ["factor"],
            model_args={"rule": "random"},
            limit=2,
            metadata={"data_dir": str(data_dir)},
        )

    cautions = [
        record.message for record in caplog.records if "expert_factor_clean" in record.message
    ]
    assert len(cautions) == expected_count


@pytest.fixture
def output_with_two_broken_rows(evaluate, checkpoint, write_rows, factor_yaml, tmp_path):
    """Return lm_eval's output on four rows of which the first and the third cannot be scored.

    The first lacks a contradiction, and in the third a contradiction equals the true completion.
    """
    rows = [
        example_row(doc_id=str(number), turncated_prefixes=f"Part {number}. ")
        for number in range(4)
    ]
    rows[0]["contradiction_1"] = ""
    rows[2]["completion"] = rows[2]["contradiction_0"]
    write_rows(rows)
    factor_yaml(dataset_path="rows.jsonl")
    model_args = {"pretrained": str(checkpoint), "dtype": "float32"}
    return evaluate("hf", ["my_factor"], tmp_path, model_args)


def test_unscorable_rows_have_a_reason(output_with_two_broken_rows, caplog):
    """A user can then repair the data. The log tells how many rows it is about."""
    first, _, third, _ = output_with_two_broken_rows["samples"]["my_factor"]

    warnings = [record.message for record in caplog.get_records("setup")]
    assert any("2 of 4 rows cannot be scored" in warning for warning in warnings)
    assert first["unscored"] == "choice 2 (contradiction_1) is empty"
    assert first["factor_acc"] is None
    assert "a contradiction equals the true completion" in third["unscored"]


def test_unscorable_rows_are_counted_with_the_score(output_with_two_broken_rows):
    """The accuracy is over the two of four rows that have a score."""
    samples = output_with_two_broken_rows["samples"]["my_factor"]
    num_right = sum(sample["factor_acc"] or 0 for sample in samples)

    metrics = output_with_two_broken_rows["results"]["my_factor"]
    assert metrics["unscored,none"] == 2
    assert metrics["factor_acc,none"] == num_right / 2
    assert metrics["factor_acc_worst,none"] == num_right / 4
    assert metrics["factor_acc_best,none"] == (num_right + 2) / 4


@pytest.mark.parametrize(
    ("bad_line", "message"),
    [
        pytest.param("[1]", "rows.jsonl:2: found a JSON list", id="no mapping"),
        pytest.param("{]", "rows.jsonl:2: not valid JSON", id="no JSON"),
    ],
)
def test_a_broken_file_is_refused(evaluate, checkpoint, factor_yaml, tmp_path, bad_line, message):
    """A run on the readable rows alone would look like one on all rows."""
    sound_line = json.dumps(example_row())
    (tmp_path / "rows.jsonl").write_text(f"{sound_line}\n{bad_line}\n", encoding="utf-8")
    factor_yaml(dataset_path="rows.jsonl")

    with pytest.raises(DataError, match=message):
        evaluate("hf", ["my_factor"], tmp_path, {"pretrained": str(checkpoint)})


def test_an_unknown_metric_is_refused(evaluate, checkpoint, factor_yaml, tmp_path):
    """lm_eval would print an empty table and end with exit code 0."""
    factor_yaml(dataset_path="rows.jsonl", metric_list=[{"metric": "factor_accuracy"}])

    with pytest.raises(
        ConfigError, match="metric_list: no score 'factor_accuracy'; did you mean factor_acc?"
    ):
        evaluate("hf", ["my_factor"], tmp_path, {"pretrained": str(checkpoint)})


def test_api_keys_in_model_arguments_are_not_in_the_results(
    evaluate, write_rows, factor_yaml, tmp_path
):
    """lm_eval writes the arguments of models to the results, which people publish."""
    write_rows([example_row()])
    factor_yaml(dataset_path="rows.jsonl")
    model_arguments = {"rule": "random", "api_key": "sk-secret"}

    output = evaluate("surface-baseline", ["my_factor"], tmp_path, model_arguments)

    assert "sk-secret" not in json.dumps(output["configs"])


def test_the_request_cache_of_lm_eval_is_not_used(
    evaluate, write_rows, factor_yaml, tmp_path, monkeypatch
):
    """The cache would give the requests of the first rows again after the file has changed."""
    monkeypatch.setenv("LM_HARNESS_CACHE_PATH", str(tmp_path / "requests"))
    factor_yaml(dataset_path="rows.jsonl")

    def context_of_first_request() -> str:
        output = evaluate(
            "surface-baseline", ["my_factor"], tmp_path, {"rule": "random"}, cache_requests=True
        )
        first_sample = output["samples"]["my_factor"][0]
        context, _continuation, *_ = first_sample["arguments"][0]
        return context

    # The authors' files spell the name of the column in this way.
    write_rows([example_row(turncated_prefixes="One. ")])
    context = context_of_first_request()
    write_rows([example_row(turncated_prefixes="Two. ")])
    context_after_change = context_of_first_request()

    assert context == "One."
    assert context_after_change == "Two."


def test_eight_line_yaml_adds_a_corpus_with_other_columns(
    evaluate, checkpoint, tmp_path, write_rows
):
    """A user can score models on a table of their own without any code."""
    row = {
        "context": "It rained. ",
        "right": "The match was called off.",
        "wrong": "The match went on.",
        "article": 7,
    }
    write_rows([row])
    yaml = f"""\
include: {TASKS / "factor" / "_factor.yaml"}
task: weather_factor
dataset_path: rows.jsonl
metadata:
  version: 1.0
  license: CC0-1.0
  columns: {{prefix: context, completion: right, contradictions: [wrong], doc_id: article}}
"""
    (tmp_path / "weather.yaml").write_text(yaml, encoding="utf-8")
    arguments = {"pretrained": str(checkpoint), "dtype": "float32"}

    output = evaluate("hf", ["weather_factor"], tmp_path, arguments)

    assert output["samples"]["weather_factor"][0]["doc"]["doc_id"] == "7"
    assert output["results"]["weather_factor"]["unscored,none"] == 0


def test_relative_path_in_a_yaml_ignores_the_working_folder(
    tmp_path, write_rows, factor_yaml, monkeypatch, evaluate
):
    """A file of the same name there could hold other data."""
    # lm_eval loads a YAML that is named by its path without saying in which folder it is.
    from lm_eval.tasks._yaml_loader import load_yaml

    write_rows([example_row()])
    config = load_yaml(factor_yaml(dataset_path="rows.jsonl"))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match="give --include_path FOLDER and the name of the task"):
        evaluate("surface-baseline", [config], tmp_path, {"rule": "random"})


@pytest.fixture
def evaluate_six_rows(write_rows, factor_yaml, tmp_path):
    """Return a function that lets a model score six rows, one of which has an empty completion."""
    from lm_eval import evaluate
    from lm_eval.tasks import TaskManager

    rows = [
        example_row(
            doc_id=str(number // 2),
            turncated_prefixes=f"Part {number}. ",
            contradiction_0_type="entity",
            contradiction_1_type="predicate",
            # The first row has a contradiction without a type.
            contradiction_2_type="link" if number else "",
        )
        for number in range(6)
    ]
    rows[3]["completion"] = ""
    write_rows(rows)
    factor_yaml(dataset_path="rows.jsonl")
    manager = TaskManager(include_path=[str(TASKS), str(tmp_path)], include_defaults=False)
    return lambda model: evaluate(model, manager.load(["my_factor"]), bootstrap_iters=1)


@pytest.mark.parametrize("model_class", [HFLM, HFTree])
def test_two_processes_give_the_same_results_as_one(model_class, checkpoint, evaluate_six_rows):
    """Each process scores every other row, and the first one returns the results of both."""
    arguments = {"pretrained": str(checkpoint), "dtype": "float32", "device": "cpu"}
    expected = evaluate_six_rows(model_class(**arguments))["results"]["my_factor"]
    model = one_of_two(model_class)(**arguments)

    output_of_second = evaluate_six_rows(model.start(1))
    output_of_first = evaluate_six_rows(model.start(0))

    assert output_of_second is None
    assert len(output_of_first["samples"]["my_factor"]) == 6
    results = output_of_first["results"]["my_factor"]
    assert results["unscored,none"] == 1
    for name, value in expected.items():
        if isinstance(value, float):
            assert results[name] == pytest.approx(value, rel=1e-4), name


def test_samples_do_not_depend_on_the_folder_of_the_data(evaluate, factor_yaml, tmp_path):
    """Leaderboards compare the hashes of rows from different machines."""
    samples = []
    for folder_name in ("first", "second"):
        path = tmp_path / folder_name / "rows.jsonl"
        path.parent.mkdir()
        path.write_text(json.dumps(example_row()) + "\n", encoding="utf-8")
        factor_yaml(dataset_path=str(path))
        output = evaluate("surface-baseline", ["my_factor"], tmp_path, {"rule": "random"})
        samples += output["samples"]["my_factor"]

    sample_of_first_folder, sample_of_second_folder = samples
    assert sample_of_first_folder["doc"]["location"] == "rows.jsonl:1"
    assert sample_of_second_folder["doc"]["location"] == "rows.jsonl:1"
    assert sample_of_first_folder["doc_hash"] == sample_of_second_folder["doc_hash"]


@pytest.fixture
def hub_repository(tmp_path) -> str:
    """Return a folder with three rows that ``load_dataset`` reads like a repository of the Hub."""
    repository = tmp_path / "org" / "corpus"
    repository.mkdir(parents=True)
    write_csv(repository / "test.csv", [example_row(doc_id=str(number)) for number in range(3)])
    return str(repository)


@pytest.mark.parametrize(
    ("settings", "row_count"),
    [
        pytest.param({}, 3, id="all rows"),
        pytest.param({"dataset_kwargs": {"split": "test[:2]"}}, 2, id="part of a split"),
    ],
)
def test_hub_dataset_is_loaded_with_the_datasets_library(
    evaluate, hub_repository, factor_yaml, tmp_path, settings, row_count
):
    """A corpus need not be a file on this machine."""
    factor_yaml(dataset_path=hub_repository, **settings)

    output = evaluate("surface-baseline", ["my_factor"], tmp_path, {"rule": "random"})

    assert output["n-samples"]["my_factor"]["effective"] == row_count


def test_an_unknown_split_of_a_dataset_is_refused(evaluate, hub_repository, factor_yaml, tmp_path):
    """The message lists the splits that there are."""
    factor_yaml(dataset_path=hub_repository, test_split="dev")

    with pytest.raises(DataError, match="test_split: found 'dev', expected one of test"):
        evaluate("surface-baseline", ["my_factor"], tmp_path, {"rule": "random"})


def test_validate_reports_missing_rows_of_a_published_file(data_dir, monkeypatch, capsys, caplog):
    """An accuracy on part of the rows cannot be compared with published ones."""
    monkeypatch.setenv("LM_FACTUALITY_DATA", str(data_dir))

    exit_code = main(["validate", "news_factor"])

    assert exit_code == 1
    assert "news_factor: 6 rows, the published file has 1036" in capsys.readouterr().out
    assert "news_factor: the data is not the published file" in caplog.text
