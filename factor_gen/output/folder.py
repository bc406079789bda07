"""The folder of a benchmark: the names of its files, and how they come to their places.

A build may replace files that an earlier build of the same benchmark wrote there, but no others.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from factor_gen.settings import BuildSettings
from factor_gen.shards import read_json_object
from lm_factuality.ground.errors import DataError

# The version of the manifest.
FORMAT = 1
MANIFEST = "manifest.json"
# An unfinished benchmark is written to this subfolder, and its manifest comes last.
UNFINISHED_FOLDER = ".output.part"


def file_names(settings: BuildSettings) -> dict[str, str]:
    """Return the name of each file of a benchmark by its kind."""
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
    """Check that a build would replace nothing but the files of an earlier build.

    Args:
        settings: The settings of the build.
        out: The folder of the benchmark.
        inputs: The files that the build reads.

    Raises:
        DataError: In the place of a file of the benchmark there is one of ``inputs``, or a file
            that no build of this benchmark wrote.
    """
    # If the folder has the manifest of a benchmark, a build wrote its other files too.
    manifest = read_json_object(out / MANIFEST)
    earlier_name = manifest.get("name") if manifest.get("format") == FORMAT else None
    has_manifest = earlier_name is not None
    if has_manifest and earlier_name != settings.name:
        raise DataError(f"{out}: holds another benchmark, {earlier_name}; choose another --out")

    real_inputs = {path.resolve() for path in inputs}
    for file_name in file_names(settings).values():
        path = out / file_name
        # A link may lead to a file that the build reads.
        if path.resolve() in real_inputs:
            raise DataError(
                f"{path}: the build reads this file and would write over it; choose another --out"
                " or name"
            )
        # A broken link does not "exist", but would be replaced too.
        is_taken = path.is_symlink() or path.exists()
        if is_taken and not has_manifest:
            raise DataError(
                f"{path}: is there already, no build wrote it, and this one would write over it;"
                " choose another --out or name"
            )


def finish_earlier_build(out: Path) -> None:
    """Move the files of an earlier build into place if it was killed while it moved them."""
    # The manifest is written last: if it is there, all files are complete.
    if (out / UNFINISHED_FOLDER / MANIFEST).is_file():
        move_into_place(out)


def move_into_place(out: Path) -> None:
    """Move all files of a complete benchmark from the unfinished folder to the folder ``out``.

    The old manifest is removed first and the new one comes last, so that a folder with a manifest
    always holds the files that it lists.
    """
    unfinished = out / UNFINISHED_FOLDER
    (out / MANIFEST).unlink(missing_ok=True)
    for path in sorted(unfinished.iterdir()):
        if path.name != MANIFEST:
            path.replace(out / path.name)
    (unfinished / MANIFEST).replace(out / MANIFEST)
    shutil.rmtree(unfinished)
