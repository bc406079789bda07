"""What people are asked of a benchmark's samples, so that their answers can be held against the
judge's, and take its place."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import to_model
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import keep_verdict

# the answer of a person who cannot tell: it may be given to every question, and decides none
SKIP = "skip"
Sample: TypeAlias = Mapping[str, Any]
Answers: TypeAlias = Mapping[str, str]  # by the ids of items


@dataclass(frozen=True)
class Option:
    """An answer that may be given."""

    value: str
    """What files call it."""

    label: str
    """What the page calls it."""

    key: str = ""
    """The key that gives it. By default, this is its place among the options, from 1 on."""

    good: bool | None = None
    """Whether it finds the text good, by which a judge's sensitivity and specificity are counted.
    None for neither."""


@dataclass(frozen=True)
class Question:
    """A kind of question. ``ask`` is the sentence shown. Where it has no ``options``, these come
    with each item."""

    name: str
    ask: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Item:
    """One thing to look at. ``id`` is unique in its sample and stable; ``text`` is what is judged,
    ``context`` what stands beside it: pairs of a heading and a text. ``judge`` is what the judge
    said, as an option's value; None if unscored. It is never written where the person who answers
    can see it."""

    id: str
    question: str
    text: str
    context: tuple[tuple[str, str], ...] = ()
    judge: str | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Unit:
    """What is drawn for a sheet, with all its items: a sample, or a row of a data file. ``strata``
    are the groups that it is in, by what they are called (``verdict``, ``error type``)."""

    key: str
    cluster: str
    items: tuple[Item, ...]
    strata: Mapping[str, str] = field(default_factory=dict)
    source: int = 0
    """The place of the run or data file that it comes from, on a sheet of several."""

    def stratum(self, by: Sequence[str]) -> str:
        return " | ".join(self.strata.get(name) or "none" for name in by)


@dataclass(frozen=True)
class People:
    """How people take the judge's place. ``items`` is everything that a sample asks of people;
    empty where no score depends on the judge. ``relabel`` is the sample as if people had been the
    judge, with the metrics that the benchmark's ``recount`` finds; None where an answer is missing
    or ``SKIP``. ``unchanged`` are the scores that no answer changes. ``data`` reads a data file of
    the benchmark, where people are asked about its rows and not about samples."""

    questions: tuple[Question, ...]
    items: Callable[[TaskResult, Sample], Sequence[Item]] = lambda result, sample: ()
    relabel: Callable[[TaskResult, Sample, Answers], dict[str, Any] | None] = (
        lambda result, sample, answers: None
    )
    read_units: Callable[[Path], Sequence[Unit]] | None = None
    unaffected_scores: tuple[str, ...] = ()


def load_questions(package: str) -> dict[str, Question]:
    """Read the questions of a package's ``people.yaml``, by name."""
    content: Mapping[str, Any] = load_yaml(package, "people.yaml")["questions"]
    return {
        name: to_model(Question, {"name": name, **question}) for name, question in content.items()
    }


def make_relabel(
    items: Callable[[TaskResult, Sample], Sequence[Item]],
    change: Callable[[TaskResult, Sample, Answers], Mapping[str, Any]],
    recount: Callable[[TaskResult, Sequence[Any]], Any],
    keep: Callable[[Sample], Mapping[str, Any]] = keep_verdict,
    optional: str = "",
) -> Callable[[TaskResult, Sample, Answers], dict[str, Any] | None]:
    """``People.relabel`` of a benchmark with this ``recount`` and ``keep``. ``change`` says what of
    the sample is another where people answered all ``items`` but those of the ``optional``
    question."""

    def relabel(result: TaskResult, sample: Sample, answers: Answers) -> dict[str, Any] | None:
        asked = [item for item in items(result, sample) if item.question != optional]
        if any(answers.get(item.id, SKIP) == SKIP for item in asked):
            return None
        changed = {**sample, **(change(result, sample, answers) if asked else {})}
        return {**changed, **recount(result, ()).row_metrics(keep(changed))} if asked else changed

    return relabel


def verdict_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    return {"filtered_resps": [json.dumps(record)]}
