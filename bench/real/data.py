"""Gathers the published data in one folder, and chooses rows of FELM.

`bench.real.__main__` calls `gather` before the first step, and the commands of steps choose rows.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from lm_factuality.benchmarks import find_source
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import locate

SOURCES = {"expert_factor": "", "news_factor": "", "felm": "", "ambigbio": "generations_*.json.gz"}
"""The sources that steps need, each with a pattern for other names of the file, or ""."""

FELM_FILE = "all.jsonl"
"""The file name of the published FELM."""


def gather(folder: Path, data_folder: Path | None) -> dict[str, str]:
    """Copy the file of each source into a folder, unless it is there.

    A file comes from the data folder, or else from the cache, or else from the web.

    Args:
        folder: The folder, which steps read as ``LM_FACTUALITY_DATA``. It is made if necessary.
        data_folder: A folder that may have the files anywhere below it.

    Returns:
        The sources whose file cannot be had, with the reason in one line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = {}
    for name, other_names in SOURCES.items():
        source = find_source(name)
        target = folder / source.filename
        if target.is_file():
            continue
        local_files = []
        for pattern in filter(None, (source.filename, other_names)):
            if data_folder is not None:
                local_files += sorted(data_folder.rglob(pattern))
        try:
            path = local_files[0] if local_files else locate(source).path
            content = path.read_bytes()
        except DataError as error:
            missing[name] = " ".join(str(error).split())
            continue
        # No published file of these sources is packed, but copies of it may be.
        target.write_bytes(gzip.decompress(content) if path.suffix == ".gz" else content)
    return missing


def spread(total: int, count: int) -> list[int]:
    """Return indices that are equally far apart.

    FELM's file has one domain after another, so its first rows would be of the first domain only.

    Args:
        total: The number of rows to choose from.
        count: How many to choose. If there are fewer, all are chosen.

    Example:
        ``spread(10, 5)`` is ``[0, 2, 4, 6, 8]``.
    """
    count = min(count, total)
    return [index * total // count for index in range(count)]


def felm_lines(folder: Path) -> list[str]:
    """Return the lines of the published FELM in a folder, each of which is a row in JSON."""
    content = (folder / FELM_FILE).read_text(encoding="utf-8")
    # Some texts contain line separators, at which splitlines would split a row.
    return [line for line in content.split("\n") if line]


def rows_with_references(folder: Path) -> list[int]:
    """Return the indices of FELM's rows that have the text of a reference."""
    indices = []
    for index, line in enumerate(felm_lines(folder)):
        references = json.loads(line)["ref_contents"] or ()
        if any(references):
            indices.append(index)
    return indices


def write_felm_rows(folder: Path, count: int, target: Path) -> None:
    """Write some rows of FELM to a file, for commands that cannot choose rows themselves.

    Args:
        folder: The folder with the published FELM.
        count: The number of rows, which are taken from the whole file.
        target: The folder for the file. It is made if necessary.
    """
    lines = felm_lines(folder)
    chosen_lines = [lines[index] + "\n" for index in spread(len(lines), count)]
    target.mkdir(parents=True, exist_ok=True)
    (target / FELM_FILE).write_text("".join(chosen_lines), encoding="utf-8")
