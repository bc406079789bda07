"""Completion for shells, and the other names of commands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lm_factuality.cli import main


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("lm-factuality leaderboard pa", "pack"),
        ("lm-factuality people sheet --strat", "--stratify"),
        ("lm-factuality gen bu", "build"),
        ("lm-factuality judge felm_", "felm_gen"),
        ("factor-gen build --eng", "--engine"),
    ],
)
def test_bash_completes_commands_options_and_names(words, completed):
    program = words.split()[0]
    package = {"lm-factuality": "lm_factuality", "factor-gen": "factor_gen"}[program]
    code = f"from {package}.cli import main; main()"
    variables = {
        f"_{program.replace('-', '_').upper()}_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == [completed]


def test_gen_is_factor_gen(capsys):
    assert main(["gen", "audit", "--help"]) == 0
    assert "Usage: lm-factuality gen audit" in capsys.readouterr().out
    assert main(["gen", "audit", "no_such_factor"]) == 1
    assert "no_such_factor" in capsys.readouterr().err
