"""``lm-factuality leaderboard``: submissions to a leaderboard, made and checked, and the leaderboard as a site."""

import argparse
import json
import sys
from pathlib import Path

from lm_factuality.cli.actions import add_action
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


def leaderboard_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    packing = add_action(actions, "leaderboard pack", "make a submission out of lm_eval's results", _pack)
    packing.add_argument("results", nargs="+", type=Path, metavar="RESULTS", help="lm_eval's --output_path, or files in it")
    packing.add_argument("--model", required=True, metavar="ORG/NAME", help="the model's name on the Hub, or one like it")
    packing.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of submissions")
    packing.add_argument("--leaderboard", default="", metavar="NAME", help="which one (default: the one with these tasks)")
    packing.add_argument("--revision", default="", metavar="COMMIT", help="which weights, where the results do not say")
    packing.add_argument("--dtype", default="", help="the model's number format, where the results do not say")
    packing.add_argument("--certificate", type=Path, metavar="FILE", help="the judge's, as 'certify --out' wrote it")
    packing.add_argument("--key", type=Path, metavar="FILE", help="the key of the sheet whose labels correct the scores")
    packing.add_argument("--labels", type=Path, nargs="+", default=[], metavar="FILE", help="the labels, which are published too")
    packing.add_argument("--notes", default="", metavar="TEXT", help="a remark for readers of the submission")
    _add_rules(packing)
    checking = add_action(actions, "leaderboard check", "recompute every score and refuse what does not hold", _check)
    checking.add_argument("folder", type=Path, metavar="DIR", help="a submission, or a folder of them")
    _add_rules(checking)
    checking.add_argument("--json", action="store_true", help="print one JSON object")
    building = add_action(
        actions, "leaderboard build", "make the leaderboard of a folder of submissions as a static site", _build
    )
    building.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="folder with submissions")
    building.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the site; an earlier one is replaced")
    building.add_argument("--title", default="Factuality leaderboard", help="title of the site (default: %(default)s)")
    building.add_argument("--cache", type=Path, metavar="DIR", help="where checks are kept (default: in your cache folder)")
    building.add_argument("--workers", type=int, default=1, metavar="N", help="processes that check (default %(default)s)")
    _add_rules(building)
    building.add_argument("--reports", action="store_true", help="add a report of every model's samples")
    again = add_action(actions, "leaderboard rerun", "run a random part of a submission again and compare", _rerun)
    again.add_argument("submission", type=Path, metavar="SUBMISSION", help="folder of the submission")
    again.add_argument("--rows", type=int, default=20, metavar="N", help="rows of each task (default %(default)s)")
    again.add_argument("--model_args", default="", metavar="ARGS", help="added to the submission's, such as pretrained=FOLDER")
    again.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draw (default %(default)s)")
    _add_rules(again)
    beginning = add_action(actions, "leaderboard init", "write the skeleton of a repository of submissions", _init)
    beginning.add_argument("folder", type=Path, metavar="DIR", help="folder to write to")
    beginning.add_argument("--suite", metavar="REQUIREMENT", help="what pip installs there (default: this version)")
    beginning.add_argument("--lfs", action="store_true", help="keep samples in Git LFS")
    changed_ones = add_action(actions, "leaderboard changed", "check the submissions that a pull request changes", _changed)
    changed_ones.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="folder with submissions, under git")
    changed_ones.add_argument("--base", required=True, metavar="COMMIT", help="what the pull request is compared with")
    _add_rules(changed_ones)
    changed_ones.add_argument("--summary", type=Path, metavar="FILE", help="Markdown file to append the outcome to")


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rules", type=Path, metavar="DIR", help="folder of rules, NAME.yaml each (default: the suite's own)")


def _rules_note(parsed: argparse.Namespace) -> str:
    """The end of a sentence about a check: whose rules it was by, if not the suite's."""
    return f", by the rules in {parsed.rules}" if parsed.rules else ""


def _pack(parsed: argparse.Namespace) -> int:
    named = parsed.model, parsed.leaderboard, parsed.revision, parsed.dtype
    options = PackOptions(*named, parsed.certificate, parsed.notes, parsed.rules, parsed.key, tuple(parsed.labels))
    folder = pack(parsed.results, options, parsed.out)
    found = read_submission(folder)
    size = sum(each.bytes for each in found.files) / 2**20
    sys.stdout.write(
        f"{folder}: {len(found.tasks)} tasks of the leaderboard {found.leaderboard}, {found.model.name} at "
        f"{found.model.revision}, {size:.1f} MiB; every score follows from its samples{_rules_note(parsed)}\n"
    )
    return 0


def _check(parsed: argparse.Namespace) -> int:
    leaderboard_names(parsed.rules)  # refuses a folder without rules before any submission is refused for that
    # A link that the user names is meant; those below are not followed.
    folder = parsed.folder.resolve() if parsed.folder.is_symlink() else parsed.folder
    found = list(check_every(find_submissions(folder), parsed.rules))
    are_accepted = all(each.is_accepted for each in found)
    if parsed.json:
        submissions = [
            {"folder": str(each.folder), "accepted": each.is_accepted, "refusals": [vars(refusal) for refusal in each.refusals]}
            for each in found
        ]
        content = {"rules": str(parsed.rules or "of the suite"), "accepted": are_accepted, "submissions": submissions}
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
    else:
        for each in found:
            verdict = "accepted" if each.is_accepted else f"refused, {len(each.refusals)} reasons"
            for outcome in (*each.refusals, f"{verdict}{_rules_note(parsed)}"):
                sys.stdout.write(printable(f"{each.folder}: {outcome}") + "\n")
    return 0 if are_accepted else 1


def _build(parsed: argparse.Namespace) -> int:
    leaderboard_names(parsed.rules)
    built = build_site(
        parsed.submissions,
        parsed.out,
        title=parsed.title,
        cache=parsed.cache,
        workers=max(1, parsed.workers),
        reports=parsed.reports,
        rules=parsed.rules,
    )
    for model in built.unreported:
        sys.stdout.write(f"{printable(model)}: no report, its samples cannot be shown\n")
    counts = f"{plural(built.models, 'model')} of {plural(built.accepted, 'submission')}, {built.refused} refused"
    sizes = f"{built.first_view / 1000:.0f} kB to open, {built.bytes / 1e6:.1f} MB in all"
    sys.stdout.write(f"{counts}: {built.folder / 'index.html'} ({sizes}){_rules_note(parsed)}\n")
    return 0


def _rerun(parsed: argparse.Namespace) -> int:
    leaderboard_names(parsed.rules)
    tasks = rerun(parsed.submission.resolve(), parsed.rows, parsed.model_args, parsed.seed, parsed.rules).tasks
    columns = ("task", "#rows", "#same", "outcome", "compared")
    print_table(f"{parsed.submission}, run again", columns, [tuple(map(str, each)) for each in tasks])
    sys.stdout.write(f"Written to {parsed.submission}{BESIDE}\n")
    return 1 if any(outcome == "differs" for *_, outcome, _ in tasks) else 0


def _init(parsed: argparse.Namespace) -> int:
    written = init_repository(parsed.folder, parsed.suite, parsed.lfs)
    sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0


def _changed(parsed: argparse.Namespace) -> int:
    leaderboard_names(parsed.rules)
    change = changed_submissions(parsed.submissions, parsed.base, parsed.rules)
    problems = [f"{code} {sentence}" for code, sentence in change.problems]
    lines = []
    for each in check_every(change.submissions, parsed.rules):
        problems += [f"{each.folder.name}: {refusal}" for refusal in each.refusals]
        lines.append(f"{each.folder}: {'accepted' if each.is_accepted else 'refused'}{_rules_note(parsed)}")
    # A line each, whatever names hold: a workflow takes lines that begin with two colons as commands.
    text = "".join(f"- {printable(line)}\n" for line in [*lines, *problems] or ["no submission is changed"])
    sys.stdout.write(text)
    if parsed.summary:
        before = parsed.summary.read_text(encoding="utf-8") if parsed.summary.is_file() else ""
        # As code, for what a submission says of itself is not Markdown of ours.
        write_text(parsed.summary, before + "".join(f"    {line}\n" for line in text.splitlines()))
    return 1 if problems else 0
