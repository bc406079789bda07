"""The leaderboard as a folder of files, put in place whole. A submission is looked at once: what
was found out is kept by the hash of its files and the version of what found it out. One is accepted
only if the site can show it, and is never an error."""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

import lm_factuality
from lm_factuality.ground.errors import ConfigError, printable
from lm_factuality.ground.files import whole_folder, write_json, write_text
from lm_factuality.ground.html import SCRIPT, STYLE, read_asset, read_file
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.tasks import ENTRY_POINTS
from lm_factuality.leaderboard.check import check_surely, find_submissions
from lm_factuality.leaderboard.documents import published_here
from lm_factuality.leaderboard.rerun import rerun_of
from lm_factuality.leaderboard.rules import read_rules, rules_folder
from lm_factuality.leaderboard.site.board import Board, board_json, pages, to_board
from lm_factuality.leaderboard.site.entries import ENTRIES, Entry, digest_of, to_entry

_ROOT = Path(lm_factuality.__file__).parent
_NO_CODE = (".safetensors", ".md")  # no check loads a checkpoint or reads a README


def checker(rules: Path | None = None) -> str:
    """A hash of all that a verdict depends on beside the submission: the suite's code, prompts and
    tasks, benchmarks of other packages, the rules, and which published files are here to compare
    rows with. With another one nothing found before counts."""
    digest = hashlib.sha256(f"{_code()}\0{' '.join(sorted(published_here()))}".encode())
    for path in sorted(rules_folder(rules).glob("*.yaml")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _code() -> str:
    digest, folders = (
        hashlib.sha256(lm_factuality.__version__.encode()),
        [_ROOT, _ROOT.parent / "judges", tasks_folder()],
    )
    for point in entry_points(group=ENTRY_POINTS):
        spec = find_spec(point.module.partition(".")[0])
        digest.update(f"{point.value}\0{point.dist.version if point.dist else ''}\0".encode())
        if spec and spec.submodule_search_locations:
            folders += map(Path, spec.submodule_search_locations)
        elif spec and spec.origin:
            digest.update(Path(spec.origin).read_bytes())
    # Every file of a package counts: word lists and coefficients decide as code does.
    for folder, path in ((each, path) for each in folders for path in sorted(each.rglob("*"))):
        if path.is_file() and path.suffix not in _NO_CODE and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def examine_all(
    folders: Sequence[Path], root: Path, cache: Path, workers: int = 1, rules: Path | None = None
) -> list[Entry]:
    """The submissions in ``folders``, named by their place below ``root``, in that order; those
    that are not in ``cache`` are checked, by ``workers`` processes, and kept there."""
    by = checker(rules)
    found: dict[Path, Entry] = {}
    places: dict[Path, Path] = {}
    unknown: list[tuple[Path, str, str]] = []
    for folder in tqdm(folders, desc="hash", unit="submission", delay=2, leave=False):
        name = folder.relative_to(root).as_posix()
        try:
            digest = digest_of(folder)
        except OSError as error:
            found[folder] = invalid(name, "", f"cannot be read: {type(error).__name__}")
            continue
        key = hashlib.sha256(os.fsencode(f"{by}\0{name}\0{digest}")).hexdigest()
        places[folder] = cache / f"{key}.json"
        try:
            found[folder] = ENTRIES.validate_json(places[folder].read_bytes())
        except (OSError, ValueError):  # not there, or damaged, which costs only time
            unknown.append((folder, name, digest))
    examined = tqdm(
        _examined(unknown, workers, rules),
        "check",
        len(unknown),
        unit="submission",
        delay=2,
        leave=False,
    )
    for (folder, _, _), entry in zip(unknown, examined, strict=True):
        write_text(places[folder], ENTRIES.dump_json(entry).decode())
        found[folder] = entry
    return [
        replace(each := found[folder], rerun=rerun_of(folder, each.digest)) for folder in folders
    ]


def _examined(
    unknown: Sequence[tuple[Path, str, str]], workers: int, rules: Path | None
) -> Iterator[Entry]:
    call = partial(examine, rules=rules)
    if workers > 1 and len(unknown) > 1:
        with ProcessPoolExecutor(min(workers, len(unknown))) as pool:
            yield from pool.map(call, *zip(*unknown, strict=True))
    else:
        yield from (call(*each) for each in unknown)


def examine(folder: Path, name: str, digest: str, rules: Path | None = None) -> Entry:
    """Checks the submission in ``folder``, which the site calls ``name``, and reads its scores if
    it is accepted."""
    if printable(name) != name:
        return invalid(
            name, digest, "its folder's name holds characters that cannot be shown; rename it"
        )
    try:
        checked = check_surely(folder, rules)
        submission = checked.submission
        if submission is None or checked.refusals:
            problems = tuple(
                (each.code, printable(f"{each.where}: {each.sentence}"))
                for each in checked.refusals
            )
            return Entry(
                name,
                digest,
                printable(submission.model.name) if submission else "not known",
                problems=problems,
            )
        entry = to_entry(
            checked, submission, read_rules(submission.leaderboard, rules), name, digest
        )
        entry = ENTRIES.validate_python(_printable(asdict(entry)))
        # Written once as a trial: what cannot be written is found here, where it costs only this
        # submission.
        board = to_board([entry], rules)
        for _, page in (*pages(board, ""), ("", json.dumps(board_json(board), allow_nan=False))):
            page.encode()
    except Exception as error:
        # One folder that the site cannot cope with must not take the site away from all others.
        logger.exception("%s: cannot be shown", folder)
        return invalid(name, digest, f"cannot be shown: {type(error).__name__}")
    return entry


def invalid(name: str, digest: str, sentence: str) -> Entry:
    return Entry(printable(name), digest, "not known", problems=(("SUBMISSION_INVALID", sentence),))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(key): _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


logger = logging.getLogger(__name__)

MARK = "leaderboard.json"  # says that a folder is a leaderboard of ours, which may be replaced
FIRST_VIEW = ("index.html", f"assets/{STYLE}", "assets/leaderboard.css", f"assets/{SCRIPT}")


@dataclass(frozen=True)
class Built:
    """How many models are ranked and submissions refused, the bytes of the first view and of all,
    and models without a report."""

    folder: Path
    models: int
    accepted: int
    refused: int
    first_view: int
    bytes: int
    unreported: tuple[str, ...] = ()


def build_site(
    submissions: Path,
    out: Path,
    *,
    title: str = "Factuality leaderboard",
    cache: Path | None = None,
    workers: int = 1,
    reports: bool = False,
    rules: Path | None = None,
) -> Built:
    """Checks every submission below ``submissions`` that ``cache`` does not know, and writes the
    site of all into ``out``, replacing an earlier one. With ``reports`` every model gets one of its
    samples. ``rules`` is a folder of rules instead of the suite's. Raises DataError: no
    submissions, or ``out`` is no leaderboard. Raises ConfigError: ``rules`` has none."""
    submissions = (
        submissions.resolve()
    )  # a link that the user names is meant; those below are not followed
    folders = find_submissions(submissions)
    with whole_folder(out, MARK) as part:
        found = examine_all(
            folders, submissions, cache or cache_folder() / "leaderboard", workers, rules
        )
        board = to_board(found, rules)
        unreported = write_site(board, part, title, submissions if reports else None)
        sizes = {
            path.relative_to(part).as_posix(): path.stat().st_size
            for path in part.rglob("*")
            if path.is_file()
        }
    models = len(board.models)
    first = sum(sizes[name] for name in FIRST_VIEW)
    accepted = sum(not each.problems for each in found)
    return Built(out, models, accepted, len(board.refused), first, sum(sizes.values()), unreported)


def write_site(
    board: Board, folder: Path, title: str, submissions: Path | None = None
) -> tuple[str, ...]:
    """Writes the site into ``folder``, and, with the folder of ``submissions``, reports; returns
    the models that have none."""
    for name in (STYLE, SCRIPT):
        write_text(folder / "assets" / name, read_asset(name))
    write_text(folder / "assets" / "leaderboard.css", read_file(f"{__package__}/leaderboard.css"))
    reports, unreported = dict[str, str](), list[str]()
    for newest, *older in board.models if submissions else ():
        from lm_factuality.report.build import build_report  # takes long

        try:
            runs = [Path(submissions or "", each.folder) for each in (newest, *older)]
            build_report(runs, folder / "reports" / newest.slug, newest.model)
            reports[newest.slug] = f"../reports/{newest.slug}/index.html"
        except ConfigError:  # of this machine, not of the submission
            raise
        except Exception:
            logger.exception("%s: no report of its samples", newest.model)
            unreported.append(newest.model)
    for name, page in pages(board, title, reports):
        write_text(folder / name, page)
    write_json(folder / MARK, board_json(board))
    return tuple(unreported)
