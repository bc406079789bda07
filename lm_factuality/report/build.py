"""Build a report: a folder with a static site, put in place when it is whole.

Of each model and task the newest run is shown. The first page says what to know before any figure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import CertificationStatus
from lm_factuality.benchmarks.chosen import (
    Entry,
    Model,
    ReportRuns,
    newest_runs,
    scores_section,
    suite_runs,
)
from lm_factuality.benchmarks.declaration import Benchmark, Run
from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import whole_folder, write_json, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, Link, read_asset, read_file, render
from lm_factuality.ground.model_names import family, size_in_name
from lm_factuality.ground.plots import MOST_SERIES, Plot, dots
from lm_factuality.report.data import (
    TaskData,
    page_content,
    with_samples,
    write_data,
    write_pairs,
)
from lm_factuality.results.compare import notes_of
from lm_factuality.results.read import read_results_files
from lm_factuality.results.settings import settings_of

MARK = "report.json"
"""The file that says that a folder is a report of ours, which may be replaced."""
_SHARED_ASSETS = (STYLE, SCRIPT, "elements.js")
_REPORT_ASSETS = ("report.css", "data.js", "compare.js", "rows.js", "samples.js")


@dataclass(frozen=True)
class ReportPage:
    """A page of the site."""

    href: str
    label: str
    """What the navigation calls it."""

    values: dict[str, Any]
    """The values of the template."""

    template: str
    scripts: tuple[str, ...] = ()


def build_report(paths: Sequence[Path], out: Path, title: str = "Factuality report") -> ReportRuns:
    """Write the report of all results below ``paths`` into the folder ``out``.

    An earlier report in ``out`` is replaced when the new one is whole.

    Returns:
        What the report is of.

    Raises:
        DataError: There are no results, a file cannot be used, or ``out`` exists and is no report.
    """
    with whole_folder(out, MARK) as folder:
        chosen = choose(paths)
        _write_site(chosen, folder, title)
        return chosen


def choose(paths: Sequence[Path]) -> ReportRuns:
    """Choose the newest run of each model and task in the results files that ``paths`` name.

    Raises:
        DataError: A path has no results, or no file has a task of the suite.
    """
    suite, left_out = suite_runs(read_results_files(paths))
    runs, notes = newest_runs(suite)
    if not runs:
        where = ", ".join(str(path) for path in paths)
        raise DataError(
            f"{where}: the results files hold no task of the suite; give the folder of a finished"
            " lm_eval run"
        )
    runs_of_models: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        # What sets a run apart from others of the same model.
        protocol = f"protocol {run.protocol}" if run.protocol else ""
        variant = ", ".join(filter(None, (run.file.variant, protocol)))
        runs_of_models.setdefault((run.file.model, variant), []).append(run)
    names = {name for name, _ in runs_of_models}
    models = []
    entries = []
    for number, (name, variant) in enumerate(sorted(runs_of_models)):
        runs_of_model = runs_of_models[name, variant]
        short = _short_name(name, names)
        file = runs_of_model[-1].file
        model = Model(
            id=f"m{number}",
            label=f"{short} ({variant})" if variant else short,
            name=name,
            variant=variant,
            backend=file.backend,
            size=file.num_parameters or size_in_name(name),
            family=family(name),
        )
        models.append(model)
        entries += [Entry(model, run.file, run.task) for run in runs_of_model]
    entries.sort(key=lambda entry: (entry.result.task, entry.model.label))
    return ReportRuns(
        models=tuple(sorted(models, key=lambda model: model.label)),
        tasks=tuple(dict.fromkeys(entry.result.task for entry in entries)),
        entries=tuple(entries),
        notes=(*left_out, *notes),
    )


def _short_name(name: str, names: Iterable[str]) -> str:
    """Return what readers see for a model.

    A model on the Hub keeps its name. A folder is called by its last part, unless another model
    has the same last part.
    """
    last_parts = [other.rsplit("/", 1)[-1] for other in names]
    last = name.rsplit("/", 1)[-1]
    is_folder = name.count("/") > 1 or name.startswith((".", "/"))
    return last if is_folder and last_parts.count(last) == 1 else name


def _write_site(chosen: ReportRuns, folder: Path, title: str) -> None:
    """Write data, scripts and pages."""
    data = write_data(chosen, folder / "data")
    chosen = with_samples(replace(chosen, custom_pages=_write_own_pages(chosen, folder)), data)
    pages = [_overview_page(chosen, title)]
    pages += _benchmark_pages(chosen, data)
    content = {"content": page_content(chosen, data)}
    scripts: tuple[str, ...] = ("elements.js", "data.js")
    if any(len(task_data.entries) > 1 for task_data in data):
        write_pairs(chosen.models, data, folder / "data")
        compare_scripts = (*scripts, "compare.js")
        page = ReportPage("compare.html", "Compare", content, "compared.html", compare_scripts)
        pages.append(page)
    if data:
        row_scripts = [
            f"rows.{task_data.benchmark.kind}.js" for task_data in data if task_data.samples.script
        ]
        scripts = (*scripts, "rows.js", *dict.fromkeys(row_scripts), "samples.js")
        pages.append(ReportPage("samples.html", "Samples", content, "samples.html", scripts))

    _write_assets(data, folder / "assets")
    links = [Link(page.href, page.label) for page in pages]
    for page in pages:
        text = render(
            f"{__package__}/{page.template}",
            site=title,
            links=links,
            root="",
            styles=["assets/report.css"],
            version=__version__,
            here=page.href,
            scripts=[f"assets/{name}" for name in page.scripts],
            **{"title": page.label, **page.values},
        )
        write_text(folder / page.href, text)
    write_json(folder / MARK, {"made_by": f"lm-factuality {__version__}", "title": title})


def _write_own_pages(chosen: ReportRuns, folder: Path) -> dict[tuple[str, str], str]:
    """Write the pages that benchmarks make of the samples of a run.

    Returns:
        The place of each page, by task and model's id.
    """
    places: dict[tuple[str, str], str] = {}
    for entry in chosen.entries:
        samples = entry.benchmark.page.samples
        if samples is None or samples.custom_page is None or entry.result.samples is None:
            continue
        task = entry.result.task
        name, make_page = samples.custom_page
        place = f"{name}/{chosen.tasks.index(task)}-{entry.model.id}.html"
        write_text(folder / place, make_page(entry.result, f"{entry.model.label}, {task}"))
        places[task, entry.model.id] = place
    return places


def _write_assets(data: Sequence[TaskData], folder: Path) -> None:
    for name in _SHARED_ASSETS:
        write_text(folder / name, read_asset(name))
    for name in _REPORT_ASSETS:
        write_text(folder / name, read_file(f"{__package__}/scripts/{name}"))
    for task_data in data:
        if task_data.samples.script:
            text = task_data.samples.script.read_text(encoding="utf-8")
            write_text(folder / f"rows.{task_data.benchmark.kind}.js", text)


def _overview_page(chosen: ReportRuns, title: str) -> ReportPage:
    values = {
        "title": title,
        "chosen": chosen,
        "notes": _notes(chosen.entries),
        "without": [entry for entry in chosen.entries if entry.result.samples is None],
        "picture": _overview_plot(chosen),
        "settings": _all_settings(chosen),
        "listed": _listed,
        "most_series": MOST_SERIES,
    }
    return ReportPage("index.html", "Overview", values, "overview.html")


def _overview_plot(chosen: ReportRuns) -> Plot | None:
    """Plot the headlines that are shares, one line per task; None if there are none."""
    models = [model.label for model in chosen.models[:MOST_SERIES]]
    rows = []
    for task in chosen.tasks:
        entries = chosen.of_task(task)
        score = entries[0].headline
        measure = score.value_range
        if measure is None or (measure.low, measure.high) != (0, 1):
            continue
        dots_of_models = {}
        for entry in entries:
            dot = entry.dot(entry.headline)
            if dot and entry.model.label in models:
                dots_of_models[entry.model.label] = dot
        if dots_of_models:
            rows.append((f"{task} ↓" if score.higher_is_better is False else task, dots_of_models))
    if not rows:
        return None
    return dots("The score of each task", "%; ↓: lower is better", rows, models)


def _notes(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return what sets runs apart, each note with the runs that it is true of."""
    entries_of_notes: dict[str, list[Entry]] = {}
    for entry in entries:
        for note in notes_of(entry.benchmark, entry.file, entry.result):
            entries_of_notes.setdefault(note, []).append(entry)
    return entries_of_notes


def _listed(entries: Sequence[Entry]) -> str:
    """Name runs in a sentence."""
    return listed([f"{entry.model.label} on {entry.result.task}" for entry in entries], 6)


def _all_settings(chosen: ReportRuns) -> dict[str, Any]:
    """Return what figures depend on besides the weights.

    Returns:
        ``same``: the settings that all runs share. ``names``: the names of the others. ``of_runs``:
        the settings by (model's id, task). ``of_tasks``: all values by (task, name), with an empty
        text where a run does not say it.
    """
    runs = {}
    for entry in chosen.entries:
        runs[entry.model.id, entry.result.task] = settings_of(entry.file, entry.result)
    names = dict.fromkeys(name for settings in runs.values() for name in settings)
    values: dict[str, set[str]] = defaultdict(set)
    of_tasks: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (_, task), settings in runs.items():
        for name in names:
            values[name].add(settings.get(name, ""))
            of_tasks[task, name].add(settings.get(name, ""))
    return {
        "same": {name: min(values[name]) for name in names if len(values[name]) == 1},
        "names": [name for name in names if len(values[name]) > 1],
        "of_runs": runs,
        "of_tasks": of_tasks,
    }


def _benchmark_pages(chosen: ReportRuns, data: Sequence[TaskData]) -> list[ReportPage]:
    """Return a page for each benchmark with runs; some benchmarks share a page."""
    benchmarks_of_pages: dict[str, list[Benchmark]] = {}
    for benchmark in all_benchmarks():
        benchmarks_of_pages.setdefault(benchmark.page_name, []).append(benchmark)

    pages = []
    for name, benchmarks in benchmarks_of_pages.items():
        present = [benchmark for benchmark in benchmarks if chosen.of_kind(benchmark.kind)]
        if not present:
            continue
        sections: list[Markup] = []
        for benchmark in present:
            if benchmark.page.sections:
                sections += benchmark.page.sections(chosen)
            else:
                sections.append(scores_section(chosen, benchmark.kind))
        kinds = {benchmark.kind for benchmark in present}
        main = benchmarks[0]
        values = {
            "heading": main.title,
            "lead": main.page.lead,
            "sections": sections + _judges_sections(chosen, present),
            "unscored": _unscored_rows(data, kinds),
            "listed": _listed,
            "notes": _notes([entry for entry in chosen.entries if entry.result.kind in kinds]),
        }
        pages.append(ReportPage(f"{name}.html", main.title, values, "benchmark.html"))
    return pages


def _judges_sections(chosen: ReportRuns, benchmarks: Sequence[Benchmark]) -> list[Markup]:
    """Return the section on the judges behind the scores; none where no step can be certified."""
    models: dict[tuple[str, str, CertificationStatus], list[str]] = {}
    for benchmark in benchmarks:
        for entry in chosen.of_kind(benchmark.kind):
            metadata = entry.result.metadata
            for step in benchmark.certification_statuses(metadata):
                row = (entry.result.task, str(metadata["judge_config"].get("name")), step)
                models.setdefault(row, []).append(entry.model.label)
    rows = [(*row, labels) for row, labels in models.items()]
    return [render(f"{__package__}/judges.html", rows=rows)] if rows else []


def _unscored_rows(data: Sequence[TaskData], kinds: set[str]) -> list[tuple[str, str, str, int]]:
    """Return (task, model, reason with its cure, how many rows) for each reason."""
    rows = []
    for task_data in data:
        if task_data.benchmark.kind not in kinds:
            continue
        for entry in task_data.entries:
            for reason in task_data.reasons.get(entry.model.id, ()):
                cure = f" ({reason.cure})" if reason.cure else ""
                text = f"{reason.example}{cure}"
                rows.append((task_data.task, entry.model.label, text, reason.items))
    return rows
