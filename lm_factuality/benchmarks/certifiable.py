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
class Wanted:
    """The options of ``lm-factuality certify`` that say on what a judge is measured."""

    data_dir: str | None = None
    files: tuple[Path, ...] = ()
    sample: bool = False
    rows: int | None = None
    claims: Path | None = None


class Trial(Protocol):
    """A setting with its data. ``data`` says what it is measured on: ``file``, ``git_blob`` and
    whether it ``is_published``; for a part of it how many ``rows``, and ``of`` how many they were
    drawn."""

    data: dict[str, Any]

    def ask(self, judge: Judge) -> object:
        """What the judge makes of the data."""

    def measure(self, judge: Judge) -> dict[str, Any]:
        """``scores`` (under ``ALL`` those of everything, under ``unscored`` how many ``responses``
        have no verdict, and the ``reasons``), their ``intervals``, and what is to be read beside
        them. Raises BackendDown: the judge has no verdict at all, so there is nothing to
        certify."""

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """The prompts that the judge is asked with."""

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """(columns, rows, notes) for the terminal."""


@dataclass(frozen=True)
class Certifiable:
    """A setting. ``what`` says what is measured, ``headline`` where the figure stands that is
    printed beside scores, ``label`` what it is called. ``blob`` is the ``git_blob`` of the
    published data. ``takes`` are the fields of ``Wanted`` besides ``data_dir`` that it can use;
    ``is_default`` says whether ``certify`` takes it for a judge unless told otherwise."""

    name: str
    what: str
    headline: tuple[str, ...]
    label: str
    blob: str
    open: Callable[[Wanted], Trial]
    takes: tuple[str, ...] = ()
    is_default: Callable[[JudgeConfig], bool] = lambda config: False


@dataclass(frozen=True)
class Stated:
    step: str
    text: str
    is_certified: bool


@dataclass(frozen=True)
class JudgedStep:
    """A step of a task that its judge decides. ``settings`` are those whose certificates speak for
    it, the best first; none where nothing was released to hold it against. ``behind`` are the
    scores that rest on it, as readers call them. ``measured`` is what these certificates are
    measured with of a task's own settings; of a run with others they say nothing."""

    name: str
    settings: tuple[Certifiable, ...]
    behind: str
    measured: Mapping[str, str] = field(default_factory=dict)

    def _found(self, metadata: Mapping[str, Any]) -> tuple[Certifiable, Mapping[str, Any]] | None:
        given = mapping(metadata.get("judge_certificate"))
        return next(
            (
                (each, given[each.name])
                for each in self.settings
                if isinstance(given.get(each.name), dict)
            ),
            None,
        )

    def stated(self, metadata: Mapping[str, Any]) -> Stated:
        """What a task's ``metadata`` say of its judge in this step."""
        judge, found = mapping(metadata.get("judge_config")), self._found(metadata)
        step = f"{self.name} (behind {self.behind})"
        if other := [
            f"{key}: {metadata[key]}"
            for key, value in self.measured.items()
            if metadata.get(key, value) != value
        ]:
            return Stated(
                step, f"not certified: no judge is measured with {', '.join(other)}", False
            )
        if found is not None:
            own, run = mapping(found[1].get("prompt_hashes")), mapping(judge.get("prompt_hashes"))
            if all(own[name] == run[name] for name in set(own) & set(run)):
                return Stated(step, _in_words(*found), True)
        if not self.settings:
            return Stated(step, "not certified: no released decisions to hold it against", False)
        why = (
            "not certified"
            if found is None
            else "not certified: its certificate is of other prompts"
        )
        # Of several settings the command knows which suits the judge.
        setting = f" --setting {self.settings[0].name}" if len(self.settings) == 1 else ""
        return Stated(
            step,
            f"{why}; run lm-factuality certify --judge {judge.get('name', 'CONFIG')}{setting}",
            False,
        )


def _in_words(setting: Certifiable, content: Mapping[str, Any]) -> str:
    """The headline of a certificate, whole or in short, with its interval, what it is on, and how
    much has no verdict."""
    value: Any = whole_scores(content)
    ends: Any = content.get("intervals")
    for key in setting.headline:
        value, ends = mapping(value).get(key), mapping(ends).get(key)
    shown = "not defined" if (number := number_of(value)) is None else f"{number:.1%}"
    between = f" [{ends[0]:.1%}, {ends[1]:.1%}]" if is_interval(ends) else ""
    data, lost = mapping(content.get("data")), unscored_of(content)
    part = f", on {data['rows']} of {data['of']} responses" if {"rows", "of"} <= set(data) else ""
    return (
        f"{setting.label} {shown}{between}{part}{f', {lost} unscored' if lost else ''} "
        f"({setting.name}, {str(content.get('date'))[:10]})"
    )


def whole_scores(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scores on everything; a certificate in short has no others."""
    found = mapping(content.get("scores"))
    return mapping(found.get("ALL", found if "unscored" in content else None))


def unscored_of(content: Mapping[str, Any]) -> int | None:
    """How many responses the judge had no verdict on; a certificate in short has the number
    itself."""
    given = content.get("unscored", mapping(content.get("scores")).get("unscored"))
    number = given.get("responses") if isinstance(given, dict) else given
    return (
        number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
    )


def is_interval(found: Any) -> bool:
    ends = [number_of(end) for end in found] if isinstance(found, list) else []
    return len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]


def mapping(found: Any) -> Mapping[str, Any]:
    """``found``; empty where a file of others has something else in its place."""
    return found if isinstance(found, dict) else {}
