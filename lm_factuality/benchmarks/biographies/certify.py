"""Certification of judges on the decisions that the authors of D-FActScore released.

``lm-factuality certify`` measures each step of the method by itself here, given what was released
for the steps before it.

The labels come from the published pipeline (GPT-3.5 and ChatGPT with whole pages of Wikipedia), not
from people. The judge sees the passages that the responses were written from.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from judges.judge import Judge
from judges.lexical.words import STOPWORDS
from judges.verify import SUPPORTED, UNSCORED
from lm_factuality.benchmarks.biographies.decisions import (
    ReleasedResponse,
    distinct_words,
    match_texts,
    read_decisions,
)
from lm_factuality.benchmarks.biographies.generations import SOURCES, read_generations
from lm_factuality.benchmarks.biographies.method import AMBIGBIO
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, Judgement
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertifyOptions, JudgedStep
from lm_factuality.ground.console import format_interval, format_number
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.harness.generation import JsonObject, Table
from lm_factuality.scores.statistics import interval_or_none, none_if_nan, pooled_interval, ratio

MIN_SIMILARITY = 0.7
"""Facts are the same from this F1 of their content words.

F1 is twice the number of common words over the sum of both numbers of words.
"""

_PUBLISHED = SOURCES[:4]  # Each file of generations comes before the file of decisions on it.
_BLOBS = ",".join(source.blob for source in _PUBLISHED)
_STEP_TEXTS = load_yaml(__package__, "steps.yaml")
_SEED = 0
_RESAMPLES = 2000


class Comparison(NamedTuple):
    """A decision of the judge beside the released one."""

    judged: bool
    """Whether the judge says yes, for example that a fact is supported."""

    released: bool
    """Whether the released decision says yes."""


Outcome: TypeAlias = Comparison | str
"""A comparison, or the reason why the judge has no decision."""

_COMPARISONS = {
    "tp": Comparison(True, True),
    "fp": Comparison(True, False),
    "fn": Comparison(False, True),
    "tn": Comparison(False, False),
}


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

    compare: Callable[[JudgedBiography, Sequence[Any]], list[Outcome]]
    """Compares the results of the judge with the released ones."""


def _decomposition_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures a judge in decomposing a response into facts.

    Args:
        response: The released response.

    Returns:
        One case with the released facts, or none if the response has no sentences.
    """
    # A judge decomposes sentences, so there is nothing to ask without any.
    prepared = AMBIGBIO.prepare(response.generation)
    if not prepared.sentences:
        return []
    return [Case(prepared, [fact.atom for fact in response.decided.facts])]


def _guess_facts(judged: JudgedBiography) -> JudgedBiography:
    """Take every sentence as a fact."""
    facts = [Fact(text, number) for number, text in enumerate(judged.sentences)]
    return replace(judged, facts=tuple(facts))


def compare_facts(judged: JudgedBiography, released: Sequence[str]) -> list[Outcome]:
    """Compare the facts that a judge found with the released ones.

    Args:
        judged: The biography with the judge's facts.
        released: The texts of the released facts.

    Returns:
        One outcome for each fact that is in both lists or in one of them. If the judge found no
        facts, only the reason.
    """
    if not judged.facts:
        return [judged.problem or "taken for an abstention"]
    facts = [fact.text for fact in judged.facts]
    matched = count_matches(facts, released, judged.generation.name)
    # There are no true negatives: nobody lists the facts that a text does not state.
    outcomes: list[Outcome] = []
    outcomes += [Comparison(True, True)] * matched
    outcomes += [Comparison(True, False)] * (len(facts) - matched)
    outcomes += [Comparison(False, True)] * (len(released) - matched)
    return outcomes


def count_matches(facts: Sequence[str], released: Sequence[str], name: str) -> int:
    """Count the facts that are the same in two lists.

    A fact is matched with at most one fact of the other list, and as many as possible are matched.

    Args:
        facts: The facts that a judge found.
        released: The released facts.
        name: The name that the response is about. It is no content word, since a pronoun may stand
            for it.
    """
    # The import is slow, and only certificates need it.
    from scipy.optimize import linear_sum_assignment

    released_words = [_content_words(fact, name) for fact in released]
    is_same = np.zeros((len(facts), len(released)), dtype=bool)
    for row, fact in enumerate(facts):
        fact_words = _content_words(fact, name)
        for column, words in enumerate(released_words):
            similarity = ratio(2 * len(fact_words & words), len(fact_words) + len(words))
            is_same[row, column] = similarity >= MIN_SIMILARITY
    matching = linear_sum_assignment(is_same, maximize=True)
    return int(is_same[matching].sum())


def _content_words(fact: str, name: str) -> set[str]:
    """Return the words of a fact without stop words and the name, or all words if none remain."""
    words = distinct_words(fact)
    return (words - STOPWORDS - distinct_words(name)) or words


def _grouping_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures a judge in grouping the facts of a response by individual.

    Args:
        response: The released response.

    Returns:
        One case with the released groups, or none if fewer than two facts are in a group.
    """
    groups = [group.facts for group in response.groups]
    # A single fact makes no pair.
    num_grouped = sum(len(facts) for facts in groups)
    if not response.biography.sentences or num_grouped < 2:
        return []
    return [Case(response.biography, groups)]


def _guess_groups(judged: JudgedBiography) -> JudgedBiography:
    """Take all facts as one group."""
    return replace(judged, groups=(tuple(range(len(judged.facts))),))


def compare_groups(judged: JudgedBiography, released: Sequence[Sequence[int]]) -> list[Outcome]:
    """Compare the fact groups of a judge with the released ones, pair by pair.

    Args:
        judged: The biography with the groups of the judge.
        released: The numbers of the facts of each released group.

    Returns:
        For each pair of facts in released groups, whether both are in the same group. If the judge
        has no groups, only the reason.
    """
    if judged.ungrouped is not None:
        return [judged.ungrouped]
    # A pair has no outcome of its own if there is no grouping at all.
    judged_groups = _group_by_fact(judged.groups)
    released_groups = _group_by_fact(released)
    return [
        Comparison(
            judged_groups[first] == judged_groups[second],
            released_groups[first] == released_groups[second],
        )
        for first, second in combinations(released_groups, 2)
    ]


def _group_by_fact(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the number of the group that each fact is in."""
    return {fact: number for number, group in enumerate(groups) for fact in group}


def _linking_cases(response: ReleasedResponse) -> list[Case]:
    """Make the case that measures a judge in linking the released fact groups to entities.

    Args:
        response: The released response.

    Returns:
        One case with the title of the released entity of each group. No case if the response has
        only one candidate entity, or no group of a candidate.
    """
    candidates = response.generation.entities
    facts: list[Fact] = []
    groups = []
    entities = []
    for group in response.groups:
        if not group.facts or group.entity not in candidates:
            continue
        # Facts of other groups are left out, so facts get new numbers.
        first_number = len(facts)
        facts += [response.biography.facts[number] for number in group.facts]
        groups.append(tuple(range(first_number, len(facts))))
        entities.append(group.entity)

    # With one candidate there is nothing to choose.
    if len(candidates) < 2 or not groups:
        return []
    grouped = replace(response.biography, facts=tuple(facts), groups=tuple(groups))
    return [Case(grouped, entities)]


def _verify_and_link(judge: Judge, judged: Sequence[JudgedBiography]) -> list[JudgedBiography]:
    """Ask a judge to verify the facts, and link their groups by its verdicts."""
    return [AMBIGBIO.link(biography) for biography in AMBIGBIO.verify(judge, judged)]


def _guess_links(judged: JudgedBiography) -> JudgedBiography:
    """Link every group to the entity that was retrieved first."""
    return replace(_guess_verdicts(judged), links=(0,) * len(judged.groups))


def compare_links(judged: JudgedBiography, released: Sequence[str]) -> list[Outcome]:
    """Compare the entity of each group with the released one.

    Args:
        judged: The biography with the links that follow from the judge's verdicts.
        released: The title of the released entity of each group.

    Returns:
        For each group whether the entities are equal. If no fact of a group has a verdict, the
        reason.
    """
    outcomes: list[Outcome] = []
    for entity, group, link in zip(released, judged.groups, judged.links, strict=True):
        judgements = [judgement for fact in group for judgement in judged.matrix[fact]]
        if all(judgement.outcome == UNSCORED for judgement in judgements):
            outcomes.append(judgements[0].reason)
            continue
        # The released entity always exists, so there are no negatives.
        is_same_entity = link is not None and judged.entities[link] == entity
        outcomes.append(Comparison(is_same_entity, True))
    return outcomes


def _verification_cases(response: ReleasedResponse) -> list[Case]:
    """Make the cases that measure a judge in verifying facts against the page of an entity.

    Args:
        response: The released response.

    Returns:
        A case for each entity, with the released verdict on each of its facts.
    """
    facts_by_entity: dict[str, list[Fact]] = defaultdict(list)
    verdicts_by_entity: dict[str, list[bool]] = defaultdict(list)
    # A case has one page, so facts are sorted by entity.
    for (number, entity), is_supported in response.verdicts.items():
        facts_by_entity[entity].append(response.biography.facts[number])
        verdicts_by_entity[entity].append(is_supported)

    cases = []
    for entity, verdicts in verdicts_by_entity.items():
        facts = tuple(facts_by_entity[entity])
        cases.append(Case(replace(response.biography, facts=facts, entities=(entity,)), verdicts))
    return cases


def _guess_verdicts(judged: JudgedBiography) -> JudgedBiography:
    """Take every fact as supported by every page."""
    row = (Judgement(SUPPORTED, 1.0),) * len(judged.entities)
    return replace(judged, matrix=(row,) * len(judged.facts))


def compare_verdicts(judged: JudgedBiography, released: Sequence[bool]) -> list[Outcome]:
    """Compare the verdicts of a judge on the facts of one page with the released ones.

    Args:
        judged: The biography with a matrix of one column, since the case has one entity.
        released: Whether each fact is supported.

    Returns:
        For each fact whether the page supports it, or the reason if it is unscored. An irrelevant
        fact counts as not supported.
    """
    outcomes: list[Outcome] = []
    for is_supported, (judgement,) in zip(released, judged.matrix, strict=True):
        if judgement.outcome == UNSCORED:
            outcomes.append(judgement.reason)
        else:
            outcomes.append(Comparison(judgement.outcome == SUPPORTED, is_supported))
    return outcomes


STEPS = {
    "decomposition": Step(_decomposition_cases, AMBIGBIO.decompose, _guess_facts, compare_facts),
    "grouping": Step(_grouping_cases, AMBIGBIO.group, _guess_groups, compare_groups),
    "linking": Step(_linking_cases, _verify_and_link, _guess_links, compare_links),
    "verification": Step(_verification_cases, AMBIGBIO.verify, _guess_verdicts, compare_verdicts),
}


def scores_from_counts(counts: Sequence[float]) -> dict[str, float]:
    """Compute all scores of a step from the counts of its four comparisons.

    Args:
        counts: The numbers of true positives, false positives, false negatives and true negatives,
            in this order. For pairs of facts they are those of Hubert and Arabie (1985).

    Returns:
        The scores by name, as fractions. NaN if a score is not defined.
    """
    true_positives, false_positives, false_negatives, true_negatives = counts
    predicted = true_positives + false_positives
    positives = true_positives + false_negatives
    negatives = true_negatives + false_positives
    # `ratio` is NaN where nothing can be divided.
    recall = ratio(true_positives, positives)
    return {
        "accuracy": ratio(true_positives + true_negatives, positives + negatives),
        "precision": ratio(true_positives, predicted),
        "recall": recall,
        "f1": ratio(2 * true_positives, predicted + positives),
        "balanced_accuracy": (recall + ratio(true_negatives, negatives)) / 2,
        "facts_per_released": ratio(predicted, positives),
    }


class StepCounts(NamedTuple):
    """The comparisons of a step, counted."""

    rows: list[list[int]]
    """For each name, how often each of the four comparisons occurs, in the order tp, fp, fn, tn."""

    unscored: JsonObject
    """The numbers of ``responses`` and ``items`` without a decision, and the ``reasons``."""


class StepTrial:
    """Measures a judge in one step on the released responses.

    It is the `SettingTrial` of the step.
    """

    def __init__(self, name: str, options: CertifyOptions) -> None:
        """Read the released files and draw the responses to measure on.

        Args:
            name: The name of the step, a key of `STEPS`.
            options: Which files to read, and how many responses to draw. By default, the published
                files and all responses.

        Raises:
            ConfigError: There is not one file of decisions for each file of generations.
            DataError: A file cannot be used, or no response has a case of the step.
        """
        if len(options.files) % 2:
            raise ConfigError(
                "--data: expected generations and their decisions in turn, found"
                f" {len(options.files)} of them"
            )
        self._texts = _STEP_TEXTS[name]
        self._step = STEPS[name]
        # Published files are downloaded once and checked.
        paths = options.files or [locate(source, options.data_dir).path for source in _PUBLISHED]
        blobs = ",".join(blob_id(path) for path in paths)
        file_names = ", ".join(path.name for path in paths)

        cases_by_response = self._read_cases(paths)
        usable = [cases for cases in cases_by_response if cases]
        if not usable:
            raise DataError(
                f"{file_names}: none of {len(cases_by_response)} responses has what the step"
                f" {name} needs; give the files as they were released"
            )
        # A fixed seed makes judges comparable.
        count = min(options.rows or len(usable), len(usable))
        # The cases of each drawn response.
        self._cases = random.Random(_SEED).sample(usable, count)
        self.data = {
            "file": file_names,
            "git_blob": blobs,
            "is_published": blobs == _BLOBS,
            "rows": count,
            "of": len(usable),
            "seed": _SEED,
            "without": len(cases_by_response) - len(usable),
        }

    def _read_cases(self, paths: Sequence[Path]) -> list[list[Case]]:
        """Read the cases of every released response.

        Args:
            paths: Files of generations, each followed by the file of decisions on it.
        """
        cases_by_response = []
        for generations, decisions in zip(paths[::2], paths[1::2], strict=True):
            texts = read_generations([generations])
            for decided, text in match_texts(read_decisions(decisions).responses, texts):
                cases_by_response.append(self._step.make_cases(ReleasedResponse(text, decided)))
        return cases_by_response

    def ask(self, judge: Judge) -> list[JudgedBiography]:
        """Let a judge do the step for every case.

        Raises:
            BackendDownError: The judge cannot be reached.
        """
        return self._step.ask_judge(judge, self._biographies)

    def measure(self, judge: Judge) -> JsonObject:
        """Measure how often a judge agrees with the released decisions.

        Args:
            judge: The judge to measure.

        Returns:
            The ``scores``, their 95% ``intervals``, which bootstrap names, and the scores of a
            baseline that does not read the biographies.

        Raises:
            BackendDownError: The judge cannot be reached, or has no decision at all.
        """
        rows, unscored = self._count_comparisons(self.ask(judge))
        if not rows:
            raise BackendDownError(
                f"judge {judge.name}: no verdict on any of {unscored['responses']} responses:"
                f" {', '.join(unscored['reasons'])}; there is nothing to certify"
            )

        # A judge that is no better than the baseline has learnt nothing from the text.
        guesses = [self._step.guess(biography) for biography in self._biographies]
        baseline_rows, _ = self._count_comparisons(guesses)
        intervals = {}
        for score_name in self._texts["scores"]:
            value = partial(_score_from_counts, score_name)
            intervals[score_name] = interval_or_none(pooled_interval(rows, value, _RESAMPLES))
        return {
            "scores": {"ALL": self._total_scores(rows), "unscored": unscored},
            "intervals": intervals,
            "baselines": {self._texts["baseline"]: self._total_scores(baseline_rows)},
        }

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """Return the hashes of the prompts that the step asks the judge with, by their names."""
        return judge.prompts.hashes(self._texts["prompts"])

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """Return the table of a certificate for the terminal.

        Args:
            certificate: What `measure` returned, with the ``data`` of the trial.
            judge: The name of the judge.

        Returns:
            The names of columns, the rows (one per score, with its interval and that of the
            baseline), and the notes below the table.
        """
        scores = certificate["scores"]["ALL"]
        unscored = certificate["scores"]["unscored"]
        data = certificate["data"]
        ((baseline, baseline_scores),) = certificate["baselines"].items()

        rows = []
        for score_name, ends in certificate["intervals"].items():
            baseline_score = format_number(baseline_scores[score_name])
            rows.append(
                (
                    score_name,
                    format_number(scores[score_name]),
                    format_interval(ends),
                    baseline_score,
                )
            )
        reasons = [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
        notes = [
            f"{data['rows']} of {data['of']} responses; {data['without']} more tell nothing of"
            " this step.",
            f"unscored: {unscored['items']} items, {unscored['responses']} whole responses",
            *reasons,
            "Intervals: 95% bootstrap over names. Labels: the published pipeline's, which saw"
            " whole pages of Wikipedia.",
        ]
        return ("score", f"#{judge}", "#95% interval", f"#{baseline}"), rows, notes

    @property
    def _biographies(self) -> list[JudgedBiography]:
        """The input of every case, in order."""
        return [case.biography for cases in self._cases for case in cases]

    def _count_comparisons(self, results: Iterable[JudgedBiography]) -> StepCounts:
        """Compare the results of every case with the released ones, and count the outcomes.

        Args:
            results: The biographies after the step, in the order of cases.
        """
        remaining_results = iter(results)
        comparisons_by_name: dict[str, list[Outcome]] = defaultdict(list)
        reasons: Counter[str] = Counter()
        unscored_responses = 0
        for cases in self._cases:
            outcomes: list[Outcome] = []
            for case in cases:
                outcomes += self._step.compare(next(remaining_results), case.released)
            reasons.update(outcome for outcome in outcomes if isinstance(outcome, str))
            # A text is a reason and no comparison.
            comparisons = [outcome for outcome in outcomes if not isinstance(outcome, str)]
            if comparisons:
                comparisons_by_name[cases[0].biography.generation.name] += comparisons
            else:
                unscored_responses += 1

        # Responses about one name are drawn together by the bootstrap.
        rows = []
        for comparisons_of_name in comparisons_by_name.values():
            counts = [comparisons_of_name.count(kind) for kind in _COMPARISONS.values()]
            rows.append(counts)
        unscored = {
            "responses": unscored_responses,
            "items": reasons.total(),
            "reasons": dict(reasons.most_common()),
        }
        return StepCounts(rows, unscored)

    def _total_scores(self, rows: Sequence[Sequence[int]]) -> dict[str, float | None]:
        """Add up the counts of all names and compute the scores of the step from the totals.

        Args:
            rows: The counts of each name, in the order tp, fp, fn, tn.

        Returns:
            The four totals (tp, fp, fn, tn) and the scores. None for a score that is not defined.
        """
        totals: list[float] = np.sum(rows, axis=0, dtype=float).tolist()
        scores = scores_from_counts(totals)
        return {
            **dict(zip(_COMPARISONS, totals, strict=True)),
            **{score_name: none_if_nan(scores[score_name]) for score_name in self._texts["scores"]},
        }


def _score_from_counts(score_name: str, counts: Sequence[float]) -> float:
    """Return one score of `scores_from_counts`."""
    return scores_from_counts(counts)[score_name]


def _make_setting(step_name: str) -> CertifiableSetting:
    """Make the setting in which ``lm-factuality certify`` measures a judge in one step."""
    texts = _STEP_TEXTS[step_name]
    return CertifiableSetting(
        f"biographies_{step_name}",
        texts["what"],
        (texts["headline"],),
        texts["label"],
        _BLOBS,
        partial(StepTrial, step_name),
        accepted_options=("files", "rows"),
    )


SETTINGS = {step_name: _make_setting(step_name) for step_name in STEPS}
JUDGED_STEPS = tuple(
    JudgedStep(name, (setting,), _STEP_TEXTS[name]["behind"], _STEP_TEXTS[name].get("measured", {}))
    for name, setting in SETTINGS.items()
)
