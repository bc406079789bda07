"""The command ``python -m bench.suite``, which measures parts of the suite and prints tables."""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.suite import chat, index, leaderboard, shapes, ways
from bench.timing import Part, Record, Timing, in_background, run_parts, typical_ratio
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.suite import tasks_folder

_MODELS = tasks_folder() / "sample" / "models"
# The tokens of each prefix and the number of rows whose cost is compared.
_SIZES = ((128, 4), (256, 4), (512, 4), (256, 2), (256, 8))


def measure_scoring(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare hf-tree with hf on two benchmarks, with models of published sizes."""
    for shape in arguments.shapes:
        for task in ("news_factor", "expert_factor"):
            rows = shapes.read_rows(task, arguments.data_dir, arguments.rows)
            requests = shapes.tokenize_rows(rows, shapes.learn_tokenizer(rows))
            record = ways.compare_scoring(shape, rows, requests, arguments.runs)
            yield {"requests": f"{task}, {shape}", **record}


def measure_checkpoint(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare hf-tree with hf on News-FACTOR, with the model that ``--checkpoint`` names.

    Raises:
        ConfigError: The user asks for this part, but names no model.
    """
    if not arguments.checkpoint:
        if arguments.parts:
            raise ConfigError("checkpoint, contended: no model; give --checkpoint FOLDER")
        # Without names of parts, the command measures what it can.
        return
    rows = shapes.read_rows("news_factor", arguments.data_dir, arguments.rows)
    record = ways.compare_checkpoint(arguments.checkpoint, rows)
    yield {"requests": f"news_factor, {Path(arguments.checkpoint).name}", **record}


def measure_contended(arguments: argparse.Namespace) -> Iterator[Record]:
    """Measure the same as `measure_checkpoint` while another process takes a core."""
    with in_background(ways.take_a_core):
        yield from measure_checkpoint(arguments)


def measure_growth(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare hf-tree with hf for several lengths of prefixes and numbers of rows."""
    shape = arguments.shapes[0]
    # There are many sizes, so each gets half of the runs.
    runs = max(1, arguments.runs // 2)
    for prefix_length, num_rows in _SIZES:
        requests = ways.made_up(prefix_length, num_rows)
        record = ways.compare_scoring(shape, shapes.sample_rows(num_rows), requests, runs)
        yield {"requests": f"{num_rows} rows, prefix of {prefix_length} tokens", **record}


def measure_ralm(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare hf-ralm with one request per window."""
    with tempfile.TemporaryDirectory() as folder:
        timings = ways.compare_ralm(Path(folder), _MODELS / "reader", arguments.runs)
    slow, fast = timings.values()
    difference = ways.largest_difference(slow.result, fast.result)
    yield from _records_of_ways(timings, rows=ways.RALM_ROWS, worst_difference_nats=difference)


def measure_decoding(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare hf-dola with one request after the other."""
    rows = shapes.sample_rows(arguments.rows)
    if arguments.checkpoint:
        rows = shapes.read_rows("news_factor", arguments.data_dir, arguments.rows)
    checkpoint = arguments.checkpoint or str(_MODELS / "larger")
    timings = ways.compare_decoding(checkpoint, rows, arguments.runs)
    slow, fast = timings.values()
    yield from _records_of_ways(
        timings,
        source="News" if arguments.checkpoint else "the sample",
        worst_difference_nats=ways.largest_difference(slow.result, fast.result),
    )


def measure_index(arguments: argparse.Namespace) -> Iterator[Record]:
    """Measure building and searching indexes of several sizes."""
    with tempfile.TemporaryDirectory() as folder:
        for num_passages in arguments.passages:
            yield index.measure(num_passages, Path(folder))


def measure_harness(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare the FACTOR task with lm_eval's ``multiple_choice``."""
    with tempfile.TemporaryDirectory() as folder:
        timings = ways.compare_harness(Path(folder), _MODELS / "larger", arguments.runs)
    num_rows = next(iter(timings.values())).result
    yield from _records_of_ways(timings, rows=num_rows, batch_size=ways.BATCH_SIZE)


def measure_chat(arguments: argparse.Namespace) -> Iterator[Record]:
    """Compare questions to a chat server, one after the other and many at once."""
    with ExitStack() as stack:
        if arguments.chat_server:
            server = chat.ChatServer(*arguments.chat_server)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = stack.enter_context(chat.serve_sample_model(Path(folder)))
        timings = chat.compare(server, arguments.rows, arguments.runs)

    slow, fast = timings.values()
    num_same = 0
    for slow_answer, fast_answer in zip(slow.result, fast.result, strict=True):
        # The second field of an answer is the text.
        num_same += slow_answer[1] == fast_answer[1]
    yield from _records_of_ways(timings, questions=len(slow.result), same=num_same)


def measure_leaderboard(arguments: argparse.Namespace) -> Iterator[Record]:
    """Measure checking submissions and building the site of a leaderboard."""
    with tempfile.TemporaryDirectory() as folder:
        figures = leaderboard.measure(arguments.submissions, Path(folder), arguments.runs)
    yield {
        **asdict(figures),
        "check_median": statistics.median(figures.check_seconds),
        "build_median": statistics.median(figures.build_seconds),
        "first_view_kb": figures.first_view / 1000,
        "site_kb": figures.site / 1000,
        "workers": leaderboard.WORKERS,
        "cores": os.cpu_count(),
    }


def _records_of_ways(timings: Mapping[str, Timing], **values: Any) -> Iterator[Record]:
    """Yield a record for each of two ways to do the same work.

    Args:
        timings: The timings of the slow and the fast way, in this order.
        **values: What both records say besides.
    """
    slow, fast = timings.values()
    speedup = typical_ratio(slow.seconds, fast.seconds)
    for name, timing in timings.items():
        yield {
            "way": name,
            "seconds": timing.seconds,
            "median": timing.median,
            "min": min(timing.seconds),
            "max": max(timing.seconds),
            "peak_mb": timing.peak_mb,
            "times": speedup,
            **values,
        }


PARTS: Mapping[str, Part] = {
    "scoring": measure_scoring,
    "checkpoint": measure_checkpoint,
    "contended": measure_contended,
    "growth": measure_growth,
    "ralm": measure_ralm,
    "decoding": measure_decoding,
    "index": measure_index,
    "harness": measure_harness,
    "chat": measure_chat,
    "leaderboard": measure_leaderboard,
}
"""The parts of the command by name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the parts that the user asks for, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.suite",
        description="Measure what the suite costs, in turn with the usual ways to do the same.",
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each way (default: %(default)s)"
    )
    parser.add_argument(
        "--rows", type=int, default=6, help="rows of each benchmark (default: %(default)s)"
    )
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=shapes.SHAPES,
        default=list(shapes.SHAPES),
        help="models with random weights to time (default: all)",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="a real model for checkpoint, contended and decoding; --rows may then be 100",
    )
    parser.add_argument(
        "--passages",
        type=int,
        nargs="+",
        default=[10_000, 100_000, 1_000_000],
        help="sizes of the indexes",
    )
    parser.add_argument(
        "--chat-server",
        nargs=2,
        metavar=("URL", "MODEL"),
        help="a chat server to time (default: one with the sample's model is started)",
    )
    parser.add_argument(
        "--submissions",
        type=int,
        default=100,
        help="submissions to the leaderboard (default: %(default)s)",
    )
    parser.add_argument(
        "--data-dir", help="a local folder with the published files, instead of downloads"
    )
    disabled_level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return run_parts(parser, PARTS, Path(__file__).with_name("tables.yaml"), argv)
    finally:
        logging.disable(disabled_level)


if __name__ == "__main__":
    sys.exit(main())
