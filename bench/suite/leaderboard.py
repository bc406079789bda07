"""A leaderboard of many submissions: how long checking and building take, and what the pages weigh.

A made-up model's log-probabilities are drawn at random. All else in its files follows from them as
in a run, so that the check has as much to do as with a real submission. Rows are the sample's, over
and over under new numbers, as long as published ones.
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
from typing import Any

import yaml
from tqdm import tqdm

from bench.suite.shapes import sample_rows
from lm_factuality import __version__
from lm_factuality.benchmarks import all_sources
from lm_factuality.benchmarks.factor import metrics as factor
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN as join
from lm_factuality.ground.files import write_json, write_lines, write_text
from lm_factuality.harness.outputs import ScoredContinuation
from lm_factuality.leaderboard.check import check_submission, find_submissions
from lm_factuality.leaderboard.documents import DocumentDigest
from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.site.build import build_site

TASKS = {
    name: all_sources()[name].rows for name in ("wiki_factor", "news_factor", "expert_factor")
}  # 4,266 rows
_PREFIXES = 2  # of the sample, which make one as long as the published
WORKERS = 2
_CHECKED = 10  # submissions whose check is timed by itself
_SUBMISSION: Mapping[str, Any] = yaml.safe_load(
    Path(__file__).with_name("submission.yaml").read_text(encoding="utf-8")
)

Document = dict[str, Any]


@dataclass(frozen=True)
class Figures:
    """``megabytes`` of a submission; seconds of single checks and of building; bytes of the site's
    first view and of all of it."""

    num_submissions: int
    num_rows: int
    megabytes: float
    check_seconds: tuple[float, ...]
    build_seconds: tuple[float, ...]
    first_view: int
    site: int


def measure(count: int, folder: Path, runs: int, sizes: Mapping[str, int] = TASKS) -> Figures:
    """Makes ``count`` submissions of as many rows as ``sizes`` say in ``folder``, and times what is
    done with them."""
    submissions = folder / "submissions"
    rules = folder / "rules"
    documents = _own_rules(rules, sizes)
    for number in tqdm(range(count), desc="make", unit="submission", delay=2, leave=False):
        made = folder / "results" / str(number)
        write_results(made, number, documents)
        pack([made], PackOptions(f"bench/model-{number:03d}", rules=rules), submissions)
        for path in made.iterdir():
            path.unlink()
    found = find_submissions(submissions)
    seconds = [
        _timed(lambda place=place: _accepted(place, rules))
        for place in found[:: max(1, count // _CHECKED)]
    ]
    build = partial(build_site, submissions, folder / "site", rules=rules)
    seconds_of_builds = [_timed(lambda: build(workers=WORKERS)) for _ in range(runs)]
    build()
    pages = [path for path in (folder / "site").rglob("*") if path.is_file()]
    # What a browser loads to show the front page.
    first = [path for path in pages if path.name == "index.html" or path.suffix in (".css", ".js")]
    size = (
        sum(path.stat().st_size for path in submissions.rglob("*") if path.is_file())
        / 1e6
        / len(found)
    )
    return Figures(
        len(found),
        sum(sizes.values()),
        size,
        tuple(seconds),
        tuple(seconds_of_builds),
        sum(path.stat().st_size for path in first),
        sum(path.stat().st_size for path in pages),
    )


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _accepted(folder: Path, rules: Path) -> None:
    refusals = check_submission(folder, rules).refusals
    if refusals:
        raise AssertionError(f"{folder}: {refusals[0]}")


def _own_rules(folder: Path, sizes: Mapping[str, int]) -> dict[str, list[Document]]:
    """The documents of each task; writes the rules of a leaderboard ``bench`` that takes them."""
    documents = {task: _documents(size) for task, size in sizes.items()}
    tasks = {
        task: {
            **_SUBMISSION["rule"],
            "git_blob": all_sources()[task].blob,
            "documents": len(docs),
            "digest": _digest(docs),
        }
        for task, docs in documents.items()
    }
    rules = {**_SUBMISSION["rules"], "suite_versions": [__version__], "tasks": tasks}
    write_text(folder / "bench.yaml", yaml.safe_dump(rules))
    return documents


def _documents(count: int) -> list[Document]:
    rows = sample_rows()
    found = []
    for number in range(count):
        row = rows[number % len(rows)]
        # The round is part of it, since the same completion of the same prefix has one score.
        prefix = f"{number // len(rows)}\n" + "".join(
            rows[(number + each) % len(rows)].prefix for each in range(_PREFIXES)
        )
        found.append(
            {
                **vars(row),
                "location": f"bench.csv:{number + 2}",
                "doc_id": f"{row.doc_id}-{number // 4}",
                "prefix": prefix,
                "choices": list(row.choices),
                "error_types": list(row.error_types),
            }
        )
    return found


def _digest(documents: Sequence[Document]) -> str:
    digest = DocumentDigest()
    for number, document in enumerate(documents):
        digest.add(number, document)
    return digest.hexdigest()


def write_results(folder: Path, number: int, documents: Mapping[str, Sequence[Document]]) -> None:
    """What lm_eval would leave in ``folder`` of the made-up model with that ``number``, whose skill
    grows with it."""
    drawn = random.Random(f"bench/{number}")
    seconds = 1_795_219_200 + 100 * number  # after the suite's first day, and before today
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(seconds)) + ".000000"
    results: dict[str, Any] = {}
    hashes: dict[str, str] = {}
    for task, docs in documents.items():
        results[task], hashes[task] = _write_task(
            folder / f"samples_{task}_{stamp}.jsonl", task, docs, number / 100, drawn
        )
    model = f"bench/model-{number:03d}"
    config = {
        **_SUBMISSION["config"],
        "model_args": {"pretrained": model},
        "model_num_parameters": int(1e8 * 1.06**number),
        "model_sha": hashlib.sha1(str(number).encode(), usedforsecurity=False).hexdigest(),
    }
    write_json(
        folder / f"results_{stamp}.json",
        {
            **_SUBMISSION["results"],
            "results": results,
            "config": config,
            "date": seconds,
            "task_hashes": hashes,
            "configs": {task: _task_config(task) for task in documents},
            "versions": dict.fromkeys(documents, 1.0),
            "n-shot": dict.fromkeys(documents, 0),
            "model_name": model,
            "n-samples": {
                task: {"original": len(docs), "effective": len(docs)}
                for task, docs in documents.items()
            },
        },
    )


def _task_config(task: str) -> dict[str, Any]:
    data = {
        "file": all_sources()[task].filename,
        "git_blob": all_sources()[task].blob,
        "is_upstream": True,
    }
    metadata = {
        **_SUBMISSION["rule"]["metadata"],
        "version": 1.0,
        "suite_version": __version__,
        "benchmark": "factor",
        "data": data,
    }
    return {"task": task, "output_type": "multiple_choice", "num_fewshot": 0, "metadata": metadata}


def _write_task(
    path: Path, task: str, documents: Sequence[Document], skill: float, drawn: random.Random
) -> tuple[dict[str, Any], str]:
    """Writes the samples of a task; returns its results and the hash of its samples."""
    kinds = sorted({kind for document in documents for kind in document["error_types"] if kind})
    lines, rows, whole = [], [], hashlib.sha256()
    for number, document in enumerate(documents):
        scores = [
            ScoredContinuation(
                len(choice) / 4 * (drawn.gauss(-2, 0.3) + skill * (index == document["gold"]) / 2),
                False,
                max(1, len(choice) // 4),
                False,
                "",
            )
            for index, choice in enumerate(document["choices"])
        ]
        found = factor.row_metrics(document, scores, "paper", kinds)
        rows.append(found)
        sample = _sample(number, document, scores, found)
        whole.update(
            "".join(sample[f"{part}_hash"] for part in ("doc", "prompt", "target")).encode()
        )
        lines.append(json.dumps(sample, ensure_ascii=False))
    write_lines(path, lines)
    results: dict[str, Any] = {"alias": task, "sample_len": len(documents)}
    for name, aggregation in BENCHMARK.aggregation_by_metric(
        dict.fromkeys((factor.ACCURACY_BY_TYPE, factor.MARGIN_BY_TYPE), kinds)
    ).items():
        values = [row[name] for row in rows]
        stderr = aggregation.stderr(values) if aggregation.stderr else "N/A"
        results |= {f"{name},none": aggregation(values), f"{name}_stderr,none": stderr}
    return results, whole.hexdigest()


def _sample(
    number: int, document: Document, scores: Sequence[ScoredContinuation], found: Mapping[str, Any]
) -> dict[str, Any]:
    """A line of lm_eval's samples."""
    asked = [(*join(document["prefix"], choice), 1024) for choice in document["choices"]]
    answers = [[str(value) for value in score] for score in scores]
    target = str(document["gold"])
    texts = {
        "doc": json.dumps(document, indent=2, ensure_ascii=False),
        "prompt": asked[0][0],
        "target": target,
    }
    return {
        "doc_id": number,
        "doc": document,
        "target": target,
        "arguments": {
            f"gen_args_{index}": {f"arg_{place}": value for place, value in enumerate(each)}
            for index, each in enumerate(asked)
        },
        "resps": [[each] for each in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": list(found),
        **{
            f"{part}_hash": hashlib.sha256(text.encode()).hexdigest()
            for part, text in texts.items()
        },
        **found,
    }
