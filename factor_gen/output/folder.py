"""The folder of a benchmark.

What an earlier build left there may be replaced, what anybody else put there may not.
"""

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
_MOVING = ".output.json"
"""Lists the files of the old build and the new while one replaces the other."""


def file_names(settings: BuildSettings) -> dict[str, str]:
    """Return the files of a benchmark by what they are."""
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
    """Check that a build of another corpus would not replace a benchmark of another name.

    Raises:
        DataError: It would.
    """
    tables = [name for name in _listed_files(out / MANIFEST) if name.endswith(".csv")]
    if tables and f"{settings.name}.csv" not in tables:
        raise DataError(
            f"{out}: holds another benchmark, {tables[0]}; choose another --out, or --restart to"
            f" put {settings.name} in its place"
        )


def refuse_to_overwrite(settings: BuildSettings, out: Path, inputs: Iterable[Path] = ()) -> None:
    """Check that only files of an earlier build stand where the files of this one will.

    Raises:
        DataError: One of ``inputs``, or a file that no build wrote, stands there.
    """
    paths = [out / name for name in file_names(settings).values()]
    present = [path for path in paths if os.path.lexists(path)]
    if not present:
        return
    path_of_file = {_identity(path): path for path in present if path.exists()}
    for path in inputs:
        target = path_of_file.get(_identity(path)) if path.exists() else None
        if target is not None:
            raise DataError(
                f"{target}: the build reads this file and would write over it; choose"
                " another --out or name"
            )
    earlier = _files_of_builds(out)
    for path in present:
        if path.name not in earlier:
            raise DataError(
                f"{path}: is there already, no build wrote it, and this one would write over it;"
                " choose another --out or name"
            )


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def show(part: Path, out: Path) -> None:
    """Move the files in ``part`` to ``out``, and remove those of an earlier build.

    The manifest goes first and comes last, so that a folder that has one holds the files that it
    lists. A file that was changed since an earlier build wrote it stays.
    """
    old = _files_of_builds(out)
    new = _listed_files(part / MANIFEST)
    write_json(out / _MOVING, {"format": FORMAT, "files": [*old.values(), *new.values()]})
    (out / MANIFEST).unlink(missing_ok=True)
    for name, entry in old.items():
        path = out / name
        if name in new or not path.is_file():
            continue
        if sha256_of(path) == entry.get("sha256"):
            path.unlink()
        else:
            _LOG.warning("%s: is of an earlier build, but was changed since; it stays", path)
    for path in sorted(part.iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
        path.replace(out / path.name)
    (out / _MOVING).unlink()


def _files_of_builds(out: Path) -> dict[str, Mapping[str, Any]]:
    """Return the files in ``out`` that a build wrote, with what its manifest says of each."""
    return _listed_files(out / MANIFEST) | _listed_files(out / _MOVING)


def _listed_files(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a manifest; none if it is missing or not one of ours."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return {}
        # a name that leads to another folder is not followed
        entries = {
            entry["name"]: entry
            for entry in content["files"]
            if Path(entry["name"]).name == entry["name"]
        }
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return entries | {MANIFEST: {"name": MANIFEST}}
