"""Makes the commands of the steps, which `bench.real.steps` lists.

Each function returns the command's words, or a function that does so when the step begins.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from bench.real.data import felm_lines, rows_with_references, spread, write_felm_rows
from bench.real.record import CannotRunError, MakeCommand, StepContext
from lm_factuality.ground.errors import DataError

_BIN = Path(sys.executable).parent
_CONFIGS = Path(__file__).parent


def run_tasks(
    model_type: str,
    tasks: Sequence[str],
    sample: str = "",
    model_args: Sequence[str] = (),
    options: Sequence[str] = (),
) -> MakeCommand:
    """Make the command that evaluates the model on tasks: ``lm-factuality run``.

    Args:
        model_type: lm_eval's name for the way to run the model, such as ``hf-tree``. That of vLLM
            runs in an environment of its own.
        tasks: The tasks. One whose published data are missing is left out.
        sample: The task with embedded data that is run if all tasks are left out. Without one, the
            step is skipped then.
        model_args: More arguments of the model, such as ``layers=low``.
        options: More options of the command.
    """

    def make_command(context: StepContext) -> list[str]:
        tasks_to_run = [task for task in tasks if not _is_missing(task, context)]
        if not tasks_to_run:
            if not sample:
                raise CannotRunError("; ".join(context.missing.values()))
            tasks_to_run = [sample]
        folder = find_vllm(context) if model_type == "vllm" else _BIN
        all_model_args = [f"pretrained={context.model}", "dtype=float32", *model_args]
        return [
            str(folder / "lm-factuality"),
            "run",
            "--model",
            model_type,
            "--model_args",
            ",".join(all_model_args),
            "--tasks",
            ",".join(tasks_to_run),
            *_choose_rows(tasks_to_run, context),
            "--output_path",
            str(context.folder),
            "--log_samples",
            *options,
        ]

    return make_command


def _is_missing(task: str, context: StepContext) -> bool:
    """Return whether the published data of a task are missing."""
    # The name of a task begins with that of its source.
    return task.startswith(tuple(context.missing))


def find_vllm(context: StepContext) -> Path:
    """Return the folder with the commands of the environment with vLLM.

    Raises:
        CannotRunError: There is no such environment.
    """
    if not (context.vllm / "lm-factuality").is_file():
        raise CannotRunError(
            f"{context.vllm} has no lm-factuality: 'make test-vllm' builds that environment"
        )
    return context.vllm


def _choose_rows(tasks: Sequence[str], context: StepContext) -> list[str]:
    """Return the option that limits the rows of tasks, which are all or none of FELM."""
    if not tasks[0].startswith("felm"):
        return ["--limit", str(context.rows)]

    # The offline judge, which judges felm_gen here, has no verdict without references.
    usable_rows: Sequence[int]
    if "felm_gen" in tasks:
        usable_rows = rows_with_references(context.data)
    else:
        usable_rows = range(len(felm_lines(context.data)))
    chosen_rows = [usable_rows[index] for index in spread(len(usable_rows), context.rows)]
    return ["--samples", json.dumps(dict.fromkeys(tasks, chosen_rows))]


def judge_responses(context: StepContext) -> list[str]:
    """Make the command that lets the model judge the responses of the step ``felm_gen``.

    Raises:
        DataError: That step failed.
    """
    samples = sorted((context.out / "felm_gen").rglob("samples_*felm_gen_*.jsonl"))
    if not samples:
        raise DataError("the step felm_gen left no responses to judge")
    return [
        str(_BIN / "lm-factuality"),
        "judge",
        "felm_gen",
        "--samples",
        *map(str, samples),
        "--judge",
        fill_config("judge", context),
        "--store",
        _answer_store(context),
        "--out",
        str(context.folder / "judged"),
    ]


def certify_model(context: StepContext) -> list[str]:
    """Make the command that certifies the model as a judge on FELM, or on the sample.

    The rows of FELM are written to the step's folder.
    """
    if "felm" in context.missing:
        data_options = ["--sample"]
    else:
        felm_folder = context.folder / "felm"
        write_felm_rows(context.data, context.rows, felm_folder)
        data_options = ["--data-dir", str(felm_folder)]
    return [
        str(_BIN / "lm-factuality"),
        "certify",
        "--judge",
        fill_config("judge", context),
        "--setting",
        "segment_vanilla",
        *data_options,
        "--store",
        _answer_store(context),
        "--out",
        str(context.folder / "certificate.json"),
    ]


def build_benchmark(config: str) -> MakeCommand:
    """Make the command that builds a FACTOR benchmark from news articles: ``factor-gen build``.

    Args:
        config: The name of the YAML file in this folder that describes the build.
    """

    def make_command(context: StepContext) -> list[str]:
        if "news_factor" in context.missing:
            raise CannotRunError(context.missing["news_factor"])
        return [
            str(_BIN / "factor-gen"),
            "build",
            fill_config(config, context),
            "--out",
            str(context.folder / "built"),
        ]

    return make_command


def fill_config(config: str, context: StepContext) -> str:
    """Write a config to the step's folder with the paths of this run, and return its path.

    Args:
        config: The name of a YAML file in this folder. It may contain ``$model``, ``$data``,
            ``$rows`` and, for the path of the filled config of the judge, ``$judge``.
        context: The step.
    """
    values: dict[str, object] = {
        "model": context.model,
        "data": context.data,
        "rows": context.rows,
    }
    if config == "writer":
        values["judge"] = fill_config("judge", context)
    template = Template((_CONFIGS / f"{config}.yaml").read_text(encoding="utf-8"))
    context.folder.mkdir(parents=True, exist_ok=True)
    path = context.folder / f"{config}.yaml"
    path.write_text(template.substitute(values), encoding="utf-8")
    return str(path)


def _answer_store(context: StepContext) -> str:
    """Return the path of the file that keeps the judge's answers, which steps share."""
    return str(context.out / "answers.sqlite")
