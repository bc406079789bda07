"""Long-form factuality through lm_eval: the sample, a YAML of one's own, and the same scores from
saved samples."""

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
ANSWER = "**Grayport**\n\n- Grayport was founded by Orla Venn in 1702.\n- Tomas Reed found silver there in 1840.\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )
    return tmp_path / "home"


@pytest.fixture
def run(tmp_path):
    """``lm-factuality run``, by default with one answer to every prompt; returns the task's
    results."""

    def start(task: str, *options: str, model: str = "constant-answer", **model_args):
        arguments = json.dumps(model_args or {"answer": ANSWER})
        given = ["run", "--model", model, "--model_args", arguments, "--tasks", task, *options]
        assert main([*given, "--output_path", str(tmp_path / "out"), "--log_samples"]) == 0
        (file,) = read_results_files([tmp_path / "out"])
        return file.tasks[0]

    return start


@pytest.fixture
def own(tmp_path):
    """A YAML of one's own, on two towns of one name."""

    def write(rows=None, **metadata) -> str:
        row = {"name": "Grayport", "titles": [town["title"] for town in TOWNS]}
        rows = rows or [row, {**row, "name": "Port Gray"}]
        for name, content in (("prompts.jsonl", rows), ("towns.jsonl", TOWNS)):
            (tmp_path / name).write_text(
                "".join(json.dumps(each) + "\n" for each in content), encoding="utf-8"
            )
        if not (tmp_path / "towns.db").exists():
            build_knowledge(tmp_path / "towns.jsonl", tmp_path / "towns.db")
        about = {
            "version": 1.0,
            "columns": {"title": "titles"},
            "knowledge": "towns.db",
            "judge": "lexical",
            **metadata,
        }
        content = {
            "include": str(TASKS / "longform" / "_longform.yaml"),
            "task": "my_towns",
            "dataset_path": "prompts.jsonl",
            "doc_to_text": "Tell me about {{ name }}.",
            "metadata": about,
        }
        (tmp_path / "my_towns.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return str(tmp_path / "my_towns.yaml")

    return write


def expect_the_same(task) -> None:
    """The scores that the samples give are those of the run."""
    found = recompute(task)
    assert found.changed_rows == ()
    assert set(found.metrics) == set(task.metrics)
    for name, value in task.metrics.items():
        assert found.metrics[name] == pytest.approx(value, nan_ok=True) or math.isnan(
            found.metrics[name]
        )


def test_the_sample_with_a_real_model(run, checkpoint, tmp_path, capsys):
    larger = checkpoint.with_name("larger")
    task = run(
        "sample_longform",
        "--limit",
        "8",
        "--batch_size",
        "8",
        "--device",
        "cpu",
        model="hf",
        pretrained=str(larger),
        dtype="float32",
    )
    assert task.metadata["k"] == [8]
    assert task.metadata["knowledge"] == "documents"
    assert task.metadata["judge"] == "lexical"
    assert 0 < task.metrics["f1_at_k"] < task.metrics["precision"] < 1
    assert "d_factscore" not in task.metrics
    expect_the_same(task)

    out = tmp_path / "judged"
    given = [
        "judge",
        "longform",
        "--samples",
        str(task.samples),
        "--judge",
        "lexical",
        "--out",
        str(out),
    ]
    assert main([*given, "--metadata", "k=8", "--dry-run"]) == 0
    assert main([*given, "--metadata", "k=8"]) == 0
    again = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    for name in (
        "f1_at_k",
        "precision",
        "recall_at_k",
        "factscore",
        "factscore_penalised",
        "facts_per_response",
        "respond_ratio",
    ):
        assert again[name]["value"] == task.metrics[name]
        low, high = again[name]["interval"]
        assert low <= again[name]["value"] <= high
    assert again["f1_at_k"]["worst"] == task.metrics["f1_at_k_worst"]
    assert main([*given, "--metadata", "kay=8"]) == 1
    assert "longform has no setting 'kay'; known: " in capsys.readouterr().err


def test_an_index_has_to_be_named_again_to_judge_samples(run, own, tmp_path, capsys):
    assert own()
    assert (
        main(["index", "build", str(tmp_path / "towns.jsonl"), "--out", str(tmp_path / "index")])
        == 0
    )
    task = run(own(knowledge="index", columns={}, k=2, passages=1))
    assert (task.metadata["knowledge"], len(task.metadata["knowledge_identity"])) == ("index", 16)
    assert recompute(task).changed_rows == ()
    given = [
        "judge",
        "longform",
        "--samples",
        str(task.samples),
        "--judge",
        "lexical",
        "--out",
        str(tmp_path / "judged"),
    ]
    assert main(given) == 1
    assert (
        "its passages are found by an index; name it: --metadata knowledge=DIR"
        in capsys.readouterr().err
    )
    assert (
        main(
            [
                *given,
                "--metadata",
                json.dumps({"knowledge": str(tmp_path / "index"), "k": [2], "passages": 1}),
            ]
        )
        == 0
    )
    again = json.loads((tmp_path / "judged" / "metrics.json").read_text(encoding="utf-8"))
    assert again["f1_at_k"]["value"] == task.metrics["f1_at_k"]


def test_prompts_without_a_page_are_unscored(run, own):
    task = run(own(rows=[{"name": "Sill", "titles": "Sill"}], k=2))
    assert (
        task.metrics["unscored"],
        task.metrics["f1_at_k_worst"],
        task.metrics["f1_at_k_best"],
    ) == (1, 0, 1)
    expect_the_same(task)


def test_validate_names_every_row(own, capsys):
    assert (
        main(
            [
                "validate",
                own(rows=[{"name": "Sill", "titles": "Sill"}, {"name": "Ull", "titles": None}]),
            ]
        )
        == 1
    )
    assert "prompts.jsonl:2: no title" in capsys.readouterr().out


def test_the_command_that_resumes_has_the_settings_of_the_run(
    run, own, tmp_path, monkeypatch, capsys
):
    def fail(self, judge, docs, responses):
        raise BackendDownError("the server is down")

    with monkeypatch.context() as patch:
        patch.setattr(LongForm, "judge", fail)
        metadata = {"entities": True, "entity_kind": "town", "k": [2, 4]}
        given = [
            "run",
            "--model",
            "constant-answer",
            "--model_args",
            json.dumps({"answer": ANSWER}),
            "--tasks",
            own(**metadata),
        ]
        assert main([*given, "--output_path", str(tmp_path / "out"), "--log_samples"]) == 1
    command = shlex.split(capsys.readouterr().err.strip().splitlines()[-1])
    assert command[:3] == ["lm-factuality", "judge", "longform"]
    assert main(command[1:]) == 0
    found = json.loads(
        (Path(command[command.index("--out") + 1]) / "metrics.json").read_text(encoding="utf-8")
    )
    assert (found["k"], found["d_factscore"]["value"]) == ([2, 4], 0.5)
    assert {name: found["about"][name] for name in metadata} == metadata


def test_a_folder_called_documents_is_no_index(tmp_path, monkeypatch):
    (tmp_path / "documents").mkdir()
    monkeypatch.chdir(tmp_path)
    assert long_form_method({"k": 2}).recorded_settings["knowledge"] == "documents"
