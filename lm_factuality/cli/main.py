"""Entry point: parses the command line and turns errors a user can mend into one sentence and exit
code 1.

``run``, ``gen`` and ``completion`` are here, which hand everything to other parsers, or look at all
of them."""

import argparse
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.ground.errors import exit_code
from lm_factuality.ground.packages import load_yaml, require_engine
from lm_factuality.ground.secrets import refuse_secrets

_ABOUT: Mapping[str, Mapping[str, Any]] = load_yaml(__package__, "commands.yaml")
COMMANDS = tuple(name for name in _ABOUT if " " not in name)
"""In the order of the help. Of ``run`` and ``gen`` the arguments are not parsed here."""
_TYPES: Mapping[str, Callable[[str], Any]] = {"path": Path, "int": int, "float": float}


def gen(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``gen``, to factor-gen."""
    from factor_gen.cli import main

    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"{_ABOUT['gen']['examples']}\n")
    sys.argv = ["factor-gen", *arguments]  # what it tells an interrupted user to type again
    return main(arguments or ["--help"])


def run(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``run``, to lm_eval, and prints what came of it."""
    from lm_factuality.harness.run import Finished, run

    def show(finished: Finished) -> None:
        from lm_factuality.cli.outcome import print_outcome  # which takes long to import

        print_outcome(finished)

    if not arguments or {"-h", "--help"} & set(arguments):
        sys.stdout.write(f"{_ABOUT['run']['opening']}\n")
    run(arguments or ["--help"], show)
    return 0


def completion(parsed: argparse.Namespace) -> None:
    import shtab

    from factor_gen.cli import build_parser as generator_parser
    from lm_factuality.harness.internals import internal

    own, generator = build_parser(), generator_parser()
    of_lm_eval = _subparsers(internal("lm_eval._cli:HarnessCLI")()._parser)
    _subparsers(own).choices["run"], _subparsers(own).choices["gen"] = (
        of_lm_eval.choices["run"],
        generator,
    )
    for parser in (own, generator_parser()):
        for action in _actions(parser):
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        sys.stdout.write(shtab.complete(parser, parsed.shell) + "\n")


def _subparsers(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    return next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        for each in (
            action.choices.values() if isinstance(action, argparse._SubParsersAction) else ()
        ):
            yield from _actions(each)


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser with all commands; of these ``chosen`` alone has its options if it is given, since
    some take time to make."""
    parser = argparse.ArgumentParser(
        prog="lm-factuality",
        description="Measures how factual language models are, with lm-evaluation-harness.",
        epilog=_ABOUT["all commands"]["examples"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lm-factuality {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = _add(subparsers, name, chosen in (None, name))
        actions = [
            each for each in _ABOUT if each.startswith(f"{name} ") and chosen in (None, name)
        ]
        below = (
            command.add_subparsers(dest="action", metavar="ACTION", required=True)
            if actions
            else None
        )
        for each in actions:
            _add(below, each)
    return parser


def _add(parsers: Any, name: str, has_options: bool = True) -> argparse.ArgumentParser:
    line, shown = _ABOUT[name]["help"], _ABOUT[name].get("examples", "")
    parser: argparse.ArgumentParser = parsers.add_parser(
        name.rpartition(" ")[2],
        help=line,
        description=f"{line[0].upper()}{line[1:]}.",
        epilog=shown,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(function=partial(_call, name))
    exclusive = None
    for option, about in _ABOUT[name].get("options", {}).items() if has_options else ():
        given = dict(about)
        choices, one_of = given.get("choices"), given.pop("one_of", "")
        if isinstance(choices, str):
            found = pkgutil.resolve_name(choices)
            given["choices"] = tuple(found() if callable(found) else found)
        if "type" in given:
            given["type"] = _TYPES[given["type"]]
        exclusive = (
            (exclusive or parser.add_mutually_exclusive_group(required=one_of == "required"))
            if one_of
            else None
        )
        (exclusive or parser).add_argument(*option.split(", "), **given)
    return parser


def _call(name: str, parsed: argparse.Namespace) -> int:
    """Its exit code, 0 if it returns none. Its module is imported now, so that ``--help`` stays
    fast."""
    command = name.partition(" ")[0]
    module = import_module(f"{__package__}.{_ABOUT[command]['module']}")
    own = name.replace(" ", "_").replace("-", "_")
    code: int | None = (getattr(module, own, None) or getattr(module, command))(parsed)
    return code or 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv``; returns the exit code."""
    return exit_code("lm-factuality", lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def _run(arguments: Sequence[str]) -> int:
    require_engine()
    refuse_secrets(arguments)
    if arguments[:1] == ["run"]:  # lm_eval parses what follows, --help included
        return run(arguments[1:])
    if arguments[:1] == ["gen"]:  # and factor-gen what follows here
        return gen(arguments[1:])
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    parsed = build_parser(arguments[0] if arguments else "").parse_args(arguments)
    import lm_factuality.benchmarks  # noqa: F401  makes the benchmarks' prompts known to judges

    code: int = parsed.function(parsed)
    return code
