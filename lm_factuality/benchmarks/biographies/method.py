"""The method in order, for many responses at once: a step asks everything that it has to ask of all
of them together, and a judge at most once about each sentence, each response and each distinct fact
with each entity, for all scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from judges.judge import Judge
from judges.typed import Typed
from lm_factuality.benchmarks.biographies import decompose, matrix
from lm_factuality.benchmarks.biographies.decompose import is_abstention
from lm_factuality.benchmarks.biographies.generations import EVIDENCE, given_pages
from lm_factuality.benchmarks.biographies.link import LINKINGS, PROTOCOLS, link
from lm_factuality.benchmarks.biographies.types import Fact, Generation, JudgedBiography
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.thinking import UNFINISHED, without_thinking
from lm_factuality.retrieval.knowledge import Knowledge

NO_SENTENCES, NO_FACTS = "no sentences", "no facts in any sentence"
ALONE = ("",)  # the entities of a response where they are not told apart: one, without a name


@dataclass(frozen=True)
class Settings:
    """``pages`` is where facts are verified, None for the passages that each response was given;
    ``linking`` ``greedy`` or ``hungarian``, ``protocol`` ``paper`` or ``code`` (the authors'
    choices: ties of entities go to the first title in the alphabet, and the first fact of a
    response is in no group). ``facts`` are ``standalone`` (each names whom it is about) or
    ``as_written``. Raises ConfigError: no such linking, protocol or facts."""

    folder: ClassVar[str] = matrix.FOLDER  # of the prompts

    pages: Knowledge | None = None
    linking: str = "greedy"
    protocol: str = "paper"
    facts: str = decompose.FACTS[0]

    def __post_init__(self) -> None:
        for name, known in (
            ("linking", tuple(LINKINGS)),
            ("protocol", PROTOCOLS),
            ("facts", decompose.FACTS),
        ):
            if (given := getattr(self, name)) not in known:
                raise ConfigError(
                    f"{name}: found {given!r}, expected"
                    f" {' or '.join(known)}{did_you_mean(given, known)}"
                )

    def about(self, generation: Generation) -> Mapping[str, Any]:
        return {}

    def begin(self, generation: Generation) -> JudgedBiography:
        return begin(generation)

    def pairs(self, judged: JudgedBiography) -> Mapping[tuple[str, str], matrix.Pair]:
        return matrix.pairs_of(judged.facts, judged.entities, self._page_of(judged))

    def longest(
        self, judged: JudgedBiography, pair: matrix.Pair, facts: int = 1
    ) -> tuple[str, ...]:
        """The longest evidence that so many facts can be shown together where ``pair`` is shown its
        own."""
        return longest(self._page_of(judged)(pair.entity) or (), EVIDENCE * facts)

    def _page_of(self, judged: JudgedBiography) -> matrix.PageOf:
        return given_pages(judged.generation).get if self.pages is None else self.pages.passages


PAPER = Settings()


def longest(passages: Sequence[str], count: int) -> tuple[str, ...]:
    """The ``count`` longest of ``passages`` that hold anything, in UTF-8."""
    return tuple(sorted(filter(str.strip, passages), key=lambda text: len(text.encode()))[-count:])


def judge_biographies(
    judge: Judge, generations: Sequence[Generation], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """Each of ``generations`` with its facts, groups, judgements and links, in order. Raises
    BackendDown, DataError: as ``Judge.ask`` raises them; nothing that was answered is lost."""
    judged = [settings.begin(generation) for generation in generations]
    judged = decompose_all(judge, judged, settings)
    judged = group_all(judge, judged, settings)
    judged = verify_all(judge, judged, settings)
    return [link_entities(each, settings) for each in judged]


def begin(generation: Generation) -> JudgedBiography:
    """A response before it is judged: its sentences, or that it abstains, or never came for
    thinking."""
    if without_thinking(generation.output) is None:
        return JudgedBiography(
            generation, (), (), (), generation.entities, (), (), False, UNFINISHED
        )
    sentences = decompose.sentences_of(generation.output)
    abstained = is_abstention(generation.output)
    problem = None if sentences or abstained else NO_SENTENCES
    return JudgedBiography(
        generation, sentences, (), (), generation.entities, (), (), abstained, problem
    )


def decompose_all(
    judge: Judge, judged: Sequence[JudgedBiography], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """With the facts of each response that is an answer, or the problem why there are none: one
    sentence that could not be taken apart leaves the whole response without, for its facts would be
    missing from every score."""
    subjects = sentence_subjects(judged, settings)
    asked = judge.ask_typed(
        f"{settings.folder}/decompose",
        subjects=subjects,
        description="decomposing sentences",
        **decompose.DECOMPOSE,
    )
    found = (reply for (reply,) in asked)
    return [
        _with_facts(each, [next(found) for _ in each.sentences]) if is_judged(each) else each
        for each in judged
    ]


def group_all(
    judge: Judge, judged: Sequence[JudgedBiography], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """With the groups of each response that has facts, or why there are none; a single fact is a
    group unasked, and so are all where entities are not told apart."""
    subjects = group_subjects(judged, settings)
    asked = judge.ask_typed(
        f"{settings.folder}/group",
        subjects=subjects,
        description="grouping facts",
        **decompose.GROUP,
    )
    found = (reply for (reply,) in asked)
    return [
        _with_groups(each, next(found) if _is_grouped(each) else None, settings.protocol)
        for each in judged
    ]


def _with_groups(
    judged: JudgedBiography, read: Typed[decompose.GroupsReply] | None, protocol: str
) -> JudgedBiography:
    groups: decompose.Groups = (tuple(range(len(judged.facts))),) if judged.facts else ()
    if read is not None:
        groups = decompose.to_groups(read.value) if read.value else ()
    if (
        protocol == "code"
    ):  # a group that had no other fact stays, empty: the authors count it among the biographies
        groups = tuple(tuple(fact for fact in each if fact != 0) for each in groups)
    return replace(
        judged, groups=groups, ungrouped=read.problem if read and read.value is None else None
    )


def verify_all(
    judge: Judge, judged: Sequence[JudgedBiography], settings: Settings = PAPER
) -> list[JudgedBiography]:
    """With the judgement of each fact by each entity; by one without a page it is not supported,
    unasked."""
    found = matrix.judge_pairs(judge, pairs_of_all(judged, settings), settings.folder)
    return [
        replace(
            each,
            matrix=tuple(
                tuple(found[number, fact.text, entity] for entity in each.entities)
                for fact in each.facts
            ),
        )
        for number, each in enumerate(judged)
    ]


def pairs_of_all(
    judged: Sequence[JudgedBiography], settings: Settings
) -> dict[matrix.Key, matrix.Pair]:
    return {
        (place, *key): pair
        for place, each in enumerate(judged)
        if each.facts
        for key, pair in settings.pairs(each).items()
    }


def link_entities(judged: JudgedBiography, settings: Settings) -> JudgedBiography:
    links = link(judged.groups, judged.entities, judged.matrix, settings.linking, settings.protocol)
    return replace(judged, links=links)


def sentence_subjects(
    judged: Sequence[JudgedBiography], settings: Settings
) -> list[dict[str, Any]]:
    """What the decomposing prompt is about, for every sentence of every answer."""
    return [
        {**subject, **settings.about(each.generation)}
        for each in judged
        if is_judged(each)
        for subject in decompose.decompose_subjects(
            each.sentences, each.generation.name, settings.facts
        )
    ]


def group_subjects(judged: Sequence[JudgedBiography], settings: Settings) -> list[dict[str, Any]]:
    """What the grouping prompt is about, for every response of two facts or more."""
    return [
        {**decompose.group_subject(each), **settings.about(each.generation)}
        for each in judged
        if _is_grouped(each)
    ]


def _is_grouped(judged: JudgedBiography) -> bool:
    return len(judged.facts) > 1 and judged.entities != ALONE


def is_judged(judged: JudgedBiography) -> bool:
    """Whether it is an answer that can be taken apart."""
    return not judged.abstained and judged.problem is None


def _with_facts(
    judged: JudgedBiography, found: Sequence[Typed[decompose.FactsReply]]
) -> JudgedBiography:
    facts: list[Fact] = []
    for number, each in enumerate(found):
        if each.value is None:
            return replace(
                judged,
                problem=f"not decomposed: sentence {number + 1} of {len(found)}: {each.problem}",
            )
        facts += [Fact(text, number) for text in decompose.to_facts(each.value)]
    return replace(judged, facts=tuple(facts), problem=None if facts else NO_FACTS)
