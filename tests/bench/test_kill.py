"""Commands that are stopped at random points go on as if nothing had happened; ``make attack`` does
it at length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.attack.commands import COMMANDS
from bench.attack.kill import FULL, INTERRUPT, KILL, attack
from bench.attack.warm import WarmProcess
from bench.attack.world import World

# What the first test needs, imported before the forks; the slow tests have everything.
FEW = (
    "judges.judge",
    "judges.verify",
    "lm_factuality.cli.verify",
    "lm_factuality.benchmarks",
    "factor_gen.cli",
    "openai",
)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with closing(World(tmp_path_factory.mktemp("few"), warm=WarmProcess(FEW))) as world:
        yield world


@pytest.mark.parametrize("how", [KILL, INTERRUPT, pytest.param(FULL, marks=pytest.mark.slow)])
def test_a_judge_goes_on_where_it_was_stopped(how: str, few: World) -> None:
    outcome = attack("verify", how, 3, few)
    assert not outcome.problems, outcome.notes
    assert (outcome.points, outcome.calls, outcome.repeated_calls) == (3, 60, 0)
    assert outcome.stops


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with closing(World(tmp_path_factory.mktemp("whole"))) as world:
        yield world


@pytest.mark.slow
@pytest.mark.parametrize("how", [KILL, INTERRUPT, FULL])
@pytest.mark.parametrize(
    "name", [name for name, command in COMMANDS.items() if not command.is_slow]
)
def test_commands_go_on_where_they_were_stopped(name: str, how: str, world: World) -> None:
    outcome = attack(name, how, 4, world)
    assert not outcome.problems, outcome.notes
