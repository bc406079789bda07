"""All commands, in the order of the help. Each stands in a module of its name, which declares it as ``COMMAND``."""

from importlib import import_module

from lm_factuality.cli.actions import Command

_NAMES = (
    "quickstart run ls data validate compare report leaderboard export judge score verify claims certify people page cite "
    "knowledge retrieve index"
)
COMMANDS: tuple[Command, ...] = tuple(import_module(f"lm_factuality.cli.{name}").COMMAND for name in _NAMES.split())
