"""Whether a submission is what it says: every score is recomputed from its samples, and nothing is
believed.

What cannot be known from the files is whether the model, and a judge that is a model, said what the
samples hold; who doubts it runs them again. Whatever one submission is like, the others beside it
are checked."""

import logging
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, DataError, FactualityError
from lm_factuality.harness.outputs import TaskResult, beside
from lm_factuality.leaderboard.contents import check_contents
from lm_factuality.leaderboard.judges import check_judge
from lm_factuality.leaderboard.rows import check_rows
from lm_factuality.leaderboard.rules import Rules, read_rules
from lm_factuality.leaderboard.runs import (
    Run,
    check_claims,
    check_runs,
    check_task,
    read_runs,
    without_folder,
)
from lm_factuality.leaderboard.submission import FILE, Refusal, Refused, Submission, read_submission
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import draw, read_pool
from lm_factuality.results.read import read_correction
from lm_factuality.results.recompute import same

logger = logging.getLogger(__name__)
UNFINISHED = ".packing"  # the folder in which pack works


@dataclass(frozen=True)
class Checked:
    """A submission and why it is refused, if so. ``tasks`` are its results by task, shown only if
    accepted."""

    folder: Path
    submission: Submission | None
    refusals: tuple[Refusal, ...]
    tasks: Mapping[str, TaskResult] = field(default_factory=dict)


def check_submission(folder: Path, rules_folder: Path | None = None) -> Checked:
    """Everything that is wrong with the submission in ``folder``, by the suite's rules or those in
    ``rules_folder``. What cannot be read is refused too, whatever it is: one submission must not
    keep others from being checked."""
    submission, runs, refusals = None, list[Run](), list[Refusal]()
    try:
        submission = read_submission(folder)
        try:
            rules = read_rules(submission.leaderboard, rules_folder)
        except ConfigError as error:
            raise Refused(Refusal("LEADERBOARD_UNKNOWN", FILE, str(error))) from error
        refusals += check_contents(folder, submission)
        runs = read_runs(folder, submission)
        refusals += check_runs(submission, runs, rules)
        refusals += _check_tasks(folder, submission, runs, rules)
        refusals += check_claims(submission, runs)
    except Refused as error:
        refusals += error.refusals
    except (
        Exception
    ) as error:  # written by a stranger: there is no end to the kinds of what can be wrong with it
        logger.debug("%s: not as lm_eval writes it", folder, exc_info=True)
        sentence = (
            f"not as lm_eval writes it: {type(error).__name__}: {without_folder(error, folder)};"
            " run and pack again"
        )
        refusals.append(Refusal("RESULTS_INVALID", "results", sentence))
    tasks = {task.task: task for run in runs for task in run.file.tasks}
    return Checked(folder, submission, tuple(dict.fromkeys(refusals)), tasks)


def _check_tasks(
    folder: Path, submission: Submission, runs: Sequence[Run], rules: Rules
) -> Iterator[Refusal]:
    """What is wrong with the tasks of the leaderboard, each by itself. A judge is asked again where
    all else is in order."""
    tasks = {task.task: (run, task) for run in runs for task in run.file.tasks}
    for expected in rules.tasks:
        if expected.task in tasks:
            run, task = tasks[expected.task]
            refusals = [
                *check_task(run, task, expected, rules),
                *check_judge(folder, submission, task, expected, rules),
            ]
            yield from refusals
            yield from check_rows(
                folder, submission.model, run, task, expected, asks_again=not refusals
            )
            yield from check_correction(folder, submission, run.file.path, task)


def check_correction(
    folder: Path, submission: Submission, results: Path, task: TaskResult
) -> Iterator[Refusal]:
    """What of the corrected scores of a task does not follow from the sheet's key, the labels, and
    the draw of the sheet from its seed. Whether people said so, nobody can see from files."""
    path = beside(results, f"corrected_{task.task}", ".json")
    if path is None:
        return
    try:
        wrong = _wrong_draw(folder / submission.key, task)
        found = correct(
            task, folder / submission.key, [folder / each for each in submission.labels]
        )
        if not wrong and not same(found.model_dump(), read_correction(path).model_dump()):
            wrong = "its labels give other corrected scores; pack again"
    except FactualityError as error:
        wrong = f"cannot be recomputed: {without_folder(error, folder)}"
    if wrong:
        yield Refusal("CORRECTION_CHANGED", task.task, wrong)


def _wrong_draw(path: Path, task: TaskResult) -> str:
    """Why the samples on a sheet are not those that its seed draws from the run; empty if they
    are."""
    key = read_key(path)
    if len(key.sources) != 1 or task.samples is None:
        return (
            "its sheet is of several runs, so that its draw cannot be repeated; make one of this"
            " run alone"
        )
    chosen = {each.unit for each in key.items}
    units = read_pool([task.samples], questions=key.questions).units
    drawn, strata = draw(units, len(chosen), key.stratify, random.Random(key.seed))
    is_so = chosen == {unit.key for unit in drawn} and list(strata) == list(key.strata)
    return (
        ""
        if is_so
        else (
            "the samples on its sheet are not those that its seed draws; correct by a sheet as it"
            " was drawn"
        )
    )


def find_submissions(folder: Path) -> list[Path]:
    """All submissions below ``folder``, by path, and ``folder`` itself if it is one. No link is
    followed, but one to a folder is among them: ``check_every`` refuses it. What ``pack`` has not
    finished is none. Raises DataError: there are none."""
    found: list[Path] = []
    links: list[Path] = []
    for parent, folders, files in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if name != UNFINISHED]
        if FILE in files:
            found.append(Path(parent))
        links += [path for name in folders if (path := Path(parent) / name).is_symlink()]
    found += [link for link in links if not any(link.is_relative_to(each) for each in found)]
    if not found:
        raise DataError(
            f"{folder}: no {FILE} here or below; make a submission with: lm-factuality leaderboard"
            " pack"
        )
    return sorted(found)


def check_every(folders: Sequence[Path], rules: Path | None = None) -> Iterator[Checked]:
    """What ``check_submission`` says of each, in order; one that it cannot cope with is refused for
    that."""
    for folder in tqdm(folders, desc="checking", unit="submission", delay=2, disable=None):
        yield check_surely(folder, rules)


def check_surely(folder: Path, rules: Path | None = None) -> Checked:
    """What ``check_submission`` says; a refusal instead of any error."""
    try:
        if not folder.is_symlink():
            return check_submission(folder, rules)
        refusal = Refusal(
            "PATH_ESCAPES", folder.name, "is a link; a submission is a folder of its own"
        )
    except Exception as error:
        # A folder that the check was not made for must not hide what it would say of the others.
        logger.exception("%s: the check failed", folder)
        refusal = Refusal(
            "SUBMISSION_INVALID", FILE, f"the check itself failed: {type(error).__name__}"
        )
    return Checked(folder, None, (refusal,))
