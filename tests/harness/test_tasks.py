"""``lm-factuality run`` finds mistakes in its arguments before it loads a model."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lm_eval import evaluator
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import TaskIndex

from lm_factuality.cli import main
from lm_factuality.cli.validation import check_targets
from lm_factuality.ground.errors import ModelError
from lm_factuality.harness.checkpoints import check_model
from lm_factuality.harness.tasks import find_configs
from tests.conftest import REPOSITORY, TASKS, example_row

CHECKPOINT = str(TASKS / "sample" / "models" / "larger")


class ModelLoadingError(Exception):
    """Raised in place of loading a model, which is what a run without mistakes does."""


@pytest.fixture(autouse=True)
def restored_arguments(monkeypatch) -> None:
    """Restore the arguments of this process after each test, since a run changes them."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))


def run_baseline(table: Path) -> int:
    """Run a baseline, which needs no model, on a table, and return the exit code."""
    model = ["--model", "surface-baseline", "--model_args", "rule=random"]
    return main(["run", *model, "--tasks", str(table)])


@pytest.fixture
def error_of_run(capsys, monkeypatch):
    """Return a function that starts a run with a mistake, and returns its error message.

    It takes arguments of ``lm-factuality run``, and the model's class and checkpoint.
    """

    def fail_to_load(*arguments, **options):
        raise ModelLoadingError

    monkeypatch.setattr(evaluator, "simple_evaluate", fail_to_load)

    def start(*arguments: str, model: str = "hf", pretrained: str | None = CHECKPOINT) -> str:
        command = ["run", "--model", model, *arguments]
        if pretrained is not None:
            command += ["--model_args", f"pretrained={pretrained}"]
        exit_code = main(command)
        assert exit_code == 1
        _, _, message = capsys.readouterr().err.partition("lm-factuality: ")
        return message

    return start


@pytest.mark.parametrize(
    ("task", "message"),
    [
        pytest.param("sample_facto", "did you mean sample_factor", id="misspelt"),
        pytest.param("zzzzqqqq", "'zzzzqqqq' is not a task", id="like no task"),
        pytest.param("no_such.yaml", "no_such.yaml: no such file", id="missing file"),
        pytest.param("a.yaml", "a.yaml: no such file", id="missing file with a short name"),
        pytest.param(
            str(REPOSITORY / "configs/corpora/sample.yaml"),
            "a build of factor-gen, run the YAML that it writes",
            id="config of factor-gen",
        ),
    ],
)
def test_an_unknown_task_is_refused(error_of_run, task, message):
    """Loading a model takes minutes, so a typing error should end the run before."""
    error = error_of_run("--tasks", task)

    assert message in error


@pytest.mark.parametrize(
    ("task", "setting", "message"),
    [
        pytest.param("sample_factor", "windoww=4096", "did you mean window?", id="misspelt name"),
        pytest.param(
            "sample_factor",
            "judge=lexical",
            "--metadata judge: no task of this run has such a setting",
            id="of other tasks",
        ),
        pytest.param(
            "sample_felm",
            "protocol=papr",
            "protocol is 'papr'; expected 'chat', 'paper' or 'code'",
            id="misspelt value",
        ),
        pytest.param("sample_felm_gen", "judge=lexicl", "did you mean lexical?", id="judge"),
        pytest.param(
            "sample_ambigbio",
            "knowledge=nowhere.db",
            "nowhere.db: no such file",
            id="knowledge source",
        ),
        pytest.param(
            "felm_gen",
            "judge=lexical,data_dir=/nowhere",
            "/nowhere/all.jsonl: no such file",
            id="data folder",
        ),
    ],
)
def test_a_wrong_setting_is_refused(error_of_run, task, setting, message):
    """lm_eval takes any setting, so a misspelt one would silently leave the default."""
    error = error_of_run("--tasks", task, "--metadata", setting)

    assert message in error


def test_a_misspelt_model_class_is_refused(error_of_run):
    """The message names the class that is spelt most alike."""
    message = error_of_run("--tasks", "sample_factor", model="hff")

    assert "--model hff: no such model class; did you mean hf?" in message


@pytest.mark.parametrize(
    ("model", "key", "option"),
    [
        pytest.param("hf-tree", "pretraned", "pretrained", id="option of a base class"),
        pytest.param("surface-baseline", "rul", "rule", id="option of the class"),
    ],
)
def test_misspelt_model_argument_is_refused(error_of_run, model, key, option):
    """Many models take any key, so a misspelt one would silently leave the default."""
    message = error_of_run(
        "--tasks", "sample_factor", "--model_args", f"{key}=x", model=model, pretrained=None
    )

    assert f"no such option; did you mean {option}?" in message


def test_transformers_argument_is_accepted():
    """``hf`` passes unknown keys on, so the check must know what transformers takes."""
    check_model("hf", {"pretrained": CHECKPOINT, "attn_implementation": "eager"}, "")


def test_run_accepts_the_same_table_as_validate(write_rows, capsys):
    """A user need not write a YAML to score a model on a table of their own."""
    rows = write_rows([example_row()], "my_rows.jsonl")

    exit_code_of_validate = main(["validate", str(rows)])
    exit_code_of_run = run_baseline(rows)

    assert exit_code_of_validate == 0
    assert exit_code_of_run == 0
    assert "my_rows" in capsys.readouterr().out


def test_warning_about_bad_table_rows_names_the_command_to_list_them(write_rows, caplog):
    """The second row has an empty contradiction, which leaves it unscored."""
    rows = write_rows([example_row(), example_row(contradiction_1="")], "my_rows.jsonl")

    with caplog.at_level(logging.WARNING):
        run_baseline(rows)

    assert f"'lm-factuality validate {rows}' lists them all" in caplog.text


def test_a_run_blames_the_table_for_a_misspelt_column(write_rows, capsys):
    """The user wrote the table, and has no YAML to look at."""
    row = example_row()
    row["compleation"] = row.pop("completion")
    rows = write_rows([row], "my_rows.jsonl")

    exit_code = run_baseline(rows)

    assert exit_code != 0
    assert f"{rows}: no column 'completion'" in "".join(capsys.readouterr())


def test_run_without_saved_results_prints_the_checkpoint(write_rows, capsys):
    """The printed table is then all that remains of the run."""
    rows = write_rows([example_row()], "my_rows.jsonl")

    model_args = f"pretrained={CHECKPOINT},dtype=float32"
    main(["run", "--model", "hf-tree", "--model_args", model_args, "--tasks", str(rows)])

    # The first cells of a row of the table are the task and the model.
    first_cells = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert ["my_rows", "larger"] in first_cells


def test_table_named_like_a_suite_task_is_refused(error_of_run, write_rows, tmp_path):
    """Two tasks of one name would overwrite each other's results."""
    rows = write_rows([example_row()], "news_factor.jsonl")

    message = error_of_run("--tasks", str(rows))

    assert f"--tasks news_factor --metadata data_dir={tmp_path}" in message


def test_missing_include_path_is_refused(error_of_run):
    """Without this check, the error would be that a task in this folder is unknown."""
    message = error_of_run("--tasks", "sample_factor", "--include_path", "no_such_folder")

    assert "--include_path no_such_folder: no such folder" in message


def test_run_outside_a_git_checkout_does_not_call_git(tmp_path, monkeypatch):
    """lm_eval asks git for the state of the code, and git would print an error there."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.chdir(tmp_path)
    commands = []
    monkeypatch.setattr(subprocess, "check_output", lambda command, **_: commands.append(command))

    baseline = ["--model", "surface-baseline", "--model_args", "rule=random"]
    main(["run", *baseline, "--tasks", "sample_factor", "--limit", "2"])

    assert commands == []


def test_validate_checks_the_judge_named_for_the_task(tmp_path):
    """A run would end after the generations if its judge did not exist."""
    (report,) = check_targets(["sample_felm_gen"], {"judge": "no-such-judge"})

    assert "no judge is called 'no-such-judge'" in report.problems[0]


def test_a_model_class_without_a_checkpoint_is_refused(error_of_run):
    """The class ``hf`` does not say which weights to load, so the error asks for them."""
    message = error_of_run("--tasks", "sample_factor", model="hf", pretrained=None)

    assert "--model hf: which one?" in message


@pytest.mark.parametrize(
    ("pretrained", "message"),
    [
        pytest.param("./lager", "no such folder; did you mean larger?", id="misspelt folder"),
        pytest.param("checkpoints", "a folder without config.json", id="folder without a model"),
        pytest.param("nobody/has-it", "cannot be loaded", id="name that the Hub does not have"),
        pytest.param("what is this", "cannot be loaded", id="name that the Hub cannot have"),
    ],
)
def test_missing_checkpoint_is_refused(error_of_run, tmp_path, monkeypatch, pretrained, message):
    """The Hub's own error has many lines, and does not know folders with similar names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "larger").mkdir()
    (tmp_path / "checkpoints").mkdir()

    error = error_of_run("--tasks", "sample_factor", pretrained=pretrained)

    assert f"pretrained={pretrained}" in error
    assert message in error


@pytest.fixture
def model_classes() -> None:
    """Let lm_eval register its model classes, among which a model is looked up."""
    import lm_eval.models  # noqa: F401


@pytest.mark.usefixtures("model_classes")
def test_mistral_format_folder_is_accepted_as_a_checkpoint(tmp_path):
    """vLLM loads such folders, which have no ``config.json``."""
    (tmp_path / "params.json").write_text("{}", encoding="utf-8")

    check_model("vllm", {"pretrained": str(tmp_path)}, device="")


@pytest.mark.usefixtures("model_classes")
@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        pytest.param(
            "hf",
            {"pretrained": CHECKPOINT, "offload_folder": "./offload", "cache_dir": "~/none/yet"},
            id="folders that are made later",
        ),
        pytest.param(
            "hf",
            {"pretrained": str(TASKS / "sample" / "models"), "subfolder": "larger"},
            id="subfolder",
        ),
        pytest.param(
            "local-completions",
            {"pretrained": "my-model", "base_url": "http://127.0.0.1:1/v1/completions"},
            id="model of a server",
        ),
        pytest.param("vllm", {"pretrained": "s3://bucket/model"}, id="URL"),
    ],
)
def test_unverifiable_checkpoint_is_accepted(model, arguments, tmp_path, monkeypatch):
    """Only the class that loads a model knows what else its arguments may name."""
    monkeypatch.chdir(tmp_path)

    check_model(model, arguments, device="cpu")


@pytest.mark.parametrize(
    ("num_gpus", "device", "message"),
    [
        pytest.param(0, "cuda", "--device cuda: no such GPU.* shows 0 GPUs", id="no GPU"),
        pytest.param(0, "cuda:0", "--device cuda:0: no such GPU.* shows 0 GPUs", id="no first GPU"),
        pytest.param(
            2, "cuda:2", "--device cuda:2: no such GPU.* shows 2 GPUs", id="third of two GPUs"
        ),
    ],
)
def test_missing_gpu_is_refused(monkeypatch, num_gpus, device, message):
    """lm_eval would take another device without a word."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)

    with pytest.raises(ModelError, match=message):
        check_model("hf", {"pretrained": CHECKPOINT}, device)


@pytest.mark.usefixtures("model_classes")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_existing_gpu_is_accepted(monkeypatch, device):
    """The check refuses only GPUs that do not exist."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)

    check_model("hf", {"pretrained": CHECKPOINT}, device)


def test_tasks_of_nested_groups_are_found(tmp_path):
    """A group may name tasks and groups, change tasks, or write them out."""
    (tmp_path / "named_group.yaml").write_text(
        "group: named_group\ntask: [sample_factor_perplexity]\n"
    )
    (tmp_path / "mine.yaml").write_text(
        """\
group: mine
task:
  - group: within
    task: [sample_factor, {task: sample_felm, num_fewshot: 0}]
  - group: written
    task:
      - {task: made_here, dataset_path: nobody/has-it, output_type: loglikelihood}
  - group: named_group
"""
    )

    names = [name for name, _ in find_configs("mine", [str(tmp_path)])]

    assert names == ["sample_factor", "sample_felm", "made_here", "sample_factor_perplexity"]


def test_misspelt_task_in_a_nested_group_is_refused(error_of_run, tmp_path):
    """lm_eval would find the error after it has loaded the model."""
    (tmp_path / "mine.yaml").write_text(
        """\
group: mine
task:
  - group: within
    task: [sample_facto, sample_felm]
"""
    )

    message = error_of_run("--tasks", "mine", "--include_path", str(tmp_path))

    assert "did you mean sample_factor" in message


def test_gpu_out_of_memory_error_says_what_to_do(error_of_run, monkeypatch):
    """PyTorch's message states sizes, but not which options of a run change them."""
    memory_error = "CUDA out of memory. Tried to allocate 2.25 GiB."

    def run_out_of_memory(*arguments, **options):
        raise torch.OutOfMemoryError(memory_error)

    monkeypatch.setattr("lm_eval._cli.run.Run._execute", run_out_of_memory)

    message = error_of_run("--tasks", "sample_factor")

    assert message.startswith(f"{memory_error}; take a smaller --batch_size, --model hf-tree")


@pytest.fixture
def indexed_folders(monkeypatch) -> list[str]:
    """Return the list of the folders that lm_eval reads for tasks from now on."""
    folders = []
    build = TaskIndex.build

    def record_and_build(paths, **options):
        folders.extend(str(path) for path in paths)
        return build(paths, **options)

    monkeypatch.setattr(TaskIndex, "build", staticmethod(record_and_build))
    return folders


@pytest.mark.parametrize(
    ("tasks", "reads_tasks_of_lm_eval"),
    [
        pytest.param("sample_felm_gen,sample_ambigbio", False, id="tasks of the suite"),
        pytest.param(
            "sample_felm_gen,arc_easy", True, id="a task of lm_eval", marks=pytest.mark.slow
        ),
    ],
)
def test_lm_eval_tasks_are_read_only_if_the_run_uses_one(
    error_of_run, indexed_folders, tasks, reads_tasks_of_lm_eval
):
    """Reading all tasks of lm_eval takes seconds."""
    # The run goes on to load its model, which this fixture prevents.
    with pytest.raises(ModelLoadingError):
        error_of_run("--tasks", tasks, "--metadata", "judge=lexical,thinking_tokens=0")

    was_lm_eval_read = any("site-packages" in folder for folder in indexed_folders)
    assert was_lm_eval_read == reads_tasks_of_lm_eval


def test_run_restores_the_class_that_reads_tasks(error_of_run):
    """A program may use lm_eval after a run of the suite, with all of lm_eval's tasks."""
    original_init = TaskManager.__init__

    with pytest.raises(ModelLoadingError):
        error_of_run("--tasks", "sample_factor")

    assert TaskManager.__init__ is original_init


@pytest.fixture
def write_ambigbio_yaml(tmp_path):
    """Return a function that writes an AmbigBio task with one more line, and returns its path."""

    def write(line: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(
            f"""\
include: {TASKS}/ambigbio/_ambigbio.yaml
task: mine
dataset_path: {TASKS}/sample/sample_ambigbio.json
{line}
""",
            encoding="utf-8",
        )
        return str(path)

    return write


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("colums: [a]", "unknown key 'colums'", id="key"),
        pytest.param(
            "metadata: {demonstratons: ambiguous}",
            "metadata: no setting 'demonstratons'; did you mean demonstrations?",
            id="setting",
        ),
    ],
)
def test_misspelt_yaml_key_is_reported_by_validate_and_run(
    error_of_run, write_ambigbio_yaml, line, message
):
    """lm_eval takes any key, so a misspelt one would silently leave the default."""
    path = write_ambigbio_yaml(line)

    (report,) = check_targets([path])
    error = error_of_run("--tasks", path, "--metadata", "judge=lexical")

    assert message in " ".join(report.problems)
    assert message in error


def test_user_notes_in_the_metadata_are_accepted(write_ambigbio_yaml):
    """Users may keep remarks of their own there. Only names like a setting's are suspicious."""
    path = write_ambigbio_yaml("metadata: {my_note: of no matter}")

    (report,) = check_targets([path])

    assert not report.problems
