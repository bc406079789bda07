"""What the two programs, ``lm-factuality`` and ``factor-gen``, add to typer."""

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from lm_factuality import __version__
from lm_factuality.ground.errors import did_you_mean, exit_code
from lm_factuality.ground.secrets import refuse_secrets


class Command(TyperCommand):
    """A command whose option takes several values if its metavar ends in dots, as in ``FILE...``.

    Example:
        ``--labels ann.csv ben.csv`` means ``--labels ann.csv --labels ben.csv``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words that follow the command's name."""
        options: set[str] = set()
        for parameter in self.params:
            if (parameter.metavar or "").endswith("..."):
                options.update(parameter.opts)
        return super().parse_args(ctx, list(_one_value_each(args, options)))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
        return super().invoke(ctx)


def _one_value_each(arguments: Sequence[str], options: Collection[str]) -> Iterator[str]:
    option = ""
    has_value = True
    for argument in arguments:
        if argument.startswith("-"):
            if not has_value:
                yield option  # click then says that its value is missing
            option = argument if argument in options else ""
            has_value = not option
        elif option:
            yield option
            has_value = True
        if argument != option:
            yield argument
    if not has_value:
        yield option


class App(typer.Typer):
    """A program or a group of commands, with plain help and commands of the class `Command`."""

    def __init__(self, **settings: Any) -> None:
        context = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__(rich_markup_mode=None, context_settings=context, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Return the decorator that makes a command of a function."""
        return super().command(name, **{"cls": Command, **settings})


def _show_version(context: typer.Context, is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"{context.info_name} {__version__}\n")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]
"""The option ``--version`` of a program."""


def one_of(names: Callable[[], Collection[str]]) -> dict[str, Any]:
    """Return the settings of a parameter that takes one of some names, which take long to list."""

    def check(name: str | None) -> str | None:
        if name is not None and name not in names():
            expected = ", ".join(names())
            raise typer.BadParameter(
                f"{name!r}; expected one of {expected}{did_you_mean(name, names())}"
            )
        return name

    return {"callback": check, "autocompletion": lambda: list(names())}


def run_program(app: App, program: str, arguments: Sequence[str] | None) -> int:
    """Run a command line and return its exit code.

    It is 1 for an error that the user can correct, 2 for a command line that cannot be read and
    130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if f"_{program.replace('-', '_').upper()}_COMPLETE" in os.environ:
        app(prog_name=program)  # The shell asks for completions.
    return exit_code(program, lambda: run_command_line(app, program, arguments))


def run_command_line(app: App, program: str, arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors other than in its words are raised."""
    refuse_secrets(arguments)
    command = typer.main.get_command(app)
    # typer.main() would end after Ctrl-C before exit_code() can say how to continue.
    try:
        with command.make_context(program, list(arguments)) as context:
            return command.invoke(context) or 0
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]
        return error.exit_code
