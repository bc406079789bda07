"""The files or the dataset that a corpus is: where they lie, and what they were when they were
read."""

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from factor_gen.records import whole
from factor_gen.settings import BuildSettings
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.packages import commit_of, stream
from lm_factuality.ground.tables import Record

TEXTS = (".txt", ".text", ".md", ".rst", "")
"""The endings of files that are a document each."""
_WILD = "*?["


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus. ``name`` is its path from the YAML's folder, ``id`` what distinguishes
    it from the others, which is the path from where the wildcard stands."""

    path: Path
    name: str
    id: str
    is_only: bool = (
        True  # rows of an only file are numbered 1, 2, ...; those of several FILE:1, FILE:2, ...
    )

    def number(self, row: int) -> str:
        """The id of a row that has none."""
        return str(row) if self.is_only else f"{self.id}:{row}"


def find_files(settings: BuildSettings) -> list[CorpusFile]:
    """The files that ``corpus.path`` names, sorted by path: one file, a folder (its ``*.txt``), or
    a pattern with ``*``. Raises DataError: there are none."""
    given = settings.corpus.path or ""
    pattern = settings.folder / Path(given).expanduser()
    where = f"corpus.path {given!r}"
    if pattern.is_dir():
        root, paths = pattern, sorted(pattern.glob("*.txt"))
        if not paths:
            ending = next(
                (path.suffix for path in sorted(pattern.iterdir()) if path.suffix), ".jsonl"
            )
            raise DataError(
                f"{where}: the folder {pattern} holds no *.txt; name the files:"
                f" {given.rstrip('/')}/*{ending}"
            )
    elif pattern.is_file():
        root, paths = pattern.parent, [pattern]
    elif any(character in given for character in _WILD):
        root, wild = _cut(pattern)
        found = glob.glob(wild, root_dir=root, recursive=True)  # noqa: PTH207 (pathlib's finds hidden files too)
        paths = sorted(root / path for path in found if (root / path).is_file())
        if not paths:
            raise DataError(
                f"{where}: no file fits {pattern}; paths start from the folder of the YAML,"
                f" {settings.folder}"
            )
    else:
        raise DataError(
            f"{where}: no such file or folder: {pattern}; paths start from the folder of the YAML,"
            f" {settings.folder}"
        )
    is_absolute = Path(given).expanduser().is_absolute()
    names = [
        Path(os.path.relpath(path, root if is_absolute else settings.folder)).as_posix()
        for path in paths
    ]
    return [
        CorpusFile(path, whole(name), whole(path.relative_to(root).as_posix()), len(paths) == 1)
        for path, name in zip(paths, names, strict=True)
    ]


def is_text(folder: Path, given: str) -> bool:
    """Whether ``corpus.path``, seen from ``folder``, names text files, each of which is a
    document."""
    path = folder / Path(given).expanduser()
    return path.suffix.lower() in TEXTS[:-1] or path.is_dir()


def _cut(pattern: Path) -> tuple[Path, str]:
    """The folder before the first part with a wildcard, and the rest; a folder that is there is
    meant as it is written."""
    root, parts = Path(pattern.anchor), pattern.relative_to(pattern.anchor).parts
    for place, part in enumerate(parts[:-1]):
        if any(character in part for character in _WILD) and not (root / part).is_dir():
            return root, str(Path(*parts[place:]))
        root /= part
    return root, parts[-1]


_COMMIT = re.compile(r"[0-9a-f]{40}")


def local_folder(settings: BuildSettings) -> Path | None:
    """The folder that ``corpus.dataset`` is, seen from the YAML; None if it is the name of a
    dataset of the Hub."""
    folder = settings.folder / Path(settings.corpus.dataset or "").expanduser()
    return folder if settings.corpus.dataset and folder.is_dir() else None


def current_commit(settings: BuildSettings) -> str:
    """The commit that the dataset's revision (its newest, if none is given) is at now. Raises
    DataError: the Hub doesn't answer, or has no such dataset."""
    corpus = settings.corpus
    if corpus.revision is not None and _COMMIT.fullmatch(corpus.revision):
        return corpus.revision
    return commit_of(
        corpus.dataset or "", f"corpus.dataset, no folder in {settings.folder}", corpus.revision
    )


def dataset_rows(settings: BuildSettings, commit: str | None) -> Iterator[Record]:
    """The rows of ``corpus.dataset``, at ``commit`` where it is the Hub's. Raises DataError: it
    cannot be read."""
    corpus, where = settings.corpus, f"corpus.dataset {settings.corpus.dataset!r}"
    source = local_folder(settings) or corpus.dataset or ""
    for split in corpus.split.split(
        "+"
    ):  # which the datasets library takes only where it doesn't stream
        rows = stream(
            source,
            corpus.config,
            split.strip(),
            commit,
            where,
            "corpus: {dataset: NAME, split: NAME}",
        )
        for number, values in enumerate(rows, start=1):
            yield Record(f"{corpus.dataset}[{split.strip()}], row {number}", values)


@dataclass(frozen=True)
class FileRecord:
    """A file by its name (seen from the YAML), bytes and SHA-256. ``mtime_ns`` only tells whether
    to sum it up again."""

    name: str
    bytes: int
    sha256: str
    mtime_ns: int = 0


@dataclass(frozen=True)
class CorpusRecord:
    """The files of a corpus, or its dataset and the commit that was read."""

    files: tuple[FileRecord, ...] = ()
    dataset: str | None = None
    revision: str | None = None  # as the YAML gives it
    commit: str | None = None

    def describe(self) -> dict[str, Any]:
        """For the manifest: what decides the documents, as JSON has it."""
        if self.commit:
            return {"dataset": self.dataset, "commit": self.commit}
        return {
            "files": [
                {"name": each.name, "bytes": each.bytes, "sha256": each.sha256}
                for each in self.files
            ]
        }


def corpus_files(settings: BuildSettings) -> list[tuple[Path, str]]:
    """The files that the corpus is read from, with their names seen from the YAML; none of a
    dataset of the Hub. Raises DataError: there are no such files."""
    folder = local_folder(settings)
    if folder is not None:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return [(path, whole(path.relative_to(folder).as_posix())) for path in paths]
    return (
        []
        if settings.corpus.dataset is not None
        else [(file.path, file.name) for file in find_files(settings)]
    )


def corpus_record(settings: BuildSettings, before: CorpusRecord | None = None) -> CorpusRecord:
    """The record of the corpus as it now is. ``before``, the record when the build began, spares
    files of the same size and time a second summing up; and a build goes on with the commit that it
    began with, though the dataset may have a newer one. Raises DataError: no such files or dataset,
    or a file that cannot be read."""
    corpus = settings.corpus
    if corpus.dataset is not None and local_folder(settings) is None:
        same = before is not None and (before.dataset, before.revision) == (
            corpus.dataset,
            corpus.revision,
        )
        commit = (
            before.commit
            if before is not None and same and before.commit
            else current_commit(settings)
        )
        return CorpusRecord((), corpus.dataset, corpus.revision, commit)
    known = {each.name: each for each in before.files} if before else {}
    shown = tqdm(corpus_files(settings), desc="corpus", unit=" files", delay=2, leave=False)
    return CorpusRecord(tuple(_file_record(path, name, known.get(name)) for path, name in shown))


def _file_record(path: Path, name: str, before: FileRecord | None) -> FileRecord:
    try:
        stat = path.stat()
        if before is not None and (before.bytes, before.mtime_ns) == (
            stat.st_size,
            stat.st_mtime_ns,
        ):
            return before
        return FileRecord(name, stat.st_size, sha256_of(path), stat.st_mtime_ns)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error}; let yourself read it, or leave it out of corpus.path"
        ) from error
