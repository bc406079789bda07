"""Decision files as D-FActScore's authors released them.

They say which facts of each response were supported, and by whose page. ``decisions`` has the facts
as they were decomposed, ``global_decisions`` those that came back from grouping, verified by the
page of their group's entity; both are lists with an entry a name, null where the model declined.
Of groups the files state the mean number only (``num_groups``). But the facts of a group follow
each other, and those supported are supported by the group's entity: a group is a run of facts with
one entity (2.20 runs a response of ChatGPT's for 2.27 groups, 1.096 of Llama-2-13b's for 1.098).
Not known is the group of an unsupported fact between two runs, and of the first fact, which
grouping lost. Files that have only the first letter of each group's entity say nothing of groups.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, StrictBool

from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from lm_factuality.benchmarks.biographies.types import Fact, GeneratedText, JudgedBiography
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.records import read_model

_EXPECTED = (
    "expected a decision file as it was released: JSON, plain or gzipped, with the lists"
    " 'decisions' and 'global_decisions'"
)
MIN_SHARED_WORDS = 0.6
"""The share of common words (of all words of both) from which facts are those of a text."""

_WORD = re.compile(r"\w+")


def _only(topic: Any) -> Any:
    """Return the one element of a list; None of an empty list."""
    if isinstance(topic, list) and len(topic) < 2:
        return topic[0] if topic else None
    return topic


@dataclass(frozen=True)
class DecidedFact:
    """A fact, with the files' names for its fields."""

    atom: str
    is_supported: StrictBool
    supporting_topic: Annotated[str | None, BeforeValidator(_only)]
    """The title of the page that supports it. Of some files only its first letter is left."""


Facts: TypeAlias = tuple[DecidedFact, ...]


@dataclass(frozen=True)
class DecidedResponse:
    """The decisions on a response."""

    facts: Facts
    """The facts as decomposed, at least one."""

    grouped: Facts
    """Those that came back from grouping. It may be empty."""

    @cached_property
    def numbers(self) -> list[int]:
        """The number of each grouped fact among those as decomposed; -1 if it was made up."""
        waiting: dict[str, list[int]] = defaultdict(list)
        for number, fact in enumerate(self.facts):
            waiting[fact.atom].append(number)
        return [waiting[fact.atom].pop(0) if waiting[fact.atom] else -1 for fact in self.grouped]

    @cached_property
    def grouped_verdicts(self) -> list[bool | None]:
        """For each fact as decomposed the verdict on it after grouping, if there is one."""
        verdicts: list[bool | None] = [None] * len(self.facts)
        for number, fact in zip(self.numbers, self.grouped, strict=True):
            if number >= 0:
                verdicts[number] = fact.is_supported
        return verdicts


@dataclass(frozen=True)
class Decisions:
    """The decisions on the responses of one model."""

    responses: tuple[DecidedResponse | None, ...]
    """An entry a name, None where the model declined."""

    num_groups: float | None
    """The mean number of groups that the file states."""


class _DecisionFile(BaseModel):
    decisions: list[Annotated[Facts, Field(min_length=1)] | None]
    global_decisions: list[Facts | None]
    num_groups: float | None = None


def read_decisions(path: Path) -> Decisions:
    """Read the decisions of one model.

    Raises:
        DataError: The file cannot be read, or is not as expected.
    """
    file = read_model(path, _DecisionFile, _EXPECTED)
    pairs = list(zip_longest(file.decisions, file.global_decisions))
    problems = [
        f"{path}: entry {number}: expected facts in both lists, or null in both if declined"
        for number, (facts, grouped) in enumerate(pairs)
        if (facts is None) != (grouped is None)
    ]
    refuse(problems, "entries", advice="Restore the file as it was released.")
    responses = tuple(
        DecidedResponse(facts, grouped or ()) if facts else None for facts, grouped in pairs
    )
    if not any(responses):
        raise DataError(f"{path}: no responses in its {len(responses)} entries; {_EXPECTED}")
    return Decisions(responses, file.num_groups)


@dataclass(frozen=True)
class ReleasedResponse:
    """A response with its released decisions."""

    generation: GeneratedText
    decided: DecidedResponse

    @cached_property
    def judged(self) -> JudgedBiography:
        """The response with its released facts.

        Each is beside a sentence, in order, so that they share as many words as can be.
        """
        begun = AMBIGBIO.prepare(self.generation)
        bags = [distinct_words(sentence) for sentence in begun.sentences]
        by_shared = itemgetter(0)
        # By the last fact's sentence: how many words are shared, and the sentences of all facts.
        best: list[tuple[float, list[int]]] = [(0.0, []) for _ in bags]
        for fact in self.decided.facts:
            of_fact = distinct_words(fact.atom)
            longer = []
            reached: tuple[float, list[int]] = (-1.0, [])
            for number, bag in enumerate(bags):
                reached = max(reached, best[number], key=by_shared)
                shared, sentences = reached
                share = len(of_fact & bag) / (len(of_fact) or 1)
                longer.append((shared + share, [*sentences, number]))
            best = longer
        _, sentences = max(best, key=by_shared, default=(0.0, []))
        facts = [
            Fact(fact.atom, number)
            for fact, number in zip(self.decided.facts, sentences, strict=False)
        ]
        return replace(begun, facts=tuple(facts))

    @cached_property
    def groups(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The entity and the facts of each group whose entity supports anything.

        Facts whose group is not known are left out.
        """
        topics = [fact.supporting_topic for fact in self.decided.grouped]
        if any(topic is not None and len(topic) == 1 for topic in topics):
            return ()
        runs: list[tuple[str, list[int]]] = []
        waiting: list[int] = []  # unsupported facts since the last supported one
        for number, topic in zip(self.decided.numbers, topics, strict=True):
            waiting.append(number)
            if topic is None:
                continue
            if runs and runs[-1][0] == topic:
                runs[-1][1].extend(waiting)
            else:
                runs.append((topic, [number] if runs else waiting))
            waiting = []
        if runs:
            runs[-1][1].extend(waiting)
        return tuple(
            (entity, tuple(sorted(number for number in run if number >= 0))) for entity, run in runs
        )

    @cached_property
    def verdicts(self) -> Mapping[tuple[int, str], bool]:
        """Whether the page of an entity supports a fact, by the fact's number and the entity.

        A fact is supported by the entity that it is released with and, if by none, not supported by
        any candidate; and it is supported by its group's entity or not. Of a fact and another
        entity the files say nothing. Pairs that they contradict are left out.
        """
        candidates = self.generation.entities
        decisions: dict[tuple[int, str], set[bool | None]] = defaultdict(set)
        for number, fact in enumerate(self.decided.facts):
            topic = fact.supporting_topic
            for entity in candidates if topic is None else (topic,):
                decisions[number, entity].add(fact.is_supported)
        for entity, numbers in self.groups:
            for number in numbers:
                decisions[number, entity].add(self.decided.grouped_verdicts[number])
        return {
            (number, entity): bool(values.pop())
            for (number, entity), values in decisions.items()
            if len(values) == 1 and entity in candidates
        }


def match_texts(
    decided: Sequence[DecidedResponse | None], texts: Sequence[GeneratedText]
) -> Iterator[tuple[DecidedResponse, GeneratedText]]:
    """Yield each response with the text that its facts are from.

    The files have no common key, and one may lack what the other has.
    """
    by_words = [distinct_words(text.output) for text in texts]
    for response in filter(None, decided):
        wanted = distinct_words(" ".join(fact.atom for fact in response.facts))
        shares = [len(wanted & of_text) / len(wanted | of_text) for of_text in by_words]
        share, text = max(zip(shares, texts, strict=True), key=itemgetter(0))
        if share > MIN_SHARED_WORDS:
            yield response, text


def distinct_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
