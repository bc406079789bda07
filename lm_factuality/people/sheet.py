"""Make sheets: draw what people are asked about, and write it as a page and a CSV file.

The command `lm-factuality people sheet` makes sheets. `people correct` and leaderboards use the
same functions to find the samples of a sheet again.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.asked import SKIP, Item, Option, People, Question, Unit
from lm_factuality.benchmarks.declaration import Run, SampleDisplay
from lm_factuality.benchmarks.factor.benchmark import BENCHMARK as FACTOR
from lm_factuality.benchmarks.factor.benchmark import PEOPLE, read_contradiction_units
from lm_factuality.benchmarks.pairs import sample_errors, sample_row_of
from lm_factuality.ground.errors import ConfigError, DataError, did_you_mean, listed
from lm_factuality.ground.files import sha256_of, write_json, write_lines, write_text
from lm_factuality.ground.html import one_file, read_asset, read_file
from lm_factuality.ground.tables import write_table
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.harness.samples import read_samples
from lm_factuality.people.labels import (
    COLUMNS,
    READING_COLUMNS,
    Key,
    SheetItem,
    SheetSource,
    Stratum,
    read_key,
)
from lm_factuality.results.read import read_results_files

_LEAST_DISTANCE = 10
"""The least number of items between an item and its repetition, if the sheet is long enough."""


@dataclass(frozen=True)
class Pool:
    """All units, i.e. samples or rows of data files, that people can be asked about."""

    kind: str
    """The kind of the benchmark."""

    questions: tuple[Question, ...]
    """All questions of the benchmark."""

    sources: tuple[SheetSource, ...]
    """The runs or data files that the units come from."""

    units: tuple[Unit, ...]
    """The units. `Unit.source` is the index of their source, from 0."""


@dataclass(frozen=True)
class Sheet:
    """A sheet with questions about texts, which people answer."""

    key: Key
    """The key of the sheet, which people do not see."""

    items: tuple[Item, ...]
    """The content of the items in `Key.items`, in the same order."""

    questions: Mapping[str, Question]
    """All questions of the benchmark, by name."""


class AskedSamples(NamedTuple):
    """The samples of a run that people can be asked about."""

    path: Path
    """The samples file."""

    people: People
    """How people are asked about the samples."""

    display: SampleDisplay
    """How reports show the samples."""


class _DrawnItem(NamedTuple):
    """An item, i.e. a question about a text, that was drawn for a sheet."""

    unit: Unit
    """The sample, or row of a data file, that the item is about."""

    item: Item
    """The item."""


class Draw(NamedTuple):
    """The units that were drawn for a sheet."""

    units: list[Unit]
    """The drawn units in random order."""

    strata: list[Stratum]
    """The groups that the units were drawn from, the smallest first."""


def read_pool(
    paths: Sequence[Path], task: str | None = None, questions: Sequence[str] = ()
) -> Pool:
    """Read all units, i.e. samples or rows of data files, that people can be asked about.

    Args:
        paths: Results files or folders of them, of which the latest run of each model counts. Or
            data files of a benchmark that asks people about its data, such as FACTOR.
        task: The task to ask about, which is needed if the runs have several.
        questions: The names of the questions to ask. By default, all of them.

    Raises:
        ConfigError: There is no such task or question, or one of several tasks must be named.
        DataError: A file cannot be read, or the files hold nothing to ask people about.
    """
    if _has_results(paths):
        pool = _read_pool_of_runs(read_results_files(paths), task)
    elif task:
        raise ConfigError(f"--task {task}: data files have no task; leave it out")
    else:
        pool = _read_pool_of_factor_data(paths)

    # The options are checked here, since only the files tell which questions there are.
    question_names = [question.name for question in pool.questions]
    for name in questions:
        check_option("--question", name, question_names)
    units = keep_asked_units(pool.units, questions)
    if not units:
        raise DataError(
            f"{', '.join(map(str, paths))}: holds nothing that people can be asked about"
        )
    return replace(pool, units=units)


def _has_results(paths: Iterable[Path]) -> bool:
    """Return whether a path is a results file of lm_eval, or a folder of such files.

    lm_eval gives its results files this name, and data files have another one.
    """
    return any(
        path.name.startswith("results_") or any(path.rglob("results_*.json")) for path in paths
    )


def _read_pool_of_runs(files: Iterable[ResultsFile], task: str | None) -> Pool:
    """Read the samples of the latest run of each model on a task.

    Args:
        files: The results files of all runs.
        task: The name of the task. It may be None if the runs have only one.

    Raises:
        ConfigError: The runs have no samples to ask about, or not of this task.
    """
    runs_by_task = _latest_runs_by_task(files)
    if not runs_by_task:
        raise ConfigError(
            "--task: found no samples that people can be asked about, expected those of a judged"
            " task, of a run with --log_samples"
        )
    chosen_task = _choose_task(task, sorted(runs_by_task))
    runs = list(runs_by_task[chosen_task].values())
    sources = [_source_of_run(run) for run in runs]
    units: list[Unit] = []
    for source_index, run in enumerate(runs):
        for unit in units_of_run(run.task, run.file.label):
            units.append(replace(unit, source=source_index))
    # All runs of a task are of the same benchmark, which asks the same questions.
    questions = require_asked_samples(runs[0].task).people.questions
    return Pool(runs[0].task.kind, questions, tuple(sources), tuple(units))


def _choose_task(task: str | None, names: Sequence[str]) -> str:
    """Return the task that the user names, or the only task.

    Args:
        task: The task that the user names, or None.
        names: The names of all tasks with samples to ask about.

    Raises:
        ConfigError: There is no such task, or the user names none of several. The error lists them.
    """
    if not task and len(names) == 1:
        return names[0]
    chosen_task = task or ""
    check_option("--task", chosen_task, names)
    return chosen_task


def _source_of_run(run: Run) -> SheetSource:
    """Describe the results file and the samples file of a run, with their hashes."""
    samples = require_asked_samples(run.task).path
    return SheetSource(
        file=str(run.file.path),
        sha256=sha256_of(run.file.path),
        task=run.task.task,
        model=run.file.label,
        samples=str(samples),
        samples_sha256=sha256_of(samples),
    )


def _latest_runs_by_task(files: Iterable[ResultsFile]) -> dict[str, dict[str, Run]]:
    """Find the latest run of each model whose samples people can be asked about.

    Returns:
        The runs by task and by the label of the model: ``{"felm_gen": {"gpt2": Run(...)}}``.
    """
    runs_by_task: dict[str, dict[str, Run]] = defaultdict(dict)
    # The text of a date sorts by time, since it begins with the year.
    for file in sorted(files, key=lambda file: file.date_text):
        for result in file.tasks:
            if find_asked_samples(result) is not None:
                # A later run of the same model replaces an earlier one.
                runs_by_task[result.task][file.label] = Run(file, result)
    return runs_by_task


def _read_pool_of_factor_data(paths: Iterable[Path]) -> Pool:
    """Read the rows of FACTOR's data files that people can be asked about.

    FACTOR is the one benchmark that asks people about its data instead of models' answers.

    Args:
        paths: The data files. A folder stands for its first CSV file by name.
    """
    units: list[Unit] = []
    sources = []
    for source_index, path in enumerate(paths):
        data_file = path
        if path.is_dir():
            # A folder without a CSV file is refused when it is read.
            data_file = min(path.glob("*.csv"), default=path)
        for unit in read_contradiction_units(data_file):
            units.append(replace(unit, source=source_index))
        sources.append(SheetSource(str(data_file), sha256_of(data_file)))
    return Pool(FACTOR.kind, PEOPLE.questions, tuple(sources), tuple(units))


def check_option(option: str, name: str, names: Sequence[str]) -> None:
    """Check that the value of a command-line option is one of ``names``.

    Raises:
        ConfigError: It is another one, as in ``--by 'domian'`` for ``domain``.
    """
    if name not in names:
        expected = listed(names) or "none"
        raise ConfigError(
            f"{option} {name!r}: expected one of {expected}{did_you_mean(name, names)}"
        )


def keep_asked_units(units: Iterable[Unit], questions: Sequence[str] = ()) -> tuple[Unit, ...]:
    """Keep the units (samples or rows of data files) that have an item, i.e. a question to ask.

    Args:
        units: The units. Some have no item.
        questions: The names of the questions to ask. Items of others are removed. By default, all
            questions are asked.
    """
    kept_units = []
    for unit in units:
        items = tuple(item for item in unit.items if not questions or item.question in questions)
        if items:
            kept_units.append(replace(unit, items=items))
    return tuple(kept_units)


def find_asked_samples(result: TaskResult) -> AskedSamples | None:
    """Return the samples of a task if people can be asked about the model's answers in them.

    Returns:
        The samples. None for a run without a samples file, and for a benchmark that shows no
        samples, asks people about nothing, or asks them about its data files, as FACTOR does.
    """
    benchmark = find_benchmark(result.kind)
    if benchmark is None or result.samples is None:
        return None
    people = benchmark.people
    display = benchmark.page.samples
    if people is None or people.asks_about_data or display is None:
        return None
    return AskedSamples(result.samples, people, display)


def require_asked_samples(result: TaskResult) -> AskedSamples:
    """Return the samples of a task that people can be asked about.

    Raises:
        DataError: The task has no samples, or people cannot be asked about them.
    """
    samples = find_asked_samples(result)
    if samples is None:
        raise DataError(f"{result.task}: has no samples that people can be asked about")
    return samples


def units_of_run(result: TaskResult, model: str) -> Iterator[Unit]:
    """Yield each sample of a task with the questions (items) for people about it, as a unit.

    Args:
        result: The task of the run.
        model: The label of the model.

    Yields:
        The units in the order of the samples, with the groups that they are in:
        ``{"model": "gpt2", "verdict": "wrong", "domain": "math"}``. A sample without questions has
        no items.

    Raises:
        DataError: The task has no samples that people can be asked about.
    """
    asked_samples = require_asked_samples(result)
    display = asked_samples.display
    # Each benchmark has its own words for the four outcomes, such as "factual" for "right".
    outcomes = ("right", "wrong", "unscored", "none")
    verdicts = dict(zip(outcomes, display.outcome_labels, strict=True))
    # Users choose the facets of rows by their label, such as "Domain": --stratify domain.
    facet_kind = display.facet_label.lower()
    for sample in read_samples(asked_samples.path):
        row = sample_row_of(result, display, sample)
        # A sample that was changed by hand gets an error with its number.
        with sample_errors(result, sample):
            items = tuple(asked_samples.people.make_items(result, sample))
        groups = {
            "model": model,
            "verdict": verdicts[row.outcome],
            facet_kind: " + ".join(row.facets),
        }
        yield Unit(row.key, row.cluster, items, groups)


def make_sheet(
    pool: Pool,
    rows: int,
    stratify: Sequence[str] = (),
    repeat: float = 0.0,
    shuffle: bool = False,
    seed: int = 0,
) -> Sheet:
    """Draw units (samples or rows of data files), and put all questions about them on a sheet.

    The same seed on the same files gives the same sheet.

    Args:
        pool: The units to draw from.
        rows: The number of units to draw.
        stratify: The kinds of groups that make the strata to draw from, such as ``("verdict",)``.
            By default, there is one stratum.
        repeat: The share of items that the sheet shows twice, from 0 to 1. They come from the first
            two thirds of the sheet.
        shuffle: Whether to shuffle all items. Otherwise the items of a unit stand together, so
            that people read its text once.
        seed: The seed of the draw and of the order.

    Raises:
        ConfigError: There are too few units, or no such strata, or ``repeat`` is no share.
    """
    if not 0 <= repeat <= 1:
        raise ConfigError(f"--repeat {repeat}: expected a share from 0 to 1")
    # Each sheet has its own source of randomness, so the seed alone decides.
    rng = random.Random(seed)
    units, strata = draw_units(pool.units, rows, stratify, rng)
    drawn_items = [_DrawnItem(unit, item) for unit in units for item in unit.items]
    if shuffle:
        rng.shuffle(drawn_items)
    order = _order_items(len(drawn_items), repeat, rng)
    items_on_sheet = tuple(drawn_items[index].item for index in order)

    questions = {question.name: question for question in pool.questions}
    strata_by_name = {stratum.name: stratum for stratum in strata}
    key_items = []
    for unit, item in drawn_items:
        stratum = strata_by_name[unit.stratum(stratify)]
        key_items.append(_sheet_item(unit, item, stratum, questions[item.question]))
    # The drawn units need not ask all questions of the benchmark.
    asked_questions = {item.question for item in items_on_sheet}
    key = Key(
        benchmark=pool.kind,
        seed=seed,
        questions=tuple(name for name in questions if name in asked_questions),
        stratify=tuple(stratify),
        sources=pool.sources,
        strata=tuple(strata),
        items=_number_items(key_items, order),
    )
    return Sheet(key.with_sheet_id(), items_on_sheet, questions)


def _number_items(items: Sequence[SheetItem], order: Sequence[int]) -> tuple[SheetItem, ...]:
    """Number the items of a sheet from 1, and note which of them repeat an earlier one.

    Args:
        items: The different items.
        order: The indices of the items as the sheet shows them: ``[0, 1, 2, 1]`` repeats one.
    """
    numbered = []
    # The number under which the sheet shows each item first, by the item's index.
    first_numbers: dict[int, int] = {}
    for number, index in enumerate(order, start=1):
        repeat_of = first_numbers.get(index)
        if repeat_of is None:
            first_numbers[index] = number
        numbered.append(replace(items[index], number=number, repeat_of=repeat_of))
    return tuple(numbered)


def _sheet_item(unit: Unit, item: Item, stratum: Stratum, question: Question) -> SheetItem:
    """Describe an item as the key of a sheet stores it. `_number_items` gives it its number.

    Args:
        unit: The sample, or row of a data file, that the item is about.
        item: The item.
        stratum: The group that the unit was drawn from.
        question: The question that the item asks.
    """
    probability = stratum.drawn / stratum.units
    # An item's own options replace those of its question.
    options = item.options or question.options
    return SheetItem(
        source=unit.source,
        unit=unit.key,
        cluster=unit.cluster,
        stratum=stratum.name,
        strata={**unit.strata, **item.groups},
        probability=probability,
        weight=1 / probability,
        number=0,
        item=item.id,
        question=item.question,
        options=tuple(option.value for option in options),
        judge=item.judge,
    )


def draw_units(
    units: Sequence[Unit], count: int, stratify: Sequence[str], rng: random.Random
) -> Draw:
    """Draw units (samples or rows) at random, the same number from each group (stratum).

    A group with fewer units gives all of them, and the others give more.

    Args:
        units: The units. Within a stratum, each unit is as likely as another.
        count: The number of units to draw.
        stratify: The kinds of groups that make the strata. ``("verdict",)`` gives one stratum for
            each verdict.
        rng: The source of randomness.

    Raises:
        ConfigError: There are fewer units than ``count``, more strata, or no such strata.
    """
    units_by_stratum = _group_by_stratum(units, count, stratify)
    # Small strata come first, since larger ones must make up for the units that they lack. Each has
    # an equal share of what is still to be drawn: 10 units of strata of 2, 9 and 9 are 2, 4 and 4.
    names = sorted(units_by_stratum, key=lambda name: (len(units_by_stratum[name]), name))
    drawn: list[Unit] = []
    strata: list[Stratum] = []
    for name in names:
        members = units_by_stratum[name]
        remaining_units = count - len(drawn)
        remaining_strata = len(names) - len(strata)
        num_drawn = min(len(members), remaining_units // remaining_strata)
        drawn += rng.sample(members, num_drawn)
        strata.append(Stratum(name, len(members), num_drawn))
    # Otherwise the order would tell people the stratum, such as the judge's verdict.
    rng.shuffle(drawn)
    return Draw(drawn, strata)


def _group_by_stratum(
    units: Sequence[Unit], count: int, stratify: Sequence[str]
) -> dict[str, list[Unit]]:
    """Group units by stratum, after checking that so many can be drawn.

    Raises:
        ConfigError: There are fewer units than ``count``, more strata, or no such strata.
    """
    kinds = sorted({kind for unit in units for kind, group in unit.strata.items() if group})
    for kind in stratify:
        check_option("--stratify", kind, kinds)
    if not 0 < count <= len(units):
        raise ConfigError(
            f"--rows {count}: expected 1 to {len(units)}, which is how many people can be asked"
            " about"
        )
    groups: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        groups[unit.stratum(stratify)].append(unit)
    if count < len(groups):
        raise ConfigError(
            f"--rows {count}: there are {len(groups)} strata ({listed(sorted(groups))}); expected"
            " a row of each"
        )
    return groups


class _PlacedItem(NamedTuple):
    """An item at a place of a sheet. Items are sorted by their places."""

    place: float
    """The index of the item, or where its repetition stands: 17.3 is after the item 17."""

    item_index: int
    """The index of the item."""


def _order_items(count: int, repeat: float, rng: random.Random) -> list[int]:
    """Order the items (questions) of a sheet, and repeat some of them further on.

    Args:
        count: The number of different items.
        repeat: The share of items that come again.
        rng: The source of randomness.

    Returns:
        The indices of the items. For 4 items and a share of 0.25, it can be ``[0, 1, 2, 3, 1]``.
    """
    placed_items = [_PlacedItem(index, index) for index in range(count)]
    num_repeated = round(repeat * count)
    # An item near the end would be repeated too soon, while people remember it. So only the first
    # two thirds are repeated, unless more repetitions are asked for.
    num_repeatable = max(num_repeated, 2 * count // 3)
    for index in rng.sample(range(num_repeatable), num_repeated):
        earliest = min(index + _LEAST_DISTANCE, count)
        placed_items.append(_PlacedItem(rng.uniform(earliest, count), index))
    return [item.item_index for item in sorted(placed_items)]


def write_sheet(sheet: Sheet, out: Path, csv_only: bool = False) -> list[Path]:
    """Write a sheet as ``NAME.html``, ``NAME.csv`` and ``NAME.jsonl``, and its ``NAME.key.json``.

    Args:
        sheet: The sheet, i.e. a numbered list of questions for people.
        out: The path ``NAME``, with any ending.
        csv_only: Whether to write only the CSV file and the key.

    Returns:
        The files written. The last is the key.

    Raises:
        DataError: A file cannot be written, or the key file of another sheet would be lost.
    """
    key_file = out.with_suffix(".key.json")
    if key_file.exists():
        # The same sheet may be written again.
        existing = read_key(key_file).sheet
        if existing != sheet.key.sheet:
            raise DataError(
                f"{key_file}: is the key of sheet {existing}, whose labels nobody could read"
                " without it; choose another --out"
            )
    # The key comes first, since labels of a sheet without its key are lost.
    write_json(key_file, asdict(sheet.key))
    table = out.with_suffix(".csv")
    rows = [_csv_row(sheet, number, item) for number, item in enumerate(sheet.items, start=1)]
    write_table(table, rows, (*COLUMNS, *READING_COLUMNS))
    if csv_only:
        return [table, key_file]
    page = out.with_suffix(".html")
    write_text(page, build_page(sheet))
    lines = out.with_suffix(".jsonl")
    write_lines(lines, _jsonl_lines(sheet))
    return [page, table, lines, key_file]


def _jsonl_lines(sheet: Sheet) -> Iterator[str]:
    """Yield a sheet as lines of JSON for readers in a terminal, who answer in such lines as well.

    The first line has the questions and says how to answer. Each further line is an item.
    """
    yield json.dumps(_questions_line(sheet), ensure_ascii=False)
    for number, item in enumerate(sheet.items, start=1):
        yield json.dumps(_item_line(sheet, number, item), ensure_ascii=False)


def _questions_line(sheet: Sheet) -> dict[str, Any]:
    """Return the questions of a sheet with their verdicts, and an example of an answer."""
    questions = {}
    for name in sheet.key.questions:
        question = sheet.questions[name]
        verdicts = {**_label_by_value(question.options), SKIP: "cannot tell"}
        questions[name] = {"ask": question.ask, "verdicts": verdicts}
    answer = {"id": "the id of a line", "verdict": "a verdict", "reason": "why, if it is not clear"}
    return {"questions": questions, "answer with lines": answer}


def _item_line(sheet: Sheet, number: int, item: Item) -> dict[str, Any]:
    """Return an item of a sheet as an object.

    Example:
        ``{"id": "0a1b2c3d4e5f-1", "question": "fluent", "text": "...", "evidence": {"Text before":
        "..."}}``
    """
    line = {
        "id": f"{sheet.key.sheet}-{number}",
        "question": item.question,
        "text": item.text,
        "evidence": dict(item.context),
    }
    # An item's own options replace those of its question.
    if item.options:
        line["verdicts"] = _label_by_value(item.options)
    return line


def _label_by_value(options: Sequence[Option]) -> dict[str, str]:
    """Return the label of each option by its value, such as ``{"true": "Supported"}``."""
    return {option.value: option.label for option in options}


def _csv_row(sheet: Sheet, number: int, item: Item) -> dict[str, object]:
    """Return an item of a sheet as a row of its CSV file, in which people fill in the answer.

    Args:
        sheet: The sheet, i.e. a numbered list of questions.
        number: The number of the item on the sheet, from 1.
        item: The item, i.e. a question about a text.
    """
    question = sheet.questions[item.question]
    # Every question can be skipped.
    options = (*(item.options or question.options), Option(SKIP, "cannot tell"))
    return {
        "sheet": sheet.key.sheet,
        "number": number,
        "question": item.question,
        "ask": question.ask,
        "options": "\n".join(f"{option.value}: {option.label}" for option in options),
        "text": item.text,
        "evidence": "\n\n".join(f"[{heading}]\n{text}" for heading, text in item.context),
    }


def build_page(sheet: Sheet) -> str:
    """Return the HTML page on which people answer the questions of a sheet.

    It is a single file. People must not see the judge's verdict or the model, so the page contains
    neither.
    """
    folder = f"{__package__}/page"
    style = read_asset("look.css") + read_file(f"{folder}/sheet.css")
    # The other scripts use the functions of the first one.
    script = read_asset("elements.js")
    script += read_file(f"{folder}/progress.js") + read_file(f"{folder}/sheet.js")
    title = f"Sheet {sheet.key.sheet}"
    content = _page_content(sheet)
    return one_file(f"{folder}/sheet.html", style, script, title=title, content=content)


def _page_content(sheet: Sheet) -> dict[str, Any]:
    """Return the JSON object that ``sheet.js`` reads: the questions, and the items with texts."""
    # A text that many items show, such as a passage, is on the page once. Items refer to it by its
    # number in "texts".
    text_numbers = _number_texts(sheet.items)
    items = []
    for item in sheet.items:
        context = [(heading, text_numbers[passage]) for heading, passage in item.context]
        options = _page_options(item.options)
        # The script reads these four by their position.
        items.append([item.question, text_numbers[item.text], context, options])
    questions = {}
    for name, question in sheet.questions.items():
        questions[name] = {"ask": question.ask, "options": _page_options(question.options)}
    return {
        "sheet": sheet.key.sheet,
        "skip": SKIP,
        "columns": COLUMNS,
        "questions": questions,
        "items": items,
        "texts": list(text_numbers),
    }


def _number_texts(items: Iterable[Item]) -> dict[str, int]:
    """Number all different texts and passages of items from 0, in the order in which they occur."""
    texts = []
    for item in items:
        texts.append(item.text)
        texts += [passage for _, passage in item.context]
    # The keys of a dictionary are distinct and in order.
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def _page_options(options: Sequence[Option]) -> list[tuple[str, str, str]]:
    """Return value, label and keyboard key of each option: ``("true", "Supported", "1")``."""
    return [
        (option.value, option.label, option.key or str(number))
        for number, option in enumerate(options, start=1)
    ]
