"""The first run: what ``lm-factuality quickstart`` does with the embedded sample.

It runs the sample's FACTOR benchmark with both tiny checkpoints, then judges made-up biographies of
known truth offline, and compares the judge with that truth.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pandas import DataFrame

from judges import LEXICAL
from judges.config import load_judge_config
from judges.judge import Judge
from lm_factuality import api
from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from lm_factuality.benchmarks.biographies.scores import score_biography
from lm_factuality.benchmarks.biographies.types import JudgedBiography, biography_from_record
from lm_factuality.benchmarks.biographies.viewer import build_page
from lm_factuality.benchmarks.chosen import ScoreFigure, score_figure
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_lines, write_text
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.suite import tasks_folder

TASK = "sample_factor"
CHECKPOINTS = ("larger", "smaller")
PAGE = "biographies.html"
VERDICTS = "verdicts.jsonl"
_SCORES = {
    "FActScore": "factscore",
    "D-FActScore": "d_factscore",
    "biographies": "num_biographies",
    "entities": "num_entities",
}


@dataclass(frozen=True)
class CheckpointScore:
    """The accuracy of a checkpoint on the sample's FACTOR benchmark."""

    checkpoint: str
    parameters: int
    accuracy: ScoreFigure


@dataclass(frozen=True)
class JudgeComparison:
    """A score of responses as the judge sees them and in truth."""

    name: str
    judge: float
    """The mean by the judge."""

    truth: float
    """The mean in truth."""

    pearson: float
    """Pearson's r between both, NaN where one of them is always the same."""

    responses: int
    """The responses for which both are defined."""


@dataclass(frozen=True)
class Truth:
    """A line of ``sample_ambigbio_truth.jsonl``: the scores over the claims that were written.

    Shares are from 0 to 1, and None for an answer without facts.
    """

    index: str
    """The answer's place in the sample's generations."""

    name: str
    abstained: bool
    factscore: float | None
    d_factscore: float | None
    num_biographies: int
    num_entities: int


def quickstart(output: Path) -> list[CheckpointScore]:
    """Run ``sample_factor`` with every checkpoint, and leave lm_eval's files under ``output``.

    Raises:
        DataError: The checkpoints are missing, or ``output`` cannot be written.
    """
    return [_run_checkpoint(checkpoint, output / checkpoint) for checkpoint in CHECKPOINTS]


def _run_checkpoint(checkpoint: str, output: Path) -> CheckpointScore:
    folder = tasks_folder() / "sample" / "models" / checkpoint
    if not (folder / "model.safetensors").is_file():
        raise DataError(f"{folder}: no checkpoint here; 'make sample' trains both")
    output.mkdir(parents=True, exist_ok=True)
    with (
        (output / "lm_eval.log").open("w", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
    ):
        results = api.run(
            [TASK],
            output_path=output,
            model_args={"pretrained": str(folder), "dtype": "float32"},
            batch_size=16,
        )
    accuracy = score_figure(results.files[0].tasks[0], "factor_acc")
    assert accuracy is not None
    training = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return CheckpointScore(checkpoint, training["parameters"], accuracy)


def judge_sample(output: Path) -> tuple[int, list[JudgeComparison]]:
    """Judge the biographies of ``sample_ambigbio`` offline.

    ``output`` gets the verdicts, as ``lm-factuality judge ambigbio`` writes them, their page, and
    the judge's answers in ``answers.sqlite``.

    Returns:
        The number of biographies, and how near the judge comes to their truth.

    Raises:
        DataError: The sample is missing, or ``output`` cannot be written.
    """
    sample = tasks_folder() / "sample"
    generations = read_generations([sample / "sample_ambigbio_generations.json"])
    docs = [generation_to_doc(generation) for generation in generations]
    responses = [[generation.output] for generation in generations]
    output.mkdir(parents=True, exist_ok=True)
    with Judge.open(load_judge_config(LEXICAL), store=output / "answers.sqlite") as judge:
        records = AMBIGBIO.judge(judge, docs, responses)
    write_lines(output / VERDICTS, (json.dumps(record, ensure_ascii=False) for record in records))
    judged = [biography_from_record(record) for record in records]
    write_text(output / PAGE, build_page(records, "Biographies of the sample, judged offline"))
    truth = read_truth(sample / "sample_ambigbio_truth.jsonl")
    return len(judged), compare_with_truth(judged, truth)


def read_truth(path: Path) -> list[Truth]:
    """Read what is true of the made-up biographies.

    Raises:
        DataError: The file cannot be read, or holds something else.
    """
    cure = "make it with: make sample"
    advice = f"this is not the truth of made-up biographies; {cure}"
    return read_lines(path, partial(to_model, Truth), cure, advice)


def compare_with_truth(
    judged: Sequence[JudgedBiography], truth: Sequence[Truth]
) -> list[JudgeComparison]:
    """Compare the judge's scores with those over the claims that were written.

    Raises:
        DataError: The truth about a response is missing.
    """
    facts = {(fact.index, fact.name): fact for fact in truth}
    by_judge = []
    in_truth = []
    for biography in judged:
        generation = biography.generation
        fact = facts.get((generation.index, generation.name))
        if fact is None:
            raise DataError(
                f"response {generation.index} ({generation.name}): found no truth about it; judge"
                " the generations that the truth belongs to"
            )
        by_judge.append(score_biography(biography) or {})
        in_truth.append({} if fact.abstained else vars(fact))
    judge_table = DataFrame(by_judge, columns=list(_SCORES.values()))
    truth_table = DataFrame(in_truth, columns=list(_SCORES.values()))
    comparisons = []
    for label, name in _SCORES.items():
        # Responses without a score, by the judge or in truth, are in no mean.
        table = DataFrame({"judge": judge_table[name], "truth": truth_table[name]}).dropna()
        table = table.astype(float)
        pearson = table["judge"].corr(table["truth"])
        judge_mean, true_mean = table.mean()
        comparisons.append(JudgeComparison(label, judge_mean, true_mean, pearson, len(table)))
    return comparisons
