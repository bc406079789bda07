"""What people are asked of a benchmark's samples, so that their answers can be held against the judge's, and take its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_factuality.harness.outputs import TaskResult

SKIP = "skip"  # what a person answers who cannot tell; it may be given to every question and decides none


@dataclass(frozen=True)
class Option:
    """An answer that may be given: its ``value`` in files, its ``label`` on the page, and the ``key`` that gives it."""

    value: str
    label: str
    key: str = ""


@dataclass(frozen=True)
class Question:
    """A kind of question. ``ask`` is the sentence shown. With ``per_item_options`` the options come with each item."""

    name: str
    ask: str
    options: tuple[Option, ...] = ()
    per_item_options: bool = False


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
class People:
    """How people take the judge's place in a benchmark's samples.

    ``items`` are everything that a sample asks of people. ``relabel`` is the sample as it would be if people had been the judge:
    the answers, by the items' ids, are put into its verdict, and its metrics are found again by the benchmark's own ``recount``.
    It is None where the answers do not decide the metrics, because an item is missing or was skipped.
    """

    questions: tuple[Question, ...]
    items: Callable[[TaskResult, Mapping[str, Any]], Sequence[Item]]
    relabel: Callable[[TaskResult, Mapping[str, Any], Mapping[str, str]], dict[str, Any] | None]

    def question(self, name: str) -> Question:
        """The question called ``name``.

        Raises:
            KeyError: there is none.
        """
        return {each.name: each for each in self.questions}[name]
