"""``python -m bench.factor_gen``: measures, prints tables, and writes every single run as JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from bench.factor_gen.genre_texts import Use
from bench.timing import Record, run_parts


def _filters(arguments: argparse.Namespace) -> Iterator[Record]:
    from bench.factor_gen.filters import measure, save_models

    with tempfile.TemporaryDirectory() as folder:
        made = ("", "") if arguments.nli and arguments.fluency else save_models(Path(folder))
        yield from measure(
            arguments.nli or made[0], arguments.fluency or made[1], arguments.rows, arguments.runs
        )


def _scale(arguments: argparse.Namespace) -> Iterator[Record]:
    from bench.factor_gen.scale import measure

    options = [] if arguments.workers is None else ["--workers", str(arguments.workers)]
    with tempfile.TemporaryDirectory() as folder:
        for count in arguments.documents:
            yield measure(Path(folder), count, options)


def _genres(arguments: argparse.Namespace) -> Iterator[Record]:
    from bench.factor_gen.genres import draw_sheets, measure

    chosen = (arguments.folder, arguments.genre, arguments.use)
    yield from measure(*chosen, arguments.model, arguments.before, arguments.labels, arguments.each)
    if arguments.sheet:
        draw_sheets(*chosen, arguments.model, arguments.sheet)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the parts that are asked for; exit code 1 if data cannot be had, or a share is below
    ``--least``."""
    parser = argparse.ArgumentParser(prog="python -m bench.factor_gen", description=__doc__)
    filters = parser.add_argument_group(
        "filters", "throughput of the filters beside that of their models"
    )
    filters.add_argument(
        "--nli",
        metavar="MODEL",
        help="a sequence classifier (default: a made-up DeBERTa of 11M parameters)",
    )
    filters.add_argument(
        "--fluency",
        metavar="MODEL",
        help="a causal model (default: a made-up GPT-2 of 11M parameters)",
    )
    rows = "rows of the sample, three contradictions each (default %(default)s)"
    filters.add_argument("--rows", type=int, default=24, help=rows)
    filters.add_argument(
        "--runs", type=int, default=7, help="counted runs of each way (default %(default)s)"
    )
    filters.add_argument(
        "--least",
        type=float,
        default=0,
        metavar="SHARE",
        help="exit with 1 if a filter's share is below",
    )
    scale = parser.add_argument_group(
        "scale", "time and memory of whole builds over the number of documents"
    )
    sizes = [1_000, 10_000, 100_000]
    scale.add_argument(
        "--documents",
        type=int,
        nargs="+",
        default=sizes,
        help="sizes to build (default %(default)s)",
    )
    scale.add_argument("--workers", type=int, help="processes of a build (default: one a core)")
    genres = parser.add_argument_group(
        "genres", "yield, bad contradictions, edits and blind floors over genres of Debian's texts"
    )
    genres.add_argument(
        "--folder",
        type=Path,
        default=Path("results/genres"),
        help="texts and builds (default %(default)s)",
    )
    genres.add_argument(
        "--use", choices=(*get_args(Use), "all"), default="gate", help="which genres (default gate)"
    )
    genres.add_argument("--genre", nargs="+", default=[], metavar="NAME", help="these instead")
    genres.add_argument("--model", help="a causal model: builds with it as the fluency filter, too")
    genres.add_argument(
        "--before", metavar="REVISION", help="build with the checkout of this revision, too"
    )
    genres.add_argument(
        "--each",
        type=int,
        metavar="N",
        help="documents of a genre (default: all that genres.yaml draws)",
    )
    genres.add_argument(
        "--labels",
        type=Path,
        nargs="+",
        default=[],
        help="what readers said (default: labels_*.csv here)",
    )
    genres.add_argument(
        "--sheet",
        type=int,
        metavar="N",
        help="draw N contradictions to read from each build of this checkout",
    )
    parts = {"genres": _genres, "filters": _filters, "scale": _scale}
    return run_parts(parser, parts, Path(__file__).with_name("tables.yaml"), argv, needs_part=True)


if __name__ == "__main__":
    sys.exit(main())
