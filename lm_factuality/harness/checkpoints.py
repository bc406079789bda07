"""Checks that a model can be had, before lm_eval begins to load it.

`lm-factuality run` calls it, so that a misspelt name costs a second and not a traceback.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, ModelError, did_you_mean
from lm_factuality.ground.packages import loading
from lm_factuality.harness.internals import internal

_PATH_STARTS = ("/", "./", "../", "~")  # no name on the Hub begins so
_LOADING = ("hf", "vllm", "sglang")  # classes that take a checkpoint's name or folder


def check_model(name: str, arguments: Mapping[str, Any], device: str) -> None:
    """Check a model class, its checkpoint and its device.

    Args:
        name: lm_eval's ``--model``.
        arguments: Those of ``--model_args``.
        device: ``--device``, or empty.

    Raises:
        ConfigError: lm_eval has no such class, or no checkpoint is named.
        ModelError: The checkpoint or the device is not there.
    """
    names = sorted(internal("lm_eval.api.registry:model_registry").keys())
    if name not in names:
        hint = did_you_mean(name, names)
        raise ConfigError(f"--model {name}: no such model class{hint}; known: {', '.join(names)}")
    checkpoint = arguments.get("pretrained")
    if name.startswith("hf") and not checkpoint:
        raise ConfigError(
            f"--model {name}: which one? Add --model_args pretrained=NAME, of a model on the Hub,"
            " or of a folder"
        )
    is_loaded = name.startswith(_LOADING) and not arguments.get("gguf_file")
    if is_loaded and isinstance(checkpoint, str) and "://" not in checkpoint:
        _check_checkpoint(checkpoint, arguments)
    _check_device(str(arguments.get("device") or device))


def _check_checkpoint(name: str, arguments: Mapping[str, Any]) -> None:
    """Check that a checkpoint is a folder, in the Hub's cache, or on the Hub."""
    from transformers.utils import cached_file

    where = f"--model_args pretrained={name}"
    subfolder = str(arguments.get("subfolder") or "")
    folder = Path(name).expanduser()
    if folder.is_dir():
        files = [folder / subfolder / file for file in ("config.json", "params.json")]
        if not any(file.is_file() for file in files):
            raise ModelError(
                f"{where}: a folder without config.json, so no checkpoint as transformers saves it"
            )
    elif name.startswith(_PATH_STARTS):
        neighbours = [file.name for file in folder.parent.glob("*")]
        raise ModelError(f"{where}: no such folder{did_you_mean(folder.name, neighbours)}")
    else:
        with loading(where):
            revision = arguments.get("revision")
            cached_file(name, "config.json", revision=revision, subfolder=subfolder)


def _check_device(device: str) -> None:
    """Check a device such as ``cuda:1``, for which lm_eval would take another without a word."""
    if not device.startswith("cuda"):
        return
    import torch

    count = torch.cuda.device_count()
    if count == 0:
        raise ModelError(
            f"--device {device}: this machine shows no GPU; leave --device out, or use --device cpu"
        )
    number = re.fullmatch(r"cuda:(\d+)", device)
    if number and int(number[1]) >= count:
        raise ModelError(
            f"--device {device}: no such GPU, and lm_eval would take the first instead; expected"
            f" cuda:0 to cuda:{count - 1}"
        )
