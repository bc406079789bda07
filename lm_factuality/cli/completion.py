"""``lm-factuality completion``: what a shell needs to complete both commands, their options, and names of files."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from lm_factuality.cli.actions import Command

SHELLS = ("bash", "zsh", "fish")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to print completion for")


def completion(parsed: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab

    from factor_gen.cli import build_parser as generator_parser

    for parser in (_own_parser(generator_parser()), generator_parser()):
        for action in _actions(parser):
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, parsed.shell) + "\n")
    return 0


def _own_parser(generator: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """With the parsers of lm_eval and of factor-gen in the place of those that hand everything to them."""
    from lm_factuality.cli.main import build_parser
    from lm_factuality.harness.internals import internal

    parser = build_parser()
    commands, theirs = _subparsers(parser), _subparsers(internal("lm_eval._cli:HarnessCLI")()._parser)
    commands.choices["run"], commands.choices["gen"] = theirs.choices["run"], generator
    return parser


def _subparsers(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    return next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        for each in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from _actions(each)


COMMAND = Command("completion", "print what bash, zsh or fish need to complete these commands", completion, options)
