"""Scores of AmbigBio out of its samples, and whether a record follows from the response; and what
people are asked in the steps of section 4.2: of whom a fact is told, whose page is about whom, and
whether a page supports a fact. A record holds what was read of the judge: what follows from the
response (sentences, abstentions, evidence, links) is found again, the rest is believed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from lm_factuality.benchmarks.asked import (
    SKIP,
    Answers,
    Item,
    Option,
    People,
    as_verdict,
    load_questions,
    relabelling,
)
from lm_factuality.benchmarks.biographies.generations import DOCUMENTS, from_doc
from lm_factuality.benchmarks.biographies.judging import AmbigBio, generation
from lm_factuality.benchmarks.biographies.link import link
from lm_factuality.benchmarks.biographies.matrix import unasked
from lm_factuality.benchmarks.biographies.method import ALONE, Settings, link_entities
from lm_factuality.benchmarks.biographies.summary import Row, row_metrics
from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, from_record
from lm_factuality.benchmarks.declaration import Recount, Rows, Sample
from lm_factuality.benchmarks.declaration import Row as Kept
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs, verdict_of

_CONTRADICTED = 0.1  # a score so near to the other end is not that of the outcome


def recount(task: TaskResult, rows: Rows) -> Recount:
    """From the judgements by the task's protocol; what does not follow from the judge's texts is
    unfounded."""
    protocol = str(task.metadata.get("protocol", "paper"))
    by_passages = task.metadata.get("knowledge", DOCUMENTS) == DOCUMENTS
    settings = Settings(None, str(task.metadata.get("linking", "greedy")), protocol)

    def again(row: Kept) -> dict[str, Any]:
        judged = from_record(row["verdict"])
        given = judged.generation
        belongs(
            given.index == row["doc"]["index"]
            and given.name == row["doc"]["name"]
            and [given.output] == row["responses"]
        )
        found = Row.of(judged, protocol)
        scores = None if found.scores is None else asdict(found.scores)
        for key, value in (("scores", scores), ("unscored", found.unscored)):
            if value != row["verdict"].get(key):
                raise ValueError(f"{key!r} of its record does not follow from the judgements there")
        return row_metrics(found)

    return Recount(again, lambda row: unfounded(row, settings, by_passages))


def unfounded(row: Kept, settings: Settings, by_passages: bool) -> str | None:
    """What of a record does not follow, if anything; ``by_passages``: facts were verified by the
    passages of the document."""
    judged, (response,) = from_record(row["verdict"]), row["responses"]
    expected = settings.begin(from_doc(row["doc"], response))
    for part in ("generation", "sentences", "entities", "abstained"):
        if getattr(judged, part) != getattr(expected, part):
            return f"its {part} {'are' if part.endswith('s') else 'is'} not what the response says"
    if expected.abstained or expected.problem:
        is_empty = not judged.facts and judged.problem == expected.problem
        return None if is_empty else "it has facts, but the response says nothing"
    if not judged.facts:
        return None if judged.problem else "it has no facts, and no reason why"
    if judged.problem:
        return "it has facts and a reason why it has none"
    if wrong := _wrong_groups(judged, settings.protocol) or _wrong_matrix(
        judged, settings if by_passages else None
    ):
        return wrong
    links = link_entities(judged, settings).links
    return None if judged.links == links else "its links do not follow from the judgements"


def _wrong_groups(judged: JudgedBiography, protocol: str) -> str | None:
    """Each fact is in one group, under ``protocol: code`` the first in none; or it is said why
    there are no groups."""
    sentences = [fact.sentence for fact in judged.facts]
    if sentences != sorted(sentences) or len(set(judged.facts)) < len(judged.facts):
        return "its facts are not in the order of the sentences, or twice"
    if judged.ungrouped is not None:
        return (
            "it has groups and a reason why it has none"
            if judged.groups or len(judged.facts) < 2
            else None
        )
    grouped = sorted(fact for group in judged.groups for fact in group)
    first = 1 if protocol == "code" else 0
    is_sound = grouped == list(range(first, len(judged.facts))) and (first or all(judged.groups))
    return None if is_sound else "its groups do not hold each fact once"


def _wrong_matrix(judged: JudgedBiography, settings: Settings | None) -> str | None:
    """Facts of the same text share their judgements; a judgement has its own evidence and a score
    that fits its outcome."""
    pairs = settings.pairs(judged) if settings else {}
    known: dict[tuple[str, str], Judgement] = {}
    for fact, cells in zip(judged.facts, judged.matrix, strict=True):
        for entity, found in zip(judged.entities, cells, strict=True):
            key = fact.text, entity
            if known.setdefault(key, found) != found:
                return "facts of the same text have different judgements"
            pair = pairs.get(key)
            if pair is not None and (
                found != unasked(pair)
                if pair.problem
                else not set(pair.evidence) <= set(found.evidence)
            ):
                return "a judgement is not on the passages of its entity"
            if not _fits(found):
                return f"a fact is {found.outcome}, but its score is {found.score}"
    return None


def _fits(judgement: Judgement) -> bool:
    if judgement.outcome == "unscored" or judgement.score is None:
        return judgement.outcome == "unscored" and judgement.score is None
    return (
        judgement.score >= _CONTRADICTED
        if judgement.outcome == "supported"
        else judgement.score <= 1 - _CONTRADICTED
    )


MOST = 9  # individuals that can be told apart, a key each
NONE, ABSENT = "none", "absent"
_WORDS: Mapping[str, Any] = load_yaml(__package__, "people.yaml")


def people_of(
    run_of: Callable[[Mapping[str, Any]], AmbigBio],
    again: Callable[[TaskResult, Rows], Recount],
    noun: str,
) -> People:
    """What is asked of the responses of a benchmark of this method. ``run_of`` has the settings of
    a task's metadata, ``noun`` says what its entities are. Links are those of people, and where
    they give none, those of equation 1 from their verdicts."""

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        judged = from_record(verdict_of(sample))
        told_apart = (
            [*_groups(judged, noun), *_links(judged, noun)] if judged.entities != ALONE else []
        )
        return [*told_apart, *_verdicts(judged)]

    def change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
        record, run = verdict_of(sample), run_of({**result.metadata, "knowledge": None})
        return as_verdict(
            {**record, **run.record(_as_people_say(from_record(record), answers, run.settings))}
        )

    questions = load_questions(__package__).values()
    named = tuple(replace(each, ask=each.ask.format(noun=noun)) for each in questions)
    return People(
        named,
        items,
        relabelling(items, change, again, optional="link"),
        unchanged=("respond_ratio",),
    )


def _numbered(judged: JudgedBiography) -> dict[int, tuple[int, ...]]:
    """The groups by number, from 1, in the order of their first facts. One without a fact has lost
    the first of the response (``protocol: code``), so it comes first."""
    return dict(enumerate(sorted(judged.groups, key=lambda facts: min(facts, default=-1)), start=1))


def _groups(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Of whom each fact is told. The first fact is told of the first individual."""
    said = {fact: number for number, facts in _numbered(judged).items() for fact in facts}
    for place, fact in list(enumerate(judged.facts))[1:]:
        options = [
            Option(str(each), f"{noun.capitalize()} {each}", str(each))
            for each in range(1, min(place + 1, MOST) + 1)
        ]
        context = (
            ("Text", judged.generation.output),
            ("Taken from", judged.sentences[fact.sentence]),
        )
        judge = str(said[place]) if said.get(place, MOST + 1) <= len(options) else None
        yield Item(f"group:{place}", "group", fact.text, context, judge, tuple(options))


def _links(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Whose page is about each individual, of as many as there are pages or facts."""
    entity_of, given = dict(zip(judged.groups, judged.links, strict=True)), judged.generation
    said = {number: entity_of[facts] for number, facts in _numbered(judged).items()}
    pages = {
        title: "\n".join(page.text for page in given.passages if page.title == title)
        for title in judged.entities
    }
    titles = [
        Option(str(place), title, str(place + 1)) for place, title in enumerate(judged.entities)
    ]
    for number in range(1, min(len(judged.facts), len(judged.entities), MOST) + 1):
        words = {"noun": noun, "Noun": noun.capitalize(), "number": number}
        options = (
            *titles,
            Option(NONE, _WORDS[NONE], "0"),
            Option(ABSENT, _WORDS[ABSENT].format(**words), "-"),
        )
        entity = said.get(number)
        judge = ABSENT if number not in said else NONE if entity is None else str(entity)
        context = (("Text", given.output), *pages.items())
        yield Item(
            f"link:{number}",
            "link",
            _WORDS["individual"].format(**words),
            context,
            judge if said else None,
            options,
        )


def _verdicts(judged: JudgedBiography) -> list[Item]:
    """Each distinct fact beside each page that the judge was shown; of a missing page the verdict
    follows."""
    found: dict[tuple[str, int], Item] = {}
    for place, (fact, cells) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        for entity, cell in enumerate(cells):
            if cell.evidence and (fact.text, entity) not in found:
                page = (judged.entities[entity] or "Evidence", "\n\n".join(cell.evidence))
                judge = None if cell.outcome == "unscored" else cell.outcome
                context = (("Asked", judged.generation.question), page)
                found[fact.text, entity] = Item(
                    f"verdict:{place}:{entity}", "verdict", fact.text, context, judge
                )
    return list(found.values())


def _as_people_say(
    judged: JudgedBiography, answers: Answers, settings: Settings
) -> JudgedBiography:
    first = {fact.text: place for place, fact in reversed(list(enumerate(judged.facts)))}

    def cell(text: str, entity: int, known: Judgement) -> Judgement:
        given: Any = answers.get(f"verdict:{first[text]}:{entity}")
        return (
            replace(known, outcome=given, score=float(given == "supported"), reason="people")
            if given
            else known
        )

    matrix = tuple(
        tuple(cell(fact.text, entity, known) for entity, known in enumerate(cells))
        for fact, cells in zip(judged.facts, judged.matrix, strict=True)
    )
    if judged.entities == ALONE:
        return replace(judged, matrix=matrix)
    numbers = [1, *(int(answers[f"group:{place}"]) for place in range(1, len(judged.facts)))]
    hidden = 0 if settings.protocol == "code" else -1  # the authors' groups lack the first fact
    told = {
        tuple(
            place for place, each in enumerate(numbers) if each == number and place != hidden
        ): f"link:{number}"
        for number in sorted(set(numbers))
    }
    groups = (
        judged.groups if set(told) == set(judged.groups) else tuple(told)
    )  # ties between links go by the order of groups
    derived = link(groups, judged.entities, matrix, settings.linking, settings.protocol)
    said = [answers.get(told[facts], SKIP) for facts in groups]
    links = tuple(
        int(answer) if answer.isdigit() else None if answer == NONE else entity
        for answer, entity in zip(said, derived, strict=True)
    )
    return replace(judged, matrix=matrix, groups=groups, links=links, ungrouped=None)


PEOPLE = people_of(generation, recount, "person")
