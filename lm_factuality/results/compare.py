"""Results beside each other and beside published figures, a table a benchmark; and how sure
differences of models are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from lm_factuality.benchmarks import all_benchmarks, find_benchmark
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.benchmarks.chosen import Figure, figure, headline, newest
from lm_factuality.benchmarks.declaration import Benchmark, Published, Run, Score, Table
from lm_factuality.benchmarks.pairs import (
    compare_all,
    compared_scores,
    row_of,
    scored_rows,
    written,
)
from lm_factuality.ground.errors import ConfigError, did_you_mean
from lm_factuality.ground.model_names import short_name
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.suite import read_config
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.harness.samples import samples_of
from lm_factuality.results.read import read_results_files

_MOST_MODELS = 3  # of which tables have all scores, not only the headline
_ALPHA = 0.05
_PAIRS = load_yaml(__package__, "compare.yaml")


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Every task of a declared benchmark in lm_eval's results files, and what is left out and why;
    a folder stands for all ``results_*.json`` below it. Raises DataError: a path without results,
    or a file or samples that lm_eval did not write."""
    found, left_out = [], dict[str, None]()
    for file in read_results_files(paths):
        for task in file.tasks:
            if (benchmark := find_benchmark(task.kind)) is None:
                left_out[
                    f"Left out: {task.task} is not a task of the suite, so its scores to compare"
                    " are not known"
                ] = None
            else:
                found.append((benchmark, Run(file, task, tuple(notes_of(benchmark, file, task)))))
    kept = {id(run) for run in newest(run for _, run in found)[0]}
    runs = []
    for benchmark, run in tqdm(found, "reading samples", unit=" runs", delay=2):
        if id(run) in kept and (shown := benchmark.page.samples):
            run = replace(
                run,
                scored=scored_rows(row_of(run.task, shown, each) for each in samples_of(run.task)),
            )
        runs.append(run)
    return runs, list(left_out)


def read_published(path: Path) -> list[Published]:
    """The figures of a YAML with a list ``figures``; an entry gives its value as ``percent`` or, of
    a perplexity, ``value``, or the values of several metrics as ``scores``. Raises ConfigError: no
    such file, or an entry that is not a figure."""
    loaded = read_config(path)
    if not isinstance(loaded, dict) or not isinstance(loaded.get("figures"), list):
        raise ConfigError(
            f"{path}: no list 'figures'; expected a file such as"
            " configs/reproduce/factor_figures.yaml"
        )
    figures = []
    for number, entry in enumerate(loaded["figures"], start=1):
        try:
            rest = {
                key: value
                for key, value in entry.items()
                if key not in ("percent", "value", "scores", "metric")
            }
            ((key, value),) = (
                (key, entry[key]) for key in ("percent", "value", "scores") if key in entry
            )
            scores = value if key == "scores" else {entry["metric"]: value}
            figures += [
                Published(**rest, metric=metric, value=float(each))
                for metric, each in scores.items()
            ]
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            expected = (
                "expected model, task, metric, percent (or value; or scores for metric and"
                " percent), where"
            )
            more = "and protocol and decoding, if other than the benchmark's own"
            raise ConfigError(f"{path}: figure {number}: {error}; {expected}; {more}") from error
    return figures


def tables(
    runs: Sequence[Run],
    figures: Sequence[Published],
    source: str,
    scores: Sequence[str] | None = None,
) -> Iterable[Table]:
    """For each benchmark its headline scores beside the published ones, the differences of its
    pairs of models, then what it compares besides; ``source`` is where the published figures were
    read, ``scores`` are those to compare pairs by (see ``pair_tables``). Raises ConfigError: no run
    has one of ``scores``."""
    if scores:
        _check_scores(scores, runs)
    has_pairs = False
    for benchmark in all_benchmarks():
        of_kind = [run for run in runs if run.task.kind == benchmark.kind]
        if benchmark.comparing.shown_beside is None:
            table = _headline_table(benchmark, of_kind, figures)
            if table.rows:
                yield table
        for table in pair_tables(benchmark, newest(of_kind)[0], scores):
            has_pairs = has_pairs or bool(table.rows)
            yield table
        if benchmark.comparing.comparison is not None:
            yield from benchmark.comparing.comparison.tables(runs, figures, source)
    if others := _other_rows(runs, figures):
        yield Table(
            "Other published scores",
            ("task", "model", "score", "#measured", "#published", "#diff", "where"),
            others,
        )
    if has_pairs:
        yield Table("", (), (), _PAIRS["how"])


def _check_scores(scores: Sequence[str], runs: Sequence[Run]) -> None:
    kinds = {run.task.kind: find_benchmark(run.task.kind) for run in runs}
    able = [(kinds[run.task.kind], sorted(run.scored)) for run in runs]
    known = sorted(
        {
            score.name
            for benchmark, names in able
            if benchmark
            for score in compared_scores(benchmark, names)
        }
    )
    for name in scores:
        if name not in known:
            raise ConfigError(
                f"--scores: no rows have a score {name!r}{did_you_mean(name, known)}; known:"
                f" {', '.join(known)}"
            )


def draw(
    runs: Sequence[Run], figures: Sequence[Published], folder: Path, file_format: str
) -> tuple[list[Path], list[str]]:
    """The plots of all benchmarks: files, and notes on what is in none. Raises DataError:
    ``folder`` cannot be written to."""
    written, notes = [], []
    for benchmark in all_benchmarks():
        if benchmark.comparing.comparison is not None:
            files, more = benchmark.comparing.comparison.draw(runs, figures, folder, file_format)
            written += files
            notes += more
    return written, notes


def _headline_table(
    benchmark: Benchmark, runs: Sequence[Run], figures: Sequence[Published]
) -> Table:
    score = benchmark.score(benchmark.scoring.headlines[0])
    assert score is not None
    rows: list[tuple[str, ...]] = []
    notes: dict[str, list[str]] = {}
    used = set()
    for run in sorted(runs, key=lambda run: (run.task.task, run.label, run.file.date)):
        found, published = figure(run.task, score.name), _match(run, score.name, figures)
        used.add(published)
        gap = (
            ""
            if published is None or found is None
            else f"{score.times * found.value - published.value:+.{score.digits}f}"
        )
        shown = "" if published is None else f"{published.value:.{score.digits}f}"
        *cells, how = _shown(found, score)
        unscored = int(number_of(run.task.metrics.get("unscored")) or 0)
        counts = str(run.task.effective), str(unscored)
        rows.append((run.task.task, run.label, *cells, shown, gap, *counts))
        counted = (
            benchmark.scoring.unit
            if benchmark.scoring.unscored_unit == "rows"
            else benchmark.scoring.unscored_unit
        )
        lost = f"{unscored} {counted} unscored{_bounds(benchmark, run.task)}" if unscored else ""
        source = f"published figure from {published.where}" if published else ""
        for note in filter(None, (how, *run.notes, lost, source)):
            notes.setdefault(note, []).append(f"{run.task.task}, {run.label}")
    for each in figures:
        if each not in used and each.metric == score.name:
            rows.append(
                (each.task, each.label, "", "", "", f"{each.value:.{score.digits}f}", "", "", "")
            )
    numbers = (
        score.name,
        "95% interval",
        "corrected",
        "published",
        "diff",
        benchmark.scoring.unit,
        "unscored",
    )
    columns = ("task", "model", *(f"#{name}" for name in numbers))
    kept = [
        place
        for place, name in enumerate(columns)
        if name != "#corrected" or any(row[place] for row in rows)
    ]
    unit = " in percent" if score.unit == "%" and score.times == 100 else ""
    label = (
        score.label
        if score.label[1:2].isupper() or not score.label.replace(" ", "").isalpha()
        else score.label.lower()
    )
    said = [f"{'; '.join(which)}: {note}" for note, which in notes.items()]
    head, *body = ([row[place] for place in kept] for row in (columns, *rows))
    return Table(f"{benchmark.title} {label}{unit}", head, body, said)


def _other_rows(runs: Sequence[Run], figures: Sequence[Published]) -> list[tuple[str, ...]]:
    """The figures that are no benchmark's headline, beside the runs that they are of; without any
    run all by themselves."""
    headlines = {benchmark.scoring.headlines[0] for benchmark in all_benchmarks()}
    rows: list[tuple[str, ...]] = []
    for each in (each for each in figures if each.metric not in headlines):
        if not runs:
            rows.append((each.task, each.label, each.metric, "", f"{each.value:g}", "", each.where))
        for run in (run for run in runs if _match(run, each.metric, [each])):
            benchmark, found, shown = (
                find_benchmark(run.task.kind),
                figure(run.task, each.metric),
                ("", ""),
            )
            if found is not None and benchmark and (score := benchmark.score(each.metric)):
                shown = (
                    score.write(found.value),
                    f"{score.times * found.value - each.value:+.{score.digits}f}",
                )
            rows.append(
                (
                    each.task,
                    run.label,
                    each.metric,
                    shown[0],
                    f"{each.value:g}",
                    shown[1],
                    each.where,
                )
            )
    return rows


def _match(run: Run, metric: str, figures: Sequence[Published]) -> Published | None:
    """The published figure for a result: same task, metric, protocol, decoding and model, whatever
    its organisation."""
    wanted = run.task.task, metric, run.protocol, run.file.variant, short_name(run.file.model)
    return next(
        (
            each
            for each in figures
            if (each.task, each.metric, each.protocol, each.decoding, short_name(each.model))
            == wanted
        ),
        None,
    )


def _shown(found: Figure | None, score: Score) -> tuple[str, str, str, str]:
    """The value, its interval, the corrected value with its own, if there is one, and how it is
    corrected."""
    if found is None:
        return "none", "", "", ""
    between = (
        "" if found.low is None or found.high is None else score.between(found.low, found.high)
    )
    value = "too few rows" if found.is_few else score.write(found.value)
    if (each := found.corrected) is None:
        return value, between, "", ""
    return (
        value,
        between,
        f"{score.write(each.value)} [{score.between(each.low, each.high)}]",
        f"corrected {each.how}",
    )


def notes_of(benchmark: Benchmark, file: ResultsFile, task: TaskResult) -> Iterable[str]:
    """What sets a run apart: its data, what of it was run, what has no score, and what the
    benchmark says besides."""
    data, decoding = (
        mapping(task.metadata.get("data")),
        mapping(mapping(file.content.get("config")).get("decoding")),
    )
    if data.get("is_upstream") is False:
        rows = f"{data.get('rows')} rows of {data.get('upstream_rows')}"
        yield f"not the published file: {rows}, git blob {data.get('git_blob')}"
    elif data.get("is_published") is False and data.get("file") in {
        source.filename for source in benchmark.data.sources
    }:
        yield f"not the published file: git blob {data.get('git_blob')}"
    if task.limit:
        yield f"--limit {task.limit:g}: part of the {benchmark.scoring.unit} only"
    elif benchmark.scoring.unit in data and task.effective != data[benchmark.scoring.unit]:
        yield f"{task.effective} of {data[benchmark.scoring.unit]} {benchmark.scoring.unit}"
    if cut := int(number_of(task.metrics.get("truncated")) or 0):
        unit = benchmark.scoring.unit[: None if cut != 1 else -1]
        yield f"{cut} {unit} longer than the window, whose beginning was cut off"
    if decoding:
        yield f"decoding: {', '.join(f'{key} {value}' for key, value in decoding.items())}"
    if benchmark.comparing.notes is not None:
        yield from benchmark.comparing.notes(file, task)
    if caution := task.metadata.get("caution"):
        yield " ".join(str(caution).split())


def _bounds(benchmark: Benchmark, task: TaskResult) -> str:
    name = headline(task)
    score = benchmark.score(name) if name else None
    worst, best = (number_of(task.metrics.get(f"{name}_{bound}")) for bound in ("worst", "best"))
    if score is None or worst is None or best is None:
        return ""
    low, high = (f"{score.times * each:.{score.digits}f}" for each in (worst, best))
    return f", {name} between {low} and {high} if they were wrong or right"


def pair_tables(
    benchmark: Benchmark, runs: Sequence[Run], scores: Sequence[str] | None = None
) -> Iterator[Table]:
    """A table for each task of which two of ``runs`` kept samples: every pair of models in each
    shown score, or in ``scores``; of many models in the headline."""
    for task in sorted({run.task.task for run in runs}):
        here = sorted((run for run in runs if run.task.task == task), key=lambda run: run.label)
        able = [run for run in here if run.scored]
        without = ", ".join(run.label for run in here if not run.scored)
        missing = (
            f"{task}: without samples (--log_samples) and scored rows no difference can be tested:"
            f" {without}"
        )
        if len(able) < 2:
            if len(here) > 1 and without and benchmark.page.samples is not None:
                yield Table("", (), (), [missing])
            continue
        of_all = compared_scores(benchmark, sorted({name for run in able for name in run.scored}))
        wanted = scores or (
            [score.name for score in benchmark.shown]
            if len(able) <= _MOST_MODELS
            else [headline(able[0].task) or ""]
        )
        rows, notes = [], [missing] if without else []
        for score in [each for each in of_all if each.name in wanted]:
            scored = {run.label: run.scored[score.name] for run in able if score.name in run.scored}
            pairs = compare_all(scored, score, {run.label: run.task.metrics for run in able})
            for (one, other), pair in pairs.items():
                *tested, least = written(pair, score)
                is_clear = pair.adjusted is not None and pair.adjusted < _ALPHA
                better = ("A" if (pair.difference > 0) == score.higher else "B") if is_clear else ""
                rows.append((score.name, one, other, *tested, better, least, f"{pair.n:,}"))
            notes += [f"{score.name}: {score.note}"] if pairs and score.note else []
        if not scores and len(able) > _MOST_MODELS:
            notes.append(
                "Other scores by --scores:"
                f" {', '.join(score.name for score in of_all if score.name not in wanted)}"
            )
        if rows:
            yield Table(f"\nPairs of models on {task}, row by row", _PAIRS["columns"], rows, notes)
