"""Where the suite's own task and run configs lie: in a checkout, or inside an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    packaged = _PACKAGE / f"_{name}"
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def tasks_folder() -> Path:
    """The folder to give to lm_eval as ``--include_path``."""
    return _folder("tasks")


def find_config(path: Path) -> Path:
    """``path`` as it is if it exists; otherwise, if it starts with ``configs/``, the file of that name that the suite brings."""
    if not path.exists() and path.parts[:1] == ("configs",):
        return _folder("configs").joinpath(*path.parts[1:])
    return path
