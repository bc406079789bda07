"""Commands that need no model start without lm_eval and torch, whose imports take seconds."""

import subprocess
import sys

import pytest


def run_python(code, missing_packages=("lm_eval", "torch", "datasets")):
    """Run Python code in a process that cannot import some packages, and return what it prints."""
    # A module that is None in sys.modules cannot be imported.
    hide_packages = f"import sys; sys.modules.update(dict.fromkeys({missing_packages}))"
    command = [sys.executable, "-c", f"{hide_packages}; {code}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_cli(*arguments, missing_packages=("lm_eval", "torch", "datasets")):
    """Run ``lm-factuality`` in a process that cannot import some packages; return the output."""
    code = f"from lm_factuality.cli.main import main; sys.exit(main({list(arguments)}))"
    return run_python(code, missing_packages)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["ls"], "sample_felm", id="ls"),
        pytest.param(["data", "ls"], "longfact", id="data ls"),
        pytest.param(["check"], "supported", id="check"),
    ],
)
def test_a_command_runs_without_lm_eval(arguments, line):
    """The imports take seconds, for which a user would wait."""
    output = run_cli(*arguments, missing_packages=("lm_eval", "torch", "datasets"))

    assert line in output


@pytest.mark.parametrize("arguments", [["ls"], ["data", "ls"], ["--help"], ["check"]], ids=" ".join)
def test_a_command_without_calibration_runs_without_scipy(arguments):
    """Only the calibration of judges needs SciPy, whose import takes half a second."""
    output = run_cli(*arguments, missing_packages=("lm_eval", "torch", "datasets", "scipy"))

    assert output


@pytest.mark.parametrize(
    "module",
    [
        "lm_factuality.leaderboard.check",
        "lm_factuality.leaderboard.site.build",
        "lm_factuality.people.correct",
        "lm_factuality.report.build",
        "lm_factuality.results.compare",
    ],
)
def test_a_module_is_imported_without_lm_eval(module):
    """The import of lm_eval takes seconds, for which a user would wait."""
    run_python(f"import {module}")
