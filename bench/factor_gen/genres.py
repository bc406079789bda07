"""What builds give over many genres: yield, bad contradictions among those that were read, edit
distance and blind floors, with and without a model as the fluency filter, of this checkout and of
an earlier one."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from scipy.stats import binomtest

from bench.factor_gen.genre_texts import Genre, draw, load_genres
from bench.timing import Record
from factor_gen.surface import STATISTICS
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_text

_ROOT = Path(__file__).resolve().parents[2]
_LABELS = Path(__file__).parent
_FIELDS = ("sheet", "number", "question", "answer", "person", "note")
GOOD, BAD = "good", "bad"
csv.field_size_limit(sys.maxsize)  # a document is one field


@dataclass(frozen=True)
class Contradiction:
    """One false sentence of a build; ``key`` is a hash of what a reader of it saw, which labels are
    found by."""

    genre: str
    row: int
    place: int
    prefix: str
    completion: str
    text: str
    type: str
    edit: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.completion}\0{self.text}".encode()).hexdigest()[:12]


def measure(
    folder: Path,
    names: Sequence[str],
    use: str,
    model: str | None,
    before: str | None,
    labels: Sequence[Path],
    most: int | None = None,
) -> Iterator[Record]:
    """A record of each genre for each checkout and filter, and one of all genres together.

    ``model`` is a causal model that is the fluency filter of a second build; ``before`` a revision
    to build with as well; ``most`` how many documents of a genre to read.

    Raises:
        DataError: a text cannot be had, a build failed, or a label file cannot be read.
    """
    settings = load_genres()
    genres = _chosen(names, use)
    known = read_labels(labels)
    with checkouts(folder, before) as roots:
        for revision, root in roots.items():
            for filtered in (None, model) if model else (None,):
                found = []
                for genre in genres:
                    corpus = draw(genre, settings, folder / "texts")
                    counts, rows = build(root, revision, genre, corpus, filtered, folder, most)
                    found.append((counts, rows))
                    yield _record(
                        genre.name, genre.use, revision, filtered, [(counts, rows)], known
                    )
                yield _record("all", "", revision, filtered, found, known)


def _chosen(names: Sequence[str], use: str) -> list[Genre]:
    genres = load_genres().genres
    if unknown := [name for name in names if name not in {each.name for each in genres}]:
        raise DataError(
            f"no genre is called {unknown[0]!r}; expected some of {', '.join(each.name for each in genres)}"
        )
    return [each for each in genres if (each.name in names if names else use in (each.use, "all"))]


@contextmanager
def checkouts(folder: Path, before: str | None) -> Iterator[Mapping[str, Path]]:
    """The checkouts to build with by a name for each: the earlier one lies in a work tree of its
    own while it is needed."""
    here = _git("rev-parse", "--short", "HEAD") + (
        "+" if _git("status", "--porcelain", "--", "factor_gen") else ""
    )
    if before is None:
        yield {here: _ROOT}
        return
    commit = _git("rev-parse", "--short", before)
    tree = folder / f"checkout-{commit}"
    if not tree.is_dir():
        _git("worktree", "add", "--quiet", "--detach", str(tree.resolve()), commit)
    try:
        yield {commit: tree.resolve(), here: _ROOT}
    finally:
        _git("worktree", "remove", "--force", str(tree.resolve()))


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DataError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def build(
    root: Path,
    revision: str,
    genre: Genre,
    corpus: Path,
    model: str | None,
    folder: Path,
    most: int | None = None,
) -> tuple[Mapping[str, int | float], list[Contradiction]]:
    """The counts and the contradictions of a build with the checkout at ``root``; none where no
    document gave a row."""
    name = f"{corpus.stem}_{'model' if model else 'bare'}"
    home = folder / revision
    home.mkdir(parents=True, exist_ok=True)
    fluency: object = {"model": str(Path(model).expanduser())} if model else "none"
    language = (
        {} if genre.language == "en" else {"language": genre.language}
    )  # an earlier checkout knows no such key
    content = {
        "name": name,
        "corpus": {"path": str(corpus.resolve()), "license": genre.license, **language},
        "generate": "rules",
        "filter": {"nli": "none", "fluency": fluency},
    }
    config = home / f"{name}.yaml"
    write_text(config, yaml.safe_dump(content, sort_keys=False))
    out = home / name
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "factor_gen",
            "build",
            str(config.resolve()),
            "--out",
            str(out.resolve()),
            *([] if most is None else ["--documents", str(most)]),
        ],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "no rows" in done.stderr:
        return {
            "documents": sum(1 for _ in corpus.open(encoding="utf-8")),
            "eligible": 0,
            "rows": 0,
            "distance": 0.0,
        }, []
    if done.returncode:
        raise DataError(f"{config}: the build failed:\n{done.stderr[-2000:]}")
    counts = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["counts"]
    several = sum(number for types, number in counts["types_in_a_row"].items() if int(types) > 1)
    figures = {name: counts[name] for name in ("documents", "eligible", "rows")}
    return {**figures, "several": several}, list(contradictions(genre.name, out / f"{name}.csv"))


def contradictions(genre: str, path: Path) -> Iterator[Contradiction]:
    """The contradictions of a build's CSV in order."""
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            for place in range(3):
                name = f"contradiction_{place}"
                yield Contradiction(
                    genre,
                    number,
                    place,
                    row["full_prefix"],
                    row["completion"],
                    row[name],
                    row[f"{name}_type"],
                    f"{row[f'{name}_generator']}: {row[f'{name}_edit']}",
                )


def _record(
    name: str,
    use: str,
    revision: str,
    model: str | None,
    builds: Sequence[tuple[Mapping[str, int | float], Sequence[Contradiction]]],
    labels: Mapping[str, str],
) -> Record:
    from factor_gen.audit.words import word_edit_distance

    counts = {
        each: sum(one.get(each, 0) for one, _ in builds)
        for each in ("documents", "eligible", "rows", "several")
    }
    items = [each for _, found in builds for each in found]
    read = [labels[each.key] for each in items if each.key in labels]
    bad = read.count(BAD)
    wilson = binomtest(bad, len(read)).proportion_ci(method="wilson") if read else None
    floor_name, floor = blind_floor(items)
    return {
        "genre": name,
        "use": use,
        "revision": revision,
        "filter": "model" if model else "none",
        **counts,
        "share": counts["rows"] / max(1, counts["eligible"]),
        "read": len(read),
        "bad": bad,
        "bad_shown": (
            f"{bad / len(read):.1%} ({wilson.low:.0%}-{wilson.high:.0%}) of {len(read)}"
            if wilson
            else "-"
        ),
        "distance": sum(word_edit_distance(each.completion, each.text) for each in items)
        / max(1, len(items)),
        "dated": sum(each.edit.startswith("rules/date") for each in items) / max(1, len(items)),
        "floor": floor,
        "floor_name": floor_name,
    }


def blind_floor(items: Sequence[Contradiction]) -> tuple[str, float]:
    """Of pairs of a true sentence and a contradiction, how often the stronger surface statistic, in
    its better direction, is right (chance: 0.5; ties count half), and which it is. It is measured
    here rather than read from a manifest, so that checkouts compare."""
    best = ("-", 0.5)
    for name, statistic in STATISTICS.items() if items else ():
        differences = [statistic(each.completion) - statistic(each.text) for each in items]
        share = (
            sum(each > 0 for each in differences) + sum(each == 0 for each in differences) / 2
        ) / len(items)
        best = max(best, (name, max(share, 1 - share)), key=lambda each: each[1])
    return best


def read_labels(paths: Sequence[Path]) -> dict[str, str]:
    """The verdict on each contradiction by its key, which is the first word of a label's note;
    those kept beside this file unless others are named.

    Raises:
        DataError: a line has no key, or an answer that is neither good nor bad.
    """
    found: dict[str, str] = {}
    for path in paths or sorted(_LABELS.glob("labels_*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                key, answer = row["note"].partition(" ")[0], row["answer"]
                if len(key) != 12 or answer not in (GOOD, BAD):
                    raise DataError(
                        f"{path}:{number}: expected a note that begins with 12 digits, and good or bad; found {row}"
                    )
                found[key] = answer
    return found


def draw_sheets(
    folder: Path, names: Sequence[str], use: str, model: str | None, number: int
) -> None:
    """Writes a sheet of ``number`` contradictions of this checkout's builds, which :func:`measure`
    left, for each filter."""
    genres = _chosen(names, use)
    with checkouts(folder, None) as roots:
        for filtered in ("bare", "model") if model else ("bare",):
            items: list[Contradiction] = []
            for genre in genres:
                name = f"{genre.file_name}_{filtered}"
                path = folder / next(iter(roots)) / name / f"{name}.csv"
                items += contradictions(genre.name, path) if path.is_file() else []
            for path in write_sheet(folder, f"{use}_{filtered}", items, number):
                sys.stderr.write(f"{path}\n")


def write_sheet(
    folder: Path, sheet: str, items: Sequence[Contradiction], number: int, seed: int = 0
) -> tuple[Path, Path]:
    """Draws ``number`` contradictions, as many of each genre as can be, and writes what a reader
    needs (``NAME.txt``, not to be committed) and the labels to fill in (``labels_NAME.csv``), in
    the columns of people's labels."""
    rng = random.Random(f"{seed}/{sheet}")
    queues = {
        genre: [each for each in items if each.genre == genre]
        for genre in dict.fromkeys(each.genre for each in items)
    }
    for queue in queues.values():
        rng.shuffle(queue)
    drawn: list[Contradiction] = []
    while len(drawn) < number and any(queues.values()):
        drawn += [queue.pop() for queue in queues.values() if queue]
    drawn = drawn[:number]
    rng.shuffle(drawn)
    texts, labels = folder / f"{sheet}.txt", folder / f"labels_{sheet}.csv"
    shown = (
        f"[{place}] {each.genre} | {each.type} | {each.edit}\n  ... {' '.join(each.prefix.split())[-240:]}\n"
        f"  T {each.completion}\n  F {each.text}\n"
        for place, each in enumerate(drawn, start=1)
    )
    write_text(texts, "\n".join(shown))
    with labels.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _FIELDS)
        writer.writeheader()
        for place, each in enumerate(drawn, start=1):
            note = f"{each.key} {each.genre}, {each.type}:"
            writer.writerow(
                {
                    "sheet": sheet,
                    "number": place,
                    "question": "contradiction",
                    "answer": "",
                    "person": "",
                    "note": note,
                }
            )
    return texts, labels
