"""``lm-factuality people``: what people say of judged texts, beside what the judge says."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from lm_factuality.benchmarks import all_sources, find_benchmark
from lm_factuality.benchmarks.biographies.measured import (
    METRICS,
    read_columns,
    read_people,
    read_results,
)
from lm_factuality.benchmarks.biographies.summary import SCORES
from lm_factuality.cli.outcome import print_corrected
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json
from lm_factuality.ground.published import locate
from lm_factuality.ground.settings import read_settings
from lm_factuality.ground.suite import read_config
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.people.agreement import Cell, Figures, agreement_of, draw_cells, tables_of
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key, read_labels
from lm_factuality.people.responses import compare_responses, match, read_responses
from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet
from lm_factuality.results.read import read_results_file, read_results_files, write_correction

_DRAWN = ("D-FActScore", "Biographies")


def people_sheet(parsed: argparse.Namespace) -> None:
    by = tuple(filter(None, parsed.stratify.split(",")))
    pool = read_pool(parsed.sources, parsed.task, parsed.question)
    sheet = make_sheet(pool, parsed.rows, by, parsed.repeat, parsed.scatter, parsed.seed)
    *shown, hidden = write_sheet(sheet, parsed.out, parsed.csv_only)
    key, again = sheet.key, sum(each.repeat_of is not None for each in sheet.key.items)
    sys.stdout.write(
        f"Sheet {key.sheet}: {len(key.items)} items ({', '.join(key.questions)}), {again} of them"
        " shown again\n"
    )
    sys.stdout.writelines(
        f"  {each.name or 'drawn'}: {each.drawn} of {each.units}\n" for each in key.strata
    )
    sys.stdout.write(f"For annotators: {' or '.join(map(str, shown))}\n")
    sys.stdout.write(
        f"Not for annotators: {hidden}, with what the judge said; labels cannot be read without"
        " it\n"
    )


def people_agree(parsed: argparse.Namespace) -> None:
    by_sheet, by_file = (parsed.key, parsed.labels), (parsed.human, parsed.auto)
    if all(by_sheet) == all(by_file) or (any(by_sheet) and any(by_file)):
        raise ConfigError("expected --key and --labels of a sheet, or --human and --auto")
    figures = (
        read_settings(Figures, read_config(parsed.figures), str(parsed.figures))
        if parsed.figures
        else {}
    )
    cells, notes = _of_sheet(parsed) if parsed.key else _of_files(parsed)
    for table in tables_of(cells, figures):
        print_table(*table)
    sys.stdout.writelines(f"{note}\n" for note in notes)
    if parsed.json:
        write_json(parsed.json, [asdict(each) for each in cells])
    if parsed.plot:
        columns, what = (
            (("agreement, %",), "items that agree, %")
            if parsed.key
            else (_DRAWN, "Pearson's r of people and judge")
        )
        draw_cells(
            [cell for cell in cells if cell.table in ("people", "pairs", "correlations")],
            columns,
            what,
            parsed.plot,
        )
        sys.stdout.write(f"Plot: {parsed.plot}\n")


def _of_sheet(parsed: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    key, notes = read_key(parsed.key), []
    labels = read_labels(parsed.labels, key)
    cells = agreement_of(key, labels, parsed.by)
    if len({entry.weight for entry in key.items}) > 1:
        notes.append(
            "Strata were drawn unequally, so shares count items by their weights; coefficients"
            " count all alike."
        )
    if parsed.results:
        both, benchmark = read_responses(parsed.results, key, labels), find_benchmark(key.benchmark)
        cells += compare_responses(both, benchmark.shown) if benchmark and both else []
        notes.append(f"{len(both)} responses have all the answers that their scores need.")
    return cells, notes


def _of_files(parsed: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    source = all_sources().get(parsed.human)
    path = (
        Path(parsed.human) if source is None or Path(parsed.human).exists() else locate(source).path
    )
    people = read_people(path, read_columns(parsed.columns) if parsed.columns else None)
    default = (
        people[0].model if len(parsed.auto) == len({each.model for each in people}) == 1 else None
    )
    judge = [each for argument in parsed.auto for each in read_results(argument, default)]
    matched = match(people, judge)
    scores = [score for score in SCORES if score.name in METRICS]
    left_out = (
        f"{len(people)} rows of people; {matched.only_people} responses that only people,"
        f" {matched.only_judge} that only the judge measured."
    )
    return list(compare_responses(matched.responses, scores)), [left_out]


def _tasks_of_sheet(parsed: argparse.Namespace) -> list[tuple[ResultsFile, TaskResult]]:
    wanted = {each.task for each in read_key(parsed.key).sources}
    files = read_results_files(parsed.results, with_corrected=False)
    found = [
        (file, task)
        for file in files
        for task in file.tasks
        if task.task in wanted and parsed.task in (None, task.task)
    ]
    if not found:
        there = ", ".join(sorted({task.task for file in files for task in file.tasks}))
        raise ConfigError(
            f"{parsed.task or 'RESULTS'}: the sheet is of {', '.join(sorted(wanted))}, the results"
            f" are of {there}"
        )
    return found


def people_correct(parsed: argparse.Namespace) -> None:
    found = _tasks_of_sheet(parsed)
    for file, correction in [
        (file, correct(task, parsed.key, parsed.labels)) for file, task in found
    ]:
        written = write_correction(correction, file.path)
        print_corrected([read_results_file(file.path)], [correction.task])
        lines = [f"{count} samples: {reason}" for reason, count in correction.left_out.items()]
        lines += [f"{name}: {reason}" for name, reason in correction.without.items()]
        sys.stdout.writelines(
            f"{line}\n"
            for line in [*lines, f"Written to {written}, which is read with the results"]
        )
