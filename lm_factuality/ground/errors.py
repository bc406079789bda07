"""Errors that a user can act on, and why items are unscored.

The command line prints an error without a traceback and exits with 1. Reasons are counted by what
they have in common, and shown with their cures, which are in `cures.yaml`.
"""

import difflib
import io
import re
import shlex
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_INTERRUPTED = 130  # the exit code of a process that SIGINT ended
# Categories of Unicode that are not shown but do something: controls, formats (among them those
# that turn the direction), surrogates, private use, and the two separators that end a line.
_ACTING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_CI_COMMAND = re.compile(r"^\s*(::|##\[)")  # how a line of a CI log begins that is a command
_LONGEST_LINE = 2000  # characters
_LONGEST_REASON = 160  # characters of an example
_MOST_PROBLEMS = 10  # that an error lists
_PLACE = re.compile(r"^(?:choice|question|window|row|sentence) \d+(?: of \d+)?: ")
_NUMBER = re.compile(r"\d[\d,.]*")
_CURES = Path(__file__).with_name("cures.yaml")


class FactualityError(Exception):
    """Something in the input, the data or the surroundings is wrong; the text says what, where and
    what to do."""


class ConfigError(FactualityError):
    """A task YAML or a command-line value that cannot be used."""


class DataError(FactualityError):
    """A data file that is missing, damaged or not what its task expects."""


class ModelError(FactualityError):
    """A model that cannot be scored in the way that was asked for."""


class BackendDownError(FactualityError):
    """A judge's model that cannot be reached at all, or that has used up its budget; what it
    answered before is kept."""


def exit_code(program: str, command: Callable[[], int]) -> int:
    """Run a command and turn what it raises into a message and an exit code.

    Args:
        program: The name that messages begin with.
        command: Returns an exit code.

    Returns:
        The command's exit code, 1 for an error that a user can mend, or 130 for Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A letter that the terminal does not have is written as its number.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return command()
    except FactualityError as error:
        sys.stderr.write(f"{program}: {clipped(str(error))}\n")
        return 1
    except BrokenPipeError:  # the reader of our output, such as head, has gone
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        file = clipped(str(error.filename))
        sys.stderr.write(
            f"{program}: {file}: cannot be used: {error.strerror}; name another file\n"
        )
        return 1
    except KeyboardInterrupt:
        again = shlex.join([program, *sys.argv[1:]])
        sys.stderr.write(
            f"\n{program}: interrupted; judges' answers and finished parts are kept. To continue:"
            f" {again}\n"
        )
        return _INTERRUPTED


def clipped(text: str) -> str:
    """Return a text that can be written, without lines that are too long to be read.

    An error may quote what a file holds.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    lines = []
    for line in text.split("\n"):
        lines.append(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ...")
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return a stranger's text as one line for a terminal, a log or a page.

    Characters that act are written as escapes (``\\x1b``, ``\\u202e``). The text never begins with
    what a CI runner takes as a command.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(
            repr(letter)[1:-1] if unicodedata.category(letter) in _ACTING else letter
            for letter in text
        )
    return f"'{text}" if _CI_COMMAND.match(text) else text


def refuse(problems: Sequence[str], what: str = "", advice: str = "") -> None:
    """Refuse data with problems.

    Args:
        problems: The sentences to show, of which the first ten are shown.
        what: What has them, such as lines or rows.
        advice: What to do.

    Raises:
        DataError: There are problems.
    """
    if not problems:
        return
    lines = list(problems[:_MOST_PROBLEMS])
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"... {len(problems)} {f'{what} ' if what else ''}in all")
    if advice:
        lines.append(advice)
    raise DataError("\n".join(lines))


def listed(names: Sequence[object], most: int = 5) -> str:
    """Return the first names for a sentence, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def short(value: Any, longest: int = 60) -> str:
    """Return a value as an error shows it, cut off after ``longest`` characters."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]} ..."


def did_you_mean(name: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """Return the end of a sentence on an unknown name.

    Args:
        name: The unknown name.
        names: Those that are known.
        most: How many to suggest.
        cutoff: How close they have to be, as difflib measures it.

    Returns:
        Such as ``; did you mean a or b?``, or nothing if none is close.
    """
    close = difflib.get_close_matches(name, list(names), n=most, cutoff=cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""


class Reason(NamedTuple):
    """Why items are unscored."""

    items: int
    """How many are."""

    example: str
    cure: str
    """What to do, empty where that is not known."""

    def __str__(self) -> str:
        return f"{self.items} × {self.example}{self.cure and f': {self.cure}'}"


def reasons_of(given: Iterable[str | None]) -> list[Reason]:
    """Count reasons that differ in more than numbers and places, the most frequent first.

    Args:
        given: A reason for each item, None for one with a score.
    """
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for reason in given:
        if not reason:
            continue
        text = " ".join(_PLACE.sub("", reason).split())
        kind = _NUMBER.sub("0", text)
        counts[kind] += 1
        if kind not in examples:
            is_long = len(text) > _LONGEST_REASON
            examples[kind] = f"{text[:_LONGEST_REASON]} ..." if is_long else text
    reasons = []
    for kind, count in counts.most_common():
        reasons.append(Reason(count, examples[kind], cure_of(examples[kind])))
    return reasons


@cache
def _cures() -> Mapping[str, str]:
    """Return what helps, by texts that reasons hold."""
    cures: Mapping[str, str] = yaml.safe_load(_CURES.read_text(encoding="utf-8"))
    return cures


def cure_of(reason: str) -> str:
    """Return what cures a reason, by the longest text of `cures.yaml` that it holds, or nothing."""
    texts = [text for text in _cures() if text in reason]
    return _cures()[max(texts, key=len)] if texts else ""
