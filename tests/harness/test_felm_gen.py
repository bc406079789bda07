"""FELM-gen through lm_eval: the judge as a filter, and what is left when it fails."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import shlex
from functools import partialmethod
from pathlib import Path

import pytest
import yaml

from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.cli.main import main
from lm_factuality.harness.samples import verdict_of
from tests.benchmarks.felm_gen.rule import ROWS, felm_line, mark
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

ANSWER = r"It was opened in 1870. It is made of seven bricks.\n\nIt is old."


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """A cache folder of its own, so that no answer and no certificate is there before."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path / "home"


@pytest.fixture
def server():
    running = JudgeServer(mark)
    yield running
    running.close()


@pytest.fixture
def data_dir(tmp_path) -> Path:
    folder = tmp_path / "felm"
    folder.mkdir()
    lines = (json.dumps(felm_line(*row)) for row in ROWS)
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def write_judge(tmp_path):
    def write(base_url: str, **keys) -> Path:
        path = tmp_path / "my_judge.yaml"
        content = {
            "backend": "openai",
            "model": "small-judge",
            "base_url": base_url,
            "max_retries": 0,
            **keys,
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(data_dir, tmp_path, monkeypatch):
    """``lm-factuality run`` with the answer above to every prompt, without lm_eval's own tasks;
    returns the exit code."""
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )

    def start(*options: str, answer: str = ANSWER, **metadata) -> int:
        given = json.dumps({"data_dir": str(data_dir), "judge": "lexical", **metadata})
        model = ["--model", "constant-answer", "--model_args", json.dumps({"answer": answer})]
        output = ["--output_path", str(tmp_path / "out"), "--log_samples"]
        return main(["run", *model, "--tasks", "felm_gen", *output, "--metadata", given, *options])

    return start


def results_in(folder: Path) -> dict:
    return json.loads(max(folder.rglob("results_*.json")).read_text(encoding="utf-8"))


def samples_in(folder: Path) -> list[dict]:
    return [
        json.loads(line)
        for line in max(folder.rglob("samples_*.jsonl")).read_text(encoding="utf-8").splitlines()
    ]


def verdicts_in(folder: Path) -> list[dict]:
    return [verdict_of(sample) for sample in samples_in(folder)]


def expect_the_same(metrics: dict, summary: dict) -> None:
    """lm_eval's metrics are those of ``summary``."""
    figures = {
        name: figure
        for name, figure in summary.items()
        if isinstance(figure, dict) and "value" in figure
    }
    assert {"segment_error_rate", "response_error_rate"} < set(figures)
    for name, figure in figures.items():
        value = figure["value"]
        assert metrics[f"{name},judge"] == ("N/A" if value is None else value)
        for end in {"worst", "best"} & set(figure):
            assert metrics[f"{name}_{end},judge"] == figure[end]
    level = "segment_error_rate"
    assert metrics[f"{level}_stderr,judge"] == figures[level]["stderr"]
    for kind, number in summary["wrong_segments"].items():
        assert metrics[f"errors_{kind},judge"] == number
    unscored = metrics["unscored,judge"] + metrics["no_answer,judge"]
    assert unscored == sum(summary["unscored"].values())


def test_with_the_lexical_judge(run, tmp_path, caplog):
    assert run() == 0
    assert (
        "2 of 5 rows have no references, so judge lexical has no verdict on their answers"
        in caplog.text
    )
    results, verdicts = results_in(tmp_path / "out"), verdicts_in(tmp_path / "out")
    metrics = results["results"]["felm_gen"]
    assert [verdict["unscored"] for verdict in verdicts] == [
        None,
        None,
        "no evidence",
        None,
        "no evidence",
    ]
    assert metrics["unscored,judge"] == 2
    assert metrics["segment_error_rate_best,judge"] < metrics["segment_error_rate,judge"] < 1
    expect_the_same(metrics, FELM_GEN.summarise([{}] * len(verdicts), verdicts))
    about = results["configs"]["felm_gen"]["metadata"]
    assert about["judge"] == about["judge_config"]["name"] == "lexical"
    assert set(about["judge_config"]["prompt_hashes"]) == {
        "felm_gen/segment",
        "felm_gen/mark_segments",
    }
    assert about["data"]["is_published"] is False


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"judge": "lexcal"}, "no judge is called 'lexcal'; did you mean lexical?"),
        ({"judge": "nowhere/judge.yaml"}, "no judge is called 'nowhere/judge.yaml'"),
        (
            {"judge_store": "pyproject.toml"},
            "pyproject.toml: the store of judges' answers cannot be used",
        ),
    ],
)
def test_a_wrong_judge_is_an_error_before_anything_is_generated(
    metadata, message, run, tmp_path, capsys
):
    assert run(**metadata) == 1
    captured = capsys.readouterr().err
    assert message in captured
    assert "Running generate_until" not in captured
    assert not (tmp_path / "out" / "generations").exists()


def test_a_judge_without_its_key_is_an_error_before_anything_is_generated(run, write_judge, capsys):
    assert run(judge=str(write_judge("https://judge.example/v1", api_key_env="MY_JUDGE_KEY"))) == 1
    assert "MY_JUDGE_KEY is not set" in capsys.readouterr().err


def test_a_judge_that_is_down_costs_no_generation(run, server, write_judge, tmp_path, capsys):
    """It goes down after three answers; the printed command asks for the others once it is up."""
    answered: list[str] = []

    def script(prompt: str, attempt: int) -> Act:
        if len(answered) == 3:
            return Act(status=404, text="gone")
        answered.append(prompt)
        return mark(prompt, attempt)

    server.script = script
    judge = write_judge(server.base_url, concurrency=1)
    assert run(judge=str(judge), judge_store=str(tmp_path / "store.sqlite")) == 1
    message = capsys.readouterr().err
    metrics = results_in(tmp_path / "out")["results"]["felm_gen"]
    assert metrics["unscored,judge"] == len(ROWS)
    assert (
        metrics["segment_error_rate_worst,judge"],
        metrics["segment_error_rate_best,judge"],
    ) == (1, 0)
    assert "the judge failed: " in samples_in(tmp_path / "out")[0]["unscored"]

    command = shlex.split(message.strip().splitlines()[-1])
    assert command[:3] == ["lm-factuality", "judge", "felm_gen"]
    server.script = mark
    assert main(command[1:]) == 0
    assert all(server.attempts[prompt] == 1 for prompt in answered)
    out = Path(command[command.index("--out") + 1])
    resumed = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert resumed["segment_error_rate"]["value"] == pytest.approx(1 / 3)
    assert resumed["about"]["judge_usage"]["stored"] == 3

    assert (
        run(judge=str(judge), judge_store=str(tmp_path / "store.sqlite")) == 0
    )  # the failure is forgotten
    results = results_in(tmp_path / "out")
    expect_the_same(results["results"]["felm_gen"], resumed)
    assert "judge_store" not in results["configs"]["felm_gen"]["metadata"]


def test_a_judge_that_answers_nothing_is_a_failure(run, server, write_judge, capsys):
    server.script = lambda prompt, attempt: Act(status=400, text="no such thing")
    assert run(judge=str(write_judge(server.base_url))) == 1
    assert (
        "6 requests got no answer, and nothing has a verdict: judge error: "
        in capsys.readouterr().err
    )


def test_without_an_output_path_generations_are_kept_in_the_cache(evaluate, data_dir, home):
    from lm_factuality.harness.context import EvaluationRun, begin_run

    current = begin_run(EvaluationRun())
    evaluate(
        "constant-answer",
        ["felm_gen"],
        model_args={"answer": "So."},
        metadata={"data_dir": str(data_dir), "judge": "lexical"},
        limit=2,
    )
    (saved,) = (home / "generations").iterdir()
    assert len(saved.read_text(encoding="utf-8").splitlines()) == 2
    assert current.failures == []


def test_predict_only_asks_no_judge(run, server, write_judge, tmp_path):
    assert run("--predict_only", judge=None) == 0
    assert "caution" not in results_in(tmp_path / "out")["configs"]["felm_gen"]["metadata"]
    assert (
        main(
            [
                "judge",
                "felm_gen",
                "--samples",
                str(next((tmp_path / "out").rglob("samples_*.jsonl"))),
                "--judge",
                str(write_judge(server.base_url)),
                "--out",
                str(tmp_path / "judged"),
            ]
        )
        == 0
    )
    metrics = json.loads((tmp_path / "judged" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["segment_error_rate"]["rows"] == len(ROWS)


def test_an_interrupted_judge_says_how_to_go_on(evaluate, data_dir, monkeypatch, caplog):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(FELM_GEN), "judge", interrupt)
    with pytest.raises(KeyboardInterrupt):
        evaluate(
            "constant-answer",
            ["felm_gen"],
            model_args={"answer": "So."},
            metadata={"data_dir": str(data_dir), "judge": "lexical"},
        )
    assert "lm-factuality judge felm_gen --samples" in caplog.text


@pytest.mark.parametrize("task", ["felm_gen", "ambigbio_both", "expert_factor_generation"])
def test_a_task_without_a_judge_says_how_to_name_one_before_the_model_is_loaded(
    task, tmp_path, capsys
):
    checkpoint = TASKS / "sample" / "models" / "larger"
    command = ["run", "--model", "hf", "--model_args", f"pretrained={checkpoint}", "--tasks", task]
    assert main([*command, "--output_path", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"{'ambigbio' if task == 'ambigbio_both' else task}: names no judge" in said
    assert "--metadata judge=CONFIG" in said
    assert "lexical to try things out" in said


def test_the_first_of_two_processes_tells_how_to_judge_the_share_of_both(tmp_path):
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    workers = [
        context.Process(target=_one_of_two, args=(rank, tmp_path, found)) for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    told = dict(found.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(30)
    assert told[1] == []
    (message,) = told[0]
    command = shlex.split(message.splitlines()[-1])
    files = command[command.index("--samples") + 1 : command.index("--judge")]
    assert [Path(file).stem.rsplit("_", 1)[1] for file in files] == ["rank0", "rank1"]
    assert [len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files] == [3, 2]


def test_the_advice_names_one_file_of_processes_with_the_same_documents(tmp_path):
    from judges.config import JudgeConfig
    from lm_factuality.harness.judging import Judging, SavedGenerations

    judging = Judging(FELM_GEN, JudgeConfig("lexical", "lexical"), "lexical", None, {})
    saved = [
        SavedGenerations(tmp_path / f"rank{rank}.jsonl", documents)
        for rank, documents in enumerate(("same", "same", "others"))
    ]
    command = shlex.split(judging._failure_message("it is down", saved).splitlines()[-1])
    files = command[command.index("--samples") + 1 : command.index("--judge")]
    assert [Path(file).stem for file in files] == ["rank0", "rank2"]


def _one_of_two(rank: int, folder: Path, found) -> None:
    """Judges every other document; the judge of the second process is down."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    from torch import distributed

    from judges.config import JudgeConfig
    from lm_factuality.harness import judging
    from lm_factuality.harness.context import EvaluationRun, begin_run

    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    docs = [
        dict(zip(("index", "domain", "prompt"), row[:3], strict=True), reference_texts=[row[3]])
        for row in ROWS
    ][rank::2]
    config = JudgeConfig("lexical", "lexical")
    if rank == 1:
        config = JudgeConfig(
            "down", "openai", model="m", base_url="http://127.0.0.1:9/v1", max_retries=0
        )
    current = begin_run(EvaluationRun(folder))
    setup = judging.Judging(FELM_GEN, config, "judge.yaml", folder / "store.sqlite", {})
    verdicts = setup.apply([["It is so."]] * len(docs), docs)
    assert len(verdicts) == len(docs)
    found.put((rank, current.failures))
    distributed.destroy_process_group()


@pytest.mark.parametrize(("processes", "max_cost"), [(1, 0.12), (2, 0.24)])
def test_the_tasks_of_a_run_share_one_budget(
    server, write_judge, tmp_path, monkeypatch, processes, max_cost
):
    """Six calls of 0.02 USD are all that a process may spend, whichever task asks."""
    from judges.config import load_judge_config
    from lm_factuality.harness import judging
    from lm_factuality.harness.context import EvaluationRun, begin_run, current_run

    def script(prompt: str, attempt: int) -> Act:
        return dataclasses.replace(
            mark(prompt, attempt), usage={"prompt_tokens": 20_000, "completion_tokens": 0}
        )

    server.script = script
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    prices = {"prompt": 1.0, "completion": 1.0}
    judge = write_judge(server.base_url, concurrency=1, prices=prices, max_cost=max_cost)
    docs = [
        dict(zip(("index", "domain", "prompt"), row[:3], strict=True), reference_texts=[row[3]])
        for row in ROWS
    ]

    def task(answer: str) -> list[str]:
        """Judges what no task before has asked about; a task reads the judge's file for itself."""
        found = judging.Judging(
            FELM_GEN, load_judge_config(judge), str(judge), tmp_path / "store.sqlite", {}
        )
        found.judge(docs, [[f"{answer}\n\nIt is old."]] * len(docs))
        return current_run().failures

    begin_run(EvaluationRun(tmp_path))
    assert task("It opened in 1870.") == []
    assert len(server.bodies) == 6
    for number, answer in enumerate(("It opened in 1871.", "It opened in 1872."), 1):
        assert "max_cost of $0.12 leaves no room for another call" in task(answer)[-1]
        assert (len(current_run().failures), len(server.bodies)) == (number, 6)
    begin_run(EvaluationRun(tmp_path))
    assert task("It opened in 1871.") == []
    assert len(server.bodies) == 12
