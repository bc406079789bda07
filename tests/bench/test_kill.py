"""Commands that are stopped at random points go on where they were; ``make attack`` tries more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.attack.commands import COMMANDS
from bench.attack.kill import FULL, INTERRUPT, KILL, attack
from bench.attack.warm import WarmProcess
from bench.attack.world import World

MODULES_OF_VERIFY = (
    "judges.judge",
    "judges.verify",
    "lm_factuality.cli.verify",
    "lm_factuality.benchmarks",
    "factor_gen.cli",
    "openai",
)
"""What ``verify`` needs. It is imported once, before the processes that are stopped are forked."""

MODULES_OF_RUN = (
    "lm_factuality.harness.run",
    "lm_factuality.harness.tasks",
    "lm_factuality.cli.outcome",
    "lm_eval.evaluator",
    "lm_eval._cli",
    "lm_eval.models.openai_completions",
    "factor_gen.cli",
)
"""What a run with a model behind a server needs."""

QUICK_COMMANDS = [
    name for name, command in COMMANDS.items() if not (command.is_slow or command.needs)
]


@pytest.fixture(scope="module")
def world_of_verify(tmp_path_factory) -> Iterator[World]:
    """Return the files and the judge of ``verify``, with few imports."""
    folder = tmp_path_factory.mktemp("verify")
    with closing(World(folder, warm=WarmProcess(MODULES_OF_VERIFY))) as world:
        yield world


@pytest.fixture(scope="module")
def world_of_run(tmp_path_factory) -> Iterator[World]:
    """Return the files and the server of a run with a model behind it, with few imports."""
    folder = tmp_path_factory.mktemp("run")
    with closing(World(folder, warm=WarmProcess(MODULES_OF_RUN))) as world:
        yield world


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[World]:
    """Return the files and the judge of all commands."""
    with closing(World(tmp_path_factory.mktemp("all"))) as world:
        yield world


@pytest.mark.parametrize(
    "kind_of_stop",
    [
        pytest.param(KILL, id="killed"),
        pytest.param(INTERRUPT, id="interrupted"),
        pytest.param(FULL, id="disk full", marks=pytest.mark.slow),
    ],
)
def test_stopped_judge_repeats_no_question(kind_of_stop, world_of_verify):
    """The command `verify` asks the judge 60 questions, which cost money, with or without a stop."""
    outcome = attack("verify", how=kind_of_stop, points=3, world=world_of_verify)

    assert not outcome.problems, outcome.notes
    assert outcome.points == 3
    assert outcome.stops
    assert outcome.calls == 60
    assert outcome.repeated_calls == 0


@pytest.mark.parametrize("kind_of_stop", [KILL, INTERRUPT])
def test_stopped_run_repeats_no_request(kind_of_stop, world_of_run):
    """The run sends four requests at once. A stop may lose these, but no saved response."""
    outcome = attack("run local-chat-completions", how=kind_of_stop, points=2, world=world_of_run)

    assert not outcome.problems, outcome.notes
    assert outcome.stops
    assert outcome.repeated_calls == 0
    assert outcome.most_lost_calls <= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind_of_stop", [KILL, INTERRUPT, FULL])
@pytest.mark.parametrize("command", QUICK_COMMANDS)
def test_stopped_command_gives_the_output_of_an_uninterrupted_run(command, kind_of_stop, world):
    """`attack` stops the command at four random points, and runs it to its end after each stop."""
    outcome = attack(command, how=kind_of_stop, points=4, world=world)

    assert not outcome.problems, outcome.notes
