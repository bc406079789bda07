"""The suite beside the alternatives on the same work: hf-tree beside hf, hf-ralm beside one request
a window, hf-dola beside one request after the other, and the FACTOR task beside lm_eval's own
``multiple_choice``, which divides by nothing or by bytes and needs no token counts."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from bench.suite.shapes import (
    TokenRequests,
    build,
    count_operations,
    sample_rows,
    to_tokens,
    tokenizer_of,
)
from bench.timing import Record, Timing, time_in_processes, typical_ratio
from lm_factuality.benchmarks.factor.corpus import PAPER_WINDOW
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN as join
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.files import write_lines, write_text
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.sample.quickstart import TASK

HF_BATCHES = (1, 2, 4)
HF_BATCHES_OF_GPUS = (8, 32, 128)
RALM_ROWS = 30
PART, PART_OF_GPUS = 5, 100  # rows of a real model that are scored in one go
BATCH_SIZE = 16  # of the FACTOR task and the plain one
_PLAIN = "plain_multiple_choice"


def compare_scoring(shape: str, rows: Sequence[Row], requests: TokenRequests, runs: int) -> Record:
    """Finds hf's best batch size in one cold run of each, then times hf and hf-tree in turn on the
    same requests.

    Returns:
        Every single run, and what tables show: medians, examples a second, the largest difference
        of a log-likelihood, and the bound by operations.
    """
    import torch

    sizes = HF_BATCHES_OF_GPUS if torch.cuda.is_available() else HF_BATCHES
    tree_size: int | str = "auto" if torch.cuda.is_available() else 1
    trials = {
        size: time_in_processes(
            {"hf": (prepare_scoring, ("hf", shape, size, rows, requests))}, 1, 0
        )["hf"]
        for size in sizes
    }
    best = min(trials, key=lambda size: trials[size].median)
    ways = {"hf": best, "hf-tree": tree_size}
    timings = time_in_processes(
        {
            kind: (prepare_scoring, (kind, shape, size, rows, requests))
            for kind, size in ways.items()
        },
        runs,
    )
    hf, tree = timings["hf"], timings["hf-tree"]
    operations = count_operations(build(shape), requests)
    return {
        "examples": len(rows),
        "tokens": sum(len(context) + len(continuation) for context, continuation in requests),
        "hf_batch": best,
        "hf_seconds": hf.seconds,
        "tree_seconds": tree.seconds,
        "hf_median": hf.median,
        "tree_median": tree.median,
        "hf_rate": len(rows) / hf.median,
        "tree_rate": len(rows) / tree.median,
        "hf_peak_mb": hf.peak_mb,
        "tree_peak_mb": tree.peak_mb,
        "speedup": typical_ratio(hf.seconds, tree.seconds),
        "worst_difference_nats": max(
            float(abs(one[0] - other[0])) for one, other in zip(hf.result, tree.result, strict=True)
        ),
        **asdict(operations),
        "bound": operations.bound,
    }


def prepare_scoring(
    kind: str, shape: str, batch_size: int | str, rows: Sequence[Row], requests: TokenRequests
) -> Callable[[], Any]:
    """The work of one way: all requests through lm_eval's interface to tokens."""
    score = _scorer(kind, shape, batch_size, rows)
    return lambda: score(requests)


def _scorer(
    kind: str, shape: str, batch_size: int | str, rows: Sequence[Row]
) -> Callable[[TokenRequests], Any]:
    from lm_eval.models.huggingface import HFLM

    from lm_factuality.models.hf_tree import HFTree

    model = {"hf": HFLM, "hf-tree": HFTree}[kind](
        pretrained=build(shape),
        tokenizer=tokenizer_of(shape, rows),
        batch_size=batch_size,
        max_length=1024,
    )
    return lambda requests: model._loglikelihood_tokens(
        [(None, *request) for request in requests], disable_tqdm=True
    )


def compare_parts(checkpoint: str, rows: Sequence[Row]) -> Record:
    """As ``compare_scoring``, of a real model, which takes long: each part of the rows is scored
    once by both, in turn."""
    import torch

    sizes, part = (
        (HF_BATCHES_OF_GPUS, PART_OF_GPUS) if torch.cuda.is_available() else (HF_BATCHES, PART)
    )
    requests = [to_tokens([row], tokenizer_of(checkpoint, rows)) for row in rows]
    parts = [
        [*itertools.chain(*requests[start : start + part])] for start in range(0, len(rows), part)
    ]
    trials = {
        size: time_in_processes(
            {"hf": (prepare_scoring, ("hf", checkpoint, size, rows, parts[0][:8]))}, 1
        )["hf"].median
        for size in sizes
    }
    best = min(trials, key=lambda size: trials[size])
    ways = {"hf": best, "hf-tree": "auto"}
    given = {
        kind: (_prepare_parts, (kind, checkpoint, size, rows, parts)) for kind, size in ways.items()
    }
    hf, tree = time_in_processes(given, len(parts)).values()
    ratios = [slow / fast for slow, fast in zip(hf.seconds, tree.seconds, strict=True)]
    operations = count_operations(build(checkpoint), [*itertools.chain(*parts)])
    return {
        "examples": len(rows),
        "hf_batch": best,
        "hf_seconds": hf.seconds,
        "tree_seconds": tree.seconds,
        "hf_sum": sum(hf.seconds),
        "tree_sum": sum(tree.seconds),
        "times": sum(hf.seconds) / sum(tree.seconds),
        "least": min(ratios),
        "greatest": max(ratios),
        "speedup": typical_ratio(hf.seconds, tree.seconds),
        "worst_difference_nats": max(
            abs(one - other) for one, other in zip(hf.result, tree.result, strict=True)
        ),
        **asdict(operations),
        "bound": operations.bound,
    }


def _prepare_parts(
    kind: str, checkpoint: str, size: int | str, rows: Sequence[Row], parts: Sequence[TokenRequests]
) -> Callable[[], list[float]]:
    """The next part with each call, after a first one that only warms up; gives the log-likelihoods
    so far."""
    score, left = _scorer(kind, checkpoint, size, rows), iter([parts[0][:8], *parts])
    found: list[list[float]] = []

    def run() -> list[float]:
        found.append([float(logprob) for logprob, _ in score(next(left))])
        return [*itertools.chain(*found[1:])]

    return run


def take_a_core(pipe: Connection) -> None:
    """Keeps one core busy until it is told to stop."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    while not pipe.poll():
        sum(range(100_000))


def made_up(prefix_length: int, num_rows: int) -> TokenRequests:
    """Rows of four choices of 24 tokens, the first half of which they share, after a prefix."""
    draw = random.Random(0)

    def some(count: int) -> list[int]:
        return [draw.randrange(10_000) for _ in range(count)]

    requests: TokenRequests = []
    for _ in range(num_rows):
        prefix, shared = some(prefix_length), some(12)
        requests += [(prefix, [*shared, *some(12)]) for _ in range(4)]
    return requests


def compare_ralm(folder: Path, checkpoint: Path, runs: int) -> dict[str, Timing]:
    """The same windows and passages both ways, over an index of the sample's encyclopedia that is
    built in ``folder``."""
    from lm_factuality.retrieval.build import build_index

    index = folder / "encyclopedia"
    build_index(tasks_folder() / "sample" / "encyclopedia.jsonl", index)
    ways = ("window by window", "hf-ralm")
    return time_in_processes(
        {way: (prepare_ralm, (way, str(index), str(checkpoint))) for way in ways}, runs
    )


def prepare_ralm(kind: str, index: str, checkpoint: str) -> Callable[[], Any]:
    """All windows of rows of the sample: as hf-ralm scores them, or each as a request of hf."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from lm_factuality.models.hf_ralm import HFRALM
    from lm_factuality.models.ralm import cut_windows

    instances = [
        Instance(
            "loglikelihood",
            {"doc_id": row.doc_id},
            join(row.prefix, choice),
            place,
            ("sample_factor", number, 1),
        )
        for number, row in enumerate(sample_rows(RALM_ROWS))
        for place, choice in enumerate(row.choices)
    ]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options: dict[str, Any] = {
        "pretrained": checkpoint,
        "device": device,
        "dtype": "float32",
        "batch_size": 4,
    }
    ralm = HFRALM(index=index, **options)
    if kind == "hf-ralm":
        return lambda: [logprob for logprob, _ in ralm.loglikelihood(instances, disable_tqdm=True)]
    plain = HFLM(**options, logits_cache=False)

    def window_by_window() -> list[float]:
        encoded = [(None, *ralm._encode_pair(*request.args)) for request in instances]
        windows = cut_windows(encoded, ralm.options.retrieval_stride)
        contexts = ralm.augment_windows(windows, instances, [None] * len(instances))
        totals = [0.0] * len(instances)
        for window, context in zip(windows, contexts, strict=True):
            totals[window.request] += plain._loglikelihood_tokens(
                [(None, context, window.targets)], disable_tqdm=True
            )[0][0]
        return totals

    return window_by_window


def compare_decoding(checkpoint: str, rows: Sequence[Row], runs: int) -> dict[str, Timing]:
    """DoLa's log-likelihoods of all choices of the rows, request by request and with shared
    positions."""
    texts = [(*join(row.prefix, choice), PAPER_WINDOW) for row in rows for choice in row.choices]
    return time_in_processes(
        {way: (prepare_decoding, (way, checkpoint, texts)) for way in ("one by one", "hf-dola")},
        runs,
    )


def prepare_decoding(
    way: str, checkpoint: str, texts: Sequence[tuple[str, str, int]]
) -> Callable[[], list[float]]:
    """The texts as the FACTOR task asks for them."""
    import torch
    from lm_eval.api.instance import Instance

    from lm_factuality.harness.requests import scored_loglikelihood
    from lm_factuality.models.hf_decoding import HFDoLa

    device = "cuda" if torch.cuda.is_available() else "cpu"
    lm = HFDoLa(
        pretrained=checkpoint, layers="high", dtype="float32", batch_size=BATCH_SIZE, device=device
    )
    requests = [
        Instance("scored_loglikelihood", {}, each, place) for place, each in enumerate(texts)
    ]
    parts = [[request] for request in requests] if way == "one by one" else [requests]
    return lambda: [
        float(score.logprob or "nan")
        for part in parts
        for score in scored_loglikelihood(lm, part, disable_tqdm=True)
    ]


def compare_harness(folder: Path, checkpoint: Path, runs: int) -> dict[str, Timing]:
    """The plain task, which is written to ``folder``, and the FACTOR task in turn."""
    rows = []
    for row in sample_rows():
        joined = [join(row.prefix, choice) for choice in row.choices]
        rows.append(
            json.dumps(
                {"context": joined[0][0], "choices": [continuation for _, continuation in joined]}
            )
        )
    write_lines(folder / "rows.jsonl", rows)
    plain = yaml.safe_load(Path(__file__).with_name("plain_task.yaml").read_text(encoding="utf-8"))
    plain |= {
        "task": _PLAIN,
        "dataset_kwargs": {"data_files": {"test": str(folder / "rows.jsonl")}},
    }
    write_text(folder / "plain.yaml", yaml.safe_dump(plain))
    ways = {"FACTOR task": TASK, "lm_eval multiple_choice": _PLAIN}
    found = time_in_processes(
        {
            way: (prepare_harness, (task, str(folder), str(checkpoint)))
            for way, task in ways.items()
        },
        runs,
    )
    return dict(reversed(found.items()))


def prepare_harness(task: str, folder: str, checkpoint: str) -> Callable[[], int]:
    """A run of the task, which returns its number of examples."""
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=[str(tasks_folder()), folder], include_defaults=False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = HFLM(pretrained=checkpoint, dtype="float32", batch_size=BATCH_SIZE, device=device)

    def run() -> int:
        results: Any = simple_evaluate(
            model, tasks=[task], task_manager=manager, bootstrap_iters=0, log_samples=False
        )
        return int(results["n-samples"][task]["effective"])

    return run
