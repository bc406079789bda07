"""The folder of a benchmark: what an earlier build left there may go, what anybody else put there
may not."""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from factor_gen.settings import BuildSettings
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_json

_LOG = logging.getLogger(__name__)
FORMAT = 1
MANIFEST = "manifest.json"
# there while files are being replaced: what the folder may hold of the old build and the new
_MOVING = ".output.json"


def file_names(settings: BuildSettings) -> dict[str, str]:
    """The files of a benchmark by what they are."""
    name = settings.name
    return {
        "csv": f"{name}.csv",
        "parquet": f"{name}.parquet",
        "task": f"{name}.yaml",
        "card": "README.md",
        "unused": "unused.jsonl",
        "manifest": MANIFEST,
    }


def refuse_another(settings: BuildSettings, out: Path) -> None:
    """Raises DataError: ``out`` holds a benchmark of another name, which a build of another corpus
    would take away."""
    others = [name for name in _listed(out / MANIFEST) if name.endswith(".csv")]
    if others and f"{settings.name}.csv" not in others:
        instead = f"choose another --out, or --restart to put {settings.name} in its place"
        raise DataError(f"{out}: holds another benchmark, {others[0]}; {instead}")


def refuse_to_overwrite(settings: BuildSettings, out: Path, inputs: Iterable[Path] = ()) -> None:
    """Sees that nothing is in the way of the files to come but those of an earlier build. Raises
    DataError: one of ``inputs``, or a file that no build wrote, has the name of a file to come."""
    present = [
        path
        for path in (out / name for name in file_names(settings).values())
        if os.path.lexists(path)
    ]
    if not present:
        return
    identities = {found: path for path in present if (found := _identity(path))}
    for each in inputs:
        if (found := _identity(each)) in identities:
            raise DataError(
                f"{identities[found]}: the build reads this file and would write over it; choose"
                " another --out or name"
            )
    ours = _entries(out)
    for path in present:
        if path.name not in ours:
            raise DataError(
                f"{path}: is there already, no build wrote it, and this one would write over it;"
                " choose another --out or name"
            )


def show(part: Path, out: Path) -> dict[str, Path]:
    """Moves the files in ``part`` to ``out``, and takes away what an earlier build under another
    name left; returns them by name. The manifest goes first and comes last, so that a folder that
    has one holds the files that it lists."""
    old, new = _entries(out), _listed(part / MANIFEST)
    write_json(out / _MOVING, {"format": FORMAT, "files": [*old.values(), *new.values()]})
    (out / MANIFEST).unlink(missing_ok=True)
    for name, entry in old.items():
        if name in new or not (left := out / name).is_file():
            continue
        if sha256_of(left) == entry.get("sha256"):
            left.unlink()
        else:
            _LOG.warning("%s: is of an earlier build, but was changed since; it stays", left)
    shown = {}
    for path in sorted(part.iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
        shown[path.name] = path.replace(out / path.name)
    (out / _MOVING).unlink()
    return shown


def _entries(out: Path) -> dict[str, Mapping[str, Any]]:
    """The files in ``out`` that are a build's, with what its manifest says of each."""
    return _listed(out / MANIFEST) | _listed(out / _MOVING)


def _listed(path: Path) -> dict[str, Mapping[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return {}
        listed = {entry["name"]: entry for entry in content["files"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return {name: entry for name, entry in listed.items() if Path(name).name == name} | {
        MANIFEST: {"name": MANIFEST}
    }


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
