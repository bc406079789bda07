"""Builds benchmarks by rules from texts of many genres, and measures how good the rows are.

``python -m bench.factor_gen genres`` calls `measure_genres`. Builds can be repeated with a model as
the fluency filter, and with an earlier revision of this repository.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import yaml
from scipy.stats import binomtest

from bench.factor_gen.genre_config import Genre, load_genres
from bench.factor_gen.genre_texts import draw_documents
from bench.timing import Record
from factor_gen.surface import STATISTICS
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import write_text

ROOT = Path(__file__).resolve().parents[2]
"""The folder of this checkout."""

GOOD = "good"
"""What people answer about a contradiction that is false and a good sentence."""

BAD = "bad"
"""What people answer about any other."""

_LABELS_FOLDER = Path(__file__).parent
_KEY_LENGTH = 12  # hexadecimal digits
# A cell holds a whole document, which is more than the csv module expects.
csv.field_size_limit(sys.maxsize)


@dataclass(frozen=True)
class GenreOptions:
    """What is measured."""

    folder: Path
    """The folder for texts and builds."""

    names: Sequence[str] = ()
    """The names of genres. If there are none, the genres of ``use`` are measured."""

    use: str = "all"
    """The use of the genres, or ``all``."""

    model: str | None = None
    """A causal model, which is the fluency filter of a second build of each genre."""

    before: str | None = None
    """An earlier revision, with which the builds are repeated."""

    most_documents: int | None = None
    """How many documents of a genre are read at most. If it is None, all that were drawn."""


@dataclass(frozen=True)
class Contradiction:
    """A false sentence of a build."""

    genre: str
    """The name of its genre."""

    completion: str
    """The true sentence in its place."""

    text: str
    """The false sentence."""

    error_type: str
    """What it changes, such as ``entity``."""

    edit: str
    """The rule and the change, such as ``rules/number: 3 -> 5``."""

    @property
    def key(self) -> str:
        """A hash of what a person judges, by which labels are found after another build."""
        content = f"{self.completion}\0{self.text}".encode()
        return hashlib.sha256(content).hexdigest()[:_KEY_LENGTH]


@dataclass(frozen=True)
class Build:
    """What a build gives."""

    counts: Mapping[str, int]
    """The numbers of documents, of eligible ones, of rows, and of rows with several types.

    A document is eligible if it has a sentence that can be made wrong.
    """

    contradictions: Sequence[Contradiction] = ()
    """The contradictions of all rows, three each."""


class Checkout(NamedTuple):
    """A checkout of this repository."""

    revision: str
    """Its commit, with a ``+`` if factor_gen differs from it."""

    root: Path
    """Its folder."""


class BlindFloor(NamedTuple):
    """What a model scores on pairs if it sees one property of the surface only."""

    statistic: str
    """The name of the property."""

    accuracy: float
    """The share of pairs in which the property tells which sentence is true. Chance is 0.5."""


def measure_genres(options: GenreOptions, labels: Sequence[Path]) -> Iterator[Record]:
    """Build a benchmark of each genre, and measure it.

    Args:
        options: The genres, and the ways to build.
        labels: Files with people's labels, as `read_labels` takes them.

    Yields:
        For each checkout and filter a record of each genre, and one of all genres together.

    Raises:
        DataError: A text cannot be had, a build failed, or a file of labels cannot be read.
    """
    settings = load_genres()
    genres = _choose_genres(options)
    answers = read_labels(labels)
    models = [None, options.model] if options.model else [None]
    with open_checkouts(options) as checkouts:
        for checkout in checkouts:
            for model in models:
                way = {"revision": checkout.revision, "filter": "model" if model else "none"}
                builds = []
                for genre in genres:
                    corpus = draw_documents(genre, settings, options.folder / "texts")
                    build = build_genre(checkout, genre, corpus, options, model)
                    builds.append(build)
                    figures = summarise_builds([build], answers)
                    yield {"genre": genre.name, "use": genre.use, **way, **figures}
                yield {"genre": "all", "use": "", **way, **summarise_builds(builds, answers)}


def _choose_genres(options: GenreOptions) -> list[Genre]:
    """Return the genres with the chosen names or, if no name is chosen, of the chosen use.

    Raises:
        DataError: There is no genre of a name.
    """
    genres = load_genres().genres
    all_names = [genre.name for genre in genres]
    for name in options.names:
        if name not in all_names:
            raise DataError(f"no genre is called {name!r}; expected some of {', '.join(all_names)}")
    if options.names:
        return [genre for genre in genres if genre.name in options.names]
    return [genre for genre in genres if options.use in (genre.use, "all")]


def read_labels(paths: Sequence[Path]) -> dict[str, str]:
    """Read what people answered about contradictions.

    Args:
        paths: Files of labels. If there are none, the files ``labels_*.csv`` beside this module are
            read. They are of readings before ``factor-gen read``, and serve to compare rules.

    Returns:
        `GOOD` or `BAD` by the key of the contradiction, which is the first word of a label's note.

    Raises:
        DataError: A line has no key, or another answer.
    """
    answers: dict[str, str] = {}
    for path in paths or sorted(_LABELS_FOLDER.glob("labels_*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            # The first line is the header.
            for number, row in enumerate(csv.DictReader(file), start=2):
                key, _, _ = row["note"].partition(" ")
                if len(key) != _KEY_LENGTH or row["answer"] not in (GOOD, BAD):
                    raise DataError(
                        f"{path}:{number}: expected a note that begins with 12 digits, and good or"
                        f" bad; found {row}"
                    )
                answers[key] = row["answer"]
    return answers


@contextmanager
def open_checkouts(options: GenreOptions) -> Iterator[list[Checkout]]:
    """Make the earlier revision available within a ``with`` block, if one is asked for.

    Yields:
        The checkout of the earlier revision, in a work tree of its own, and this one.
    """
    own_checkout = find_own_checkout()
    commit = _run_git("rev-parse", "--short", options.before) if options.before else None
    if commit in (None, own_checkout.revision):
        yield [own_checkout]
        return
    folder = (options.folder / f"checkout-{commit}").resolve()
    if not folder.is_dir():
        _run_git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield [Checkout(commit, folder), own_checkout]
    finally:
        _run_git("worktree", "remove", "--force", str(folder))


def find_own_checkout() -> Checkout:
    """Return the checkout that this module is a part of."""
    commit = _run_git("rev-parse", "--short", "HEAD")
    is_changed = _run_git("status", "--porcelain", "--", "factor_gen") != ""
    return Checkout(f"{commit}+" if is_changed else commit, ROOT)


def _run_git(*arguments: str) -> str:
    """Return what a git command in this checkout prints.

    Raises:
        DataError: The command failed.
    """
    git = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if git.returncode:
        raise DataError(f"git {' '.join(arguments)}: {git.stderr.strip()}")
    return git.stdout.strip()


def build_genre(
    checkout: Checkout, genre: Genre, corpus: Path, options: GenreOptions, model: str | None
) -> Build:
    """Build a benchmark from the documents of a genre by rules.

    Args:
        checkout: The checkout whose factor_gen builds.
        genre: The genre.
        corpus: Its documents.
        options: The folder for builds, and how many documents to read.
        model: The model of the fluency filter, or None for no filter.

    Raises:
        DataError: The build failed.
    """
    name = _build_name(genre, model)
    folder = options.folder / checkout.revision
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / f"{name}.yaml"
    content = _make_config(name, genre, corpus, model)
    write_text(config, yaml.safe_dump(content, sort_keys=False))
    out = folder / name
    command = [sys.executable, "-m", "factor_gen", "build", str(config.resolve())]
    command += ["--out", str(out.resolve())]
    if options.most_documents is not None:
        command += ["--documents", str(options.most_documents)]
    process = subprocess.run(
        command,
        cwd=checkout.root,
        env={**os.environ, "PYTHONPATH": str(checkout.root), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode and "no rows" in process.stderr:
        with corpus.open(encoding="utf-8") as lines:
            return Build({"documents": sum(1 for _ in lines)})
    if process.returncode:
        raise DataError(f"{config}: the build failed:\n{process.stderr[-2000:]}")

    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    counts = {key: manifest["counts"][key] for key in ("documents", "eligible", "rows")}
    rows_by_number_of_types = manifest["counts"]["types_in_a_row"]
    counts["several"] = sum(
        num_rows for num_types, num_rows in rows_by_number_of_types.items() if int(num_types) > 1
    )
    return Build(counts, list(read_contradictions(genre.name, out / f"{name}.csv")))


def _build_name(genre: Genre, model: str | None) -> str:
    """Return the name of a build."""
    return f"{genre.file_name}_{'model' if model else 'bare'}"


def _make_config(name: str, genre: Genre, corpus: Path, model: str | None) -> dict[str, object]:
    """Return the configuration of a build."""
    corpus_settings = {"path": str(corpus.resolve()), "license": genre.license}
    # Early revisions have no such key.
    if genre.language != "en":
        corpus_settings["language"] = genre.language
    fluency = {"model": str(Path(model).expanduser())} if model else "none"
    return {
        "name": name,
        "corpus": corpus_settings,
        "generate": "rules",
        "filter": {"fluency": fluency},
    }


def read_contradictions(genre: str, path: Path) -> Iterator[Contradiction]:
    """Yield the contradictions of a build in their order.

    Args:
        genre: The name of the genre.
        path: The CSV file of the build.
    """
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for number in range(3):
                column = f"contradiction_{number}"
                yield Contradiction(
                    genre=genre,
                    completion=row["completion"],
                    text=row[column],
                    error_type=row[f"{column}_type"],
                    edit=f"{row[f'{column}_generator']}: {row[f'{column}_edit']}",
                )


def summarise_builds(builds: Sequence[Build], answers: Mapping[str, str]) -> Record:
    """Return the figures of some builds together.

    Args:
        builds: The builds.
        answers: What people answered, by the key of the contradiction.
    """
    from factor_gen.audit.words import word_edit_distance

    counts = {"documents": 0, "eligible": 0, "rows": 0, "several": 0}
    contradictions: list[Contradiction] = []
    for build in builds:
        for name, count in build.counts.items():
            counts[name] += count
        contradictions += build.contradictions

    num_read: Counter[str] = Counter()
    total_distance = 0
    num_dates = 0
    for contradiction in contradictions:
        if contradiction.key in answers:
            num_read[answers[contradiction.key]] += 1
        total_distance += word_edit_distance(contradiction.completion, contradiction.text)
        num_dates += contradiction.edit.startswith("rules/date")
    floor = blind_floor(contradictions)
    # The shares of nothing are 0.
    divisor = max(1, len(contradictions))
    return {
        **counts,
        "share": counts["rows"] / max(1, counts["eligible"]),
        "read": num_read.total(),
        "bad": num_read[BAD],
        "bad_shown": _format_bad(num_read[BAD], num_read.total()),
        "distance": total_distance / divisor,
        "dated": num_dates / divisor,
        "floor": floor.accuracy,
        "floor_name": floor.statistic,
    }


def _format_bad(num_bad: int, num_read: int) -> str:
    """Return the share of bad contradictions with Wilson's interval, as "5.0% (2%-11%) of 100"."""
    if not num_read:
        return "-"
    interval = binomtest(num_bad, num_read).proportion_ci(method="wilson")
    return f"{num_bad / num_read:.1%} ({interval.low:.0%}-{interval.high:.0%}) of {num_read}"


def blind_floor(contradictions: Sequence[Contradiction]) -> BlindFloor:
    """Return the best accuracy of a surface statistic on pairs of a true and a false sentence.

    A statistic chooses the sentence with the larger value, or always the one with the smaller
    value. A tie counts half. Manifests have such a figure too, but that of an earlier revision may
    have been computed otherwise.
    """
    floor = BlindFloor("-", 0.5)
    if not contradictions:
        return floor
    for name, statistic in STATISTICS.items():
        wins = 0.0
        for contradiction in contradictions:
            difference = statistic(contradiction.completion) - statistic(contradiction.text)
            if difference > 0:
                wins += 1
            elif difference == 0:
                wins += 0.5
        share = wins / len(contradictions)
        accuracy = max(share, 1 - share)
        if accuracy > floor.accuracy:
            floor = BlindFloor(name, accuracy)
    return floor
