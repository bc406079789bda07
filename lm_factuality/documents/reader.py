"""Reading of files and folders: every file is read by its ending, or named with a reason.

The command line, indexes and benchmarks call `read_documents`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lm_factuality.documents.document import (
    Document,
    FileText,
    UnreadableError,
    UnreadDocument,
    read_text,
)
from lm_factuality.documents.markdown import read_markdown
from lm_factuality.documents.pages import read_html, read_pdf
from lm_factuality.documents.restructured import read_restructured
from lm_factuality.documents.rows import ROW_READERS, read_rows
from lm_factuality.documents.word import read_word
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.replies import storable


def read_documents(paths: Sequence[Path]) -> Iterator[Document | UnreadDocument]:
    """Read all documents in files and folders, one file in memory at a time.

    Folders are read with all folders in them, sorted by path. Hidden files and folders are skipped.
    The id of a document is its path from the folder, or from the folder that all paths share.

    Example:
        ``read_documents([Path("docs")])`` may yield ``Document("guides/setup.md", "Setup", "...")``
        and ``UnreadDocument("docs/logo.png", "ends in '.png', expected ...")``.

    Raises:
        DataError: A path does not exist.
    """
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; name one with documents")
    return _read_paths(paths)


def _read_paths(paths: Sequence[Path]) -> Iterator[Document | UnreadDocument]:
    """Yield the documents in files and folders. A file that is named twice is read once."""
    base = _common_folder(paths)
    files_read: set[Path] = set()
    for path in paths:
        for file in list_files(path):
            if isinstance(file, UnreadDocument):
                yield file
                continue
            absolute_file = _absolute(file)
            if absolute_file in files_read:
                continue
            # One path alone names no file twice, so its files, which may be many, are forgotten.
            if len(paths) > 1:
                files_read.add(absolute_file)
            relative = Path(os.path.relpath(absolute_file, base))
            yield from _read_file(file, storable(relative.as_posix()))


def _absolute(path: Path) -> Path:
    """Return a path from the root, without ``..``. Unlike `Path.resolve`, it follows no links."""
    return Path(os.path.normpath(path.absolute()))


def _common_folder(paths: Sequence[Path]) -> str:
    """Return the innermost folder that holds all paths. Ids of documents are relative to it."""
    absolute_paths = map(_absolute, paths)
    folders = [path if path.is_dir() else path.parent for path in absolute_paths]
    return os.path.commonpath(folders) if folders else ""


def list_files(path: Path) -> Iterator[Path | UnreadDocument]:
    """Yield the files that `read_documents` reads or reports, sorted by path.

    Yields:
        The files. In place of a folder that cannot be listed, or that a symbolic link leads to a
        second time, stands an `UnreadDocument`.
    """
    folders_seen: set[Path] = set()
    # The next path is taken from the end. Unlike recursion, this has no limit of depth.
    remaining = [path]
    while remaining:
        current = remaining.pop()
        if not current.is_dir():
            yield current
            continue

        real_folder = Path(os.path.realpath(current))
        if real_folder in folders_seen:
            yield UnreadDocument(
                str(current), "a link leads to a folder that is read already; nothing is missing"
            )
            continue
        folders_seen.add(real_folder)
        try:
            entries = [entry for entry in current.iterdir() if not entry.name.startswith(".")]
        except OSError as error:
            yield UnreadDocument(str(current), f"the folder cannot be listed: {error.strerror}")
            continue
        remaining.extend(sorted(entries, reverse=True))


def _read_file(path: Path, document_id: str) -> Iterator[Document | UnreadDocument]:
    """Yield the document in a file or, for a table, a document for each row.

    Args:
        path: The file.
        document_id: The id of the document, to which rows add their number.
    """
    # Opening a pipe or a device could wait for ever.
    if not path.is_file():
        yield UnreadDocument(str(path), "not a regular file, or a link to a file that is missing")
        return

    ending = ending_of(path)
    if ending in ROW_READERS:
        yield from read_rows(path, ending, document_id)
    elif ending in _READERS:
        yield from _read_document(path, document_id, _READERS[ending])
    else:
        yield UnreadDocument(str(path), f"ends in {ending!r}, expected {_FORMATS}")


def _read_document(
    path: Path, document_id: str, read: Callable[[Path], FileText]
) -> Iterator[Document | UnreadDocument]:
    """Yield the document in a file, and a note about each part of the file that cannot be read.

    Args:
        path: The file.
        document_id: The id of the document.
        read: The function that reads files of this format.
    """
    try:
        file_text = read(path)
    except UnreadableError as error:
        yield UnreadDocument(str(path), str(error))
        return
    except OSError as error:
        yield UnreadDocument(str(path), f"it cannot be opened: {error.strerror or error}")
        return

    text = storable(file_text.text).strip("\r\n")
    if text.strip():
        title = " ".join(storable(file_text.title).split())
        yield Document(document_id, title or storable(path.stem), text)
    else:
        yield UnreadDocument(str(path), "there is no text in it")
    if file_text.problem:
        yield UnreadDocument(str(path), file_text.problem)


def ending_of(path: Path) -> str:
    """Return the ending of a file's name in lower case, such as ``.md`` or ``.csv.gz``."""
    ending = path.suffix.lower()
    if ending == ".gz":
        # Only tables may be compressed.
        return f"{Path(path.stem).suffix.lower()}.gz"
    return ending


def _read_plain(path: Path) -> FileText:
    """Read a plain text, which has no title.

    Raises:
        UnreadableError: The file is no text.
    """
    return FileText("", read_text(path))


_FORMATS = (
    "Markdown, reStructuredText, text (.txt), HTML, PDF, DOCX, CSV, TSV, JSON, JSON Lines or"
    " Parquet"
)
_READERS: Mapping[str, Callable[[Path], FileText]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": _read_plain,
    ".text": _read_plain,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
    ".docx": read_word,
    ".rst": read_restructured,
}

ENDINGS: tuple[str, ...] = (*_READERS, *ROW_READERS)
"""The endings of files that can be read."""
