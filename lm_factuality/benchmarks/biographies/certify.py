"""Certifying a judge on the released decisions of D-FActScore, each step by itself on what was
released before it. Labels are those of the published pipeline (GPT-3.5 and ChatGPT with whole pages
of Wikipedia), not of people; here the judge sees the passages that the responses were written
from."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

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
from lm_factuality.benchmarks.biographies.tally import Measure, Tally
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography, Judgement
from lm_factuality.benchmarks.certifiable import Certifiable, JudgedStep, Wanted
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.errors import BackendDown, ConfigError, DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.harness.generation import Table
from lm_factuality.scores.statistics import interval_of, pooled_interval

_PUBLISHED = SOURCES[:4]  # each generations file before its decisions
_SEED = 0
_RESAMPLES = 2000
_SUPPORTED = Judgement("supported", 1.0)

Parts = list[JudgedBiography]


@dataclass(frozen=True)
class Step:
    """A step: ``given`` is what the judge is handed of a response (nothing if the files say nothing
    of it), ``judge`` asks it, ``count`` holds what comes back against the decisions; ``baselines``
    are what comes back from those who do not read."""

    measure: Measure
    given: Callable[[Known], Parts]
    judge: Callable[[Judge, Parts], Parts]
    count: Callable[[Known, Parts], Tally]
    baselines: Mapping[str, Callable[[Known, Parts], Parts]]


class StepTrial:
    """A step on the released responses; the ``Trial`` of a setting."""

    def __init__(self, name: str, wanted: Wanted) -> None:
        """Raises ConfigError, DataError: files that cannot be used, or that say nothing of the
        step."""
        step = STEPS[name]
        if len(wanted.files) % 2:
            raise ConfigError(
                "--data: expected generations and their decisions in turn, found"
                f" {len(wanted.files)} of them"
            )
        paths = wanted.files or tuple(locate(source, wanted.data_dir).path for source in _PUBLISHED)
        blobs, files = ",".join(map(blob_id, paths)), ", ".join(path.name for path in paths)
        pairs = zip(paths[::2], paths[1::2], strict=True)
        found = [
            each
            for one, other in pairs
            for each in match(read_decisions(other).responses, read_generations([one]))
        ]
        usable = [
            (known, given)
            for response, text in found
            if (given := step.given(known := Known(text, response)))
        ]
        if not usable:
            raise DataError(f"{files}: {len(found)} responses, of which none tells of {name}")
        drawn = random.Random(_SEED).sample(usable, min(wanted.rows or len(usable), len(usable)))
        counts = {
            "rows": len(drawn),
            "of": len(usable),
            "seed": _SEED,
            "without": len(found) - len(usable),
        }
        self.data = {"file": files, "git_blob": blobs, "is_published": blobs == _BLOBS, **counts}
        self._name, self._step, self._cases = name, step, drawn

    def ask(self, judge: Judge) -> Parts:
        return self._step.judge(judge, [part for _, given in self._cases for part in given])

    def measure(self, judge: Judge) -> dict[str, Any]:
        found, measure = self._tallies(self.ask(judge)), self._step.measure
        reasons, counted = (
            [reason for each in found for reason in each.unscored],
            [each for each in found if each.counts],
        )
        by_name: dict[str, list[Tally]] = defaultdict(list)
        for (known, _), each in zip(self._cases, found, strict=True):
            by_name[known.generation.name] += [each] if each.counts else []
        if not counted:
            raise BackendDown(
                f"judge {judge.name}: no verdict on any of {len(found)} responses, the first:"
                f" {reasons[0]}; there is nothing to certify"
            )
        rows = [list(measure.total(each).values()) for each in by_name.values() if each]
        others = {
            name: self._tallies(
                [part for known, given in self._cases for part in make(known, given)]
            )
            for name, make in self._step.baselines.items()
        }
        lost = {
            "responses": len(found) - len(counted),
            "items": len(reasons),
            "reasons": dict(Counter(reasons).most_common()),
        }
        return {
            "scores": {"ALL": measure.to_scores(measure.total(counted)), "unscored": lost},
            "intervals": {
                name: interval_of(
                    pooled_interval(rows, partial(measure.value, name), resamples=_RESAMPLES)
                )
                for name in measure.scores
            },
            "baselines": {
                name: measure.to_scores(measure.total(each)) for name, each in others.items()
            },
        }

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        return judge.prompts.hashes(_ABOUT[self._name]["prompts"])

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        scores, unscored, data = (
            certificate["scores"]["ALL"],
            certificate["scores"]["unscored"],
            certificate["data"],
        )
        others, ends = certificate["baselines"], certificate["intervals"]
        rows = [
            (
                name,
                shown(scores[name]),
                interval(ends[name]),
                *(shown(each[name]) for each in others.values()),
            )
            for name in self._step.measure.scores
        ]
        counts = ", ".join(f"{name} {scores[name]:g}" for name in self._step.measure.counts)
        notes = [
            (
                f"{data['rows']} of {data['of']} responses; {data['without']} more tell nothing of"
                f" this step. Counts: {counts}."
            ),
            f"unscored: {unscored['items']} items, {unscored['responses']} whole responses",
            *(f"  {count} x {reason}" for reason, count in unscored["reasons"].items()),
            (
                "Intervals: 95% bootstrap over names. Labels: the published pipeline's, which saw"
                " whole pages of Wikipedia."
            ),
        ]
        return (
            ("score", f"#{judge}", "#95% interval", *(f"#{name}" for name in others)),
            rows,
            notes,
        )

    def _tallies(self, parts: Parts) -> list[Tally]:
        left = iter(parts)
        return [
            self._step.count(known, [next(left) for _ in given]) for known, given in self._cases
        ]


def _to_link(known: Known) -> Parts:
    """The facts in groups; with one candidate there is nothing to choose."""
    groups = tally.linkable(known)
    if len(known.generation.entities) < 2 or not groups:
        return []
    facts = tuple(known.judged.facts[fact] for _, numbers in groups for fact in numbers)
    ends = [sum(len(numbers) for _, numbers in groups[: place + 1]) for place in range(len(groups))]
    own = tuple(tuple(range(start, end)) for start, end in zip([0, *ends], ends, strict=False))
    return [replace(known.judged, facts=facts, groups=own)]


def _to_verify(known: Known) -> Parts:
    facts: dict[str, list[Fact]] = defaultdict(list)
    for number, entity in known.verdicts:
        facts[entity].append(known.judged.facts[number])
    return [
        replace(known.judged, facts=tuple(each), entities=(entity,))
        for entity, each in facts.items()
    ]


def _first_retrieved(known: Known, given: Parts) -> Parts:
    (each,) = given
    cells = tuple((_SUPPORTED,) * len(each.entities) for _ in each.facts)
    return [replace(each, matrix=cells, links=(0,) * len(each.groups))]


STEPS = {
    "decomposition": Step(
        tally.DECOMPOSITION,
        lambda known: [begin(known.generation)] if known.judged.sentences else [],
        decompose_all,
        tally.decomposed,
        {
            "each sentence": lambda known, parts: [
                replace(
                    each,
                    facts=tuple(Fact(text, number) for number, text in enumerate(each.sentences)),
                )
                for each in parts
            ]
        },
    ),
    "grouping": Step(
        tally.GROUPING,
        lambda known: (
            [known.judged]
            * (bool(known.judged.sentences) and sum(len(facts) for _, facts in known.groups) > 1)
        ),
        group_all,
        tally.grouped,
        {
            "one group": lambda known, parts: [
                replace(each, groups=(tuple(range(len(each.facts))),)) for each in parts
            ]
        },
    ),
    "linking": Step(
        tally.LINKING,
        _to_link,
        lambda judge, parts: [link_entities(each, PAPER) for each in verify_all(judge, parts)],
        tally.linked,
        {"first retrieved": _first_retrieved},
    ),
    "verification": Step(
        tally.VERIFICATION,
        _to_verify,
        verify_all,
        tally.verified,
        {
            "all supported": lambda known, parts: [
                replace(each, matrix=((_SUPPORTED,),) * len(each.facts)) for each in parts
            ]
        },
    ),
}
_ABOUT = load_yaml(__package__, "steps.yaml")
_BLOBS = ",".join(source.blob for source in _PUBLISHED)


def _setting(name: str) -> Certifiable:
    about = _ABOUT[name]
    return Certifiable(
        f"biographies_{name}",
        about["what"],
        (about["headline"],),
        about["label"],
        _BLOBS,
        partial(StepTrial, name),
        takes=("files", "rows"),
    )


SETTINGS = {name: _setting(name) for name in STEPS}
JUDGED_STEPS = tuple(
    JudgedStep(name, (setting,), _ABOUT[name]["behind"], _ABOUT[name].get("measured", {}))
    for name, setting in SETTINGS.items()
)
