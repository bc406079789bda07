"""Completion for shells, and the other names of commands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lm_factuality.cli import main


def complete_in_bash(package, program, words):
    """Return what a program offers in bash in place of the last word.

    Args:
        package: The package of the program.
        program: The name of the program.
        words: What the user has typed after the name.
    """
    typed = f"{program} {words}"
    variables = {
        f"_{program.replace('-', '_').upper()}_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),  # the place of the last word
    }
    process = subprocess.run(
        [sys.executable, "-c", f"from {package}.cli import main; main()"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.split()


@pytest.mark.parametrize(
    ("words", "completion"),
    [
        pytest.param("leaderboard pa", "pack", id="command"),
        pytest.param("people sheet --strat", "--stratify", id="option"),
        pytest.param("gen bu", "build", id="command of factor-gen"),
        pytest.param("judge felm_", "felm_gen", id="benchmark"),
    ],
)
def test_bash_completes_commands_options_and_names(words, completion):
    """Bash runs the program with some variables when the user presses the tab key."""
    assert complete_in_bash("lm_factuality", "lm-factuality", words) == [completion]


@pytest.mark.parametrize(
    ("shell", "completion"),
    [
        pytest.param("zsh", '"pack"', id="zsh"),
        pytest.param("fish", "pack", id="fish"),
    ],
)
def test_zsh_and_fish_complete_commands(shell, completion):
    """The shell passes the line that the user has typed so far in an environment variable."""
    variables = {
        "_LM_FACTUALITY_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "lm-factuality leaderboard pa",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    process = subprocess.run(
        [sys.executable, "-c", "from lm_factuality.cli import main; main()"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )

    assert completion in process.stdout


def test_bash_completes_options_of_factor_gen():
    """The user types the beginning of an option and presses the tab key."""
    assert complete_in_bash("factor_gen", "factor-gen", "build --eng") == ["--engine"]


def test_gen_shows_the_help_of_factor_gen(capsys):
    """The help names the command as the user typed it, ``lm-factuality gen``."""
    exit_code = main(["gen", "audit", "--help"])

    assert exit_code == 0
    assert "Usage: lm-factuality gen audit" in capsys.readouterr().out


def test_gen_shows_the_errors_of_factor_gen(capsys):
    """The command ``lm-factuality gen`` is another name of ``factor-gen``."""
    exit_code = main(["gen", "audit", "no_such_factor"])

    assert exit_code == 1
    assert "no_such_factor" in capsys.readouterr().err
