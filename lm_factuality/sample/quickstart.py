"""The first run: the sample benchmark with both tiny checkpoints, through lm_eval; then made-up biographies of known truth,
judged offline."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lm_factuality.benchmarks.chosen import Figure, figure
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_lines
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.run import run
from lm_factuality.results.read import read_results_file

if TYPE_CHECKING:
    from lm_factuality.sample.biography_truth import Measure

TASK = "sample_factor"
CHECKPOINTS = ("larger", "smaller")
PAGE, VERDICTS = "biographies.html", "verdicts.jsonl"


@dataclass(frozen=True)
class Score:
    """Accuracy of one checkpoint."""

    checkpoint: str
    parameters: int
    accuracy: Figure


@dataclass(frozen=True)
class JudgedSample:
    """How near the offline judge comes to the truth of ``responses`` biographies; ``page`` shows them, ``verdicts`` has
    them as records."""

    responses: int
    measures: list[Measure]
    page: Path
    verdicts: Path


def quickstart(output: Path) -> list[Score]:
    """Runs ``sample_factor`` with every checkpoint and leaves lm_eval's files under ``output``.

    Raises:
        DataError: the checkpoints are missing from this installation, or ``output`` cannot be written.
    """
    scores = []
    for checkpoint in CHECKPOINTS:
        folder = tasks_folder() / "sample" / "models" / checkpoint
        if not (folder / "model.safetensors").is_file():
            raise DataError(f"{folder}: no checkpoint here; 'make sample' trains both")
        target = output / checkpoint
        target.mkdir(parents=True, exist_ok=True)
        options = {
            "--model": "hf",
            "--model_args": json.dumps({"pretrained": str(folder), "dtype": "float32"}),
            "--tasks": TASK,
            "--batch_size": "16",
            "--output_path": str(target),
        }
        with (target / "lm_eval.log").open("w", encoding="utf-8") as log, contextlib.redirect_stdout(log):
            run([*(part for option in options.items() for part in option), "--log_samples"])
        scores.append(_score(checkpoint, folder, target))
    return scores


def _score(checkpoint: str, folder: Path, target: Path) -> Score:
    results = max(target.glob("*/results_*.json"), key=lambda path: path.name)  # names end in the time of the run
    (task,) = read_results_file(results).tasks
    found = figure(task, "factor_acc")
    assert found is not None
    parameters = json.loads((folder / "training.json").read_text(encoding="utf-8"))["parameters"]
    return Score(checkpoint, parameters, found)


def judge_sample(output: Path) -> JudgedSample:
    """Judges ``sample_ambigbio``'s answers with the lexical judge; leaves ``verdicts.jsonl`` (as ``lm-factuality judge ambigbio``
    writes it), the page and the judge's answers (``answers.sqlite``) in ``output``.

    Raises:
        DataError: the sample is missing from this installation, or ``output`` cannot be written.
    """
    from judges import LEXICAL
    from judges.config import load_judge_config
    from judges.judge import Judge
    from lm_factuality.benchmarks.biographies.generations import read_generations, to_doc
    from lm_factuality.benchmarks.biographies.judging import AMBIGBIO
    from lm_factuality.benchmarks.biographies.types import read_lines
    from lm_factuality.benchmarks.biographies.viewer import write_page
    from lm_factuality.sample.biography_truth import compare_with_truth, read_truth

    sample = tasks_folder() / "sample"
    generations = read_generations([sample / "sample_ambigbio_generations.json"])
    output.mkdir(parents=True, exist_ok=True)
    with Judge.open(load_judge_config(LEXICAL), store=output / "answers.sqlite") as judge:
        records = AMBIGBIO.judge(judge, [to_doc(each) for each in generations], [[each.output] for each in generations])
    write_lines(output / VERDICTS, (json.dumps(record, ensure_ascii=False) for record in records))
    judged = [each.judged for each in read_lines(output / VERDICTS)]
    settings = AMBIGBIO.settings
    write_page(output / PAGE, judged, "Biographies of the sample, judged offline", settings.protocol, settings.linking)
    measures = compare_with_truth(judged, read_truth(sample / "sample_ambigbio_truth.jsonl"))
    return JudgedSample(len(judged), measures, output / PAGE, output / VERDICTS)
