"""What is checked before lm_eval loads a model: what needs no import of it first, then the tasks
themselves, made once."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from lm_factuality.ground.errors import ConfigError, FactualityError, ModelError, did_you_mean
from lm_factuality.harness.internals import internal

_PATHS = ("/", "./", "../", "~")  # how a path begins that is no name on the Hub
_WRITTEN = (
    "folder",
    "dir",
    "cache",
    "store",
)  # how an argument ends that may name what is yet to be made
_LOADING = (
    "hf",
    "vllm",
    "sglang",
)  # how classes begin that take a checkpoint's name on the Hub, or its folder
_DEV = Path("/dev")
_DEVICES = (
    "nvidiactl",
    "nvidia0",
    "dxg",
    "kfd",
)  # there where CUDA or ROCm has something to work with
_BUILDS = {"corpus", "generate", "select", "choose"}  # sections of factor-gen's configs
_COMMON = (
    *(
        "version",
        "license",
        "description",
        "caution",
        "data_dir",
        "source",
        "pretrained",
        "tokenizer",
        "chat_template_args",
    ),
    *("thinking_tokens", "enable_thinking", "think_end_token"),
)
_NEAR = 0.8  # of difflib, by which a key of a YAML is taken for a misspelt one
_PATIENCE = 2.0  # seconds for the Hub to say whether it has a model


def check_model(name: str, arguments: Mapping[str, Any], device: str) -> None:
    """Raises ConfigError, ModelError: lm_eval has no such model class, the checkpoint is not there,
    or the device is not."""
    known = sorted(internal("lm_eval.api.registry:model_registry").keys())
    if name not in known:
        raise ConfigError(
            f"--model {name}: no such model class{did_you_mean(name, known)}; known:"
            f" {', '.join(known)}"
        )
    for key, value in arguments.items():
        is_read = isinstance(value, str) and value.startswith(_PATHS) and not key.endswith(_WRITTEN)
        path = Path(value).expanduser() if is_read else None
        if path is not None and not path.exists():
            beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            raise ModelError(
                f"--model_args {key}={value}: no such file or"
                f" folder{did_you_mean(path.name, beside)}"
            )
    checkpoint = arguments.get("pretrained")
    if name.startswith("hf") and not checkpoint:
        raise ConfigError(
            f"--model {name}: which one? Add --model_args pretrained=NAME, of a model on the Hub,"
            " or of a folder"
        )
    if isinstance(checkpoint, str) and name.startswith(_LOADING) and "://" not in checkpoint:
        _check_checkpoint(checkpoint, arguments)
    device = str(arguments.get("device") or device)
    has_gpu = sys.platform != "linux" or any((_DEV / each).exists() for each in _DEVICES)
    if device.startswith("cuda") and not (
        has_gpu and os.environ.get("CUDA_VISIBLE_DEVICES", "0") not in ("", "-1")
    ):
        raise ModelError(
            f"--device {device}: this machine shows no GPU; leave --device out, or use --device cpu"
        )
    number, count = re.fullmatch(r"cuda:(\d+)", device), _num_gpus()
    if number and count and int(number[1]) >= count:
        there = ", ".join(f"cuda:{each}" for each in range(count))
        raise ModelError(
            f"--device {device}: no such GPU, and lm_eval would take the first instead; found"
            f" {there}"
        )


def _num_gpus() -> int:
    """As many as CUDA shows a process; 0 where only CUDA could tell."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len(visible.split(","))
    return len([each for each in _DEV.glob("nvidia*") if each.name[6:].isdecimal()])


def _check_checkpoint(name: str, arguments: Mapping[str, Any]) -> None:
    from huggingface_hub import HfApi, constants, try_to_load_from_cache
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where, within = f"--model_args pretrained={name}", str(arguments.get("subfolder") or "")
    if (folder := Path(name).expanduser() / within).is_dir():
        if not arguments.get("gguf_file") and not any(
            (folder / each).is_file() for each in ("config.json", "params.json")
        ):
            raise ModelError(
                f"{where}: a folder without config.json, so no checkpoint as transformers saves it"
            )
        return
    try:
        if isinstance(
            try_to_load_from_cache(
                name, f"{within}/config.json".lstrip("/"), revision=arguments.get("revision")
            ),
            str,
        ):
            return
        if constants.is_offline_mode():
            raise ModelError(
                f"{where}: no such folder, and not in the Hub's cache, while HF_HUB_OFFLINE asks"
                " for no network"
            )
        HfApi().model_info(name, revision=arguments.get("revision"), timeout=_PATIENCE)
    except HFValidationError as error:
        raise ModelError(f"{where}: no such folder, and no name that the Hub can have") from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        cure = "a private or gated model needs HF_TOKEN in the environment"
        raise ModelError(
            f"{where}: no such folder, and the Hub shows no such model or revision; {cure}"
        ) from error
    except (HfHubHTTPError, OSError):
        return  # it may be there all the same: whoever loads it will say


def check_yamls(tasks: Sequence[str]) -> None:
    """Raises ConfigError: a YAML among ``tasks`` is not there, or is none of a task."""
    for path in (
        Path(each) for each in tasks if each.endswith((".yaml", ".yml")) and "*" not in each
    ):
        if not path.is_file():
            beside = (
                [each.name for each in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
            )
            raise ConfigError(f"--tasks {path}: no such file{did_you_mean(path.name, beside)}")
        try:
            root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            raise ConfigError(
                f"--tasks {path}: not readable YAML: {' '.join(str(error).split())[:300]}"
            ) from error
        keys = (
            {str(key.value) for key, _ in root.value}
            if isinstance(root, yaml.MappingNode)
            else set()
        )
        if not keys & {"task", "include", "group"}:
            what = (
                "found no mapping" if not keys else f"found the keys {', '.join(sorted(keys)[:8])}"
            )
            cure = "a task's YAML names it under 'task'"
            if len(keys & _BUILDS) > 1 or "corpus" in keys:
                cure = (
                    f"it is a build of factor-gen: lm-factuality gen build {path} --out DIR, then"
                    " run the YAML that it writes"
                )
            raise ConfigError(f"--tasks {path}: no task: {what}; {cure}")


def check_tasks(
    tasks: Sequence[str],
    folders: Sequence[str],
    arguments: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> bool:
    """Makes every task of the suite's among ``tasks`` once, which says what is wrong with its
    judge, settings and data; returns whether all tasks are the suite's. lm_eval adds the model's
    ``arguments`` to the ``metadata`` of the command line. Raises ConfigError, DataError: a task
    that cannot be made, a name that nobody knows, or a setting that no task has."""
    from lm_factuality.harness.suite_task import SuiteTask, quietly
    from lm_factuality.harness.tasks import find_configs

    found = [each for task in tasks for each in find_configs(task, folders, may_import=True)]
    classes: list[type | None] = []
    for name, config in found:
        if isinstance(config, FactualityError):
            if not _is_lm_evals(name):
                raise config
            classes.append(None)
            continue
        kind = config.get("class")
        classes.append(kind if isinstance(kind, type) and issubclass(kind, SuiteTask) else None)
        for problem in unknown_keys(name, config):
            raise ConfigError(problem)
    settings = {key for kind in classes if kind is not None for key in settings_of(kind)}
    if None not in classes and (unknown := [key for key in metadata if key not in settings]):
        hint = (
            did_you_mean(unknown[0], settings)
            or f"; they have {', '.join(sorted(settings.difference(_COMMON)))}"
        )
        raise ConfigError(f"--metadata {unknown[0]}: no task of this run has such a setting{hint}")
    for kind, (_, config) in zip(classes, found, strict=True):
        if kind is not None and isinstance(config, dict):
            with quietly():
                kind(config={**config, "metadata": {**config["metadata"], **arguments, **metadata}})
    return None not in classes


def settings_of(kind: type) -> frozenset[str]:
    """The keys of ``metadata`` that a class of tasks reads, by what its ``reads`` and those of its
    bases name."""
    return frozenset(_COMMON).union(*(vars(base).get("reads", ()) for base in kind.__mro__))


def unknown_keys(name: str, config: Mapping[str, Any]) -> Iterator[str]:
    """What is misspelt in a YAML: a key unknown to lm_eval, or one of metadata that is nearly a
    setting (others are notes)."""
    kind = config.get("class")
    if not isinstance(kind, type) or not any("reads" in vars(base) for base in kind.__mro__):
        return
    known = {"class", "include", *internal("lm_eval.config.task:TaskConfig").__dataclass_fields__}
    for key in config:
        if key not in known:
            yield f"{name}: unknown key {key!r}{did_you_mean(key, known)}"
    settings = settings_of(kind)
    for key in config.get("metadata") or {}:
        if key not in settings and (hint := did_you_mean(str(key), settings, cutoff=_NEAR)):
            yield f"{name}: metadata: no setting {key!r}{hint}"


def _is_lm_evals(name: str) -> bool:
    """Whether the files of lm_eval's own tasks hold ``name``; lm_eval takes longer to list them."""
    folder = Path(internal("lm_eval").__file__).parent / "tasks"
    if "*" in name or Path(name).suffix or Path(name).is_dir():
        return "*" in name or Path(name).is_dir()
    files = [
        Path(root, each)
        for root, _, names in os.walk(folder)
        for each in names
        if each.endswith((".yaml", ".py"))
    ]
    if any(name in (path.stem, path.parent.name) for path in files):
        return True
    return any(name.encode() in path.read_bytes() for path in files)
