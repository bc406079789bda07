"""Errors that a user can act on: the command line prints them without a traceback and exits with 1.
And why items are unscored: reasons, counted by what they have in common, and their cures, declared
where reasons are named."""

import atexit
import difflib
import io
import re
import shlex
import signal
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

_INTERRUPTED = 130  # the exit code of whom SIGINT ended
# Categories of Unicode that are not shown but do something: controls, formats (among them those
# that turn the direction), surrogates, private use, and the two separators that end a line.
_ACTING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_COMMAND = re.compile(
    r"^\s*(::|##\[)"
)  # what a line of a CI log begins with to be taken as a command
_LONGEST = 2000  # characters of a line
_SHOWN = 10  # problems that an error lists
_cures: dict[str, str] = {}  # by a text that reasons hold
_PLACE = re.compile(r"^(?:choice|question|window|row|sentence) \d+(?: of \d+)?: ")
_NUMBER = re.compile(r"\d[\d,.]*")
_LONGEST_REASON = 160  # characters of an example


class FactualityError(Exception):
    """Something in the input, the data or the surroundings is wrong; the text says what, where and
    what to do."""


class ConfigError(FactualityError):
    """A task YAML or a command-line value that cannot be used."""


class DataError(FactualityError):
    """A data file that is missing, damaged or not what its task expects."""


class ModelError(FactualityError):
    """A model that cannot be scored in the way that was asked for."""


class BackendDown(FactualityError):
    """A judge's model that cannot be reached at all, or that has used up its budget; what it
    answered before is kept."""


def exit_code(program: str, command: Callable[[], int]) -> int:
    """Runs a command: its exit code, 1 for an error a user can mend, told in the name of
    ``program``, or 130 for Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a terminal that has no such letter gets its number
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
        sys.stderr.write(
            f"{program}: {clipped(str(error.filename))}: cannot be used: {error.strerror}; name"
            " another file\n"
        )
        return 1
    except KeyboardInterrupt:
        again = shlex.join([program, *sys.argv[1:]])
        sys.stderr.write(
            f"\n{program}: interrupted; judges' answers and finished parts are kept. To continue:"
            f" {again}\n"
        )
        return _INTERRUPTED
    finally:
        atexit.unregister(_end_at_once)
        atexit.register(_end_at_once)


def _end_at_once() -> None:
    """From here on Ctrl-C has nothing to say: the work is done, and Python would show where in its
    own end it was."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def clipped(text: str) -> str:
    """``text``, of whose lines none is too long to be read and all can be written: an error may
    quote what a file holds."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "\n".join(
        line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..." for line in text.split("\n")
    )


def printable(text: str) -> str:
    """Text of others for a terminal, a log or a page, on one line: ``text`` with such characters
    written as escapes (``\\x1b``, ``\\u202e``), and never at its start what a CI runner takes as a
    command."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(
            repr(each)[1:-1] if unicodedata.category(each) in _ACTING else each for each in text
        )
    return f"'{text}" if _COMMAND.match(text) else text


def refuse(problems: Sequence[str], what: str = "", advice: str = "") -> None:
    """Raises DataError if there are ``problems``: the first of them, how many of ``what`` (lines,
    rows), and ``advice``."""
    if problems:
        more = (
            [f"... {len(problems)} {f'{what} ' if what else ''}in all"] if problems[_SHOWN:] else []
        )
        raise DataError("\n".join([*problems[:_SHOWN], *more, *([advice] if advice else [])]))


def listed(names: Sequence[object], most: int = 5) -> str:
    """The first of ``names`` in a sentence, and how many more there are."""
    return ", ".join(map(str, names[:most])) + (
        f" and {len(names) - most} more" if len(names) > most else ""
    )


def short(value: Any, longest: int = 60) -> str:
    """Return a value as an error shows it, cut off after ``longest`` characters."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]} ..."


def did_you_mean(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """The end of a sentence on an unknown name, ``; did you mean a or b?``, or empty if none is
    close (difflib's ``cutoff``)."""
    close = difflib.get_close_matches(name, list(known), n=most, cutoff=cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def curable(reason: str, cure: str) -> str:
    """``reason``, which from now on is known to be cured by ``cure``, as are all reasons that hold
    it."""
    _cures[reason] = cure
    return reason


class Reason(NamedTuple):
    """``items`` are unscored for a reason like this ``example``; ``cure`` is empty where none is
    known."""

    items: int
    example: str
    cure: str

    def __str__(self) -> str:
        return f"{self.items} × {self.example}{self.cure and f': {self.cure}'}"


def reasons_of(given: Iterable[str | None]) -> list[Reason]:
    """The reasons that differ in more than numbers and places, the most frequent first; None stands
    for an item with a score."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for each in given:
        if each:
            said = " ".join(_PLACE.sub("", each).split())
            counts[kind := _NUMBER.sub("0", said)] += 1
            examples.setdefault(
                kind, said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]} ..."
            )
    return [
        Reason(count, examples[kind], cure_of(examples[kind]))
        for kind, count in counts.most_common()
    ]


def cure_of(reason: str) -> str:
    """What cures ``reason``, by the longest known one that it holds; empty where none is."""
    return max(
        ((len(known), cure) for known, cure in _cures.items() if known in reason), default=(0, "")
    )[1]
