"""The first run: the sample benchmark with both tiny checkpoints, through lm_eval; then made-up biographies of known truth,
judged offline."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_lines
from lm_factuality.ground.statistics import Outcome, bootstrap_interval, clustered_stderr, mean
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.run import run
from lm_factuality.harness.samples import read_samples

if TYPE_CHECKING:
    from lm_factuality.sample.biography_truth import Measure

TASK = "sample_factor"
CHECKPOINTS = ("larger", "smaller")
PAGE, VERDICTS = "biographies.html", "verdicts.jsonl"


@dataclass(frozen=True)
class Score:
    """Accuracy of one checkpoint, with its interval, and what knowing nothing scores, as shares; ``unscored`` counts rows."""

    checkpoint: str
    parameters: int
    accuracy: float
    stderr: float
    low: float
    high: float
    floor: float
    num_rows: int
    unscored: int


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
    samples = max(target.glob(f"*/samples_{TASK}_*.jsonl"), key=lambda path: path.name)  # names end in the time of the run
    outcomes: list[Outcome | None] = []
    floors: list[float] = []
    for sample in read_samples(samples):
        right = sample["factor_acc"]
        outcomes.append(None if right is None else Outcome(right, sample["doc"]["doc_id"]))
        floors += [sample["floor"]] if right is not None else []
    parameters = json.loads((folder / "training.json").read_text(encoding="utf-8"))["parameters"]
    accuracy, unscored = mean(outcomes), outcomes.count(None)
    interval = bootstrap_interval(outcomes)
    return Score(checkpoint, parameters, accuracy, clustered_stderr(outcomes), *interval, fmean(floors), len(outcomes), unscored)


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
    from lm_factuality.benchmarks.biographies.records import read_records
    from lm_factuality.benchmarks.biographies.viewer import write_page
    from lm_factuality.sample.biography_truth import compare_with_truth, read_truth

    sample = tasks_folder() / "sample"
    generations = read_generations([sample / "sample_ambigbio_generations.json"])
    output.mkdir(parents=True, exist_ok=True)
    with Judge.open(load_judge_config(LEXICAL), store=output / "answers.sqlite") as judge:
        records = AMBIGBIO.judge(judge, [to_doc(each) for each in generations], [[each.output] for each in generations])
    write_lines(output / VERDICTS, (json.dumps(record, ensure_ascii=False) for record in records))
    judged = read_records(output / VERDICTS)
    settings = AMBIGBIO.settings
    write_page(output / PAGE, judged, "Biographies of the sample, judged offline", settings.protocol, settings.linking)
    measures = compare_with_truth(judged, read_truth(sample / "sample_ambigbio_truth.jsonl"))
    return JudgedSample(len(judged), measures, output / PAGE, output / VERDICTS)
