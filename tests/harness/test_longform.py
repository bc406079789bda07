"""Long-form factuality through lm_eval: runs, results, and the same scores from saved samples."""

from __future__ import annotations

import json
import math
import shlex
from functools import partialmethod
from pathlib import Path

import pytest
import yaml

from lm_factuality.benchmarks.longform.benchmark import LongForm, long_form_method
from lm_factuality.cli.main import main
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.results.read import read_results_files
from lm_factuality.results.recompute import recompute
from lm_factuality.retrieval.build import build_knowledge
from tests.conftest import TASKS

TOWNS = [
    {
        "title": "Grayport (Eastmark)",
        "text": "Grayport is a harbour town in Eastmark. It was founded by Orla Venn in 1702.",
    },
    {
        "title": "Grayport (Norland)",
        "text": "Grayport is a mining village in Norland. Tomas Reed found silver there in 1840.",
    },
]
"""Two towns of one name, which have a page each."""

ANSWER = """\
**Grayport**

- Grayport was founded by Orla Venn in 1702.
- Tomas Reed found silver there in 1840.
"""
"""An answer that mixes the two towns up: each page supports one of its two facts."""


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> None:
    """Keep the answers of judges in ``tmp_path``, and the tasks of lm_eval unread.

    To read them would take seconds in each run.
    """
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )


def run_arguments(task: str, out: Path, model: str = "constant-answer", **model_args) -> list[str]:
    """Return the arguments of ``lm-factuality`` that run a task.

    Args:
        task: The name or the YAML of the task.
        out: The folder for the output.
        model: A model class of lm_eval. By default the model gives `ANSWER` to every prompt.
        **model_args: The arguments of the model.
    """
    arguments = json.dumps(model_args or {"answer": ANSWER})
    command = ["run", "--model", model, "--model_args", arguments, "--tasks", task]
    return [*command, "--output_path", str(out), "--log_samples"]


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a task with more options, and returns its results.

    Example: ``run("sample_longform", "--limit", "8")``.
    """

    def run_task(task: str, *options: str, **model):
        out = tmp_path / "out"
        assert main([*run_arguments(task, out, **model), *options]) == 0
        (results_file,) = read_results_files([out])
        return results_file.tasks[0]

    return run_task


@pytest.fixture
def judge_samples(tmp_path):
    """Return a function that judges the samples of a task's results with the lexical judge.

    It writes into the folder ``judged``, and returns the exit code.
    """

    def run_judge(task, *options: str) -> int:
        paths = ["--samples", str(task.samples), "--out", str(tmp_path / "judged")]
        return main(["judge", "longform", *paths, "--judge", "lexical", *options])

    return run_judge


def read_metrics(folder: Path) -> dict:
    """Return the scores that ``lm-factuality judge`` wrote into a folder."""
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def write_jsonl(path: Path, rows: list[dict]) -> None:
    """Write a file with one JSON object per line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def write_task(tmp_path):
    """Return a function that writes the YAML of the task ``my_towns``, and returns its path.

    The task asks about towns, and its facts are checked against the pages of `TOWNS`. The function
    takes the rows of prompts and settings of the task: ``write_task(rows=[...], k=2)``.
    """
    titles = [town["title"] for town in TOWNS]
    default_rows = [{"name": "Grayport", "titles": titles}, {"name": "Port Gray", "titles": titles}]

    def write(rows: list[dict] | None = None, **settings) -> str:
        write_jsonl(tmp_path / "prompts.jsonl", rows or default_rows)
        write_jsonl(tmp_path / "towns.jsonl", TOWNS)
        if not (tmp_path / "towns.db").exists():
            build_knowledge(tmp_path / "towns.jsonl", tmp_path / "towns.db")
        metadata = {
            "version": 1.0,
            "columns": {"title": "titles"},
            "knowledge": "towns.db",
            "judge": "lexical",
            **settings,
        }
        content = {
            "include": str(TASKS / "longform" / "_longform.yaml"),
            "task": "my_towns",
            "dataset_path": "prompts.jsonl",
            "doc_to_text": "Tell me about {{ name }}.",
            "metadata": metadata,
        }
        (tmp_path / "my_towns.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return str(tmp_path / "my_towns.yaml")

    return write


def assert_samples_give_the_metrics_of(task) -> None:
    """Check that the metrics computed anew from the samples of a run are those of the run."""
    recomputed = recompute(task)
    assert recomputed.changed_rows == ()
    assert set(recomputed.metrics) == set(task.metrics)
    for name, value in task.metrics.items():
        recomputed_value = recomputed.metrics[name]
        # A metric without a value is NaN when it is computed anew.
        if not math.isnan(recomputed_value):
            assert recomputed_value == pytest.approx(value), name


@pytest.fixture
def sample_task(run, checkpoint):
    """Return the results of a real model on eight prompts of the sample."""
    larger = checkpoint.with_name("larger")
    options = ["--limit", "8", "--batch_size", "8", "--device", "cpu"]
    return run("sample_longform", *options, model="hf", pretrained=str(larger), dtype="float32")


def test_a_real_model_has_scores_on_the_sample(sample_task):
    """The tiny model states too few facts for a full recall, which is 8 supported ones."""
    assert sample_task.metadata["k"] == [8]
    assert sample_task.metadata["knowledge"] == "documents"
    assert sample_task.metadata["judge"] == "lexical"
    # With a recall below the precision, F1 is below the precision as well.
    assert 0 < sample_task.metrics["f1_at_k"] < sample_task.metrics["precision"] < 1
    # The D-FActScore needs pages of entities, which the sample does not have.
    assert "d_factscore" not in sample_task.metrics


def test_scores_of_a_real_model_can_be_recomputed_from_samples(sample_task):
    """The samples hold the judge's verdicts, so neither model nor judge is needed again."""
    assert_samples_give_the_metrics_of(sample_task)


def test_judging_saved_samples_gives_the_scores_of_the_run(sample_task, judge_samples, tmp_path):
    """``lm-factuality judge`` also gives intervals, which must enclose the scores."""
    exit_code = judge_samples(sample_task, "--metadata", "k=8")

    assert exit_code == 0
    metrics = read_metrics(tmp_path / "judged")
    for name in (
        "f1_at_k",
        "precision",
        "recall_at_k",
        "factscore",
        "factscore_penalised",
        "facts_per_response",
        "respond_ratio",
    ):
        low, high = metrics[name]["interval"]
        assert metrics[name]["value"] == sample_task.metrics[name]
        assert low <= metrics[name]["value"] <= high
    assert metrics["f1_at_k"]["worst"] == sample_task.metrics["f1_at_k_worst"]


def test_a_dry_run_of_the_judge_accepts_saved_samples(sample_task, judge_samples, tmp_path):
    """``--dry-run`` only checks the command, and so writes no scores."""
    exit_code = judge_samples(sample_task, "--metadata", "k=8", "--dry-run")

    assert exit_code == 0
    assert not (tmp_path / "judged" / "metrics.json").exists()


def test_judging_samples_refuses_an_unknown_setting(run, write_task, judge_samples, capsys):
    """With "kay" instead of "k", the samples would be judged with the default number of facts."""
    task = run(write_task(k=2))

    exit_code = judge_samples(task, "--metadata", "kay=8")

    assert exit_code == 1
    assert "longform has no setting 'kay'; known: " in capsys.readouterr().err


@pytest.fixture
def indexed_task(run, write_task, tmp_path):
    """Return the results of a task whose knowledge is an index of the towns."""
    write_task()  # writes the file of towns from which the index is built
    towns = str(tmp_path / "towns.jsonl")
    assert main(["index", "build", towns, "--out", str(tmp_path / "index")]) == 0
    return run(write_task(knowledge="index", columns={}, k=2, passages=1))


def test_an_index_is_recorded_in_the_results(indexed_task):
    """The name of a folder says nothing about the index in it, so results hold the index's hash."""
    assert indexed_task.metadata["knowledge"] == "index"
    assert len(indexed_task.metadata["knowledge_identity"]) == 16
    assert recompute(indexed_task).changed_rows == ()


def test_judging_samples_without_their_index_is_refused(indexed_task, judge_samples, capsys):
    """Samples of such a run hold no passages, so there is nothing to verify the facts against."""
    exit_code = judge_samples(indexed_task)

    assert exit_code == 1
    error = capsys.readouterr().err
    assert "name documents or an index: --knowledge DIR" in error


def test_judging_samples_with_their_index_gives_the_score_of_the_run(
    indexed_task, judge_samples, tmp_path
):
    """With the index and the settings of the run, judging its samples gives its score."""
    metadata = {"knowledge": str(tmp_path / "index"), "k": [2], "passages": 1}

    exit_code = judge_samples(indexed_task, "--metadata", json.dumps(metadata))

    assert exit_code == 0
    metrics = read_metrics(tmp_path / "judged")
    assert metrics["f1_at_k"]["value"] == indexed_task.metrics["f1_at_k"]


def test_prompts_without_a_page_are_unscored(run, write_task):
    """The pages are about two towns called Grayport, and the prompt is about Sill."""
    prompt_about_sill = {"name": "Sill", "titles": "Sill"}

    task = run(write_task(rows=[prompt_about_sill], k=2))

    assert task.metrics["unscored"] == 1
    assert task.metrics["f1_at_k_worst"] == 0
    assert task.metrics["f1_at_k_best"] == 1
    assert_samples_give_the_metrics_of(task)


def test_validate_names_a_row_without_a_title(write_task, capsys):
    """The title says which page a prompt is about. The message points to the line of the file."""
    row = {"name": "Sill", "titles": "Sill"}
    row_without_title = {"name": "Ull", "titles": None}

    exit_code = main(["validate", write_task(rows=[row, row_without_title])])

    assert exit_code == 1
    assert "prompts.jsonl:2: no title" in capsys.readouterr().out


@pytest.fixture
def run_with_failing_judge(tmp_path, monkeypatch, capsys):
    """Return a function that runs a task whose judge fails, and returns the last line printed."""

    def fail(self, judge, docs, responses):
        raise BackendDownError("the server is down")

    def run_task(task: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(LongForm, "judge", fail)
            exit_code = main(run_arguments(task, tmp_path / "out"))
        assert exit_code == 1
        *_, last_line = capsys.readouterr().err.strip().splitlines()
        return last_line.strip()

    return run_task


def test_command_to_resume_a_failed_run_has_its_settings(run_with_failing_judge, write_task):
    """The printed command judges the saved answers, as the run would have done."""
    task = write_task(entities=True, entity_kind="town", k=[2, 4])
    printed_command = run_with_failing_judge(task)
    _program, *arguments = shlex.split(printed_command)

    exit_code = main(arguments)

    metrics = read_metrics(Path(arguments[arguments.index("--out") + 1]))
    assert printed_command.startswith("lm-factuality judge longform ")
    assert exit_code == 0
    assert metrics["k"] == [2, 4]
    assert metrics["about"]["k"] == [2, 4]
    assert metrics["about"]["entities"] is True
    assert metrics["about"]["entity_kind"] == "town"
    # Each answer mixes up two towns, so that the page of one town supports one of its two facts.
    assert metrics["d_factscore"]["value"] == 0.5


def test_folder_named_documents_is_not_used_as_an_index(tmp_path, monkeypatch):
    """The default ``documents`` of ``knowledge`` means the passages in the rows, and no folder."""
    (tmp_path / "documents").mkdir()
    monkeypatch.chdir(tmp_path)

    method = long_form_method({})

    assert method.recorded_settings["knowledge"] == "documents"
