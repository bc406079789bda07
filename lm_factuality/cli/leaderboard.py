"""The command ``leaderboard``: make and check submissions, and build the leaderboard's site.

``lm_factuality.cli.main`` registers it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

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
        Argument(metavar="RESULTS", help="Results files of lm_eval, or folders that hold them."),
    ],
    model: Annotated[
        str,
        Option(
            metavar="ORG/NAME", help="The model's name on the Hub, or another name of its form."
        ),
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
        Option(
            help="The NAME.key.json of the sheet whose labels correct the scores (default: no"
            " correction)."
        ),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE...",
            help="Files with the labels of that sheet. They become public with the submission.",
        ),
    ] = None,
    rules: Rules = None,
) -> None:
    """Make a submission to a leaderboard out of lm_eval's results.

    \b
    Examples:
      lm-factuality leaderboard pack results --model facebook/opt-125m --out submissions
      lm-factuality leaderboard pack results --model ORG/NAME --certificate FILE --out submissions
      lm-factuality leaderboard pack results --model ORG/NAME --revision api:NAME --dtype unknown
          --out submissions

    The submission is the folder ORG__NAME/LEADERBOARD/DATE below --out, and holds copies of
    lm_eval's files. The command writes nothing if a file holds a credential, or if 'leaderboard
    check' would refuse the submission.
    """
    from lm_factuality.leaderboard.pack import PackOptions
    from lm_factuality.leaderboard.pack import pack as pack_submission

    options = PackOptions(
        model=model,
        revision=revision,
        dtype=dtype,
        certificate=certificate,
        rules=rules,
        key=key,
        labels=tuple(labels or ()),
    )
    folder = pack_submission(results, options, out)
    echo(
        f"{folder}: a submission of {model}; every score follows from its"
        f" samples{_rules_note(rules)}"
    )


def _rules_note(rules: Path | None) -> str:
    """Return the end of a sentence that names the user's rules, e.g. ", by the rules in my_rules".

    Args:
        rules: The folder of rules. None means the suite's own rules, which are not named: the
            result is empty.
    """
    return f", by the rules in {rules}" if rules else ""


@app.command()
def check(
    folder: Annotated[Path, Argument(metavar="DIR", help="A submission, or a folder of them.")],
    rules: Rules = None,
) -> int:
    """Check submissions by computing every score again from its samples.

    \b
    Examples:
      lm-factuality leaderboard check submissions

    The command prints each reason to refuse a submission. The exit code is 1 if one is refused. No
    model, judge or network is needed.
    """
    from lm_factuality.leaderboard.check import find_submissions

    # Users may name a link to a folder. Links inside it, which a submitter made, are not followed.
    folder = folder.resolve() if folder.is_symlink() else folder
    checked = _check_all(find_submissions(folder), rules)
    for line in _describe_checks(checked, rules):
        echo(line)
    return int(any(outcome.refusals for outcome in checked))


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

    # If the folder holds no rules, this raises an error. Otherwise each submission would be
    # refused, as if it were at fault.
    leaderboard_names(rules)
    progress = tqdm(folders, "checking", unit="submission", delay=2, disable=None)
    return [check_submission(folder, rules) for folder in progress]


def _describe_checks(checked: Sequence["Checked"], rules: Path | None) -> Iterator[str]:
    """Yield a line per reason for refusal, and a line with the verdict on each submission.

    Args:
        checked: The outcome of each check.
        rules: The folder of rules. None means the suite's own.

    Yields:
        Lines such as "submissions/a: accepted" or "submissions/b: refused, 2 reasons". Control
        characters are escaped, so that a file name cannot imitate another line.
    """
    from lm_factuality.leaderboard.check import describe_certificates

    for outcome in checked:
        for refusal in outcome.refusals:
            yield printable(f"{outcome.folder}: {refusal}")
        if outcome.refusals:
            verdict = f"refused, {plural(len(outcome.refusals), 'reason')}{_rules_note(rules)}"
        else:
            verdict = f"accepted{_rules_note(rules)}"
            if outcome.evidence is not None:
                verdict = "; ".join([verdict, *describe_certificates(outcome.evidence)])
        yield printable(f"{outcome.folder}: {verdict}")


@app.command()
def build(
    submissions: Submissions,
    out: Annotated[Path, Option(help="Folder to write the site to. An earlier site is replaced.")],
    workers: Annotated[int, Option(help="Number of processes that check submissions.")] = 1,
    rules: Rules = None,
    reports: Annotated[
        bool, Option("--reports", help="Add pages on which every model's samples can be read.")
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

    board = build_site(submissions, out, workers=max(1, workers), reports=reports, rules=rules)
    num_accepted = sum(len(entries) for entries in board.models)
    echo(
        f"{plural(len(board.models), 'model')} of {plural(num_accepted, 'submission')},"
        f" {len(board.refused)} refused: {out / 'index.html'}{_rules_note(rules)}"
    )


@app.command()
def rerun(
    submission: Annotated[Path, Argument(metavar="SUBMISSION", help="Folder of the submission.")],
    rows: Annotated[int, Option(help="Number of rows to draw from each task.")] = 20,
    model_args: Annotated[
        str,
        Option(
            "--model_args",
            help="Arguments of the model that replace or extend those of the submission, such as"
            " pretrained=FOLDER.",
        ),
    ] = "",
    seed: Annotated[int, Option(help="Seed of the random draw.")] = 0,
    rules: Rules = None,
) -> int:
    """Run the model of a submission again on a few random rows, and compare the outcomes.

    \b
    Examples:
      lm-factuality leaderboard rerun submissions/facebook__opt-125m/factor/DATE --rows 50
      lm-factuality leaderboard rerun SUBMISSION --model_args pretrained=models/opt-125m --seed 2

    Log-probabilities count as the same if they differ only by rounding. Texts that were decoded
    greedily count as the same if no letter differs, and sampled texts cannot be compared. Code that
    comes with a model runs only with --model_args trust_remote_code=True.

    The command writes the outcome to SUBMISSION.rerun.json, and 'leaderboard build' shows it. The
    exit code is 1 if something differs.
    """
    from lm_factuality.leaderboard.rerun import RERUN_SUFFIX
    from lm_factuality.leaderboard.rerun import rerun as rerun_submission

    tasks = rerun_submission(submission.resolve(), rows, model_args, seed, rules).tasks
    # The fields of a task's outcome are the columns of the table.
    table_rows = [tuple(map(str, task)) for task in tasks]
    columns = ("task", "#rows", "#same", "outcome", "compared")
    print_table(f"{submission}, run again", columns, table_rows)
    echo(f"Written to {submission}{RERUN_SUFFIX}")
    return int(any(task.outcome == "differs" for task in tasks))


@app.command()
def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder to write the skeleton to.")],
) -> None:
    """Write the files of a new GitHub repository that collects submissions.

    \b
    Examples:
      lm-factuality leaderboard init my-leaderboard

    The folder has a workflow for GitHub Actions. It checks the submissions of each pull request,
    and publishes the site of the branch main.
    """
    from lm_factuality.leaderboard.workflow import init_repository

    for path in init_repository(folder):
        echo(path)


@app.command("changed")
def check_changes(
    submissions: Submissions,
    base: Annotated[str, Option(help="Git revision that the pull request is compared with.")],
    rules: Rules = None,
) -> int:
    """Check the submissions that a pull request adds.

    \b
    Examples:
      lm-factuality leaderboard changed submissions --base origin/main

    The workflow that 'leaderboard init' writes runs this command. The exit code is 1 if a
    submission is refused, or if the commits since --base change an earlier submission or another
    file.
    """
    from lm_factuality.leaderboard.workflow import changed_submissions

    change = changed_submissions(submissions, base)
    checked = _check_all(change.submissions, rules)
    lines = list(_describe_checks(checked, rules))
    lines += [str(problem) for problem in change.problems]
    for line in lines or ["no submission is changed"]:
        echo(line)
    has_refusals = any(outcome.refusals for outcome in checked)
    return int(has_refusals or bool(change.problems))
