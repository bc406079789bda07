"""Stops long commands at random points, runs them again, and checks what they leave.

    python -m bench.attack.kill [--how kill|interrupt|full] [--points 100] [COMMAND ...]

``kill`` ends the whole process group by SIGKILL: half of the time just after the command opens a
random file to write to, or just before it renames or removes one, and otherwise at a random moment,
or when a random call has arrived at a server or a model. ``interrupt`` presses Ctrl-C at such
points. ``full`` gives the command a disk with too little room, or files that may not grow beyond a
random size where no file system can be mounted.

A command is stopped up to three times. While it is stopped, no file may be half-written, an earlier
output is still there or replaced by the new one, and only the replies to calls that were under way
may be lost. Then the command runs to its end, and everything must be as if nobody had disturbed it:
the same files with the same content, no others, and no question asked twice.
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
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from bench.attack.commands import COMMANDS, AttackedCommand
from bench.attack.state import State
from bench.attack.world import World, count_saved_replies, read_errors
from lm_factuality.ground.console import print_table

KILL, INTERRUPT, FULL = "kill", "interrupt", "full"

_SLOW_COMMANDS_SHARE = 10  # slow commands are stopped at a tenth of the points
_LONGEST_END = 60.0  # seconds that an interrupted command may take to end
_BETWEEN_LOOKS = 0.002  # seconds between two looks at the number of calls
_LATE_CALLS = 0.05  # seconds after which calls on their way have arrived at the servers
_ERROR_LENGTH = 400  # characters of an error that reports show
_EARLIER = "earlier"  # the content of earlier outputs
_MOST_NOTES = 3  # of each kind of problem
# What a stopped command must not print.
_UNWANTED = (
    "Traceback",
    "Exception ignored",
    "Event loop is closed",
    "Error in atexit",
    "was never awaited",
    "leaked",
)
_DISK_ERRORS = ("No space left", "File too large", "disk is full", "disk I/O", "cannot")


@dataclass
class Outcome:
    """What became of a command at all points."""

    seconds: float = 0.0
    """The duration of an undisturbed run."""

    points: int = 0
    """The number of points, at each of which the command began anew."""

    stops: int = 0
    """How often the command was stopped; up to three times at a point."""

    calls: int = 0
    """The calls of an undisturbed run to the judge, the web site and local models."""

    lost_calls: int = 0
    """The calls whose replies were lost because a stop came before they were saved."""

    most_lost_calls: int = 0
    """The most calls whose replies were lost at one stop."""

    repeated_calls: int = 0
    """The calls that were made again although their replies were on disk."""

    problems: Counter[str] = field(default_factory=Counter)
    """How often each kind of problem occurred."""

    notes: list[str] = field(default_factory=list)
    """The details of the first problems, with folders that are kept for a look."""

    def add_problem(self, kind: str, detail: str, folder: Path) -> None:
        """Count a problem, and note its details if there are few of its kind so far."""
        self.problems[kind] += 1
        if self.problems[kind] <= _MOST_NOTES:
            self.notes.append(f"{kind}: {detail} ({folder})")


@dataclass(frozen=True)
class _Undisturbed:
    """What a command does when nobody disturbs it."""

    state: State
    """What it leaves in its folder."""

    seconds: float
    """Its duration."""

    calls: int
    """The calls that it makes."""

    file_changes: int
    """How often it changes files."""

    output_changes: Sequence[int]
    """Which of these changes are to its outputs."""

    largest_file: int
    """The size of its largest file in bytes."""

    added_bytes: int
    """The size of all files that it adds, in bytes."""

    outputs: frozenset[str]
    """The files that another run replaces, by their paths in the folder."""


class _ResizableDisk:
    """A file system in memory whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        """Take the folder at which the file system is mounted."""
        self._folder = folder

    def limit_free_bytes(self, free_bytes: int) -> None:
        """Leave only some room on the disk."""
        used_bytes = shutil.disk_usage(self._folder).used
        self._resize(max(4096, used_bytes + free_bytes + 1))

    def remove_limit(self) -> None:
        """Give the disk more room than any command needs."""
        self._resize(1 << 30)

    def _resize(self, size: int) -> None:
        """Change the size to a number of bytes."""
        command = ["mount", "-o", f"remount,size={size}", str(self._folder)]
        subprocess.run(command, check=True, capture_output=True)


def attack(name: str, how: str, points: int, world: World, seed: int = 0) -> Outcome:
    """Stop a command at random points, and run it again after each.

    Args:
        name: The name of the command in `COMMANDS`.
        how: ``kill``, ``interrupt`` or ``full``.
        points: The number of points.
        world: What commands need besides their folder.
        seed: The seed of the points.
    """
    command = COMMANDS[name]
    outcome = Outcome()
    generator = random.Random(f"{name} {how} {seed}")
    place = world.folder / re.sub(r"\W+", "_", f"{how} {name}")
    inputs = place / "inputs"
    inputs.mkdir(parents=True)
    command.prepare(inputs, world)

    undisturbed = _run_undisturbed(command, inputs, place / "undisturbed", world, outcome)
    if undisturbed is None:
        return outcome
    for point in range(points):
        folder = place / str(point)
        with _make_disk(folder, is_wanted=how == FULL) as disk:
            shutil.copytree(inputs, folder, dirs_exist_ok=True)
            # Every other time, there is an earlier output.
            if point % 2:
                _write_earlier_outputs(folder, undisturbed.outputs)
            trial = _Trial(command, how, folder, disk, undisturbed, world, generator, outcome)
            trial.run()
            has_problem = any(str(folder) in note for note in outcome.notes)
            if disk is not None and has_problem:
                # The disk is in memory, so its files are copied before it disappears.
                shutil.copytree(folder, folder.with_name(f"{point} as it was"))
        outcome.points += 1
        if not has_problem:
            shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _run_undisturbed(
    command: AttackedCommand, inputs: Path, folder: Path, world: World, outcome: Outcome
) -> _Undisturbed | None:
    """Run a command to its end, and measure what it does.

    Args:
        command: The command.
        inputs: The folder with what it reads.
        folder: A new folder to run it in.
        world: What commands need besides their folder.
        outcome: Gets the seconds and the calls, or the problem.

    Returns:
        The measurements, or None if the command fails.
    """
    shutil.copytree(inputs, folder)
    calls_before = world.count_calls()
    start = time.monotonic()
    ending = world.run(command.arguments(world), folder)
    outcome.seconds = time.monotonic() - start
    outcome.calls = world.count_calls() - calls_before
    if ending.code:
        outcome.add_problem("does not work at all", _last_error(folder), folder)
        return None

    sizes = _file_sizes(folder)
    state = command.read_state(folder)
    outputs = set()
    if command.replaces:
        for name in state.keys() - command.read_state(inputs).keys():
            # Files with a date in their names are never replaced.
            if (folder / name).is_file() and not re.fullmatch(command.growing, name):
                outputs.add(name)
    return _Undisturbed(
        state=state,
        outputs=frozenset(outputs),
        seconds=outcome.seconds,
        calls=outcome.calls,
        file_changes=ending.file_changes,
        output_changes=ending.output_changes,
        largest_file=max(sizes),
        added_bytes=sum(sizes) - sum(_file_sizes(inputs)),
    )


def _write_earlier_outputs(folder: Path, names: Iterable[str]) -> None:
    """Write files of an earlier run with another content."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_EARLIER, encoding="utf-8")


@dataclass(frozen=True)
class _Trial:
    """A command that is stopped a few times in one folder, and then runs to its end."""

    command: AttackedCommand
    """The command."""

    how: str
    """How it is stopped."""

    folder: Path
    """Its folder, with what it reads."""

    disk: _ResizableDisk | None
    """The disk of the folder, if one could be mounted."""

    undisturbed: _Undisturbed
    """What it does undisturbed."""

    world: World
    """What commands need besides their folder."""

    generator: random.Random
    """The source of randomness."""

    outcome: Outcome
    """Gets the stops and the problems."""

    def run(self) -> None:
        """Stop the command one to three times, and then let it run to its end."""
        has_earlier_output = any((self.folder / name).exists() for name in self.undisturbed.outputs)
        for _ in range(self.generator.choice([1, 1, 2, 3])):
            saved_before = count_saved_replies(self.folder)
            calls_before = self.world.count_calls()
            code = self._run_and_stop()
            # Wait for calls that are still on their way.
            time.sleep(_LATE_CALLS)
            if self.disk is not None:
                self.disk.remove_limit()
            if self._is_over(code):
                break
            if self._has_bad_end(code):
                return

            self.outcome.stops += 1
            new_calls = self.world.count_calls() - calls_before
            new_replies = count_saved_replies(self.folder) - saved_before
            lost_calls = new_calls - new_replies
            self.outcome.lost_calls += lost_calls
            self.outcome.most_lost_calls = max(self.outcome.most_lost_calls, lost_calls)
            if lost_calls > self.command.most_lost_calls:
                self.outcome.add_problem("replies lost", f"{lost_calls} calls", self.folder)
            if self._has_incomplete_files(has_earlier_output):
                return
        self._run_to_end()

    def _run_and_stop(self) -> int:
        """Start the command and stop it.

        Returns:
            Its exit code, which is 0 if the command was faster.
        """
        arguments = self.command.arguments(self.world)
        if self.how == FULL:
            return self._run_with_little_room(arguments)

        is_interrupt = self.how == INTERRUPT
        number = signal.SIGINT if is_interrupt else signal.SIGKILL
        if self.undisturbed.file_changes and self.generator.random() < 0.5:
            dies_at = self.generator.randint(1, self.undisturbed.file_changes)
            # Most changes are to stores and caches.
            if self.undisturbed.output_changes and self.generator.random() < 0.7:
                dies_at = self.generator.choice(self.undisturbed.output_changes)
            ending = self.world.run(
                arguments,
                self.folder,
                dies_at=dies_at,
                signal=int(number),
                tears_down=is_interrupt,
            )
            return ending.code

        warm = self.world.warm
        group = warm.begin(self.world.task(arguments, self.folder, tears_down=is_interrupt))
        if not self._is_over_before_stop():
            # The command may end just before the signal.
            with suppress(ProcessLookupError):
                os.killpg(group, number)
            if not warm.is_over(_LONGEST_END):
                os.killpg(group, signal.SIGKILL)
        return warm.end().code

    def _is_over_before_stop(self) -> bool:
        """Wait for a random moment or, if the command makes calls, more often for a random call.

        Returns:
            Whether the command was over before.
        """
        warm = self.world.warm
        if not self.undisturbed.calls or self.generator.random() < 0.3:
            return warm.is_over(self.generator.uniform(0, self.undisturbed.seconds))
        last_call = self.world.count_calls() + self.generator.randint(1, self.undisturbed.calls)
        while self.world.count_calls() < last_call:
            if warm.is_over(_BETWEEN_LOOKS):
                return True
        return False

    def _run_with_little_room(self, arguments: Sequence[str]) -> int:
        """Run the command with a random share of the room that it needs on the disk."""
        share = self.generator.random()
        if self.disk is not None:
            self.disk.limit_free_bytes(int(share * self.undisturbed.added_bytes))
            return self.world.run(arguments, self.folder).code
        most_bytes = max(1, int(share * self.undisturbed.largest_file))
        return self.world.run(arguments, self.folder, most_bytes=most_bytes).code

    def _is_over(self, code: int) -> bool:
        """Return whether the command did all its work, although it was to be stopped."""
        if code == 1 and self._refuses_to_repeat():
            return True
        errors = read_errors(self.folder)
        # Python drops an interrupt that comes while it removes an object.
        removes_object = "__del__" in errors or "weakref.py" in errors
        is_interrupt_lost = code == 0 and removes_object
        # Python reports an interrupt that comes while the process ends by this exit code.
        ended_during_interrupt = self.how == INTERRUPT and code == -signal.SIGINT
        if code != 0 and not ended_during_interrupt:
            return False
        return is_interrupt_lost or not any(words in errors for words in _UNWANTED)

    def _has_bad_end(self, code: int) -> bool:
        """Find out whether the stopped command ended badly, and add the problem."""
        errors = read_errors(self.folder)
        problem: tuple[str, str] | None = None
        for words in _UNWANTED:
            if words in errors and problem is None:
                problem = words, errors[errors.find(words) :][:600]
        if problem is None and code != self._expected_code():
            problem = f"exit code {code}", _last_error(self.folder)
        if problem is None and self.how == INTERRUPT:
            problem = self._problem_of_last_line(errors)
        names_the_disk = any(words in errors for words in _DISK_ERRORS)
        if problem is None and self.how == FULL and not names_the_disk:
            problem = "no word on the disk", _last_error(self.folder)

        if problem is None:
            return False
        self.outcome.add_problem(*problem, self.folder)
        return True

    def _expected_code(self) -> int:
        """Return the exit code of a command that was stopped."""
        codes = {KILL: -signal.SIGKILL, INTERRUPT: 130, FULL: 1}
        return codes[self.how]

    def _problem_of_last_line(self, errors: str) -> tuple[str, str] | None:
        """Return a problem if an interrupted command does not say how to go on."""
        # A progress bar that Python removes at the end may draw itself once more.
        lines = [line for line in errors.splitlines() if line.strip() and "it/s]" not in line]
        last_line = lines[-1] if lines else ""
        arguments = self.command.arguments(self.world)
        says_interrupted = last_line.startswith(f"{arguments[0]}: interrupted")
        if says_interrupted and all(word in last_line for word in arguments[:2]):
            return None
        return "no word on how to go on", last_line

    def _has_incomplete_files(self, has_earlier_output: bool) -> bool:
        """Find out whether a file is neither the earlier nor the new one, and add the problem.

        Args:
            has_earlier_output: Whether there was an output when the command began.
        """
        outputs = self.undisturbed.outputs
        incomplete = []
        for name, content in self.command.read_state(self.folder).items():
            is_earlier = name in outputs and content == _EARLIER
            is_whole = is_earlier or self.undisturbed.state.get(name) == content
            if not is_whole and not self._may_be_incomplete(name):
                incomplete.append(name)
        removed = set()
        if has_earlier_output:
            removed = {name for name in outputs if not self._is_kept(name)}
        self._add_files("half-written", incomplete)
        self._add_files("removed before the new one", removed)
        return bool(incomplete or removed)

    def _is_kept(self, name: str) -> bool:
        """Return whether an output is there, or in the folder that the next run renames back."""
        folder, _, rest = name.partition("/")
        return (self.folder / name).exists() or (self.folder / f".{folder}.earlier" / rest).exists()

    def _may_be_incomplete(self, name: str) -> bool:
        """Return whether a file may be incomplete while the command is stopped: hidden ones may."""
        if any(part.startswith(".") for part in Path(name).parts):
            return True
        return re.fullmatch(self.command.growing, name) is not None

    def _run_to_end(self) -> None:
        """Run the command undisturbed, and compare what it leaves with an undisturbed run."""
        saved_before = count_saved_replies(self.folder)
        calls_before = self.world.count_calls()
        code = self.world.run(self.command.arguments(self.world), self.folder).code
        if code and not self._refuses_to_repeat():
            detail = f"exit code {code}: {_last_error(self.folder)}"
            self.outcome.add_problem("does not go on", detail, self.folder)
            return

        new_calls = self.world.count_calls() - calls_before
        new_replies = count_saved_replies(self.folder) - saved_before
        repeated_calls = new_calls - new_replies
        self.outcome.repeated_calls += repeated_calls
        if repeated_calls:
            self.outcome.add_problem("asked again", f"{repeated_calls} calls", self.folder)

        expected = self.undisturbed.state
        state = self.command.read_state(self.folder)
        shared = state.keys() & expected.keys()
        self._add_files("other content", {name for name in shared if state[name] != expected[name]})
        self._add_files("missing", expected.keys() - state.keys())
        self._add_files("left over", state.keys() - expected.keys())

    def _add_files(self, kind: str, names: Collection[str]) -> None:
        """Add a problem with some files, unless there are none."""
        if names:
            self.outcome.add_problem(kind, ", ".join(sorted(names)[:5]), self.folder)

    def _refuses_to_repeat(self) -> bool:
        """Return whether the command's error says that its work was done before."""
        refuses = self.command.refuses
        return bool(refuses) and refuses in _last_error(self.folder)


def _last_error(folder: Path) -> str:
    """Return the end of what the last command in a folder printed as errors."""
    return read_errors(folder).strip()[-_ERROR_LENGTH:]


def _file_sizes(folder: Path) -> list[int]:
    """Return the size of each file below a folder, in bytes."""
    return [path.stat().st_size for path in folder.rglob("*") if path.is_file()]


@contextmanager
def _make_disk(folder: Path, is_wanted: bool) -> Iterator[_ResizableDisk | None]:
    """Make a folder, with a disk of its own within a ``with`` block.

    Args:
        folder: The folder.
        is_wanted: Whether the folder gets a disk of its own.

    Yields:
        The disk. None if it is not wanted, or may not be mounted.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(folder)]
    can_mount = is_wanted and os.name != "nt"
    if not can_mount or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield _ResizableDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack commands and print a table. The exit code is 1 if there is a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)} (default: all)"
    )
    parser.add_argument(
        "--how",
        choices=(KILL, INTERRUPT, FULL),
        default=KILL,
        help="how commands are stopped (default: %(default)s)",
    )
    parser.add_argument(
        "--points",
        type=int,
        default=100,
        help="points for each command, a tenth of them for slow ones (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random points")
    options = parser.parse_args(arguments)
    for name in options.commands:
        if name not in COMMANDS:
            parser.error(f"no command {name!r}, expected some of {', '.join(COMMANDS)}")

    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    rows = []
    has_problem = False
    with closing(World(folder)) as world:
        for name in options.commands or COMMANDS:
            command = COMMANDS[name]
            if command.needs and not find_spec(command.needs):
                continue
            points = options.points
            if command.is_slow:
                points = max(1, points // _SLOW_COMMANDS_SHARE)
            outcome = attack(name, options.how, points, world, options.seed)
            has_problem = has_problem or bool(outcome.problems)
            rows.append(_table_row(name, outcome))
            # Those who wait see what is known so far.
            lines = [f"{name}: {outcome.stops} stops, {rows[-1][-1]}", *outcome.notes]
            sys.stderr.write("\n  ".join(lines) + "\n")

    columns = (
        "command",
        "#seconds",
        "#points",
        "#stops",
        "#calls",
        "#lost",
        "#most lost",
        "#asked again",
        "problems",
    )
    notes = (
        "calls: of an undisturbed run",
        "lost: replies that came, but were not saved before a stop, at all stops",
        "most lost: at one stop; local models save the replies of a batch together",
    )
    print_table(f"{options.how}: stopped at random points", columns, rows, notes)
    if has_problem:
        return 1
    shutil.rmtree(folder)
    return 0


def _table_row(name: str, outcome: Outcome) -> tuple[str, ...]:
    """Return the cells of a command in the table."""
    problems = [f"{count} x {kind}" for kind, count in outcome.problems.items()]
    return (
        name,
        f"{outcome.seconds:.1f}",
        str(outcome.points),
        str(outcome.stops),
        str(outcome.calls),
        str(outcome.lost_calls),
        str(outcome.most_lost_calls),
        str(outcome.repeated_calls),
        "; ".join(problems) or "-",
    )


if __name__ == "__main__":
    sys.exit(main())
