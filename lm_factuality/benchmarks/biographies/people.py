"""The questions that people answer in the judge's place, as the annotators of section 4.2 did.

`method` makes the questions of a judged biography with this module, and judges it again with the
answers of people.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from judges.verify import SUPPORTED, UNSCORED
from lm_factuality.benchmarks.asked import SKIP, Answers, Item, Option, Question, load_questions
from lm_factuality.benchmarks.biographies.generations import passages_by_title
from lm_factuality.benchmarks.biographies.types import (
    SINGLE_SUBJECT,
    JudgedBiography,
    Judgement,
    Outcome,
)

MAX_INDIVIDUALS = 9  # that people can tell apart: each has a digit as its key
NO_MATCHING_PAGE = "none"
NO_SUCH_INDIVIDUAL = "absent"

OPTIONAL_QUESTION = "link"
"""The kind of question that people may skip. Groups are then linked by people's verdicts."""


def people_questions(noun: str) -> list[Question]:
    """Return the kinds of questions that people are asked about a biography.

    Args:
        noun: What the questions call an entity, such as "person".
    """
    kinds = load_questions(__package__).values()
    return [replace(question, ask=question.ask.format(noun=noun)) for question in kinds]


def items_for_people(judged: JudgedBiography, noun: str) -> list[Item]:
    """Return the questions that people answer about one judged biography.

    Args:
        judged: The biography, whose decisions are attached to the questions as the judge's answers.
        noun: What the questions call an entity, such as "person".

    Returns:
        For each fact, which individual it describes; for each individual, which page is about it;
        and for each fact and page, whether the page supports the fact. A biography with a single
        subject has only questions of the last kind.
    """
    verdict_items = _verdict_items(judged)
    # There is nobody to tell apart.
    if judged.entities == SINGLE_SUBJECT:
        return verdict_items
    return [*_group_items(judged, noun), *_link_items(judged, noun), *verdict_items]


def _group_items(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Yield a question for each fact but the first: which individual does it describe?

    The first fact always describes individual 1. Fact number n, counted from 0, may describe any of
    n + 1 individuals.

    Args:
        judged: The judged biography.
        noun: What the questions call an entity.
    """
    individual_by_fact: dict[int, int] = {}
    for individual, facts in _groups_by_individual(judged).items():
        individual_by_fact |= dict.fromkeys(facts, individual)

    for number, fact in enumerate(judged.facts[1:], start=1):
        # Every fact may introduce one more individual.
        most_individuals = min(number + 1, MAX_INDIVIDUALS)
        options = []
        for individual in range(1, most_individuals + 1):
            options.append(Option(str(individual), f"{noun.capitalize()} {individual}"))
        context = (
            ("Text", judged.generation.output),
            ("Taken from", judged.sentences[fact.sentence]),
        )
        judged_individual = individual_by_fact.get(number)
        # The judge may see more individuals than there are keys.
        has_option = judged_individual is not None and judged_individual <= most_individuals
        judge_answer = str(judged_individual) if has_option else None
        item_id = f"group:{number}"
        yield Item(item_id, "group", fact.text, context, judge_answer, tuple(options))


def _groups_by_individual(judged: JudgedBiography) -> dict[int, tuple[int, ...]]:
    """Number the fact groups from 1, in the order of their first facts.

    An empty group comes first: the protocol ``code`` has removed the first fact of the response,
    which was its only one.
    """
    groups = sorted(judged.groups, key=lambda facts: min(facts, default=-1))
    return dict(enumerate(groups, start=1))


def _link_items(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Yield a question for each individual: which page is about it?

    There are at most as many questions as pages or facts.

    Args:
        judged: The judged biography.
        noun: What the questions call an entity.
    """
    link_by_group = dict(zip(judged.groups, judged.links, strict=True))
    groups = _groups_by_individual(judged)
    pages = passages_by_title(judged.generation)
    context = [("Text", judged.generation.output)]
    context += [(title, "\n".join(pages[title])) for title in judged.entities]
    page_options = [Option(str(entity), title) for entity, title in enumerate(judged.entities)]

    most_individuals = min(len(judged.facts), len(judged.entities), MAX_INDIVIDUALS)
    for individual in range(1, most_individuals + 1):
        judge_answer = NO_SUCH_INDIVIDUAL if groups else None
        # The judge may see fewer individuals than there are pages.
        if individual in groups:
            entity = link_by_group[groups[individual]]
            judge_answer = NO_MATCHING_PAGE if entity is None else str(entity)
        options = (
            *page_options,
            Option(NO_MATCHING_PAGE, "None of these pages", "0"),
            Option(NO_SUCH_INDIVIDUAL, f"The text has no {noun} {individual}", "-"),
        )
        text = f"{noun.capitalize()} {individual} of the text"
        item_id = f"link:{individual}"
        yield Item(item_id, OPTIONAL_QUESTION, text, tuple(context), judge_answer, options)


def _verdict_items(judged: JudgedBiography) -> list[Item]:
    """Return a question for each distinct fact and page: does the page support the fact?

    There is none for a page that the judge saw no passage of.

    Args:
        judged: The judged biography.
    """
    items: dict[tuple[str, int], Item] = {}
    for number, (fact, row) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        for entity, judgement in enumerate(row):
            # The verdict on a missing page follows without asking.
            if not judgement.evidence or (fact.text, entity) in items:
                continue
            title = judged.entities[entity] or "Evidence"
            context = (
                ("Asked", judged.generation.question),
                (title, "\n\n".join(judgement.evidence)),
            )
            # Unscored is no option that people have.
            judge_answer = None if judgement.outcome == UNSCORED else judgement.outcome
            item_id = f"verdict:{number}:{entity}"
            items[fact.text, entity] = Item(item_id, "verdict", fact.text, context, judge_answer)
    return list(items.values())


def apply_answers(
    judged: JudgedBiography,
    answers: Answers,
    protocol: str,
    link: Callable[[JudgedBiography], JudgedBiography],
) -> JudgedBiography:
    """Judge a biography again with the answers of people in the judge's place.

    Args:
        judged: The biography as the judge saw it. Its facts stay.
        answers: The answers of people, by the ids of `items_for_people`.
        protocol: ``code`` leaves the first fact out of all groups, as the authors' code does.
        link: Links the groups of a biography to entities by its verdicts. It decides where people
            skipped the question.

    Returns:
        The biography with the verdicts, groups and links of people.
    """
    judged = replace(judged, matrix=_matrix_from_answers(judged, answers))
    if judged.entities == SINGLE_SUBJECT:
        return judged

    # People are asked about every fact, so their groups replace all of the judge's.
    individual_by_group = _individuals_from_answers(judged, answers, protocol)
    # Ties between links depend on the order of groups, so equal groups keep the judge's order.
    has_same_groups = set(individual_by_group) == set(judged.groups)
    groups = judged.groups if has_same_groups else tuple(individual_by_group)
    linked = link(replace(judged, groups=groups, ungrouped=None))

    links = list(linked.links)
    for position, group in enumerate(groups):
        answer = answers.get(f"link:{individual_by_group[group]}", SKIP)
        if answer == NO_MATCHING_PAGE:
            links[position] = None
        elif answer.isdigit():
            links[position] = int(answer)
    return replace(linked, links=tuple(links))


def _matrix_from_answers(
    judged: JudgedBiography, answers: Answers
) -> tuple[tuple[Judgement, ...], ...]:
    """Replace the judge's verdicts by those of people.

    Facts with the same text share the answers for the first of them. A judgement without an answer
    stays as it is.

    Args:
        judged: The judged biography.
        answers: The answers of people, by the ids of their questions.
    """
    first_numbers: dict[str, int] = {}
    matrix = []
    for number, (fact, row) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        # People are asked only about the first of equal facts.
        first_number = first_numbers.setdefault(fact.text, number)
        judgements = []
        for entity, judgement in enumerate(row):
            answer = answers.get(f"verdict:{first_number}:{entity}")
            if answer:
                judgement = replace(
                    judgement,
                    outcome=cast(Outcome, answer),
                    score=float(answer == SUPPORTED),
                    reason="people",
                )
            judgements.append(judgement)
        matrix.append(tuple(judgements))
    return tuple(matrix)


def _individuals_from_answers(
    judged: JudgedBiography, answers: Answers, protocol: str
) -> dict[tuple[int, ...], int]:
    """Group the facts of a biography by the individuals that people say they describe.

    Args:
        judged: The judged biography.
        answers: The answers of people, by the ids of their questions.
        protocol: ``code`` leaves the first fact out of its group.

    Returns:
        The number of the individual by its group of facts, in the order of individuals.
    """
    facts_by_individual: dict[int, list[int]] = defaultdict(list)
    for number in range(len(judged.facts)):
        # People are not asked about the first fact, which describes individual 1.
        individual = int(answers[f"group:{number}"]) if number > 0 else 1
        facts = facts_by_individual[individual]
        # The individual stays under protocol `code`, even if its group is then empty.
        if number > 0 or protocol != "code":
            facts.append(number)
    return {tuple(facts): individual for individual, facts in sorted(facts_by_individual.items())}
