"""``lm-factuality retrieve``: passages for ambiguous names, in ALCE's format."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lm_factuality.cli.actions import Command
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import write_json

_QUERIES = 256  # at a time
_SHOWN = 5  # names that a note lists


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--names", type=Path, required=True, metavar="FILE", help="AmbigBio.csv, or one name per line")
    parser.add_argument("--index", type=Path, required=True, metavar="DIR", help="an index, BM25 or dense")
    parser.add_argument("--k", type=int, default=5, help="passages per name (default %(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON to write, as ALCE has it")


def retrieve(parsed: argparse.Namespace) -> int:
    """Writes the file and says how many passages there are; a name without any is left out, and named under ``about``.

    Raises:
        DataError: the names or the index cannot be used, or it has no passage for any name.
        ConfigError: ``--k`` is less than 1.
    """
    from lm_factuality.benchmarks.biographies.generations import query_of, read_names
    from lm_factuality.retrieval.build import open_index

    if parsed.k < 1:
        raise ConfigError(f"--k {parsed.k}: expected at least 1 passage per name")
    names = read_names(parsed.names)
    index = open_index(parsed.index)
    rows: list[dict[str, Any]] = []
    starts = tqdm(range(0, len(names), _QUERIES), desc="retrieve", unit=" batches", delay=2)
    for start in starts:
        batch = names[start : start + _QUERIES]
        queries = [query_of(name) for name in batch]
        for name, query, hits in zip(batch, queries, index.retrieve(queries, parsed.k), strict=True):
            docs = [
                {"id": hit.passage.id, "title": hit.passage.title, "text": hit.passage.text, "score": hit.score} for hit in hits
            ]
            rows.append({"question": query, "name": name, "docs": docs})
    about = {
        "index": index.identity,
        "kind": index.manifest.kind,
        "parameters": dict(index.manifest.parameters),
        "k": parsed.k,
        "names": len(names),
        "without_passages": [row["name"] for row in rows if not row["docs"]],
    }
    found = [row for row in rows if row["docs"]]
    if not found:
        raise DataError(f"{parsed.index}: no passage for any of {len(names)} names; is this the index that was meant?")
    write_json(parsed.out, {"data": found, "about": about})
    notes = [
        f"{what}: {', '.join(each[:_SHOWN])}{' ...' if len(each) > _SHOWN else ''}"
        for what, each in (
            ("no passage, left out", about["without_passages"]),
            (f"fewer than {parsed.k}", [row["name"] for row in found if len(row["docs"]) < parsed.k]),
        )
        if each
    ]
    print_table(
        f"Passages from {parsed.index} ({index.manifest.kind})",
        ("#names", "#with passages", "#passages"),
        [(str(len(names)), str(len(found)), str(sum(len(row["docs"]) for row in found)))],
        notes,
    )
    sys.stdout.write(f"Written to {parsed.out}\n")
    return 0


COMMAND = Command("retrieve", "find passages for ambiguous names, for the ambigbio tasks", retrieve, options)
