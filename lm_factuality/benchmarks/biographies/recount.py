"""Scores of AmbigBio out of its samples, and what people are asked in the steps of section 4.2.

People say of whom a fact is told, whose page is about whom, and whether a page supports a fact. A
record holds what was read of the judge: what follows from the response (sentences, abstentions,
links) is found again. The rest is believed if a judge can have said it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from judges.verify import SUPPORTED, UNSCORED
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
from lm_factuality.benchmarks.biographies.judging import AmbigBio
from lm_factuality.benchmarks.biographies.link import link
from lm_factuality.benchmarks.biographies.matrix import Pair
from lm_factuality.benchmarks.biographies.method import ALONE, Settings, is_judged, link_entities
from lm_factuality.benchmarks.biographies.types import JudgedBiography, Judgement, from_record
from lm_factuality.benchmarks.declaration import Recount, Row, Rows, Sample
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import belongs, verdict_of

Runs = Callable[[Mapping[str, Any]], AmbigBio]
"""Makes a benchmark of this method with the settings of a task's metadata."""

_CONTRADICTED = 0.1
"""A score so near to the other end is not that of its outcome."""

MOST = 9  # individuals that can be told apart, a key each
NONE, ABSENT = "none", "absent"
_WORDS: Mapping[str, Any] = load_yaml(__package__, "people.yaml")


def recount_by(run_of: Runs) -> Callable[[TaskResult, Rows], Recount]:
    """Return the ``Scoring.recount`` of a benchmark of this method."""

    def recount(task: TaskResult, rows: Rows) -> Recount:
        run = run_of({**task.metadata, "knowledge": None})
        is_by_passages = task.metadata.get("knowledge") in (None, DOCUMENTS)
        return Recount(partial(_again, run), partial(unfounded, run.settings, is_by_passages))

    return recount


def _again(run: AmbigBio, row: Row) -> dict[str, Any]:
    judged = from_record(row["verdict"])
    (response,) = row["responses"]
    belongs(judged.generation == run.settings.begin(from_doc(row["doc"], response)).generation)
    record = run.record(judged)
    for key in ("scores", "unscored"):
        if record.get(key) != row["verdict"].get(key):
            raise ValueError(f"{key!r} of its record does not follow from the judgements there")
    return run.row_metrics(judged)


def unfounded(settings: Settings, is_by_passages: bool, row: Row) -> str | None:
    """Return what of a record does not follow from the response and the judgements, if anything.

    Args:
        is_by_passages: Whether facts were verified by the passages of their document.
    """
    judged = from_record(row["verdict"])
    (response,) = row["responses"]
    expected = settings.begin(from_doc(row["doc"], response))
    if is_judged(expected):
        if bool(judged.facts) == bool(judged.problem):
            return "it has facts and a reason why it has none, or neither"
        pairs = settings.pairs(judged) if is_by_passages else []
        problem = _group_problem(judged, settings.protocol) or _judgement_problem(judged, pairs)
        if problem:
            return problem
        parts = ("facts", "groups", "matrix", "problem", "ungrouped")
        believed = {name: getattr(judged, name) for name in parts}
        expected = link_entities(replace(expected, **believed), settings)
    for field in fields(judged):
        if getattr(judged, field.name) != getattr(expected, field.name):
            return f"{field.name!r} does not follow from the response and the judgements"
    return None


def _group_problem(judged: JudgedBiography, protocol: str) -> str | None:
    """Return why the facts or groups of a record cannot be a judge's, if they cannot."""
    if len(set(judged.facts)) < len(judged.facts):
        return "a fact is there twice"
    if judged.ungrouped is not None:
        return "it has groups and a reason why it has none" if judged.groups else None
    grouped = sorted(fact for group in judged.groups for fact in group)
    # Grouping as the authors' code does it loses the first fact.
    first = 1 if protocol == "code" else 0
    is_complete = grouped == list(range(first, len(judged.facts)))
    return None if is_complete else "its groups do not hold each fact once"


def _judgement_problem(judged: JudgedBiography, pairs: Sequence[Pair]) -> str | None:
    """Return why the judgements of a record cannot be a judge's, if they cannot.

    Args:
        pairs: What was verified, where that is known.
    """
    evidence = {(pair.fact, pair.entity): set(pair.evidence) for pair in pairs}
    cells_by_text: dict[str, tuple[Judgement, ...]] = {}
    for fact, cells in zip(judged.facts, judged.matrix, strict=True):
        if cells_by_text.setdefault(fact.text, cells) != cells:
            return "facts of the same text have different judgements"
        for entity, cell in zip(judged.entities, cells, strict=True):
            if not evidence.get((fact.text, entity), set()) <= set(cell.evidence):
                return "a judgement is not on the passages of its entity"
            if not _fits(cell):
                return f"a fact is {cell.outcome}, but its score is {cell.score}"
    return None


def _fits(cell: Judgement) -> bool:
    """Whether the score of a judgement can be that of its outcome."""
    if cell.score is None or cell.outcome == UNSCORED:
        return cell.score is None and cell.outcome == UNSCORED
    if cell.outcome == SUPPORTED:
        return cell.score >= _CONTRADICTED
    return cell.score <= 1 - _CONTRADICTED


def people_of(run_of: Runs, noun: str) -> People:
    """Return what people are asked of the responses of a benchmark of this method.

    Links are those of people and, where they give none, those of equation 1 from their verdicts.

    Args:
        run_of: Makes the benchmark.
        noun: What its entities are.
    """

    def items(result: TaskResult, sample: Sample) -> list[Item]:
        judged = from_record(verdict_of(sample))
        if judged.entities == ALONE:
            return _verdicts(judged)
        return [*_groups(judged, noun), *_links(judged, noun), *_verdicts(judged)]

    def change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
        record = verdict_of(sample)
        run = run_of({**result.metadata, "knowledge": None})
        relabelled = _as_people_say(from_record(record), answers, run.settings)
        return as_verdict({**record, **run.record(relabelled)})

    questions = load_questions(__package__).values()
    return People(
        tuple(replace(question, ask=question.ask.format(noun=noun)) for question in questions),
        items,
        relabelling(items, change, recount_by(run_of), optional="link"),
        unchanged=("respond_ratio",),
    )


def _numbered(judged: JudgedBiography) -> dict[int, tuple[int, ...]]:
    """Return the groups by number, from 1, in the order of their first facts.

    One without a fact has lost the first of the response (``protocol: code``), so it comes first.
    """
    return dict(enumerate(sorted(judged.groups, key=lambda facts: min(facts, default=-1)), start=1))


def _groups(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Ask of whom each fact is told. The first fact is told of the first individual."""
    number_by_fact: dict[int, int] = {}
    for number, facts in _numbered(judged).items():
        number_by_fact |= dict.fromkeys(facts, number)
    for place, fact in enumerate(judged.facts):
        if place == 0:
            continue
        most = min(place + 1, MOST)
        options = [
            Option(str(number), f"{noun.capitalize()} {number}", str(number))
            for number in range(1, most + 1)
        ]
        context = (
            ("Text", judged.generation.output),
            ("Taken from", judged.sentences[fact.sentence]),
        )
        number = number_by_fact.get(place, MOST + 1)
        judge = str(number) if number <= most else None
        yield Item(f"group:{place}", "group", fact.text, context, judge, tuple(options))


def _links(judged: JudgedBiography, noun: str) -> Iterator[Item]:
    """Ask whose page is about each individual, of as many as there are pages or facts."""
    link_by_group = dict(zip(judged.groups, judged.links, strict=True))
    numbered = _numbered(judged)
    pages = []
    titles = []
    for entity, title in enumerate(judged.entities):
        texts = [page.text for page in judged.generation.passages if page.title == title]
        pages.append((title, "\n".join(texts)))
        titles.append(Option(str(entity), title, str(entity + 1)))
    context = (("Text", judged.generation.output), *pages)
    for number in range(1, min(len(judged.facts), len(judged.entities), MOST) + 1):
        words = {"noun": noun, "Noun": noun.capitalize(), "number": number}
        judge = ABSENT if numbered else None
        if number in numbered:
            entity_of = link_by_group[numbered[number]]
            judge = NONE if entity_of is None else str(entity_of)
        absent = Option(ABSENT, _WORDS[ABSENT].format(**words), "-")
        options = (*titles, Option(NONE, _WORDS[NONE], "0"), absent)
        text = _WORDS["individual"].format(**words)
        yield Item(f"link:{number}", "link", text, context, judge, options)


def _verdicts(judged: JudgedBiography) -> list[Item]:
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
            judge = None if cell.outcome == "unscored" else cell.outcome
            items[fact.text, entity] = Item(
                f"verdict:{place}:{entity}", "verdict", fact.text, context, judge
            )
    return list(items.values())


def _as_people_say(
    judged: JudgedBiography, answers: Answers, settings: Settings
) -> JudgedBiography:
    first_places: dict[str, int] = {}
    matrix = []
    for place, (fact, cells) in enumerate(zip(judged.facts, judged.matrix, strict=True)):
        first = first_places.setdefault(fact.text, place)
        row = []
        for entity, cell in enumerate(cells):
            verdict: Any = answers.get(f"verdict:{first}:{entity}")
            if verdict:
                score = float(verdict == "supported")
                cell = replace(cell, outcome=verdict, score=score, reason="people")
            row.append(cell)
        matrix.append(tuple(row))
    judged = replace(judged, matrix=tuple(matrix))
    if judged.entities == ALONE:
        return judged

    members: dict[int, list[int]] = defaultdict(list)
    for place in range(len(judged.facts)):
        member_of = members[int(answers[f"group:{place}"]) if place else 1]
        if place or settings.protocol != "code":  # the authors' groups lack the first fact
            member_of.append(place)
    number_by_group = {tuple(members[number]): number for number in sorted(members)}
    # Ties between links go by the order of groups.
    is_same = set(number_by_group) == set(judged.groups)
    groups = judged.groups if is_same else tuple(number_by_group)
    derived = link(groups, judged.entities, judged.matrix, settings.linking, settings.protocol)
    links: list[int | None] = []
    for group, by_verdicts in zip(groups, derived, strict=True):
        answer = answers.get(f"link:{number_by_group[group]}", SKIP)
        if answer.isdigit():
            links.append(int(answer))
        else:
            links.append(None if answer == NONE else by_verdicts)
    return replace(judged, groups=groups, links=tuple(links), ungrouped=None)
