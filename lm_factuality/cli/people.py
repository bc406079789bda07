"""``lm-factuality people``: people judge what a judge judged."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json

if TYPE_CHECKING:
    from lm_factuality.harness.outputs import TaskResult
    from lm_factuality.results.read import Correction

app = App()


@app.callback()
def people() -> None:
    """Have people judge what the judge judged, and compare.

    \b
    Examples:
      lm-factuality people sheet results --task felm_gen --rows 50 --out sheet.html
      lm-factuality people correct results --key sheet.key.json --labels labels.csv
      lm-factuality people agree --key sheet.key.json --labels ann.csv ben.csv
    """


@app.command()
def sheet(
    sources: Annotated[
        list[Path],
        Argument(metavar="SOURCE", help="Results of runs, or a FACTOR file."),
    ],
    rows: Annotated[int, Option(help="How many samples (rows of a file) to draw.")],
    out: Annotated[
        Path,
        Option(metavar="NAME.html", help="The page; NAME.csv and NAME.key.json stand beside it."),
    ],
    task: Annotated[
        str | None,
        Option(help="Which task, where runs have several that people can be asked about."),
    ] = None,
    question: Annotated[list[str] | None, Option(help="Ask only this; can be repeated.")] = None,
    stratify: Annotated[
        str,
        Option(metavar="BY,BY", help="Draw equally from strata by verdict, model, domain, ..."),
    ] = "",
    repeat: Annotated[float, Option(help="Share of items shown twice.")] = 0.05,
    scatter: Annotated[
        bool, Option("--scatter", help="Do not keep the items of a sample together.")
    ] = False,
    seed: Annotated[int, Option(help="Seed of the draw and the order.")] = 0,
    csv_only: Annotated[
        bool,
        Option("--csv-only", help="No page, only the table for a spreadsheet and the key."),
    ] = False,
) -> None:
    """Make a sheet for people to fill in, and its key.

    \b
    Examples:
      lm-factuality people sheet results --task felm_gen --rows 50 --out sheet.html
      lm-factuality people sheet results --task felm_gen --rows 60 --stratify verdict --out a.html
      lm-factuality people sheet news_factor.csv --rows 40 --question error_type --out types.html

    SOURCE is a folder with lm_eval's results, results_*.json files with their samples, or a table
    in FACTOR's columns or a folder that factor-gen built. Give annotators the page (it works
    offline, by keyboard and on phones) or the CSV file, and keep the key. The page exports CSV and
    JSON. docs/people.md has an example from sheet to corrected score.
    """
    from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet

    strata = [name for name in stratify.split(",") if name]
    pool = read_pool(sources, task, question or ())
    made = make_sheet(pool, rows, strata, repeat, scatter, seed)
    *shown, hidden = write_sheet(made, out, csv_only)
    key = made.key
    repeated = sum(item.repeat_of is not None for item in key.items)
    sys.stdout.write(
        f"Sheet {key.sheet}: {len(key.items)} items ({', '.join(key.questions)}), {repeated} of"
        " them shown again\n"
    )
    for stratum in key.strata:
        sys.stdout.write(f"  {stratum.name or 'drawn'}: {stratum.drawn} of {stratum.units}\n")
    sys.stdout.write(f"For annotators: {' or '.join(map(str, shown))}\n")
    sys.stdout.write(
        f"Not for annotators: {hidden}, with what the judge said; labels cannot be read without"
        " it\n"
    )


@app.command()
def correct(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="The results that the sheet was drawn from."),
    ],
    key: Annotated[Path, Option(help="The sheet's NAME.key.json.")],
    labels: Annotated[
        list[Path], Option(metavar="FILE...", help="What people exported or filled in.")
    ],
) -> None:
    """Correct scores for the judge's errors by people's labels.

    \b
    Examples:
      lm-factuality people correct results --key sheet.key.json --labels ann.csv ben.csv

    Corrects what the judge said about all samples by what people said about those on the sheet
    (prediction-powered inference). Where several answered, the majority decides. Writes
    corrected_TASK_DATE.json beside the results: report, compare and leaderboard show measured and
    corrected scores side by side. It holds only for these samples and labels. docs/people.md says
    when to trust it.
    """
    from lm_factuality.people.correct import correct
    from lm_factuality.people.labels import read_key
    from lm_factuality.results.read import read_results_files, write_correction

    tasks = {source.task for source in read_key(key).sources}
    files = read_results_files(results, with_corrected=False)
    corrections = []
    for file in files:
        for result in file.tasks:
            if result.task in tasks:
                corrections.append((file, result, correct(result, key, labels)))
    if not corrections:
        raise ConfigError(
            f"RESULTS: the sheet is of {', '.join(sorted(tasks))}, of which the results have none;"
            " give those that the sheet was drawn from"
        )
    for file, result, correction in corrections:
        _print_correction(result, correction)
        written = write_correction(correction, file.path)
        sys.stdout.write(f"Written to {written}, which is read with the results\n")


def _print_correction(result: "TaskResult", correction: "Correction") -> None:
    """Print the corrected scores of a task beside the measured ones."""
    from lm_factuality.benchmarks.chosen import displayed_score, score_figure
    from lm_factuality.results.compare import score_cells

    rows = []
    notes = []
    for name in result.metrics:
        corrected = correction.scores.get(name)
        if corrected is None:
            continue
        score = displayed_score(result.kind, name)
        value, interval = score_cells(score_figure(result, name), score)
        row = (
            f"{result.task}, {name}",
            value,
            interval,
            score.format_value(corrected.value),
            score.format_interval(corrected.low, corrected.high),
            f"{corrected.weight or 0:.2f}",
            f"{corrected.labelled} of {corrected.units}",
        )
        rows.append(row)
        notes.append(f"{result.task}: corrected {corrected.how}")
    explanation = (
        "lambda: how far the judge is believed between the labels, from 0 (not at all) to 1."
    )
    notes = [*dict.fromkeys(notes), explanation]
    notes += [f"{count} samples: {reason}" for reason, count in correction.left_out.items()]
    notes += [f"{name}: {reason}" for name, reason in correction.without.items()]
    names = ("measured", "95% interval", "corrected", "95% interval ", "lambda", "labelled")
    columns = ("score", *(f"#{name}" for name in names))
    print_table("Scores corrected for the judge", columns, rows, notes)


@app.command()
def agree(
    key: Annotated[Path, Option(help="The key of a sheet.")],
    labels: Annotated[
        list[Path], Option(metavar="FILE...", help="What people answered: CSV or JSON.")
    ],
    by: Annotated[
        str,
        Option(help="Also within groups: a stratum (domain), or another question."),
    ] = "",
    results: Annotated[
        list[Path] | None,
        Option(metavar="RESULTS...", help="The sheet's runs: responses' scores too."),
    ] = None,
    figures: Annotated[
        Path | None, Option("--with", help="Published figures to put beside them.")
    ] = None,
    json_file: Annotated[Path | None, Option("--json", help="Write everything as JSON.")] = None,
) -> None:
    """Say how far people agree, with each other and with the judge.

    \b
    Examples:
      lm-factuality people agree --key sheet.key.json --labels ann.csv ben.json --results results
      lm-factuality people agree --key sheet.key.json --labels ann.csv --by domain
      lm-factuality people agree --key types.key.json --labels ann.csv --by error_type

    Agreement, kappas and Krippendorff's alpha by question, of people with each other, with
    themselves where an item came twice, and with the judge. --results adds the scores of each
    response by people and by the judge (tables 3 and 5 of the D-FActScore paper).
    """
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.ground.settings import read_settings
    from lm_factuality.ground.suite import read_config
    from lm_factuality.people.agreement import Figures, agreement_of, tables_of
    from lm_factuality.people.labels import read_key, read_labels
    from lm_factuality.people.responses import compare_responses, read_responses

    published: Figures = {}
    if figures:
        published = read_settings(Figures, read_config(figures), str(figures))
    sheet_key = read_key(key)
    answers = read_labels(labels, sheet_key)
    cells = agreement_of(sheet_key, answers, by)
    notes = []
    if results:
        responses = read_responses(results, sheet_key, answers)
        benchmark = find_benchmark(sheet_key.benchmark)
        if benchmark:
            cells += compare_responses(responses, benchmark.table_scores)
        notes.append(f"{len(responses)} responses have all the answers that their scores need.")
    for table in tables_of(cells, published):
        print_table(*table)
    sys.stdout.writelines(f"{note}\n" for note in notes)
    if json_file:
        write_json(json_file, [asdict(cell) for cell in cells])
