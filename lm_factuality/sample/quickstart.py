"""Run the embedded sample, as the command ``lm-factuality quickstart`` does.

It runs the sample's FACTOR benchmark with two tiny models. Then it judges made-up biographies
offline, and compares the judge with their true scores.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

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
"""The task of the sample's FACTOR benchmark."""

CHECKPOINTS = ("larger", "smaller")
"""The names of the tiny models, which are folders of ``tasks/sample/models``."""

PAGE = "biographies.html"
"""The page that shows the judged biographies."""

VERDICTS = "verdicts.jsonl"
"""The file with the judge's verdicts."""

_SCORES = {
    "FActScore": "factscore",
    "D-FActScore": "d_factscore",
    "biographies": "num_biographies",
    "entities": "num_entities",
}
"""The scores to compare with the truth: their labels and their names."""


@dataclass(frozen=True)
class CheckpointScore:
    """The accuracy of a tiny model on the sample's FACTOR benchmark."""

    checkpoint: str
    """The name of the model, one of `CHECKPOINTS`."""

    parameters: int
    """The number of the model's parameters."""

    accuracy: ScoreFigure
    """The accuracy with its interval."""


@dataclass(frozen=True)
class JudgeComparison:
    """A score of the made-up biographies, by the judge and in truth."""

    name: str
    """The label of the score, such as ``FActScore``."""

    judge: float
    """The mean by the judge."""

    truth: float
    """The true mean."""

    pearson: float
    """Pearson's r between both over the biographies, or NaN if one of them is constant."""

    responses: int
    """The number of biographies that have the score by the judge and in truth."""


class JudgedSample(NamedTuple):
    """The biographies of the sample that were judged, compared with the truth."""

    num_biographies: int
    """The number of judged biographies."""

    comparisons: list[JudgeComparison]
    """Each score by the judge and in truth."""


@dataclass(frozen=True)
class TrueScores:
    """The true scores of a made-up biography: a line of ``sample_ambigbio_truth.jsonl``.

    Shares are from 0 to 1, and None for a biography without facts.
    """

    index: str
    """The index of the response in the sample's generations, such as ``"0"``."""

    name: str
    """The name that the people in the biography share."""

    abstained: bool
    """Whether the text is a refusal, which has no scores."""

    factscore: float | None
    """The share of facts that are true of any person of this name."""

    d_factscore: float | None
    """The share of facts that are true of the person that their individual is."""

    num_biographies: int
    """The number of individuals that the text describes."""

    num_entities: int
    """The number of people of this name that these individuals are."""


def run_checkpoints(output: Path) -> list[CheckpointScore]:
    """Run the sample's FACTOR benchmark with each tiny model.

    Args:
        output: The folder of lm_eval's results, with a folder for each model.

    Raises:
        DataError: The models are missing, or ``output`` cannot be written.
    """
    return [_run_checkpoint(checkpoint, output / checkpoint) for checkpoint in CHECKPOINTS]


def _run_checkpoint(checkpoint: str, output: Path) -> CheckpointScore:
    """Run the sample's FACTOR benchmark with a tiny model, and write lm_eval's results and log.

    Args:
        checkpoint: The name of the model, one of `CHECKPOINTS`.
        output: The folder for the results.

    Raises:
        DataError: The model is missing.
    """
    folder = tasks_folder() / "sample" / "models" / checkpoint
    if not (folder / "model.safetensors").is_file():
        raise DataError(f"{folder}: no checkpoint here; 'make sample' trains both")

    output.mkdir(parents=True, exist_ok=True)
    # lm_eval prints a lot that a first-time user need not see.
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
    # The script that trained the model wrote its size there.
    training = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    return CheckpointScore(checkpoint, training["parameters"], accuracy)


def judge_sample(output: Path) -> JudgedSample:
    """Judge the made-up biographies of the sample offline, and compare the judge with the truth.

    Args:
        output: The folder for the verdicts, the page that shows them, and the judge's answers
            (``answers.sqlite``), which a second call reuses.

    Raises:
        DataError: The sample is missing, or ``output`` cannot be written.
    """
    sample = tasks_folder() / "sample"
    generations = read_generations([sample / "sample_ambigbio_generations.json"])
    docs = [generation_to_doc(generation) for generation in generations]
    # lm_eval can have several responses to one prompt; here each prompt has one.
    responses = [[generation.output] for generation in generations]
    output.mkdir(parents=True, exist_ok=True)
    with Judge.open(load_judge_config(LEXICAL), store=output / "answers.sqlite") as judge:
        records = AMBIGBIO.judge(judge, docs, responses)

    write_lines(output / VERDICTS, (json.dumps(record, ensure_ascii=False) for record in records))
    about = {"judge": LEXICAL, **AMBIGBIO.recorded_settings}
    page = build_page(records, "Biographies of the sample, judged offline", about)
    write_text(output / PAGE, page)
    judged = [biography_from_record(record) for record in records]
    truth = read_truth(sample / "sample_ambigbio_truth.jsonl")
    return JudgedSample(len(judged), compare_with_truth(judged, truth))


def read_truth(path: Path) -> list[TrueScores]:
    """Read the true scores of the made-up biographies.

    Raises:
        DataError: The file cannot be read, or holds something else.
    """
    cure = "make it with: make sample"
    advice = f"this is not the truth of made-up biographies; {cure}"
    return read_lines(path, partial(to_model, TrueScores), cure, advice)


def compare_with_truth(
    judged: Sequence[JudgedBiography], truth: Sequence[TrueScores]
) -> list[JudgeComparison]:
    """Compare the judge's scores of biographies with their true scores.

    Args:
        judged: The judged biographies.
        truth: The true scores of these biographies, in any order.

    Returns:
        The comparison of each score in `_SCORES`.

    Raises:
        DataError: The true scores of a biography are missing.
    """
    truth_by_response = {(scores.index, scores.name): scores for scores in truth}
    values_by_label: dict[str, list[dict[str, float | None]]] = {label: [] for label in _SCORES}
    for biography in judged:
        generation = biography.generation
        true_scores = truth_by_response.get((generation.index, generation.name))
        if true_scores is None:
            raise DataError(
                f"response {generation.index} ({generation.name}): found no truth about it; judge"
                " the generations that the truth belongs to"
            )
        judge_scores = score_biography(biography)
        # A refusal has no scores.
        if not judge_scores or true_scores.abstained:
            continue
        for label, name in _SCORES.items():
            values = {"judge": judge_scores.get(name), "truth": getattr(true_scores, name)}
            values_by_label[label].append(values)
    return [_compare_values(label, values) for label, values in values_by_label.items()]


def _compare_values(label: str, values: Sequence[dict[str, float | None]]) -> JudgeComparison:
    """Compare the values of one score by the judge and in truth.

    Args:
        label: The label of the score.
        values: The values of each biography: ``{"judge": 0.5, "truth": 0.75}``. A value is None if
            the score is not defined, as for a biography without facts.
    """
    # Biographies without one of the two values are in no mean.
    table = DataFrame(values, columns=["judge", "truth"]).dropna().astype(float)
    means = table.mean()
    return JudgeComparison(
        name=label,
        judge=means["judge"],
        truth=means["truth"],
        # The correlation of a constant column is NaN.
        pearson=table["judge"].corr(table["truth"]),
        responses=len(table),
    )
