"""Entry point: parses the command line and turns errors a user can mend into one sentence and exit code 1.

``run``, ``gen`` and ``completion`` are here, which hand everything to other parsers, or look at all of them."""

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lm_factuality import __version__
from lm_factuality.cli.actions import Command, examples
from lm_factuality.ground.errors import exit_code
from lm_factuality.ground.packages import require_engine
from lm_factuality.ground.secrets import refuse_secrets

COMMANDS = (
    Command("quickstart", "run the samples with tiny checkpoints and the offline judge; print two tables", "tasks"),
    Command("run", "lm_eval's own run, with the suite's tasks and models registered (see 'run --help')"),
    Command("ls", "list the suite's tasks: what each asks, its rows, its licence, and whether it needs a judge", "tasks"),
    Command("data", "list, download or verify the published benchmarks", "data"),
    Command("validate", "check tasks and corpora for what lm_eval does not check; exit code 1 if anything is wrong", "tasks"),
    Command("gen", "make FACTOR benchmarks from your own texts, and see what they give away (factor-gen)"),
    Command("compare", "compare results with each other and with published figures", "results"),
    Command("report", "turn the results of one or many models into a site to browse", "results"),
    Command("leaderboard", "make and check submissions, and the leaderboard as a site", "leaderboard"),
    Command("export", "write results in the formats of other collections", "results"),
    Command("judge", "mark generations that are on disk, without the model that made them", "judge"),
    Command("score", "score saved outputs of a judge, without any model", "score"),
    Command("verify", "say whether passages support claims, as a judge sees it", "verify"),
    Command("claims", "take the claims out of FELM's segments, once for all judges", "score"),
    Command("certify", "measure how well a judge does where the truth is known, and keep the certificate", "judge"),
    Command("people", "have people judge what the judge judged, and compare", "people"),
    Command("page", "show judged biographies as one HTML file", "biographies"),
    Command("cite", "measure whether cited passages support what a response says", "biographies"),
    Command("knowledge", "build or inspect a source of pages by title, for verifying facts", "index"),
    Command("retrieve", "find passages for ambiguous names, for the ambigbio tasks", "biographies"),
    Command("index", "build, inspect or query an index of passages for retrieval", "index"),
    Command("completion", "print what bash, zsh or fish need to complete these commands", "main"),
)
"""In the order of the help. ``run`` and ``gen`` are here for the list alone: their arguments are not parsed here."""


def gen(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``gen``, to factor-gen."""
    from factor_gen.cli import main

    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"{examples('gen')}\n\n")
    sys.argv = ["factor-gen", *arguments]  # what it tells an interrupted user to type again
    return main(arguments or ["--help"])


def run(arguments: Sequence[str]) -> int:
    """Hands ``arguments``, everything after ``run``, to lm_eval, and prints what came of it."""
    from lm_factuality.harness.run import Finished, run

    def show(finished: Finished) -> None:
        from lm_factuality.cli.outcome import print_outcome  # which takes long to import

        print_outcome(finished)

    if not arguments or {"-h", "--help"} & set(arguments):
        sys.stdout.write(f"{examples('run --help')}\n\n")
    run(arguments or ["--help"], show)
    return 0


def completion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to print completion for")


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


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser with all commands; of these ``chosen`` alone has its options if it is given, since some take time to make."""
    parser = argparse.ArgumentParser(
        prog="lm-factuality",
        description="Measures how factual language models are, with lm-evaluation-harness.",
        epilog=examples("all"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lm-factuality {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(subparsers, has_options=chosen in (None, command.name))
    return parser


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
