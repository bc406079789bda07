"""Small results of known scores, as lm_eval writes them."""

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
    """Write a results file of lm_eval with its samples files, and return its path.

    Args:
        folder: Where to write them.
        tasks: What `factor_task` or a function like it returns, by the name of the task.
        model: The name of the model.
        date: The time of the run, which is part of the names of the files.
        with_samples: Whether the run had --log_samples.
        changes: Other values of the run's configuration.
    """
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
    if with_samples:
        for name, task in tasks.items():
            lines = "".join(json.dumps(sample) + "\n" for sample in task["samples"])
            (folder / f"samples_{name}_{date}.jsonl").write_text(lines, encoding="utf-8")
    return path


def factor_task(
    right: Sequence[bool | None],
    prefix: str = "The library opened in 1870. ",
    choice: str = "Its keeper was a sailor.",
) -> dict[str, Any]:
    """Return a task of FACTOR, for `write_results`.

    Args:
        right: For each row whether the model is right, or None for a row without a score. Two rows
            in a row are of one document.
        prefix: The text before the choices.
        choice: The true choice.
    """
    samples = [
        _factor_sample(number, outcome, prefix, choice) for number, outcome in enumerate(right)
    ]
    outcomes = [outcome for outcome in right if outcome is not None]
    num_unscored = len(right) - len(outcomes)
    accuracy = sum(outcomes) / len(outcomes)
    results = {
        "factor_acc,none": accuracy,
        "factor_acc_stderr,none": 0.05,
        "acc,none": accuracy,
        "acc_stderr,none": 0.05,
        "acc_bytes,none": accuracy,
        "acc_bytes_stderr,none": 0.05,
        "factor_acc_vs_entity,none": accuracy,
        "factor_acc_vs_entity_stderr,none": 0.05,
        "factor_acc_vs_predicate,none": 1.0,
        "factor_acc_vs_predicate_stderr,none": 0.0,
        "unscored,none": float(num_unscored),
        "factor_acc_worst,none": sum(outcomes) / len(right),
        "factor_acc_best,none": (sum(outcomes) + num_unscored) / len(right),
        "factor_mean_logprob,none": -0.6,
        "factor_mean_logprob_stderr,none": "N/A",
    }
    metadata = {
        "benchmark": "factor",
        "protocol": "paper",
        "window": 1024,
        "data": {"file": "f.csv", "git_blob": "0123456789"},
    }
    return {"results": results, "samples": samples, "metadata": metadata}


def _factor_sample(number: int, outcome: bool | None, prefix: str, choice: str) -> dict[str, Any]:
    """Return a sample in which the model prefers the true choice, another one, or has no score."""
    means = [-0.5 if outcome else -0.9, -0.7, -0.8, -1.0]
    is_scored = outcome is not None
    accuracy = float(outcome) if is_scored else None
    return {
        "doc_id": number,
        "doc_hash": f"h{number}",
        "filter": "none",
        "doc": {
            "doc_id": f"d{number // 2}",
            "prefix": f"{prefix}{number}. ",
            "choices": [
                choice,
                "Its keeper was a baker.",
                "Its keeper had no sailor.",
                "Its keeper was a potter.",
            ],
            "gold": 0,
            "error_types": ["", *FACTOR_TYPES],
        },
        "filtered_resps": [[str(10 * mean), "False", "10", "False", ""] for mean in means],
        "factor_mean_logprob": means if is_scored else [None] * 4,
        "factor_num_tokens": [10] * 4,
        "truncated": 0.0,
        "factor_acc": accuracy,
        "acc": accuracy,
        "acc_bytes": accuracy,
        "unscored": None if is_scored else "choice 0: no log-probability",
        "margin": means[0] - max(means[1:]) if is_scored else None,
        "factor_acc_vs_entity": accuracy,
        "factor_acc_vs_predicate": 1.0 if is_scored else None,
    }


def felm_task(
    outputs: Sequence[str],
    segment: str = "It opened in 1870.",
    mode: str = "cot",
    domain: str = "wk",
) -> dict[str, Any]:
    """Return a task of FELM, for `write_results`.

    Args:
        outputs: What the model says about each response, such as "Answer: 2". Each response has
            three segments, of which the second has an error.
        segment: The first segment of each response.
        mode: The way in which the model is asked.
        domain: The domain of all responses.
    """
    samples = [
        _felm_sample(number, output, segment, mode, domain) for number, output in enumerate(outputs)
    ]
    tp, fp, fn = (sum(sample["segment_f1"][place] for sample in samples) for place in range(3))
    scores = {
        "f1": 2 * tp / (2 * tp + fp + fn),
        "precision": tp / max(1, tp + fp),
        "recall": tp / (tp + fn),
        "balanced_accuracy": 0.5,
    }
    num_unscored = sum(sample["unscored"] is not None for sample in samples)
    results: dict[str, Any] = {"unscored,none": float(num_unscored)}
    for level in ("segment", "response"):
        for name, value in scores.items():
            results[f"{level}_{name},none"] = value
            results[f"{level}_{name}_{domain},none"] = value
    metadata = {
        "benchmark": "felm",
        "mode": mode,
        "unit": "segment",
        "data": {"file": "felm.jsonl"},
    }
    return {"results": results, "samples": samples, "metadata": metadata}


def _felm_sample(number: int, output: str, segment: str, mode: str, domain: str) -> dict[str, Any]:
    """Return a sample of FELM with the counts that follow from the model's output."""
    flagged = _flagged_segments(output)
    if flagged is None:
        counts = [0, 0, 0, 0]
    else:
        tp = int(2 in flagged)
        fp = len(flagged - {2})
        counts = [tp, fp, 1 - tp, 2 - fp]
    return {
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
        "unscored": "no answer line" if flagged is None else None,
    }


def _flagged_segments(output: str) -> set[int] | None:
    """Return the segments that an output flags: {1, 2} for "Answer: 1,2", or None for no answer."""
    answer = output.removeprefix("Answer: ")
    if answer == "ALL_CORRECT":
        return set()
    if not answer[:1].isdigit():
        return None
    return {int(number) for number in answer.split(",")}


_AMBIGBIO_METRICS = ("factscore", "d_factscore", "difference", "num_biographies", "num_entities")


def ambigbio_task(name: str = "Ada Lind", reason: str = "a reason") -> dict[str, Any]:
    """Return a task of AmbigBio, for `write_results`.

    Args:
        name: Whom the first of its two biographies is about. It merges two people.
        reason: The judge's reason for every verdict.
    """
    biographies = [
        biography("0", name, reason=reason),
        biography("1", "Bo Ek", groups=((0,), (1,)), reason=reason),
    ]
    samples = []
    for number, judged in enumerate(biographies):
        generation = judged.generation
        record = AMBIGBIO.make_record(judged)
        passages = [
            {"title": passage.title, "text": passage.text} for passage in generation.passages
        ]
        doc = {
            "index": str(number),
            "question": generation.question,
            "name": generation.name,
            "passages": passages,
        }
        samples.append(
            {
                "doc_id": number,
                "doc_hash": f"h{number}",
                "filter": "judge",
                "doc": doc,
                "resps": [[generation.output]],
                "filtered_resps": [json.dumps(record)],
                **{metric: record["scores"][metric] for metric in _AMBIGBIO_METRICS},
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
