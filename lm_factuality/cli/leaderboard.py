"""The command ``leaderboard``: make and check submissions, and build the leaderboard's site.

``lm_factuality.cli.main`` registers it.
"""

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
    Option(
        help="Folder with a NAME.yaml of rules per leaderboard (default: the suite's).", exists=True
    ),
]
Submissions = Annotated[Path, Argument(metavar="SUBMISSIONS", help="Folder with submissions.")]


@app.callback()
def leaderboard() -> None:
    """Make and check submissions, and build the leaderboard as a static site.

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
    out: Annotated[Path, Option(help="Folder to add the submission to.")],
    revision: Annotated[
        str,
        Option(help="Revision of the weights, if the results do not state it."),
    ] = "",
    dtype: Annotated[
        str, Option(help="Number format of the weights, if the results do not state it.")
    ] = "",
    certificate: Annotated[
        Path | None,
        Option(help="Certificate of the judge, as 'certify --out' wrote it."),
    ] = None,
    key: Annotated[
        Path | None,
        Option(help="Key of the sheet whose labels correct the scores (default: no correction)."),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...", help="Labels of that sheet. They become public with the submission."
        ),
    ] = None,
    rules: Rules = None,
) -> None:
    """Make a submission out of lm_eval's results.

    \b
    Examples:
      lm-factuality leaderboard pack results --model facebook/opt-125m --out submissions
      lm-factuality leaderboard pack results --model ORG/NAME --certificate FILE --out submissions

    The folder is ORG__NAME/LEADERBOARD/DATE below --out. Files are copied as lm_eval wrote them.
    The command writes nothing if a file holds a credential, or if 'leaderboard check' would refuse
    the submission.
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
    """Return the end of a sentence that names the rules, e.g. ", by the rules in my_rules".

    The suite's own rules are not named: the result is empty if ``rules`` is None.
    """
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

    # Users may name a link to a folder. Links inside it, which a submitter made, are not
    # followed.
    folder = folder.resolve() if folder.is_symlink() else folder
    checked = _check_all(find_submissions(folder), rules)
    sys.stdout.writelines(_lines_of(checked, rules))
    return int(any(submission.refusals for submission in checked))


def _check_all(folders: Sequence[Path], rules: Path | None) -> list["Checked"]:
    """Check submissions one by one, and show the progress if it takes more than two seconds.

    Args:
        folders: The folder of each submission.
        rules: The folder of rules. None means the suite's own.

    Returns:
        The outcome of each check, in the order of ``folders``.
    """
    from tqdm import tqdm

    from lm_factuality.leaderboard.check import check_submission
    from lm_factuality.leaderboard.rules import leaderboard_names

    # A folder without rules is the caller's mistake: report it before submissions are refused.
    leaderboard_names(rules)
    progress = tqdm(folders, "checking", unit="submission", delay=2, disable=None)
    return [check_submission(folder, rules) for folder in progress]


def _lines_of(checked: Sequence["Checked"], rules: Path | None) -> Iterator[str]:
    """Yield a line per reason for refusal, and a line with the verdict on each submission.

    Control characters are escaped, so that a file name cannot imitate another line.

    Yields:
        Lines such as "submissions/a: accepted" or "submissions/b: refused, 2 reasons".
    """
    for submission in checked:
        verdict = "accepted"
        if submission.refusals:
            verdict = f"refused, {len(submission.refusals)} reasons"
        for outcome in (*submission.refusals, f"{verdict}{_by_rules(rules)}"):
            yield printable(f"{submission.folder}: {outcome}") + "\n"


@app.command()
def build(
    submissions: Submissions,
    out: Annotated[Path, Option(help="Folder to write the site to. An earlier site is replaced.")],
    workers: Annotated[int, Option(help="Number of processes that check submissions.")] = 1,
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
    rows: Annotated[int, Option(help="Number of rows to draw from each task.")] = 20,
    model_args: Annotated[
        str,
        Option(
            "--model_args",
            help="Arguments added to the submission's, such as pretrained=FOLDER.",
        ),
    ] = "",
    seed: Annotated[int, Option(help="Seed of the random draw.")] = 0,
    rules: Rules = None,
) -> int:
    """Run random rows of a submission again, and compare the outcomes.

    \b
    Examples:
      lm-factuality leaderboard rerun submissions/facebook__opt-125m/factor/DATE --rows 50
      lm-factuality leaderboard rerun SUBMISSION --model_args pretrained=models/opt-125m --seed 2

    lm_eval runs the model that the submission names on rows drawn at random. Log-probabilities
    count as the same if they differ only by rounding, and greedy texts if no letter differs.
    Sampled texts cannot be compared. A model's own code runs only with --model_args
    trust_remote_code=True.

    The command writes the outcome to SUBMISSION.rerun.json, and 'leaderboard build' shows it. The
    exit code is 1 if something differs.
    """
    from lm_factuality.leaderboard import rerun

    tasks = rerun.rerun(submission.resolve(), rows, model_args, seed, rules).tasks
    columns = ("task", "#rows", "#same", "outcome", "compared")
    print_table(f"{submission}, run again", columns, [tuple(map(str, task)) for task in tasks])
    sys.stdout.write(f"Written to {submission}{rerun.RERUN_SUFFIX}\n")
    return int(any(outcome == "differs" for *_, outcome, _ in tasks))


@app.command()
def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder to write the skeleton to.")],
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
    base: Annotated[str, Option(help="Git revision that the pull request is compared with.")],
    rules: Rules = None,
) -> int:
    """Check the submissions that a pull request changes.

    \b
    Examples:
      lm-factuality leaderboard changed submissions --base origin/main

    The workflow of a repository of submissions runs this command. It checks the submissions that
    the commits since --base add. The exit code is 1 if one is refused, or if the commits change an
    earlier submission or another file.
    """
    from lm_factuality.leaderboard.workflow import changed_submissions

    change = changed_submissions(submissions, base)
    checked = _check_all(change.submissions, rules)
    lines = [*_lines_of(checked, rules), *(f"{problem}\n" for problem in change.problems)]
    sys.stdout.writelines(lines or ["no submission is changed\n"])
    return int(bool(change.problems) or any(submission.refusals for submission in checked))
