"""A command, and the parsers of commands and of their actions, such as ``index`` and ``index build``."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lm_factuality.ground.packages import load_yaml

Action = Callable[[argparse.Namespace], int]


def examples(name: str) -> str:
    """The examples of a command, or of one of its actions (``index build``)."""
    return _examples()[name].rstrip("\n")


@cache
def _examples() -> dict[str, str]:
    found: dict[str, str] = load_yaml(__package__, "examples.yaml")
    return found


def add_action(actions: Any, name: str, line: str, function: Action | None = None) -> argparse.ArgumentParser:
    """The parser of a command or an action among ``actions``, with one ``line`` on it, its examples and what it does. ``name`` is
    that of the command, and behind it that of the action."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name.rpartition(" ")[2],
        help=line,
        description=f"{line[0].upper()}{line[1:]}.",
        epilog=examples(name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if function is not None:
        parser.set_defaults(function=function)
    return parser


@dataclass(frozen=True)
class Command:
    """A command: its name, one line on it, what it does (None where each of its actions does something), and
    how its options are added.

    Modules of commands import what they need when the command runs, so that ``lm-factuality --help`` stays fast.
    """

    name: str
    help: str
    function: Action | None
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None

    def add(self, subparsers: Any, has_options: bool = True) -> None:
        """Adds the command, without its options if nobody asks for them."""
        parser = add_action(subparsers, self.name, self.help, self.function)
        if has_options:
            self.options(parser)
