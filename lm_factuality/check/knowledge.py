"""The documents that answers are checked against: one index that follows the files.

`open_knowledge` builds the index in the user's cache folder, or brings it up to date, and opens it.
A file is read again only if its content has changed. An interrupted build continues where it
stopped, in a folder that gets the index's name once it is complete.
"""

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tantivy
from filelock import FileLock, Timeout
from tqdm import tqdm

from lm_factuality import __version__
from lm_factuality.check.check import FoundEvidence
from lm_factuality.check.knowledge_store import STORE, ChangedFile, KnowledgeStore
from lm_factuality.documents import Document, UnreadDocument, list_files, read_documents
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.packages import first_line
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.replies import storable
from lm_factuality.ground.sentences import spaced
from lm_factuality.retrieval.bm25 import (
    HEAP_BYTES,
    TANTIVY,
    Searcher,
    add_texts,
    open_tantivy,
    remove_texts,
)
from lm_factuality.retrieval.knowledge import Knowledge, spellings

logger = logging.getLogger(__name__)

_STEMMER = "english"
_FORMAT = 1
# Packages on which the texts of documents, or the files of the index, depend.
_PACKAGES = ("docutils", "markdown-it-py", "pypdf", "python-docx", "resiliparse", "tantivy")
# The name under which an index states the versions that built it.
_VERSIONS = "conditions"
_SQLITE_HEADER = b"SQLite format 3\0"
# Tantivy counts removed texts in the frequencies of words. From this share on, the index of words
# is made anew from the stored passages.
_MAX_REMOVED_SHARE = 0.25
_DOCUMENTS_PER_NOTE = 1000


class _DamagedIndexError(Exception):
    """The files of an index are missing or damaged. The text says what is wrong."""


class CheckKnowledge:
    """An open index of documents. Texts stay on disk, however many documents there are.

    Attributes:
        num_documents: The number of documents that can be found.
        num_passages: The number of passages that they were cut into.
        identity: 16 hexadecimal digits that identify the contents of the files in results.
    """

    def __init__(self, source: Path, folder: Path, unlisted: Sequence[UnreadDocument] = ()) -> None:
        """Open an index that `open_knowledge` has brought up to date.

        Args:
            source: The file or folder of documents.
            folder: The folder of the index.
            unlisted: The folders of documents that cannot be listed.

        Raises:
            _DamagedIndexError: A file of the index is missing or damaged.
        """
        self._source = source
        self._folder = folder
        self._unlisted = unlisted
        try:
            self._store = KnowledgeStore(folder / STORE, source)
            counts = self._store.get_state("counts")
            index = tantivy.Index.open(str(folder / TANTIVY))
            self._searcher = Searcher(index, _STEMMER)
            self.num_documents = int(counts["documents"])
            self.num_passages = int(counts["passages"])
            self.identity = self._store.identity()
        except (sqlite3.Error, ValueError, TypeError, LookupError, OSError) as error:
            raise _DamagedIndexError(first_line(error)) from error
        # Texts that were removed do not count.
        num_searchable = index.searcher().num_docs
        if num_searchable != self.num_passages:
            raise _DamagedIndexError(
                f"{num_searchable:,} passages can be searched, expected {self.num_passages:,}"
            )

    @property
    def unread(self) -> list[UnreadDocument]:
        """The files, rows and folders that could not be read, with the reasons."""
        return [*self._unlisted, *self._store.unread()]

    @property
    def problems(self) -> list[str]:
        """A sentence about each document that could not be read."""
        return [f"{unread.path}: {unread.reason}" for unread in self.unread]

    def describe(self) -> dict[str, Any]:
        """Return what the evidence of a check is, for ``summary.json``."""
        return {
            "knowledge": str(self._source),
            "documents": self.num_documents,
            "identity": self.identity,
        }

    def passages(self, title: str) -> list[str] | None:
        """Return the passages of the documents with a title, in order.

        Args:
            title: The title in any of its `spellings`, such as ``Ada_Lovelace``.

        Returns:
            The passages, or None if no document has this title.
        """
        for spelling in spellings(title):
            texts = self._store.texts_by_title(spelling)
            if texts:
                return texts
        return None

    def find(self, claims: Sequence[str], count: int = 5) -> list[FoundEvidence]:
        """Find the passages that share the most and the rarest words with each claim (BM25).

        Args:
            claims: The claims, or any other texts. Equal ones are searched for once.
            count: The number of passages per claim.

        Returns:
            The passages of each claim, best first, with their BM25 scores. There are fewer than
            ``count`` if fewer share a word with the claim.

        Raises:
            ConfigError: ``count`` is less than 1.
            DataError: The index is damaged.
        """
        if count < 1:
            raise ConfigError(f"count is {count}, expected at least 1 passage per claim")
        evidence_by_claim: dict[str, FoundEvidence] = {}
        try:
            for claim in tqdm(dict.fromkeys(claims), "finding evidence", unit=" claims"):
                ranking = self._searcher.rank(spaced(claim), count)
                passages = self._store.evidence([number for number, _ in ranking])
                scores = tuple(score for _, score in ranking)
                evidence_by_claim[claim] = FoundEvidence(tuple(passages), scores)
        except (sqlite3.Error, ValueError, LookupError) as error:
            raise DataError(
                f"{self._folder}: this index is damaged ({first_line(error)}); delete the folder,"
                " and the next run builds it again"
            ) from error
        return [evidence_by_claim[claim] for claim in claims]

    def close(self) -> None:
        """Close the files of the index."""
        self._store.close()


def open_knowledge(path: Path, cache: Path | None = None) -> CheckKnowledge:
    """Open the index of people's documents, after reading those that are new or have changed.

    Args:
        path: A folder, a file with documents, or a database that ``knowledge build`` or FActScore
            made.
        cache: The folder for indexes of all paths. By default ``knowledge`` in the suite's cache.

    Returns:
        The index. If another process is building it, this function waits.

    Raises:
        DataError: The path does not exist, nothing in it can be read, or the index cannot be
            written.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; name one with documents")
    # The same documents have one index, also if links lead to them.
    digest = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    folder = (cache or cache_folder() / "knowledge") / digest

    with _locked_index(folder, path):
        try:
            knowledge = _update_and_open(path, folder)
        except (sqlite3.Error, ValueError, OSError, _DamagedIndexError) as error:
            raise DataError(
                f"{folder}: the index of {path} cannot be written: {first_line(error)}; free disk"
                " space, or set LM_FACTUALITY_HOME to a folder elsewhere"
            ) from error
    if knowledge.num_documents == 0:
        raise _nothing_read(path, knowledge.unread)
    return knowledge


@contextmanager
def _locked_index(folder: Path, source: Path) -> Iterator[None]:
    """Lock an index while the block runs, after waiting for other processes.

    Args:
        folder: The folder of the index. The lock is a file beside it.
        source: The documents, for the note about waiting.

    Raises:
        DataError: The lock cannot be written.
    """
    lock = FileLock(folder.with_suffix(".lock"))
    try:
        # The index holds texts that only their owner may be allowed to read.
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _acquire(lock, source)
    except OSError as error:
        raise DataError(
            f"{folder.parent}: indexes cannot be written here: {error}; set LM_FACTUALITY_HOME to"
            " a folder elsewhere"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, source: Path) -> None:
    """Acquire the lock of an index, with a note if another process has it first."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.warning("%s: waiting for another process, which is indexing it", source)
        lock.acquire()


def _update_and_open(source: Path, folder: Path) -> CheckKnowledge:
    """Bring an index up to date if documents have changed, and open it.

    Args:
        source: The file or folder of documents.
        folder: The folder of the index. An update is made in a folder beside it, which replaces it
            at the end.

    Raises:
        sqlite3.Error, ValueError, OSError, _DamagedIndexError: The index cannot be written.
    """
    unlisted = [entry for entry in list_files(source) if isinstance(entry, UnreadDocument)]
    unfinished = folder.with_suffix(".partial")
    # The update continues what a killed process left unfinished. If there is nothing to continue,
    # it begins with a copy of the index or, without an index, from nothing.
    if not _is_usable(unfinished, source):
        shutil.rmtree(unfinished, ignore_errors=True)
        knowledge = _open_if_intact(source, folder, unlisted)
        if knowledge is not None:
            if not _has_changes(source, folder):
                return knowledge
            knowledge.close()
            _copy_index(folder, unfinished)
    _update_or_rebuild_index(source, unfinished)

    # If the process is killed here, the unfinished folder is complete and is renamed next time.
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return CheckKnowledge(source, folder, unlisted)


def _is_usable(folder: Path, source: Path) -> bool:
    """Tell whether the installed packages can update the index in a folder, finished or not."""
    if not (folder / STORE).is_file():
        return False
    try:
        # SQLite may have to undo what a killed process left half written, so it needs to write.
        with closing(KnowledgeStore(folder / STORE, source, writable=True)) as store:
            return bool(store.get_state(_VERSIONS) == _installed_versions())
    except (sqlite3.Error, ValueError):
        return False


def _installed_versions() -> Mapping[str, str | int]:
    """Return the versions of the software that an index depends on.

    Example:
        ``{"format": 1, "lm-factuality": "1.0", "pypdf": "7.0", "python-docx": "", ...}``
    """
    versions: dict[str, str | int] = {"format": _FORMAT, "lm-factuality": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            # Once the package is installed, the index is built anew, with the files that need it.
            versions[package] = ""
    return versions


def _open_if_intact(
    source: Path, folder: Path, unlisted: Sequence[UnreadDocument]
) -> CheckKnowledge | None:
    """Open an index that exists, without bringing it up to date.

    Args:
        source: The file or folder of documents.
        folder: The folder of the index.
        unlisted: The folders of documents that cannot be listed.

    Returns:
        The index. None if there is none, or if it is damaged or of other versions of the software
        and has to be built anew, which is logged.
    """
    if not folder.exists():
        return None
    try:
        knowledge = CheckKnowledge(source, folder, unlisted)
    except _DamagedIndexError as error:
        logger.warning("%s: its index is damaged (%s) and is built anew", source, error)
        return None
    if _is_usable(folder, source):
        return knowledge
    logger.warning("%s: its index is of other versions of the software and is built anew", source)
    knowledge.close()
    return None


def _has_changes(source: Path, folder: Path) -> bool:
    """Tell whether files are new, differ or are gone since they were indexed."""
    with closing(KnowledgeStore(folder / STORE, source, writable=True)) as store:
        store.mark_changed_files(_listed_files(source))
        return store.count_changed() > 0 or store.count_gone() > 0


def _listed_files(source: Path) -> Iterator[Path]:
    """Yield the files that the source has now."""
    for entry in list_files(source):
        if isinstance(entry, Path):
            yield entry


def _copy_index(folder: Path, unfinished: Path) -> None:
    """Copy an index to another folder, where it is then brought up to date.

    The original stays usable meanwhile, also if the update fails.

    Args:
        folder: The folder of the index: Tantivy's index of words and the store of passages.
        unfinished: The folder for the copy. It does not exist yet.
    """
    # Locks belong to the processes that have the original open.
    ignore_locks = shutil.ignore_patterns("*.lock")
    shutil.copytree(
        folder / TANTIVY, unfinished / TANTIVY, ignore=ignore_locks, copy_function=_link_or_copy
    )
    # The next run takes a folder with a store for a whole copy. If this process is killed, the
    # folder must not have half a store, so the store is copied last and gets its name at the end.
    temporary = unfinished / f"{STORE}.part"
    shutil.copyfile(folder / STORE, temporary)
    temporary.rename(unfinished / STORE)


def _link_or_copy(original: str, copy: str) -> None:
    """Give a file of Tantivy a second name, a hard link, or copy the file if it may change.

    A hard link takes no time and space. Tantivy never changes a file that it has written, apart
    from its lists of files (``.json``), so an update of the copy leaves the original as it was.
    """
    if original.endswith(".json"):
        shutil.copyfile(original, copy)
        return
    try:
        os.link(original, copy)
    except OSError:
        # Not every file system has hard links.
        shutil.copyfile(original, copy)


def _update_or_rebuild_index(source: Path, folder: Path) -> None:
    """Bring the unfinished index in a folder up to date. If it is damaged, build it anew.

    Raises:
        sqlite3.OperationalError: The disk is full, for example, so that no index can be built.
    """
    try:
        _update_index(source, folder)
    except sqlite3.DatabaseError as error:
        # Other database errors say that the file of the index is damaged.
        if isinstance(error, sqlite3.OperationalError):
            raise
        logger.warning("%s: its index is damaged (%s) and is built anew", source, error)
        shutil.rmtree(folder)
        _update_index(source, folder)


def _update_index(source: Path, folder: Path) -> None:
    """Bring the unfinished index in a folder up to date, or begin it."""
    folder.mkdir(exist_ok=True)
    with closing(KnowledgeStore(folder / STORE, source, writable=True)) as store:
        store.set_state(_VERSIONS, _installed_versions())
        store.mark_changed_files(_listed_files(source))
        store.remove_gone_files()
        _read_changed_files(source, store)
        _index_words(store, folder / TANTIVY)
        counts = {table: store.count(table) for table in ("documents", "passages")}
        store.set_state("counts", counts)


def _with_progress(
    documents: Iterator[Document | UnreadDocument], progress: "tqdm[ChangedFile]"
) -> Iterator[Document | UnreadDocument]:
    """Yield documents, and show how many there were if one file has very many."""
    for number, document in enumerate(documents, start=1):
        if number % _DOCUMENTS_PER_NOTE == 0:
            progress.set_postfix({"documents in this file": number})
        yield document


def _read_changed_files(source: Path, store: KnowledgeStore) -> None:
    """Store the documents of the files that are marked as changed, and show the progress."""
    num_files = store.count_changed()
    with tqdm(
        store.changed_files(), "read", num_files, unit=" files", disable=num_files == 0
    ) as progress:
        for file in progress:
            documents = _read_file(source, file)
            store.replace_file(file, _with_progress(documents, progress))


def _read_file(source: Path, file: ChangedFile) -> Iterator[Document | UnreadDocument]:
    """Yield the documents of one file, with ids that begin with its path.

    Example:
        The file ``laws/tax.csv`` in the folder of documents has ids such as ``laws/tax.csv#3``.
    """
    # A database is read only if the user names it, and not if it lies in a folder.
    if file.path == source and is_database(source):
        yield from Knowledge(source).iterate_pages()
        return
    try:
        documents = read_documents([file.path])
    except DataError:
        yield UnreadDocument(str(file.path), "it is gone, or a link to a file that is missing")
        return

    folder = storable(file.relative_path.removesuffix(file.path.name))
    for document in documents:
        if isinstance(document, Document):
            # The file was read alone, so the id lacks its folder.
            document = replace(document, id=f"{folder}{document.id}")
        yield document


def is_database(path: Path) -> bool:
    """Tell whether a file is an SQLite database."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def _index_words(store: KnowledgeStore, folder: Path) -> None:
    """Bring the index of words up to date with the stored passages, or make it anew.

    The store has in its state ``indexed_to`` the number of the last passage in the index of words.
    It has None while the index changes. If the process is killed then, the next run therefore makes
    the index anew, since nobody knows which passages it has.
    """
    last_indexed = store.get_state("indexed_to")
    removed_numbers = store.removed_numbers()
    num_removed = (store.get_state("num_removed") or 0) + len(removed_numbers)
    has_too_many_removed = num_removed > _MAX_REMOVED_SHARE * store.count("passages")
    store.set_state("indexed_to", None)

    if last_indexed is None or has_too_many_removed:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        last_indexed = 0
        num_removed = 0
        removed_numbers = []
    index = open_tantivy(_STEMMER, folder, can_remove=True)
    if removed_numbers:
        remove_texts(index, removed_numbers)
    # A writer takes memory and time even if it has nothing to add.
    if store.largest_number() > last_indexed:
        _add_passages(store, index, last_indexed)

    store.forget_removed()
    store.set_state("num_removed", num_removed)
    # The index is complete, so this comes last.
    store.set_state("indexed_to", store.largest_number())


def _add_passages(store: KnowledgeStore, index: tantivy.Index, last_indexed: int) -> None:
    """Add the stored passages with numbers above ``last_indexed`` to an index of words."""
    num_new = store.count_passages_after(last_indexed)
    # Signs of scripts without spaces become words of their own.
    texts = ((number, spaced(text)) for number, text in store.iterate_texts(last_indexed))
    with tqdm(texts, "index", num_new, unit=" passages", disable=not num_new) as progress:
        add_texts(index, progress, HEAP_BYTES)


def _nothing_read(path: Path, unread: Sequence[UnreadDocument]) -> DataError:
    """Return the error that nothing can be read, with the first reason."""
    if not unread:
        return DataError(f"{path}: there are no files in this folder; name one with documents")
    first = unread[0]
    return DataError(
        f"{path}: nothing here can be read; the first of {len(unread):,} problems is in"
        f" {first.path}: {first.reason}"
    )
