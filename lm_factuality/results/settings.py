"""Find the settings of a run that can change its scores, besides the weights of the model.

Reports and leaderboards show them, and leaderboards refuse some of them.
"""

import json
from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import ResultsFile, TaskResult

_SETTING_NAMES: Mapping[str, list[str]] = load_yaml(__package__, "settings.yaml")

ADAPTERS = _SETTING_NAMES["adapters"]
"""The arguments of a model that add something to its checkpoint."""

_SCORE_CHANGING_ARGUMENTS = (*ADAPTERS, *_SETTING_NAMES["arguments"])
"""The arguments of a model that can change its scores."""

_PROMPT_SETTINGS = _SETTING_NAMES["prompting"]
"""The names in a results file under which lm_eval describes the form of all prompts."""

_UNSET_ARGUMENTS = (None, "", False, "None", "False", "false")
"""The values of a model argument that have no effect."""

_EMPTY_SETTINGS = ("", "null", "{}", "[]")
"""The JSON texts of settings that are not set."""


def model_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model, i.e. lm_eval's ``--model_args``, by name.

    Args:
        config: The options of a run. The arguments are an object or a text, as the user wrote them.

    Example:
        ``{"model_args": "pretrained=gpt2,dtype=float32"}`` gives
        ``{"pretrained": "gpt2", "dtype": "float32"}``.
    """
    arguments = config.get("model_args")
    if isinstance(arguments, str):
        # A value can contain an equals sign itself, as in a path. A part without one has no value.
        pairs = [text.split("=", 1) for text in arguments.split(",") if "=" in text]
        arguments = {name.strip(): value.strip() for name, value in pairs}
    return dict(as_mapping(arguments))


def score_changing_arguments(file: ResultsFile) -> dict[str, Any]:
    """Return the model arguments of a run that can change its scores, such as ``load_in_4bit``.

    They add an adapter to the checkpoint, change its weights, or change the tokens of a text.
    """
    arguments = model_arguments(as_mapping(file.content.get("config")))
    return {
        name: arguments[name]
        for name in _SCORE_CHANGING_ARGUMENTS
        if arguments.get(name) not in _UNSET_ARGUMENTS
    }


def settings_of(file: ResultsFile, task: TaskResult) -> dict[str, str]:
    """Return the settings of a run that can change its scores, besides the model's weights.

    Args:
        file: The results file of the run.
        task: A task of the file.

    Returns:
        The settings by name, as texts: ``{"dtype": "float32", "limit": "10.0"}``. Those that are
        not set are missing.
    """
    settings: dict[str, Any] = {}
    for name in ("suite", "lm_eval", "transformers"):
        settings[name] = file.versions.get(name)
    # lm_eval states the number of few-shot examples that each task was given. The task's config may
    # have another number, which an option of the run replaced.
    shots_by_task = as_mapping(file.content.get("n-shot"))
    settings |= {
        "backend": file.backend,
        "dtype": file.dtype,
        "revision": file.revision,
        "task version": task.version,
        "limit": task.limit,
        "num_fewshot": shots_by_task.get(task.task, task.config.get("num_fewshot")),
        "model_args": score_changing_arguments(file),
        "judge": as_mapping(task.metadata.get("judge_config")).get("name"),
    }
    settings |= _task_settings(task)
    for name in _PROMPT_SETTINGS:
        # An option of the prompt that is off (False) is left out, as None is.
        settings[name] = file.content.get(name) or None
    return settings_as_texts(settings)


def _task_settings(task: TaskResult) -> dict[str, Any]:
    """Return the settings of a task's data, of its benchmark, and of the generation of answers."""
    settings: dict[str, Any] = {}
    for name, value in as_mapping(task.metadata.get("data")).items():
        settings[f"data, {name}"] = value
    # The package of the benchmark may not be installed here.
    benchmark = find_benchmark(task.kind)
    if benchmark is not None:
        for name in benchmark.data.settings:
            settings[name] = task.metadata.get(name)
    # Only tasks whose model generates text have these settings.
    if task.config.get("generation_kwargs"):
        settings["generation_kwargs"] = task.config["generation_kwargs"]
        settings["repeats"] = task.config.get("repeats")
        settings["thinking_tokens"] = task.metadata.get("thinking_tokens") or None
    return settings


def settings_as_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Write settings as texts, without those that are not set.

    Example:
        ``{"dtype": "float32", "limit": 10, "judge": None}`` gives
        ``{"dtype": "float32", "limit": "10"}``.
    """
    texts = {}
    for name, value in settings.items():
        if isinstance(value, str):
            text = value
        else:
            # Sorted keys make equal objects equal texts.
            text = json.dumps(value, ensure_ascii=False, sort_keys=True)
        if text not in _EMPTY_SETTINGS:
            texts[name] = text
    return texts
