"""The data that the steps of D-FActScore pass on, and the JSON record of a judged biography.

All modules of this package use these types. Each line of a ``verdicts.jsonl`` holds one record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt
from pydantic_core import to_jsonable_python

from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.harness.generation import JsonObject

Outcome = Literal["supported", "not_supported", "irrelevant", "unscored"]

Linking = Literal["greedy", "hungarian"]
"""How fact groups are linked to entities, see `link_groups`."""

Protocol = Literal["paper", "code"]
"""Whether scores follow the paper, or the authors' code where it differs from the paper."""

SINGLE_SUBJECT = ("",)
"""The entities of a response about a single subject: one entity without a name.

The facts of such a response are neither grouped nor linked.
"""

Probability = Annotated[float, Field(strict=True, ge=0, le=1)]


@dataclass(frozen=True)
class RetrievedPassage:
    """A passage that a model was given with the question."""

    title: str
    """The title of the page that holds the passage. It names the entity of the page."""

    text: str
    """The passage without its title."""


@dataclass(frozen=True)
class GeneratedText:
    """A biography that a model wrote about a name."""

    index: str
    """The number of the question in its file, counted from 0."""

    question: str
    """The question, such as "Tell me a bio of Ada Lind"."""

    name: str
    """The name that the question asks about. Several people may share it."""

    output: str
    """The model's text, with citations such as [1]."""

    passages: tuple[RetrievedPassage, ...]
    """The passages that the model was given. The citation [1] refers to the first."""

    citation_numbers: tuple[int, ...] | None = None
    """The number by which the text cites each passage, or None if that is the passage's place.

    Files that keep only the cited passages lose their places. It is empty if it cannot be told.
    """

    @property
    def entities(self) -> tuple[str, ...]:
        """The candidates for entity linking: the distinct titles, in the order of retrieval."""
        # A dict keeps the order and drops repeated titles.
        return tuple(dict.fromkeys(passage.title for passage in self.passages))


@dataclass(frozen=True)
class Fact:
    """An atomic fact: a short sentence that states one piece of information."""

    text: str
    """The sentence, such as "Ada Lind was a painter."."""

    sentence: StrictInt
    """The number of the sentence that states the fact, counted from 0."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one fact by the page of one entity."""

    outcome: Outcome
    """The verdict of the judge, or ``unscored`` if there is none."""

    score: Probability | None = None
    """The probability that the page supports the fact. None if the fact is unscored."""

    reason: str = ""
    """The judge's reason, or why there is no verdict."""

    evidence: tuple[str, ...] = ()
    """The passages of the page that the judge saw."""

    is_contradicted: StrictBool | None = None
    """Whether the page contradicts a fact that is not supported, or says nothing of it (False).

    None for other outcomes, and if the judge does not tell.
    """


@dataclass(frozen=True)
class JudgedBiography:
    """A generated biography with the results of all steps."""

    generation: GeneratedText
    """The biography and its question."""

    sentences: tuple[str, ...]
    """The sentences of the biography without citations."""

    facts: tuple[Fact, ...]
    """The atomic facts, in the order of the text."""

    groups: tuple[tuple[StrictInt, ...], ...]
    """The fact groups: for each individual that a reader sees, the numbers of its facts."""

    entities: tuple[str, ...]
    """The titles of the candidate pages for entity linking."""

    matrix: tuple[tuple[Judgement, ...], ...]
    """One row for each fact, with the judgement by the page of each entity (columns)."""

    links: tuple[StrictInt | None, ...]
    """For each group the number of its entity, or None if it has no entity."""

    named_pages: tuple[StrictInt | None, ...] | None = None
    """For each group the entity whose page the judge named in the joint method, or None.

    None for the whole field if the judge was not asked to name pages.
    """

    tells_contradictions: StrictBool = True
    """Whether the judge tells a contradicted fact from one that its page does not mention."""

    abstained: StrictBool = False
    """Whether the model declined to answer."""

    problem: str | None = None
    """Why the response has no facts, although the model did not decline."""

    ungrouped: str | None = None
    """Why there are no groups, although the facts have judgements."""

    judged_against: str = ""
    """The evidence for verdicts on facts, such as ``cited passages``. Empty in older records."""

    @property
    def has_single_subject(self) -> bool:
        """Whether all facts have the same subject, so that nobody has to be told apart."""
        return self.entities == SINGLE_SUBJECT

    @property
    def is_answer(self) -> bool:
        """Whether the response can be decomposed into facts."""
        return not self.abstained and self.problem is None


def biography_to_record(biography: JudgedBiography) -> JsonObject:
    """Convert a judged biography to JSON values.

    Many judgements share the same passages. The record therefore holds each passage once, and the
    judgements refer to passages by number.

    Example:
        A judgement with the evidence ["Ada sang."] gets the evidence [0] if the record's
        ``evidence`` is ["Ada sang.", "Ada won."].

    Returns:
        The fields of `JudgedBiography`, and under ``evidence`` the list of distinct passages.
    """
    judgements = chain.from_iterable(biography.matrix)
    passages = chain.from_iterable(judgement.evidence for judgement in judgements)
    # A dict keeps the order and drops repeated passages.
    distinct_passages = list(dict.fromkeys(passages))
    number_by_passage = {passage: number for number, passage in enumerate(distinct_passages)}
    matrix = [
        [_judgement_to_record(judgement, number_by_passage) for judgement in row]
        for row in biography.matrix
    ]

    record = {**to_jsonable_python(biography), "matrix": matrix, "evidence": distinct_passages}
    # Earlier versions did not have these fields, so records without a value for them stay the same.
    defaults = {"judged_against": "", "named_pages": None, "tells_contradictions": True}
    for field, default in defaults.items():
        if record[field] == default:
            del record[field]
    if biography.generation.citation_numbers is None:
        del record["generation"]["citation_numbers"]
    return record


def _judgement_to_record(
    judgement: Judgement, number_by_passage: Mapping[str, int]
) -> dict[str, Any]:
    """Convert a judgement to JSON values, with the numbers of its passages as ``evidence``."""
    numbers = [number_by_passage[passage] for passage in judgement.evidence]
    record = {**vars(judgement), "evidence": numbers}
    # Earlier versions did not have this field, so records of judges that cannot tell stay the same.
    if judgement.is_contradicted is None:
        del record["is_contradicted"]
    return record


def biography_from_record(record: Mapping[str, Any]) -> JudgedBiography:
    """Read a judged biography from the record that `biography_to_record` made.

    Args:
        record: The JSON values. Keys that are no field of `JudgedBiography` are ignored.

    Raises:
        ValueError: A key is missing or has a wrong type, or two parts contradict each other. For
            example, a group holds the number of a fact that does not exist.
    """
    try:
        matrix = _matrix_with_passages(record["matrix"], record["evidence"])
        biography = to_model(JudgedBiography, {**record, "matrix": matrix})
        # Pydantic checks the type of each field only.
        _check_numbers(biography)
    except (LookupError, TypeError, ValueError) as error:
        # A record may be any JSON, so that any access to it can fail.
        raise ValueError(
            f"not a record of a judged biography: {type(error).__name__}: {error}"
        ) from error
    return biography


def _matrix_with_passages(
    matrix: Sequence[Sequence[JsonObject]], passages: Sequence[str]
) -> list[list[JsonObject]]:
    """Replace the passage numbers in the ``evidence`` of all judgements by the passages.

    Args:
        matrix: The judgements of a record, one row for each fact.
        passages: The passages of the record.

    Raises:
        KeyError: There is no passage with this number.
    """
    # A list would accept negative numbers, a dict does not.
    passage_by_number = dict(enumerate(passages))
    rows = []
    for row in matrix:
        judgements = []
        for judgement in row:
            evidence = [passage_by_number[number] for number in judgement["evidence"]]
            judgements.append({**judgement, "evidence": evidence})
        rows.append(judgements)
    return rows


def _check_numbers(biography: JudgedBiography) -> None:
    """Check that a judged biography refers to existing facts, sentences and entities only.

    Raises:
        ValueError: An index refers to nothing, a fact is in two groups, or the lengths of two lists
            differ. The message names all such parts.
    """
    # All wrong parts are named at once, so that a file is mended once.
    wrong_parts = []
    sentence_indices = range(len(biography.sentences))
    if any(fact.sentence not in sentence_indices for fact in biography.facts):
        wrong_parts.append("a sentence in 'facts'")

    grouped_facts = list(chain.from_iterable(biography.groups))
    distinct_grouped_facts = set(grouped_facts)
    if not distinct_grouped_facts.issubset(range(len(biography.facts))):
        wrong_parts.append("a fact in 'groups'")
    if len(distinct_grouped_facts) < len(grouped_facts):
        wrong_parts.append("a fact twice in 'groups'")

    # A group need not have an entity.
    entity_indices = {None, *range(len(biography.entities))}
    for name in ("links", "named_pages"):
        entities_of_groups = getattr(biography, name)
        # The judge may not have been asked to name pages.
        if entities_of_groups is None:
            continue
        if not entity_indices.issuperset(entities_of_groups):
            wrong_parts.append(f"an entity in {name!r}")
        if len(entities_of_groups) != len(biography.groups):
            wrong_parts.append(f"the length of {name!r}")

    # The matrix has a row for each fact and a column for each entity.
    row_lengths = [len(row) for row in biography.matrix]
    if row_lengths != [len(biography.entities)] * len(biography.facts):
        wrong_parts.append("the lengths in 'matrix'")
    if wrong_parts:
        raise ValueError(f"{', '.join(wrong_parts)}: does not fit the rest of the record")


def read_verdicts(path: Path) -> list[JsonObject]:
    """Read the records of judged biographies from a ``verdicts.jsonl``, one record per line.

    Args:
        path: The file, which ``lm-factuality judge ambigbio`` has written.

    Returns:
        The records as they are in the file. `biography_from_record` can read each of them.

    Raises:
        DataError: The file cannot be read, or some lines hold no record. The error names the lines.
    """

    def parse_record(line: Mapping[str, Any]) -> JsonObject:
        """Return the record in a line, or raise ValueError if it is no judged biography."""
        # The line is only checked here. Pages also show the scores of a record, which the biography
        # lacks, so the record itself is returned.
        biography_from_record(line)
        return dict(line)

    return read_lines(
        path,
        parse=parse_record,
        expected="make it with: lm-factuality judge ambigbio ... --out DIR",
    )
