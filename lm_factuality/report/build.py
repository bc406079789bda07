"""A report as a folder, put in place whole: of each model and task the newest run, and what to know
before any figure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from lm_factuality.ground.plots import MOST_SERIES, Plot, dots
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

MARK = "report.json"  # says that a folder is a report of ours, which may be replaced
_SHARED = (STYLE, SCRIPT, "elements.js")
_OWN = ("report.css", "data.js", "compare.js", "rows.js", "samples.js")
ABSENT = "–"


@dataclass(frozen=True)
class Built:
    """What was built: where, of how many models and tasks, its pages, and what the reader should
    know."""

    folder: Path
    models: int
    tasks: int
    pages: tuple[str, ...]
    bytes: int
    without_samples: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """A page: its file, what the navigation calls it, its template with its values, and its
    scripts."""

    href: str
    label: str
    template: str
    values: dict[str, Any]
    scripts: tuple[str, ...] = ()


def build_report(paths: Sequence[Path], out: Path, title: str = "Factuality report") -> Built:
    """Writes the report of all results below ``paths`` into the folder ``out``. An earlier report
    there is replaced when the new one is whole. Raises DataError: there are no results, a file
    cannot be used, or ``out`` exists and is no report."""
    with whole_folder(out, MARK) as part:
        chosen = choose(paths)
        pages = _write(chosen, part, title)
        size = sum(each.stat().st_size for each in part.rglob("*") if each.is_file())
        without = sum(entry.result.samples is None for entry in chosen.entries)
        return Built(out, len(chosen.models), len(chosen.tasks), pages, size, without, chosen.notes)


def _write(chosen: Chosen, folder: Path, title: str) -> tuple[str, ...]:
    data = write_data(chosen, folder / "data")
    chosen = with_samples(replace(chosen, own_pages=_write_own_pages(chosen, folder)), data)
    pages = list(_pages(chosen, data, title))
    views = {each.benchmark.kind: each.samples.script for each in data if each.samples.script}
    assets = {name: read_asset(name) for name in _SHARED} | {
        name: read_file(f"{__package__}/scripts/{name}") for name in _OWN
    }
    assets |= {
        f"rows.{kind}.js": script.read_text(encoding="utf-8") for kind, script in views.items()
    }
    for name, text in assets.items():
        write_text(folder / "assets" / name, text)
    if any(len(each.models) > 1 for each in data):
        write_pairs(chosen.models, data, folder / "data")
    links = [Link(page.href, page.label) for page in pages]
    frame = {
        "site": title,
        "links": links,
        "root": "",
        "styles": ["assets/report.css"],
        "version": __version__,
    }
    for page in pages:
        scripts = [f"assets/{name}" for name in page.scripts]
        shown = {
            "title": title if page.href == "index.html" else page.label,
            "here": page.href,
            "scripts": scripts,
        }
        write_text(
            folder / page.href,
            render(f"{__package__}/{page.template}", **frame, **shown, **page.values),
        )
    results, names = (
        sorted({entry.file.path.name for entry in chosen.entries}),
        tuple(page.href for page in pages),
    )
    write_json(
        folder / MARK,
        {
            "made_by": f"lm-factuality {__version__}",
            "title": title,
            "pages": names,
            "results": results,
        },
    )
    return names


def _write_own_pages(chosen: Chosen, folder: Path) -> dict[tuple[str, str], str]:
    """The pages that benchmarks make of the samples of a run; returns their places by (task,
    model's id)."""
    found: dict[tuple[str, str], str] = {}
    for entry in chosen.entries:
        samples = entry.benchmark.page.samples if entry.benchmark else None
        if samples is None or samples.own_pages is None or entry.result.samples is None:
            continue
        name, make = samples.own_pages
        place = f"{name}/{chosen.tasks.index(entry.result.task)}-{entry.model.id}.html"
        write_text(folder / place, make(entry))
        found[entry.result.task, entry.model.id] = place
    return found


def _pages(chosen: Chosen, data: Sequence[TaskData], title: str) -> Iterator[Page]:
    without = [entry for entry in chosen.entries if entry.result.samples is None]
    shown = {
        "chosen": chosen,
        "notes": _notes(chosen.entries),
        "without": without,
        "picture": overview_plot(chosen),
    }
    means = {
        "settings": _all_settings(chosen),
        "listed": _listed,
        "date": _date,
        "most_series": MOST_SERIES,
    }
    yield Page("index.html", "Overview", "overview.html", {**shown, **means})
    by_page: dict[str, list[Benchmark]] = {}
    for benchmark in all_benchmarks():
        by_page.setdefault(benchmark.page_name, []).append(benchmark)
    for name, (main, *others) in by_page.items():
        present = [each for each in (main, *others) if chosen.of_kind(each.kind)]
        if present:
            parts = [
                each.page.sections(chosen)
                if each.page.sections
                else [scores_section(chosen, each.kind)]
                for each in present
            ]
            sections = [*(section for part in parts for section in part), *_judges(chosen, present)]
            kinds = {each.kind for each in present}
            entries = [entry for entry in chosen.entries if entry.result.kind in kinds]
            labels = {model.id: model.label for model in chosen.models}
            unscored = [
                (
                    each.task,
                    labels[model],
                    f"{reason.example}{reason.cure and f' ({reason.cure})'}",
                    reason.items,
                )
                for each in data
                if each.benchmark.kind in kinds
                for model, reasons in each.reasons.items()
                for reason in reasons
            ]
            values = {
                "heading": main.title,
                "lead": main.page.lead,
                "sections": sections,
                "unscored": unscored,
                "listed": _listed,
            }
            yield Page(
                f"{name}.html", main.title, "benchmark.html", {**values, "notes": _notes(entries)}
            )
    able = [model for model in chosen.models if any(model.id in each.models for each in data)]
    if any(len(each.models) > 1 for each in data):
        content = page_data(able, data)
        yield Page(
            "compare.html",
            "Compare",
            "compared.html",
            {"content": content},
            ("elements.js", "data.js", "compare.js"),
        )
    if data:
        views = dict.fromkeys(
            f"rows.{each.benchmark.kind}.js" for each in data if each.samples.script
        )
        scripts = ("elements.js", "data.js", "rows.js", *views, "samples.js")
        yield Page(
            "samples.html", "Samples", "samples.html", {"content": _browsed(chosen, data)}, scripts
        )


def _judges(chosen: Chosen, benchmarks: Sequence[Benchmark]) -> Iterator[Markup]:
    found: dict[tuple[str, str, Sequence[Stated]], list[str]] = {}
    for benchmark in benchmarks:
        for entry in chosen.of_kind(benchmark.kind):
            if stated := tuple(benchmark.certified(entry.result.metadata)):
                judge = str(entry.result.metadata["judge_config"].get("name"))
                found.setdefault((entry.result.task, judge, stated), []).append(entry.model.label)
    if found:
        rows = [
            (task, judge, each, models)
            for (task, judge, stated), models in found.items()
            for each in stated
        ]
        yield render(f"{__package__}/judges.html", rows=rows)


def _browsed(chosen: Chosen, data: Sequence[TaskData]) -> dict[str, Any]:
    tasks = []
    for each in data:
        about = {key: getattr(each, key) for key in ("id", "task", "models", "rows", "facets")}
        words = {
            "words": each.samples.outcomes,
            "margin": each.samples.margin,
            "facet": each.samples.facet,
        }
        pages = {
            model: page for (task, model), page in chosen.own_pages.items() if task == each.task
        }
        tasks.append({**about, "kind": each.benchmark.kind, **words, "pages": pages})
    return {
        "chunk": CHUNK,
        "outcomes": OUTCOMES,
        "models": {model.id: model.label for model in chosen.models},
        "tasks": tasks,
    }


def choose(paths: Sequence[Path]) -> Chosen:
    """The runs of all results files that ``paths`` name. Raises DataError: a path without results,
    or a file without tasks."""
    runs, notes = newest(
        Run(file, task) for file in read_results_files(paths) for task in file.tasks
    )
    if not runs:
        where = ", ".join(str(path) for path in paths)
        raise DataError(
            f"{where}: the results files hold no task; give the folder of a finished lm_eval run"
        )
    variants = [
        ", ".join(filter(None, (run.file.variant, run.protocol and f"protocol {run.protocol}")))
        for run in runs
    ]
    found = {
        (run.file.model, variant): run.file for run, variant in zip(runs, variants, strict=True)
    }
    models = _models(found)
    shown = [
        Entry(models[run.file.model, variant], run.file, run.task)
        for run, variant in zip(runs, variants, strict=True)
    ]
    entries = sorted(shown, key=lambda entry: (entry.result.task, entry.model.label))
    tasks = tuple(dict.fromkeys(entry.result.task for entry in entries))
    in_order = sorted(
        {entry.model.id: entry.model for entry in entries}.values(), key=lambda model: model.label
    )
    return Chosen(tuple(in_order), tasks, tuple(entries), tuple(notes))


def _models(files: Mapping[tuple[str, str], ResultsFile]) -> dict[tuple[str, str], Model]:
    short, found = _short_names(name for name, _ in files), {}
    for number, ((name, variant), file) in enumerate(
        sorted(files.items(), key=lambda each: each[0])
    ):
        label = f"{short[name]} ({variant})" if variant else short[name]
        size = file.num_parameters or size_in_name(name)
        found[name, variant] = Model(
            f"m{number}", label, name, variant, file.backend, size, family(name)
        )
    return found


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """A model on the Hub keeps its name; a folder is called by its last part, or by as many as tell
    it from the others."""
    known = sorted(set(names))
    short = {name: name for name in known}
    folders = [name for name in known if name.count("/") > 1 or name.startswith((".", "/"))]
    for length in range(1, max((name.count("/") for name in folders), default=0) + 1):
        ends = Counter("/".join(each.split("/")[-length:]) for each in known)
        for name in folders:
            end = "/".join(name.split("/")[-length:])
            if short[name] == name and ends[end] == 1:
                short[name] = end
    return short


def _notes(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        for note in notes_of(entry.benchmark, entry.file, entry.result) if entry.benchmark else ():
            found.setdefault(note, []).append(entry)
    return found


def _listed(entries: Sequence[Entry], most: int = 6) -> str:
    tasks = dict.fromkeys(entry.result.task for entry in entries)
    models = dict.fromkeys(entry.model.label for entry in entries)
    is_whole = len(entries) == len(tasks) * len(models)
    if is_whole and len(models) > 1:
        return f"{listed(list(models), most)} on {listed(list(tasks), most)}"
    return listed([f"{entry.model.label} on {entry.result.task}" for entry in entries], most)


def overview_plot(chosen: Chosen) -> Plot | None:
    """The headlines that are shares, a line a task; None where there are none."""
    models, rows = [model.label for model in chosen.models[:MOST_SERIES]], []
    for task in chosen.tasks:
        score = chosen.of_task(task)[0].headline
        if (
            score is None
            or score.measure is None
            or (score.measure.low, score.measure.high) != (0, 1)
        ):
            continue
        drawn = {
            entry.model.label: entry.dot(entry.headline)
            for entry in chosen.of_task(task)
            if entry.model.label in models
        }
        if found := {label: dot for label, dot in drawn.items() if dot}:
            rows.append((f"{task} ↓" if score.higher is False else task, found))
    return dots("The score of each task", "%; ↓: lower is better", rows, models) if rows else None


def _date(text: str) -> str:
    """The date in a results file's name, which writes 18:26 as 18-26."""
    day, _, time = text.partition("T")
    return f"{day} {time[:5].replace('-', ':')}" if time else day or ABSENT


def _all_settings(chosen: Chosen) -> dict[str, Any]:
    """What figures depend on besides the weights: ``of_runs`` by (model's id, task) and name,
    ``by_task`` by task and name; which names are the ``same`` in all runs, in all runs of a task
    (``of_tasks``), or ``differing`` there. Not said: ``ABSENT``."""
    said = {(entry.model.id, entry.result.task): _settings_of(entry) for entry in chosen.entries}
    names = list(dict.fromkeys(name for each in said.values() for name in each))
    of_runs = {run: {name: each.get(name, ABSENT) for name in names} for run, each in said.items()}
    values = {
        task: {
            name: {of_runs[entry.model.id, task][name] for entry in chosen.of_task(task)}
            for name in names
        }
        for task in chosen.tasks
    }
    everywhere = {
        name: set().union(*(values[task][name] for task in chosen.tasks)) for name in names
    }
    same = {name: next(iter(found)) for name, found in everywhere.items() if len(found) == 1}
    differing = [
        name for name in names if any(len(values[task][name]) > 1 for task in chosen.tasks)
    ]
    tasks = [
        task for task in chosen.tasks if any(len(values[task][name]) > 1 for name in differing)
    ]
    runs = [entry for task in tasks for entry in chosen.of_task(task)]
    of_tasks = [name for name in names if name not in same and name not in differing]
    names_of = {"same": same, "of_tasks": of_tasks, "differing": differing}
    return {"of_runs": of_runs, "by_task": values, "differing_runs": runs, **names_of}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {str(each)[:8]}" for name, each in value.items())
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _settings_of(entry: Entry) -> dict[str, str]:
    """What a figure depends on besides the model's weights, by name; what a run does not say is
    absent."""
    file, result = entry.file, entry.result
    data = mapping(result.metadata.get("data"))
    judge = result.metadata.get("judge_config")
    certificate = result.metadata.get("judge_certificate")
    content = file.content
    found: dict[str, Any] = {
        "lm-eval": file.versions.get("lm_eval"),
        "suite": file.versions.get("suite"),
        "transformers": file.versions.get("transformers"),
        "backend": file.backend,
        "dtype": file.dtype,
        "revision": (file.revision or "")[:12] or None,
        "task version": result.version,
        "data": " ".join(
            filter(None, (str(data.get("file") or ""), str(data.get("git_blob") or "")[:8]))
        ),
        **{
            name: result.metadata.get(name)
            for name in (entry.benchmark.data.settings if entry.benchmark else ())
        },
        "shots": (content.get("n-shot") or {}).get(result.task),
        "limit": result.limit and f"{result.limit:g}",
        "judge": judge and result.metadata.get("judge"),
        "judge certificate": None if judge is None else "yes" if certificate else "none",
        "chat template": "yes" if content.get("chat_template") else None,
        "system instruction": "yes" if content.get("system_instruction") else None,
    }
    return {name: _text(value) for name, value in found.items() if value not in (None, "")}
