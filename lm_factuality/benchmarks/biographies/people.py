"""What people are asked of biographies, in the steps of section 4.2: of whom a fact is told, whose page is about whom, and
whether a page supports a fact. Facts are those that the judge took the response apart into."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lm_factuality.benchmarks.asked import SKIP, Item, Option, People, Question, answered, with_verdict
from lm_factuality.benchmarks.biographies.group import Groups
from lm_factuality.benchmarks.biographies.judging import AmbigBio, generation
from lm_factuality.benchmarks.biographies.link import link
from lm_factuality.benchmarks.biographies.method import ALONE, Settings
from lm_factuality.benchmarks.biographies.records import from_record
from lm_factuality.benchmarks.biographies.recount import recount
from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement
from lm_factuality.benchmarks.declaration import Recount, Rows, Sample
from lm_factuality.ground.packaged import load_yaml
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import verdict_of

MOST = 9  # individuals that can be told apart, a key each
NONE, ABSENT = "none", "absent"
_WORDS: Mapping[str, Any] = load_yaml(__package__, "people.yaml")
VERDICT = Question(
    "verdict",
    _WORDS["verdict"]["ask"],
    tuple(
        Option(value, _WORDS["verdict"][value], str(key), value == "supported")
        for key, value in enumerate(("supported", "not_supported", "irrelevant"), start=1)
    ),
)


def people_of(run_of: Callable[[Mapping[str, Any]], AmbigBio], again: Callable[[TaskResult, Rows], Recount], noun: str) -> People:
    """What is asked of the responses of a benchmark of this method. ``run_of`` has the settings of a task's metadata, ``noun``
    says what its entities are."""
    group, linked = (Question(name, _WORDS[name]["ask"].format(noun=noun)) for name in ("group", "link"))

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        judged = from_record(verdict_of(sample))
        told_apart = [*_groups(judged, noun), *_links(judged, noun)] if judged.entities != ALONE else []
        return [*told_apart, *_verdicts(judged)]

    def relabel(result: TaskResult, sample: Sample, answers: Mapping[str, str]) -> dict[str, Any] | None:
        """Links are those of people, and where they give none those of equation 1 from their verdicts."""
        asked = items(result, sample)
        if not asked:
            return dict(sample)
        if not answered([item for item in asked if item.question != linked.name], answers):
            return None
        run = run_of({**result.metadata, "knowledge": None})
        judged = _as_people_say(from_record(verdict_of(sample)), answers, run.settings)
        return with_verdict(sample, {**verdict_of(sample), **run.record(judged)}, again(result, ()).row_metrics)

    return People((group, linked, VERDICT), items, relabel)


def _numbered(groups: Groups) -> dict[int, tuple[int, ...]]:
    """The groups by number, from 1, in the order of their first facts. One without a fact has lost the first of the response
    (``protocol: code``), so it comes first."""
    return dict(enumerate(sorted(groups, key=lambda facts: min(facts, default=-1)), start=1))


def _groups(judged: JudgedBiography, noun: str) -> list[Item]:
    """Of whom each fact is told; the first fact of the first individual."""
    said = {fact: number for number, facts in _numbered(judged.groups).items() for fact in facts}
    found = []
    for place, fact in list(enumerate(judged.facts))[1:]:
        options = [Option(str(each), f"{noun.capitalize()} {each}", str(each)) for each in range(1, min(place + 1, MOST) + 1)]
        context = (("Text", judged.generation.output), ("Taken from", judged.sentences[fact.sentence]))
        judge = str(said[place]) if said.get(place, MOST + 1) <= len(options) else None
        found.append(Item(f"group:{place}", "group", fact.text, context, judge, tuple(options)))
    return found


def _links(judged: JudgedBiography, noun: str) -> list[Item]:
    """Whose page is about each individual, of as many as there are pages or facts."""
    entity_of = dict(zip(judged.groups, judged.links, strict=True))
    said = {number: entity_of[facts] for number, facts in _numbered(judged.groups).items()}
    words, given = _WORDS["link"], judged.generation
    pages = {title: "\n".join(page.text for page in given.passages if page.title == title) for title in judged.entities}
    titles = [Option(str(place), title, str(place + 1)) for place, title in enumerate(judged.entities)]
    options = (*titles, Option(NONE, words[NONE], "0"), Option(ABSENT, words[ABSENT].format(noun=noun), "-"))
    found = []
    for number in range(1, min(len(judged.facts), len(judged.entities), MOST) + 1):
        entity = said.get(number)
        judge = ABSENT if number not in said else NONE if entity is None else str(entity)
        text = words["text"].format(noun=noun, Noun=noun.capitalize(), number=number)
        context = (("Text", given.output), *pages.items())
        found.append(Item(f"link:{number}", "link", text, context, judge if said else None, options))
    return found


def _verdicts(judged: JudgedBiography) -> list[Item]:
    """Each distinct fact beside each page that the judge was shown; of a missing page the verdict follows."""
    found = {}
    for place, (fact, cells) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        for entity, cell in enumerate(cells):
            if cell.evidence and (fact.text, entity) not in found:
                page = (judged.entities[entity] or "Evidence", "\n\n".join(cell.evidence))
                judge = None if cell.outcome == "unscored" else cell.outcome
                context = (("Asked", judged.generation.question), page)
                found[fact.text, entity] = Item(f"verdict:{place}:{entity}", "verdict", fact.text, context, judge)
    return list(found.values())


def _as_people_say(judged: JudgedBiography, answers: Mapping[str, str], settings: Settings) -> JudgedBiography:
    first = {fact.text: place for place, fact in reversed(list(enumerate(judged.facts)))}

    def cell(place: int, entity: int, known: Judgement) -> Judgement:
        answer = answers.get(f"verdict:{place}:{entity}")
        given = next((each.value for each in VERDICT.options if each.value == answer), None)
        return replace(known, outcome=given, score=float(given == "supported"), reason="people") if given else known  # type: ignore[arg-type]

    cells = (enumerate(row) for row in judged.matrix)
    matrix = tuple(
        tuple(cell(first[fact.text], entity, known) for entity, known in row)
        for fact, row in zip(judged.facts, cells, strict=True)
    )
    if judged.entities == ALONE:
        return replace(judged, matrix=matrix)
    numbers = [1, *(int(answers[f"group:{place}"]) for place in range(1, len(judged.facts)))]
    hidden = 0 if settings.protocol == "code" else -1  # the authors' groups lack the first fact
    facts_of = {
        number: tuple(place for place, each in enumerate(numbers) if each == number and place != hidden)
        for number in sorted(set(numbers))
    }
    found = tuple(facts_of.values())
    groups = judged.groups if set(found) == set(judged.groups) else found  # ties of links go by their order
    links = link(groups, judged.entities, matrix, settings.linking, settings.protocol)
    said = {facts: answers.get(f"link:{number}", SKIP) for number, facts in facts_of.items()}
    links = tuple(
        int(said[facts]) if said[facts].isdigit() else None if said[facts] == NONE else derived
        for facts, derived in zip(groups, links, strict=True)
    )
    return replace(judged, matrix=matrix, groups=groups, links=links, ungrouped=None)


PEOPLE = people_of(generation, recount, "person")
