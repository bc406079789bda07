"""Checks that a model's class, checkpoint and device exist, before lm_eval begins to load it.

`lm-factuality run` calls it, so that a misspelt name costs a second and shows no traceback.
"""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path

from lm_factuality.ground.console import plural
from lm_factuality.ground.errors import ConfigError, ModelError, did_you_mean
from lm_factuality.ground.packages import loading
from lm_factuality.harness.internals import LmEvalPart, lm_eval_part

_MISSPELT_SIMILARITY = 0.85  # difflib's ratio from which a key counts as a misspelt option
_PATH_STARTS = ("/", "./", "../", "~")  # no name on the Hub begins so
_CHECKPOINT_CLASSES = ("hf", "vllm", "sglang")  # their names begin so; they load a checkpoint


def check_model(name: str, arguments: Mapping[str, object], device: str) -> None:
    """Check that the class, the checkpoint and the device of a model exist.

    Args:
        name: The model class, from lm_eval's ``--model``, such as ``hf``.
        arguments: The model's arguments, from ``--model_args``.
        device: The value of ``--device``, or empty. A device among the arguments wins.

    Raises:
        ConfigError: lm_eval has no such class, a key of the arguments is misspelt, or no checkpoint
            is named.
        ModelError: The checkpoint or the device does not exist.
    """
    names = sorted(lm_eval_part("lm_eval.api.registry:model_registry").keys())
    if name not in names:
        hint = did_you_mean(name, names)
        raise ConfigError(f"--model {name}: no such model class{hint}; known: {', '.join(names)}")

    _check_keys(name, arguments)
    checkpoint = arguments.get("pretrained")
    if name.startswith("hf") and not checkpoint:
        raise ConfigError(
            f"--model {name}: which one? Add --model_args pretrained=NAME, of a model on the Hub,"
            " or of a folder"
        )
    if name.startswith(_CHECKPOINT_CLASSES) and isinstance(checkpoint, str):
        _check_checkpoint(checkpoint, arguments)
    _check_device(str(arguments.get("device") or device))


def _check_keys(name: str, arguments: Mapping[str, object]) -> None:
    """Check that no argument is a misspelt option of the model class.

    Classes pass unknown arguments on, or ignore them, so only keys that resemble an option of the
    class are refused.

    Args:
        name: The model class.
        arguments: The model's arguments.

    Raises:
        ConfigError: A key resembles an option.
    """
    try:
        model_class = lm_eval_part("lm_eval.api.registry:get_model")(name)
    except ImportError:
        # lm_eval itself says which package the class needs.
        return
    options = _options_of(model_class)
    for key in arguments:
        if key in options:
            continue
        hint = did_you_mean(key, options, cutoff=_MISSPELT_SIMILARITY)
        if hint:
            raise ConfigError(f"--model_args {key}: --model {name} has no such option{hint}")


def _options_of(model_class: LmEvalPart) -> set[str]:
    """Return the names of the options of a model class and of its base classes."""
    options: set[str] = set()
    for base in model_class.__mro__:
        if "__init__" in vars(base):
            options.update(signature(base.__init__).parameters)
    return options


def _check_checkpoint(name: str, arguments: Mapping[str, object]) -> None:
    """Check that a checkpoint is a folder, in the Hub's cache, or on the Hub.

    Args:
        name: The name on the Hub or the folder, such as ``openai-community/gpt2`` or ``./gpt2``.
        arguments: The model's arguments, which may name a ``revision`` and a ``subfolder``.

    Raises:
        ModelError: The checkpoint does not exist, or has no config.
    """
    # A URL, such as ``s3://bucket/model``, and a GGUF file have no config.json.
    if "://" in name or arguments.get("gguf_file"):
        return
    option = f"--model_args pretrained={name}"
    subfolder = str(arguments.get("subfolder") or "")
    folder = Path(name).expanduser()
    if folder.is_dir():
        # Mistral's own format has params.json instead.
        files = (folder / subfolder / "config.json", folder / subfolder / "params.json")
        if not any(file.is_file() for file in files):
            raise ModelError(
                f"{option}: a folder without config.json, so no checkpoint as transformers saves it"
            )
        return
    if name.startswith(_PATH_STARTS):
        neighbours = [file.name for file in folder.parent.glob("*")]
        raise ModelError(f"{option}: no such folder{did_you_mean(folder.name, neighbours)}")

    from transformers.utils import cached_file

    # Finding the small config file shows that the checkpoint exists.
    with loading(option):
        revision = arguments.get("revision")
        cached_file(name, "config.json", revision=revision, subfolder=subfolder)


def _check_device(device: str) -> None:
    """Check that this machine has a GPU such as ``cuda:1``.

    lm_eval itself would silently use another device.

    Args:
        device: The device. Only those that begin with ``cuda`` are checked.

    Raises:
        ModelError: There is no such GPU.
    """
    if not device.startswith("cuda"):
        return
    import torch

    num_gpus = torch.cuda.device_count()
    # "cuda" stands for the first GPU.
    number = device.partition(":")[2] or "0"
    if number.isdecimal() and int(number) >= num_gpus:
        raise ModelError(
            f"--device {device}: no such GPU, and lm_eval would take another device instead; this"
            f" machine shows {plural(num_gpus, 'GPU')}, the first called cuda:0; name another"
            " device, or leave --device out"
        )
