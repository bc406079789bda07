"""Compute a packed certificate again, from the answers of the judge that are packed with it.

`lm_factuality.leaderboard.evidence` calls `recompute_certificate`.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from judges.certificates import ReplayedJudge, answers_path
from judges.config import JudgeConfig, config_from_description
from lm_factuality.benchmarks.certifiable import CertifyOptions, SettingTrial, as_mapping
from lm_factuality.benchmarks.certified import certifiable_settings
from lm_factuality.ground.errors import DataError, FactualityError
from lm_factuality.leaderboard.documents import data_folder
from lm_factuality.leaderboard.submission import message_without_folder
from lm_factuality.results.recompute import UNREADABLE, first_difference, is_same_value

_UNUSABLE = (FactualityError, *UNREADABLE)


class Recomputation(NamedTuple):
    """What became of computing a certificate again."""

    problem: str = ""
    """The first figure that does not follow from the answers; empty if there is none."""

    obstacle: str = ""
    """Why the certificate cannot be computed again; empty if it can."""


def recompute_certificate(path: Path, certificate: Mapping[str, Any]) -> Recomputation:
    """Measure a judge again by its packed answers, and compare the figures of its certificate.

    The questions and labels come from this machine, and only the answers from the submitter.

    Args:
        path: The certificate. The answers are in the file beside it, if they are packed.
        certificate: The content of the certificate, which can hold anything.
    """
    answers = answers_path(path)
    if not answers.is_file():
        return Recomputation(obstacle=f"there is no {answers.name}")
    try:
        trial = _open_trial(certificate)
    except _UNUSABLE as error:
        return Recomputation(obstacle=str(error))

    try:
        config = config_from_description(as_mapping(certificate.get("judge")), f"{path}: judge")
        measured = _measure_again(trial, config, answers)
    except _UNUSABLE as error:
        reason = message_without_folder(error, path.parent)
        return Recomputation(problem=f"its figures cannot be computed again: {reason}")
    for key, value in measured.items():
        difference = first_difference(value, certificate.get(key), key)
        if difference:
            return Recomputation(problem=f"{difference}, as the answers in {answers.name} give")
    return Recomputation()


def _measure_again(trial: SettingTrial, config: JudgeConfig, answers: Path) -> dict[str, Any]:
    """Measure a judge that gives its packed answers again. The trial must ask for all of them."""
    with (
        TemporaryDirectory() as folder,
        closing(ReplayedJudge(config, answers, Path(folder))) as judge,
    ):
        measured = trial.measure(judge)
        judge.refuse_more_answers()
        return measured


def _open_trial(certificate: Mapping[str, Any]) -> SettingTrial:
    """Open the data on which a judge was certified, if it is on this machine.

    Args:
        certificate: The content of the certificate, which can hold anything.

    Returns:
        The trial of the certificate's setting, which measures a judge on this data.

    Raises:
        DataError: The data is not on this machine, or the certificate is of the submitter's own
            data. A malformed certificate raises other errors of `_UNUSABLE`.
    """
    stated_data = certificate["data"]
    options = CertifyOptions(
        # Without the name of a folder, missing data would be downloaded.
        data_dir=str(data_folder()),
        # Data that is not published can only be the suite's sample, which some settings have.
        sample=not stated_data["is_published"],
        rows=stated_data.get("rows"),
    )
    setting = certifiable_settings()[certificate["setting"]]
    trial = setting.open_trial(options)
    # The data of this machine is published or part of the suite. If the certificate states another
    # hash, it is of data that only the submitter has.
    if not is_same_value(trial.data, stated_data):
        raise DataError("it is of data that others do not have")
    return trial
