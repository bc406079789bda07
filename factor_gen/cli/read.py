"""The command ``factor-gen read``, with which people judge contradictions blindly.

`factor_gen.cli` registers it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from lm_factuality.ground.command_line import RunCode
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError


def read(
    build: Annotated[
        str,
        Argument(
            help="The folder of a build, a table in the authors' columns, or the name of a task."
        ),
    ],
    beside: Annotated[
        list[str] | None,
        Option(
            metavar="OTHER...", help="Other such benchmarks, of which as many rows are mixed in."
        ),
    ] = None,
    rows: Annotated[
        int,
        Option(min=1, help="Rows of each benchmark. All contradictions of a row are read."),
    ] = 20,
    seed: Annotated[int, Option(help="Seed of the draw and the order.")] = 0,
    out: Annotated[
        Path | None,
        Option(
            metavar="NAME",
            help="Where the sheet is: NAME.html, .csv, .jsonl and .key.json (default: BUILD_sheet"
            " in this folder).",
        ),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        Option(metavar="FILE...", help="Report what readers found: their CSV or JSONL files."),
    ] = None,
    run_code: RunCode = False,
) -> None:
    """Have people read contradictions blindly, and report how many are bad.

    \b
    Examples:
      factor-gen read my_factor --beside news_factor.csv --rows 20
      factor-gen read my_factor --labels ann.jsonl ben.jsonl

    The first command draws rows and makes a sheet that does not say which benchmark a row is from:
    a page, a table, and lines of JSON to read and answer in a terminal. Keep NAME.key.json from the
    readers. The second reports the share of bad contradictions by benchmark, error type and
    generator with 95% intervals, and how far several readers agree.
    """
    from factor_gen.audit.blind import draw_blind_sheet
    from lm_factuality.people.sheet import write_sheet

    name = out or Path(f"{Path(build).stem}_sheet")
    if labels:
        _print_report(name.with_suffix(".key.json"), labels)
        return

    targets = [build, *(beside or [])]
    if len(set(targets)) < len(targets):
        raise ConfigError("--beside: names a benchmark twice; expected other ones than BUILD")
    sheet = draw_blind_sheet(targets, rows, seed, run_code)
    *reader_files, key_file = write_sheet(sheet, name)
    echo(f"Sheet {sheet.key.sheet}: {len(sheet.items)} contradictions")
    for stratum in sheet.key.strata:
        echo(f"  {stratum.name}: {stratum.drawn} of {stratum.units} rows")
    echo(f"For readers: {' or '.join(map(str, reader_files))}")
    echo(f"Not for readers: {key_file}")
    echo(f"Then: factor-gen read {build} --labels FILE" + (f" --out {out}" if out else ""))


def _print_report(key_file: Path, label_files: Sequence[Path]) -> None:
    """Print what readers found on a sheet.

    Args:
        key_file: The key of the sheet, which says which benchmark each contradiction is from.
        label_files: The answers of the readers.
    """
    from factor_gen.audit.blind import tabulate_reading
    from lm_factuality.people.labels import read_key, read_labels

    key = read_key(key_file)
    for table in tabulate_reading(key, read_labels(label_files, key)):
        print_table(*table)
