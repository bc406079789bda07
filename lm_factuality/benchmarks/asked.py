"""The questions that people answer about a benchmark's samples in the judge's place.

Benchmarks declare them as `People`. ``lm-factuality people`` makes annotation sheets of them,
compares the answers with the judge's verdicts, and scores the samples as people see them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import to_model
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import keep_verdict

if TYPE_CHECKING:
    from lm_factuality.benchmarks.declaration import Rescorer

SKIP = "skip"
"""The answer of a person who cannot tell. Every question allows it, and it decides nothing."""

Sample: TypeAlias = Mapping[str, Any]
"""A line of lm_eval's samples file."""

Answers: TypeAlias = Mapping[str, str]
"""The value of the option that a person chose, by the id of the item."""


@dataclass(frozen=True)
class Option:
    """An answer that people can choose."""

    value: str
    """The name of the answer in files."""

    label: str
    """The text of the answer on the page."""

    key: str = ""
    """The key on the keyboard that chooses it. By default, this is its number, from 1 on."""

    good: bool | None = None
    """Whether the answer finds the text good, or None if it says neither.

    The judge's sensitivity and specificity follow from this.
    """


@dataclass(frozen=True)
class Question:
    """A kind of question, such as whether a fact is supported."""

    name: str

    ask: str
    """The sentence that people read."""

    options: tuple[Option, ...] = ()
    """The possible answers. It is empty if each item has options of its own."""


@dataclass(frozen=True)
class Item:
    """One question about one text, such as whether this fact is supported by these passages."""

    id: str
    """The id within the sample. It stays the same whenever the sample is read again."""

    question: str
    """The name of the `Question`."""

    text: str
    """The text that people judge."""

    context: tuple[tuple[str, str], ...] = ()
    """What people can read beside the text, as pairs of a heading and a text."""

    judge: str | None = None
    """The judge's verdict as the value of an option, or None if it gave none.

    Sheets and pages for annotators never contain it.
    """

    options: tuple[Option, ...] = ()
    """The possible answers, if they differ between the items of a question."""

    groups: Mapping[str, str] = field(default_factory=dict)
    """The groups that the item is in besides those of its unit: ``{"type": "entity"}``."""


@dataclass(frozen=True)
class Unit:
    """A sample, or a row of a data file, with its items. Sheets draw whole units."""

    key: str
    """The key of the row, which is the same for every model."""

    cluster: str
    """The cluster for standard errors, such as the document of the row."""

    items: tuple[Item, ...]

    strata: Mapping[str, str] = field(default_factory=dict)
    """The groups that the unit is in, by the kind of group: ``{"verdict": "wrong"}``."""

    source: int = 0
    """The number of the run or data file of the unit, for sheets drawn from several of them."""

    def stratum(self, by: Sequence[str]) -> str:
        """Return the name of the stratum that sheets draw the unit from.

        Args:
            by: The kinds of groups to combine.

        Example:
            ``("verdict", "error type")`` can give ``wrong | none``.
        """
        return " | ".join(self.strata.get(name) or "none" for name in by)


@dataclass(frozen=True)
class People:
    """How people take the judge's place in a benchmark."""

    questions: tuple[Question, ...]

    make_items: Callable[[TaskResult, Sample], Sequence[Item]] = lambda result, sample: ()
    """Returns all questions about a sample, or none if no score depends on the judge."""

    relabel: Callable[[TaskResult, Sample, Answers], dict[str, Any] | None] = (
        lambda result, sample, answers: None
    )
    """Returns the sample and its metrics as if people had been the judge.

    It returns None if an answer is missing or is ``SKIP``.
    """

    asks_about_data: bool = False
    """Whether people are asked about the rows of data files, and not about samples."""

    unaffected_scores: tuple[str, ...] = ()
    """The names of the scores that no answer of people changes."""


def load_questions(package: str) -> dict[str, Question]:
    """Read the questions that people answer about a benchmark from its ``people.yaml``.

    The file holds under ``questions`` the fields of each `Question` by the question's name.

    Args:
        package: The package of the benchmark, such as ``lm_factuality.benchmarks.felm``.

    Returns:
        The questions by name, in the order of the file.
    """
    fields_by_name: Mapping[str, Any] = load_yaml(package, "people.yaml")["questions"]
    questions = {}
    for name, fields in fields_by_name.items():
        questions[name] = to_model(Question, {"name": name, **fields})
    return questions


@dataclass(frozen=True)
class Relabel:
    """Scores a sample of a judged benchmark by people's answers, for `People.relabel`."""

    make_items: Callable[[TaskResult, Sample], Sequence[Item]]
    """Returns all questions about a sample."""

    relabelled_fields: Callable[[TaskResult, Sample, Answers], Mapping[str, Any]]
    """Returns the fields of a sample that change with people's answers."""

    make_rescorer: Callable[[TaskResult, Sequence[Any]], "Rescorer"]
    """Makes the functions that compute the metrics of a sample (see `Scoring`)."""

    keep_row: Callable[[Sample], Mapping[str, Any]] = keep_verdict
    """Takes from a sample the parts from which it can be scored again (see `Scoring`)."""

    optional_question: str = ""
    """The name of the question that people need not answer."""

    def __call__(
        self, result: TaskResult, sample: Sample, answers: Answers
    ) -> dict[str, Any] | None:
        """Return a sample with the metrics that it would have if people had been the judge.

        The answers first replace the judge's record in the sample. The metrics are then computed
        from the new record, as they are when a run is scored again.

        Args:
            result: The results of the sample's task.
            sample: A line of lm_eval's samples file.
            answers: The option that a person chose, such as ``supported`` or ``skip``, by the id
                of the item.

        Returns:
            The changed sample, or None if a required answer is missing or was skipped.
        """
        items = self.make_items(result, sample)
        # Answers to the optional question do not decide whether the sample can be scored.
        required_items = [item for item in items if item.question != self.optional_question]
        # Without a question to people, no score of this sample depends on the judge.
        if not required_items:
            return dict(sample)
        if any(answers.get(item.id, SKIP) == SKIP for item in required_items):
            return None

        # The changed fields replace those of the sample, which have the same keys.
        changed_sample = {**sample, **self.relabelled_fields(result, sample, answers)}
        # One sample is scored alone, so the rescorer gets no list of all rows.
        rescorer = self.make_rescorer(result, ())
        # `keep_row` takes from the sample what the rescorer needs.
        metrics = rescorer.row_metrics(self.keep_row(changed_sample))
        return {**changed_sample, **metrics}


def verdict_fields(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field of a sample in which lm_eval stores the judge's record as JSON.

    Example:
        ``{"grade": "CORRECT"}`` gives ``{"filtered_resps": ['{"grade": "CORRECT"}']}``.
    """
    return {"filtered_resps": [json.dumps(verdict)]}
