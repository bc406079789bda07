"""FELM-gen through lm_eval: the judge as a filter, and how a run goes on after it fails."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import shlex
from functools import partialmethod
from pathlib import Path

import pytest

from judges.config import JudgeConfig, load_judge_config
from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.cli.main import main
from lm_factuality.harness.context import EvaluationRun, begin_run, current_run
from lm_factuality.harness.judging import Judging, SavedGenerations
from lm_factuality.harness.samples import verdict_of
from tests.benchmarks.felm_gen.rule import ROWS, felm_line, mark
from tests.conftest import TASKS
from tests.judges.server import Act, JudgeServer

RESPONSE = r"It was opened in 1870. It is made of seven bricks.\n\nIt is old."
"""The response that the evaluated model gives to every prompt.

It has three sentences, which are its segments. The judge of these tests marks "seven" as wrong.
"""

DOCS = [
    {"index": index, "domain": domain, "prompt": prompt, "reference_texts": [reference]}
    for index, domain, prompt, reference, *_ in ROWS
]
"""The rows as the documents of the task."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """Give the test an empty cache folder, without answers and certificates, and return it."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path / "home"


@pytest.fixture
def out(tmp_path) -> Path:
    """Return the folder into which `run` writes."""
    return tmp_path / "out"


@pytest.fixture
def server():
    """Return the server of a judge that marks segments by a rule."""
    started = JudgeServer(mark)
    yield started
    started.close()


@pytest.fixture
def data_dir(tmp_path) -> Path:
    """Return a folder that stands in for the published data."""
    folder = tmp_path / "felm"
    folder.mkdir()
    lines = [json.dumps(felm_line(*row)) for row in ROWS]
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def run(data_dir, out, monkeypatch):
    """Return a function that runs ``lm-factuality run`` on FELM-gen, and returns the exit code.

    The model gives `RESPONSE` to every prompt. Runs do not index lm_eval's own tasks, which would
    take seconds.
    """
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(
        TaskManager, "__init__", partialmethod(TaskManager.__init__, include_defaults=False)
    )

    def run_task(*options: str, **metadata) -> int:
        settings = {"data_dir": str(data_dir), "judge": "lexical", **metadata}
        return main(
            [
                "run",
                *("--model", "constant-answer"),
                *("--model_args", json.dumps({"answer": RESPONSE})),
                *("--tasks", "felm_gen"),
                *("--output_path", str(out)),
                "--log_samples",
                *("--metadata", json.dumps(settings)),
                *options,
            ]
        )

    return run_task


def newest_results(folder: Path) -> dict:
    """Return the content of the newest results file in a folder."""
    return json.loads(max(folder.rglob("results_*.json")).read_text(encoding="utf-8"))


def newest_samples(folder: Path) -> list[dict]:
    """Return the lines of the newest samples file in a folder."""
    text = max(folder.rglob("samples_*.jsonl")).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def metrics_of(folder: Path) -> dict:
    """Return the metrics of the newest run in a folder."""
    return newest_results(folder)["results"]["felm_gen"]


def verdicts_of(folder: Path) -> list[dict]:
    """Return the judge's record of each sample of the newest run in a folder."""
    return [verdict_of(sample) for sample in newest_samples(folder)]


def read_json(path: Path) -> dict:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def assert_metrics_are_those_of(summary: dict, metrics: dict) -> None:
    """Check that lm_eval's metrics are those of a summary of the judge's verdicts."""
    figures = {
        name: figure
        for name, figure in summary.items()
        if isinstance(figure, dict) and "value" in figure
    }
    assert {"segment_error_rate", "response_error_rate"} < set(figures)
    for name, figure in figures.items():
        value = figure["value"]
        assert metrics[f"{name},judge"] == ("N/A" if value is None else value)
        for case in {"worst", "best"} & set(figure):
            assert metrics[f"{name}_{case},judge"] == figure[case]

    stderr = figures["segment_error_rate"]["stderr"]
    assert metrics["segment_error_rate_stderr,judge"] == stderr
    for error_type, number in summary["wrong_segments"].items():
        assert metrics[f"errors_{error_type},judge"] == number
    num_without_verdict = metrics["unscored,judge"] + metrics["no_answer,judge"]
    assert num_without_verdict == sum(summary["unscored"].values())


def test_lexical_judge_leaves_rows_without_references_unscored(run, out, caplog):
    """The lexical judge compares a response with references, which rows 2 and 4 do not have."""
    exit_code = run()

    assert exit_code == 0
    warning = "2 of 5 rows have no references, so judge lexical has no verdict on their answers"
    assert warning in caplog.text
    reasons = [verdict["unscored"] for verdict in verdicts_of(out)]
    assert reasons == [None, None, "no evidence", None, "no evidence"]
    assert metrics_of(out)["unscored,judge"] == 2


def test_metrics_of_a_run_equal_the_summary_of_its_verdicts(run, out):
    """Verdicts of a samples file, summed up later, must give the metrics that lm_eval reported."""
    run()

    metrics = metrics_of(out)
    verdicts = verdicts_of(out)
    # The comparison would show nothing if no row, or every row, counted as wrong.
    assert metrics["segment_error_rate_best,judge"] < metrics["segment_error_rate,judge"] < 1
    docs = [{}] * len(verdicts)  # the summary does not read them
    assert_metrics_are_those_of(FELM_GEN.summarise(docs, verdicts), metrics)


def test_results_record_the_judge_and_its_prompts(run, out):
    """Error rates depend on who judges and how it is asked, so results hold both."""
    run()

    metadata = newest_results(out)["configs"]["felm_gen"]["metadata"]
    assert metadata["judge"] == "lexical"
    assert metadata["judge_config"]["name"] == "lexical"
    prompts = {"felm_gen/segment", "felm_gen/mark_segments"}
    assert set(metadata["judge_config"]["prompt_hashes"]) == prompts
    assert metadata["data"]["is_published"] is False


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"judge": "lexcal"},
            "no judge is called 'lexcal'; did you mean lexical?",
            id="misspelt name",
        ),
        pytest.param(
            {"judge": "nowhere/judge.yaml"},
            "no judge is called 'nowhere/judge.yaml'",
            id="missing file",
        ),
        pytest.param(
            {"judge_store": "pyproject.toml"},
            "pyproject.toml: the store of judges' answers cannot be used",
            id="store that is no database",
        ),
    ],
)
def test_wrong_judge_is_refused_before_generation(metadata, message, run, out, capsys):
    """Generating takes hours with a large model, so the judge is checked first."""
    exit_code = run(**metadata)

    printed = capsys.readouterr().err
    assert exit_code == 1
    assert message in printed
    assert "Running generate_until" not in printed
    assert not (out / "generations").exists()


def test_a_judge_without_its_key_is_refused(run, write_judge, capsys):
    """The judge's YAML names the environment variable that holds the key of its server."""
    judge = write_judge("https://judge.example/v1", api_key_env="MY_JUDGE_KEY")

    exit_code = run(judge=str(judge))

    assert exit_code == 1
    assert "MY_JUDGE_KEY is not set" in capsys.readouterr().err


@pytest.fixture
def answered_prompts() -> list[str]:
    """Return the list of the prompts that the server of `failing_judge` has answered."""
    return []


@pytest.fixture
def failing_judge(server, write_judge, tmp_path, answered_prompts):
    """Return the metadata of a judge whose server fails after three answers.

    It answers one question at a time. ``server.script = mark`` repairs it.
    """

    def script(prompt: str, attempt: int) -> Act:
        if len(answered_prompts) == 3:
            return Act(status=404, text="gone")
        answered_prompts.append(prompt)
        return mark(prompt, attempt)

    server.script = script
    judge = write_judge(server.base_url, concurrency=1)
    return {"judge": str(judge), "judge_store": str(tmp_path / "store.sqlite")}


@pytest.fixture
def printed_command(run, failing_judge, capsys):
    """Return the command that a run prints if its judge fails, as a list of arguments."""
    exit_code = run(**failing_judge)
    assert exit_code == 1
    *_, last_line = capsys.readouterr().err.strip().splitlines()
    return shlex.split(last_line)


def test_all_rows_are_unscored_if_the_judge_fails(run, failing_judge, out):
    """The run still ends with results, in which nothing is known: the error rate may be 0 or 1."""
    exit_code = run(**failing_judge)

    metrics = metrics_of(out)
    assert exit_code == 1
    assert metrics["unscored,judge"] == len(ROWS)
    assert metrics["segment_error_rate_worst,judge"] == 1
    assert metrics["segment_error_rate_best,judge"] == 0
    assert "the judge failed: " in newest_samples(out)[0]["unscored"]


def test_the_printed_command_asks_only_for_missing_answers(
    printed_command, server, answered_prompts
):
    """The store has the three answers that the judge had given before it failed."""
    server.script = mark  # the judge is back
    program, *arguments = printed_command

    exit_code = main(arguments)

    metrics = read_json(Path(option_value(arguments, "--out")) / "metrics.json")
    assert (program, *arguments[:2]) == ("lm-factuality", "judge", "felm_gen")
    assert exit_code == 0
    # One of the three segments of each response is wrong.
    assert metrics["segment_error_rate"]["value"] == pytest.approx(1 / 3)
    assert metrics["about"]["judge_usage"]["stored"] == 3
    assert all(server.attempts[prompt] == 1 for prompt in answered_prompts)


def test_run_succeeds_when_repeated_after_a_judge_failure(
    printed_command, run, failing_judge, server, out
):
    """A user may run the whole task again in place of the printed command."""
    server.script = mark  # the judge is back
    main(printed_command[1:])
    metrics_of_command = read_json(Path(option_value(printed_command, "--out")) / "metrics.json")

    exit_code = run(**failing_judge)

    assert exit_code == 0
    assert_metrics_are_those_of(metrics_of_command, metrics_of(out))
    assert "judge_store" not in newest_results(out)["configs"]["felm_gen"]["metadata"]


def option_value(arguments: list[str], option: str) -> str:
    """Return the argument after an option."""
    return arguments[arguments.index(option) + 1]


def test_run_fails_if_the_judge_answers_nothing(run, server, write_judge, capsys):
    """The server rejects every request, so no row has a verdict. That is no successful run."""
    server.script = lambda prompt, attempt: Act(status=400, text="no such thing")

    exit_code = run(judge=str(write_judge(server.base_url)))

    assert exit_code == 1
    message = "6 requests got no answer, and nothing has a verdict: judge error: "
    assert message in capsys.readouterr().err


@pytest.fixture
def evaluate_with_lexical_judge(evaluate, data_dir):
    """Return a function that runs FELM-gen in Python, without an output path."""

    def evaluate_task(**options):
        return evaluate(
            "constant-answer",
            ["felm_gen"],
            model_args={"answer": "So."},
            metadata={"data_dir": str(data_dir), "judge": "lexical"},
            **options,
        )

    return evaluate_task


def test_generations_are_saved_in_the_cache_without_an_output_path(
    evaluate_with_lexical_judge, home
):
    """Generations must outlive a failed judge even if the user names no folder for the output."""
    current_run = begin_run(EvaluationRun())

    evaluate_with_lexical_judge(limit=2)

    (generations_path,) = (home / "generations").iterdir()
    assert len(generations_path.read_text(encoding="utf-8").splitlines()) == 2
    assert current_run.failures == []


def test_interrupted_judging_prints_the_command_to_continue(
    evaluate_with_lexical_judge, monkeypatch, caplog
):
    """After Ctrl-C during judging, the generations are not lost: the command judges them later."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(FELM_GEN), "judge", interrupt)

    with pytest.raises(KeyboardInterrupt):
        evaluate_with_lexical_judge()

    assert "lm-factuality judge felm_gen --samples" in caplog.text


def test_predict_only_needs_no_judge(run, out):
    """Results of such a run hold no scores, so they need no warning about a judge either."""
    exit_code = run("--predict_only", judge=None)

    assert exit_code == 0
    assert "caution" not in newest_results(out)["configs"]["felm_gen"]["metadata"]


def test_predict_only_samples_can_be_judged_later(run, out, server, write_judge, tmp_path):
    """Model and judge often run on different machines, with the samples file between them."""
    run("--predict_only", judge=None)
    (samples_path,) = out.rglob("samples_*.jsonl")

    exit_code = main(
        [
            *("judge", "felm_gen"),
            *("--samples", str(samples_path)),
            *("--judge", str(write_judge(server.base_url))),
            *("--out", str(tmp_path / "judged")),
        ]
    )

    metrics = read_json(tmp_path / "judged" / "metrics.json")
    assert exit_code == 0
    assert metrics["segment_error_rate"]["rows"] == len(ROWS)


@pytest.mark.parametrize(
    ("task_or_group", "task_of_error"),
    [
        ("felm_gen", "felm_gen"),
        ("expert_factor_generation", "expert_factor_generation"),
        ("ambigbio_both", "ambigbio"),  # the first task of the group
    ],
)
def test_a_task_without_a_judge_is_refused_before_the_model_is_loaded(
    task_or_group, task_of_error, tmp_path, capsys
):
    """There is no default judge, since the figures depend on it. The error says how to name one."""
    checkpoint = TASKS / "sample" / "models" / "larger"
    model = ["--model", "hf", "--model_args", f"pretrained={checkpoint}"]

    exit_code = main(["run", *model, "--tasks", task_or_group, "--output_path", str(tmp_path)])

    printed = capsys.readouterr().err
    assert exit_code == 1
    assert f"{task_of_error}: names no judge" in printed
    assert "--metadata judge=CONFIG" in printed
    assert "lexical to try things out" in printed


def samples_paths_in(message: str) -> list[Path]:
    """Return the samples files of the command at the end of a message."""
    *_, last_line = message.splitlines()
    command = shlex.split(last_line)
    paths = command[command.index("--samples") + 1 : command.index("--judge")]
    return [Path(path) for path in paths]


def test_first_process_prints_the_command_for_all_processes(tmp_path):
    """Each process has a part of the documents, and only the first one reports failures."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [
        context.Process(target=judge_every_other_doc, args=(rank, tmp_path, queue))
        for rank in range(2)
    ]

    for process in processes:
        process.start()
    failures_by_rank = dict(queue.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(30)

    assert failures_by_rank[1] == []
    (message,) = failures_by_rank[0]
    first_path, second_path = samples_paths_in(message)
    assert first_path.stem.endswith("_rank0")
    assert second_path.stem.endswith("_rank1")
    assert len(first_path.read_text(encoding="utf-8").splitlines()) == 3
    assert len(second_path.read_text(encoding="utf-8").splitlines()) == 2


def judge_every_other_doc(rank: int, folder: Path, queue) -> None:
    """Judge every other document in one of two processes, and put its failures into a queue.

    The judge of the second process is down.
    """
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2
    )
    judge = JudgeConfig("lexical", "lexical")
    if rank == 1:
        judge = JudgeConfig(
            "down", "openai", model="m", base_url="http://127.0.0.1:9/v1", max_retries=0
        )
    docs = DOCS[rank::2]
    current_run = begin_run(EvaluationRun(folder))

    judging = Judging(FELM_GEN, judge, "judge.yaml", folder / "store.sqlite", {}, {})
    verdicts = judging.apply([["It is so."]] * len(docs), docs)

    assert len(verdicts) == len(docs)
    queue.put((rank, current_run.failures))
    distributed.destroy_process_group()


def test_processes_with_the_same_documents_are_judged_once(tmp_path):
    """The printed command refuses to read a document twice, so it names one file of each set."""
    judging = Judging(FELM_GEN, JudgeConfig("lexical", "lexical"), "lexical", None, {}, {})
    hashes_of_documents = ("same", "same", "others")
    saved = [
        SavedGenerations(tmp_path / f"rank{rank}.jsonl", documents_hash)
        for rank, documents_hash in enumerate(hashes_of_documents)
    ]

    message = judging._failure_message("it is down", saved)

    assert [path.stem for path in samples_paths_in(message)] == ["rank0", "rank2"]


@pytest.fixture
def judge_response(server, write_judge, tmp_path):
    """Return a function that judges a response to each document, as a task of a run does.

    Each call of the judge costs 0.02 USD. A response that no task has judged before takes six
    calls. The function returns the failures of the task.
    """

    def script(prompt: str, attempt: int) -> Act:
        usage = {"prompt_tokens": 20_000, "completion_tokens": 0}
        return dataclasses.replace(mark(prompt, attempt), usage=usage)

    server.script = script
    prices = {"prompt": 1.0, "completion": 1.0}

    def judge(first_sentence: str, max_cost: float) -> list[str]:
        path = write_judge(server.base_url, concurrency=1, prices=prices, max_cost=max_cost)
        config = load_judge_config(path)
        judging = Judging(FELM_GEN, config, str(path), tmp_path / "store.sqlite", {}, {})
        num_earlier_failures = len(current_run().failures)
        judging.judge(DOCS, [[f"{first_sentence}\n\nIt is old."]] * len(DOCS))
        return current_run().failures[num_earlier_failures:]

    return judge


@pytest.mark.parametrize(
    ("num_processes", "max_cost"),
    [
        pytest.param(1, 0.12, id="one process may spend all"),
        pytest.param(2, 0.24, id="two processes may spend half each"),
    ],
)
def test_all_tasks_of_a_run_share_one_budget(
    server, judge_response, tmp_path, monkeypatch, num_processes, max_cost
):
    """A call costs 0.02 USD, so the six calls of the first task spend the budget of 0.12 USD."""
    monkeypatch.setenv("WORLD_SIZE", str(num_processes))
    begin_run(EvaluationRun(tmp_path))

    failures_of_first_task = judge_response("It opened in 1870.", max_cost)
    failures_of_second_task = judge_response("It opened in 1871.", max_cost)
    failures_of_third_task = judge_response("It opened in 1872.", max_cost)

    (failure_of_second_task,) = failures_of_second_task
    (failure_of_third_task,) = failures_of_third_task
    assert failures_of_first_task == []
    assert "max_cost of $0.12 leaves no room for another call" in failure_of_second_task
    assert "max_cost of $0.12 leaves no room for another call" in failure_of_third_task
    assert len(server.bodies) == 6  # all of the first task


def test_a_new_run_has_a_new_budget(server, judge_response, tmp_path):
    """The first run spends all of its 0.12 USD on six calls of 0.02 USD, and the second again."""
    begin_run(EvaluationRun(tmp_path))
    judge_response("It opened in 1870.", max_cost=0.12)

    begin_run(EvaluationRun(tmp_path))
    failures = judge_response("It opened in 1871.", max_cost=0.12)

    assert failures == []
    assert len(server.bodies) == 12
