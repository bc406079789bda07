"""Measures a leaderboard of many submissions: to check them, to build its site, and its size.

`bench.suite` calls `measure`. The log-probabilities of the simulated models are random. All else in
their files follows from these as in a run, so the check has as much to do as with a real
submission. The rows are the sample's, repeated under new numbers and made as long as published
ones.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tqdm import tqdm

from bench.suite.shapes import sample_rows
from bench.timing import seconds_of
from lm_factuality import __version__
from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.factor import metrics as factor
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN
from lm_factuality.ground.files import write_json, write_lines, write_text
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.leaderboard.check import check_submission, find_submissions
from lm_factuality.leaderboard.documents import DocumentDigest
from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.site.build import build_site

Document = dict[str, Any]
"""A row of FACTOR as lm_eval's samples show it."""

TASK_SIZES: Mapping[str, int] = {
    name: all_sources()[name].rows for name in ("wiki_factor", "news_factor", "expert_factor")
}
"""The number of rows of each task, 4,266 in all."""

WORKERS = 2
"""The number of processes that build the site."""

_PREFIXES_IN_ROW = 2  # of the sample, which together are as long as a published prefix
_ROWS_OF_DOCUMENT = 4
_NUM_TIMED_CHECKS = 10
_FIRST_DATE = 1_795_219_200  # seconds; after the suite's first day, and before today
_SECONDS_BETWEEN_RUNS = 100
_SUBMISSION: Mapping[str, Any] = yaml.safe_load(
    Path(__file__).with_name("submission.yaml").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Figures:
    """What was measured."""

    num_submissions: int
    """The number of submissions."""

    num_rows: int
    """The number of rows of a submission, over all tasks."""

    megabytes: float
    """The mean size of a submission, in megabytes."""

    check_seconds: tuple[float, ...]
    """The seconds of each single check that was timed."""

    build_seconds: tuple[float, ...]
    """The seconds of each time that the site was built."""

    first_view: int
    """The bytes that a browser loads to show the front page."""

    site: int
    """The bytes of the whole site."""


def measure(count: int, folder: Path, runs: int, sizes: Mapping[str, int] = TASK_SIZES) -> Figures:
    """Make submissions, check them, and build the site.

    Args:
        count: The number of submissions.
        folder: A folder for all files.
        runs: How often the site is built for timing.
        sizes: The number of rows of each task.
    """
    submissions = folder / "submissions"
    rules = folder / "rules"
    site = folder / "site"
    documents = {task: make_documents(size) for task, size in sizes.items()}
    _write_rules(rules, documents)
    for number in tqdm(range(count), desc="make", unit="submission", delay=2, leave=False):
        run_folder = folder / "results" / str(number)
        write_results(run_folder, number, documents)
        pack([run_folder], PackOptions(f"bench/model-{number:03d}", rules=rules), submissions)
        # The submission is a copy.
        for path in run_folder.iterdir():
            path.unlink()

    found = find_submissions(submissions)
    check_seconds = []
    for submission in found[:: max(1, count // _NUM_TIMED_CHECKS)]:
        check_seconds.append(seconds_of(partial(_check, submission, rules)))
    build = partial(build_site, submissions, site, rules=rules)
    build_seconds = [seconds_of(partial(build, workers=WORKERS)) for _ in range(runs)]
    # Build once in this process as well, which has to give the same site.
    build()

    pages = [path for path in site.rglob("*") if path.is_file()]
    first_pages = [
        path for path in pages if path.name == "index.html" or path.suffix in (".css", ".js")
    ]
    submitted_files = [path for path in submissions.rglob("*") if path.is_file()]
    return Figures(
        num_submissions=len(found),
        num_rows=sum(sizes.values()),
        megabytes=_bytes_of(submitted_files) / 1e6 / len(found),
        check_seconds=tuple(check_seconds),
        build_seconds=tuple(build_seconds),
        first_view=_bytes_of(first_pages),
        site=_bytes_of(pages),
    )


def _bytes_of(paths: Sequence[Path]) -> int:
    """Return the size of some files together, in bytes."""
    return sum(path.stat().st_size for path in paths)


def _check(submission: Path, rules: Path) -> None:
    """Check a submission.

    Raises:
        AssertionError: It is refused.
    """
    refusals = check_submission(submission, rules).refusals
    if refusals:
        raise AssertionError(f"{submission}: {refusals[0]}")


def _write_rules(folder: Path, documents: Mapping[str, Sequence[Document]]) -> None:
    """Write the rules of a leaderboard ``bench`` that takes results on these documents."""
    tasks = {}
    for task, task_documents in documents.items():
        digest = DocumentDigest()
        for number, document in enumerate(task_documents):
            digest.add(number, document)
        tasks[task] = {
            **_SUBMISSION["rule"],
            "git_blob": all_sources()[task].blob,
            "documents": len(task_documents),
            "digest": digest.hexdigest(),
        }
    rules = {**_SUBMISSION["rules"], "suite_versions": [__version__], "tasks": tasks}
    write_text(folder / "bench.yaml", yaml.safe_dump(rules))


def make_documents(count: int) -> list[Document]:
    """Make documents out of the sample's rows, which are repeated as often as needed."""
    rows = sample_rows()
    documents = []
    for number in range(count):
        round_number, index = divmod(number, len(rows))
        row = rows[index]
        prefixes = [
            rows[(number + offset) % len(rows)].prefix for offset in range(_PREFIXES_IN_ROW)
        ]
        # The same completion of the same prefix has one score, so each round has its own prefixes.
        prefix = f"{round_number}\n" + "".join(prefixes)
        documents.append(
            {
                **vars(row),
                "location": f"bench.csv:{number + 2}",
                "doc_id": f"{row.doc_id}-{number // _ROWS_OF_DOCUMENT}",
                "prefix": prefix,
                "choices": list(row.choices),
                "error_types": list(row.error_types),
            }
        )
    return documents


def write_results(folder: Path, number: int, documents: Mapping[str, Sequence[Document]]) -> None:
    """Write the files that lm_eval would write about a run of a simulated model.

    Args:
        folder: The folder for the files.
        number: The number of the model. Its skill and its size grow with it.
        documents: The documents of each task.
    """
    generator = random.Random(f"bench/{number}")
    date = _FIRST_DATE + _SECONDS_BETWEEN_RUNS * number
    timestamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(date)) + ".000000"
    results = {}
    intervals = {}
    hashes = {}
    num_samples = {}
    for task, task_documents in documents.items():
        path = folder / f"samples_{task}_{timestamp}.jsonl"
        written = _write_task(path, task, task_documents, number / 100, generator)
        results[task] = written.results
        intervals[task] = written.intervals
        hashes[task] = written.task_hash
        num_samples[task] = {"original": len(task_documents), "effective": len(task_documents)}

    model = f"bench/model-{number:03d}"
    commit = hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest()
    content = {
        **_SUBMISSION["results"],
        "results": results,
        "intervals": intervals,
        "config": {
            **_SUBMISSION["config"],
            "model_args": {"pretrained": model},
            "model_num_parameters": int(1e8 * 1.06**number),
            "model_sha": commit,
        },
        "date": date,
        "task_hashes": hashes,
        "configs": {task: _task_config(task) for task in documents},
        "versions": dict.fromkeys(documents, 1.0),
        "n-shot": dict.fromkeys(documents, 0),
        "model_name": model,
        "n-samples": num_samples,
    }
    write_json(folder / f"results_{timestamp}.json", content)


def _task_config(task: str) -> dict[str, Any]:
    """Return the config of a task as lm_eval's results have it."""
    source = all_sources()[task]
    metadata = {
        **_SUBMISSION["rule"]["metadata"],
        "version": 1.0,
        "suite_version": __version__,
        "benchmark": "factor",
        "data": {"file": source.filename, "git_blob": source.blob, "is_published": True},
    }
    return {"task": task, "output_type": "multiple_choice", "num_fewshot": 0, "metadata": metadata}


class _WrittenTask(NamedTuple):
    """What the results file states about a task whose samples were written."""

    results: dict[str, Any]
    """The scores, as lm_eval names them."""

    intervals: dict[str, Any]
    """Their intervals."""

    task_hash: str
    """lm_eval's hash of the task."""


def _write_task(
    path: Path,
    task: str,
    documents: Sequence[Document],
    skill: float,
    generator: random.Random,
) -> _WrittenTask:
    """Write the samples of a task.

    Args:
        path: The samples file.
        task: The name of the task.
        documents: Its documents.
        skill: How much likelier the true completion is to the model.
        generator: The source of randomness.
    """
    error_types: set[str] = set()
    for document in documents:
        error_types.update(filter(None, document["error_types"]))
    lines = []
    metrics_by_row = []
    task_hash = hashlib.sha256()
    for number, document in enumerate(documents):
        scores = _draw_scores(document, skill, generator)
        metrics = factor.row_metrics(document, scores, "paper", sorted(error_types))
        metrics_by_row.append(metrics)
        sample = _make_sample(number, document, scores, metrics)
        hashes = sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"]
        task_hash.update(hashes.encode())
        lines.append(json.dumps(sample, ensure_ascii=False))
    write_lines(path, lines)

    results: dict[str, Any] = {"alias": task, "sample_len": len(documents)}
    intervals: dict[str, Any] = {}
    families = dict.fromkeys((factor.ACCURACY_BY_TYPE, factor.MARGIN_BY_TYPE), sorted(error_types))
    for name, aggregation in BENCHMARK.aggregation_by_metric(families).items():
        values = [metrics[name] for metrics in metrics_by_row]
        stderr = aggregation.stderr(values) if aggregation.stderr else "N/A"
        results[f"{name},none"] = aggregation(values)
        results[f"{name}_stderr,none"] = stderr
        interval = aggregation.interval_of(values)
        if interval is not None:
            intervals[name] = interval._asdict()
    return _WrittenTask(results, intervals, task_hash.hexdigest())


def _draw_scores(
    document: Document, skill: float, generator: random.Random
) -> list[ScoredContinuation]:
    """Draw the score of each choice of a document. A token has four characters."""
    scores = []
    for index, choice in enumerate(document["choices"]):
        advantage = skill / 2 if index == document["gold"] else 0
        logprob_per_token = generator.gauss(-2, 0.3) + advantage
        scores.append(
            ScoredContinuation(
                len(choice) / 4 * logprob_per_token,
                is_greedy=False,
                num_tokens=max(1, len(choice) // 4),
                truncated=False,
                problem="",
            )
        )
    return scores


def _make_sample(
    number: int,
    document: Document,
    scores: Sequence[ScoredContinuation],
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a line of lm_eval's samples.

    Args:
        number: The number of the document.
        document: The document.
        scores: The score of each of its choices.
        metrics: The metrics of the row.
    """
    window = _SUBMISSION["rule"]["metadata"]["window"]
    arguments = {}
    for index, choice in enumerate(document["choices"]):
        context, continuation = AUTHORS_JOIN(document["prefix"], choice)
        arguments[f"gen_args_{index}"] = {"arg_0": context, "arg_1": continuation, "arg_2": window}
    answers = [[str(value) for value in score] for score in scores]
    target = str(document["gold"])
    prompt = arguments["gen_args_0"]["arg_0"]
    return {
        "doc_id": number,
        "doc": document,
        "target": target,
        "arguments": arguments,
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": list(metrics),
        "doc_hash": _sha256(json.dumps(document, indent=2, ensure_ascii=False)),
        "prompt_hash": _sha256(prompt),
        "target_hash": _sha256(target),
        **metrics,
    }


def _sha256(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
