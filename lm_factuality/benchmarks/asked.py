"""What people are asked of a benchmark's samples, so that their answers can be held against the judge's, and take its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import keep_verdict

SKIP = "skip"  # the answer of a person who cannot tell: it may be given to every question, and decides none


@dataclass(frozen=True)
class Option:
    """An answer that may be given: its ``value`` in files, its ``label`` on the page, the ``key`` that gives it, and whether it
    finds the text ``good`` (None for neither), by which a judge's sensitivity and specificity are counted."""

    value: str
    label: str
    key: str
    good: bool | None = None


@dataclass(frozen=True)
class Question:
    """A kind of question. ``ask`` is the sentence shown. With ``per_item_options`` the options come with each item."""

    name: str
    ask: str
    options: tuple[Option, ...] = ()

    @property
    def per_item_options(self) -> bool:
        return not self.options


@dataclass(frozen=True)
class Item:
    """One thing to look at. ``id`` is unique in its sample and stable; ``text`` is what is judged, ``context`` what stands beside
    it: pairs of a heading and a text. ``judge`` is what the judge said, as an option's value; None if unscored. It is never
    written where the person who answers can see it."""

    id: str
    question: str
    text: str
    context: tuple[tuple[str, str], ...] = ()
    judge: str | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Unit:
    """What is drawn for a sheet, with all its items: a sample, or a row of a data file. ``strata`` are the groups that it is in,
    by what they are called (``verdict``, ``error type``)."""

    key: str
    cluster: str
    items: tuple[Item, ...]
    strata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class People:
    """How people take the judge's place in the samples of a benchmark.

    ``items`` is everything that a sample asks of people; empty where no score of it depends on the judge. ``relabel`` is the
    sample as it would be if people had been the judge: their answers, by the items' ids, are put into the judge's record, and the
    metrics are found again by the benchmark's own ``recount``. It is None where the answers do not decide the metrics, because
    one is missing or ``SKIP``. ``data`` reads a data file of the benchmark, where people
    are asked about its rows and not about samples.
    """

    questions: tuple[Question, ...]
    items: Callable[[TaskResult, Mapping[str, Any]], Sequence[Item]] = lambda result, sample: ()
    relabel: Callable[[TaskResult, Mapping[str, Any], Mapping[str, str]], dict[str, Any] | None] = lambda *_: None
    data: Callable[[Path], Sequence[Unit]] | None = None


def answered(items: Sequence[Item], answers: Mapping[str, str]) -> bool:
    """Whether ``answers`` decide every one of ``items``."""
    return all(answers.get(item.id, SKIP) != SKIP for item in items)


def with_verdict(
    sample: Mapping[str, Any], record: Mapping[str, Any], metrics: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    """The sample with another record in the place of the judge's, and the ``metrics`` of it by the benchmark's ``recount``."""
    changed = {**sample, "filtered_resps": [json.dumps(record)]}
    return {**changed, **metrics(keep_verdict(changed))}
