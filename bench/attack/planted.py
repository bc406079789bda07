"""Plants faults in copies of the repository, and shows that `bench.attack.kill` finds each of them.

    python -m bench.attack.planted [--points 40]

The exit code is 1 if the attack fails on the repository as it is, or does not name a fault.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lm_factuality.ground.console import print_table

_REPOSITORY = Path(__file__).resolve().parents[2]
# These commands ask a judge and write a file, ask a model, and write a folder.
_JUDGE, _MODEL, _FOLDER = "verify", "run local-chat-completions", "report"


class Fault(NamedTuple):
    """A fault to plant in one file."""

    problem: str
    """The problem by which the attack names it."""

    commands: Sequence[str]
    """The commands that are attacked."""

    file: str = ""
    """The path of the file."""

    changes: Mapping[str, str] = {}
    """What takes the place of each part of the file."""


_FILES = "lm_factuality/ground/files.py"
FAULTS: Mapping[str, Fault] = {
    "none": Fault("", [_JUDGE, _MODEL, _FOLDER]),
    "answers of a judge are stored after use": Fault(
        "replies lost",
        [_JUDGE],
        "judges/judge.py",
        {"for last_answer in answers:": "for last_answer in list(answers):"},
    ),
    "answers of a model are stored after use": Fault(
        "replies lost",
        [_MODEL],
        "lm_factuality/harness/kept_answers.py",
        {
            "        self._store.update(texts)\n\n": "        self.late.update(texts)\n\n",
            "        self._store = store\n": "        self._store, self.late = store, {}\n",
            "self._awaited_keys.clear()": "self._store.update(self.late)",
        },
    ),
    "files are written in place": Fault(
        "half-written",
        [_JUDGE],
        _FILES,
        {"yield temporary\n        temporary.replace(path)": "yield path"},
    ),
    "a file is removed before the new one is there": Fault(
        "removed before the new one",
        [_JUDGE],
        _FILES,
        {"yield temporary\n": "path.unlink(missing_ok=True); yield temporary\n"},
    ),
    "a folder is removed before the new one is there": Fault(
        "removed before the new one",
        [_FOLDER],
        _FILES,
        {"temporary.mkdir(mode=0o700)": "temporary.mkdir(); shutil.rmtree(out, True)"},
    ),
}
"""The planted faults by name."""


def plant(fault: Fault, copy: Path) -> None:
    """Copy the repository, and plant a fault in the copy."""
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(list_files, cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True).stdout
    for name in names.decode().strip("\0").split("\0"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_REPOSITORY / name, copy / name)
    for old, new in fault.changes.items():
        path = copy / fault.file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{path}: there is no {old!r}; plant the fault elsewhere"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack a copy with each fault, and print which were found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", default="40", help="points for each command (%(default)s)")
    options = parser.parse_args(arguments)

    rows = []
    for name, fault in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            plant(fault, copy)
            command = [sys.executable, "-m", "bench.attack.kill", "--points", options.points]
            process = subprocess.run(
                [*command, *fault.commands],
                cwd=copy,
                env={**os.environ, "PYTHONPATH": str(copy), "TMPDIR": folder},
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        sys.stderr.write(process.stderr)
        is_right = process.returncode == bool(fault.problem) and fault.problem in process.stderr
        rows.append((name, str(process.returncode), "yes" if is_right else "NO"))
    print_table("planted faults", ("fault", "#exit code", "as it should be"), rows)
    return int(any(row[-1] == "NO" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
