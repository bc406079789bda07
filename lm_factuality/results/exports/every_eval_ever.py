"""Results as records of Every Eval Ever (https://evalevalai.com), schema 0.3.0: one JSON file a run
and task, every score with its uncertainty, and, if asked for, a line a sample beside it."""

import hashlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.chosen import Figure, figure, headline, measure_of
from lm_factuality.benchmarks.pairs import reading
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of, write_json, write_lines
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.harness.samples import samples_of
from lm_factuality.results.exports import about

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_RESAMPLES = 1000  # of statistics.pooled_stderr


def export_every_eval_ever(
    files: Sequence[ResultsFile],
    out: Path,
    publisher: tuple[str, str],
    model: str | None = None,
    samples: bool = False,
) -> tuple[list[Path], list[str]]:
    """Writes ``data/TASK/ORG/NAME/UUID.json`` below ``out`` for every task with a score, with
    ``samples`` also ``UUID_samples.jsonl``; returns the JSON files, and what is left out and why.
    ``publisher`` is the organisation that ran it, and what it is to the model's makers, one of
    ``RELATIONSHIPS``. The same results give the same names and bytes. Raises ConfigError: the
    model's name is not known, or jsonschema is not installed; DataError: nothing has a score,
    something is not as the schema says (nothing is written then), or ``out`` cannot be written."""
    about.check_one_model(files, model)
    found = [
        _record(file, task, publisher, about.model_id(file, model), samples)
        for file in files
        for task in file.tasks
    ]
    records = [each for each in found if each[0]["evaluation_results"]]
    if not records:
        raise DataError(f"{files[0].path}: no score in it that could be exported")
    about.check_against(about.EVERY_EVAL_EVER, [record for record, _ in records], "record")
    for record, rows in records:
        about.check_against(
            about.EVERY_EVAL_EVER_INSTANCE, rows, f"samples of {record['evaluation_id']}"
        )
    written = []
    for record, rows in records:
        digest, task = (
            hashlib.sha256(json.dumps(record, sort_keys=True).encode()),
            str(record["evaluation_id"]).split("/")[0],
        )
        name = uuid.UUID(
            bytes=digest.digest()[:16], version=4
        )  # as the datastore wants it, but the same for the same record
        path = out / Path("data", task, *record["model_info"]["id"].split("/"), f"{name}.json")
        if rows:
            lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
            beside = path.with_name(f"{path.stem}_samples.jsonl")
            write_lines(beside, lines)
            record = {
                **record,
                "detailed_evaluation_results": _reference(record, beside, out, len(rows)),
            }
            about.check_against(about.EVERY_EVAL_EVER, [record], "record")
        write_json(path, record)
        written.append(path)
    left_out = []
    for each, (record, rows) in zip(
        [task for file in files for task in file.tasks], found, strict=True
    ):
        if not record["evaluation_results"]:
            left_out.append(f"{each.task}: none of its scores is defined")
        elif samples and not rows:
            why = (
                "they are not questions with one answer"
                if each.samples
                else "the run kept none; run it with --log_samples"
            )
            left_out.append(f"{each.task}: its samples; {why}")
    return written, left_out


def _record(
    file: ResultsFile, task: TaskResult, publisher: tuple[str, str], model: str, samples: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    when, (organization, relationship) = f"{file.date:.6f}", publisher
    evaluation = f"{task.task.replace('/', '_')}/{model}/{when}"
    source: dict[str, Any] = {"source_name": "lm-factuality", "source_type": "evaluation_run"}
    source |= {"source_organization_name": organization, "evaluator_relationship": relationship}
    source["additional_details"] = {"results_sha256": sha256_of(file.path)}
    versions = {f"{name}_version": version for name, version in file.versions.items()}
    library = {
        "name": "lm_eval",
        "version": file.versions.get("lm_eval", "unknown"),
        "additional_details": versions,
    }
    record = {
        "schema_version": about.read_schema(about.EVERY_EVAL_EVER)["version"],
        "evaluation_id": evaluation,
        # Not now: the record of the same results shall be the same tomorrow.
        "retrieved_timestamp": when,
        "evaluation_timestamp": when,
        "source_metadata": source,
        "eval_library": library,
        "model_info": about.model_info(file, model),
        "evaluation_results": [
            _result(file, task, found, when)
            for name in task.metrics
            if (found := _score(task, name))
        ],
    }
    return record, _instances(task, evaluation, model) if samples else []


def _score(task: TaskResult, metric: str) -> Figure | None:
    """The figure of a metric that is a score; of tasks that are not the suite's, every metric with
    a standard error."""
    is_score = (
        metric in task.stderrs
        if find_benchmark(task.kind) is None
        else measure_of(task, metric) is not None
    )
    return figure(task, metric) if is_score else None


def _result(file: ResultsFile, task: TaskResult, found: Figure, when: str) -> dict[str, Any]:
    named = {"evaluation_result_id": f"{task.task}.{found.metric}", "evaluation_name": task.task}
    data = {"source_data": about.source_data(task), "evaluation_timestamp": when}
    score = {
        "metric_config": _metric(file, task, found.metric),
        "score_details": _score_details(task, found),
    }
    return {**named, **data, **score, "generation_config": about.generation_config(file, task)}


def _metric(file: ResultsFile, task: TaskResult, metric: str) -> dict[str, Any]:
    better = (file.content.get("higher_is_better") or {}).get(task.task) or {}
    measure, judged = measure_of(task, metric), about.judged_by(task)
    bounds: dict[str, Any] = {}
    if measure is not None:
        bounds = {
            "metric_kind": measure.family,
            "metric_unit": measure.unit,
            "score_type": "continuous",
        }
        bounds["min_score"] = "-Infinity" if math.isinf(measure.low) else measure.low
        bounds["max_score"] = "Infinity" if math.isinf(measure.high) else measure.high
    details = {
        "headline": str(metric == headline(task)).lower(),
        **judged.pop("additional_details", {}),
    }
    identifier = (
        metric if find_benchmark(task.kind) is None else f"lm_factuality.{task.kind}.{metric}"
    )
    named = {
        "metric_id": identifier,
        "metric_name": metric,
        "lower_is_better": not better.get(metric, True),
    }
    return {**named, "additional_details": details, **bounds, **judged}


def _score_details(task: TaskResult, found: Figure) -> dict[str, Any]:
    benchmark = find_benchmark(task.kind)
    # Where other items than rows are counted as unscored, a row may have several.
    by_row = benchmark is None or benchmark.unscored_unit == "rows"
    scored = found.n - found.unscored if by_row else found.n
    uncertainty: dict[str, Any] = {"num_samples": scored}
    if found.stderr is not None:
        is_pooled = benchmark is not None and benchmark.is_pooled
        method = (
            "bootstrap" if is_pooled else "analytic" if benchmark is None else "analytic, clustered"
        )
        uncertainty["standard_error"] = {"value": found.stderr, "method": method}
        uncertainty |= {"num_bootstrap_samples": _RESAMPLES} if is_pooled else {}
    if found.low is not None and found.high is not None:
        method = "normal, from the standard error; cut at the ends of the scale"
        ends = {"lower": found.low, "upper": found.high, "confidence_level": 0.95}
        uncertainty["confidence_interval"] = {**ends, "method": method}
    details = {"num_samples": str(found.n), "unscored": str(found.unscored)}
    bounds = {"score_if_unscored_are_wrong": found.worst, "score_if_unscored_are_right": found.best}
    details |= {name: repr(value) for name, value in bounds.items() if value is not None}
    return {"score": found.value, "details": details, "uncertainty": uncertainty}


def _reference(record: Mapping[str, Any], path: Path, out: Path, rows: int) -> dict[str, Any]:
    unscored = record["evaluation_results"][0]["score_details"]["details"]["unscored"]
    file = {
        "format": "jsonl",
        "file_path": path.relative_to(out).as_posix(),
        "hash_algorithm": "sha256",
    }
    # The schema has no sample without a score, and one that has none is neither right nor wrong.
    details = {"left_out": "samples without a score", "unscored": unscored}
    return {**file, "checksum": sha256_of(path), "total_rows": rows, "additional_details": details}


def _instances(task: TaskResult, evaluation: str, model: str) -> list[dict[str, Any]]:
    """A record for each sample with a score, in the samples' order: what was asked, what came back,
    and whether it was right. A sample without one is left out, since the schema has no third
    outcome; benchmarks without right and wrong, or with several texts a row, have no records.
    Raises DataError: the samples are damaged."""
    benchmark = find_benchmark(task.kind)
    if benchmark is None or benchmark.instance is None or task.samples is None:
        return []
    version = about.read_schema(about.EVERY_EVAL_EVER_INSTANCE)["version"]
    run = {
        "schema_version": version,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": task.task,
    }
    # Of pooled counts they are about the score of whole responses.
    run["evaluation_result_id"] = f"{task.task}.{benchmark.instance_score or headline(task) or ''}"
    found: list[dict[str, Any]] = []
    for sample in samples_of(task):
        with reading(task, sample):
            if (answered := benchmark.instance(sample)) is None:
                continue
            same = json.dumps([answered.question, answered.reference], ensure_ascii=False)
            choices = None if answered.choices is None else list(answered.choices)
            extracted = {
                "extracted_value": answered.extracted,
                "extraction_method": answered.method,
            }
            record = {
                **run,
                "sample_id": str(sample["doc_id"]),
                "sample_hash": hashlib.sha256(same.encode()).hexdigest(),
                "interaction_type": "single_turn",
                "input": {
                    "raw": answered.question,
                    "reference": list(answered.reference),
                    "choices": choices,
                },
                "output": {"raw": [answered.raw]},
                "messages": None,
                "answer_attribution": [
                    {"turn_idx": 0, "source": "output.raw", **extracted, "is_terminal": True}
                ],
                "evaluation": {"score": answered.score, "is_correct": answered.is_correct},
                "metadata": {
                    name: str(sample[name])
                    for name in ("doc_hash", "prompt_hash", "target_hash")
                    if name in sample
                },
            }
            found.append(record)
    return found
