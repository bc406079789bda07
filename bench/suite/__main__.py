"""``python -m bench.suite``: measures, prints tables, and writes every single run as JSON."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.suite import chat, index, leaderboard, shapes, ways
from bench.timing import Part, Record, Timing, in_background, run_parts, typical_ratio
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.suite import tasks_folder

_GROWTH = ((128, 4), (256, 4), (512, 4), (256, 2), (256, 8))  # tokens of prefix, rows
_MODELS = tasks_folder() / "sample" / "models"


def _scoring(arguments: argparse.Namespace) -> Iterator[Record]:
    for shape in arguments.shapes:
        for task in ("news_factor", "expert_factor"):
            examples = shapes.read_rows(task, arguments.data_dir, arguments.rows)
            requests = shapes.to_tokens(examples, shapes.learn_tokenizer(examples))
            yield {
                "requests": f"{task}, {shape}",
                **ways.compare_scoring(shape, examples, requests, arguments.runs),
            }


def _checkpoint(arguments: argparse.Namespace) -> Iterator[Record]:
    if not arguments.checkpoint:
        if arguments.parts:
            raise ConfigError("checkpoint, contended: no model; give --checkpoint FOLDER")
        return  # of all parts, those that can be measured
    rows = shapes.read_rows("news_factor", arguments.data_dir, arguments.rows)
    yield {
        "requests": f"news_factor, {Path(arguments.checkpoint).name}",
        **ways.compare_parts(arguments.checkpoint, rows),
    }


def _contended(arguments: argparse.Namespace) -> Iterator[Record]:
    with in_background(ways.take_a_core):
        yield from _checkpoint(arguments)


def _growth(arguments: argparse.Namespace) -> Iterator[Record]:
    for length, count in _GROWTH:
        requests, runs = ways.made_up(length, count), max(1, arguments.runs // 2)
        found = ways.compare_scoring(arguments.shapes[0], shapes.sample_rows(count), requests, runs)
        yield {"requests": f"{count} rows, prefix of {length} tokens", **found}


def _beside(found: Mapping[str, Timing], others: Record) -> Iterator[Record]:
    """Two ways of doing the same, the usual one first."""
    slow, fast = found.values()
    times = typical_ratio(slow.seconds, fast.seconds)
    for way, each in found.items():
        spread = {
            "median": each.median,
            "min": min(each.seconds),
            "max": max(each.seconds),
            "peak_mb": each.peak_mb,
        }
        yield {"way": way, "seconds": each.seconds, **spread, "times": times, **others}


def _ralm(arguments: argparse.Namespace) -> Iterator[Record]:
    with tempfile.TemporaryDirectory() as folder:
        found = ways.compare_ralm(Path(folder), _MODELS / "reader", arguments.runs)
    worst = max(
        abs(one - other)
        for one, other in zip(*(each.result for each in found.values()), strict=True)
    )
    yield from _beside(found, {"rows": ways.RALM_ROWS, "worst_difference_nats": worst})


def _decoding(arguments: argparse.Namespace) -> Iterator[Record]:
    is_real = arguments.checkpoint is not None
    rows = (
        shapes.read_rows("news_factor", arguments.data_dir, arguments.rows)
        if is_real
        else shapes.sample_rows(arguments.rows)
    )
    found = ways.compare_decoding(
        arguments.checkpoint or str(_MODELS / "larger"), rows, arguments.runs
    )
    worst = max(
        abs(one - other)
        for one, other in zip(*(each.result for each in found.values()), strict=True)
    )
    yield from _beside(
        found, {"of": "News" if is_real else "the sample", "worst_difference_nats": worst}
    )


def _index(arguments: argparse.Namespace) -> Iterator[Record]:
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.passages:
            yield index.measure(size, Path(folder))


def _harness(arguments: argparse.Namespace) -> Iterator[Record]:
    with tempfile.TemporaryDirectory() as folder:
        found = ways.compare_harness(Path(folder), _MODELS / "larger", arguments.runs)
    rows = next(iter(found.values())).result
    yield from _beside(found, {"rows": rows, "batch_size": ways.BATCH_SIZE})


def _chat(arguments: argparse.Namespace) -> Iterator[Record]:
    with contextlib.ExitStack() as stack:
        url, model = arguments.chat_server or stack.enter_context(
            chat.served(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        )
        found = chat.compare(url, model, arguments.rows, arguments.runs)
    answers = next(iter(found.values())).result
    same = sum(
        one[1] == other[1]
        for one, other in zip(*(each.result for each in found.values()), strict=True)
    )
    yield from _beside(found, {"questions": len(answers), "same": same})


def _leaderboard(arguments: argparse.Namespace) -> Iterator[Record]:
    with tempfile.TemporaryDirectory() as folder:
        found = leaderboard.measure(arguments.submissions, Path(folder), arguments.runs)
    medians = {
        "check_median": statistics.median(found.check_seconds),
        "build_median": statistics.median(found.build_seconds),
    }
    sizes = {"first_view_kb": found.first_view / 1000, "site_kb": found.site / 1000}
    yield {
        **asdict(found),
        **medians,
        **sizes,
        "workers": leaderboard.WORKERS,
        "cores": os.cpu_count(),
    }


PARTS: Mapping[str, Part] = {
    "scoring": _scoring,
    "checkpoint": _checkpoint,
    "contended": _contended,
    "growth": _growth,
    "ralm": _ralm,
    "decoding": _decoding,
    "index": _index,
    "harness": _harness,
    "chat": _chat,
    "leaderboard": _leaderboard,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the parts that are asked for, one after another; exit code 1 if data cannot be
    had."""
    parser = argparse.ArgumentParser(prog="python -m bench.suite", description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each way (default %(default)s)"
    )
    parser.add_argument(
        "--rows", type=int, default=6, help="rows of each benchmark (default %(default)s)"
    )
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=shapes.SHAPES,
        default=list(shapes.SHAPES),
        help="models to time",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="the model of checkpoint and contended, whose --rows may be 100, and of decoding (on News; without it the sample's)",
    )
    parser.add_argument(
        "--passages",
        type=int,
        nargs="+",
        default=[10_000, 100_000, 1_000_000],
        help="sizes of the indexes",
    )
    server = "time this chat server, instead of one of the sample's model"
    parser.add_argument("--chat-server", nargs=2, metavar=("URL", "MODEL"), help=server)
    parser.add_argument(
        "--submissions", type=int, default=100, help="of the leaderboard (default %(default)s)"
    )
    parser.add_argument(
        "--data-dir", help="local folder with the published files, instead of downloads"
    )
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return run_parts(parser, PARTS, Path(__file__).with_name("tables.yaml"), argv)
    finally:
        logging.disable(before)


if __name__ == "__main__":
    sys.exit(main())
