"""Decision files as D-FActScore's authors released them: which facts of each response were
supported, and by whose page.

``decisions`` has the facts as they were decomposed, ``global_decisions`` those that came back from
grouping, verified by the page of their group's entity; both are lists with an entry a name, null
where the model declined. Of groups the files state the mean number only (``num_groups``). But the
facts of a group follow each other, and those supported are supported by the group's entity: a group
is a run of facts with one entity (2.20 runs a response of ChatGPT's for 2.27 groups, 1.096 of
Llama-2-13b's for 1.098). Not known is the group of an unsupported fact between two runs, and of the
first fact, which grouping lost. Files that have only the first letter of each group's entity say
nothing of groups."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.biographies.method import begin
from lm_factuality.benchmarks.biographies.types import Fact, Generation, JudgedBiography
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text
from lm_factuality.harness.outputs import number_of

FACTS, GROUPED, NUM_GROUPS = "decisions", "global_decisions", "num_groups"
_EXPECTED = (
    f"expected a released decision file: JSON, plain or gzipped, with the lists {FACTS!r} and"
    f" {GROUPED!r}"
)


@dataclass(frozen=True)
class DecidedFact:
    """``entity`` is the title of the page that supports the fact; of some files only its first
    letter is left."""

    text: str
    is_supported: bool
    entity: str | None


@dataclass(frozen=True)
class DecidedResponse:
    """``facts``: at least one. ``grouped`` may be empty."""

    facts: tuple[DecidedFact, ...]
    grouped: tuple[DecidedFact, ...]

    @cached_property
    def numbers(self) -> list[int]:
        """Of each fact that came back from grouping its number among those as decomposed; -1 for
        one that was made up."""
        left: dict[str, list[int]] = defaultdict(list)
        for number, fact in enumerate(self.facts):
            left[fact.text].append(number)
        return [left[fact.text].pop(0) if left[fact.text] else -1 for fact in self.grouped]


@dataclass(frozen=True)
class Decisions:
    """``responses`` has an entry a name, None where the model declined; ``recorded`` the figures
    that the file itself states."""

    path: Path
    responses: tuple[DecidedResponse | None, ...]
    recorded: Mapping[str, float]


def is_decision_file(path: Path) -> bool:
    """Whether ``path`` holds a JSON object with decisions; what cannot be read is none."""
    try:
        content = parse_json(read_text(path, _EXPECTED), is_shared=False)
    except (DataError, ValueError):
        return False
    return isinstance(content, dict) and FACTS in content


def read_decisions(path: Path) -> Decisions:
    """The decisions of one model. Raises DataError: the file cannot be read; or every row that is
    not as expected, and how."""
    try:
        content = parse_json(read_text(path, _EXPECTED), is_shared=False)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; {_EXPECTED}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: found a JSON {type(content).__name__}; {_EXPECTED}")
    lists = []
    for key in (FACTS, GROUPED):
        if not isinstance(content.get(key), list):
            found = (
                type(content[key]).__name__
                if key in content
                else f"only {', '.join(content) or 'nothing'}"
            )
            raise DataError(
                f"{path}: {key!r}: found {found}, expected a list with an entry for each name;"
                f" {_EXPECTED}"
            )
        lists.append(content[key])
    if len(lists[0]) != len(lists[1]):
        raise DataError(
            f"{path}: {len(lists[0])} entries in {FACTS!r} but {len(lists[1])} in {GROUPED!r};"
            f" {_EXPECTED}"
        )
    responses: list[DecidedResponse | None] = []
    problems: list[str] = []
    for number, (facts, grouped) in enumerate(zip(*lists, strict=True)):
        try:
            responses.append(_response(facts, grouped))
        except ValueError as error:
            problems.append(f"{path}: entry {number}: {error}")
    refuse(problems, "entries", advice="Restore the file as it was released.")
    if not any(responses):
        raise DataError(f"{path}: no responses in its {len(responses)} entries; {_EXPECTED}")
    recorded = {
        key: stated for key, value in content.items() if (stated := number_of(value)) is not None
    }
    return Decisions(path, tuple(responses), recorded)


def _response(facts: Any, grouped: Any) -> DecidedResponse | None:
    if facts is None and grouped is None:
        return None
    if not isinstance(facts, list) or not isinstance(grouped, list):
        raise ValueError(  # noqa: TRY004
            f"{FACTS} is {_kind(facts)} and {GROUPED} is {_kind(grouped)}, expected two lists, or"
            " null in both if declined"
        )
    if not facts:
        raise ValueError(
            f"{FACTS} is an empty list, expected at least one fact, or null if the model declined"
        )
    return DecidedResponse(
        tuple(_fact(FACTS, number, each) for number, each in enumerate(facts)),
        tuple(_fact(GROUPED, number, each) for number, each in enumerate(grouped)),
    )


def _fact(key: str, number: int, value: Any) -> DecidedFact:
    match value:
        case {
            "atom": str(text),
            "is_supported": bool(is_supported),
            "supporting_topic": None | [] | [None],
        }:
            return DecidedFact(text, is_supported, None)
        case {
            "atom": str(text),
            "is_supported": bool(is_supported),
            "supporting_topic": str(entity) | [str(entity)],
        }:
            return DecidedFact(text, is_supported, entity)
    found = (
        ", ".join(f"{name}: {_kind(each)}" for name, each in value.items())
        if isinstance(value, dict)
        else _kind(value)
    )
    raise ValueError(
        f"{key}[{number}]: found {found}; expected atom (text), is_supported (true or false) and"
        " supporting_topic (title or null)"
    )


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


SAME_RESPONSE = (
    0.6  # the share of common words (of all words of both) from which facts are those of a text
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Known:
    """A response with its released decisions."""

    generation: Generation
    decided: DecidedResponse

    @cached_property
    def judged(self) -> JudgedBiography:
        """The response with its released facts, each beside a sentence, in order, so that they
        share as many words as can be."""
        started = begin(self.generation)
        bags = [words(sentence) for sentence in started.sentences]
        # By the last fact's sentence: how many words are shared, and the sentences of all facts.
        best: list[tuple[float, list[int]]] = [(0.0, []) for _ in bags]
        for own in (words(fact.text) for fact in self.decided.facts):
            reached = accumulate(best, _better)
            best = [
                (found + len(own & bag) / (len(own) or 1), [*places, number])
                for number, ((found, places), bag) in enumerate(zip(reached, bags, strict=True))
            ]
        numbers = reduce(_better, best)[1] if best else []
        facts = tuple(
            Fact(fact.text, number)
            for fact, number in zip(self.decided.facts, numbers, strict=False)
        )
        return JudgedBiography(
            self.generation, started.sentences, facts, (), started.entities, (), ()
        )

    @cached_property
    def groups(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """(entity, numbers of the facts) of each group whose entity supports anything; without
        facts whose group is not known."""
        entities = [fact.entity for fact in self.decided.grouped]
        if any(entity is not None and len(entity) == 1 for entity in entities):
            return ()
        runs: list[tuple[str, list[int]]] = []
        waiting: list[int] = []
        for number, entity in zip(self.decided.numbers, entities, strict=True):
            if entity is None:
                waiting.append(number)
                continue
            if not runs or runs[-1][0] != entity:
                runs.append((entity, [] if runs else waiting))
            else:
                runs[-1][1].extend(waiting)
            waiting = []
            runs[-1][1].append(number)
        if runs:
            runs[-1][1].extend(waiting)
        return tuple(
            (entity, tuple(sorted(each for each in run if each >= 0))) for entity, run in runs
        )

    @cached_property
    def verdicts(self) -> Mapping[tuple[int, str], bool]:
        """Whether the page of an entity supports a fact, by the fact's number and the entity, of
        candidates alone: a fact is supported by the entity that it is released with and, if by
        none, not supported by any; and it is supported by its group's entity or not. Of a fact and
        another entity the files say nothing; pairs that they contradict are left out."""
        found: dict[tuple[int, str], set[bool]] = defaultdict(set)
        for number, fact in enumerate(self.decided.facts):
            for entity in self.generation.entities if fact.entity is None else (fact.entity,):
                found[number, entity].add(fact.is_supported)
        supported = {
            number: fact.is_supported
            for number, fact in zip(self.decided.numbers, self.decided.grouped, strict=True)
        }
        for entity, numbers in self.groups:
            for number in numbers:
                found[number, entity].add(supported[number])
        candidates = set(self.generation.entities)
        return {
            key: values.pop()
            for key, values in found.items()
            if len(values) == 1 and key[1] in candidates
        }


def match(
    decided: Sequence[DecidedResponse | None], texts: Sequence[Generation]
) -> Iterator[tuple[DecidedResponse, Generation]]:
    """Each response with the text that its facts are from; the files have no common key, and one
    may lack what the other has."""
    by_words = [words(text.output) for text in texts]
    for response in decided:
        if response is not None:
            wanted = words(" ".join(fact.text for fact in response.facts))
            shares = [len(wanted & other) / len(wanted | other) for other in by_words]
            best = max(range(len(shares)), key=shares.__getitem__)
            if shares[best] > SAME_RESPONSE:
                yield response, texts[best]


def words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _better(
    one: tuple[float, list[int]], other: tuple[float, list[int]]
) -> tuple[float, list[int]]:
    return other if other[0] > one[0] else one
