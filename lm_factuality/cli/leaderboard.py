"""``lm-factuality leaderboard``: submissions to a leaderboard, and the leaderboard as a site."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lm_factuality.ground.command_line import App
from lm_factuality.ground.console import plural, print_table
from lm_factuality.ground.errors import printable

if TYPE_CHECKING:
    from lm_factuality.leaderboard.check import Checked

app = App()
Rules = Annotated[
    Path | None,
    Option(help="Folder of rules, NAME.yaml each (default: the suite's own).", exists=True),
]
Submissions = Annotated[Path, Argument(metavar="SUBMISSIONS", help="Folder with submissions.")]


@app.callback()
def leaderboard() -> None:
    """Make and check submissions, and the leaderboard as a site.

    \b
    Examples:
      lm-factuality leaderboard pack results --model facebook/opt-125m --out submissions
      lm-factuality leaderboard check submissions
      lm-factuality leaderboard build submissions --out site

    The results come from a run with the leaderboard's config:

    \b
      lm-factuality run --config configs/leaderboard/factor.yaml --model_args pretrained=MODEL
    """


@app.command()
def pack(
    results: Annotated[
        list[Path],
        Argument(metavar="RESULTS", help="lm_eval's --output_path, or files in it."),
    ],
    model: Annotated[
        str, Option(metavar="ORG/NAME", help="The model's name on the Hub, or one like it.")
    ],
    out: Annotated[Path, Option(help="Folder of submissions.")],
    revision: Annotated[
        str,
        Option(help="Which weights, where the results do not say."),
    ] = "",
    dtype: Annotated[
        str, Option(help="The model's number format, where the results do not say.")
    ] = "",
    certificate: Annotated[
        Path | None,
        Option(help="The judge's, as 'certify --out' wrote it."),
    ] = None,
    key: Annotated[
        Path | None,
        Option(help="Key of the sheet whose labels correct the scores."),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        Option(metavar="FILE...", help="The labels, which are published too."),
    ] = None,
    rules: Rules = None,
) -> None:
    """Make a submission out of lm_eval's results.

    \b
    Examples:
      lm-factuality leaderboard pack results --model facebook/opt-125m --out submissions
      lm-factuality leaderboard pack results --model ORG/NAME --certificate FILE --out submissions

    The folder is ORG__NAME/LEADERBOARD/DATE below --out. Files are copied as lm_eval wrote them; a
    file with a credential is refused, and so is anything that 'leaderboard check' would refuse:
    then nothing is written.
    """
    from lm_factuality.leaderboard import pack

    options = pack.PackOptions(
        model,
        revision,
        dtype,
        certificate,
        rules,
        key,
        tuple(labels or ()),
    )
    folder = pack.pack(results, options, out)
    sys.stdout.write(
        f"{folder}: a submission of {model}; every score follows from its"
        f" samples{_by_rules(rules)}\n"
    )


def _by_rules(rules: Path | None) -> str:
    """Return the end of a sentence about a check: whose rules it was by, if not the suite's."""
    return f", by the rules in {rules}" if rules else ""


@app.command()
def check(
    folder: Annotated[Path, Argument(metavar="DIR", help="A submission, or a folder of them.")],
    rules: Rules = None,
) -> int:
    """Recompute every score and refuse what does not hold.

    \b
    Examples:
      lm-factuality leaderboard check submissions

    The exit code is 1 if anything is refused. No model, judge or network is asked.
    """
    from lm_factuality.leaderboard.check import find_submissions

    # A link that the user names is meant; those below are not followed.
    folder = folder.resolve() if folder.is_symlink() else folder
    checked = _check_all(find_submissions(folder), rules)
    sys.stdout.writelines(_lines_of(checked, rules))
    return int(any(submission.refusals for submission in checked))


def _check_all(folders: Sequence[Path], rules: Path | None) -> list["Checked"]:
    from tqdm import tqdm

    from lm_factuality.leaderboard.check import check_submission
    from lm_factuality.leaderboard.rules import leaderboard_names

    leaderboard_names(rules)  # A folder without rules is no reason to refuse submissions.
    progress = tqdm(folders, "checking", unit="submission", delay=2, disable=None)
    return [check_submission(folder, rules) for folder in progress]


def _lines_of(checked: Sequence["Checked"], rules: Path | None) -> Iterator[str]:
    """Yield a line for each refusal and verdict, in which no name can pass for another line."""
    for submission in checked:
        verdict = "accepted"
        if submission.refusals:
            verdict = f"refused, {len(submission.refusals)} reasons"
        for outcome in (*submission.refusals, f"{verdict}{_by_rules(rules)}"):
            yield printable(f"{submission.folder}: {outcome}") + "\n"


@app.command()
def build(
    submissions: Submissions,
    out: Annotated[Path, Option(help="Folder of the site; an earlier one is replaced.")],
    workers: Annotated[int, Option(help="Processes that check.")] = 1,
    rules: Rules = None,
    reports: Annotated[
        bool, Option("--reports", help="Add a report of every model's samples.")
    ] = False,
) -> None:
    """Make the leaderboard of a folder of submissions as a static site.

    \b
    Examples:
      lm-factuality leaderboard build submissions --out site
      lm-factuality leaderboard build submissions --out site --reports --workers 4

    The site needs no server: open site/index.html, or give the folder to any static host.
    """
    from lm_factuality.leaderboard.site.build import build_site

    built = build_site(
        submissions,
        out,
        workers=max(1, workers),
        reports=reports,
        rules=rules,
    )
    sys.stdout.write(
        f"{plural(built.models, 'model')} of {plural(built.accepted, 'submission')},"
        f" {built.refused} refused: {out / 'index.html'}{_by_rules(rules)}\n"
    )


@app.command()
def rerun(
    submission: Annotated[Path, Argument(metavar="SUBMISSION", help="Folder of the submission.")],
    rows: Annotated[int, Option(help="Rows of each task.")] = 20,
    model_args: Annotated[
        str,
        Option(
            "--model_args",
            help="Added to the submission's, such as pretrained=FOLDER.",
        ),
    ] = "",
    seed: Annotated[int, Option(help="Seed of the draw.")] = 0,
    rules: Rules = None,
) -> int:
    """Run a random part of a submission again and compare.

    \b
    Examples:
      lm-factuality leaderboard rerun submissions/facebook__opt-125m/factor/DATE --rows 50
      lm-factuality leaderboard rerun SUBMISSION --model_args pretrained=models/opt-125m --seed 2

    Runs the model that the submission names, by lm_eval, on rows drawn at random. Log-probabilities
    are the same if they differ by rounding, greedy texts if no letter differs; sampled texts cannot
    be compared. Code of a model's own is run only with --model_args trust_remote_code=True. The
    outcome is written to SUBMISSION.rerun.json, and 'leaderboard build' shows it. The exit code is
    1 if something differs.
    """
    from lm_factuality.leaderboard import rerun

    tasks = rerun.rerun(submission.resolve(), rows, model_args, seed, rules).tasks
    columns = ("task", "#rows", "#same", "outcome", "compared")
    print_table(f"{submission}, run again", columns, [tuple(map(str, task)) for task in tasks])
    sys.stdout.write(f"Written to {submission}{rerun.BESIDE}\n")
    return int(any(outcome == "differs" for *_, outcome, _ in tasks))


@app.command()
def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder to write to.")],
) -> None:
    """Write the skeleton of a repository of submissions.

    \b
    Examples:
      lm-factuality leaderboard init my-leaderboard

    Makes a folder for a GitHub repository, with a workflow that checks the submissions of pull
    requests and publishes the site from main.
    """
    from lm_factuality.leaderboard.workflow import init_repository

    sys.stdout.writelines(f"{path}\n" for path in init_repository(folder))


@app.command()
def changed(
    submissions: Submissions,
    base: Annotated[str, Option(help="What the pull request is compared with.")],
    rules: Rules = None,
) -> int:
    """Check the submissions that a pull request changes.

    \b
    Examples:
      lm-factuality leaderboard changed submissions --base origin/main

    For the workflow of a repository of submissions: checks those that the commits since --base
    add. The exit code is 1 if one is refused, if an earlier one is changed, or if something else is
    changed beside it.
    """
    from lm_factuality.leaderboard.workflow import changed_submissions

    change = changed_submissions(submissions, base)
    checked = _check_all(change.submissions, rules)
    problems = [f"{code} {sentence}" for code, sentence in change.problems]
    lines = [*_lines_of(checked, rules), *(f"{printable(problem)}\n" for problem in problems)]
    sys.stdout.writelines(lines or ["no submission is changed\n"])
    return int(bool(problems) or any(submission.refusals for submission in checked))
