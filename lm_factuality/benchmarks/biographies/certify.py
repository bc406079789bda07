"""Certifying a judge on the released decisions of D-FActScore.

Each step is measured by itself on what was released before it. Labels are those of the published
pipeline (GPT-3.5 and ChatGPT with whole pages of Wikipedia), not of people; here the judge sees the
passages that the responses were written from.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from judges.judge import Judge
from lm_factuality.benchmarks.biographies import tally
from lm_factuality.benchmarks.biographies.decisions import Known, match, read_decisions
from lm_factuality.benchmarks.biographies.generations import SOURCES, read_generations
from lm_factuality.benchmarks.biographies.method import (
    PAPER,
    begin,
    decompose_all,
    group_all,
    link_entities,
    verify_all,
)
from lm_factuality.benchmarks.biographies.tally import Tally
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, Judgement
from lm_factuality.benchmarks.certifiable import Certifiable, JudgedStep, Wanted
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.errors import BackendDown, ConfigError, DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.harness.generation import Table
from lm_factuality.scores.statistics import defined, interval_of, pooled_interval, ratio

_PUBLISHED = SOURCES[:4]  # each generations file before its decisions
_BLOBS = ",".join(source.blob for source in _PUBLISHED)
_ABOUT = load_yaml(__package__, "steps.yaml")
_SEED = 0
_RESAMPLES = 2000
_SUPPORTED = Judgement("supported", 1.0)

Parts = list[JudgedBiography]


@dataclass(frozen=True)
class Step:
    """A step of the method."""

    counts: Sequence[str]
    """The names of what is counted."""

    score: Callable[[Sequence[float]], dict[str, float]]
    """Makes the scores of counts. NaN stands for what is not defined."""

    task: Callable[[Known], Parts]
    """What the judge is given of a response; nothing if the files say nothing of it."""

    judge: Callable[[Judge, Parts], Parts]
    count: Callable[[Known, Parts], Tally]
    """Holds what comes back against the decisions."""

    baseline: str
    """Somebody who does not read."""

    guess: Callable[[JudgedBiography], JudgedBiography]
    """What comes back from the baseline."""


def _start(known: Known) -> Parts:
    return [begin(known.generation)] if known.judged.sentences else []


def _each_sentence(judged: JudgedBiography) -> JudgedBiography:
    facts = [Fact(text, number) for number, text in enumerate(judged.sentences)]
    return replace(judged, facts=tuple(facts))


def _to_group(known: Known) -> Parts:
    has_pairs = sum(len(facts) for _, facts in known.groups) > 1
    return [known.judged] if known.judged.sentences and has_pairs else []


def _one_group(judged: JudgedBiography) -> JudgedBiography:
    return replace(judged, groups=(tuple(range(len(judged.facts))),))


def _to_link(known: Known) -> Parts:
    """Give the facts in groups. With one candidate there is nothing to choose."""
    released = tally.linkable(known)
    if len(known.generation.entities) < 2 or not released:
        return []
    facts: list[Fact] = []
    groups = []
    for _, numbers in released:
        groups.append(tuple(range(len(facts), len(facts) + len(numbers))))
        facts += [known.judged.facts[number] for number in numbers]
    return [replace(known.judged, facts=tuple(facts), groups=tuple(groups))]


def _link_all(judge: Judge, parts: Parts) -> Parts:
    return [link_entities(judged, PAPER) for judged in verify_all(judge, parts)]


def _first_retrieved(judged: JudgedBiography) -> JudgedBiography:
    return replace(_all_supported(judged), links=(0,) * len(judged.groups))


def _to_verify(known: Known) -> Parts:
    facts: dict[str, list[Fact]] = defaultdict(list)
    for number, entity in known.verdicts:
        facts[entity].append(known.judged.facts[number])
    return [
        replace(known.judged, facts=tuple(of_entity), entities=(entity,))
        for entity, of_entity in facts.items()
    ]


def _all_supported(judged: JudgedBiography) -> JudgedBiography:
    cells = (_SUPPORTED,) * len(judged.entities)
    return replace(judged, matrix=(cells,) * len(judged.facts))


STEPS = {
    "decomposition": Step(
        ("matched", "facts", "released", "fragments"),
        tally.score_decomposition,
        _start,
        decompose_all,
        tally.count_decomposition,
        "each sentence",
        _each_sentence,
    ),
    "grouping": Step(
        (*tally.TABLE, "responses", "exact", "rand"),
        tally.score_grouping,
        _to_group,
        group_all,
        tally.count_grouping,
        "one group",
        _one_group,
    ),
    "linking": Step(
        ("right", "groups"),
        lambda counts: {"accuracy": ratio(*counts)},
        _to_link,
        _link_all,
        tally.count_linking,
        "first retrieved",
        _first_retrieved,
    ),
    "verification": Step(
        tally.TABLE,
        tally.score_verification,
        _to_verify,
        verify_all,
        tally.count_verification,
        "all supported",
        _all_supported,
    ),
}


class StepTrial:
    """A step on the released responses; the ``Trial`` of a setting."""

    def __init__(self, name: str, wanted: Wanted) -> None:
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
        self._name = name
        self._step = STEPS[name]
        paths = wanted.files or [locate(source, wanted.data_dir).path for source in _PUBLISHED]
        blobs = ",".join(map(blob_id, paths))
        files = ", ".join(path.name for path in paths)
        usable = []
        unusable = 0
        for generations, decisions in zip(paths[::2], paths[1::2], strict=True):
            texts = read_generations([generations])
            for response, text in match(read_decisions(decisions).responses, texts):
                known = Known(text, response)
                task = self._step.task(known)
                if task:
                    usable.append((known, task))
                else:
                    unusable += 1
        if not usable:
            raise DataError(f"{files}: {unusable} responses, of which none tells of {name}")
        count = min(wanted.rows or len(usable), len(usable))
        self._cases = random.Random(_SEED).sample(usable, count)
        self.data = {
            "file": files,
            "git_blob": blobs,
            "is_published": blobs == _BLOBS,
            "rows": count,
            "of": len(usable),
            "seed": _SEED,
            "without": unusable,
        }

    def ask(self, judge: Judge) -> Parts:
        return self._step.judge(judge, [part for _, task in self._cases for part in task])

    def measure(self, judge: Judge) -> dict[str, Any]:
        tallies = self._tallies(self.ask(judge))
        by_name: dict[str, list[Sequence[float]]] = defaultdict(list)
        reasons = []
        for (known, _), of_response in zip(self._cases, tallies, strict=True):
            reasons += of_response.unscored
            if of_response.counts:
                by_name[known.generation.name].append(of_response.counts)
        rows = [list(self._totals(counts).values()) for counts in by_name.values()]
        if not rows:
            raise BackendDown(
                f"judge {judge.name}: no verdict on any of {len(tallies)} responses, the first:"
                f" {reasons[0]}; there is nothing to certify"
            )
        guesses = [self._step.guess(part) for _, task in self._cases for part in task]
        scores = self._scores(tallies)
        intervals = {}
        for name in scores:
            if name not in self._step.counts:
                value = partial(_score_of, self._step, name)
                intervals[name] = interval_of(pooled_interval(rows, value, _RESAMPLES))
        unscored = {
            "responses": len(tallies) - sum(map(len, by_name.values())),
            "items": len(reasons),
            "reasons": dict(Counter(reasons).most_common()),
        }
        return {
            "scores": {"ALL": scores, "unscored": unscored},
            "intervals": intervals,
            "baselines": {self._step.baseline: self._scores(self._tallies(guesses))},
        }

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        return judge.prompts.hashes(_ABOUT[self._name]["prompts"])

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        scores = certificate["scores"]["ALL"]
        unscored = certificate["scores"]["unscored"]
        data = certificate["data"]
        baseline = certificate["baselines"][self._step.baseline]
        rows = []
        for name, ends in certificate["intervals"].items():
            rows.append((name, shown(scores[name]), interval(ends), shown(baseline[name])))
        counts = ", ".join(f"{name} {scores[name]:g}" for name in self._step.counts)
        notes = [
            f"{data['rows']} of {data['of']} responses; {data['without']} more tell nothing of"
            f" this step. Counts: {counts}.",
            f"unscored: {unscored['items']} items, {unscored['responses']} whole responses",
            *(f"  {count} x {reason}" for reason, count in unscored["reasons"].items()),
            "Intervals: 95% bootstrap over names. Labels: the published pipeline's, which saw"
            " whole pages of Wikipedia.",
        ]
        return ("score", f"#{judge}", "#95% interval", f"#{self._step.baseline}"), rows, notes

    def _tallies(self, parts: Parts) -> list[Tally]:
        waiting = iter(parts)
        return [
            self._step.count(known, [next(waiting) for _ in task]) for known, task in self._cases
        ]

    def _scores(self, tallies: Sequence[Tally]) -> dict[str, float | None]:
        totals = self._totals([each.counts for each in tallies if each.counts])
        scores = self._step.score(list(totals.values()))
        return {**totals, **{name: defined(value) for name, value in scores.items()}}

    def _totals(self, rows: Sequence[Sequence[float]]) -> dict[str, float]:
        return dict(zip(self._step.counts, np.sum(rows, axis=0, dtype=float).tolist(), strict=True))


def _score_of(step: Step, name: str, counts: Sequence[float]) -> float:
    return step.score(counts)[name]


def _setting(name: str) -> Certifiable:
    about = _ABOUT[name]
    return Certifiable(
        name=f"biographies_{name}",
        what=about["what"],
        headline=(about["headline"],),
        label=about["label"],
        blob=_BLOBS,
        open=partial(StepTrial, name),
        takes=("files", "rows"),
    )


SETTINGS = {name: _setting(name) for name in STEPS}
JUDGED_STEPS = tuple(
    JudgedStep(name, (setting,), _ABOUT[name]["behind"], _ABOUT[name].get("measured", {}))
    for name, setting in SETTINGS.items()
)
