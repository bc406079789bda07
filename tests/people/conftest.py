"""Runs of two models, hostile texts among them, that people are asked about; and the answers that a
judge gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_factuality.benchmarks.felm_gen.judging import FELM_GEN
from lm_factuality.people.labels import Key
from lm_factuality.people.sheet import Sheet, make_sheet, read_pool
from tests.report.conftest import HOSTILE, browser
from tests.report.results import ambigbio_task, felm_task, write_results

__all__ = ["browser"]
MODELS = ("org/secret-7b", "org/hidden-1b")


def felm_gen_sample(
    number: int, errors: list[str | None] | None, domain: str = "wk", **changes: Any
) -> dict[str, Any]:
    """An answer of a sentence for each of ``errors``, with its record and its metrics; None is an
    answer without a verdict."""
    said = errors or [None, None]
    segments = [f"Sentence {number}.{place} of it." for place in range(len(said))]
    record: Any = {
        "index": str(number),
        "domain": domain,
        "segments": segments,
        "errors": errors,
        "no_answer": None,
        "unscored": None if errors is not None else "no evidence",
        "cut_by": "sentences",
        "cut_refused": None,
        "outputs": ["{}"],
    }
    record |= changes
    doc = {
        "index": str(number),
        "domain": domain,
        "prompt": f"What is {number}?",
        "reference_texts": [HOSTILE],
    }
    metrics = FELM_GEN.row_metrics({}, record)
    responses = {"resps": [[" ".join(segments)]], "filtered_resps": [json.dumps(record)]}
    return {
        "doc_id": number,
        "filter": "judge",
        "doc": doc,
        **responses,
        "metrics": list(metrics),
        **metrics,
    }


def felm_gen_task(rows: int = 12) -> dict[str, Any]:
    """Every third answer holds an error, every sixth has no verdict, one is a refusal."""
    patterns: list[list[str | None] | None] = [
        [None, None, None],
        [None, "knowledge"],
        [None],
        [None, None],
        ["untyped", None],
        None,
    ]
    samples = [
        felm_gen_sample(number, patterns[number % 6], ("wk", "science")[number % 2])
        for number in range(rows)
    ]
    refusal = {"segments": [], "no_answer": "refusal", "unscored": "no answer: refusal"}
    samples.append(felm_gen_sample(rows, None, **refusal))
    results = {"segment_error_rate,judge": 0.25}
    return {
        "results": results,
        "samples": samples,
        "metadata": {"benchmark": "felm_gen", "judge": "lexical"},
    }


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models with three tasks each."""
    folder = tmp_path_factory.mktemp("runs")
    for number, model in enumerate(MODELS):
        tasks = {
            "gen": felm_gen_task(),
            "felm": felm_task(["Answer: 2"]),
            "bio": ambigbio_task(reason=HOSTILE),
        }
        write_results(folder / f"run{number}", tasks, model, f"2026-01-02T03-04-05.00000{number}")
    return folder


@pytest.fixture(scope="session")
def sheet(runs: Path) -> Sheet:
    """Ten answers to FELM's prompts, some of their segments twice."""
    return make_sheet(read_pool([runs], "gen"), 10, repeat=0.3, seed=3)


def answers(key: Key, person: str = "Ana") -> list[dict[str, Any]]:
    """The labels of somebody who says what the judge said, and ``skip`` where it said nothing."""
    return [
        {
            "sheet": key.sheet,
            "number": entry.number,
            "question": entry.question,
            "answer": entry.judge or "skip",
            "person": person,
            "note": "",
        }
        for entry in key.items
    ]
