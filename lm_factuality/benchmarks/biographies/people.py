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
    JudgedBiography,
    Judgement,
    Outcome,
    Protocol,
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


def items_for_people(biography: JudgedBiography, noun: str) -> list[Item]:
    """Return the questions that people answer about one judged biography.

    People say which individual each fact describes, which page is about each individual, and
    whether each page supports each fact. The judge's decisions are attached as its answers.

    Args:
        biography: The biography.
        noun: What the questions call an entity, such as "person".
    """
    verdict_items = list(_verdict_items(biography))
    # There is nobody to tell apart.
    if biography.has_single_subject:
        return verdict_items
    return [*_group_items(biography, noun), *_link_items(biography, noun), *verdict_items]


def _group_items(biography: JudgedBiography, noun: str) -> Iterator[Item]:
    """Yield a question for each fact but the first: which person of the text does it describe?

    The people of a text are numbered from 1, and called its individuals. The first fact always
    describes individual 1. Every further fact may describe an individual of an earlier fact or a
    new one, so the second fact has the options 1 and 2, and the third 1 to 3.

    Args:
        biography: The judged biography.
        noun: What the questions call an entity.
    """
    individual_by_fact = {}
    for individual, group in _groups_by_individual(biography).items():
        for fact_index in group:
            individual_by_fact[fact_index] = individual

    for fact_index, fact in enumerate(biography.facts[1:], start=1):
        # The facts so far can describe at most as many individuals as there are facts.
        num_options = min(fact_index + 1, MAX_INDIVIDUALS)
        options = [
            Option(str(individual), f"{noun.capitalize()} {individual}")
            for individual in range(1, num_options + 1)
        ]
        # The judge may have no groups, or see more individuals than there are options.
        judge_answer = None
        individual_of_judge = individual_by_fact.get(fact_index)
        if individual_of_judge is not None and individual_of_judge <= num_options:
            judge_answer = str(individual_of_judge)
        yield Item(
            id=f"group:{fact_index}",
            question="group",
            text=fact.text,
            context=(
                ("Text", biography.generation.output),
                ("Taken from", biography.sentences[fact.sentence]),
            ),
            judge=judge_answer,
            options=tuple(options),
        )


def _groups_by_individual(biography: JudgedBiography) -> dict[int, tuple[int, ...]]:
    """Number the fact groups from 1, in the order of their first facts.

    An empty group comes first: the protocol ``code`` has removed the first fact of the response,
    which was its only one.
    """
    groups = sorted(biography.groups, key=lambda facts: min(facts, default=-1))
    return dict(enumerate(groups, start=1))


def _link_items(biography: JudgedBiography, noun: str) -> Iterator[Item]:
    """Yield a question for each person of a text: which page is about this individual?

    People choose one of the candidate pages, "none of these pages", or "the text has no person 3".
    They need the last option because the questions are made before people say how many individuals
    the text has. There is a question for each individual that the text may have, but no more
    questions than facts, pages or keys.

    Args:
        biography: The judged biography.
        noun: What the questions call an entity.
    """
    passages_by_page = passages_by_title(biography.generation)
    context = [("Text", biography.generation.output)]
    context += [(title, "\n".join(passages_by_page[title])) for title in biography.entities]
    page_options = [Option(str(index), title) for index, title in enumerate(biography.entities)]

    num_questions = min(len(biography.facts), len(biography.entities), MAX_INDIVIDUALS)
    for individual in range(1, num_questions + 1):
        absent_label = f"The text has no {noun} {individual}"
        yield Item(
            id=f"link:{individual}",
            question=OPTIONAL_QUESTION,
            text=f"{noun.capitalize()} {individual} of the text",
            context=tuple(context),
            judge=_judged_page(biography, individual),
            options=(
                *page_options,
                # People choose a page by the digits from 1 on, so 0 and - are free.
                Option(NO_MATCHING_PAGE, "None of these pages", key="0"),
                Option(NO_SUCH_INDIVIDUAL, absent_label, key="-"),
            ),
        )


def _judged_page(biography: JudgedBiography, individual: int) -> str | None:
    """Return what the judge would answer if it were asked which page is about an individual.

    Args:
        biography: The judged biography.
        individual: The number of the individual, counted from 1.

    Returns:
        The number of an entity as text, "none" if no page is about the individual, or "absent" if
        the judge sees fewer individuals. None if the judge could not group the facts.
    """
    if not biography.groups:
        return None
    group = _groups_by_individual(biography).get(individual)
    if group is None:
        return NO_SUCH_INDIVIDUAL
    # Links are in the order of the judge's groups, not in that of individuals.
    entity = biography.links[biography.groups.index(group)]
    return NO_MATCHING_PAGE if entity is None else str(entity)


def _verdict_items(biography: JudgedBiography) -> Iterator[Item]:
    """Yield a question for each distinct fact and page: does the page support the fact?

    People see the passages that the judge saw. They are not asked about a page without passages.
    """
    for text, fact_index in _first_index_by_text(biography).items():
        for entity, judgement in enumerate(biography.matrix[fact_index]):
            # The verdict on a missing page follows without asking.
            if not judgement.evidence:
                continue
            # The entity of a biography with a single subject has no title.
            title = biography.entities[entity] or "Evidence"
            # People have to choose a verdict, so "unscored" cannot be their answer.
            judge_answer = None if judgement.outcome == UNSCORED else judgement.outcome
            yield Item(
                id=_verdict_id(fact_index, entity),
                question="verdict",
                text=text,
                context=(
                    ("Asked", biography.generation.question),
                    (title, "\n\n".join(judgement.evidence)),
                ),
                judge=judge_answer,
            )


def _first_index_by_text(biography: JudgedBiography) -> dict[str, int]:
    """Return the index of the first fact with each text. People judge equal facts only once."""
    indices: dict[str, int] = {}
    for fact_index, fact in enumerate(biography.facts):
        indices.setdefault(fact.text, fact_index)
    return indices


def _verdict_id(fact_index: int, entity: int) -> str:
    """Return the id of the question whether the page of an entity supports a fact."""
    return f"verdict:{fact_index}:{entity}"


def apply_answers(
    biography: JudgedBiography,
    answers: Answers,
    protocol: Protocol,
    link: Callable[[JudgedBiography], JudgedBiography],
) -> JudgedBiography:
    """Judge a biography again with the answers of people in the judge's place.

    People answer three kinds of questions: whether a page supports a fact (``verdict:2:0``), which
    individual a fact describes (``group:2``), and which page is about an individual (``link:1``).
    Their answers replace the verdicts, the groups and the links of the judge.

    Args:
        biography: The biography as the judge saw it. Its facts stay.
        answers: The answers of people, by the ids of `items_for_people`.
        protocol: ``code`` leaves the first fact out of all groups, as the authors' code does.
        link: Links the groups of a biography to entities by its verdicts. It decides where people
            did not say which page is about an individual.
    """
    biography = replace(biography, matrix=_matrix_from_answers(biography, answers))
    # All facts have the same subject, so people gave verdicts only.
    if biography.has_single_subject:
        return biography

    individual_by_group = _groups_from_answers(biography, answers, protocol)
    # Ties between links depend on the order of groups, so equal groups keep the judge's order.
    if set(individual_by_group) != set(biography.groups):
        # The judge named no pages for the groups of people.
        biography = replace(biography, groups=tuple(individual_by_group), named_pages=None)
    biography = link(replace(biography, ungrouped=None))
    links = []
    for group, linked_entity in zip(biography.groups, biography.links, strict=True):
        answer = answers.get(f"link:{individual_by_group[group]}", SKIP)
        links.append(_link_from_answer(answer, linked_entity))
    return replace(biography, links=tuple(links))


def _link_from_answer(answer: str, entity_by_verdicts: int | None) -> int | None:
    """Return the entity of a fact group after people have said which page is about it.

    Args:
        answer: The number of an entity as text, such as "2", "none" if no page is about the group,
            or "skip" or "absent" if people name no page.
        entity_by_verdicts: The entity that follows from the verdicts, or None if there is none. It
            stays if people name no page.
    """
    if answer == NO_MATCHING_PAGE:
        return None
    return int(answer) if answer.isdigit() else entity_by_verdicts


def _matrix_from_answers(
    biography: JudgedBiography, answers: Answers
) -> tuple[tuple[Judgement, ...], ...]:
    """Replace the judge's verdicts by those of people.

    People are asked once about facts with the same text, with the id of the first of them.

    Args:
        biography: The judged biography.
        answers: The answers of people, such as "supported" for the id "verdict:2:0", which asks
            whether page 0 supports fact 2.

    Returns:
        The judgement of each fact (rows) by the page of each entity (columns). A judgement without
        an answer stays as it is.
    """
    first_indices = _first_index_by_text(biography)
    matrix = []
    for fact, row in zip(biography.facts, biography.matrix, strict=True):
        judgements = []
        for entity, judgement in enumerate(row):
            answer = answers.get(_verdict_id(first_indices[fact.text], entity))
            judgements.append(_judgement_from_answer(answer, judgement) if answer else judgement)
        matrix.append(tuple(judgements))
    return tuple(matrix)


def _judgement_from_answer(answer: str, judgement: Judgement) -> Judgement:
    """Replace the judge's verdict by that of people, such as "supported". The evidence stays."""
    # People do not say whether a page contradicts a fact. The judge does, but this only holds if
    # both find the fact unsupported.
    is_contradicted = judgement.is_contradicted if answer == judgement.outcome else None
    return replace(
        judgement,
        outcome=cast(Outcome, answer),
        score=1.0 if answer == SUPPORTED else 0.0,
        reason="people",
        is_contradicted=is_contradicted,
    )


def _groups_from_answers(
    biography: JudgedBiography, answers: Answers, protocol: Protocol
) -> dict[tuple[int, ...], int]:
    """Group the facts of a biography by the individuals that people say they describe.

    Example:
        With ``group:1`` answered by "2" and ``group:2`` by "1", individual 1 has the facts 0 and 2,
        and individual 2 has the fact 1.

    Args:
        biography: The judged biography.
        answers: The answers of people, by the ids of their questions.
        protocol: ``code`` leaves the first fact out of its group, which may then be empty.

    Returns:
        The groups in the order of individuals, i.e. the indices of the facts of each, with the
        number of the individual from 1.
    """
    if not biography.facts:
        return {}
    facts_by_individual: dict[int, list[int]] = defaultdict(list)
    # The first fact describes individual 1, so people are not asked about it. The authors' code
    # loses this fact, but still counts a group without any other.
    facts_by_individual[1] = [] if protocol == "code" else [0]
    for fact_index in range(1, len(biography.facts)):
        individual = int(answers[f"group:{fact_index}"])
        facts_by_individual[individual].append(fact_index)
    return {tuple(facts): individual for individual, facts in sorted(facts_by_individual.items())}
