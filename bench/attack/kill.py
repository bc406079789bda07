"""Stops each command that works for longer at random points, starts it again, and looks at what is
there then.

    python -m bench.attack.kill [--how kill|interrupt|full] [--points 100] [COMMAND ...]

``kill`` ends the whole process group by SIGKILL, half of the time at a random moment and half just
before a random one of the calls by which it opens, renames or removes a file. ``interrupt`` is
Ctrl-C at such points. ``full`` is a disk of too little room, where file systems may be mounted, or
files that may not grow beyond a random size. A command may be stopped up to three times before it
is let run. Then everything must be as if nobody had disturbed it: the same files with the same
content, no others, no answer asked for twice; and while it is stopped, no file is half-written.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.attack.commands import COMMANDS, Attacked, World, kept, said_by
from lm_factuality.ground.console import print_table

KILL, INTERRUPT, FULL = "kill", "interrupt", "full"
_DEAR = 10  # of a command that takes long there are so many times fewer points
_UNWANTED = (
    "Traceback",
    "Exception ignored",
    "Event loop is closed",
    "Error in atexit",
    "was never awaited",
    "leaked",
)
_LATE = 60.0  # seconds that an interrupted command may take to end


@dataclass
class Outcome:
    """What came of the points of a command: how often it was stopped, calls that were under way
    then and calls that were asked again though their answers were on disk, and what was wrong, with
    the folders that were kept to look at."""

    seconds: float = 0.0
    points: int = 0
    stops: int = 0
    calls: int = 0
    under_way: int = 0
    repeated: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def blame(self, what: str, detail: str, folder: Path) -> None:
        self.wrong[what] += 1
        if self.wrong[what] <= 3:
            self.notes.append(f"{what}: {detail} ({folder})")


def attack(name: str, how: str, points: int, world: World, seed: int = 0) -> Outcome:
    """Stops the command ``name`` at so many ``points``."""
    attacked, outcome, draws = COMMANDS[name], Outcome(), random.Random(f"{name} {how} {seed}")
    place = world.folder / re.sub(r"\W+", "_", f"{how} {name}")
    (given := place / "given").mkdir(parents=True)
    attacked.prepare(given, world)
    folder = _copy(given, place / "undisturbed")
    words, calls = attacked.words(world), world.calls()
    begin = time.monotonic()
    world.warm.begin(world.task(words, folder))
    code, deeds = world.warm.end()
    outcome.seconds, outcome.calls = time.monotonic() - begin, world.calls() - calls
    if code:
        outcome.blame("does not work at all", _said(folder), folder)
        return outcome
    expected = attacked.look(folder)
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    for point in range(points):
        folder = place / str(point)
        with _disk(folder, how == FULL) as disk:
            _copy(given, folder)
            stop = _Stop(how, draws, outcome.seconds, deeds, largest, size - _size(given))
            _stopped(attacked, words, folder, stop, expected, world, outcome, disk)
            is_wrong = any(str(folder) in note for note in outcome.notes)
            if disk and is_wrong:
                shutil.copytree(folder, folder.with_name(f"{point} as it was"))
        outcome.points += 1
        if not is_wrong:
            shutil.rmtree(folder, ignore_errors=True)
    return outcome


@dataclass(frozen=True)
class _Stop:
    """How a command is stopped, and what is known of it undisturbed: its seconds, deeds to files,
    bytes of its largest file, and of all that it adds."""

    how: str
    draws: random.Random
    seconds: float
    deeds: int
    largest: int
    added: int


def _stopped(
    attacked: Attacked,
    words: list[str],
    folder: Path,
    stop: _Stop,
    expected: Mapping[str, Any],
    world: World,
    outcome: Outcome,
    disk: _Disk | None,
) -> None:
    for _ in range(stop.draws.choice([1, 1, 2, 3])):
        before = kept(folder), world.calls()
        code = _stop(words, folder, stop, world, disk)
        time.sleep(0.05)  # for calls that are still on their way
        if disk:
            disk.resize(0)
        said = said_by(folder)
        is_lost = (
            "__del__" in said and code == 0
        )  # Python lets go of an interrupt that comes while it removes an object
        is_over = code == 0 or (
            stop.how == INTERRUPT and code == -signal.SIGINT
        )  # as Python says it that was all but gone
        if (is_over and (is_lost or not any(each in said for each in _UNWANTED))) or (
            attacked.refuses and code == 1 and attacked.refuses in _said(folder)
        ):
            break
        if problem := _problem_of_end(stop.how, code, folder, words):
            outcome.blame(*problem, folder)
            return
        outcome.stops += 1
        now = kept(folder), world.calls()
        outcome.under_way += (now[1] - before[1]) - (now[0] - before[0])
        found = {
            name: said
            for name, said in attacked.look(folder).items()
            if not _may_grow(name, attacked)
        }
        if half := [name for name, said in found.items() if expected.get(name) != said]:
            outcome.blame("half-written", ", ".join(half), folder)
            return
    before = kept(folder), world.calls()
    if (code := world.run(words, folder)) and not (
        attacked.refuses and attacked.refuses in _said(folder)
    ):
        outcome.blame("does not go on", f"exit code {code}: {_said(folder)}", folder)
        return
    again = (world.calls() - before[1]) - (kept(folder) - before[0])
    outcome.repeated += again
    found = attacked.look(folder)
    for what, names in (
        (
            "other content",
            [name for name in expected if name in found and found[name] != expected[name]],
        ),
        ("missing", [name for name in expected if name not in found]),
        ("left over", [name for name in found if name not in expected]),
        ("asked again", [f"{again} calls"] if again else []),
    ):
        if names:
            outcome.blame(what, ", ".join(names[:5]), folder)


def _stop(words: list[str], folder: Path, stop: _Stop, world: World, disk: _Disk | None) -> int:
    """Begins the command and stops it; returns its exit code, 0 if it was faster."""
    number = signal.SIGINT if stop.how == INTERRUPT else signal.SIGKILL
    if stop.how == FULL:
        room = stop.draws.random()
        if disk:
            disk.resize(int(shutil.disk_usage(folder).used + room * stop.added) + 1)
            return world.run(words, folder)
        return world.run(words, folder, most_bytes=max(1, int(room * stop.largest)))
    if stop.deeds and stop.draws.random() < 0.5:
        at = stop.draws.randint(1, stop.deeds)
        return world.run(
            words, folder, dies_at=at, signal=int(number), tears_down=stop.how == INTERRUPT
        )
    seconds = stop.draws.uniform(0, stop.seconds)
    group = world.warm.begin(world.task(words, folder, tears_down=stop.how == INTERRUPT))
    if not world.warm.is_over(seconds):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        if not world.warm.is_over(_LATE):
            os.killpg(group, signal.SIGKILL)
    return world.warm.end()[0]


def _problem_of_end(how: str, code: int, folder: Path, words: list[str]) -> tuple[str, str] | None:
    """What is wrong with how a stopped command ended."""
    said = said_by(folder)
    if unwanted := [each for each in _UNWANTED if each in said]:
        return unwanted[0], said[said.find(unwanted[0]) :][:600]
    if code != {KILL: -signal.SIGKILL, INTERRUPT: 130, FULL: 1}[how]:
        return f"exit code {code}", _said(folder)
    last = said.rstrip().rpartition("\n")[2]
    if how == INTERRUPT and not (
        last.startswith(f"{words[0]}: interrupted") and all(word in last for word in words[:2])
    ):
        return "no word on how to go on", last
    if how == FULL and not any(
        word in said
        for word in ("No space left", "File too large", "disk is full", "disk I/O", "cannot")
    ):
        return "no word on the disk", _said(folder)
    return None


def _may_grow(name: str, attacked: Attacked) -> bool:
    """Whether a file is not promised to be whole while the command is stopped: those that are
    hidden are not."""
    return any(part.startswith(".") for part in Path(name).parts) or bool(
        re.fullmatch(attacked.growing, name)
    )


def _copy(given: Path, folder: Path) -> Path:
    shutil.copytree(given, folder, dirs_exist_ok=True)
    return folder


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _said(folder: Path) -> str:
    return said_by(folder).strip()[-400:]


class _Disk:
    """A file system in memory, whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, size: int) -> None:
        """To so many bytes; 0: as many as anybody needs."""
        option = f"remount,size={max(4096, size) if size else 1 << 30}"
        subprocess.run(["mount", "-o", option, str(self.folder)], check=True, capture_output=True)


@contextmanager
def _disk(folder: Path, is_wanted: bool) -> Iterator[_Disk | None]:
    """A file system at ``folder``; None where it is not wanted or may not be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(folder)]
    if (
        not is_wanted
        or os.name == "nt"
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        yield None
        return
    try:
        yield _Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)} (default: all)"
    )
    parser.add_argument(
        "--how", choices=(KILL, INTERRUPT, FULL), default=KILL, help="default %(default)s"
    )
    parser.add_argument(
        "--points",
        type=int,
        default=100,
        help=f"a command; a {_DEAR}th of it for dear ones (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args(arguments)
    if unknown := set(parsed.commands) - set(COMMANDS):
        parser.error(f"unknown: {', '.join(unknown)}")
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    rows, is_sound = [], True
    with closing(World(folder)) as world:
        for name in parsed.commands or COMMANDS:
            if COMMANDS[name].needs and not find_spec(COMMANDS[name].needs):
                continue
            points = -(-parsed.points // _DEAR) if COMMANDS[name].is_dear else parsed.points
            found = attack(name, parsed.how, points, world, parsed.seed)
            wrong = "; ".join(f"{count} x {what}" for what, count in found.wrong.items()) or "-"
            numbers = found.points, found.stops, found.calls, found.under_way, found.repeated
            rows.append((name, f"{found.seconds:.1f}", *map(str, numbers), wrong))
            sys.stderr.write(
                f"{name}: {found.stops} stops, {wrong}\n"
                + "".join(f"  {note}\n" for note in found.notes)
            )
            is_sound &= not found.wrong
    columns = (
        "command",
        "#seconds",
        "#points",
        "#stops",
        "#calls",
        "#under way",
        "#asked again",
        "wrong",
    )
    notes = (
        "calls: of a run that nobody disturbs; under way: answers that a stop took away, of all stops",
    )
    print_table(f"{parsed.how}: stopped at random points", columns, rows, notes)
    if is_sound:
        shutil.rmtree(folder)
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
