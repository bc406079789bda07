"""``lm-factuality knowledge``: make a source of pages by title, and look at it."""

import argparse
import sys
from pathlib import Path

from lm_factuality.cli.actions import Command, add_action
from lm_factuality.cli.index import add_sources, from_sources
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import DataError


def options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = add_action(actions, "knowledge build", "write pages from files or datasets to a SQLite file", _build)
    add_sources(build, "FILE", "the SQLite file", "title=A,text=B", "title, text")
    info = add_action(actions, "knowledge info", "show what a knowledge source holds, or one of its pages", _info)
    info.add_argument("path", type=Path, metavar="FILE", help="the SQLite file, or one of FActScore's")
    info.add_argument("--title", help="print the passages of this page")
    info.add_argument("--verify", action="store_true", help="read the whole file to see whether it is sound")


def _build(parsed: argparse.Namespace) -> int:
    from lm_factuality.retrieval.build import build_knowledge

    built = from_sources(build_knowledge, parsed)
    assert built.manifest is not None
    sys.stdout.write(f"{parsed.out}: {len(built):,} pages of {built.manifest.rows:,} rows, knowledge {built.identity}\n")
    return 0


def _info(parsed: argparse.Namespace) -> int:
    from lm_factuality.retrieval.knowledge import Knowledge

    source = Knowledge(parsed.path)
    if parsed.verify:
        source.check()
    if parsed.title is not None:
        if (passages := source.passages(parsed.title)) is None:
            raise DataError(
                f"{parsed.path}: no page is called {parsed.title!r}, nor with other spaces, underscores, accents, quotes or "
                "dashes, or a capital first letter; case is otherwise part of a title, and so are brackets"
            )
        lines = [(str(number), str(len(text.split())), text) for number, text in enumerate(passages, 1)]
        print_table(parsed.title, ("#passage", "#words", "text"), lines)
        return 0
    manifest = source.manifest
    rows = [("pages", f"{len(source):,}"), ("bytes", f"{parsed.path.stat().st_size:,}"), ("identity", source.identity)]
    if manifest is not None:
        rows += [("rows", f"{manifest.rows:,}"), ("built", manifest.built), ("by", f"lm-factuality {manifest.suite_version}")]
        rows += [("source", f"{each.path}: {each.version}") for each in manifest.sources]
    notes = [] if manifest else ["No manifest: not made by lm-factuality, as FActScore's own files are not."]
    print_table(str(parsed.path), ("what", "value"), rows, [*notes, *(["The whole file is sound."] if parsed.verify else [])])
    return 0


COMMAND = Command("knowledge", "build or inspect a source of pages by title, for verifying facts", None, options)
