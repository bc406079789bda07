"""What a run gives, in types: what comes back from a model, one results file of lm_eval and its
tasks, and what was retrieved."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from pydantic import BeforeValidator

from lm_factuality.ground.files import write_lines

LARGEST = 1e100  # no score or log-probability is near; its square is finite
OTHER = "other"  # the kind of a task that is not one of the suite's
_DATE = re.compile(r"_(\d{4}-\d\d-\d\dT[^/]*)\.json$")


_none = BeforeValidator(lambda value: None if value == "None" else value)
Float = Annotated[float | None, _none]
"""A number, or None, in the text that lm_eval writes of it."""

Int = Annotated[int | None, _none]


class ScoredContinuation(NamedTuple):
    """What a model says of one choice. ``logprob`` is the sum of natural log-probabilities of its
    tokens; ``num_tokens`` is None where the tokenizer is out of reach; ``truncated``: the prefix
    lost its beginning; ``problem`` says why there is no score."""

    logprob: Float
    is_greedy: bool
    num_tokens: Int
    truncated: bool
    problem: str = ""


class ScoredText(NamedTuple):
    """What a model says of a text. ``logprob`` is the sum of natural log-probabilities of its
    tokens, None if there is none; ``num_tokens`` is how many were scored, ``num_windows`` in how
    many pieces, ``window`` the tokens that the model saw at once (its own limit may be lower than
    asked for): None where the tokenizer is out of reach. ``problem`` says why there is none."""

    logprob: Float
    num_tokens: Int
    num_windows: Int
    window: Int
    problem: str = ""


class WordAnswer(NamedTuple):
    """What a model answers to a question with given words for answers. ``logprobs`` has the natural
    log-probability of each word, None for one that is not among the likeliest that a server names;
    it is None as a whole where ``text``, what the model wrote, is to be read instead. ``problem``
    says why there is no answer, empty if there is one."""

    logprobs: Annotated[tuple[Float, ...] | None, _none]
    text: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Corrected:
    """A score corrected for its judge, with its standard error and the ends of its 95% interval.
    ``how`` says by what, and what that assumes. Of a correction by people's labels, ``weight`` is
    lambda (see ``lm_factuality.scores.ppi``), ``labelled`` how many of so many ``units`` people
    answered for, and ``unscored`` how many are in neither."""

    value: float
    low: float
    high: float
    stderr: float
    how: str
    weight: float | None = None
    labelled: int = 0
    units: int = 0
    unscored: int = 0


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """The scores of a task, and how many documents they are of."""

    metrics: Mapping[str, float]
    """By the metric's name without lm_eval's filter: ``factor_acc``, not ``factor_acc,none``.

    Shares are shares, not per cent.
    """

    stderrs: Mapping[str, float]
    """The same. A standard error that lm_eval gives as "N/A" is absent."""

    num_samples: int
    """How many documents the task has."""

    effective: int
    """How many were run."""

    limit: float | None
    """lm_eval's ``--limit``, None for a whole run."""

    corrected: Mapping[str, Corrected] = field(default_factory=dict)
    """The scores that people's labels correct."""


@dataclass(frozen=True, kw_only=True)
class TaskResult(TaskScores):
    """One task of a results file."""

    task: str
    kind: str
    """The benchmark that it is a task of (``lm_factuality.benchmarks``), or `OTHER`."""

    metadata: Mapping[str, Any]
    """The task's own, with its data, window, protocol and judge."""

    config: Mapping[str, Any]
    """The whole config, of which the metadata are a part."""

    version: str
    samples: Path | None
    """The file with the samples, None where the run kept none."""

    @property
    def unscored(self) -> int:
        """How many items have no score, as far as the results say so."""
        return int(number_of(self.metrics.get("unscored")) or 0)


@dataclass(frozen=True, kw_only=True)
class RunModel:
    """The model of a run."""

    model: str
    """As lm_eval names it."""

    variant: str
    """What makes another model of the same name, or empty.

    That is a revision, or a backend that does more than score.
    """

    backend: str
    """lm_eval's ``--model``."""

    revision: str | None
    """The commit where lm_eval knows it, otherwise the name asked for."""

    dtype: str | None
    """Such as ``float32``."""

    num_parameters: float | None

    @property
    def label(self) -> str:
        """The model, and what sets it apart."""
        return f"{self.model} ({self.variant})" if self.variant else self.model


@dataclass(frozen=True, kw_only=True)
class ResultsFile(RunModel):
    """One ``results_*.json``."""

    path: Path
    content: Mapping[str, Any]
    """The whole file."""

    date: float
    """The start of the run in seconds since 1970."""

    date_text: str
    """What the file's name ends with, which the samples share."""

    versions: Mapping[str, str]
    """Those of ``lm_eval``, ``transformers`` and ``suite`` (of the first of its tasks)."""

    tasks: tuple[TaskResult, ...]

    def task(self, name: str) -> TaskResult | None:
        """The task called ``name``, if the file has it."""
        return next((task for task in self.tasks if task.task == name), None)


def date_in_name(results: Path) -> str:
    """The date that the name of a results file ends with, which the run's samples share; empty
    where it has none."""
    found = _DATE.search(results.name)
    return found[1] if found else ""


def beside(results: Path, name: str, ending: str) -> Path | None:
    """The file of that name beside a run's results, if there is one; the date that they share
    stands before the ``ending``."""
    date = date_in_name(results)
    found = results.parent / f"{name}_{date}{ending}"
    return found if date and found.is_file() else None


def number_of(value: Any) -> float | None:
    """Return ``value`` as a number, or None if it is none, not finite, or above `LARGEST`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= LARGEST else None


class Query(TypedDict):
    """One retrieval: the words that were searched for; what was predicted with it, as (choice,
    text); the numbers of the passages that the model was ``shown``, the best first; those above the
    last of them that were ``excluded``, each with the rule, or ``article`` for another passage of
    an article that a rule holds for; how many tokens of the text gave way (``cut``)."""

    query: str
    predicts: list[tuple[int, str]]
    shown: list[int]
    excluded: dict[str, str]
    cut: int


class RetrievedRow(TypedDict):
    """A row, by lm_eval's number (``doc_id``). ``articles`` are those of the evaluated document in
    the index, each with the number of the passage by which it was recognised; ``passages`` has id,
    title and text by number."""

    doc_id: int
    articles: dict[str, int]
    queries: list[Query]
    passages: dict[str, dict[str, str]]


Rows = dict[tuple[str, int], RetrievedRow]
"""By task and number of the row."""


def write_retrieved(results: Path, rows: Mapping[tuple[str, int], RetrievedRow]) -> None:
    """Writes ``rows`` beside the samples of a run, of which ``results`` is the results file;
    without samples nothing."""
    for task in {task for task, _ in rows}:
        if samples := beside(results, f"samples_{task}", ".jsonl"):
            lines = (
                json.dumps(row, ensure_ascii=False)
                for (of, _), row in sorted(rows.items())
                if of == task
            )
            write_lines(
                samples.with_name(f"retrieved{samples.name.removeprefix('samples')}"), lines
            )
