"""A cleaned copy of a benchmark: what can be mended in a row is, what cannot is left out, and
everything is counted."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from factor_gen.audit.flags import REPEATED, UNUSABLE, identity, reasons
from factor_gen.audit.read import Benchmark
from factor_gen.audit.words import final_mark, first_letter_is_capital, plain_signs
from lm_factuality.benchmarks.factor.load import column_names
from lm_factuality.benchmarks.factor.rows import Row, make_row, normalise_spacing
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.tables import FORMATS, write_table

_SPACES = re.compile(r"[^\S\n]{2,}")


@dataclass(frozen=True)
class Fixed:
    """``rows`` that are left, each with its ``indices`` among those given; ``mended`` and
    ``dropped`` count rows by reason."""

    rows: tuple[Row, ...]
    indices: tuple[int, ...]
    mended: Mapping[str, int]
    dropped: Mapping[str, int]


def fix_rows(rows: Sequence[Row]) -> Fixed:
    """The rows with spacing, ends and signs made alike in all choices, without those that stay
    unusable."""
    mended: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    kept: list[tuple[int, Row]] = []
    seen = set()
    for index, row in enumerate(rows):
        fixed, changes = fix_row(row)
        repeated = REPEATED if identity(fixed) in seen else None
        if reason := next((each for each, _ in reasons(fixed) if each in UNUSABLE), repeated):
            dropped[reason] += 1
            continue
        seen.add(identity(fixed))
        mended.update(changes)
        kept.append((index, fixed))
    rows_kept, indices = tuple(row for _, row in kept), tuple(index for index, _ in kept)
    return Fixed(rows_kept, indices, dict(mended.most_common()), dict(dropped.most_common()))


def fix_row(row: Row) -> tuple[Row, list[str]]:
    """The row mended, and what was."""
    if row.problem:
        return row, []
    changes = []
    for reason, mend in _MENDS.items():
        before, row = row, mend(row)
        changes += [reason] if row != before else []
    return (
        make_row(row.location, row.doc_id, row.prefix, row.choices, row.gold, row.error_types),
        changes,
    )


def _single_spaces(row: Row) -> Row:
    """Choices are one sentence, in which any white space is a space; in prefixes line ends stay."""
    return replace(
        row,
        prefix=_SPACES.sub(" ", row.prefix),
        choices=tuple(" ".join(each.split()) for each in row.choices),
    )


def _same_end(row: Row) -> Row:
    """Where one choice alone lacks the mark that all others end in, or has one that they lack, all
    get it."""
    marks = [final_mark(choice) for choice in row.choices]
    given = {mark for mark in marks if mark}
    if len(given) != 1 or marks.count("") not in (1, len(marks) - 1):
        return row
    (mark,) = given
    return replace(
        row,
        choices=tuple(choice if final_mark(choice) else choice + mark for choice in row.choices),
    )


def _same_capital(row: Row) -> Row:
    """Choices that begin with the true one's first word begin with it as it is written there."""
    first, *_ = row.choices[row.gold].split(maxsplit=1) or [""]
    if first_letter_is_capital(first) is None:
        return row

    def like_true(choice: str) -> str:
        word = choice[: len(first)]
        ends = not choice[len(first) : len(first) + 1].strip()
        return (
            first + choice[len(first) :]
            if ends and word != first and word.casefold() == first.casefold()
            else choice
        )

    return replace(row, choices=tuple(like_true(choice) for choice in row.choices))


def _same_signs(row: Row) -> Row:
    """Plain quotes, dashes and dots in all choices, where some write a word with them and others
    without."""
    words = [set(choice.split()) for choice in row.choices]
    mixed = any(
        word != plain_signs(word) and plain_signs(word) in other
        for each in words
        for word in sorted(each)
        for other in words
    )
    return (
        replace(row, choices=tuple(plain_signs(choice) for choice in row.choices)) if mixed else row
    )


_MENDS: Mapping[str, Callable[[Row], Row]] = {
    "quotes, dashes and dots written alike": _same_signs,
    "spaces before punctuation taken away": normalise_spacing,
    "white space made single spaces, ends trimmed": _single_spaces,
    "the same mark at the end": _same_end,
    "the same capital at the beginning": _same_capital,
}


def check_place(path: Path, benchmark: Benchmark) -> None:
    """Raises ConfigError: the name does not end in that of a format, or the benchmark's choices
    stand in no columns."""
    _ = benchmark.text_columns
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"--fix {path}: ends in {path.suffix!r}, expected one of {', '.join(FORMATS)}"
        )


def check_left(path: Path, fixed: Fixed) -> None:
    """Raises DataError: no row is left."""
    if not fixed.rows:
        reasons = "; ".join(f"{reason}: {count:,}" for reason, count in fixed.dropped.items())
        raise DataError(
            f"--fix {path}: no row would be left, so nothing is written ({reasons}); the table"
            " above names some of the rows: fix the file itself"
        )


def write_fixed(benchmark: Benchmark, fixed: Fixed, path: Path) -> None:
    """Writes the rows of ``fixed`` with all columns of ``benchmark``; the ending of ``path`` names
    the format. Raises ConfigError: the benchmark's choices stand in no columns; DataError: the
    folder cannot be written, or Parquet cannot hold the values."""
    prefix, choices = benchmark.text_columns
    records = [
        {
            **benchmark.table.records[index].values,
            prefix: row.prefix,
            **dict(zip(choices, row.choices, strict=True)),
        }
        for index, row in zip(fixed.indices, fixed.rows, strict=True)
    ]
    write_table(path, records, column_names(benchmark.table))
