"""The classes and functions that the programs ``lm-factuality`` and ``factor-gen`` add to typer.

Both programs build their commands with `App` and run them with `run_program`.
"""

import gc
import logging
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lm_factuality import __version__
from lm_factuality.ground.errors import did_you_mean, run_with_exit_code
from lm_factuality.ground.secrets import refuse_secrets

_OBJECTS_BETWEEN_COLLECTIONS = 20_000

if TYPE_CHECKING:
    from typer._click.core import Context


class Command(TyperCommand):
    """A command whose option takes several values if its metavar ends in dots, as in ``FILE...``.

    Example:
        ``--labels ann.csv ben.csv`` means ``--labels ann.csv --labels ben.csv``.
    """

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the words after the command's name; an option may be followed by several values.

        An option takes several values if its metavar, i.e. the name of its value in the help, ends
        in dots: ``FILE...``.

        Args:
            ctx: The context of click, which gets the values of the parameters.
            args: The words.

        Returns:
            The words that no parameter takes.
        """
        options: set[str] = set()
        for parameter in self.params:
            takes_several_values = (parameter.metavar or "").endswith("...")
            if takes_several_values:
                options.update(parameter.opts)
        return super().parse_args(ctx, _repeat_options(args, options))

    def invoke(self, ctx: "Context") -> object:
        """Run the command, with warnings on stderr."""
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
        return super().invoke(ctx)


def _repeat_options(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """Repeat an option before each of its values, since click takes one value per option.

    Example:
        ``--labels a.csv b.csv --seed 1`` becomes ``--labels a.csv --labels b.csv --seed 1``.

    Args:
        arguments: The words of the command line.
        options: The options that take several values, such as ``--labels``.

    Returns:
        The words of the new command line.
    """
    words: list[str] = []
    option = ""  # the option whose values are being read, or empty
    for argument in arguments:
        if argument.startswith("-"):
            option = argument if argument in options else ""
        # The option already stands before its first value.
        elif option and words[-1] != option:
            words.append(option)
        words.append(argument)
    return words


class App(typer.Typer):
    """A program or a group of commands, with plain help and commands of the class `Command`."""

    def __init__(self, **settings: Any) -> None:
        """Create the program with the settings of `typer.Typer`."""
        context = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__(rich_markup_mode=None, context_settings=context, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Return the decorator that makes a command of a function."""
        settings.setdefault("cls", Command)
        return super().command(name, **settings)


def _show_version(context: typer.Context, is_requested: bool) -> None:
    """Print the version and end the program if ``--version`` is given."""
    if is_requested:
        sys.stdout.write(f"{context.info_name} {__version__}\n")
        raise typer.Exit


RunCode = Annotated[
    bool,
    typer.Option(
        "--run-code",
        help="Import the Python files that a YAML names, and take templates with loops and"
        " methods (default: refuse the YAML). Use it only if you trust who wrote them.",
    ),
]
"""The option ``--run-code`` of the commands that read the YAML of a task."""

Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]
"""The option ``--version`` of a program."""


def choice_option_settings(list_names: Callable[[], Collection[str]]) -> dict[str, Any]:
    """Return the settings of a typer option whose value must be one of some names.

    Args:
        list_names: A function that returns the names. It is called only when the option is used,
            since listing, for example, all judges takes long.

    Returns:
        The keyword arguments of `typer.Option` that check and complete the value.
    """

    def check_name(name: str | None) -> str | None:
        """Return the value of the option, or refuse it if `list_names` does not return it."""
        # The value is None if the option is not used.
        if name is None:
            return None
        names = list_names()
        if name in names:
            return name
        raise typer.BadParameter(
            f"{name!r}; expected one of {', '.join(names)}{did_you_mean(name, names)}"
        )

    return {"callback": check_name, "autocompletion": lambda: list(list_names())}


def run_program(app: App, program: str, arguments: Sequence[str] | None) -> int:
    """Run the command line of a program, and print its errors to stderr.

    Args:
        app: The commands of the program.
        program: The name of the program, such as ``lm-factuality``.
        arguments: The words after the program. None takes those of this process.

    Returns:
        The exit code: 1 for an error that the user can correct, 2 for an invalid command line and
        130 after Ctrl-C.
    """
    # Imports create many objects that stay. By default, Python looks for unused ones among them
    # after every few hundred, which takes a tenth of a short command.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if arguments is None:
        arguments = sys.argv[1:]
    completion_variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    if completion_variable in os.environ:
        # The shell asks for completions. typer prints them and ends the process here.
        app(prog_name=program)
    return run_with_exit_code(program, lambda: run_command_line(app, program, arguments))


def run_command_line(app: App, program: str, arguments: Sequence[str]) -> int:
    """Run the command line of a program. Errors of its command are raised, not printed.

    Args:
        app: The commands of the program.
        program: The name of the program, for help and errors.
        arguments: The words after the program.

    Returns:
        The exit code. An invalid command line gives 2, with a message on stderr.

    Raises:
        FactualityError: The command failed, or the command line has a credential in it.
    """
    refuse_secrets(arguments)
    command = typer.main.get_command(app)
    # Calling ``app`` would end the process after Ctrl-C, before we can say how to continue.
    try:
        with command.make_context(program, list(arguments)) as context:
            return command.invoke(context) or 0
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]
        return error.exit_code
