"""Which files a corpus consists of, in which order, and how each is read."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from factor_gen.corpus.lines import read_csv, read_jsonl
from factor_gen.corpus.parquet import read_parquet
from factor_gen.corpus.texts import read_text
from factor_gen.records import Document
from factor_gen.settings import BuildSettings, CorpusSettings
from lm_factuality.errors import DataError

_WILD = "*?["
_TEXTS = (".txt", ".text", ".md", ".rst", "")
_READERS: Mapping[str, Callable[[CorpusFile, CorpusSettings], Iterator[Document]]]


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus. ``name`` is its path from the YAML's folder, ``id`` what distinguishes it from the others, which
    is the path from where the wildcard stands."""

    path: Path
    name: str
    id: str
    is_only: bool = True  # rows of an only file are numbered 1, 2, ...; those of several FILE:1, FILE:2, ...

    def number(self, row: int) -> str:
        """The id of a row that has none."""
        return str(row) if self.is_only else f"{self.id}:{row}"


_READERS = {
    ".jsonl": read_jsonl, ".jsonl.gz": read_jsonl, ".ndjson": read_jsonl, ".csv": read_csv, ".parquet": read_parquet,
    **dict.fromkeys(_TEXTS, read_text),
}  # fmt: skip


def find_files(settings: BuildSettings) -> list[CorpusFile]:
    """The files that ``corpus.path`` names, sorted by path: one file, a folder (its ``*.txt``), or a pattern with ``*``.

    Raises:
        DataError: there are none.
    """
    given = settings.corpus.path or ""
    pattern = settings.folder / Path(given).expanduser()
    where = f"corpus.path {given!r}"
    if pattern.is_dir():
        root, paths = pattern, sorted(pattern.glob("*.txt"))
        if not paths:
            raise DataError(
                f"{where}: the folder {pattern} holds no *.txt; name the files: {given.rstrip('/')}/*.jsonl"
            )
    elif pattern.is_file():
        root, paths = pattern.parent, [pattern]
    elif any(character in given for character in _WILD):
        root = _root(pattern)
        paths = sorted(Path(path) for path in glob.glob(str(pattern), recursive=True) if Path(path).is_file())  # noqa: PTH207
        if not paths:
            raise DataError(
                f"{where}: no file fits {pattern}; paths start from the folder of the YAML, {settings.folder}"
            )
    else:
        raise DataError(
            f"{where}: no such file or folder: {pattern}; paths start from the folder of the YAML, {settings.folder}"
        )
    is_absolute = Path(given).expanduser().is_absolute()
    return [
        CorpusFile(
            path,
            path.relative_to(root).as_posix()
            if is_absolute
            else Path(os.path.relpath(path, settings.folder)).as_posix(),
            path.relative_to(root).as_posix(),
            len(paths) == 1,
        )
        for path in paths
    ]


def read_file(file: CorpusFile, settings: CorpusSettings) -> Iterator[Document]:
    """The documents in ``file``.

    Raises:
        DataError: no reader for the file's ending, or what the reader finds wrong.
    """
    name = file.path.name.lower()
    ending = next((each for each in _READERS if each and name.endswith(each)), file.path.suffix.lower())
    if ending not in _READERS:
        raise DataError(
            f"{file.path}: ends in {ending!r}, expected {', '.join(each for each in _READERS if each)}; "
            "convert it, or name others with a pattern such as corpus: my_texts/*.txt"
        )
    return _READERS[ending](file, settings)


def _root(pattern: Path) -> Path:
    """The folder before the first part with a wildcard."""
    fixed = []
    for part in pattern.parts[:-1]:
        if any(character in part for character in _WILD):
            break
        fixed.append(part)
    return Path(*fixed)
