"""Readers of the decision files that the authors of D-FActScore released.

``lm-factuality score ambigbio`` scores these files, and `certify` measures judges on them.

A file has two lists with one entry per name, which is null if the model declined. ``decisions`` has
the facts as they were decomposed. ``global_decisions`` has the facts that grouping returned, each
verified by the page of its group's entity.

The files state only the mean number of groups (``num_groups``), not where a group ends. But the
facts of a group follow each other, and all supported ones are supported by the group's entity. We
therefore take a run of facts with one entity as a group: ChatGPT's responses have 2.20 runs on
average for 2.27 groups, and those of Llama-2-13b-chat have 1.096 for 1.098.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, zip_longest
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, StrictBool

from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from lm_factuality.benchmarks.biographies.types import Fact, GeneratedText, JudgedBiography
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.records import read_model

_EXPECTED = (
    "expected a decision file as it was released: JSON, plain or gzipped, with the lists"
    " 'decisions' and 'global_decisions'"
)
MIN_TEXT_SIMILARITY = 0.6
"""The share of common words, of all words of both, above which a text is that of the facts."""

_WORD = re.compile(r"\w+")


def _unwrap_title(title: object) -> object:
    """Return the only element of a list, as some files have titles, or None for an empty list.

    Any other value is returned as it is: pydantic checks it next.
    """
    if isinstance(title, list) and len(title) < 2:
        return title[0] if title else None
    return title


@dataclass(frozen=True)
class DecidedFact:
    """A fact with its released decision. The fields have the names of the files."""

    atom: str
    """The text of the fact."""

    is_supported: StrictBool
    """Whether a page supports it."""

    supporting_topic: Annotated[str | None, BeforeValidator(_unwrap_title)]
    """The title of the page that supports it. Some files have only the first letter."""


Facts: TypeAlias = tuple[DecidedFact, ...]


@dataclass(frozen=True)
class DecidedResponse:
    """The released decisions on one response."""

    facts: Facts
    """The facts as they were decomposed, at least one."""

    grouped: Facts
    """The facts that grouping returned. It may have lost or invented facts."""

    @cached_property
    def grouped_fact_indices(self) -> list[int | None]:
        """For each grouped fact its index in ``facts``, or None if its text is not in ``facts``.

        Example:
            With the facts "A.", "B." and "B.", the grouped facts "B.", "C." and "B." have the
            indices 1, None and 2.
        """
        unmatched_indices: dict[str, deque[int]] = defaultdict(deque)
        for index, fact in enumerate(self.facts):
            unmatched_indices[fact.atom].append(index)

        fact_indices: list[int | None] = []
        for fact in self.grouped:
            indices_of_text = unmatched_indices[fact.atom]
            fact_indices.append(indices_of_text.popleft() if indices_of_text else None)
        return fact_indices

    @cached_property
    def grouped_verdicts(self) -> list[bool | None]:
        """The verdict on each of ``facts`` after grouping: whether a page supports the fact.

        A fact that grouping lost was not verified again. Its verdict is None.
        """
        verdicts: list[bool | None] = [None] * len(self.facts)
        for index, fact in zip(self.grouped_fact_indices, self.grouped, strict=True):
            # A fact that grouping invented has no index.
            if index is not None:
                verdicts[index] = fact.is_supported
        return verdicts


@dataclass(frozen=True)
class Decisions:
    """The released decisions on the responses of one model."""

    responses: tuple[DecidedResponse | None, ...]
    """One entry per name. None if the model declined."""

    num_groups: float | None
    """The mean number of groups that the file states."""


class _DecisionFile(BaseModel):
    """The content of a decision file."""

    decisions: list[Annotated[Facts, Field(min_length=1)] | None]
    global_decisions: list[Facts | None]
    num_groups: float | None = None


def read_decisions(path: Path) -> Decisions:
    """Read the released decisions on the responses of one model.

    Args:
        path: A JSON file, plain or gzipped.

    Raises:
        DataError: The file cannot be read, its two lists do not fit together, or it has no
            response.
    """
    file = read_model(path, _DecisionFile, _EXPECTED)
    responses: list[DecidedResponse | None] = []
    problems = []
    entries = zip_longest(file.decisions, file.global_decisions)
    for number, (facts, grouped_facts) in enumerate(entries):
        if facts is not None and grouped_facts is not None:
            responses.append(DecidedResponse(facts, grouped_facts))
        elif facts is None and grouped_facts is None:
            # The model declined.
            responses.append(None)
        else:
            problems.append(
                f"{path}: entry {number}: expected facts in both lists, or null in both if declined"
            )
    # All faulty entries are named in one error.
    refuse(problems, "entries", advice="Restore the file as it was released.")
    if not any(responses):
        raise DataError(f"{path}: no responses in its {len(responses)} entries; {_EXPECTED}")
    return Decisions(tuple(responses), file.num_groups)


class ReleasedGroup(NamedTuple):
    """A fact group as the released decisions show it."""

    entity: str
    """The title of the page that supports the facts of the group."""

    facts: tuple[int, ...]
    """The numbers of the facts, in ascending order."""


class FactAndEntity(NamedTuple):
    """A fact of a response together with a candidate entity."""

    fact: int
    """The number of the fact."""

    entity: str
    """The title of the entity's page."""


class _Run(NamedTuple):
    """Successive grouped facts that one entity supports."""

    entity: str
    """The title of the entity's page."""

    fact_indices: Sequence[int | None]
    """The index of each fact, or None if grouping invented it."""


@dataclass(frozen=True)
class ReleasedResponse:
    """A released response with the decisions on it."""

    generation: GeneratedText
    decided: DecidedResponse

    @cached_property
    def biography(self) -> JudgedBiography:
        """The response with its released facts, each assigned to the sentence that states it.

        It has no facts if the response has no sentences.
        """
        prepared = AMBIGBIO.prepare(self.generation)
        if not prepared.sentences:
            return prepared
        # The released files do not say which sentence states a fact.
        fact_texts = [fact.atom for fact in self.decided.facts]
        sentence_indices = _align_facts(fact_texts, prepared.sentences)
        return replace(prepared, facts=tuple(map(Fact, fact_texts, sentence_indices)))

    @cached_property
    def groups(self) -> tuple[ReleasedGroup, ...]:
        """The fact groups whose entity supports at least one fact, in the order of the text.

        There are no groups if the file has only the first letter of each title, as some files do.
        An unsupported fact between two groups is left out, since it may belong to either of them.
        """
        titles = [fact.supporting_topic for fact in self.decided.grouped]
        # "A" in place of "Ada Lind" does not tell entities apart.
        if any(title is not None and len(title) == 1 for title in titles):
            return ()

        groups = []
        for run in _split_into_runs(self.decided.grouped_fact_indices, titles):
            # Facts that grouping invented are none of the response.
            indices = sorted(index for index in run.fact_indices if index is not None)
            groups.append(ReleasedGroup(run.entity, tuple(indices)))
        return tuple(groups)

    @cached_property
    def verdicts(self) -> Mapping[FactAndEntity, bool]:
        """Whether the page of an entity supports a fact, for all pairs that were verified.

        A decision file has verdicts before and after grouping. If the two contradict each other
        about a fact and an entity, both are left out. Entities that are no candidates are also left
        out.
        """
        verdicts_by_pair: dict[FactAndEntity, list[bool]] = defaultdict(list)
        for pair, is_supported in chain(self._verdicts_on_facts(), self._verdicts_on_groups()):
            verdicts_by_pair[pair].append(is_supported)

        candidates = self.generation.entities
        agreed_verdicts = {}
        for pair, verdicts in verdicts_by_pair.items():
            if pair.entity in candidates and len(set(verdicts)) == 1:
                agreed_verdicts[pair] = verdicts[0]
        return agreed_verdicts

    def _verdicts_on_facts(self) -> Iterator[tuple[FactAndEntity, bool]]:
        """Yield the verdicts on facts before grouping.

        The authors compared each fact with the pages of all candidate entities, and their files
        name one page that supports it. So a supported fact has a verdict for this page only, and an
        unsupported fact has one for each page.

        Example:
            With the pages "Ada (painter)" and "Ada (poet)", the fact "Ada wrote." that the second
            one supports yields one verdict, and the unsupported fact "Ada flew." yields two.
        """
        for index, fact in enumerate(self.decided.facts):
            entities = self.generation.entities
            if fact.supporting_topic is not None:
                entities = (fact.supporting_topic,)
            for entity in entities:
                yield FactAndEntity(index, entity), fact.is_supported

    def _verdicts_on_groups(self) -> Iterator[tuple[FactAndEntity, bool]]:
        """Yield the verdicts after grouping, which are by the page of the group's entity."""
        for group in self.groups:
            for number in group.facts:
                # Every fact of a group came back from grouping, and so has a verdict.
                is_supported = bool(self.decided.grouped_verdicts[number])
                yield FactAndEntity(number, group.entity), is_supported


class _Alignment(NamedTuple):
    """An assignment of the first facts of a response to its sentences."""

    similarity: float
    """The sum over facts of the share of a fact's words that its sentence has."""

    sentence_indices: list[int]
    """The sentence of each fact, in ascending order."""


def _align_facts(facts: Sequence[str], sentences: Sequence[str]) -> list[int]:
    """Assign each fact to the sentence that states it, by dynamic programming.

    Facts follow the order of the text, so a fact never stands in a sentence before that of the
    preceding fact. Among all assignments in this order, the one is chosen in which facts share most
    words with their sentences.

    Example:
        The facts "Ada sang." and "She won." of the sentences "Ada sang." and "She won twice." are
        assigned to the sentences 0 and 1.

    Args:
        facts: The texts of the facts, in the order of the response.
        sentences: The sentences of the response, at least one.

    Returns:
        The index of the sentence of each fact, in ascending order.
    """
    # For each sentence, the best alignment of the facts so far whose last fact stands there. Before
    # the first fact, all are empty.
    alignments = [_Alignment(0.0, []) for _ in sentences]
    words_by_sentence = [distinct_words(sentence) for sentence in sentences]
    by_similarity = attrgetter("similarity")
    for fact in facts:
        fact_words = distinct_words(fact)
        extended_alignments = []
        best_previous = alignments[0]
        for index, sentence_words in enumerate(words_by_sentence):
            # The fact before this one may stand in the same sentence or in an earlier one.
            best_previous = max(best_previous, alignments[index], key=by_similarity)
            shared_part = len(fact_words & sentence_words) / max(len(fact_words), 1)
            extended = _Alignment(
                similarity=best_previous.similarity + shared_part,
                sentence_indices=[*best_previous.sentence_indices, index],
            )
            extended_alignments.append(extended)
        alignments = extended_alignments
    return max(alignments, key=by_similarity).sentence_indices


def _split_into_runs(
    fact_indices: Sequence[int | None], titles: Sequence[str | None]
) -> list[_Run]:
    """Split the grouped facts of a response into runs that one entity supports.

    Example:
        The facts 0 to 4 with the titles None, "Ada", None, "Bea" and None give the runs "Ada" of
        the facts 0 and 1, and "Bea" of the facts 3 and 4. Fact 2 may belong to either.

    Args:
        fact_indices: The index of each grouped fact, or None if grouping invented it.
        titles: For each grouped fact the title of the page that supports it, or None if none does.

    Returns:
        The runs in order, each with its unsupported facts, but without those between two runs.
    """
    supported = [(place, title) for place, title in enumerate(titles) if title is not None]
    runs: list[_Run] = []
    for title, supported_by_entity in groupby(supported, key=itemgetter(1)):
        places = [place for place, _ in supported_by_entity]
        # Unsupported facts at the beginning can only belong to the first run, and those at the end
        # only to the last run.
        is_first = places[0] == supported[0][0]
        is_last = places[-1] == supported[-1][0]
        start = 0 if is_first else places[0]
        end = len(titles) if is_last else places[-1] + 1
        runs.append(_Run(title, fact_indices[start:end]))
    return runs


def match_texts(
    responses: Sequence[DecidedResponse | None], texts: Sequence[GeneratedText]
) -> Iterator[tuple[DecidedResponse, GeneratedText]]:
    """Find the generated text that the facts of each response were taken from.

    Decision files and generation files have no common key, and one may lack entries of the other.
    So the text is taken whose words are most similar to those of the facts: the number of common
    words over the number of all distinct words of both is highest.

    Args:
        responses: The released decisions, None where the model declined.
        texts: The generated texts of the same model. There is at least one.

    Yields:
        Each response with its text. A response is left out if no text is similar enough.
    """
    words_by_text = [distinct_words(text.output) for text in texts]
    for response in responses:
        if response is None:
            continue
        # The facts of a response repeat most words of its text.
        fact_words = distinct_words(" ".join(fact.atom for fact in response.facts))
        similarities = [
            len(fact_words & text_words) / len(fact_words | text_words)
            for text_words in words_by_text
        ]
        highest_similarity = max(similarities)
        if highest_similarity > MIN_TEXT_SIMILARITY:
            yield response, texts[similarities.index(highest_similarity)]


def distinct_words(text: str) -> set[str]:
    """Return the distinct words of a text in lower case, such as {"ada", "sang"}."""
    return set(_WORD.findall(text.lower()))
