"""``lm-factuality leaderboard``: submissions to a leaderboard, made and checked, and the
leaderboard as a site."""

import argparse
import json
import sys

from lm_factuality.ground.console import plural, print_table
from lm_factuality.ground.errors import printable
from lm_factuality.ground.files import write_text
from lm_factuality.leaderboard.check import check_every, find_submissions
from lm_factuality.leaderboard.pack import PackOptions, pack
from lm_factuality.leaderboard.rerun import BESIDE, rerun
from lm_factuality.leaderboard.rules import leaderboard_names
from lm_factuality.leaderboard.site.build import build_site
from lm_factuality.leaderboard.submission import read_submission
from lm_factuality.leaderboard.workflow import changed_submissions, init_repository


def _rules_note(parsed: argparse.Namespace) -> str:
    """The end of a sentence about a check: whose rules it was by, if not the suite's."""
    return f", by the rules in {parsed.rules}" if parsed.rules else ""


def leaderboard_pack(parsed: argparse.Namespace) -> None:
    named = parsed.model, parsed.leaderboard, parsed.revision, parsed.dtype
    options = PackOptions(
        *named, parsed.certificate, parsed.notes, parsed.rules, parsed.key, tuple(parsed.labels)
    )
    folder = pack(parsed.results, options, parsed.out)
    found = read_submission(folder)
    size = sum(each.bytes for each in found.files) / 2**20
    sys.stdout.write(
        f"{folder}: {len(found.tasks)} tasks of the leaderboard {found.leaderboard},"
        f" {found.model.name} at {found.model.revision}, {size:.1f} MiB; every score follows from"
        f" its samples{_rules_note(parsed)}\n"
    )


def leaderboard_check(parsed: argparse.Namespace) -> int:
    leaderboard_names(
        parsed.rules
    )  # refuses a folder without rules before any submission is refused for that
    # A link that the user names is meant; those below are not followed.
    folder = parsed.folder.resolve() if parsed.folder.is_symlink() else parsed.folder
    found = list(check_every(find_submissions(folder), parsed.rules))
    are_accepted = not any(each.refusals for each in found)
    if parsed.json:
        submissions = [
            {
                "folder": str(each.folder),
                "accepted": not each.refusals,
                "refusals": [vars(refusal) for refusal in each.refusals],
            }
            for each in found
        ]
        content = {
            "rules": str(parsed.rules or "of the suite"),
            "accepted": are_accepted,
            "submissions": submissions,
        }
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
    else:
        for each in found:
            verdict = "accepted" if not each.refusals else f"refused, {len(each.refusals)} reasons"
            for outcome in (*each.refusals, f"{verdict}{_rules_note(parsed)}"):
                sys.stdout.write(printable(f"{each.folder}: {outcome}") + "\n")
    return 0 if are_accepted else 1


def leaderboard_build(parsed: argparse.Namespace) -> None:
    leaderboard_names(parsed.rules)
    options = {name: getattr(parsed, name) for name in ("title", "cache", "reports", "rules")}
    built = build_site(parsed.submissions, parsed.out, workers=max(1, parsed.workers), **options)
    for model in built.unreported:
        sys.stdout.write(f"{printable(model)}: no report, its samples cannot be shown\n")
    counts = (
        f"{plural(built.models, 'model')} of {plural(built.accepted, 'submission')},"
        f" {built.refused} refused"
    )
    sizes = f"{built.first_view / 1000:.0f} kB to open, {built.bytes / 1e6:.1f} MB in all"
    sys.stdout.write(f"{counts}: {built.folder / 'index.html'} ({sizes}){_rules_note(parsed)}\n")


def leaderboard_rerun(parsed: argparse.Namespace) -> int:
    leaderboard_names(parsed.rules)
    tasks = rerun(
        parsed.submission.resolve(), parsed.rows, parsed.model_args, parsed.seed, parsed.rules
    ).tasks
    columns = ("task", "#rows", "#same", "outcome", "compared")
    print_table(
        f"{parsed.submission}, run again", columns, [tuple(map(str, each)) for each in tasks]
    )
    sys.stdout.write(f"Written to {parsed.submission}{BESIDE}\n")
    return 1 if any(outcome == "differs" for *_, outcome, _ in tasks) else 0


def leaderboard_init(parsed: argparse.Namespace) -> None:
    written = init_repository(parsed.folder, parsed.suite, parsed.lfs)
    sys.stdout.write("".join(f"{path}\n" for path in written))


def leaderboard_changed(parsed: argparse.Namespace) -> int:
    leaderboard_names(parsed.rules)
    change = changed_submissions(parsed.submissions, parsed.base, parsed.rules)
    problems = [f"{code} {sentence}" for code, sentence in change.problems]
    lines = []
    for each in check_every(change.submissions, parsed.rules):
        problems += [f"{each.folder.name}: {refusal}" for refusal in each.refusals]
        lines.append(
            f"{each.folder}: {'refused' if each.refusals else 'accepted'}{_rules_note(parsed)}"
        )
    # A line each, whatever names hold: a workflow takes lines that begin with two colons as
    # commands.
    text = "".join(
        f"- {printable(line)}\n" for line in [*lines, *problems] or ["no submission is changed"]
    )
    sys.stdout.write(text)
    if parsed.summary:
        before = parsed.summary.read_text(encoding="utf-8") if parsed.summary.is_file() else ""
        # As code, for what a submission says of itself is not Markdown of ours.
        write_text(parsed.summary, before + "".join(f"    {line}\n" for line in text.splitlines()))
    return 1 if problems else 0
