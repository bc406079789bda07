"""Errors that a user can act on, and the reasons why items are unscored.

The command line prints an error without a traceback and exits with 1. Reports count similar
reasons together, and show them with their cures, which are in `cures.yaml`.
"""

import difflib
import errno
import io
import re
import shlex
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

_INTERRUPTED = 130  # the exit code of a process that SIGINT ended
# Categories of Unicode that are not shown but have an effect: controls, formats (for example the
# direction of writing), surrogates, private use, and the two separators that end a line.
_CATEGORIES_WITH_EFFECT = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_CI_COMMAND = re.compile(r"^\s*(::|##\[)")  # how a line of a CI log begins that is a command
_LONGEST_LINE = 2000  # characters
_LONGEST_REASON = 160  # characters of an example
_MOST_PROBLEMS = 10  # that an error lists
_LOCATION = re.compile(r"^(?:choice|question|window|row|sentence) \d+(?: of \d+)?: ")
_NUMBER = re.compile(r"\d[\d,.]*")
_CURES = Path(__file__).with_name("cures.yaml")


class FactualityError(Exception):
    """Something in the input, the data or the environment is wrong.

    The text says what is wrong, where it is, and what to do.
    """


class ConfigError(FactualityError):
    """A task YAML or a command-line value cannot be used."""


class DataError(FactualityError):
    """A data file is missing, damaged, or different from what its task expects."""


class ModelError(FactualityError):
    """A model cannot be scored in the way that was asked for."""


class BackendDownError(FactualityError):
    """A judge's model cannot be reached or has used up its budget. Earlier answers are kept."""


def run_with_exit_code(program: str, command: Callable[[], int]) -> int:
    """Run a command and turn its errors into a message on stderr and an exit code.

    Args:
        program: The name of the program, with which messages begin.
        command: The command, which returns its exit code.

    Returns:
        The command's exit code, 1 for an error that a user can correct, or 130 for Ctrl-C. It is 0
        if the program that reads the output has ended, as ``head`` does.

    Raises:
        OSError: An error of the operating system that names no file. It is a defect of this
            program, so its traceback is shown.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal cannot show is written as an escape, not as an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return command()
    except BrokenPipeError:
        # Python would otherwise complain at its end that stdout is closed.
        sys.stderr.close()
        return 0
    except (FactualityError, OSError) as error:
        sys.stderr.write(f"{program}: {message_of(error)}\n")
        return 1
    except KeyboardInterrupt as interrupt:
        command_line = shlex.join([program, *sys.argv[1:]])
        # A command may say where it keeps what it has done.
        kept = str(interrupt) or "judges' answers and finished parts are kept"
        sys.stderr.write(f"\n{program}: interrupted; {kept}. To continue: {command_line}\n")
        return _INTERRUPTED


def message_of(error: FactualityError | OSError) -> str:
    """Return what a user is told about an error.

    Raises:
        OSError: The error names no file, and the disk is not full. Such an error is a defect of
            this program, so that a user needs its traceback.
    """
    if isinstance(error, FactualityError):
        return clip_lines(str(error))
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        file = clip_lines(str(error.filename or "a file"))
        return f"{file}: the disk is full; free some space, and give the same command again"
    if error.filename is None:
        raise error
    file = clip_lines(str(error.filename))
    return f"{file}: cannot be used: {error.strerror}; name another file"


def clip_lines(text: str) -> str:
    r"""Shorten the lines of an error message to 2,000 characters, so that it can be read.

    An error may quote a line of a file, of any length and with lone surrogates, i.e. halves of a
    UTF-16 pair, which a terminal cannot write.

    Returns:
        The text. Shortened lines end in `` ...``, and lone surrogates are escaped: ``\udc80``.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "\n".join(_cut_off(line, _LONGEST_LINE) for line in text.split("\n"))


def _cut_off(text: str, longest: int) -> str:
    """Cut a text off after a number of characters, and mark the cut: ``A long te ...``."""
    return text if len(text) <= longest else f"{text[:longest]} ..."


def printable(text: str) -> str:
    r"""Make a text from an untrusted file safe to print as one line in a terminal, log or page.

    Characters with an effect, such as colours of a terminal, are replaced by escapes: ``\x1b``,
    ``\u202e``. A line that a CI runner would take as a command gets an apostrophe before it.

    Args:
        text: The text, such as the name of a model in somebody else's results.

    Returns:
        The text, unchanged if it is harmless.
    """
    is_plain = text.isascii() and text.isprintable()
    if not is_plain:
        text = "".join(map(_escape_character, text))
    return f"'{text}" if _CI_COMMAND.match(text) else text


def _escape_character(character: str) -> str:
    r"""Return the escape of a character that has an effect, such as ``\x1b``; others unchanged."""
    if unicodedata.category(character) not in _CATEGORIES_WITH_EFFECT:
        return character
    # repr() writes the escape, between quotes.
    return repr(character)[1:-1]


def refuse(problems: Sequence[str], noun: str = "", advice: str = "") -> None:
    """Raise an error that lists the problems of a file, if there are any.

    Args:
        problems: A sentence for each problem. The error quotes the first ten.
        noun: The plural noun for the things that have problems, such as ``lines`` or ``rows``.
        advice: A sentence that says what to do.

    Raises:
        DataError: There is at least one problem.
    """
    if not problems:
        return
    lines = list(problems[:_MOST_PROBLEMS])
    if len(problems) > _MOST_PROBLEMS:
        count = f"{len(problems)} {noun}".strip()
        lines.append(f"... {count} in all")
    if advice:
        lines.append(advice)
    raise DataError("\n".join(lines))


def listed(names: Sequence[object], most: int = 5) -> str:
    """Join the first names for a sentence, and say how many more there are.

    Example:
        ``["a", "b", "c"]`` with ``most=2`` becomes ``a, b and 1 more``.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def short(value: object, longest: int = 60) -> str:
    """Return the ``repr`` of a value for an error, cut off after ``longest`` characters."""
    return _cut_off(repr(value), longest)


def did_you_mean(name: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """Suggest similar names for an unknown name, as the end of an error's sentence.

    Args:
        name: The unknown name.
        names: The valid names.
        most: The largest number of names to suggest.
        cutoff: The similarity that a suggestion needs, from 0 to 1, as difflib measures it.

    Returns:
        Text such as ``; did you mean a or b?``, or an empty string if no name is similar.
    """
    suggestions = difflib.get_close_matches(name, list(names), n=most, cutoff=cutoff)
    return f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""


class Reason(NamedTuple):
    """A reason why items are unscored, for all items with similar reasons."""

    num_items: int
    """The number of these items."""

    example: str
    """The reason of the first of these items."""

    cure: str
    """What a user can do, or an empty string if that is not known."""

    def __str__(self) -> str:
        """Return the reason for a report, such as ``3 × no reply: start the server``."""
        cure = f": {self.cure}" if self.cure else ""
        return f"{self.num_items} × {self.example}{cure}"


def count_reasons(reasons: Iterable[str | None]) -> list[Reason]:
    """Count the reasons why items are unscored, and add what a user can do about each.

    Reasons that differ only in numbers count as one.

    Args:
        reasons: The reason of each item, or None for an item with a score.

    Returns:
        The reasons, the most frequent first. ``row 1: 9 tokens`` and ``row 2: 7 tokens`` become
        one reason of two items, with ``9 tokens`` as its example.
    """
    texts_by_pattern: defaultdict[str, list[str]] = defaultdict(list)
    for reason in reasons:
        if not reason:
            continue
        # Where the problem was, such as "row 3: ", differs from item to item.
        text = " ".join(_LOCATION.sub("", reason).split())
        # Reasons with the same words and other numbers have the same pattern.
        pattern = _NUMBER.sub("0", text)
        texts_by_pattern[pattern].append(text)

    counted_reasons = []
    for texts in sorted(texts_by_pattern.values(), key=len, reverse=True):
        example = _cut_off(texts[0], _LONGEST_REASON)
        counted_reasons.append(Reason(len(texts), example, find_cure(example)))
    return counted_reasons


@cache
def _cures() -> Mapping[str, str]:
    """Return the cures in ``cures.yaml``, by a text that a reason contains."""
    cures: Mapping[str, str] = yaml.safe_load(_CURES.read_text(encoding="utf-8"))
    return cures


def find_cure(reason: str) -> str:
    """Return what a user can do about a reason why an item is unscored.

    Returns:
        The cure of the longest text in ``cures.yaml`` that the reason contains, since that text is
        the most specific. Empty if it contains none.
    """
    matching_texts = [text for text in _cures() if text in reason]
    if not matching_texts:
        return ""
    return _cures()[max(matching_texts, key=len)]
