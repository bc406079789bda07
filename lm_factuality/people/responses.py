"""Does a judge see in a response what people see (tables 3 and 5 of Chiang and Lee, 2024)?"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from scipy.stats import kendalltau, pearsonr

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.asked import Measured
from lm_factuality.benchmarks.declaration import Score
from lm_factuality.benchmarks.rows import Counts
from lm_factuality.ground.errors import DataError, refuse
from lm_factuality.ground.files import sha256_of
from lm_factuality.people.agreement import Cell, count
from lm_factuality.people.correct import rows_of
from lm_factuality.people.labels import Key, Labels
from lm_factuality.results.read import read_results_files
from lm_factuality.scores.agreement import Measure
from lm_factuality.scores.statistics import average, defined

OVERALL = "Overall"
Both: TypeAlias = tuple[Measured, Measured]
"""A response as people measured it, and as the judge did."""


def read_both(paths: Sequence[Path], key: Key, labels: Labels) -> list[Both]:
    """What responses of the sheet's runs score, where people decide that. Raises DataError:
    ``paths`` lack samples of it."""
    found = []
    wanted = {(source.task, source.samples_sha256): source.model for source in key.sources}
    for file in read_results_files(paths):
        for task in file.tasks:
            sha256, benchmark = (
                sha256_of(task.samples) if task.samples else "",
                find_benchmark(task.kind),
            )
            if model := wanted.pop((task.task, sha256), None):
                for row in rows_of(benchmark, task, key, labels)[0] if benchmark else ():
                    if row.people is not None and row.is_asked:
                        found.append((_measured(model, row.people), _measured(model, row.judged)))
    if wanted:
        left = ", ".join(
            f"{task or 'a data file'} (SHA-256 {sha256[:12]})" for task, sha256 in wanted
        )
        raise DataError(
            f"{', '.join(map(str, paths))}: without the samples of the sheet's {left}; give these"
            " runs' results"
        )
    return found


def _measured(model: str, parts: Mapping[str, Counts]) -> Measured:
    return Measured(
        model,
        "",
        "",
        {name: part[0] / part[1] for name, part in parts.items() if len(part) == 2 and part[1]},
    )


def match(
    people: Sequence[Measured], judge: Sequence[Measured]
) -> tuple[list[Both], tuple[int, int]]:
    """Both sides by model and index, or by model and name where one side has no indexes, with the
    mean of several people; and how many responses only people, or only the judge, measured. Raises
    DataError: a model that only people have measured, two results of one response, nothing in
    common, or an index that is one name's for people and another's in the results."""
    by_index = all(each.index for each in (*people, *judge))
    theirs, ours = _keyed(people, by_index), _keyed(judge, by_index)
    models, known = (list(dict.fromkeys(each.model for each in side)) for side in (people, judge))
    if unknown := [model for model in models if model not in known]:
        found = (
            f"no results of {', '.join(map(repr, unknown))}, only of {', '.join(map(repr, known))}"
        )
        raise DataError(
            f"{found}; name the model of a results file as people call it: --auto MODEL=FILE"
        )
    matched = [key for key in theirs if key in ours]
    if not matched:
        one, other = " ".join(map(repr, next(iter(theirs)))), " ".join(map(repr, next(iter(ours))))
        raise DataError(
            f"people and results have no response in common: people measured {one}, the results"
            f" have {other}"
        )
    what, both, problems = "index" if by_index else "name", [], []
    for key in matched:
        if len(ours[key]) > 1:
            problems.append(
                f"{len(ours[key])} results of {key[0]}, {what} {key[1]!r}; give one run per model"
            )
        if (
            len(names := sorted({each.name for each in (*theirs[key], *ours[key]) if each.name}))
            > 1
        ):
            problems.append(
                f"{key[0]}, {what} {key[1]!r}: {' and '.join(map(repr, names))}; give the judged"
                " responses' indexes"
            )
        values = {
            name: average(each.values.get(name) for each in theirs[key])
            for name in theirs[key][0].values
        }
        both.append((Measured(*key, "", values), ours[key][0]))
    refuse(problems, "rows")
    return both, (len(theirs) - len(matched), sum(key[0] in models for key in ours) - len(matched))


def _keyed(measured: Sequence[Measured], by_index: bool) -> dict[tuple[str, str], list[Measured]]:
    """By model and index, or by model and name, of which other spaces, case and ways to write
    accents do not matter."""
    found: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for each in measured:
        name = " ".join(unicodedata.normalize("NFC", each.name).casefold().split())
        if not (each.index if by_index else name):
            raise DataError(
                f"a response of {each.model} has no name, and the other side no indexes: add one or"
                " the other"
            )
        found[each.model, each.index if by_index else name].append(replace(each, name=name))
    return found


def responses_of(both: Sequence[Both], scores: Sequence[Score]) -> Iterator[Cell]:
    """The ``means`` of people and judge by model, over the responses for which both have a value;
    ``correlations`` of responses, by model and all together; and ``ranks``: Kendall's tau-b of the
    models' means."""
    models = list(dict.fromkeys(each.model for each, _ in both))
    for row in ((model, side) for model in models for side in ("people", "judge")):
        yield count("means", row, "responses", sum(each.model == row[0] for each, _ in both))
    for score in scores:
        pairs = {model: _pairs(both, score.name, (model,)) for model in models}
        sides = {
            model: list(zip(*values, strict=True)) for model, values in pairs.items() if values
        }
        if not sides:
            continue  # nobody measured it
        for model, each in sides.items():
            for side, values in zip(("people", "judge"), each, strict=True):
                measure = Measure(average(values), None, None, len(values))
                yield Cell(
                    "means", (model, side), score.label, measure, int(score.times), score.digits
                )
        for name, found in {**pairs, OVERALL: _pairs(both, score.name, models)}.items():
            yield Cell("correlations", (name,), score.label, correlate(found), 1, 3)
        means = [[average(side) for side in each] for each in sides.values()]
        tau = (
            float(kendalltau(*zip(*means, strict=True), variant="b").statistic)
            if len(means) > 1
            else math.nan
        )
        yield Cell("ranks", (), score.label, Measure(defined(tau), None, None, len(means)), 1, 2)


def _pairs(both: Sequence[Both], name: str, models: Sequence[str]) -> list[tuple[float, float]]:
    values = (
        (one.values.get(name), other.values.get(name)) for one, other in both if one.model in models
    )
    return [(one, other) for one, other in values if one is not None and other is not None]


def correlate(values: Sequence[tuple[float, float]]) -> Measure:
    """Pearson's r with its interval (Fisher's z); None below three responses (four), or where one
    side always says the same."""
    if len(values) < 3 or any(len(set(side)) == 1 for side in zip(*values, strict=True)):
        return Measure(None, None, None, len(values))
    found = pearsonr(*zip(*values, strict=True))
    low, high = map(float, found.confidence_interval()) if len(values) > 3 else (None, None)
    return Measure(float(found.statistic), low, high, len(values))
