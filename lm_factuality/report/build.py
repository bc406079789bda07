"""Build a report, i.e. a folder with a static website about the runs of models.

The command ``lm-factuality report`` and leaderboards call `build_report`. Of each model and task,
the report shows the newest run.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import CertificationStatus
from lm_factuality.benchmarks.chosen import (
    Entry,
    Model,
    ReportRuns,
    ScoreFigure,
    newest_runs,
    reported_scores,
    scores_section,
    suite_runs,
)
from lm_factuality.benchmarks.declaration import SHARE, Benchmark, Run
from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import whole_folder, write_json, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, Link, read_asset, read_file, render
from lm_factuality.ground.model_names import display_name, family, size_in_name
from lm_factuality.ground.plots import MOST_SERIES, Dot, Plot, dots
from lm_factuality.report.data import (
    TaskData,
    page_content,
    with_missing_stderrs,
    write_data,
    write_pairs,
)
from lm_factuality.results.compare import notes_of
from lm_factuality.results.read import read_results_files
from lm_factuality.results.settings import settings_of

MARK = "report.json"
"""The file that marks a folder as a report, which a new report may replace."""

_TOO_FEW = (
    f"Too few documents: scores of fewer than {ScoreFigure.least} are left out (–), and their"
    " intervals are shown"
)
"""The note on runs that have such scores, which is said once on a page."""

_SHARED_ASSETS = (STYLE, SCRIPT, "elements.js")
"""The styles and scripts that leaderboards use as well."""

_REPORT_ASSETS = ("report.css", "data.js", "compare.js", "rows.js", "samples.js")
"""The styles and scripts of reports."""

_DATA_SCRIPTS = ("elements.js", "data.js")
"""The scripts of all pages that load the files of `lm_factuality.report.data`."""


class ModelKey(NamedTuple):
    """The name and the variant, which together identify a model in a report."""

    name: str
    """The name that lm_eval was given."""

    variant: str
    """The options in which runs of this name differ, such as ``protocol chat``, or nothing."""


@dataclass(frozen=True)
class ReportPage:
    """A page of the report, before it is rendered."""

    href: str
    """The name of the HTML file."""

    label: str
    """The name of the page in the navigation."""

    values: dict[str, Any]
    """The variables of the template."""

    template: str
    """The name of the template in this package."""

    scripts: tuple[str, ...] = ()
    """The names of the scripts in the folder ``assets``."""


def build_report(paths: Sequence[Path], out: Path, title: str = "Factuality report") -> ReportRuns:
    """Write a report of results files as a static website, which needs no server.

    The folder appears when all pages are written. Then it replaces an earlier report.

    Args:
        paths: Results files of lm_eval, or folders with results files anywhere below them.
        out: The folder of the report.
        title: The title of the first page.

    Returns:
        The runs that the report shows.

    Raises:
        DataError: There are no results, a file cannot be used, or ``out`` exists and is no report.
    """
    with whole_folder(out, MARK) as folder:
        report_runs = choose_runs(paths)
        _write_site(report_runs, folder, title)
        return report_runs


def choose_runs(paths: Sequence[Path]) -> ReportRuns:
    """Choose the runs that a report shows: the newest run of each model on each task.

    Args:
        paths: Results files of lm_eval, or folders with results files anywhere below them.

    Returns:
        The runs, the models by label, and a note on each run that is left out.

    Raises:
        DataError: A path has no results, or no file has a task of the suite.
    """
    all_runs, left_out = suite_runs(read_results_files(paths))
    runs, notes = newest_runs(all_runs)
    if not runs:
        raise DataError(
            f"{', '.join(map(str, paths))}: the results files hold no task of the suite; give the"
            " folder of a finished lm_eval run"
        )
    models = _describe_models(runs)
    entries = [Entry(models[_model_key(run)], run.file, run.task) for run in runs]
    # Pages list tasks by name, and models by the label that readers see.
    entries.sort(key=lambda entry: (entry.result.task, entry.model.label))
    tasks = dict.fromkeys(entry.result.task for entry in entries)
    sorted_models = sorted(models.values(), key=lambda model: model.label)
    return ReportRuns(tuple(sorted_models), tuple(tasks), tuple(entries), (*left_out, *notes))


def _model_key(run: Run) -> ModelKey:
    """Return the name of a run's model, and its variant such as ``float16, protocol chat``."""
    # Runs by different protocols cannot be compared, so they count as different models.
    options = [run.file.variant]
    if run.protocol:
        options.append(f"protocol {run.protocol}")
    return ModelKey(run.file.model, ", ".join(filter(None, options)))


def _describe_models(runs: Sequence[Run]) -> dict[ModelKey, Model]:
    """Describe the model of each run for the report.

    Args:
        runs: The runs from the oldest to the newest.

    Returns:
        The models by name and variant, with the ids m0, m1 and so on.
    """
    # A later file replaces an earlier one, so the newest file of each model is kept.
    newest_files = {_model_key(run): run.file for run in runs}
    names = {key.name for key in newest_files}
    models = {}
    # Ids are part of file names. They follow the names of models, so dates do not change them.
    for number, key in enumerate(sorted(newest_files)):
        file = newest_files[key]
        label = display_name(key.name, names)
        models[key] = Model(
            id=f"m{number}",
            label=f"{label} ({key.variant})" if key.variant else label,
            name=key.name,
            variant=key.variant,
            backend=file.backend,
            size=file.num_parameters or size_in_name(key.name),
            family=family(key.name),
        )
    return models


def _write_site(report_runs: ReportRuns, folder: Path, title: str) -> None:
    """Write all files of a report: data, pages, styles and scripts.

    Args:
        report_runs: The runs of the report.
        folder: The folder of the report, which is empty.
        title: The title of the first page.
    """
    tasks = write_data(report_runs, folder / "data")
    # Other pages link to these, so they are written first.
    custom_pages = _write_custom_pages(report_runs, folder)
    report_runs = replace(report_runs, custom_pages=custom_pages)
    report_runs = with_missing_stderrs(report_runs, tasks)

    # Two models can only be compared on a task that both have samples of.
    has_pairs = any(len(task_data.entries) > 1 for task_data in tasks)
    if has_pairs:
        write_pairs(report_runs.models, tasks, folder / "data")

    pages = [_overview_page(report_runs, title), *_benchmark_pages(report_runs, tasks)]
    if tasks:
        pages += _sample_pages(report_runs, tasks, has_pairs)
    _write_assets(tasks, folder / "assets")
    links = [Link(page.href, page.label) for page in pages]
    for page in pages:
        _write_page(page, links, folder, title)
    # This file marks the folder as a report, which the next report may replace.
    write_json(folder / MARK, {"made_by": f"lm-factuality {__version__}", "title": title})


def _sample_pages(
    report_runs: ReportRuns, tasks: Sequence[TaskData], has_pairs: bool
) -> list[ReportPage]:
    """Make the page that shows samples and, if models can be compared, the page for that.

    Args:
        report_runs: The runs of the report.
        tasks: The rows of each task with samples.
        has_pairs: Whether two models have samples of the same task.
    """
    # The scripts of both pages read the same description of models and tasks.
    values = {"content": page_content(report_runs, tasks)}
    samples_page = ReportPage(
        href="samples.html",
        label="Samples",
        values=values,
        template="samples.html",
        scripts=_sample_scripts(tasks),
    )
    if not has_pairs:
        return [samples_page]
    compare_page = ReportPage(
        href="compare.html",
        label="Compare",
        values=values,
        template="compared.html",
        scripts=(*_DATA_SCRIPTS, "compare.js"),
    )
    return [compare_page, samples_page]


def _sample_scripts(tasks: Sequence[TaskData]) -> tuple[str, ...]:
    """Return the names of the scripts of the page that shows samples, in the order of loading."""
    # Tasks of one benchmark share a script, which draws their rows.
    row_scripts = dict.fromkeys(
        _row_script(task_data) for task_data in tasks if task_data.display.script
    )
    return (*_DATA_SCRIPTS, "rows.js", *row_scripts, "samples.js")


def _write_custom_pages(report_runs: ReportRuns, folder: Path) -> dict[tuple[str, str], str]:
    """Write the pages that benchmarks add about the samples of a run.

    Args:
        report_runs: The runs of the report.
        folder: The folder of the report.

    Returns:
        The path of each page in the report, such as ``biographies/0-m1.html``, by task and model
        id. Most benchmarks add no pages.
    """
    paths: dict[tuple[str, str], str] = {}
    for entry in report_runs.entries:
        display = entry.benchmark.page.samples
        if display is None or display.custom_page is None or entry.result.samples is None:
            continue
        task = entry.result.task
        # A task's name can hold characters that file names cannot, so its number is used.
        number = report_runs.tasks.index(task)
        path = f"{display.custom_page.folder}/{number}-{entry.model.id}.html"
        page = display.custom_page.make_page(entry.result, f"{entry.model.label}, {task}")
        write_text(folder / path, page)
        paths[task, entry.model.id] = path
    return paths


def _overview_page(report_runs: ReportRuns, title: str) -> ReportPage:
    """Make the first page: all models on all tasks, and the conditions in which runs differ."""
    entries = report_runs.entries
    # The keys are the variables of overview.html, which calls the function "listed".
    values = {
        "title": title,
        "chosen": report_runs,
        "notes": _entries_by_note(entries),
        "without": [entry for entry in entries if entry.result.samples is None],
        "picture": _headline_plot(report_runs, report_runs.tasks),
        "settings": _compare_settings(entries),
        "listed": _list_entries,
        "most_series": MOST_SERIES,
    }
    return ReportPage("index.html", "Overview", values, "overview.html")


def _entries_by_note(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Group runs by the notes on them, such as ``--limit 10: part of the rows only``."""
    entries_by_note: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        for note in notes_of(entry.benchmark, entry.file, entry.result):
            entries_by_note[note].append(entry)
        figures = [entry.figure(score) for score in reported_scores([entry])]
        if any(figure is not None and figure.has_few_clusters for figure in figures):
            entries_by_note[_TOO_FEW].append(entry)
    return entries_by_note


def _headline_plot(report_runs: ReportRuns, tasks: Iterable[str]) -> Plot | None:
    """Plot the main score of each task, with one row of dots per task and one dot per model.

    Args:
        report_runs: The runs of the report.
        tasks: The tasks to plot. Only those whose score is a share have a row, since others, such
            as perplexity, do not fit on an axis from 0 to 100%.

    Returns:
        The plot, or None if it would have no rows.
    """
    # Each model has its own colour, and there are only so many.
    labels = [model.label for model in report_runs.models[:MOST_SERIES]]
    rows = []
    has_arrow = False
    for task in tasks:
        entries = report_runs.of_task(task)
        score = entries[0].headline
        if score.value_range != SHARE:
            continue
        dots_by_model = _headline_dots(entries, labels)
        if not dots_by_model:
            continue
        # None means that no direction is better, so only False gets the arrow.
        if score.higher_is_better is False:
            rows.append((f"{task} ↓", dots_by_model))
            has_arrow = True
        else:
            rows.append((task, dots_by_model))
    if not rows:
        return None
    x_label = "%; ↓: lower is better" if has_arrow else "%"
    return dots("The score of each task", x_label, rows, labels)


def _headline_dots(entries: Iterable[Entry], labels: Sequence[str]) -> dict[str, Dot]:
    """Return the main score of each run as a dot, by the label of its model.

    Models whose label is not in ``labels``, and models without a score, are missing.
    """
    dots_by_model = {}
    for entry in entries:
        dot = entry.dot(entry.headline)
        if dot is not None and entry.model.label in labels:
            dots_by_model[entry.model.label] = dot
    return dots_by_model


@dataclass(frozen=True)
class ComparedSettings:
    """The settings of all runs of a report, separated by whether the runs differ in them."""

    shared: Mapping[str, str]
    """The values of the settings in which all runs agree, by name."""

    differing: Sequence[str]
    """The names of the other settings."""

    by_run: Mapping[tuple[str, str], Mapping[str, str]]
    """The settings of each run, by model id and task."""

    values_by_task_and_name: Mapping[tuple[str, str], set[str]]
    """All values of a setting in the runs of a task, by task and setting.

    The value of a run without the setting is an empty text.
    """


def _compare_settings(entries: Iterable[Entry]) -> ComparedSettings:
    """Find the settings, such as ``dtype``, in which the runs of a report agree or differ.

    If all runs have the ``dtype`` float32, it is shared. If one run has float16 or states none, it
    is differing.
    """
    settings_by_run = {}
    for entry in entries:
        run = (entry.model.id, entry.result.task)
        settings_by_run[run] = settings_of(entry.file, entry.result)

    # A dictionary keeps each name once, in the order of the runs.
    names = dict.fromkeys(name for settings in settings_by_run.values() for name in settings)
    shared = {}
    differing = []
    for name in names:
        # A run that lacks a setting differs from one that has it.
        values = {settings.get(name, "") for settings in settings_by_run.values()}
        if len(values) == 1:
            shared[name] = values.pop()
        else:
            differing.append(name)
    values_by_task = _values_by_task(settings_by_run, differing)
    return ComparedSettings(shared, differing, settings_by_run, values_by_task)


def _values_by_task(
    settings_by_run: Mapping[tuple[str, str], Mapping[str, str]], names: Sequence[str]
) -> dict[tuple[str, str], set[str]]:
    """Collect the values that a setting has in the runs of one task.

    The page marks a setting of a task if the runs of this task differ in it.

    Args:
        settings_by_run: The settings of each run, by model id and task.
        names: The names of the settings.

    Returns:
        The values by task and setting, such as ``{("felm", "dtype"): {"float16", ""}}``.
    """
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (_, task), settings in settings_by_run.items():
        for name in names:
            values[task, name].add(settings.get(name, ""))
    return values


def _list_entries(entries: Sequence[Entry]) -> str:
    """List runs in a sentence: ``gpt2 on wiki_factor, opt on wiki_factor``; at most six."""
    return listed([f"{entry.model.label} on {entry.result.task}" for entry in entries], 6)


def _benchmark_pages(report_runs: ReportRuns, tasks: Sequence[TaskData]) -> list[ReportPage]:
    """Make a page for each benchmark that has runs. Benchmarks with the same page name share one.

    Args:
        report_runs: The runs of the report.
        tasks: The rows of each task.
    """
    benchmarks_by_page: dict[str, list[Benchmark]] = defaultdict(list)
    for benchmark in all_benchmarks():
        benchmarks_by_page[benchmark.page_name].append(benchmark)

    pages = []
    for name, benchmarks in benchmarks_by_page.items():
        with_runs = [benchmark for benchmark in benchmarks if report_runs.of_kind(benchmark.kind)]
        if not with_runs:
            continue
        # The first benchmark gives the page its title, even without runs of its own, so that the
        # page has the same title in every report.
        main = benchmarks[0]
        content = _benchmark_content(with_runs, report_runs, tasks)
        values = {"heading": main.title, "lead": main.page.lead, **content}
        pages.append(ReportPage(f"{name}.html", main.title, values, "benchmark.html"))
    return pages


def _benchmark_content(
    benchmarks: Sequence[Benchmark], report_runs: ReportRuns, tasks: Sequence[TaskData]
) -> dict[str, Any]:
    """Return the variables of the template of a benchmark's page, without its heading.

    Args:
        benchmarks: The benchmarks of the page, each of which has runs.
        report_runs: The runs of the report.
        tasks: The rows of each task.
    """
    sections: list[Markup] = []
    for benchmark in benchmarks:
        # A benchmark without sections of its own gets a table of its scores.
        if benchmark.page.sections:
            sections += benchmark.page.sections(report_runs)
        else:
            sections.append(scores_section(report_runs, benchmark.kind))
    # Notes and reasons on the page are those of its own benchmarks.
    kinds = {benchmark.kind for benchmark in benchmarks}
    entries = [entry for entry in report_runs.entries if entry.result.kind in kinds]
    # A dictionary keeps each task once, in order.
    tasks_of_page = dict.fromkeys(entry.result.task for entry in entries)
    # The keys are the variables of benchmark.html, which calls the function "listed".
    return {
        "sections": sections + _judges_section(report_runs, benchmarks),
        "unscored": _unscored_rows(tasks, kinds),
        "listed": _list_entries,
        "notes": _entries_by_note(entries),
        "picture": _headline_plot(report_runs, tasks_of_page),
    }


def _judges_section(report_runs: ReportRuns, benchmarks: Sequence[Benchmark]) -> list[Markup]:
    """Render the section that says how well the judges of some benchmarks are known to work.

    Args:
        report_runs: The runs of the report.
        benchmarks: The benchmarks of the page.

    Returns:
        One section, or none if no judge took part.
    """
    models_by_row: dict[tuple[str, str, CertificationStatus], list[str]] = defaultdict(list)
    for benchmark in benchmarks:
        for entry in report_runs.of_kind(benchmark.kind):
            metadata = entry.result.metadata
            # Runs without a judge have no status.
            for status in benchmark.certification_statuses(metadata):
                judge = str(metadata["judge_config"].get("name"))
                # Models with the same judge on the same task share a row of the table.
                models_by_row[entry.result.task, judge, status].append(entry.model.label)
    if not models_by_row:
        return []
    rows = [(*row, models) for row, models in models_by_row.items()]
    return [render(f"{__package__}/judges.html", rows=rows)]


def _unscored_rows(tasks: Sequence[TaskData], kinds: set[str]) -> list[tuple[str, str, str, int]]:
    """List the reasons for which rows have no score, as rows of a table.

    Args:
        tasks: The rows of each task.
        kinds: The kinds of the benchmarks to list.

    Returns:
        The task, the model, the reason with its cure, and the number of rows, for each reason.
    """
    table = []
    for task_data in tasks:
        if task_data.benchmark.kind not in kinds:
            continue
        for entry in task_data.entries:
            for reason in task_data.unscored_reasons.get(entry.model.id, ()):
                text = reason.example
                # Not every reason has a known cure.
                if reason.cure:
                    text += f" ({reason.cure})"
                table.append((task_data.task, entry.model.label, text, reason.num_items))
    return table


def _row_script(task_data: TaskData) -> str:
    """Return the name of the script that draws a benchmark's rows, such as ``rows.felm.js``."""
    return f"rows.{task_data.benchmark.kind}.js"


def _write_assets(tasks: Sequence[TaskData], folder: Path) -> None:
    """Copy the styles and scripts of the report, and the scripts of its benchmarks, to a folder."""
    for name in _SHARED_ASSETS:
        write_text(folder / name, read_asset(name))
    # These are beside the code of the report, since leaderboards do not use them.
    for name in _REPORT_ASSETS:
        write_text(folder / name, read_file(f"{__package__}/scripts/{name}"))
    for task_data in tasks:
        script = task_data.display.script
        if script is not None:
            write_text(folder / _row_script(task_data), script.read_text(encoding="utf-8"))


def _write_page(page: ReportPage, links: Sequence[Link], folder: Path, title: str) -> None:
    """Render a page of the report and write it to the report's folder.

    Args:
        page: The page.
        links: The navigation with all pages.
        folder: The folder of the report.
        title: The title of the report. Only the first page has it in place of its own label.
    """
    values = {"title": page.label, **page.values}
    html = render(
        f"{__package__}/{page.template}",
        site=title,
        links=links,
        root="",
        styles=["assets/report.css"],
        version=__version__,
        here=page.href,
        scripts=[f"assets/{name}" for name in page.scripts],
        **values,
    )
    write_text(folder / page.href, html)
