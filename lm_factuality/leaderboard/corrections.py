"""Scores of a submission that people's labels correct: worked out again from the sheet's key and the labels, and the draw of the
sheet from its seed. Whether people said so, nobody can see from files."""

import random
from collections.abc import Iterator
from pathlib import Path

from lm_factuality.ground.errors import FactualityError
from lm_factuality.harness.outputs import TaskResult, corrected_beside
from lm_factuality.leaderboard.runs import without_folder
from lm_factuality.leaderboard.submission import Refusal, Submission
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import draw
from lm_factuality.people.units import read_pool
from lm_factuality.results.corrected import read_correction
from lm_factuality.results.recompute import same


def check_correction(folder: Path, submission: Submission, results: Path, task: TaskResult) -> Iterator[Refusal]:
    """What of the corrected scores of a task does not follow from what is submitted."""
    path = corrected_beside(results, task.task)
    if path is None:
        return
    try:
        wrong = _wrong_draw(folder / submission.key, task)
        found = correct(task, folder / submission.key, [folder / each for each in submission.labels])
        if not wrong and not same(found.model_dump(), read_correction(path).model_dump()):
            wrong = "its labels give other corrected scores; pack again"
    except FactualityError as error:
        wrong = f"cannot be worked out again: {without_folder(error, folder)}"
    if wrong:
        yield Refusal("CORRECTION_CHANGED", task.task, wrong)


def _wrong_draw(path: Path, task: TaskResult) -> str:
    """Why the samples on a sheet are not those that its seed draws from the run; empty if they are."""
    key = read_key(path)
    if len(key.sources) != 1 or task.samples is None:
        return "its sheet is of several runs, so that its draw cannot be repeated; make one of this run alone"
    chosen = {each.unit for each in key.items}
    units = read_pool([task.samples], questions=key.questions).units
    drawn, strata = draw(units, len(chosen), key.stratify, random.Random(key.seed))
    is_so = chosen == {each.unit.key for each in drawn} and list(strata) == list(key.strata)
    return "" if is_so else "the samples on its sheet are not those that its seed draws; correct by a sheet as it was drawn"
