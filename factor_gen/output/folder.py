"""The folder of a benchmark.

What an earlier build of the same benchmark left there may be replaced, what anybody else put there
may not.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from factor_gen.settings import BuildSettings
from factor_gen.shards import read_json
from lm_factuality.ground.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"
PART = ".output.part"
"""A folder that the files are written in before they are shown. The manifest comes last."""


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


def refuse_to_overwrite(settings: BuildSettings, out: Path, inputs: Iterable[Path]) -> None:
    """Check that only files of an earlier build stand where the files of this one will.

    If that build was killed while it showed its files, the rest is shown.

    Raises:
        DataError: One of ``inputs``, or a file that no build of this benchmark wrote, stands there.
    """
    if (out / PART / MANIFEST).is_file():
        show(out)
    manifest = read_json(out / MANIFEST)
    name = manifest.get("name") if manifest.get("format") == FORMAT else None
    if name not in (None, settings.name):
        raise DataError(f"{out}: holds another benchmark, {name}; choose another --out")
    real_inputs = {path.resolve() for path in inputs}
    for file_name in file_names(settings).values():
        path = out / file_name
        if path.resolve() in real_inputs:
            raise DataError(
                f"{path}: the build reads this file and would write over it; choose another --out"
                " or name"
            )
        if name is None and (path.is_symlink() or path.exists()):
            raise DataError(
                f"{path}: is there already, no build wrote it, and this one would write over it;"
                " choose another --out or name"
            )


def show(out: Path) -> None:
    """Move the files that were written to where they are seen.

    The manifest goes first and comes last, so that a folder that has one holds the files that it
    lists.
    """
    (out / MANIFEST).unlink(missing_ok=True)
    for path in sorted((out / PART).iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
        path.replace(out / path.name)
    shutil.rmtree(out / PART)
