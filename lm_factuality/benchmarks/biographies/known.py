"""What the released decisions say of each step: the facts of a response, their groups, the entities of these, and which page
supports which fact.

The files have no borders between groups (see ``decisions``), but the facts of a group follow each other, and all that are
supported are supported by the group's entity. So a group is a run of facts with one entity: 2.20 runs a response of ChatGPT's,
where the file states 2.27 groups, and 1.096 of Llama-2-13b's, for 1.098. An unsupported fact between two runs may be in either:
its group is not known, nor is that of the first fact, which grouping lost. Files that have only the first letter of each group's
entity say nothing of groups.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate

from lm_factuality.benchmarks.biographies.decisions import DecidedResponse
from lm_factuality.benchmarks.biographies.method import begin
from lm_factuality.benchmarks.biographies.types import Fact, Generation, JudgedBiography

SAME_RESPONSE = 0.6  # the share of common words (of all words of both) from which facts are those of a text
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Known:
    """A response with its released decisions."""

    generation: Generation
    decided: DecidedResponse

    @cached_property
    def judged(self) -> JudgedBiography:
        """The response with its released facts, each beside a sentence, never going back, so that the facts have as many words in
        theirs as can be."""
        started = begin(self.generation)
        bags = [words(sentence) for sentence in started.sentences]
        best: list[tuple[float, list[int]]] = [
            (0.0, []) for _ in bags
        ]  # by the last fact's sentence: words, all facts' sentences
        for own in (words(fact.text) for fact in self.decided.facts):
            reached = accumulate(best, _better)
            best = [
                (found + len(own & bag) / (len(own) or 1), [*places, number])
                for number, ((found, places), bag) in enumerate(zip(reached, bags, strict=True))
            ]
        numbers = reduce(_better, best)[1] if best else []
        facts = tuple(Fact(fact.text, number) for fact, number in zip(self.decided.facts, numbers, strict=False))
        return JudgedBiography(self.generation, started.sentences, facts, (), started.entities, (), ())

    @cached_property
    def groups(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """(entity, numbers of the facts) of each group whose entity supports anything; without the facts whose group is not
        known."""
        entities = [fact.entity for fact in self.decided.grouped]
        if any(entity is not None and len(entity) == 1 for entity in entities):
            return ()
        runs: list[tuple[str, list[int]]] = []
        waiting: list[int] = []
        for number, entity in zip(self._numbers, entities, strict=True):
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
        return tuple((entity, tuple(sorted(each for each in run if each >= 0))) for entity, run in runs)

    @cached_property
    def verdicts(self) -> Mapping[tuple[int, str], bool]:
        """Whether the page of an entity supports a fact, by the fact's number and the entity, of candidates alone: a fact is
        supported by the entity that it is released with and, if by none, not supported by any; and it is supported by its
        group's entity or not. Of a fact and another entity the files say nothing; pairs that they contradict are left out."""
        found: dict[tuple[int, str], set[bool]] = defaultdict(set)
        for number, fact in enumerate(self.decided.facts):
            for entity in self.generation.entities if fact.entity is None else (fact.entity,):
                found[number, entity].add(fact.is_supported)
        supported = {number: fact.is_supported for number, fact in zip(self._numbers, self.decided.grouped, strict=True)}
        for entity, numbers in self.groups:
            for number in numbers:
                found[number, entity].add(supported[number])
        candidates = set(self.generation.entities)
        return {key: values.pop() for key, values in found.items() if len(values) == 1 and key[1] in candidates}

    @cached_property
    def _numbers(self) -> list[int]:
        """Of each fact that came back from grouping its number among those as decomposed; -1 for one that was made up."""
        left: dict[str, list[int]] = defaultdict(list)
        for number, fact in enumerate(self.decided.facts):
            left[fact.text].append(number)
        return [left[fact.text].pop(0) if left[fact.text] else -1 for fact in self.decided.grouped]


def match(
    responses: Sequence[DecidedResponse | None], generations: Sequence[Generation]
) -> Iterator[tuple[DecidedResponse, Generation]]:
    """Each response with the text that its facts are from; the files have no common key, and one may lack what the other has."""
    by_words = [words(generation.output) for generation in generations]
    for response in responses:
        if response is not None:
            wanted = words(" ".join(fact.text for fact in response.facts))
            shares = [len(wanted & other) / len(wanted | other) for other in by_words]
            best = max(range(len(shares)), key=shares.__getitem__)
            if shares[best] > SAME_RESPONSE:
                yield response, generations[best]


def words(text: str) -> set[str]:
    """The words of a text, in small letters."""
    return set(_WORD.findall(text.lower()))


def _better(one: tuple[float, list[int]], other: tuple[float, list[int]]) -> tuple[float, list[int]]:
    return other if other[0] > one[0] else one
