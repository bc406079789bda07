"""What can be certified of a judge, and what its certificates say about a run.

A certificate records how often a judge agrees with known labels in one setting. Benchmarks declare
their settings and judged steps with these classes. Results and reports show the status of each
step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from judges.config import CONFIG_FOLDER, JudgeConfig
from judges.judge import Judge
from lm_factuality.ground.published import blob_id
from lm_factuality.ground.suite import find_config
from lm_factuality.harness.generation import Table
from lm_factuality.harness.outputs import number_of


@dataclass(frozen=True)
class CertifyOptions:
    """The options of ``lm-factuality certify`` that choose the data to measure a judge on."""

    data_dir: str | None = None
    """The folder with downloaded data. None stands for the default folder."""

    files: tuple[Path, ...] = ()
    """The user's own data files, instead of the published ones."""

    sample: bool = False
    """Whether to measure on the small sample that comes with the package."""

    rows: int | None = None
    """How many rows to draw from the data, or None for all rows."""

    claims: Path | None = None
    """A file with the claims of each response."""


class SettingTrial(Protocol):
    """A setting with its data opened, ready to be put to a judge."""

    data: dict[str, Any]
    """The data that the judge is measured on.

    It has the keys ``file``, ``git_blob`` and ``is_published``, and for a part of the data
    ``rows``, the number of rows that were drawn, and ``of``, the number that there are.
    """

    def ask(self, judge: Judge) -> object:
        """Ask the judge everything that the setting measures, and return its answers."""

    def measure(self, judge: Judge) -> dict[str, Any]:
        """Ask the judge, and compare its answers with the labels.

        Returns:
            The ``scores``, by level, their ``intervals``, and under ``unscored`` how many responses
            have no verdict, with the ``reasons``. A setting may add further figures.

        Raises:
            BackendDownError: The judge gave no verdict at all, so nothing can be certified.
        """

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """Return the hash of each prompt that the judge is asked with, by the prompt's name."""

    def make_table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """Return a certificate as columns, rows and notes for the terminal.

        Args:
            certificate: The certificate that was made from the measured scores.
            judge: The name of the judge.
        """


@dataclass(frozen=True)
class Disagreement:
    """A decision of a judge that differs from its label."""

    id: str
    """The id among the decisions that a trial measures."""

    cluster: str
    """The name or document that the decision is about, as in the intervals."""

    text: str
    """What was decided about, such as a fact."""

    label: str
    """The label in words, such as ``supported``."""

    verdict: str
    """The judge's decision in words."""

    reason: str = ""
    """The judge's reason, or an empty text."""

    evidence: tuple[tuple[str, str], ...] = ()
    """What the judge saw: headings and texts."""


Ruling: TypeAlias = Literal["judge", "label", "neither"]
"""Who is right, as people say. A case in which neither is right measures nothing."""

Rulings: TypeAlias = Mapping[str, Ruling]
"""What people say about disagreements, by their ids."""

NO_RULINGS: Rulings = MappingProxyType({})


@runtime_checkable
class AdjudicableTrial(SettingTrial, Protocol):
    """A trial whose labels people can correct, case by case."""

    def disagreements(self, judge: Judge) -> list[Disagreement]:
        """Ask the judge, and return each decision that differs from its label."""

    def measure(self, judge: Judge, rulings: Rulings = NO_RULINGS) -> dict[str, Any]:
        """Measure the judge with the labels as people corrected them.

        Where the judge is right, its decision becomes the label. A case in which neither is right
        is left out.
        """


@dataclass(frozen=True)
class CertifiableSetting:
    """A setting in which a judge is measured against known labels."""

    name: str
    """The name that ``certify --setting`` takes, such as ``segment_doc``."""

    description: str
    """What is measured, such as ``finding errors``. It is part of a table's title."""

    headline: tuple[str, ...]
    """The keys that lead to the main score in a certificate's ``scores``."""

    label: str
    """The name of the main score for readers, such as ``F1 of segments with errors``."""

    git_blob: str
    """The git blob id of the published data."""

    open_trial: Callable[[CertifyOptions], SettingTrial]
    """Reads the data that the options choose."""

    accepted_options: tuple[str, ...] = ()
    """The fields of `CertifyOptions` that the setting can use, besides ``data_dir``."""

    is_default: Callable[[JudgeConfig], bool] = lambda config: False
    """Says whether ``certify`` uses this setting for a judge if the user names none."""


@dataclass(frozen=True)
class CertificationStatus:
    """What is known about the quality of a run's judge in one step."""

    step: str
    """The step with the scores that depend on it."""

    text: str
    """The certified figure, or why there is none and what to do about it."""

    is_certified: bool

    is_claimed: bool = False
    """Whether a stranger made the certificate, and nobody has computed it again."""


@dataclass(frozen=True)
class JudgedStep:
    """A step of a task in which a judge decides, such as the verification of facts."""

    name: str

    settings: tuple[CertifiableSetting, ...]
    """The settings whose certificates apply to the step, the best first.

    There are none if nobody has released labels to compare a judge with.
    """

    dependent_scores: str
    """The scores that depend on the step, in the words of readers."""

    required_metadata: Mapping[str, str] = field(default_factory=dict)
    """The task settings under which the certificates were measured.

    They say nothing about runs with other values of these settings.
    """

    method: str = ""
    """The value of the setting ``method`` in runs that take this step. Empty if all runs do."""

    def certification_status(self, metadata: Mapping[str, Any]) -> CertificationStatus:
        """Look up whether the judge of a run is certified for this step.

        Args:
            metadata: The metadata of the run's task, with ``judge_config`` and
                ``judge_certificate``.

        Returns:
            The score of the certificate that applies, such as ``F1 61.3% (segment_doc,
            2026-01-31)``, or why none does, such as ``not certified; run lm-factuality certify
            --judge small.yaml``.
        """
        step = f"{self.name} (behind {self.dependent_scores})"
        reason = self._why_not_certifiable(metadata)
        if reason:
            return CertificationStatus(step, f"not certified: {reason}", is_certified=False)

        # Files of others may lack these keys or hold something else under them.
        judge = as_mapping(metadata.get("judge_config"))
        certificates = as_mapping(metadata.get("judge_certificate"))
        run_command = f"run {self._certify_command(judge)}"
        certified_settings = [
            setting for setting in self.settings if isinstance(certificates.get(setting.name), dict)
        ]
        if not certified_settings:
            return CertificationStatus(step, f"not certified; {run_command}", is_certified=False)

        # The settings come in order of quality, so the first certificate counts.
        best_setting = certified_settings[0]
        certificate = certificates[best_setting.name]
        certified_hashes = as_mapping(certificate.get("prompt_hashes"))
        # A certificate says nothing about a judge whose prompts have changed since.
        if changed_prompts(certified_hashes, judge):
            text = f"not certified: its certificate is of other prompts; {run_command}"
            return CertificationStatus(step, text, is_certified=False)

        # A leaderboard adds the key "claimed" to the certificates of strangers.
        is_claimed = bool(certificate.get("claimed"))
        text = _describe_certificate(best_setting, certificate)
        if is_claimed:
            text = f"claimed: {text}"
        return CertificationStatus(step, text, is_certified=not is_claimed, is_claimed=is_claimed)

    def _certify_command(self, judge: Mapping[str, Any]) -> str:
        """Return the command that measures a judge in this step, for a user to copy.

        Args:
            judge: The judge's configuration as results state it. It may lack the name.
        """
        name = str(judge.get("name", "CONFIG"))
        # Only the suite's own judges can be named without their file.
        has_suite_file = find_config(CONFIG_FOLDER / f"{name}.yaml").is_file()
        command = f"lm-factuality certify --judge {name if has_suite_file else f'{name}.yaml'}"
        # If there are several settings, the command picks the one that suits the judge.
        if len(self.settings) == 1:
            command += f" --setting {self.settings[0].name}"
        return command

    def _why_not_certifiable(self, metadata: Mapping[str, Any]) -> str:
        """Say why no judge can be certified for this step of a run.

        Args:
            metadata: The metadata of the run's task.

        Returns:
            The reason as a phrase, such as ``no judge is measured with knowledge: none``. Empty if
            a judge can be certified.
        """
        # Certificates hold only under the settings with which they were measured.
        unmeasured = []
        for key, measured_value in self.required_metadata.items():
            # A run that does not state the setting has the default, which was measured.
            value = metadata.get(key, measured_value)
            if value != measured_value:
                unmeasured.append(f"{key}: {value}")
        if unmeasured:
            return f"no judge is measured with {', '.join(unmeasured)}"
        # Without published labels, there is nothing to compare a judge's decisions with.
        return "" if self.settings else "no reference data"


def describe_files(paths: Sequence[Path], published_blobs: str) -> dict[str, Any]:
    """Describe the files that a judge is measured on, as certificates state them.

    Args:
        paths: The files. Certificates do not show folders, since these differ between machines.
        published_blobs: The git blob ids of the published files, joined by commas.
    """
    blobs = ",".join(map(blob_id, paths))
    file_names = ", ".join(path.name for path in paths)
    return {"file": file_names, "git_blob": blobs, "is_published": blobs == published_blobs}


def changed_prompts(certified_hashes: Mapping[str, Any], judge: Mapping[str, Any]) -> list[str]:
    """Return the names of the prompts that differ between a certificate and a run, sorted.

    A prompt that only one of them uses does not count as changed.

    Args:
        certified_hashes: The hash of each prompt of the certificate, by the prompt's name.
        judge: The configuration of the run's judge, which holds its ``prompt_hashes``.
    """
    run_hashes = as_mapping(judge.get("prompt_hashes"))
    shared_names = set(certified_hashes) & set(run_hashes)
    # The hash of a prompt changes with every change of its text.
    return sorted(name for name in shared_names if certified_hashes[name] != run_hashes[name])


def _describe_certificate(setting: CertifiableSetting, certificate: Mapping[str, Any]) -> str:
    """Return the main score of a certificate as a short text with its interval, data and date.

    Args:
        setting: The setting of the certificate.
        certificate: The short form of a certificate, as results hold it.

    Example:
        ``F1 of segments with errors 61.3% [55.0%, 67.2%], 3 unscored (segment_doc, 2026-01-31)``
    """
    parts = [_describe_main_score(setting, certificate)]

    # Certificates on all of the data do not count rows.
    data = as_mapping(certificate.get("data"))
    if "rows" in data and "of" in data:
        parts.append(f"on {data['rows']} of {data['of']} responses")

    num_unscored = int(number_of(certificate.get("unscored")) or 0)
    if num_unscored:
        parts.append(f"{num_unscored} unscored")
    # Only the day of a time such as 2026-01-31T12:00:00+00:00.
    date = str(certificate.get("date"))[:10]
    return f"{', '.join(parts)} ({setting.name}, {date})"


def _describe_main_score(setting: CertifiableSetting, certificate: Mapping[str, Any]) -> str:
    """Return the main score of a certificate with its 95% interval, if it has one.

    Args:
        setting: The setting of the certificate.
        certificate: The short form of a certificate, as results hold it.

    Example:
        ``F1 of segments with errors 61.3% [55.0%, 67.2%]``
    """
    score = number_of(_value_at(certificate.get("scores"), setting.headline))
    text = f"{setting.label} not defined" if score is None else f"{setting.label} {score:.1%}"
    interval = _value_at(certificate.get("intervals"), setting.headline)
    # Files of others may hold something else than two numbers.
    if not isinstance(interval, list | tuple) or len(interval) != 2:
        return text
    low, high = map(number_of, interval)
    if low is None or high is None:
        return text
    return f"{text} [{low:.1%}, {high:.1%}]"


def _value_at(nested: object, keys: Sequence[str]) -> object:
    """Return what several keys lead to in nested JSON objects, or None if there is nothing.

    Example:
        ``{"segment": {"f1": 0.613}}`` and the keys ``("segment", "f1")`` give 0.613.
    """
    for key in keys:
        nested = as_mapping(nested).get(key)
    return nested


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object from a file that others wrote, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}
