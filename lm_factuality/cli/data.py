"""``lm-factuality data``: the published files that the benchmarks read."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from typing import TYPE_CHECKING

from lm_factuality.cli import references
from lm_factuality.cli.actions import Command
from lm_factuality.ground.errors import DataError

if TYPE_CHECKING:
    from lm_factuality.ground.published import Source


def options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, line in (("ls", "list"), ("fetch", "download and check"), ("verify", "check only")):
        action = actions.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]} the published benchmarks.")
        action.add_argument("names", nargs="*", metavar="NAME", help="of 'data ls', or a pattern; all if none is named")
        if name == "verify":
            action.add_argument("--data-dir", help="verify the files of this folder instead of the downloads")
    references.add(actions)


def data(parsed: argparse.Namespace) -> int:
    """``data ls``, ``data fetch`` or ``data verify``.

    Raises:
        ConfigError: no source has the name.
        DataError: a line for each file that cannot be had or is not as published.
    """
    from lm_factuality.benchmarks import all_sources, find_source

    known = all_sources()
    names = [found for name in parsed.names for found in fnmatch.filter(known, name) or [name]] or list(known)
    sources = [find_source(name) for name in dict.fromkeys(names)]
    if parsed.action == "ls":
        _list(sources)
    elif failures := [line for source in sources if (line := _fetch_or_verify(parsed, source))]:
        raise DataError("\n".join(failures))
    return 0


def _list(sources: list[Source]) -> None:
    from lm_factuality.ground.console import print_table
    from lm_factuality.ground.published import cached_path

    rows = [
        (each.name, str(each.rows), each.license, f"{each.repository}@{each.commit[:7]}", each.filename, here)
        for each in sources
        for here in ["here" if cached_path(each).is_file() else "not fetched"]
    ]
    print_table("Published data", ("name", "#rows", "licence", "upstream", "file", "download"), rows)


def _fetch_or_verify(parsed: argparse.Namespace, source: Source) -> str:
    """Prints that the source is in order; otherwise returns what is wrong."""
    from lm_factuality.ground.published import blob_id, cached_path, fetch, locate

    try:
        if parsed.action == "fetch":
            path = fetch(source)
        elif parsed.data_dir or os.environ.get("LM_FACTUALITY_DATA"):
            path = locate(source, parsed.data_dir).path
        else:
            path = cached_path(source)
            if not path.is_file():
                return f"{source.name}: not fetched ({path}); run: lm-factuality data fetch {source.name}"
        found = blob_id(path)
    except DataError as error:
        return str(error)
    if found != source.blob:
        return f"{source.name}: {path} has git blob {found}, expected {source.blob}"
    sys.stdout.write(f"{source.name}: {path}: git blob {found}, as published\n")
    return ""


COMMAND = Command("data", "list, download or verify the published benchmarks", data, options)
