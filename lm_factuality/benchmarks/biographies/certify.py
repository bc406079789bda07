"""Certification of judges on the decisions that the authors of D-FActScore released.

``lm-factuality certify`` measures each step of the method by itself here, given what was released
for the steps before it.

The labels come from the published pipeline (GPT-3.5 and ChatGPT with whole pages of Wikipedia), not
from people. The judge sees the passages that the responses were written from.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

import numpy as np

from judges.judge import Judge
from judges.lexical.words import STOPWORDS
from judges.verify import SUPPORTED, UNSCORED
from lm_factuality.benchmarks.biographies.decisions import (
    FactAndEntity,
    ReleasedGroup,
    ReleasedResponse,
    distinct_words,
    match_texts,
    read_decisions,
)
from lm_factuality.benchmarks.biographies.generations import (
    SOURCES,
    passages_by_title,
    read_generations,
)
from lm_factuality.benchmarks.biographies.method import AMBIGBIO, AmbigBio, group_together
from lm_factuality.benchmarks.biographies.scores import linked_entity_by_fact
from lm_factuality.benchmarks.biographies.types import (
    Fact,
    JudgedBiography,
    Judgement,
)
from lm_factuality.benchmarks.certifiable import (
    NO_RULINGS,
    CertifiableSetting,
    CertifyOptions,
    Disagreement,
    JudgedStep,
    Rulings,
    describe_files,
)
from lm_factuality.ground.console import format_interval, format_number
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError
from lm_factuality.ground.groups import split_into_groups
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import locate
from lm_factuality.harness.generation import JsonObject, Table
from lm_factuality.scores.intervals import DETECTION_INTERVALS, Interval, pooled_interval
from lm_factuality.scores.statistics import none_if_nan, ratio

MIN_SIMILARITY = 0.7
"""Facts are the same from this F1 of their content words.

F1 is twice the number of common words over the sum of both numbers of words.
"""

JOINT = AmbigBio(method="joint")
_PUBLISHED = SOURCES[:4]  # Each file of generations comes before the file of decisions on it.
_BLOBS = ",".join(source.blob for source in _PUBLISHED)
_STEP_CONFIGS = load_yaml(__package__, "steps.yaml")
_SEED = 0
_ALL_NAMES = "ALL"  # the key of the scores over the responses about all names


@dataclass(frozen=True)
class Decision:
    """A decision of the judge beside the released one."""

    judged: bool | None
    """Whether the judge says yes, for example that a fact is supported. None if it cannot tell."""

    released: bool
    """Whether the released decision says yes."""

    text: str = ""
    """What was decided about."""

    verdict: str = ""
    """The judge's decision in words."""

    label: str = ""
    """The released decision in words."""

    reason: str = ""
    """The judge's reason, or why it has no decision."""

    evidence: tuple[tuple[str, str], ...] = ()
    """Headings and texts that a person reads."""


def _no_decision(reason: str) -> Decision:
    """Return a decision that the judge did not make."""
    return Decision(judged=None, released=True, reason=reason)


# The counts of decisions, in the order of scores: true positives and so on. Each has what the judge
# says and what was released.
_OUTCOMES = {"tp": (True, True), "fp": (True, False), "fn": (False, True), "tn": (False, False)}


@dataclass(frozen=True)
class Case:
    """One task of a step, for a response or a part of it."""

    biography: JudgedBiography
    """The input of the step: the response with the released results of the steps before."""

    released: Sequence[Any]
    """The released results of the step."""


@dataclass(frozen=True)
class Step:
    """A step of the method that can be certified. ``steps.yaml`` describes it in words."""

    make_cases: Callable[[ReleasedResponse], list[Case]]
    """Makes the cases of a response. There are none if the files do not tell enough about it."""

    ask_judge: Callable[[Judge, Sequence[JudgedBiography]], list[JudgedBiography]]
    """Lets a judge do the step for many biographies."""

    guess: Callable[[JudgedBiography], JudgedBiography]
    """Does the step without reading the biography, as a baseline."""

    compare: Callable[[JudgedBiography, Sequence[Any]], Iterable[Decision]]
    """Compares the results of the judge with the released ones."""


def _decomposition_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures how a judge decomposes a response into facts.

    Returns:
        One case with the facts that the authors released. No case if the response has no sentences,
        since the judge is asked about sentences.
    """
    prepared = AMBIGBIO.prepare(response.generation)
    if not prepared.sentences:
        return []
    return [Case(prepared, [fact.atom for fact in response.decided.facts])]


def _guess_facts(biography: JudgedBiography) -> JudgedBiography:
    """Take every sentence as a fact."""
    facts = [Fact(text, number) for number, text in enumerate(biography.sentences)]
    return replace(biography, facts=tuple(facts))


def compare_facts(biography: JudgedBiography, released_facts: Sequence[str]) -> list[Decision]:
    """Compare the facts that a judge found in a response with those that the authors released.

    Example:
        With the judge's facts "Ada sang." and "Ada won.", and the released fact "Ada sang.", both
        sides say that "Ada sang." is a fact, and only the judge says so of "Ada won.".

    Returns:
        A decision for each fact: first the facts of both sides, then those of the judge alone, then
        those of the authors alone. If the judge found none, a single entry without a decision.
    """
    if not biography.facts:
        return [_no_decision(biography.problem or "taken for an abstention")]

    def decide(text: str, judged: bool, released: bool) -> Decision:
        """Make the decision on a fact that the judge, the authors or both found."""
        return Decision(
            judged,
            released,
            text,
            verdict="a fact" if judged else "no such fact",
            label="a fact" if released else "no such fact",
            evidence=(("Response", biography.generation.output),),
        )

    judged_facts = [fact.text for fact in biography.facts]
    released_by_judged = match_facts(judged_facts, released_facts, biography.generation.name)
    decisions = []
    for judged_index in released_by_judged:
        decisions.append(decide(judged_facts[judged_index], judged=True, released=True))
    for judged_index, text in enumerate(judged_facts):
        if judged_index not in released_by_judged:
            decisions.append(decide(text, judged=True, released=False))
    for released_index, text in enumerate(released_facts):
        if released_index not in released_by_judged.values():
            decisions.append(decide(text, judged=False, released=True))
    return decisions


def match_facts(
    judged_facts: Sequence[str], released_facts: Sequence[str], name: str
) -> dict[int, int]:
    """Match the facts that occur in two lists, perhaps in slightly different words.

    Each fact is matched with at most one fact of the other list. As many facts as possible are
    matched.

    Example:
        Of ["Ada won.", "Ada sang."] and ["She sang."] with the name "Ada", the facts with the
        indices 1 and 0 match: {1: 0}.

    Args:
        judged_facts: The facts that a judge found.
        released_facts: The facts that the authors released.
        name: The name that the response is about. It may be replaced by a pronoun, so it does not
            count as a word of a fact.

    Returns:
        The index in ``released_facts`` of each matched fact, by its index in ``judged_facts``.
    """
    # The import is slow, and only certificates need it.
    from scipy.optimize import linear_sum_assignment

    judged_words = [_content_words(fact, name) for fact in judged_facts]
    released_words = [_content_words(fact, name) for fact in released_facts]
    # The judge's facts are the rows, and the released facts are the columns.
    is_similar = np.zeros((len(judged_facts), len(released_facts)), dtype=bool)
    for judged_index, released_index in np.ndindex(is_similar.shape):
        is_similar[judged_index, released_index] = _have_similar_words(
            judged_words[judged_index], released_words[released_index]
        )

    # This pairs all facts of the shorter list, so that as many pairs as possible are similar.
    judged_indices, released_indices = linear_sum_assignment(is_similar, maximize=True)
    pairs = zip(judged_indices.tolist(), released_indices.tolist(), strict=True)
    return {judged: released for judged, released in pairs if is_similar[judged, released]}


def _have_similar_words(words: set[str], released_words: set[str]) -> bool:
    """Return whether the F1 of the words of two facts is at least `MIN_SIMILARITY`."""
    num_common = len(words & released_words)
    return ratio(2 * num_common, len(words) + len(released_words)) >= MIN_SIMILARITY


def _content_words(fact: str, name: str) -> set[str]:
    """Return the words of a fact without stop words and the name, or all words if none remain."""
    words = distinct_words(fact)
    return (words - STOPWORDS - distinct_words(name)) or words


def _grouping_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures how a judge groups facts by the person whom they describe.

    Returns:
        One case with the groups that the authors released. No case if fewer than two facts are in a
        group.
    """
    # A response without sentences has no facts to group.
    if not response.biography.sentences:
        return []
    groups = [group.facts for group in response.groups]
    num_grouped_facts = sum(len(facts) for facts in groups)
    # Groups are compared by pairs of facts, and a single fact makes no pair.
    if num_grouped_facts < 2:
        return []
    return [Case(response.biography, groups)]


def compare_groups(
    biography: JudgedBiography, released_groups: Sequence[Sequence[int]]
) -> Iterator[Decision]:
    """Compare the fact groups of a judge with those that the authors released, by pairs of facts.

    Example:
        The judge's group (0, 1) and the released groups (0,) and (1,) give one decision: the judge
        says that the facts 0 and 1 are about one person, and the authors say the opposite.

    Args:
        biography: The biography with the groups of the judge.
        released_groups: The numbers of the facts of each group that the authors released.

    Yields:
        For each pair of facts in groups of both, whether the facts are about one person. If the
        judge has no groups, a single entry without a decision.
    """
    # `ungrouped` holds the reason why the judge has no groups.
    if biography.ungrouped is not None:
        yield _no_decision(biography.ungrouped)
        return
    judged_group_by_fact = _group_by_fact(biography.groups)
    released_group_by_fact = _group_by_fact(released_groups)
    # The joint method does not find all released facts.
    facts = [fact for fact in released_group_by_fact if fact in judged_group_by_fact]
    for first, second in combinations(facts, 2):
        judged_as_one = judged_group_by_fact[first] == judged_group_by_fact[second]
        released_as_one = released_group_by_fact[first] == released_group_by_fact[second]
        yield Decision(
            judged=judged_as_one,
            released=released_as_one,
            text=f"1. {biography.facts[first].text}\n2. {biography.facts[second].text}",
            verdict="one individual" if judged_as_one else "two individuals",
            label="one individual" if released_as_one else "two individuals",
            evidence=(("Response", biography.generation.output),),
        )


def _group_by_fact(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the number of the group that each fact is in."""
    return {fact: number for number, group in enumerate(groups) for fact in group}


def _linking_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures how a judge links the fact groups of a response to entities.

    Returns:
        One case with the groups that the authors released, and the title of the entity of each. No
        case if the response has only one candidate entity, or if no group can be used.
    """
    groups = _groups_of_candidates(response)
    # With one candidate there is nothing to choose.
    if len(response.generation.entities) < 2 or not groups:
        return []
    return [Case(_keep_groups(response, groups), [group.entity for group in groups])]


def _groups_of_candidates(response: ReleasedResponse) -> list[ReleasedGroup]:
    """Return the released groups that have facts and whose entity is a candidate."""
    candidates = response.generation.entities
    return [group for group in response.groups if group.facts and group.entity in candidates]


def _keep_groups(response: ReleasedResponse, groups: Sequence[ReleasedGroup]) -> JudgedBiography:
    """Return a response that has only the facts of some of its groups, numbered anew.

    Example:
        If only the group of the facts 2 and 5 is kept, these become the facts 0 and 1.
    """
    facts: list[Fact] = []
    new_groups: list[tuple[int, ...]] = []
    for group in groups:
        first_number = len(facts)
        facts += [response.biography.facts[number] for number in group.facts]
        new_groups.append(tuple(range(first_number, len(facts))))
    return replace(response.biography, facts=tuple(facts), groups=tuple(new_groups))


def _verify_and_link(judge: Judge, biographies: Sequence[JudgedBiography]) -> list[JudgedBiography]:
    """Ask a judge to verify the facts, and link their groups by its verdicts."""
    return list(map(AMBIGBIO.link, AMBIGBIO.verify(judge, biographies)))


def _decompose_jointly(
    judge: Judge, biographies: Sequence[JudgedBiography]
) -> list[JudgedBiography]:
    """Ask a judge the joint question about responses, without the released facts that they have."""
    prepared = [AMBIGBIO.prepare(biography.generation) for biography in biographies]
    return JOINT.decompose_and_group(judge, prepared)


def _group_jointly(judge: Judge, biographies: Sequence[JudgedBiography]) -> list[JudgedBiography]:
    """Ask a judge the joint question, and group the released facts as it groups its own facts."""
    return list(map(_adopt_groups, biographies, _decompose_jointly(judge, biographies)))


def _adopt_groups(with_released: JudgedBiography, with_judged: JudgedBiography) -> JudgedBiography:
    """Group the facts that the authors released as a judge groups its own facts.

    Example:
        If the judge's facts 0 and 1 have the words of the released facts 4 and 2, its group (0, 1)
        becomes the group (4, 2).

    Args:
        with_released: A response with the facts that the authors released.
        with_judged: The same response with the facts and groups of the judge.

    Returns:
        The response with the released facts in the groups of the judge. Released facts that the
        judge did not find are in no group. If the judge's reply is unusable, there are no groups.
    """
    if with_judged.problem is not None:
        return replace(with_released, groups=(), ungrouped=with_judged.problem)
    released_by_judged = match_facts(
        [fact.text for fact in with_judged.facts],
        [fact.text for fact in with_released.facts],
        with_released.generation.name,
    )
    groups = []
    for judged_group in with_judged.groups:
        matched_facts = [fact for fact in judged_group if fact in released_by_judged]
        groups.append(tuple(released_by_judged[fact] for fact in matched_facts))
    return replace(with_released, groups=tuple(groups))


def _link_jointly(judge: Judge, biographies: Sequence[JudgedBiography]) -> list[JudgedBiography]:
    """Ask a judge the joint question, and link each released group to the page that it named."""
    return list(map(_adopt_links, biographies, _decompose_jointly(judge, biographies)))


def _adopt_links(with_released: JudgedBiography, with_judged: JudgedBiography) -> JudgedBiography:
    """Link the groups that the authors released to the pages that a judge named for its own facts.

    The facts of the judge differ from the released ones, but both belong to sentences. For a
    released group, the judge's facts in the same sentences are taken. The group is linked to the
    page that the judge named for most of them.

    Args:
        with_released: A response with the facts and groups that the authors released.
        with_judged: The same response with the facts of the judge, and their pages as links.

    Returns:
        The response with the released facts and groups, and with these links. If the judge's reply
        is unusable, all facts are unscored.
    """
    if with_judged.problem is not None:
        unscored = Judgement(UNSCORED, None, with_judged.problem)
        no_links = (None,) * len(with_released.groups)
        return replace(_fill_matrix(with_released, unscored), links=no_links)

    pages_by_sentence: dict[int, list[int | None]] = defaultdict(list)
    for fact_index, page in linked_entity_by_fact(with_judged).items():
        sentence = with_judged.facts[fact_index].sentence
        pages_by_sentence[sentence].append(page)

    links = []
    for group in with_released.groups:
        sentences = {with_released.facts[fact_index].sentence for fact_index in group}
        pages = list(chain.from_iterable(pages_by_sentence[sentence] for sentence in sentences))
        links.append(mode(pages) if pages else None)
    # The joint question asks for no verdicts. Without any, every group would be unscored.
    return replace(_guess_verdicts(with_released), links=tuple(links))


def _guess_links(biography: JudgedBiography) -> JudgedBiography:
    """Link every group to the entity that was retrieved first."""
    # Without a matrix of verdicts, every group would be unscored.
    return replace(_guess_verdicts(biography), links=(0,) * len(biography.groups))


def compare_links(biography: JudgedBiography, released_titles: Sequence[str]) -> Iterator[Decision]:
    """Compare the pages to which a judge links fact groups with those that the authors released.

    Example:
        If the judge links a group to the page ``Ada (poet)`` and the authors to ``Ada (judge)``,
        the decision says that the judge does not agree, and has both titles.

    Args:
        biography: The biography with the groups and with the links that follow from the judge's
            verdicts. No group is empty.
        released_titles: The title of the page to which the authors linked each group.

    Yields:
        For each group, whether the judge links it to the released page. If the judge has no verdict
        on any fact of the group, an entry without a decision.
    """
    passages = passages_by_title(biography.generation)
    groups = zip(biography.groups, biography.links, released_titles, strict=True)
    for facts, entity, released_title in groups:
        judgements = list(chain.from_iterable(biography.matrix[fact] for fact in facts))
        if all(judgement.outcome == UNSCORED for judgement in judgements):
            yield _no_decision(judgements[0].reason)
            continue
        # Without a page that supports a fact of the group, the judge links it to none.
        judged_title = "no entity" if entity is None else biography.entities[entity]
        yield Decision(
            # The released page is the right one, so the released decision is always yes.
            judged=judged_title == released_title,
            released=True,
            text="\n".join(biography.facts[fact].text for fact in facts),
            verdict=judged_title,
            label=released_title,
            evidence=_pages_to_compare(passages, judged_title, released_title),
        )


def _pages_to_compare(
    passages: Mapping[str, Sequence[str]], *titles: str
) -> tuple[tuple[str, str], ...]:
    """Return each of the titles once, together with the passages of its page that a model saw."""
    return tuple((title, "\n\n".join(passages.get(title, ()))) for title in dict.fromkeys(titles))


def _verification_cases(response: ReleasedResponse) -> list[Case]:
    """Make the cases that measure how a judge verifies facts by the page of an entity.

    Returns:
        A case for each entity, with the facts that the authors verified by its page, and their
        verdict on each.
    """
    verdicts_by_title: dict[str, dict[int, bool]] = defaultdict(dict)
    for key, is_supported in response.verdicts.items():
        verdicts_by_title[key.entity][key.fact] = is_supported

    cases = []
    for title, verdict_by_fact in verdicts_by_title.items():
        facts = tuple(response.biography.facts[fact] for fact in verdict_by_fact)
        biography = replace(response.biography, facts=facts, entities=(title,))
        cases.append(Case(biography, list(verdict_by_fact.values())))
    return cases


def _joint_verification_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures how a judge verifies facts by all pages in one question.

    The question shows each fact below the page to which the authors linked its group. The authors'
    verdict on the fact is that of this page.

    Returns:
        One case with the verdict on each fact, as the authors released it. A verdict is None where
        the files contradict each other. No case if no group can be used.
    """
    groups = _groups_of_candidates(response)
    if not groups:
        return []
    entities = response.generation.entities
    links = tuple(entities.index(group.entity) for group in groups)
    # Pages that the judge seems to have named itself stay linked after verification.
    linked = replace(_keep_groups(response, groups), links=links, named_pages=links)
    verdicts = [
        response.verdicts.get(FactAndEntity(fact_index, group.entity))
        for group in groups
        for fact_index in group.facts
    ]
    return [Case(linked, verdicts)]


def _guess_verdicts(biography: JudgedBiography) -> JudgedBiography:
    """Take every fact as supported by every page."""
    return _fill_matrix(biography, Judgement(SUPPORTED, 1.0))


def _fill_matrix(biography: JudgedBiography, judgement: Judgement) -> JudgedBiography:
    """Give a biography the same judgement of every fact by every page."""
    row = (judgement,) * len(biography.entities)
    return replace(biography, matrix=(row,) * len(biography.facts))


def compare_verdicts(
    biography: JudgedBiography, released_verdicts: Sequence[bool | None]
) -> Iterator[Decision]:
    """Compare the verdicts of a judge on facts with those that the authors released.

    Args:
        biography: The biography with the judge's verdicts in its matrix. Each fact is judged by one
            page: that of the entity to which its group is linked, or the only page.
        released_verdicts: Whether each fact is supported, as the authors released it. A fact with
            None is left out.

    Yields:
        For each fact, whether the page supports it in the view of the judge and of the authors. If
        the judge has no verdict, an entry without a decision. An irrelevant fact counts as not
        supported.
    """
    entity_by_fact = linked_entity_by_fact(biography)
    for fact_index, is_supported in enumerate(released_verdicts):
        if is_supported is None:
            continue
        entity_index = entity_by_fact.get(fact_index)
        if entity_index is None:
            # Facts without groups have a single page.
            entity_index = 0
        judgement = biography.matrix[fact_index][entity_index]
        if judgement.outcome == UNSCORED:
            yield _no_decision(judgement.reason)
            continue
        yield Decision(
            judged=judgement.outcome == SUPPORTED,
            released=is_supported,
            text=biography.facts[fact_index].text,
            verdict=describe_outcome(judgement),
            label="supported" if is_supported else "not supported",
            reason=judgement.reason,
            evidence=((biography.entities[entity_index], "\n\n".join(judgement.evidence)),),
        )


def describe_outcome(judgement: Judgement) -> str:
    """Return the outcome of a judgement for readers, such as "not supported" or "contradicted"."""
    # Some judges only say whether a page supports a fact.
    if judgement.is_contradicted is None:
        return judgement.outcome.replace("_", " ")
    return "contradicted" if judgement.is_contradicted else "not found"


STEPS = {
    "decomposition": Step(_decomposition_cases, AMBIGBIO.decompose, _guess_facts, compare_facts),
    "grouping": Step(_grouping_cases, AMBIGBIO.group, group_together, compare_groups),
    "linking": Step(_linking_cases, _verify_and_link, _guess_links, compare_links),
    "verification": Step(_verification_cases, AMBIGBIO.verify, _guess_verdicts, compare_verdicts),
    "joint_decomposition": Step(
        _decomposition_cases, _decompose_jointly, _guess_facts, compare_facts
    ),
    "joint_grouping": Step(_grouping_cases, _group_jointly, group_together, compare_groups),
    "joint_linking": Step(_linking_cases, _link_jointly, _guess_links, compare_links),
    "joint_verification": Step(
        _joint_verification_cases, JOINT.verify, _guess_verdicts, compare_verdicts
    ),
}


def scores_from_counts(counts: Sequence[float]) -> dict[str, float]:
    """Compute all scores of a step from the counts of its four outcomes.

    Args:
        counts: The numbers of true positives, false positives, false negatives and true negatives,
            in this order.

    Returns:
        The scores by name, as fractions. NaN if a score is not defined. ``facts_per_released`` is
        the number of positive decisions of the judge for each released one.
    """
    true_positives, false_positives, false_negatives, true_negatives = counts
    predicted_positives = true_positives + false_positives
    positives = true_positives + false_negatives
    negatives = true_negatives + false_positives
    # `ratio` returns NaN if the denominator is 0.
    recall = ratio(true_positives, positives)
    specificity = ratio(true_negatives, negatives)
    return {
        "accuracy": ratio(true_positives + true_negatives, positives + negatives),
        "precision": ratio(true_positives, predicted_positives),
        "recall": recall,
        "f1": ratio(2 * true_positives, predicted_positives + positives),
        "balanced_accuracy": (recall + specificity) / 2,
        "facts_per_released": ratio(predicted_positives, positives),
    }


class StepCounts(NamedTuple):
    """The decisions of a step, counted."""

    outcomes_per_name: list[list[int]]
    """For each name, how often each of the four outcomes occurs, in the order tp, fp, fn, tn."""

    unscored: JsonObject
    """The numbers of ``responses`` and ``items`` without a decision, and the ``reasons``."""


def _released_files(options: CertifyOptions) -> Sequence[Path]:
    """Return the files to measure on: generations and the decisions on them in turn.

    These are the user's own files, or else the published ones, which are downloaded once.

    Raises:
        ConfigError: There is not one file of decisions for each file of generations.
    """
    if len(options.files) % 2:
        raise ConfigError(
            "--data: expected generations and their decisions in turn, found"
            f" {len(options.files)} files"
        )
    return options.files or [locate(source, options.data_dir).path for source in _PUBLISHED]


def _read_cases(paths: Sequence[Path], step: Step) -> list[list[Case]]:
    """Read the released responses, and make the cases of a step from them.

    Args:
        paths: Files of generations and of the decisions on them in turn.
        step: The step that is measured.

    Returns:
        The cases of each response. A response has none if the files have no labels for the step.
    """
    cases_by_response = []
    for generations, decisions in zip(paths[::2], paths[1::2], strict=True):
        texts = read_generations([generations])
        decided_responses = read_decisions(decisions).responses
        # The two files have no common key, so the text is found by its words.
        for decided_response, text in match_texts(decided_responses, texts):
            cases_by_response.append(step.make_cases(ReleasedResponse(text, decided_response)))
    return cases_by_response


@dataclass
class StepTrial:
    """Measures a judge in one step on the released responses.

    It is the `SettingTrial` of the step.
    """

    step: Step
    """The step that is measured."""

    config: JsonObject
    """The entry of the step in ``steps.yaml``, such as the names of its ``scores``."""

    cases_by_response: Sequence[Sequence[Case]]
    """For each drawn response, the tasks for the judge."""

    data: JsonObject
    """What certificates state about the released files and the draw."""

    @classmethod
    def open(cls, name: str, options: CertifyOptions) -> "StepTrial":
        """Read the released files and draw the responses to measure on.

        Args:
            name: The name of the step, such as "grouping".
            options: Which files to read, and how many responses to draw. By default, the published
                files and all responses.

        Raises:
            ConfigError: There is not one file of decisions for each file of generations.
            DataError: A file cannot be used, or no response has labels for the step.
        """
        paths = _released_files(options)
        files = describe_files(paths, _BLOBS)
        cases_by_response = _read_cases(paths, STEPS[name])
        usable_cases = [cases for cases in cases_by_response if cases]
        if not usable_cases:
            raise DataError(
                f"{files['file']}: none of {len(cases_by_response)} responses has what the step"
                f" {name} needs; give the files as they were released"
            )

        num_drawn = min(options.rows or len(usable_cases), len(usable_cases))
        # A fixed seed makes judges comparable.
        drawn_cases = random.Random(_SEED).sample(usable_cases, num_drawn)
        # A certificate states this, so that readers know what the judge was measured on.
        data = {
            **files,
            # The number of responses that were drawn, and the number of those that can be drawn.
            "rows": num_drawn,
            "of": len(usable_cases),
            "seed": _SEED,
            # The number of responses that cannot be drawn, since the files lack their labels.
            "without": len(cases_by_response) - len(usable_cases),
        }
        return cls(STEPS[name], _STEP_CONFIGS[name], drawn_cases, data)

    def ask(self, judge: Judge) -> list[JudgedBiography]:
        """Let a judge do the step for every case.

        Raises:
            BackendDownError: The judge cannot be reached.
        """
        return self.step.ask_judge(judge, self._biographies)

    def disagreements(self, judge: Judge) -> list[Disagreement]:
        """Ask a judge, and return each decision in which it differs from the authors."""
        disagreements = []
        for name, decision_by_id in self._compare_by_response(self.ask(judge)):
            for decision_id, decision in decision_by_id.items():
                # A judge that decided nothing does not differ from the authors.
                if decision.judged is None or decision.judged == decision.released:
                    continue
                disagreement = Disagreement(
                    id=decision_id,
                    cluster=name,
                    text=decision.text,
                    label=decision.label,
                    verdict=decision.verdict,
                    reason=decision.reason,
                    evidence=decision.evidence,
                )
                disagreements.append(disagreement)
        return disagreements

    def measure(self, judge: Judge, rulings: Rulings = NO_RULINGS) -> JsonObject:
        """Measure how often a judge agrees with the released decisions.

        Args:
            judge: The judge to measure.
            rulings: Who people say is right in some of the `disagreements`. In all others, the
                released decision counts as right.

        Returns:
            The content of a certificate:

            - ``scores``: the scores of the judge under ``ALL``, and under ``unscored`` how much it
              did not decide, and why
            - ``intervals``: the 95% interval of each score of the judge, by the score's name
            - ``baselines``: the scores of the step's baseline, by the baseline's name

        Raises:
            BackendDownError: The judge cannot be reached, or has no decision at all.
        """
        outcomes_per_name, unscored = self._count_outcomes(self.ask(judge), rulings)
        if not outcomes_per_name:
            raise BackendDownError(
                f"judge {judge.name}: no verdict on any of {unscored['responses']}"
                f" responses: {', '.join(unscored['reasons'])}; there is nothing to certify"
            )

        judge_scores = self._total_scores(outcomes_per_name)
        intervals = {}
        for score_name in self.config["scores"]:
            compute_interval = _INTERVAL_BY_SCORE[score_name]
            intervals[score_name] = compute_interval(outcomes_per_name)
        return {
            "scores": {_ALL_NAMES: judge_scores, "unscored": unscored},
            "intervals": intervals,
            "baselines": {self.config["baseline"]: self._score_baseline()},
        }

    def _score_baseline(self) -> dict[str, float | None]:
        """Return the scores of the step's guess, such as that every fact is supported.

        They show readers of a certificate what a judge has to surpass.
        """
        guesses = [self.step.guess(biography) for biography in self._biographies]
        return self._total_scores(self._count_outcomes(guesses).outcomes_per_name)

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """Return the hashes of the prompts that the step asks the judge with, by their names."""
        return judge.prompts.hashes(self.config["prompts"])

    def make_table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """Make the table of a certificate for the terminal, with a row for each score.

        Example:
            The row ``("f1", "81.0%", "78.0% - 84.0%", "40.0%")`` has the score of the judge, its
            95% interval, and the score of the baseline.

        Args:
            certificate: The result of `measure`, with the ``data`` of the trial.
            judge: The name of the judge.

        Returns:
            The names of columns, the rows, and the notes below the table.
        """
        scores = certificate["scores"][_ALL_NAMES]
        baseline = self.config["baseline"]
        baseline_scores = certificate["baselines"][baseline]
        rows = []
        for name, interval in certificate["intervals"].items():
            row = (
                name,
                format_number(scores[name]),
                format_interval(interval),
                format_number(baseline_scores[name]),
            )
            rows.append(row)
        # A "#" before the name of a column aligns it to the right.
        columns = ("score", f"#{judge}", "#95% interval", f"#{baseline}")
        return columns, rows, _certificate_notes(certificate)

    @property
    def _biographies(self) -> list[JudgedBiography]:
        """The input of every case, in order."""
        return [case.biography for case in chain.from_iterable(self.cases_by_response)]

    def _count_outcomes(
        self, results: Sequence[JudgedBiography], rulings: Rulings = NO_RULINGS
    ) -> StepCounts:
        """Count how often the judge and the authors both say yes, both say no, or disagree.

        Args:
            results: The biographies after the step, in the order of cases.
            rulings: What people say about decisions. Those in which neither is right do not count.

        Returns:
            The counts for each name that responses are about, and how many responses and decisions
            have no verdict.
        """
        # All responses about one name are one cluster.
        decisions_by_name: dict[str, list[Decision]] = defaultdict(list)
        reasons: Counter[str] = Counter()
        num_unscored_responses = 0
        for name, decision_by_id in self._compare_by_response(results):
            decisions = list(_correct_labels(decision_by_id, rulings))
            unscored = [decision for decision in decisions if decision.judged is None]
            reasons.update(decision.reason for decision in unscored)
            if len(unscored) == len(decisions):
                num_unscored_responses += 1
            else:
                decisions_by_name[name] += decisions

        return StepCounts(
            outcomes_per_name=[_count_decisions(group) for group in decisions_by_name.values()],
            unscored={
                "responses": num_unscored_responses,
                "items": reasons.total(),
                "reasons": dict(reasons.most_common()),
            },
        )

    def _compare_by_response(
        self, results: Sequence[JudgedBiography]
    ) -> Iterator[tuple[str, dict[str, Decision]]]:
        """Compare the result of every case with the released one.

        Args:
            results: The biographies after the step. Those for the cases of the first response come
                first, then those for the cases of the second, and so on.

        Yields:
            For each response the name that it is about, and its decisions by their ids. The id
            "4:0:2" has the numbers, from 0, of the response, of its case and of the decision.
        """
        results_by_response = split_into_groups(results, map(len, self.cases_by_response))
        responses = zip(self.cases_by_response, results_by_response, strict=True)
        for response_index, (cases, results_of_response) in enumerate(responses):
            decision_by_id = {}
            for case_index, (case, result) in enumerate(
                zip(cases, results_of_response, strict=True)
            ):
                decisions = self.step.compare(result, case.released)
                for decision_index, decision in enumerate(decisions):
                    decision_id = f"{response_index}:{case_index}:{decision_index}"
                    decision_by_id[decision_id] = decision
            yield cases[0].biography.generation.name, decision_by_id

    def _total_scores(self, outcomes_per_name: Sequence[Sequence[int]]) -> dict[str, float | None]:
        """Add up the counts of all names and compute the scores of the step from the totals.

        Args:
            outcomes_per_name: For each name the numbers of true positives, false positives, false
                negatives and true negatives, in this order.

        Returns:
            The four totals under ``tp``, ``fp``, ``fn`` and ``tn``, and the scores. None for a
            score that is not defined.
        """
        totals = [float(sum(column)) for column in zip(*outcomes_per_name, strict=True)]
        scores = scores_from_counts(totals)
        result: dict[str, float | None] = dict(zip(_OUTCOMES, totals, strict=True))
        for score_name in self.config["scores"]:
            result[score_name] = none_if_nan(scores[score_name])
        return result


def _count_decisions(decisions: Iterable[Decision]) -> list[int]:
    """Count how often a judge and the authors both say yes, both say no, or disagree.

    Returns:
        The numbers of true positives, false positives, false negatives and true negatives.
    """
    counts = Counter((decision.judged, decision.released) for decision in decisions)
    # An outcome that never occurs has the count 0.
    return [counts[outcome] for outcome in _OUTCOMES.values()]


def _correct_labels(decision_by_id: Mapping[str, Decision], rulings: Rulings) -> Iterator[Decision]:
    """Yield decisions whose labels people have corrected.

    Where people say that the judge is right, its decision becomes the label. A decision in which
    neither is right is left out.

    Args:
        decision_by_id: The decisions.
        rulings: Who is right, by the ids of decisions. Most decisions have no ruling.
    """
    for decision_id, decision in decision_by_id.items():
        ruling = rulings.get(decision_id)
        if ruling == "neither":
            continue
        if ruling == "judge" and decision.judged is not None:
            yield replace(decision, released=decision.judged)
        else:
            yield decision


def _certificate_notes(certificate: Mapping[str, Any]) -> list[str]:
    """Return the lines below the table of a certificate.

    These lines state how many responses were measured, what has no decision and why, and where the
    labels come from.
    """
    data = certificate["data"]
    unscored = certificate["scores"]["unscored"]
    reasons = [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
    return [
        f"{data['rows']} of {data['of']} responses; {data['without']} more tell nothing of"
        " this step.",
        f"unscored: {unscored['items']} items, {unscored['responses']} whole responses",
        *reasons,
        "Intervals: 95%, clustered by name. Labels: the published pipeline's, which saw"
        " whole pages of Wikipedia.",
    ]


def _interval_of_facts_per_released(counts: Sequence[Sequence[float]]) -> Interval | None:
    """Compute the 95% interval of the judge's number of facts per released fact."""
    return pooled_interval(
        counts, lambda sums: scores_from_counts(sums)["facts_per_released"], high=math.inf
    )


_INTERVAL_BY_SCORE = {
    **DETECTION_INTERVALS,
    "facts_per_released": _interval_of_facts_per_released,
}


def _make_setting(step_name: str) -> CertifiableSetting:
    """Make the setting in which ``lm-factuality certify`` measures a judge in one step."""
    texts = _STEP_CONFIGS[step_name]
    return CertifiableSetting(
        f"biographies_{step_name}",
        texts["what"],
        (texts["headline"],),
        texts["label"],
        _BLOBS,
        partial(StepTrial.open, step_name),
        accepted_options=("files", "rows"),
    )


SETTINGS = {step_name: _make_setting(step_name) for step_name in STEPS}
JUDGED_STEPS = tuple(
    JudgedStep(
        name,
        (setting,),
        _STEP_CONFIGS[name]["behind"],
        _STEP_CONFIGS[name].get("measured", {}),
        _STEP_CONFIGS[name].get("method", ""),
    )
    for name, setting in SETTINGS.items()
)
