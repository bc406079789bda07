"""``corrected_TASK_DATE.json`` beside lm_eval's results: scores that people's labels correct, and what they follow from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import not_finite, parse_json, sha256_of, write_json
from lm_factuality.ground.records import read_text, to_model
from lm_factuality.harness.outputs import Corrected, corrected_beside, date_in_name

_AGAIN = "delete it, or make it again by lm-factuality people correct"


class Correction(BaseModel):
    """The corrected ``scores`` of a ``task``, by name, from the labels on a sheet. ``samples``, ``key`` and ``labels`` are the
    SHA-256 of these files. ``left_out`` says what is not in the scores, with counts, and ``without`` which scores have no
    correction, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    suite_version: str
    task: str
    samples: str
    key: str
    labels: tuple[str, ...]
    scores: Mapping[str, Corrected]
    left_out: Mapping[str, int]
    without: Mapping[str, str]


def write_correction(correction: Correction, results: Path) -> Path:
    """Writes it beside the results file of its run; returns where."""
    path = results.with_name(f"corrected_{correction.task}_{date_in_name(results)}.json")
    write_json(path, correction.model_dump())
    return path


def read_correction(path: Path) -> Correction:
    """What ``write_correction`` wrote.

    Raises:
        DataError: it did not.
    """
    try:
        content = parse_json(read_text(path, _AGAIN))
        found = to_model(Correction, content)
        wrong = [name for name, each in found.scores.items() if not each.low <= each.value <= each.high]
        if wrong := [*not_finite(content), *wrong]:
            raise ValueError(f"{wrong[0]}: no finite number inside its interval")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: no corrected scores: {error}; {_AGAIN}") from error
    return found


def corrected_scores(results: Path, task: str, samples: Path | None) -> Mapping[str, Corrected]:
    """The corrected scores of a task beside its results, if there are any.

    Raises:
        DataError: they cannot be read, or are of other samples than those beside them.
    """
    path = corrected_beside(results, task)
    if path is None:
        return {}
    found = read_correction(path)
    if found.task != task or samples is None or sha256_of(samples) != found.samples:
        raise DataError(f"{path}: of other samples (SHA-256 {found.samples[:12]}) than the run has now; {_AGAIN}")
    return found.scores
