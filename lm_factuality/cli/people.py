"""The command ``people``: people check a judge's verdicts.

``lm_factuality.cli.main`` registers it.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, echo

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import print_table
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json

if TYPE_CHECKING:
    from lm_factuality.harness.outputs import Corrected, TaskResult
    from lm_factuality.people.labels import Key as SheetKey
    from lm_factuality.results.read import Correction

_NOTHING_TO_CORRECT = 2  # the exit code

app = App()
KeyFile = Annotated[Path, Option(help="The sheet's NAME.key.json.")]
LabelFiles = Annotated[
    list[Path],
    Option(metavar="FILE...", help="The files that people exported or filled in: CSV or JSONL."),
]


@app.callback()
def people() -> None:
    """Have people check a judge's verdicts, and compare their labels with them.

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
        Argument(
            metavar="SOURCE", help="Results of runs, or a file of FACTOR rows, as described below."
        ),
    ],
    rows: Annotated[int, Option(help="How many samples, or rows of a FACTOR file, to draw.")],
    out: Annotated[
        Path,
        Option(
            metavar="NAME.html",
            help="HTML page to write. NAME.csv and NAME.key.json go to the same folder.",
        ),
    ],
    task: Annotated[
        str | None,
        Option(help="The task to draw from (default: the only one that people can label)."),
    ] = None,
    question: Annotated[
        list[str] | None,
        Option(help="Ask only this question (default: all of the task). Can be repeated."),
    ] = None,
    stratify: Annotated[
        str,
        Option(
            metavar="BY,BY",
            help="Draw equally many samples of each verdict, model, domain, ... (default: draw from"
            " all samples alike).",
        ),
    ] = "",
    repeat: Annotated[
        float, Option(help="Share of items, from 0 to 1, that are shown twice.")
    ] = 0.05,
    shuffle: Annotated[
        bool,
        Option(
            "--shuffle",
            help="Mix the items of all samples (default: the items of a sample stay together).",
        ),
    ] = False,
    seed: Annotated[int, Option(help="Seed of the random draw and order.")] = 0,
    csv_only: Annotated[
        bool,
        Option("--csv-only", help="Write the CSV table and the key, but no page."),
    ] = False,
) -> None:
    """Draw samples, and make a sheet on which people label them.

    \b
    Examples:
      lm-factuality people sheet results --task felm_gen --rows 50 --out sheet.html
      lm-factuality people sheet results --task felm_gen --rows 60 --stratify verdict --out a.html
      lm-factuality people sheet news_factor.csv --rows 40 --question error_type --out types.html

    SOURCE is one of: a folder with lm_eval's results; results_*.json files with their samples; a
    table in FACTOR's columns; a folder that factor-gen built.

    Give annotators the page or the CSV file, and keep the key. The page works offline, by keyboard
    and on phones, and exports labels as CSV or JSONL. docs/people.md has an example from sheet to
    corrected score.
    """
    from lm_factuality.people.sheet import make_sheet, read_pool, write_sheet

    # An empty option means no strata, where "".split(",") would give one.
    strata = [name for name in stratify.split(",") if name]
    pool = read_pool(sources, task, question or ())
    new_sheet = make_sheet(pool, rows, strata, repeat, shuffle, seed)
    # The key holds the judge's verdicts, so annotators must not see it.
    *annotator_files, key_file = write_sheet(new_sheet, out, csv_only)

    _print_key(new_sheet.key)
    echo(f"For annotators: {' or '.join(map(str, annotator_files))}")
    echo(
        f"Not for annotators: {key_file}, with what the judge said; labels cannot be read without"
        " it"
    )


def _print_key(key: "SheetKey") -> None:
    """Print how many items a sheet has, and how many were drawn from each stratum.

    A stratum is a group of samples, such as those with the same verdict, from which the same number
    is drawn.

    Args:
        key: The key of the sheet, which lists its items and strata.
    """
    from lm_factuality.people.correct import FEWEST_LABELS

    num_repeated = sum(item.repeat_of is not None for item in key.items)
    echo(
        f"Sheet {key.sheet}: {len(key.items)} items ({', '.join(key.questions)}), {num_repeated} of"
        " them asked twice"
    )
    for stratum in key.strata:
        echo(f"  {stratum.name or 'drawn'}: {stratum.drawn} of {stratum.units}")
    num_drawn = sum(stratum.drawn for stratum in key.strata)
    if num_drawn < FEWEST_LABELS:
        echo(
            f"warning: 'people correct' needs labels on at least {FEWEST_LABELS} samples, and this"
            f" sheet has {num_drawn}; draw more with --rows",
            err=True,
        )


@app.command()
def correct(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="The results that the sheet was drawn from."),
    ],
    key: KeyFile,
    labels: LabelFiles,
) -> None:
    """Correct scores for the judge's errors, with the labels of people.

    \b
    Examples:
      lm-factuality people correct results --key sheet.key.json --labels ann.csv ben.csv

    From the labels on the sheet, the command estimates how the judge errs on all samples
    (prediction-powered inference). If several people answered a question, the majority decides.

    The command writes corrected_TASK_DATE.json to the folder of the results. The commands report,
    compare and leaderboard then show measured and corrected scores side by side. The correction
    holds only for these samples and labels. docs/people.md says when to trust it. If the labels
    correct no score, the exit code is 2.
    """
    from lm_factuality.people.correct import NotCorrectedError, correct_scores
    from lm_factuality.people.labels import read_key
    from lm_factuality.results.read import read_results_files, write_correction

    sheet_tasks = {source.task for source in read_key(key).sources}
    # A correction of a correction would count the labels twice.
    files = read_results_files(results, with_corrected=False)
    runs = [(file, result) for file in files for result in file.tasks if result.task in sheet_tasks]
    if not runs:
        raise ConfigError(
            f"RESULTS: no results of {', '.join(sorted(sheet_tasks))}, which the sheet is of; give"
            " the results that the sheet was drawn from"
        )
    # No file is written if one of the corrections is not possible.
    try:
        corrections = [correct_scores(result, key, labels) for _, result in runs]
    except NotCorrectedError as error:
        echo(f"lm-factuality people correct: {error}", err=True)
        raise Exit(_NOTHING_TO_CORRECT) from error
    for (file, result), correction in zip(runs, corrections, strict=True):
        _print_correction(result, correction)
        path = write_correction(correction, file.path)
        echo(f"Wrote {path}. It is read together with the results.")


def _print_correction(result: "TaskResult", correction: "Correction") -> None:
    """Print a table with the measured and the corrected scores of a task.

    Args:
        result: The measured scores of the task.
        correction: The corrected scores, and the reasons why some scores or samples have none.
    """
    rows = []
    notes = []
    for name in result.metrics:
        corrected = correction.scores.get(name)
        # Only some scores depend on the judge.
        if corrected is None:
            continue
        rows.append(_correction_row(result, name, corrected))
        note = f"{result.task}: corrected {corrected.how}"
        # Scores that were corrected in the same way share a note.
        if note not in notes:
            notes.append(note)

    notes.append(
        "lambda: how much weight the judge's verdicts get, from 0 (only labels count) to 1."
    )
    notes += [f"{count} samples: {reason}" for reason, count in correction.left_out.items()]
    notes += [f"{name}: {reason}" for name, reason in correction.without.items()]
    # The sign # marks columns of numbers. The second interval's name ends in a space, since the
    # names of columns must differ.
    columns = (
        "score",
        "#measured",
        "#95% interval",
        "#corrected",
        "#95% interval ",
        "#lambda",
        "#labelled",
    )
    print_table("Scores corrected for the judge", columns, rows, notes)


def _correction_row(result: "TaskResult", name: str, corrected: "Corrected") -> tuple[str, ...]:
    """Return the row of a score with its measured and its corrected value and interval."""
    from lm_factuality.benchmarks.chosen import displayed_score, score_figure
    from lm_factuality.results.compare import score_cells

    score = displayed_score(result.kind, name)
    return (
        f"{result.task}, {name}",
        *score_cells(score_figure(result, name), score),
        score.format_value(corrected.value),
        score.format_interval(corrected.low, corrected.high),
        f"{corrected.weight or 0:.2f}",
        f"{corrected.labelled} of {corrected.units}",
    )


@app.command()
def agree(
    key: KeyFile,
    labels: LabelFiles,
    by: Annotated[
        str,
        Option(
            help="Also show agreement within the groups of a stratum, such as domain, or of the"
            " answers to a question (default: over all items only)."
        ),
    ] = "",
    results: Annotated[
        list[Path] | None,
        Option(
            metavar="RESULTS...",
            help="Results that the sheet was drawn from, to compare scores of responses as well.",
        ),
    ] = None,
    figures: Annotated[
        Path | None, Option("--with", help="YAML file of published figures to show as well.")
    ] = None,
    json_file: Annotated[
        Path | None, Option("--json", help="JSON file to write all figures to.")
    ] = None,
) -> None:
    """Measure how well people agree with each other and with the judge.

    \b
    Examples:
      lm-factuality people agree --key sheet.key.json --labels ann.csv ben.jsonl --results results
      lm-factuality people agree --key sheet.key.json --labels ann.csv --by domain
      lm-factuality people agree --key types.key.json --labels ann.csv --by error_type

    For each question, the tables show agreement, kappas and Krippendorff's alpha: between people,
    between the two labels that a person gave to a repeated item, and between people and the judge.
    With --results, the tables also compare the scores that people and the judge give to
    responses (tables 3 and 5 of the D-FActScore paper).
    """
    from lm_factuality.benchmarks import find_benchmark
    from lm_factuality.ground.settings import read_settings
    from lm_factuality.ground.suite import read_config
    from lm_factuality.people.agreement import Figures, agreement_of, tables_of
    from lm_factuality.people.labels import read_key, read_labels
    from lm_factuality.people.responses import compare_responses, read_responses

    # Published figures fill a column beside the measured ones.
    published: Figures = {}
    if figures:
        published = read_settings(Figures, read_config(figures), str(figures))
    sheet_key = read_key(key)
    answers = read_labels(labels, sheet_key)
    cells = agreement_of(sheet_key, answers, by)
    responses = []
    if results:
        responses = read_responses(results, sheet_key, answers)
        # A benchmark of a package that is not installed has no scores to compare.
        benchmark = find_benchmark(sheet_key.benchmark)
        if benchmark:
            cells += compare_responses(responses, benchmark.table_scores)
    for table in tables_of(cells, published):
        print_table(*table)
    if results:
        echo(f"{len(responses)} responses have all labels that their scores need.")
    if json_file:
        write_json(json_file, [asdict(cell) for cell in cells])
