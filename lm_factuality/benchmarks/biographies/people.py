"""What people are asked of biographies, in the steps of section 4.2: of whom a fact is told, whose page is about whom, and
whether a page supports a fact. Facts are those that the judge took the response apart into."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lm_factuality.benchmarks.asked import SKIP, Answers, Item, Option, People, as_verdict, load_questions, relabelling
from lm_factuality.benchmarks.biographies.judging import AmbigBio, generation
from lm_factuality.benchmarks.biographies.link import link
from lm_factuality.benchmarks.biographies.method import ALONE, Settings
from lm_factuality.benchmarks.biographies.recount import recount
from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, from_record
from lm_factuality.benchmarks.declaration import Recount, Rows, Sample
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of

MOST = 9  # individuals that can be told apart, a key each
NONE, ABSENT = "none", "absent"
_WORDS: Mapping[str, Any] = load_yaml(__package__, "people.yaml")


def people_of(run_of: Callable[[Mapping[str, Any]], AmbigBio], again: Callable[[TaskResult, Rows], Recount], noun: str) -> People:
    """What is asked of the responses of a benchmark of this method. ``run_of`` has the settings of a task's metadata, ``noun``
    says what its entities are. Links are those of people, and where they give none, those of equation 1 from their verdicts."""

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        judged = from_record(verdict_of(sample))
        told_apart = [*_groups(judged, noun), *_links(judged, noun)] if judged.entities != ALONE else []
        return [*told_apart, *_verdicts(judged)]

    def change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
        record, run = verdict_of(sample), run_of({**result.metadata, "knowledge": None})
        return as_verdict({**record, **run.record(_as_people_say(from_record(record), answers, run.settings))})

    questions = load_questions(__package__).values()
    named = tuple(replace(each, ask=each.ask.format(noun=noun)) for each in questions)
    return People(named, items, relabelling(items, change, again, optional="link"), unchanged=("respond_ratio",))


def _numbered(judged: JudgedBiography) -> dict[int, tuple[int, ...]]:
    """The groups by number, from 1, in the order of their first facts. One without a fact has lost the first of the response
    (``protocol: code``), so it comes first."""
    return dict(enumerate(sorted(judged.groups, key=lambda facts: min(facts, default=-1)), start=1))


def _groups(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Of whom each fact is told. The first fact is told of the first individual."""
    said = {fact: number for number, facts in _numbered(judged).items() for fact in facts}
    for place, fact in list(enumerate(judged.facts))[1:]:
        options = [Option(str(each), f"{noun.capitalize()} {each}", str(each)) for each in range(1, min(place + 1, MOST) + 1)]
        context = (("Text", judged.generation.output), ("Taken from", judged.sentences[fact.sentence]))
        judge = str(said[place]) if said.get(place, MOST + 1) <= len(options) else None
        yield Item(f"group:{place}", "group", fact.text, context, judge, tuple(options))


def _links(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Whose page is about each individual, of as many as there are pages or facts."""
    entity_of, given = dict(zip(judged.groups, judged.links, strict=True)), judged.generation
    said = {number: entity_of[facts] for number, facts in _numbered(judged).items()}
    pages = {title: "\n".join(page.text for page in given.passages if page.title == title) for title in judged.entities}
    titles = [Option(str(place), title, str(place + 1)) for place, title in enumerate(judged.entities)]
    for number in range(1, min(len(judged.facts), len(judged.entities), MOST) + 1):
        words = {"noun": noun, "Noun": noun.capitalize(), "number": number}
        options = (*titles, Option(NONE, _WORDS[NONE], "0"), Option(ABSENT, _WORDS[ABSENT].format(**words), "-"))
        entity = said.get(number)
        judge = ABSENT if number not in said else NONE if entity is None else str(entity)
        context = (("Text", given.output), *pages.items())
        yield Item(f"link:{number}", "link", _WORDS["individual"].format(**words), context, judge if said else None, options)


def _verdicts(judged: JudgedBiography) -> list[Item]:
    """Each distinct fact beside each page that the judge was shown; of a missing page the verdict follows."""
    found: dict[tuple[str, int], Item] = {}
    for place, (fact, cells) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        for entity, cell in enumerate(cells):
            if cell.evidence and (fact.text, entity) not in found:
                page = (judged.entities[entity] or "Evidence", "\n\n".join(cell.evidence))
                judge = None if cell.outcome == "unscored" else cell.outcome
                context = (("Asked", judged.generation.question), page)
                found[fact.text, entity] = Item(f"verdict:{place}:{entity}", "verdict", fact.text, context, judge)
    return list(found.values())


def _as_people_say(judged: JudgedBiography, answers: Answers, settings: Settings) -> JudgedBiography:
    first = {fact.text: place for place, fact in reversed(list(enumerate(judged.facts)))}

    def cell(text: str, entity: int, known: Judgement) -> Judgement:
        given: Any = answers.get(f"verdict:{first[text]}:{entity}")
        return replace(known, outcome=given, score=float(given == "supported"), reason="people") if given else known

    matrix = tuple(
        tuple(cell(fact.text, entity, known) for entity, known in enumerate(cells))
        for fact, cells in zip(judged.facts, judged.matrix, strict=True)
    )
    if judged.entities == ALONE:
        return replace(judged, matrix=matrix)
    numbers = [1, *(int(answers[f"group:{place}"]) for place in range(1, len(judged.facts)))]
    hidden = 0 if settings.protocol == "code" else -1  # the authors' groups lack the first fact
    told = {
        tuple(place for place, each in enumerate(numbers) if each == number and place != hidden): f"link:{number}"
        for number in sorted(set(numbers))
    }
    groups = judged.groups if set(told) == set(judged.groups) else tuple(told)  # ties between links go by the order of groups
    derived = link(groups, judged.entities, matrix, settings.linking, settings.protocol)
    said = [answers.get(told[facts], SKIP) for facts in groups]
    links = tuple(
        int(answer) if answer.isdigit() else None if answer == NONE else entity
        for answer, entity in zip(said, derived, strict=True)
    )
    return replace(judged, matrix=matrix, groups=groups, links=links, ungrouped=None)


PEOPLE = people_of(generation, recount, "person")
