"""Results as lm_eval writes them, small and of known scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from tests.report.conftest import biography

FACTOR_TYPES = ("entity", "predicate", "entity")


def write_results(
    folder: Path,
    tasks: Mapping[str, Mapping[str, Any]],
    model: str = "org/small-125m",
    date: str = "2026-01-02T03-04-05.000001",
    with_samples: bool = True,
    **changes: Any,
) -> Path:
    """A results file of ``tasks`` (each as ``factor_task`` and its like make it) with its samples
    beside it."""
    config = {
        "model": "hf",
        "model_revision": "main",
        "model_sha": "abc",
        "model_dtype": "torch.float32",
        "model_num_parameters": 125_000_000,
        "limit": None,
        **changes,
    }
    content = {
        "results": {
            name: {"sample_len": len(task["samples"]), **task["results"]}
            for name, task in tasks.items()
        },
        "configs": {
            name: {"metadata": {"suite_version": "0.2.0", **task["metadata"]}}
            for name, task in tasks.items()
        },
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "config": config,
        "model_name": model,
        "n-samples": {
            name: {"original": len(task["samples"]), "effective": len(task["samples"])}
            for name, task in tasks.items()
        },
        "date": float(date[:4]) + float(date[-6:]),
        "lm_eval_version": "0.4.13",
        "transformers_version": "5.0.0",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    for name, task in tasks.items():
        if with_samples:
            lines = "".join(json.dumps(sample) + "\n" for sample in task["samples"])
            (folder / f"samples_{name}_{date}.jsonl").write_text(lines, encoding="utf-8")
    return path


def factor_task(
    right: Sequence[bool | None],
    prefix: str = "The library opened in 1870. ",
    choice: str = "Its keeper was a sailor.",
) -> dict[str, Any]:
    """A row for each of ``right``, two a document; None is a row without a score."""
    samples = []
    for number, outcome in enumerate(right):
        choices = [
            choice,
            "Its keeper was a baker.",
            "Its keeper had no sailor.",
            "Its keeper was a potter.",
        ]
        means = [-0.5 if outcome else -0.9, -0.7, -0.8, -1.0]
        scored = outcome is not None
        samples.append(
            {
                "doc_id": number,
                "doc_hash": f"h{number}",
                "filter": "none",
                "doc": {
                    "doc_id": f"d{number // 2}",
                    "prefix": f"{prefix}{number}. ",
                    "choices": choices,
                    "gold": 0,
                    "error_types": ["", *FACTOR_TYPES],
                },
                "filtered_resps": [[str(10 * mean), "False", "10", "False", ""] for mean in means],
                "factor_mean_logprob": means if scored else [None] * 4,
                "factor_num_tokens": [10] * 4,
                "truncated": 0.0,
                "factor_acc": None if outcome is None else float(outcome),
                "acc": None if outcome is None else float(outcome),
                "acc_bytes": None if outcome is None else float(outcome),
                "unscored": None if scored else "choice 0: no log-probability",
                "margin": means[0] - max(means[1:]) if scored else None,
                "factor_acc_vs_entity": float(bool(outcome)) if scored else None,
                "factor_acc_vs_predicate": 1.0 if scored else None,
            }
        )
    known = [outcome for outcome in right if outcome is not None]
    mean = sum(known) / len(known)
    unscored = len(right) - len(known)
    results = {
        "factor_acc,none": mean,
        "factor_acc_stderr,none": 0.05,
        "acc,none": mean,
        "acc_stderr,none": 0.05,
        "acc_bytes,none": mean,
        "acc_bytes_stderr,none": 0.05,
        "factor_acc_vs_entity,none": mean,
        "factor_acc_vs_entity_stderr,none": 0.05,
        "factor_acc_vs_predicate,none": 1.0,
        "factor_acc_vs_predicate_stderr,none": 0.0,
        "unscored,none": float(unscored),
        "factor_acc_worst,none": sum(known) / len(right),
        "factor_acc_best,none": (sum(known) + unscored) / len(right),
        "factor_mean_logprob,none": -0.6,
        "factor_mean_logprob_stderr,none": "N/A",
    }
    return {
        "results": results,
        "samples": samples,
        "metadata": {
            "benchmark": "factor",
            "protocol": "paper",
            "window": 1024,
            "data": {"file": "f.csv", "git_blob": "0123456789"},
        },
    }


def felm_task(
    outputs: Sequence[str],
    segment: str = "It opened in 1870.",
    mode: str = "cot",
    domain: str = "wk",
) -> dict[str, Any]:
    """A response for each of ``outputs``, of three segments of which the second holds an error."""
    samples, total = [], [0, 0, 0, 0]
    for number, output in enumerate(outputs):
        found = output.removeprefix("Answer: ")
        flagged = (
            set()
            if found == "ALL_CORRECT"
            else {int(each) for each in found.split(",")}
            if found[:1].isdigit()
            else None
        )
        counts = (
            [0, 0, 0, 0]
            if flagged is None
            else [
                int(2 in flagged),
                len(flagged - {2}),
                int(2 not in flagged),
                2 - len(flagged - {2}),
            ]
        )
        total = [one + other for one, other in zip(total, counts, strict=True)]
        samples.append(
            {
                "doc_id": number,
                "doc_hash": f"h{number}",
                "filter": "none",
                "filtered_resps": [output],
                "resps": [[output]],
                "doc": {
                    "index": str(number),
                    "domain": domain,
                    "prompt": f"When did library {number} open?",
                    "segments": [segment, "A sailor kept it.", "It has books."],
                    "labels": [True, False, True],
                    "problem": "",
                    "mode": mode,
                    "claims": [],
                    "owners": [],
                },
                "segment_f1": counts,
                "response_f1": counts,
                "segment_balanced_accuracy": counts,
                "response_balanced_accuracy": counts,
                "unscored": None if flagged is not None else "no answer line",
            }
        )
    tp, fp, fn, _ = total
    scores = {
        "f1": 2 * tp / (2 * tp + fp + fn),
        "precision": tp / max(1, tp + fp),
        "recall": tp / (tp + fn),
        "balanced_accuracy": 0.5,
    }
    results: dict[str, Any] = {
        "unscored,none": float(sum(sample["unscored"] is not None for sample in samples))
    }
    for level in ("segment", "response"):
        for name, value in scores.items():
            results |= {f"{level}_{name}{suffix},none": value for suffix in ("", f"_{domain}")}
    return {
        "results": results,
        "samples": samples,
        "metadata": {
            "benchmark": "felm",
            "mode": mode,
            "unit": "segment",
            "data": {"file": "felm.jsonl"},
        },
    }


_AMBIGBIO_METRICS = ("factscore", "d_factscore", "difference", "num_biographies", "num_entities")


def ambigbio_task(name: str = "Ada Lind", reason: str = "a reason") -> dict[str, Any]:
    """Two biographies, of which the first merges two people."""
    judged = [
        biography("0", name, reason=reason),
        biography("1", "Bo Ek", groups=((0,), (1,)), reason=reason),
    ]
    samples = []
    for number, each in enumerate(judged):
        record = AMBIGBIO.make_record(each)
        scores = record["scores"]
        passages = [
            {"title": passage.title, "text": passage.text} for passage in each.generation.passages
        ]
        doc = {
            "index": str(number),
            "question": each.generation.question,
            "name": each.generation.name,
            "passages": passages,
        }
        samples.append(
            {
                "doc_id": number,
                "doc_hash": f"h{number}",
                "filter": "judge",
                "doc": doc,
                "resps": [[each.generation.output]],
                "filtered_resps": [json.dumps(record)],
                **{name: scores[name] for name in _AMBIGBIO_METRICS},
                "unscored": None,
            }
        )
    results = {
        "factscore,judge": 1.0,
        "d_factscore,judge": 0.75,
        "difference,judge": 0.25,
        "num_biographies,judge": 1.5,
        "num_entities,judge": 2.0,
        "unscored,judge": 0.0,
    }
    return {
        "results": results,
        "samples": samples,
        "metadata": {
            "benchmark": "ambigbio",
            "judge": "lexical",
            "judge_config": {},
            "protocol": "paper",
            "data": {"file": "bio.json"},
        },
    }
