"""Certifying a judge on the released decisions of D-FActScore.

Each step is measured by itself on what was released before it. Labels are those of the published
pipeline (GPT-3.5 and ChatGPT with whole pages of Wikipedia), not of people; here the judge sees the
passages that the responses were written from.

Facts are matched one to one with released ones by the content words they share, leaving out
pronouns and the name asked about, which may stand for each other.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

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
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.errors import BackendDownError, ConfigError, DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.harness.generation import JsonObject, Table
from lm_factuality.scores.statistics import interval_or_none, none_if_nan, pooled_interval, ratio

SAME_FACT = 0.7
"""Twice the common content words over those of both, from which two facts are the same."""

_PUBLISHED = SOURCES[:4]  # each generations file before its decisions
_BLOBS = ",".join(source.blob for source in _PUBLISHED)
_ABOUT = load_yaml(__package__, "steps.yaml")
_SEED = 0
_RESAMPLES = 2000


Outcome: TypeAlias = tuple[bool, bool] | str
"""The judge's answer and the released one, or the reason why the judge has none."""

_OUTCOMES = {"tp": (True, True), "fp": (True, False), "fn": (False, True), "tn": (False, False)}


@dataclass(frozen=True)
class Case:
    """What a step is asked about a response, or about a part of it."""

    given: JudgedBiography
    """What the judge is given."""

    released: Sequence[Any]
    """What was released in the place of the judge's answer."""


@dataclass(frozen=True)
class Step:
    """A step of the method. ``steps.yaml`` describes it."""

    cases: Callable[[ReleasedResponse], list[Case]]
    """Returns nothing of a response of which the files do not say enough."""

    judge: Callable[[Judge, Sequence[JudgedBiography]], list[JudgedBiography]]
    guess: Callable[[JudgedBiography], JudgedBiography]
    """Answers in the judge's place without reading."""

    compare: Callable[[JudgedBiography, Sequence[Any]], list[Outcome]]
    """Holds what was judged against what was released."""


def _decomposition_cases(known: ReleasedResponse) -> list[Case]:
    begun = AMBIGBIO.prepare(known.generation)
    released = [fact.atom for fact in known.decided.facts]
    return [Case(begun, released)] if begun.sentences else []


def _each_sentence(judged: JudgedBiography) -> JudgedBiography:
    facts = [Fact(text, number) for number, text in enumerate(judged.sentences)]
    return replace(judged, facts=tuple(facts))


def compare_facts(judged: JudgedBiography, released: Sequence[str]) -> list[Outcome]:
    """Say which facts are in both lists, and which in one of them."""
    if not judged.facts:
        return [judged.problem or "taken for an abstention"]
    facts = [fact.text for fact in judged.facts]
    matched = count_matches(facts, released, judged.generation.name)
    return [
        *[(True, True)] * matched,
        *[(True, False)] * (len(facts) - matched),
        *[(False, True)] * (len(released) - matched),
    ]


def count_matches(facts: Sequence[str], released: Sequence[str], name: str) -> int:
    """Count the facts of both lists that are the same.

    Each is the same as one other at most, so that as many as can be are.
    """
    # It takes long to import, and only certificates need it.
    from scipy.optimize import linear_sum_assignment

    released_words = [_content_words(fact, name) for fact in released]
    is_same = np.zeros((len(facts), len(released)), dtype=bool)
    for row, fact in enumerate(facts):
        content = _content_words(fact, name)
        for column, other in enumerate(released_words):
            shared = ratio(2 * len(content & other), len(content) + len(other))
            is_same[row, column] = shared >= SAME_FACT
    return int(is_same[linear_sum_assignment(is_same, maximize=True)].sum())


def _content_words(fact: str, name: str) -> set[str]:
    of_fact = distinct_words(fact)
    return (of_fact - STOPWORDS - distinct_words(name)) or of_fact


def _grouping_cases(known: ReleasedResponse) -> list[Case]:
    groups = [facts for _, facts in known.groups]
    has_pairs = sum(map(len, groups)) > 1
    return [Case(known.judged, groups)] if known.judged.sentences and has_pairs else []


def _one_group(judged: JudgedBiography) -> JudgedBiography:
    return replace(judged, groups=(tuple(range(len(judged.facts))),))


def compare_groups(judged: JudgedBiography, released: Sequence[Sequence[int]]) -> list[Outcome]:
    """Say of each pair of facts whether they are in one group."""
    if judged.ungrouped is not None:
        return [judged.ungrouped]
    answer = _group_by_fact(judged.groups)
    truth = _group_by_fact(released)
    return [
        (answer[first] == answer[second], truth[first] == truth[second])
        for first, second in combinations(truth, 2)
    ]


def _group_by_fact(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    return {fact: number for number, facts in enumerate(groups) for fact in facts}


def _linking_cases(known: ReleasedResponse) -> list[Case]:
    """Give the facts in groups. With one candidate there is nothing to choose."""
    candidates = known.generation.entities
    facts: list[Fact] = []
    groups = []
    released = []
    for entity, numbers in known.groups:
        if numbers and entity in candidates:
            groups.append(tuple(range(len(facts), len(facts) + len(numbers))))
            facts += [known.judged.facts[number] for number in numbers]
            released.append(entity)
    if len(candidates) < 2 or not released:
        return []
    return [Case(replace(known.judged, facts=tuple(facts), groups=tuple(groups)), released)]


def _link_all(judge: Judge, judged: Sequence[JudgedBiography]) -> list[JudgedBiography]:
    return [AMBIGBIO.link(biography) for biography in AMBIGBIO.verify(judge, judged)]


def _first_retrieved(judged: JudgedBiography) -> JudgedBiography:
    return replace(_all_supported(judged), links=(0,) * len(judged.groups))


def compare_links(judged: JudgedBiography, released: Sequence[str]) -> list[Outcome]:
    """Say of each group whether its entity is the released one.

    A group of whose facts nothing has a verdict is unscored.
    """
    outcomes: list[Outcome] = []
    for entity, group, link in zip(released, judged.groups, judged.links, strict=True):
        cells = [cell for fact in group for cell in judged.matrix[fact]]
        if all(cell.outcome == UNSCORED for cell in cells):
            outcomes.append(cells[0].reason)
        else:
            outcomes.append((link is not None and judged.entities[link] == entity, True))
    return outcomes


def _verification_cases(known: ReleasedResponse) -> list[Case]:
    facts: dict[str, list[Fact]] = defaultdict(list)
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for (number, entity), is_supported in known.verdicts.items():
        facts[entity].append(known.judged.facts[number])
        verdicts[entity].append(is_supported)
    return [
        Case(replace(known.judged, facts=tuple(facts[entity]), entities=(entity,)), of_entity)
        for entity, of_entity in verdicts.items()
    ]


def _all_supported(judged: JudgedBiography) -> JudgedBiography:
    cells = (Judgement(SUPPORTED, 1.0),) * len(judged.entities)
    return replace(judged, matrix=(cells,) * len(judged.facts))


def compare_verdicts(judged: JudgedBiography, released: Sequence[bool]) -> list[Outcome]:
    """Say of each fact whether the page of its entity supports it.

    An irrelevant fact is not a supported one.
    """
    return [
        cell.reason if cell.outcome == UNSCORED else (cell.outcome == SUPPORTED, is_supported)
        for is_supported, (cell,) in zip(released, judged.matrix, strict=True)
    ]


STEPS = {
    "decomposition": Step(_decomposition_cases, AMBIGBIO.decompose, _each_sentence, compare_facts),
    "grouping": Step(_grouping_cases, AMBIGBIO.group, _one_group, compare_groups),
    "linking": Step(_linking_cases, _link_all, _first_retrieved, compare_links),
    "verification": Step(_verification_cases, AMBIGBIO.verify, _all_supported, compare_verdicts),
}


def scores_from_counts(counts: Sequence[float]) -> dict[str, float]:
    """Return all scores of the counts of true and false positives, and false and true negatives.

    NaN stands for what is not defined. Of pairs of facts they are those of Hubert and Arabie
    (1985).
    """
    tp, fp, fn, tn = counts
    recall = ratio(tp, tp + fn)
    return {
        "accuracy": ratio(tp + tn, tp + fp + fn + tn),
        "precision": ratio(tp, tp + fp),
        "recall": recall,
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
        "balanced_accuracy": (recall + ratio(tn, tn + fp)) / 2,
        "facts_per_released": ratio(tp + fp, tp + fn),
    }


class StepTrial:
    """A step on the released responses; the ``Trial`` of a setting."""

    def __init__(self, name: str, wanted: CertifyOptions) -> None:
        """Draw the responses.

        Raises:
            ConfigError: Generations and decisions do not come in turn.
            DataError: A file cannot be used, or none says anything of the step.
        """
        if len(wanted.files) % 2:
            raise ConfigError(
                "--data: expected generations and their decisions in turn, found"
                f" {len(wanted.files)} of them"
            )
        self._about = _ABOUT[name]
        self._step = STEPS[name]
        paths = wanted.files or [locate(source, wanted.data_dir).path for source in _PUBLISHED]
        blobs = ",".join(map(blob_id, paths))
        files = ", ".join(path.name for path in paths)
        responses = []
        for generations, decisions in zip(paths[::2], paths[1::2], strict=True):
            texts = read_generations([generations])
            for decided, text in match_texts(read_decisions(decisions).responses, texts):
                responses.append(self._step.cases(ReleasedResponse(text, decided)))
        usable = [cases for cases in responses if cases]
        if not usable:
            raise DataError(f"{files}: {len(responses)} responses, of which none tells of {name}")
        count = min(wanted.rows or len(usable), len(usable))
        self._responses = random.Random(_SEED).sample(usable, count)
        self.data = {
            "file": files,
            "git_blob": blobs,
            "is_published": blobs == _BLOBS,
            "rows": count,
            "of": len(usable),
            "seed": _SEED,
            "without": len(responses) - len(usable),
        }

    def ask(self, judge: Judge) -> list[JudgedBiography]:
        return self._step.judge(judge, self._given)

    def measure(self, judge: Judge) -> JsonObject:
        rows, unscored = self._count(self.ask(judge))
        if not rows:
            raise BackendDownError(
                f"judge {judge.name}: no verdict on any of {unscored['responses']} responses:"
                f" {', '.join(unscored['reasons'])}; there is nothing to certify"
            )
        guesses, _ = self._count(map(self._step.guess, self._given))
        intervals = {}
        for name in self._about["scores"]:
            value = partial(_score_called, name)
            intervals[name] = interval_or_none(pooled_interval(rows, value, _RESAMPLES))
        return {
            "scores": {"ALL": self._scores(rows), "unscored": unscored},
            "intervals": intervals,
            "baselines": {self._about["baseline"]: self._scores(guesses)},
        }

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        return judge.prompts.hashes(self._about["prompts"])

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        scores = certificate["scores"]["ALL"]
        unscored = certificate["scores"]["unscored"]
        data = certificate["data"]
        ((baseline, guessed),) = certificate["baselines"].items()
        rows = []
        for name, ends in certificate["intervals"].items():
            rows.append((name, shown(scores[name]), interval(ends), shown(guessed[name])))
        notes = [
            f"{data['rows']} of {data['of']} responses; {data['without']} more tell nothing of"
            " this step.",
            f"unscored: {unscored['items']} items, {unscored['responses']} whole responses",
            *(f"  {count} x {reason}" for reason, count in unscored["reasons"].items()),
            "Intervals: 95% bootstrap over names. Labels: the published pipeline's, which saw"
            " whole pages of Wikipedia.",
        ]
        return ("score", f"#{judge}", "#95% interval", f"#{baseline}"), rows, notes

    @property
    def _given(self) -> list[JudgedBiography]:
        return [case.given for cases in self._responses for case in cases]

    def _count(self, answers: Iterable[JudgedBiography]) -> tuple[list[list[int]], JsonObject]:
        """Return the counts of each name, in the order of ``_OUTCOMES``, and what is unscored."""
        answer = iter(answers)
        by_name: dict[str, list[Outcome]] = defaultdict(list)
        reasons: Counter[str] = Counter()
        without_verdict = 0
        for cases in self._responses:
            outcomes: list[Outcome] = []
            for case in cases:
                outcomes += self._step.compare(next(answer), case.released)
            reasons.update(outcome for outcome in outcomes if isinstance(outcome, str))
            scored = [outcome for outcome in outcomes if not isinstance(outcome, str)]
            without_verdict += not scored
            if scored:
                by_name[cases[0].given.generation.name] += scored
        rows = [
            [of_name.count(kind) for kind in _OUTCOMES.values()] for of_name in by_name.values()
        ]
        unscored = {
            "responses": without_verdict,
            "items": reasons.total(),
            "reasons": dict(reasons.most_common()),
        }
        return rows, unscored

    def _scores(self, rows: Sequence[Sequence[int]]) -> dict[str, float | None]:
        totals: list[float] = np.sum(rows, axis=0, dtype=float).tolist()
        scores = scores_from_counts(totals)
        return {
            **dict(zip(_OUTCOMES, totals, strict=True)),
            **{name: none_if_nan(scores[name]) for name in self._about["scores"]},
        }


def _score_called(name: str, counts: Sequence[float]) -> float:
    return scores_from_counts(counts)[name]


def _setting(name: str) -> CertifiableSetting:
    about = _ABOUT[name]
    return CertifiableSetting(
        f"biographies_{name}",
        about["what"],
        (about["headline"],),
        about["label"],
        _BLOBS,
        partial(StepTrial, name),
        accepted_options=("files", "rows"),
    )


SETTINGS = {name: _setting(name) for name in STEPS}
JUDGED_STEPS = tuple(
    JudgedStep(name, (setting,), _ABOUT[name]["behind"], _ABOUT[name].get("measured", {}))
    for name, setting in SETTINGS.items()
)
