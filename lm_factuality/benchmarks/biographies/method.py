"""The method in order, for many responses at once.

A step asks everything that it has to ask of all of them together, and a judge at most once about
each sentence, each response and each distinct fact with each entity, for all scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from judges.judge import Judge
from judges.typed import Typed
from lm_factuality.benchmarks.biographies import decompose, matrix
from lm_factuality.benchmarks.biographies.decompose import is_abstention
from lm_factuality.benchmarks.biographies.generations import given_pages
from lm_factuality.benchmarks.biographies.link import LINKINGS, PROTOCOLS, link
from lm_factuality.benchmarks.biographies.types import Fact, Generation, JudgedBiography
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.retrieval.knowledge import Knowledge

NO_SENTENCES, NO_FACTS = "no sentences", "no facts in any sentence"
ALONE = ("",)  # the entities of a response where they are not told apart: one, without a name


@dataclass(frozen=True)
class Settings:
    """The choices of a run.

    Raises:
        ConfigError: There is no such linking, protocol or kind of facts.
    """

    folder: ClassVar[str] = matrix.FOLDER
    """The folder of the prompts."""

    pages: Knowledge | None = None
    """Where facts are verified. None for the passages that each response was given."""

    linking: str = "greedy"
    protocol: str = "paper"
    """``code`` for the authors' choices: ties of entities go to the first title in the alphabet,
    and the first fact of a response is in no group."""

    facts: str = decompose.FACTS[0]
    """``standalone`` (each names whom it is about) or ``as_written``."""

    def __post_init__(self) -> None:
        choices = {"linking": LINKINGS, "protocol": PROTOCOLS, "facts": decompose.FACTS}
        for name, options in choices.items():
            choice = getattr(self, name)
            if choice not in options:
                raise ConfigError(
                    f"{name}: found {choice!r}, expected"
                    f" {' or '.join(options)}{did_you_mean(choice, options)}"
                )

    def about(self, generation: Generation) -> Mapping[str, Any]:
        """Return what prompts say of a response besides its name."""
        return {}

    def begin(self, generation: Generation) -> JudgedBiography:
        """Return a response before it is judged."""
        return begin(generation)

    def pairs(self, judged: JudgedBiography) -> list[matrix.Pair]:
        """Return what to verify."""
        given = given_pages(judged.generation).get
        page_of = given if self.pages is None else self.pages.passages
        return matrix.pairs_of(judged.facts, judged.entities, page_of)


PAPER = Settings()


def judge_biographies(
    judge: Judge, generations: Sequence[Generation], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """Find the facts, groups, judgements and links of each generation.

    Raises:
        BackendDown, DataError: As ``Judge.ask`` raises them. Nothing that was answered is lost.
    """
    judged = [settings.begin(generation) for generation in generations]
    judged = decompose_all(judge, judged, settings)
    judged = group_all(judge, judged, settings)
    judged = verify_all(judge, judged, settings)
    return [link_entities(biography, settings) for biography in judged]


def begin(generation: Generation) -> JudgedBiography:
    """Return a response before it is judged: its sentences, or why it has none."""
    begun = JudgedBiography(generation, (), (), (), generation.entities, (), ())
    if without_thinking(generation.output) is None:
        return replace(begun, problem=UNFINISHED)
    sentences = decompose.sentences_of(generation.output)
    abstained = is_abstention(generation.output)
    problem = None if sentences or abstained else NO_SENTENCES
    return replace(begun, sentences=sentences, abstained=abstained, problem=problem)


def decompose_all(
    judge: Judge, judged: Sequence[JudgedBiography], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """Add the facts of each response that is an answer, or the problem why there are none.

    One sentence that could not be taken apart leaves the whole response without, for its facts
    would be missing from every score.
    """
    asked = judge.ask_typed(
        f"{settings.folder}/decompose",
        subjects=sentence_subjects(judged, settings),
        description="decomposing sentences",
        **decompose.DECOMPOSE,
    )
    replies = (reply for (reply,) in asked)
    return [
        _with_facts(biography, [next(replies) for _ in biography.sentences])
        if is_judged(biography)
        else biography
        for biography in judged
    ]


def sentence_subjects(
    judged: Sequence[JudgedBiography], settings: Settings
) -> list[dict[str, Any]]:
    """Return what the decomposing prompt is about, for every sentence of every answer."""
    subjects = []
    for biography in judged:
        if not is_judged(biography):
            continue
        for number, sentence in enumerate(biography.sentences):
            subject = {
                "kind": "decompose",
                "name": biography.generation.name,
                "standalone": settings.facts == "standalone",
                "sentence": sentence,
                "text": " ".join(biography.sentences[:number]),
                "demonstrations": decompose.demonstrations_for(sentence),
                **settings.about(biography.generation),
            }
            subjects.append(subject)
    return subjects


def is_judged(judged: JudgedBiography) -> bool:
    """Whether it is an answer that can be taken apart."""
    return not judged.abstained and judged.problem is None


def _with_facts(
    judged: JudgedBiography, replies: Sequence[Typed[decompose.FactsReply]]
) -> JudgedBiography:
    facts: list[Fact] = []
    for number, reply in enumerate(replies):
        if reply.value is None:
            where = f"sentence {number + 1} of {len(replies)}"
            return replace(judged, problem=f"not decomposed: {where}: {reply.problem}")
        facts += [Fact(text, number) for text in decompose.to_facts(reply.value)]
    return replace(judged, facts=tuple(facts), problem=None if facts else NO_FACTS)


def group_all(
    judge: Judge, judged: Sequence[JudgedBiography], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """Add the groups of each response that has facts, or why there are none.

    A single fact is a group unasked, and so are all where entities are not told apart.
    """
    asked = judge.ask_typed(
        f"{settings.folder}/group",
        subjects=group_subjects(judged, settings),
        description="grouping facts",
        **decompose.GROUP,
    )
    replies = iter(asked)
    grouped = []
    for biography in judged:
        groups: decompose.Groups = ()
        ungrouped = None
        if _is_grouped(biography):
            (reply,) = next(replies)
            if reply.value is None:
                ungrouped = reply.problem
            else:
                groups = decompose.to_groups(reply.value)
        elif biography.facts:
            groups = (tuple(range(len(biography.facts))),)
        if settings.protocol == "code":
            # A group that had no other fact stays, empty: the authors count it as a biography.
            groups = tuple(tuple(fact for fact in group if fact != 0) for group in groups)
        grouped.append(replace(biography, groups=groups, ungrouped=ungrouped))
    return grouped


def group_subjects(judged: Sequence[JudgedBiography], settings: Settings) -> list[dict[str, Any]]:
    """Return what the grouping prompt is about, for every response of two facts or more."""
    return [
        {**decompose.group_subject(biography), **settings.about(biography.generation)}
        for biography in judged
        if _is_grouped(biography)
    ]


def _is_grouped(judged: JudgedBiography) -> bool:
    return len(judged.facts) > 1 and judged.entities != ALONE


def verify_all(
    judge: Judge, judged: Sequence[JudgedBiography], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """Add the judgement of each fact by each entity.

    One without a page supports nothing, unasked.
    """
    judgements = matrix.judge_pairs(judge, pairs_of_all(judged, settings), settings.folder)
    verified = []
    for number, biography in enumerate(judged):
        rows = []
        for fact in biography.facts:
            rows.append(
                tuple(judgements[number, fact.text, entity] for entity in biography.entities)
            )
        verified.append(replace(biography, matrix=tuple(rows)))
    return verified


def pairs_of_all(
    judged: Sequence[JudgedBiography], settings: Settings
) -> dict[matrix.Key, matrix.Pair]:
    pairs: dict[matrix.Key, matrix.Pair] = {}
    for number, biography in enumerate(judged):
        if biography.facts:
            for pair in settings.pairs(biography):
                pairs[number, pair.fact, pair.entity] = pair
    return pairs


def link_entities(judged: JudgedBiography, settings: Settings) -> JudgedBiography:
    """Add the entity of each group."""
    links = link(judged.groups, judged.entities, judged.matrix, settings.linking, settings.protocol)
    return replace(judged, links=links)
