"""Parsers of commands and of their actions, such as ``index`` and ``index build``."""

from __future__ import annotations

import argparse
from typing import Any


def add_action(actions: Any, name: str, line: str, examples: str) -> argparse.ArgumentParser:
    """The parser of a command or an action among ``actions``, with one ``line`` on it and its examples."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=line,
        description=f"{line[0].upper()}{line[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
