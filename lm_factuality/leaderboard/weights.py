"""A model's own files where they are on this machine. Nothing is downloaded, and no code of a model's own is run."""

import hashlib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import sha256_of

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def weights_hash(folder: Path) -> str:
    """``sha256:`` and the hash of the names and hashes of a local checkpoint's weights.

    Raises:
        ConfigError: there are no weights.
    """
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not weights:
        raise ConfigError(f"{folder}: no weights here ({', '.join(_WEIGHTS)})")
    lines = "".join(f"{sha256_of(path)}  {path.name}\n" for path in weights)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


@cache
def token_counter(path: str, name: str, revision: str) -> Callable[[str], int] | None:
    """How many tokens a text has by a model's tokenizer: in the folder ``path``, if its weights have the hash ``revision``, or in
    the Hub's cache of ``name`` at that commit. None where it is not on this machine."""
    is_local = revision.startswith("sha256:")
    try:
        if is_local and (not Path(path).is_dir() or weights_hash(Path(path)) != revision):
            return None
        from transformers import AutoTokenizer  # takes seconds

        where, commit = (path, None) if is_local else (name, revision)
        tokenizer = AutoTokenizer.from_pretrained(where, revision=commit, local_files_only=True, trust_remote_code=False)
    except (ConfigError, OSError, ValueError, ImportError, KeyError):
        return None
    return lru_cache(maxsize=64)(lambda text: len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]))
