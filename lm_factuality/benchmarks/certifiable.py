"""What of a judge can be certified: a setting, in which it is asked where the truth is known, and
the steps of judged tasks that such a certificate speaks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from judges.config import JudgeConfig
from judges.judge import Judge
from lm_factuality.harness.generation import Table
from lm_factuality.harness.outputs import number_of


@dataclass(frozen=True)
class CertifyOptions:
    """The options of ``lm-factuality certify`` that say on what a judge is measured."""

    data_dir: str | None = None
    files: tuple[Path, ...] = ()
    sample: bool = False
    rows: int | None = None
    claims: Path | None = None


class SettingTrial(Protocol):
    """A setting with its data. ``data`` says what it is measured on: ``file``, ``git_blob`` and
    whether it ``is_published``; for a part of it how many ``rows``, and ``of`` how many they were
    drawn."""

    data: dict[str, Any]

    def ask(self, judge: Judge) -> object:
        """What the judge makes of the data."""

    def measure(self, judge: Judge) -> dict[str, Any]:
        """``scores`` (under ``ALL`` those of everything, under ``unscored`` how many ``responses``
        have no verdict, and the ``reasons``), their ``intervals``, and what is to be read beside
        them. Raises BackendDownError: the judge has no verdict at all, so there is nothing to
        certify."""

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """The prompts that the judge is asked with."""

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """(columns, rows, notes) for the terminal."""


@dataclass(frozen=True)
class CertifiableSetting:
    """A setting in which a judge is measured."""

    name: str

    description: str
    """What is measured."""

    headline: tuple[str, ...]
    """The keys of the figure that is printed beside scores."""

    label: str
    """What the figure is called."""

    git_blob: str
    """The ``git_blob`` of the published data."""

    open_trial: Callable[[CertifyOptions], SettingTrial]

    accepted_options: tuple[str, ...] = ()
    """The fields of `CertifyOptions` besides ``data_dir`` that it can use."""

    is_default: Callable[[JudgeConfig], bool] = lambda config: False
    """Whether ``certify`` takes it for a judge unless told otherwise."""


@dataclass(frozen=True)
class CertificationStatus:
    """What is known of the judge of a run in a step."""

    step: str
    text: str
    is_certified: bool


@dataclass(frozen=True)
class JudgedStep:
    """A step of a task that its judge decides."""

    name: str

    settings: tuple[CertifiableSetting, ...]
    """Those whose certificates speak for the step, the best first. There are none if nothing was
    released to hold the judge against."""

    dependent_scores: str
    """The scores that rest on it, as readers call them."""

    required_metadata: Mapping[str, str] = field(default_factory=dict)
    """The task's settings that these certificates are measured with. They say nothing of a run
    with others."""

    def certification_status(self, metadata: Mapping[str, Any]) -> CertificationStatus:
        """Return what a task's metadata say of its judge in this step."""
        step = f"{self.name} (behind {self.dependent_scores})"
        unmeasured = [
            f"{key}: {metadata[key]}"
            for key, value in self.required_metadata.items()
            if metadata.get(key, value) != value
        ]
        if unmeasured:
            reason = f": no judge is measured with {', '.join(unmeasured)}"
            return CertificationStatus(step, f"not certified{reason}", False)
        if not self.settings:
            return CertificationStatus(
                step, "not certified: no released decisions to hold it against", False
            )

        judge = as_mapping(metadata.get("judge_config"))
        certificates = as_mapping(metadata.get("judge_certificate"))
        reason = ""
        for setting in self.settings:
            certificate = certificates.get(setting.name)
            if not isinstance(certificate, dict):
                continue
            hashes = as_mapping(certificate.get("prompt_hashes"))
            run_hashes = as_mapping(judge.get("prompt_hashes"))
            if all(hashes[name] == run_hashes[name] for name in set(hashes) & set(run_hashes)):
                return CertificationStatus(step, _in_words(setting, certificate), True)
            reason = ": its certificate is of other prompts"
            break
        # Of several settings the command knows which suits the judge.
        option = f" --setting {self.settings[0].name}" if len(self.settings) == 1 else ""
        command = f"lm-factuality certify --judge {judge.get('name', 'CONFIG')}{option}"
        return CertificationStatus(step, f"not certified{reason}; run {command}", False)


def _in_words(setting: CertifiableSetting, certificate: Mapping[str, Any]) -> str:
    """Return the headline of a certificate in short with its interval, and what it is on."""
    value, ends = certificate.get("scores"), certificate.get("intervals")
    for key in setting.headline:
        value, ends = as_mapping(value).get(key), as_mapping(ends).get(key)
    number = number_of(value)
    figure = "not defined" if number is None else f"{number:.1%}"
    low, high = map(number_of, ends) if isinstance(ends, list) and len(ends) == 2 else (None, None)
    interval = "" if low is None or high is None else f" [{low:.1%}, {high:.1%}]"
    data = as_mapping(certificate.get("data"))
    part = f", on {data['rows']} of {data['of']} responses" if {"rows", "of"} <= set(data) else ""
    unscored = int(number_of(certificate.get("unscored")) or 0)
    lost = f", {unscored} unscored" if unscored else ""
    date = str(certificate.get("date"))[:10]
    return f"{setting.label} {figure}{interval}{part}{lost} ({setting.name}, {date})"


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of a file of others, or an empty one if it is something else."""
    return value if isinstance(value, dict) else {}
