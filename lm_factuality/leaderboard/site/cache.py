"""What was found out about submissions before, by the hash of their files and the version of what found it out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from tqdm import tqdm

import lm_factuality
from lm_factuality.data.fetch import cache_folder
from lm_factuality.files import write_json
from lm_factuality.leaderboard.site.entries import Entry, digest_of, examine, from_json, to_json

_ROOT = Path(lm_factuality.__file__).parent
# Where a change can change a verdict: the checker with its rules, what it recomputes with, and what reads results.
_PARTS = ("leaderboard", "results", "metrics", "factor", "harness", "data", "statistics.py", "secrets.py")


def default_cache() -> Path:
    """The folder in the user's cache."""
    return cache_folder() / "leaderboard"


@cache
def checker() -> str:
    """A hash of the code and rules that check: with another one nothing found before counts."""
    from lm_factuality.suite import find_config

    digest = hashlib.sha256(lm_factuality.__version__.encode())
    judges = _ROOT.parent / "judges"
    rules = find_config(Path("configs/leaderboard"))
    for part in (*(_ROOT / name for name in _PARTS), judges, rules):
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if path.suffix in (".py", ".yaml", ".json", ".jinja") and path.is_file():
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def examine_all(folders: Sequence[Path], root: Path, cache: Path, workers: int = 1) -> list[Entry]:
    """The submissions in ``folders``, named by their place below ``root``, in that order; those that are not in ``cache`` are
    checked, by ``workers`` processes, and kept there."""
    found: dict[Path, Entry] = {}
    todo: list[tuple[Path, str, str]] = []
    for folder in tqdm(folders, desc="hash", unit="submission", delay=2, leave=False):
        name, digest = folder.relative_to(root).as_posix(), digest_of(folder)
        known = _read(_place(cache, name, digest))
        if known is None:
            todo.append((folder, name, digest))
        else:
            found[folder] = known
    for (folder, name, digest), submission in zip(todo, _examined(todo, workers), strict=True):
        write_json(_place(cache, name, digest), to_json(submission))
        found[folder] = submission
    return [found[folder] for folder in folders]


def _examined(todo: Sequence[tuple[Path, str, str]], workers: int) -> list[Entry]:
    call: Callable[..., Entry] = examine
    bar = tqdm(total=len(todo), desc="check", unit="submission", delay=2, leave=False)
    results = []
    if workers > 1 and len(todo) > 1:
        with ProcessPoolExecutor(min(workers, len(todo))) as pool:
            for each in pool.map(call, *zip(*todo, strict=True)):
                results.append(each)
                bar.update()
    else:
        for arguments in todo:
            results.append(call(*arguments))
            bar.update()
    bar.close()
    return results


def _place(cache: Path, name: str, digest: str) -> Path:
    key = hashlib.sha256(f"{checker()}\0{name}\0{digest}".encode()).hexdigest()
    return cache / f"{key}.json"


def _read(path: Path) -> Entry | None:
    """What is kept there; nothing if there is nothing, or it is damaged, which costs only time."""
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
