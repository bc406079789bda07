"""Entry point of ``factor-gen``: parses the command line and turns errors a user can mend into one sentence and exit code 1."""

import argparse
import logging
import sys
from collections.abc import Sequence

from factor_gen.cli import audit, build, thresholds
from lm_factuality import __version__
from lm_factuality.ground.errors import exit_code
from lm_factuality.ground.packages import load_yaml, require_engine
from lm_factuality.ground.secrets import refuse_secrets

_COMMANDS = (
    ("build", "make a FACTOR benchmark from a corpus", build, build.build),
    ("audit", "what does a FACTOR benchmark give away?", audit, audit.audit),
    ("thresholds", "precision and share kept over a filter's thresholds", thresholds, thresholds.thresholds),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    raw = argparse.RawDescriptionHelpFormatter
    examples = {name: text.rstrip("\n") for name, text in load_yaml(__package__, "examples.yaml").items()}
    about = "Makes FACTOR benchmarks from any corpus, and says what they give away."
    parser = argparse.ArgumentParser(prog="factor-gen", description=about, epilog=examples["all"], formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"factor-gen {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, what, module, function in _COMMANDS:
        description = f"{what[:1].upper()}{what[1:]}".rstrip("?") + ("?" if what.endswith("?") else ".")
        command = commands.add_parser(name, help=what, description=description, epilog=examples[name], formatter_class=raw)
        module.options(command)
        command.set_defaults(function=function)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv``; returns the exit code."""
    return exit_code("factor-gen", lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def _run(arguments: Sequence[str]) -> int:
    require_engine()
    refuse_secrets(arguments)
    parsed = build_parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    code: int = parsed.function(parsed)
    return code
