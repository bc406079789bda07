"""The first run: the sample benchmark with both tiny checkpoints, through lm_eval; then made-up
biographies of known truth, judged offline, and how near the judge comes to that truth."""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from judges import LEXICAL
from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality.benchmarks.biographies.generations import read_generations, to_doc
from lm_factuality.benchmarks.biographies.judging import AMBIGBIO
from lm_factuality.benchmarks.biographies.scores import score
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.biographies.types import read_lines as read_verdicts
from lm_factuality.benchmarks.biographies.viewer import build_page
from lm_factuality.benchmarks.chosen import Figure, figure
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_lines, write_text
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.run import run
from lm_factuality.results.read import read_results_file

TASK = "sample_factor"
CHECKPOINTS = ("larger", "smaller")
PAGE, VERDICTS = "biographies.html", "verdicts.jsonl"
_SCORES = {
    "FActScore": "factscore",
    "D-FActScore": "d_factscore",
    "biographies": "num_biographies",
    "entities": "num_entities",
}


@dataclass(frozen=True)
class Score:
    checkpoint: str
    parameters: int
    accuracy: Figure


@dataclass(frozen=True)
class Measure:
    """Means over the ``responses`` that both have a value for, and Pearson's r between the values
    (NaN where one of them is always the same)."""

    name: str
    judge: float
    truth: float
    pearson: float
    responses: int


def quickstart(output: Path) -> list[Score]:
    """Runs ``sample_factor`` with every checkpoint and leaves lm_eval's files under ``output``.
    Raises DataError: the checkpoints are missing from this installation, or ``output`` cannot be
    written."""
    scores = []
    for checkpoint in CHECKPOINTS:
        folder = tasks_folder() / "sample" / "models" / checkpoint
        if not (folder / "model.safetensors").is_file():
            raise DataError(f"{folder}: no checkpoint here; 'make sample' trains both")
        target = output / checkpoint
        target.mkdir(parents=True, exist_ok=True)
        model = [
            "--model",
            "hf",
            "--model_args",
            json.dumps({"pretrained": str(folder), "dtype": "float32"}),
        ]
        with (
            (target / "lm_eval.log").open("w", encoding="utf-8") as log,
            contextlib.redirect_stdout(log),
        ):
            run(
                [
                    *model,
                    "--tasks",
                    TASK,
                    "--batch_size",
                    "16",
                    "--output_path",
                    str(target),
                    "--log_samples",
                ]
            )
        results = max(
            target.glob("*/results_*.json"), key=lambda path: path.name
        )  # names end in the time of the run
        (task,) = read_results_file(results).tasks
        found = figure(task, "factor_acc")
        assert found is not None
        parameters = json.loads((folder / "training.json").read_text(encoding="utf-8"))[
            "parameters"
        ]
        scores.append(Score(checkpoint, parameters, found))
    return scores


def judge_sample(output: Path) -> tuple[int, list[Measure]]:
    """How many biographies ``sample_ambigbio`` has, and how near the lexical judge comes to their
    truth. Leaves verdicts, as ``lm-factuality judge ambigbio`` writes them, their page and
    ``answers.sqlite``, the judge's answers, in ``output``. Raises DataError: the sample is missing
    from this installation, or ``output`` cannot be written."""
    sample = tasks_folder() / "sample"
    generations = read_generations([sample / "sample_ambigbio_generations.json"])
    output.mkdir(parents=True, exist_ok=True)
    with Judge.open(load_judge_config(LEXICAL), store=output / "answers.sqlite") as judge:
        records = AMBIGBIO.judge(
            judge, [to_doc(each) for each in generations], [[each.output] for each in generations]
        )
    write_lines(output / VERDICTS, (json.dumps(record, ensure_ascii=False) for record in records))
    judged = [each.judged for each in read_verdicts(output / VERDICTS)]
    settings = AMBIGBIO.settings
    page = build_page(
        judged, "Biographies of the sample, judged offline", settings.protocol, settings.linking
    )
    write_text(output / PAGE, page)
    return len(judged), compare_with_truth(
        judged, read_truth(sample / "sample_ambigbio_truth.jsonl")
    )


@dataclass(frozen=True)
class Truth:
    """A line of ``sample_ambigbio_truth.jsonl``: the scores of the answer at place ``index`` of the
    sample's generations, over the claims that were written. Shares from 0 to 1, None for an answer
    without facts."""

    index: str
    name: str
    abstained: bool
    factscore: float | None
    d_factscore: float | None
    num_biographies: int
    num_entities: int


def read_truth(path: Path) -> list[Truth]:
    """What is true of the made-up biographies. Raises DataError: the file cannot be read, or a line
    is none of it."""
    cure = "make it with: make sample"
    return read_lines(
        path,
        partial(to_model, Truth),
        cure,
        f"this is not the truth of made-up biographies; {cure}",
    )


def compare_with_truth(judged: Sequence[JudgedBiography], truth: Sequence[Truth]) -> list[Measure]:
    """The scores of ``judged`` beside those over the claims that were written. Raises DataError:
    truth is missing."""
    ours = [scores_of(each) for each in judged]
    true = [{} if known.abstained else vars(known) for known in truth_of(judged, truth)]
    return [measure(label, name, ours, true) for label, name in _SCORES.items()]


def truth_of(judged: Sequence[JudgedBiography], truth: Sequence[Truth]) -> list[Truth]:
    """What is true of each response. Raises DataError: it is missing."""
    by_index = {each.index: each for each in truth}
    found = []
    for each in judged:
        known = by_index.get(each.generation.index)
        if known is None or known.name != each.generation.name:
            which = f"response {each.generation.index} ({each.generation.name})"
            raise DataError(
                f"{which}: found no truth about it; judge the generations that the truth belongs to"
            )
        found.append(known)
    return found


def scores_of(judged: JudgedBiography) -> Mapping[str, Any]:
    """The judge's scores by name; none of them for an answer without facts."""
    scores = score(judged)
    return {} if scores is None else vars(scores)


def measure(
    label: str, name: str, judged: Sequence[Mapping[str, Any]], truth: Sequence[Mapping[str, Any]]
) -> Measure:
    """The score ``name`` of responses, by a judge and in truth."""
    pairs = [(ours.get(name), true.get(name)) for ours, true in zip(judged, truth, strict=True)]
    both = [pair for pair in pairs if None not in pair]
    if not both:
        return Measure(label, math.nan, math.nan, math.nan, 0)
    table = np.array(both, dtype=float)
    varies = bool(np.all(np.ptp(table, axis=0) > 0))
    pearson = float(np.corrcoef(table.T)[0, 1]) if varies else math.nan
    judge, true_mean = table.mean(axis=0)
    return Measure(label, float(judge), float(true_mean), pearson, len(both))
