"""Completion for shells, and the other names of commands."""

from __future__ import annotations

import subprocess

import pytest

from lm_factuality.cli import main


@pytest.fixture
def completed(tmp_path, capsys):
    """What bash completes a command line to."""
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")

    def completed(*words):
        function = f"_shtab_{words[0].replace('-', '_')}"
        line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; {function}; echo ${{COMPREPLY[@]}}"
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=True
        ).stdout.split()

    return completed


def test_bash_completes_both_commands_lm_evals_options_and_actions(completed):
    assert completed("lm-factuality", "leaderboard", "pa") == ["pack"]
    assert completed("lm-factuality", "run", "--task") == ["--tasks"]
    assert completed("lm-factuality", "gen", "bu") == ["build"]
    assert completed("factor-gen", "build", "--eng") == ["--engine"]
    assert completed("lm-factuality", "judge", "felm_") == ["felm_gen"]


@pytest.mark.parametrize(
    ("shell", "mark"), [("zsh", "#compdef lm-factuality"), ("fish", "complete -c lm-factuality")]
)
def test_other_shells(shell, mark, capsys):
    assert main(["completion", shell]) == 0
    output = capsys.readouterr().out
    assert mark in output
    assert mark.replace("lm-factuality", "factor-gen") in output


def test_gen_is_factor_gen(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["gen", "audit", "--help"])
    assert ended.value.code == 0
    assert "usage: factor-gen audit" in capsys.readouterr().out
    assert main(["gen", "audit", "no_such_factor"]) == 1
    assert "no_such_factor" in capsys.readouterr().err
