"""Times the suite's models and tasks, each in turn with the usual way to do the same work.

`bench.suite` calls the functions ``compare_...``. They compare hf-tree with hf, hf-ralm with one
request per window, hf-dola with one request after the other, and the FACTOR task with lm_eval's own
``multiple_choice``, which needs no counts of tokens. The functions ``prepare_...`` run in processes
of their own, and return the work that is timed.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from bench.suite.shapes import (
    TokenRequests,
    build_model,
    count_operations,
    sample_rows,
    tokenize_rows,
    tokenizer_of,
)
from bench.timing import Record, Timing, time_in_processes, typical_ratio
from lm_factuality.benchmarks.factor.corpus import PAPER_WINDOW
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.files import write_lines, write_text
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.sample.quickstart import TASK

RALM_ROWS = 30
"""The number of the sample's rows that hf-ralm scores."""

BATCH_SIZE = 16
"""The batch size of both tasks, and of hf-dola."""

_HF_BATCH_SIZES = (1, 2, 4)
_HF_BATCH_SIZES_ON_GPU = (8, 32, 128)
_ROWS_IN_PART = 5
_ROWS_IN_PART_ON_GPU = 100
_NUM_TRIAL_REQUESTS = 8
_PLAIN_TASK = "plain_multiple_choice"

Scorer = Callable[[TokenRequests], Any]
"""Scores requests, and returns (log-likelihood, whether it is greedy) of each."""


def compare_scoring(shape: str, rows: Sequence[Row], requests: TokenRequests, runs: int) -> Record:
    """Time hf and hf-tree in turn on the same requests.

    hf runs with the batch size that was fastest in one cold run of each.

    Args:
        shape: The model, as in `build_model`.
        rows: The rows, from which a tokenizer is learned.
        requests: The requests, which are all choices of the rows.
        runs: The number of runs.

    Returns:
        Every single run, and what tables show: medians, examples per second, the largest difference
        between the log-likelihoods, and the bound by operations.
    """
    hf_batch_size = _best_batch_size(shape, rows, requests, warm_up=0)
    tree_batch_size = "auto" if _has_gpu() else 1
    ways = {
        "hf": (prepare_scoring, ("hf", shape, hf_batch_size, rows, requests)),
        "hf-tree": (prepare_scoring, ("hf-tree", shape, tree_batch_size, rows, requests)),
    }
    timings = time_in_processes(ways, runs)
    hf = timings["hf"]
    tree = timings["hf-tree"]
    operations = count_operations(build_model(shape), requests)
    hf_logprobs = [logprob for logprob, _ in hf.result]
    tree_logprobs = [logprob for logprob, _ in tree.result]
    return {
        "examples": len(rows),
        "tokens": sum(len(context) + len(continuation) for context, continuation in requests),
        "hf_batch": hf_batch_size,
        "hf_seconds": hf.seconds,
        "tree_seconds": tree.seconds,
        "hf_median": hf.median,
        "tree_median": tree.median,
        "hf_rate": len(rows) / hf.median,
        "tree_rate": len(rows) / tree.median,
        "hf_peak_mb": hf.peak_mb,
        "tree_peak_mb": tree.peak_mb,
        "speedup": typical_ratio(hf.seconds, tree.seconds),
        "worst_difference_nats": largest_difference(hf_logprobs, tree_logprobs),
        **asdict(operations),
        "bound": operations.bound,
    }


def compare_checkpoint(checkpoint: str, rows: Sequence[Row]) -> Record:
    """Time hf and hf-tree with a real model, which takes long.

    Each part of the rows is scored once in both ways, in turn.

    Args:
        checkpoint: The folder of the model.
        rows: The rows.

    Returns:
        As `compare_scoring`, but with sums over all parts.
    """
    rows_in_part = _ROWS_IN_PART_ON_GPU if _has_gpu() else _ROWS_IN_PART
    tokenizer = tokenizer_of(checkpoint, rows)
    parts = [
        tokenize_rows(rows[start : start + rows_in_part], tokenizer)
        for start in range(0, len(rows), rows_in_part)
    ]
    trial_requests = parts[0][:_NUM_TRIAL_REQUESTS]
    hf_batch_size = _best_batch_size(checkpoint, rows, trial_requests, warm_up=1)
    ways = {
        "hf": (_prepare_parts, ("hf", checkpoint, hf_batch_size, rows, parts)),
        "hf-tree": (_prepare_parts, ("hf-tree", checkpoint, "auto", rows, parts)),
    }
    timings = time_in_processes(ways, len(parts))
    hf = timings["hf"]
    tree = timings["hf-tree"]
    ratios = [slow / fast for slow, fast in zip(hf.seconds, tree.seconds, strict=True)]
    operations = count_operations(build_model(checkpoint), list(chain(*parts)))
    return {
        "examples": len(rows),
        "hf_batch": hf_batch_size,
        "hf_seconds": hf.seconds,
        "tree_seconds": tree.seconds,
        "hf_sum": sum(hf.seconds),
        "tree_sum": sum(tree.seconds),
        "times": sum(hf.seconds) / sum(tree.seconds),
        "least": min(ratios),
        "greatest": max(ratios),
        "speedup": typical_ratio(hf.seconds, tree.seconds),
        "worst_difference_nats": largest_difference(hf.result, tree.result),
        **asdict(operations),
        "bound": operations.bound,
    }


def _best_batch_size(shape: str, rows: Sequence[Row], requests: TokenRequests, warm_up: int) -> int:
    """Return the batch size with which hf is fastest in one run of each.

    Args:
        shape: The model, as in `build_model`.
        rows: The rows, from which a tokenizer is learned.
        requests: The requests to score.
        warm_up: The number of runs before the one that counts.
    """
    seconds = {}
    for batch_size in _HF_BATCH_SIZES_ON_GPU if _has_gpu() else _HF_BATCH_SIZES:
        way = (prepare_scoring, ("hf", shape, batch_size, rows, requests))
        seconds[batch_size] = time_in_processes({"hf": way}, 1, warm_up)["hf"].median
    return min(seconds, key=seconds.__getitem__)


def largest_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest difference between the log-likelihoods of two ways, in nats."""
    return max(abs(float(a) - float(b)) for a, b in zip(first, second, strict=True))


def prepare_scoring(
    kind: str, shape: str, batch_size: int | str, rows: Sequence[Row], requests: TokenRequests
) -> Callable[[], Any]:
    """Load a model, and return the work of scoring all requests.

    Args:
        kind: ``hf`` or ``hf-tree``.
        shape: The model, as in `build_model`.
        batch_size: The batch size.
        rows: The rows, from which a tokenizer is learned.
        requests: The requests.
    """
    score = _load_scorer(kind, shape, batch_size, rows)
    return lambda: score(requests)


def _prepare_parts(
    kind: str,
    checkpoint: str,
    batch_size: int | str,
    rows: Sequence[Row],
    parts: Sequence[TokenRequests],
) -> Callable[[], list[float]]:
    """Load a model, and return the work of scoring the next part with each call.

    The first call only warms up, with a few requests.

    Returns:
        The work, which returns the log-likelihoods of all parts so far.
    """
    score = _load_scorer(kind, checkpoint, batch_size, rows)
    warm_up = parts[0][:_NUM_TRIAL_REQUESTS]
    remaining = iter([warm_up, *parts])
    logprobs_by_call: list[list[float]] = []

    def score_next_part() -> list[float]:
        scores = score(next(remaining))
        logprobs_by_call.append([float(logprob) for logprob, _ in scores])
        return list(chain(*logprobs_by_call[1:]))

    return score_next_part


def _load_scorer(kind: str, shape: str, batch_size: int | str, rows: Sequence[Row]) -> Scorer:
    """Load hf or hf-tree, and return its method that scores tokens."""
    from lm_eval.models.huggingface import HFLM

    from lm_factuality.models.hf_tree import HFTree

    model_class = {"hf": HFLM, "hf-tree": HFTree}[kind]
    model = model_class(
        pretrained=build_model(shape),
        tokenizer=tokenizer_of(shape, rows),
        batch_size=batch_size,
        max_length=PAPER_WINDOW,
    )

    def score(requests: TokenRequests) -> Any:
        # lm_eval's first element is the text, by which it caches.
        with_texts = [(None, context, continuation) for context, continuation in requests]
        return model._loglikelihood_tokens(with_texts, disable_tqdm=True)

    return score


def take_a_core(pipe: Connection) -> None:
    """Keep one core busy until something comes through the pipe."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    while not pipe.poll():
        sum(range(100_000))


def made_up(prefix_length: int, num_rows: int) -> TokenRequests:
    """Make requests of random tokens.

    Each row has a prefix and four choices of 24 tokens, the first 12 of which they share.

    Args:
        prefix_length: The number of tokens of each prefix.
        num_rows: The number of rows.
    """
    generator = random.Random(0)

    def draw_tokens(count: int) -> list[int]:
        return [generator.randrange(10_000) for _ in range(count)]

    requests: TokenRequests = []
    for _ in range(num_rows):
        prefix = draw_tokens(prefix_length)
        shared = draw_tokens(12)
        for _ in range(4):
            requests.append((prefix, [*shared, *draw_tokens(12)]))
    return requests


def compare_ralm(folder: Path, checkpoint: Path, runs: int) -> dict[str, Timing]:
    """Time hf-ralm, and one request per window with the same passages, in turn.

    Args:
        folder: A folder, in which an index of the sample's encyclopedia is built.
        checkpoint: The folder of the model.
        runs: The number of runs.

    Returns:
        The timing of each way. The results are log-likelihoods.
    """
    from lm_factuality.retrieval.build import build_index

    index = folder / "encyclopedia"
    build_index(tasks_folder() / "sample" / "encyclopedia.jsonl", index)
    ways = {}
    for name in ("window by window", "hf-ralm"):
        ways[name] = (prepare_ralm, (name, str(index), str(checkpoint)))
    return time_in_processes(ways, runs)


def prepare_ralm(way: str, index: str, checkpoint: str) -> Callable[[], list[float]]:
    """Load a model, and return the work of scoring the choices of the sample's rows.

    Args:
        way: ``hf-ralm``, or ``window by window`` for a request of hf per window.
        index: The folder of the index.
        checkpoint: The folder of the model.
    """
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from lm_factuality.models.hf_ralm import HFRALM
    from lm_factuality.models.ralm import cut_windows

    requests = []
    for number, row in enumerate(sample_rows(RALM_ROWS)):
        for index_of_choice, choice in enumerate(row.choices):
            arguments = AUTHORS_JOIN(row.prefix, choice)
            metadata = ("sample_factor", number, 1)
            requests.append(
                Instance(
                    "loglikelihood", {"doc_id": row.doc_id}, arguments, index_of_choice, metadata
                )
            )
    options: dict[str, Any] = {
        "pretrained": checkpoint,
        "device": _device(),
        "dtype": "float32",
        "batch_size": 4,
    }
    ralm = HFRALM(index=index, **options)

    def score_with_ralm() -> list[float]:
        return [logprob for logprob, _ in ralm.loglikelihood(requests, disable_tqdm=True)]

    if way == "hf-ralm":
        return score_with_ralm
    hf = HFLM(**options, logits_cache=False)

    def score_window_by_window() -> list[float]:
        encoded = [(None, *ralm._encode_pair(*request.args)) for request in requests]
        windows = cut_windows(encoded, ralm.options.retrieval_stride)
        contexts = ralm.augment_windows(windows, requests, [None] * len(requests))
        logprobs = [0.0] * len(requests)
        for window, context in zip(windows, contexts, strict=True):
            request = (None, context, window.targets)
            ((logprob, _),) = hf._loglikelihood_tokens([request], disable_tqdm=True)
            logprobs[window.request] += logprob
        return logprobs

    return score_window_by_window


def compare_decoding(checkpoint: str, rows: Sequence[Row], runs: int) -> dict[str, Timing]:
    """Time DoLa's log-likelihoods request by request, and with shared positions, in turn.

    Args:
        checkpoint: The folder of the model.
        rows: The rows, all choices of which are scored.
        runs: The number of runs.

    Returns:
        The timing of each way. The results are log-likelihoods.
    """
    arguments = []
    for row in rows:
        for choice in row.choices:
            arguments.append((*AUTHORS_JOIN(row.prefix, choice), PAPER_WINDOW))
    ways = {}
    for name in ("one by one", "hf-dola"):
        ways[name] = (prepare_decoding, (name, checkpoint, arguments))
    return time_in_processes(ways, runs)


def prepare_decoding(
    way: str, checkpoint: str, arguments: Sequence[tuple[str, str, int]]
) -> Callable[[], list[float]]:
    """Load hf-dola, and return the work of scoring continuations as the FACTOR task asks for them.

    Args:
        way: ``one by one`` for one request after the other, or ``hf-dola`` for all at once.
        checkpoint: The folder of the model.
        arguments: The context, the continuation and the window of each request.
    """
    from lm_eval.api.instance import Instance

    from lm_factuality.harness.requests import scored_loglikelihood
    from lm_factuality.models.hf_decoding import HFDoLa

    model = HFDoLa(
        pretrained=checkpoint,
        layers="high",
        dtype="float32",
        batch_size=BATCH_SIZE,
        device=_device(),
    )
    requests = [
        Instance("scored_loglikelihood", {}, request_arguments, number)
        for number, request_arguments in enumerate(arguments)
    ]
    groups = [[request] for request in requests] if way == "one by one" else [requests]

    def score() -> list[float]:
        logprobs = []
        for group in groups:
            for answer in scored_loglikelihood(model, group, disable_tqdm=True):
                logprobs.append(float(answer.logprob or "nan"))
        return logprobs

    return score


def compare_harness(folder: Path, checkpoint: Path, runs: int) -> dict[str, Timing]:
    """Time the FACTOR task, and lm_eval's ``multiple_choice`` on the same rows, in turn.

    Args:
        folder: A folder for the plain task and its rows.
        checkpoint: The folder of the model.
        runs: The number of runs.

    Returns:
        The timing of each task, the plain one first. The results are numbers of examples.
    """
    lines = []
    for row in sample_rows():
        pairs = [AUTHORS_JOIN(row.prefix, choice) for choice in row.choices]
        context = pairs[0][0]
        choices = [continuation for _, continuation in pairs]
        lines.append(json.dumps({"context": context, "choices": choices}))
    write_lines(folder / "rows.jsonl", lines)
    template = Path(__file__).with_name("plain_task.yaml").read_text(encoding="utf-8")
    task = yaml.safe_load(template)
    task["task"] = _PLAIN_TASK
    task["dataset_kwargs"] = {"data_files": {"test": str(folder / "rows.jsonl")}}
    write_text(folder / "plain.yaml", yaml.safe_dump(task))

    ways = {
        "FACTOR task": (prepare_harness, (TASK, str(folder), str(checkpoint))),
        "lm_eval multiple_choice": (prepare_harness, (_PLAIN_TASK, str(folder), str(checkpoint))),
    }
    timings = time_in_processes(ways, runs)
    return dict(reversed(timings.items()))


def prepare_harness(task: str, folder: str, checkpoint: str) -> Callable[[], int]:
    """Load a model, and return the work of running a task, which returns its number of examples.

    Args:
        task: The name of the task.
        folder: The folder of the plain task.
        checkpoint: The folder of the model.
    """
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=[str(tasks_folder()), folder], include_defaults=False)
    model = HFLM(pretrained=checkpoint, dtype="float32", batch_size=BATCH_SIZE, device=_device())

    def run() -> int:
        results: Any = simple_evaluate(
            model, tasks=[task], task_manager=manager, bootstrap_iters=0, log_samples=False
        )
        return int(results["n-samples"][task]["effective"])

    return run


def _has_gpu() -> bool:
    """Return whether models run on a GPU."""
    import torch

    return torch.cuda.is_available()


def _device() -> str:
    """Return where models run."""
    return "cuda" if _has_gpu() else "cpu"
