"""Build a report: a folder with a static site, put in place when it is whole.

Of each model and task the newest run is shown. The first page says what to know before any figure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lm_factuality import __version__
from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import Stated, mapping
from lm_factuality.benchmarks.chosen import Chosen, Entry, Model, newest, scores_section
from lm_factuality.benchmarks.declaration import Benchmark, Run
from lm_factuality.ground.errors import DataError, listed
from lm_factuality.ground.files import whole_folder, write_json, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, Link, read_asset, read_file, render
from lm_factuality.ground.model_names import family, size_in_name
from lm_factuality.ground.plots import MOST_SERIES, Dot, Plot, dots
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.report.data import (
    CHUNK,
    OUTCOMES,
    TaskData,
    page_data,
    with_samples,
    write_data,
    write_pairs,
)
from lm_factuality.results.compare import notes_of
from lm_factuality.results.read import read_results_files

MARK = "report.json"
"""The file that says that a folder is a report of ours, which may be replaced."""
_SHARED_ASSETS = (STYLE, SCRIPT, "elements.js")
_REPORT_ASSETS = ("report.css", "data.js", "compare.js", "rows.js", "samples.js")
ABSENT = "–"


@dataclass(frozen=True)
class Built:
    """What was built, and what the reader should know of it."""

    folder: Path
    models: int
    tasks: int
    pages: tuple[str, ...]
    bytes: int
    without_samples: int
    """How many runs kept no samples."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """A page of the site."""

    href: str
    label: str
    """What the navigation calls it."""
    template: str
    values: dict[str, Any]
    """The values of the template."""
    scripts: tuple[str, ...] = ()


def build_report(paths: Sequence[Path], out: Path, title: str = "Factuality report") -> Built:
    """Write the report of all results below ``paths`` into the folder ``out``.

    An earlier report in ``out`` is replaced when the new one is whole.

    Raises:
        DataError: There are no results, a file cannot be used, or ``out`` exists and is no report.
    """
    with whole_folder(out, MARK) as folder:
        chosen = choose(paths)
        pages = _write_site(chosen, folder, title)
        return Built(
            folder=out,
            models=len(chosen.models),
            tasks=len(chosen.tasks),
            pages=pages,
            bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            without_samples=len(_without_samples(chosen)),
            notes=chosen.notes,
        )


def choose(paths: Sequence[Path]) -> Chosen:
    """Choose the newest run of each model and task in the results files that ``paths`` name.

    Raises:
        DataError: A path has no results, or no file has a task.
    """
    files = read_results_files(paths)
    runs, notes = newest(Run(file, task) for file in files for task in file.tasks)
    if not runs:
        where = ", ".join(str(path) for path in paths)
        raise DataError(
            f"{where}: the results files hold no task; give the folder of a finished lm_eval run"
        )
    files_of_models = {(run.file.model, _variant(run)): run.file for run in runs}
    models = _models(files_of_models)
    entries = [Entry(models[run.file.model, _variant(run)], run.file, run.task) for run in runs]
    entries.sort(key=lambda entry: (entry.result.task, entry.model.label))
    shown_models = {entry.model.id: entry.model for entry in entries}
    return Chosen(
        models=tuple(sorted(shown_models.values(), key=lambda model: model.label)),
        tasks=tuple(dict.fromkeys(entry.result.task for entry in entries)),
        entries=tuple(entries),
        notes=tuple(notes),
    )


def _variant(run: Run) -> str:
    """What sets a run apart from others of the same model: its variant and its protocol."""
    protocol = f"protocol {run.protocol}" if run.protocol else ""
    return ", ".join(filter(None, (run.file.variant, protocol)))


def _models(files: Mapping[tuple[str, str], ResultsFile]) -> dict[tuple[str, str], Model]:
    """Return the models by name and variant, each with an id for the names of files."""
    short_names = _short_names(name for name, _ in files)
    models = {}
    for number, (name, variant) in enumerate(sorted(files)):
        file = files[name, variant]
        models[name, variant] = Model(
            id=f"m{number}",
            label=f"{short_names[name]} ({variant})" if variant else short_names[name],
            name=name,
            variant=variant,
            backend=file.backend,
            size=file.num_parameters or size_in_name(name),
            family=family(name),
        )
    return models


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Return what readers see for each name.

    A model on the Hub keeps its name. A folder is called by its last part, or by as many of its
    last parts as tell it from the other models.
    """
    distinct = sorted(set(names))
    short_names = {name: name for name in distinct}
    folders = [name for name in distinct if name.count("/") > 1 or name.startswith((".", "/"))]
    longest = max((name.count("/") for name in folders), default=0)
    for length in range(1, longest + 1):
        ends = {name: "/".join(name.split("/")[-length:]) for name in distinct}
        counts = Counter(ends.values())
        for name in folders:
            if short_names[name] == name and counts[ends[name]] == 1:
                short_names[name] = ends[name]
    return short_names


def _write_site(chosen: Chosen, folder: Path, title: str) -> tuple[str, ...]:
    """Write data, scripts and pages; return the files of the pages."""
    data = write_data(chosen, folder / "data")
    chosen = with_samples(replace(chosen, own_pages=_write_own_pages(chosen, folder)), data)
    pages = [_overview_page(chosen)]
    pages += _benchmark_pages(chosen, data)
    if _is_compared(data):
        write_pairs(chosen.models, data, folder / "data")
        pages.append(_compare_page(chosen, data))
    if data:
        pages.append(_samples_page(chosen, data))

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
            title=title if page.href == "index.html" else page.label,
            here=page.href,
            scripts=[f"assets/{name}" for name in page.scripts],
            **page.values,
        )
        write_text(folder / page.href, text)

    hrefs = tuple(page.href for page in pages)
    mark = {
        "made_by": f"lm-factuality {__version__}",
        "title": title,
        "pages": hrefs,
        "results": sorted({entry.file.path.name for entry in chosen.entries}),
    }
    write_json(folder / MARK, mark)
    return hrefs


def _write_own_pages(chosen: Chosen, folder: Path) -> dict[tuple[str, str], str]:
    """Write the pages that benchmarks make of the samples of a run.

    Returns:
        The place of each page, by task and model's id.
    """
    places: dict[tuple[str, str], str] = {}
    for entry in chosen.entries:
        samples = entry.benchmark.page.samples if entry.benchmark else None
        if samples is None or samples.own_pages is None or entry.result.samples is None:
            continue
        task = entry.result.task
        name, make_page = samples.own_pages
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


def _overview_page(chosen: Chosen) -> Page:
    values = {
        "chosen": chosen,
        "notes": _notes(chosen.entries),
        "without": _without_samples(chosen),
        "picture": overview_plot(chosen),
        "settings": _all_settings(chosen),
        "listed": _listed,
        "date": _date,
        "most_series": MOST_SERIES,
    }
    return Page("index.html", "Overview", "overview.html", values)


def _without_samples(chosen: Chosen) -> list[Entry]:
    return [entry for entry in chosen.entries if entry.result.samples is None]


def overview_plot(chosen: Chosen) -> Plot | None:
    """Plot the headlines that are shares, one line per task; None if there are none."""
    models = [model.label for model in chosen.models[:MOST_SERIES]]
    rows = []
    for task in chosen.tasks:
        entries = chosen.of_task(task)
        score = entries[0].headline
        measure = score.measure if score else None
        if score is None or measure is None or (measure.low, measure.high) != (0, 1):
            continue
        dots_of_models: dict[str, Dot] = {}
        for entry in entries:
            dot = entry.dot(entry.headline)
            if dot and entry.model.label in models:
                dots_of_models[entry.model.label] = dot
        if dots_of_models:
            rows.append((f"{task} ↓" if score.higher is False else task, dots_of_models))
    if not rows:
        return None
    return dots("The score of each task", "%; ↓: lower is better", rows, models)


def _date(text: str) -> str:
    """Write the date in a results file's name, which has 18-26 for 18:26."""
    day, _, time = text.partition("T")
    if time:
        return f"{day} {time[:5].replace('-', ':')}"
    return day or ABSENT


def _notes(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return what sets runs apart, each note with the runs that it is true of."""
    entries_of_notes: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.benchmark is None:
            continue
        for note in notes_of(entry.benchmark, entry.file, entry.result):
            entries_of_notes.setdefault(note, []).append(entry)
    return entries_of_notes


def _listed(entries: Sequence[Entry], most: int = 6) -> str:
    """Name runs in a sentence: "A, B on task" where all models ran on all tasks."""
    tasks = dict.fromkeys(entry.result.task for entry in entries)
    models = dict.fromkeys(entry.model.label for entry in entries)
    is_whole = len(entries) == len(tasks) * len(models)
    if is_whole and len(models) > 1:
        return f"{listed(list(models), most)} on {listed(list(tasks), most)}"
    return listed([f"{entry.model.label} on {entry.result.task}" for entry in entries], most)


def _all_settings(chosen: Chosen) -> dict[str, Any]:
    """Return what figures depend on besides the weights, for the tables of settings.

    Returns:
        ``of_runs``: each setting by (model's id, task) and name, `ABSENT` where a run does not say
        it. ``by_task``: the values by task and name. ``same``: the settings that all runs share.
        ``of_tasks``: the names of those that only the runs of each task share. ``differing``: the
        names of the others. ``differing_runs``: the runs of tasks where a setting differs.
    """
    settings = {
        (entry.model.id, entry.result.task): _settings_of(entry) for entry in chosen.entries
    }
    names = list(dict.fromkeys(name for values in settings.values() for name in values))
    of_runs = {
        run: {name: values.get(name, ABSENT) for name in names} for run, values in settings.items()
    }
    by_task: dict[str, dict[str, set[str]]] = {}
    differing_runs: list[Entry] = []
    for task in chosen.tasks:
        entries = chosen.of_task(task)
        by_task[task] = {
            name: {of_runs[entry.model.id, task][name] for entry in entries} for name in names
        }
        if any(len(values) > 1 for values in by_task[task].values()):
            differing_runs += entries

    same = {}
    of_tasks = []
    differing = []
    for name in names:
        values = set[str]().union(*(of_task[name] for of_task in by_task.values()))
        if len(values) == 1:
            same[name] = values.pop()
        elif any(len(of_task[name]) > 1 for of_task in by_task.values()):
            differing.append(name)
        else:
            of_tasks.append(name)
    return {
        "of_runs": of_runs,
        "by_task": by_task,
        "same": same,
        "of_tasks": of_tasks,
        "differing": differing,
        "differing_runs": differing_runs,
    }


def _settings_of(entry: Entry) -> dict[str, str]:
    """Return what a figure depends on besides the model's weights, as far as the run says it."""
    file, result = entry.file, entry.result
    metadata = result.metadata
    data = mapping(metadata.get("data"))
    data_file = str(data.get("file") or "")
    data_blob = str(data.get("git_blob") or "")[:8]
    settings: dict[str, Any] = {
        "lm-eval": file.versions.get("lm_eval"),
        "suite": file.versions.get("suite"),
        "transformers": file.versions.get("transformers"),
        "backend": file.backend,
        "dtype": file.dtype,
        "revision": (file.revision or "")[:12],
        "task version": result.version,
        "data": f"{data_file} {data_blob}".strip(),
    }
    if entry.benchmark is not None:
        for name in entry.benchmark.data.settings:
            settings[name] = metadata.get(name)
    settings["shots"] = (file.content.get("n-shot") or {}).get(result.task)
    settings["limit"] = result.limit and f"{result.limit:g}"
    judge = metadata.get("judge_config")
    settings["judge"] = judge and metadata.get("judge")
    if judge is not None:
        settings["judge certificate"] = "yes" if metadata.get("judge_certificate") else "none"
    if file.content.get("chat_template"):
        settings["chat template"] = "yes"
    if file.content.get("system_instruction"):
        settings["system instruction"] = "yes"
    return {
        name: _setting_text(value) for name, value in settings.items() if value not in (None, "")
    }


def _setting_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {str(part)[:8]}" for name, part in value.items())
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return str(value)


def _benchmark_pages(chosen: Chosen, data: Sequence[TaskData]) -> list[Page]:
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
            "unscored": _unscored_rows(chosen, data, kinds),
            "listed": _listed,
            "notes": _notes([entry for entry in chosen.entries if entry.result.kind in kinds]),
        }
        pages.append(Page(f"{name}.html", main.title, "benchmark.html", values))
    return pages


def _judges_sections(chosen: Chosen, benchmarks: Sequence[Benchmark]) -> list[Markup]:
    """Return the section on the judges behind the scores; none where no step can be certified."""
    models: dict[tuple[str, str, tuple[Stated, ...]], list[str]] = {}
    for benchmark in benchmarks:
        for entry in chosen.of_kind(benchmark.kind):
            steps = tuple(benchmark.certified(entry.result.metadata))
            if steps:
                judge = str(entry.result.metadata["judge_config"].get("name"))
                models.setdefault((entry.result.task, judge, steps), []).append(entry.model.label)
    if not models:
        return []
    rows = []
    for (task, judge, steps), labels in models.items():
        rows += [(task, judge, step, labels) for step in steps]
    return [render(f"{__package__}/judges.html", rows=rows)]


def _unscored_rows(
    chosen: Chosen, data: Sequence[TaskData], kinds: set[str]
) -> list[tuple[str, str, str, int]]:
    """Return (task, model, reason with its cure, how many rows) for each reason."""
    labels = {model.id: model.label for model in chosen.models}
    rows = []
    for task_data in data:
        if task_data.benchmark.kind not in kinds:
            continue
        for model, reasons in task_data.reasons.items():
            for reason in reasons:
                cure = f" ({reason.cure})" if reason.cure else ""
                rows.append(
                    (task_data.task, labels[model], f"{reason.example}{cure}", reason.items)
                )
    return rows


def _is_compared(data: Sequence[TaskData]) -> bool:
    """Whether a task has the samples of two models."""
    return any(len(task_data.models) > 1 for task_data in data)


def _compare_page(chosen: Chosen, data: Sequence[TaskData]) -> Page:
    ids = {model for task_data in data for model in task_data.models}
    models = [model for model in chosen.models if model.id in ids]
    scripts = ("elements.js", "data.js", "compare.js")
    return Page(
        "compare.html", "Compare", "compared.html", {"content": page_data(models, data)}, scripts
    )


def _samples_page(chosen: Chosen, data: Sequence[TaskData]) -> Page:
    row_scripts: dict[str, None] = {}
    tasks = []
    for task_data in data:
        kind = task_data.benchmark.kind
        if task_data.samples.script:
            row_scripts[f"rows.{kind}.js"] = None
        pages = {
            model: place
            for (task, model), place in chosen.own_pages.items()
            if task == task_data.task
        }
        tasks.append(
            {
                "id": task_data.id,
                "task": task_data.task,
                "models": task_data.models,
                "rows": task_data.rows,
                "facets": task_data.facets,
                "kind": kind,
                "words": task_data.samples.outcomes,
                "margin": task_data.samples.margin,
                "facet": task_data.samples.facet,
                "pages": pages,
            }
        )
    content = {
        "chunk": CHUNK,
        "outcomes": OUTCOMES,
        "models": {model.id: model.label for model in chosen.models},
        "tasks": tasks,
    }
    scripts = ("elements.js", "data.js", "rows.js", *row_scripts, "samples.js")
    return Page("samples.html", "Samples", "samples.html", {"content": content}, scripts)
