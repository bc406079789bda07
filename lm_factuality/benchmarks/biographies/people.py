"""What people are asked in the steps of section 4.2, and a biography as they judge it.

People say of whom a fact is told, whose page is about whom, and whether a page supports a fact.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from judges.verify import SUPPORTED, UNSCORED
from lm_factuality.benchmarks.asked import SKIP, Answers, Item, Option, Question, load_questions
from lm_factuality.benchmarks.biographies.generations import passages_by_title
from lm_factuality.benchmarks.biographies.types import SINGLE_SUBJECT, JudgedBiography

MAX_INDIVIDUALS = 9  # individuals that can be told apart, a key each
NO_MATCHING_PAGE = "none"
NO_SUCH_INDIVIDUAL = "absent"
OPTIONAL_QUESTION = "link"
"""The question that may be left out: equation 1 then links by people's verdicts."""


def people_questions(noun: str) -> list[Question]:
    """Return the kinds of questions about entities that are each called a ``noun``."""
    kinds = load_questions(__package__).values()
    return [replace(question, ask=question.ask.format(noun=noun)) for question in kinds]


def items_for_people(judged: JudgedBiography, noun: str) -> list[Item]:
    """Return everything that a response asks of people."""
    if judged.entities == SINGLE_SUBJECT:
        return _verdict_items(judged)
    return [*_group_items(judged, noun), *_link_items(judged, noun), *_verdict_items(judged)]


def _numbered_groups(judged: JudgedBiography) -> dict[int, tuple[int, ...]]:
    """Return the groups by number, from 1, in the order of their first facts.

    One without a fact has lost the first of the response (``protocol: code``), so it comes first.
    """
    return dict(enumerate(sorted(judged.groups, key=lambda facts: min(facts, default=-1)), start=1))


def _group_items(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Ask of whom each fact is told. The first fact is told of the first individual."""
    number_by_fact: dict[int, int] = {}
    for number, facts in _numbered_groups(judged).items():
        number_by_fact |= dict.fromkeys(facts, number)
    for place, fact in enumerate(judged.facts[1:], start=1):
        options = [
            Option(str(number), f"{noun.capitalize()} {number}")
            for number in range(1, min(place + 1, MAX_INDIVIDUALS) + 1)
        ]
        context = (
            ("Text", judged.generation.output),
            ("Taken from", judged.sentences[fact.sentence]),
        )
        number = number_by_fact.get(place, MAX_INDIVIDUALS + 1)
        judge = str(number) if number <= len(options) else None
        yield Item(f"group:{place}", "group", fact.text, context, judge, tuple(options))


def _link_items(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Ask whose page is about each individual, of as many as there are pages or facts."""
    link_by_group = dict(zip(judged.groups, judged.links, strict=True))
    groups = _numbered_groups(judged)
    pages = passages_by_title(judged.generation)
    titles = [Option(str(entity), title) for entity, title in enumerate(judged.entities)]
    context = [("Text", judged.generation.output)]
    context += [(title, "\n".join(pages[title])) for title in judged.entities]
    for number in range(1, min(len(judged.facts), len(judged.entities), MAX_INDIVIDUALS) + 1):
        judge = NO_SUCH_INDIVIDUAL if groups else None
        if number in groups:
            entity_of = link_by_group[groups[number]]
            judge = NO_MATCHING_PAGE if entity_of is None else str(entity_of)
        absent = Option(NO_SUCH_INDIVIDUAL, f"The text has no {noun} {number}", "-")
        options = (*titles, Option(NO_MATCHING_PAGE, "None of these pages", "0"), absent)
        text = f"{noun.capitalize()} {number} of the text"
        yield Item(f"link:{number}", OPTIONAL_QUESTION, text, tuple(context), judge, options)


def _verdict_items(judged: JudgedBiography) -> list[Item]:
    """Ask of each distinct fact whether each page supports it that the judge was shown.

    Of a missing page the verdict follows.
    """
    items: dict[tuple[str, int], Item] = {}
    for place, (fact, cells) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        for entity, cell in enumerate(cells):
            if not cell.evidence or (fact.text, entity) in items:
                continue
            page = (judged.entities[entity] or "Evidence", "\n\n".join(cell.evidence))
            context = (("Asked", judged.generation.question), page)
            judge = None if cell.outcome == UNSCORED else cell.outcome
            items[fact.text, entity] = Item(
                f"verdict:{place}:{entity}", "verdict", fact.text, context, judge
            )
    return list(items.values())


def apply_answers(
    judged: JudgedBiography,
    answers: Answers,
    protocol: str,
    link: Callable[[JudgedBiography], JudgedBiography],
) -> JudgedBiography:
    """Return a response as if people had been the judge.

    Args:
        answers: What people say, by the ids of items.
        link: Links groups where people do not.
    """
    first_places: dict[str, int] = {}
    matrix = []
    for place, (fact, cells) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        first = first_places.setdefault(fact.text, place)
        row = []
        for entity, cell in enumerate(cells):
            verdict: Any = answers.get(f"verdict:{first}:{entity}")
            if verdict:
                score = float(verdict == SUPPORTED)
                cell = replace(cell, outcome=verdict, score=score, reason="people")
            row.append(cell)
        matrix.append(tuple(row))
    judged = replace(judged, matrix=tuple(matrix))
    if judged.entities == SINGLE_SUBJECT:
        return judged

    members: dict[int, list[int]] = defaultdict(list)
    for place in range(len(judged.facts)):
        members_of_group = members[int(answers[f"group:{place}"]) if place else 1]
        if place or protocol != "code":  # the authors' groups lack the first fact
            members_of_group.append(place)
    number_by_group = {tuple(members[number]): number for number in sorted(members)}
    # Ties between links go by the order of groups.
    is_same = set(number_by_group) == set(judged.groups)
    groups = judged.groups if is_same else tuple(number_by_group)
    linked = link(replace(judged, groups=groups, ungrouped=None))
    links = list(linked.links)
    for place, group in enumerate(groups):
        answer = answers.get(f"link:{number_by_group[group]}", SKIP)
        if answer.isdigit():
            links[place] = int(answer)
        elif answer == NO_MATCHING_PAGE:
            links[place] = None
    return replace(linked, links=tuple(links))
