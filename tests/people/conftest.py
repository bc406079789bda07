"""Judged runs of two models, the sheet that asks people about them, and answers to it."""

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
    """Return a line of a samples file: a judged answer of one sentence for each of ``errors``.

    Args:
        number: The number of the sample.
        errors: The judge's verdict on each sentence, such as "knowledge", or None for no error.
            Without ``errors``, the answer has two sentences and no verdict.
        domain: The domain of the question.
        changes: Other values of the judge's record.
    """
    num_sentences = 2 if errors is None else len(errors)
    segments = [f"Sentence {number}.{place} of it." for place in range(num_sentences)]
    record: Any = {
        "index": str(number),
        "domain": domain,
        "segments": segments,
        "errors": errors,
        "no_answer": None,
        "unscored": None if errors is not None else "no evidence",
        "cut_by": "rules",
        "cut_refused": None,
        "outputs": ["{}"],
        **changes,
    }
    metrics = FELM_GEN.row_metrics({}, record)
    return {
        "doc_id": number,
        "filter": "judge",
        "doc": {
            "index": str(number),
            "domain": domain,
            "prompt": f"What is {number}?",
            "reference_texts": [HOSTILE],
        },
        "resps": [[" ".join(segments)]],
        "filtered_resps": [json.dumps(record)],
        "metrics": list(metrics),
        **metrics,
    }


def refusal_sample(number: int) -> dict[str, Any]:
    """Return a sample in which the model refused to answer, so that nothing is judged."""
    return felm_gen_sample(
        number, None, segments=[], no_answer="refusal", unscored="no answer: refusal"
    )


def felm_gen_task(rows: int = 12) -> dict[str, Any]:
    """Return a task of ``rows`` judged answers and a refusal.

    Of six answers in a row two have an error, three have none, and one has no verdict.
    """
    patterns: list[list[str | None] | None] = [
        [None, None, None],
        [None, "knowledge"],
        [None],
        [None, None],
        ["untyped", None],
        None,
    ]
    samples = []
    for number in range(rows):
        domain = "wk" if number % 2 == 0 else "science"
        samples.append(felm_gen_sample(number, patterns[number % len(patterns)], domain))
    samples.append(refusal_sample(rows))
    return {
        "results": {"segment_error_rate,judge": 0.25},
        "samples": samples,
        "metadata": {"benchmark": "felm_gen", "judge": "lexical"},
    }


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of the two MODELS on three tasks: gen, felm and bio."""
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
    """Return a sheet about ten answers of the task gen, with 30% of the items repeated."""
    return make_sheet(read_pool([runs], "gen"), 10, repeat=0.3, seed=3)


def labels_like_the_judge(key: Key, person: str = "Ana") -> list[dict[str, Any]]:
    """Return the labels of a person who says what the judge said, or skips if it said nothing."""
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
