"""Entry point of ``factor-gen``: parses the command line and turns errors a user can mend into one
sentence and exit code 1."""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.ground.errors import exit_code
from lm_factuality.ground.packages import load_yaml, require_engine
from lm_factuality.ground.secrets import refuse_secrets


def _whole(text: str, least: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() else least - 1
    if value < least:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a whole number of {least} or more"
        )
    return value


_TYPES: Mapping[str, Callable[[str], Any]] = {
    "path": Path,
    "int": int,
    "natural": lambda text: _whole(text, 0),
    "positive": lambda text: _whole(text, 1),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    raw = argparse.RawDescriptionHelpFormatter
    about = load_yaml(__package__, "commands.yaml")
    shown = about.pop("all commands")["examples"].rstrip("\n")
    what = "Makes FACTOR benchmarks from any corpus, and says what they give away."
    parser = argparse.ArgumentParser(
        prog="factor-gen", description=what, epilog=shown, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"factor-gen {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, texts in about.items():
        options, shown = texts.pop("options"), texts.pop("examples").rstrip("\n")
        command = commands.add_parser(name, epilog=shown, formatter_class=raw, **texts)
        for option, given in options.items():
            command.add_argument(
                option, **given | ({"type": _TYPES[given["type"]]} if "type" in given else {})
            )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv``; returns the exit code."""
    return exit_code("factor-gen", lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def _run(arguments: Sequence[str]) -> int:
    require_engine()
    refuse_secrets(arguments)
    parsed = build_parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    module = import_module(f"{__package__}.{parsed.command}")  # now, so that --help stays fast
    code: int = getattr(module, parsed.command)(parsed)
    return code
