"""The published files in one folder, as ``LM_FACTUALITY_DATA`` names it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from lm_factuality.benchmarks import find_source
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.published import locate

# The sources, each with what another copy of its rows may be called.
SOURCES = {"expert_factor": "", "news_factor": "", "felm": "", "ambigbio": "generations_*.json.gz"}
FELM_FILE = "all.jsonl"


def gather(folder: Path, places: Path | None) -> dict[str, str]:
    """Puts the file of each of ``SOURCES`` into ``folder``: from anywhere below ``places``, else
    from the cache, else downloaded. Returns the sources that cannot be had, with the reason."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = {}
    for name, copies in SOURCES.items():
        source = find_source(name)
        target = folder / source.filename
        found = [
            path
            for pattern in (source.filename, copies)
            if places and pattern
            for path in sorted(places.rglob(pattern))
        ]
        try:
            if not target.is_file():
                content = (found[0] if found else locate(source).path).read_bytes()
                target.write_bytes(
                    gzip.decompress(content) if found and found[0].suffix == ".gz" else content
                )
        except DataError as error:
            missing[name] = " ".join(str(error).split())
    return missing


def spread(total: int, count: int) -> list[int]:
    """``count`` numbers below ``total``, equally far apart: FELM's rows stand domain by domain."""
    count = min(count, total)
    return [index * total // count for index in range(count)]


def felm_lines(folder: Path) -> list[str]:
    """The lines of the published FELM in ``folder``. Its texts hold characters at which
    ``splitlines`` would split, too."""
    return [line for line in (folder / FELM_FILE).read_text(encoding="utf-8").split("\n") if line]


def with_references(folder: Path) -> list[int]:
    """The numbers of the rows with the text of a reference."""
    rows = map(json.loads, felm_lines(folder))
    return [
        number for number, row in enumerate(rows) if any(filter(None, row["ref_contents"] or ()))
    ]


def some_felm(folder: Path, count: int, target: Path) -> None:
    """So many rows as a file of their own in the folder ``target``, for commands that take no
    ``--samples``."""
    lines = felm_lines(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / FELM_FILE).write_text(
        "".join(f"{lines[row]}\n" for row in spread(len(lines), count)), encoding="utf-8"
    )
