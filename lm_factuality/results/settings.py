"""What can change the scores of a run besides the weights of its model."""

import json
from collections.abc import Mapping
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import ResultsFile, TaskResult

_NAMES: Mapping[str, list[str]] = load_yaml(__package__, "settings.yaml")

ADAPTERS = _NAMES["adapters"]
"""The arguments of a model that add something to its checkpoint."""

_UNSET = (None, "", False, "None", "False", "false")
_NOTHING = ("", "null", "{}", "[]")


def model_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``--model_args`` by name.

    Args:
        config: lm_eval's, which keeps them as they were given: as an object, or as one text.
    """
    arguments = config.get("model_args")
    if isinstance(arguments, str):
        pairs = [text.split("=", 1) for text in arguments.split(",") if "=" in text]
        arguments = {name.strip(): value.strip() for name, value in pairs}
    return dict(as_mapping(arguments))


def changing_arguments(file: ResultsFile) -> dict[str, Any]:
    """Return the arguments that make another model of a checkpoint, or other tokens of a text."""
    arguments = model_arguments(as_mapping(file.content.get("config")))
    return {
        name: arguments[name]
        for name in (*ADAPTERS, *_NAMES["arguments"])
        if arguments.get(name) not in _UNSET
    }


def settings_of(file: ResultsFile, task: TaskResult) -> dict[str, str]:
    """Return the settings of a run by name, as texts, as far as the run says them."""
    content, metadata = file.content, task.metadata
    settings: dict[str, Any] = {
        **{name: file.versions.get(name) for name in ("suite", "lm_eval", "transformers")},
        "backend": file.backend,
        "dtype": file.dtype,
        "revision": file.revision,
        "task version": task.version,
        "limit": task.limit,
        "num_fewshot": as_mapping(content.get("n-shot")).get(
            task.task, task.config.get("num_fewshot")
        ),
        "model_args": changing_arguments(file),
        "judge": as_mapping(metadata.get("judge_config")).get("name"),
    }
    for name, value in as_mapping(metadata.get("data")).items():
        settings[f"data, {name}"] = value
    benchmark = find_benchmark(task.kind)
    for name in benchmark.data.settings if benchmark else ():
        settings[name] = metadata.get(name)
    if task.config.get("generation_kwargs"):
        for name in ("generation_kwargs", "repeats"):
            settings[name] = task.config.get(name)
        settings["thinking_tokens"] = metadata.get("thinking_tokens") or None
    for name in _NAMES["prompting"]:
        settings[name] = content.get(name) or None
    return texts_of(settings)


def texts_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as texts, without those that are not set."""
    texts = {}
    for name, value in settings.items():
        text = value
        if not isinstance(value, str):
            text = json.dumps(value, ensure_ascii=False, sort_keys=True)
        if text not in _NOTHING:
            texts[name] = text
    return texts
