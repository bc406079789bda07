"""Access to SQLite files that several threads share."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from lm_factuality.ground.errors import DataError

_BUSY_SECONDS = 60.0  # that a process waits while another writes


def open_store(
    path: Path, application_id: int, tables: Iterable[str], contents: str
) -> sqlite3.Connection:
    """Open an SQLite file that threads and processes share, and create it if it is missing.

    Each statement is committed at once, so that a killed process loses none. Threads have to use
    the connection one at a time (`exclusive_access`).

    Args:
        path: The file. It must be on a local disk, because of the write-ahead log.
        application_id: The number that marks files of this kind.
        tables: The statements that create the tables of a new file.
        contents: What the store keeps, such as ``searches``, for the error message.

    Returns:
        The connection, which the caller closes.

    Raises:
        DataError: The file is an SQLite database of another program.
        sqlite3.Error: SQLite failed.
        OSError: The folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _create_tables(database, path, application_id, tables, contents)
    except BaseException:
        # The caller gets no connection that it could close.
        database.close()
        raise
    return database


def _create_tables(
    database: sqlite3.Connection,
    path: Path,
    application_id: int,
    tables: Iterable[str],
    contents: str,
) -> None:
    """Create the tables in a new file, and set how SQLite writes.

    Args:
        database: The connection to the file.
        path: The file, for the error.
        application_id: The number that marks files of this kind.
        tables: The statements that create the tables.
        contents: What the store keeps, such as ``searches``, for the error.

    Raises:
        DataError: The file is an SQLite database of another program.
    """
    with database:
        # The write lock is taken now, so that no other process writes in between.
        database.execute("BEGIN IMMEDIATE")
        (found_id,) = database.execute("PRAGMA application_id").fetchone()
        (num_tables,) = database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        # A new file has no tables and no application id yet.
        if num_tables and found_id != application_id:
            raise DataError(f"{path}: an SQLite database, but not of {contents}; name another file")
        if found_id != application_id:
            for statement in tables:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {application_id}")

    # The write-ahead log lets processes read while another writes. The file keeps this mode.
    # Setting it fails only while another process sets it, and then nothing is left to do.
    with suppress(sqlite3.OperationalError):
        database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def exclusive_access(
    lock: AbstractContextManager[object], path: Path, contents: str
) -> Iterator[None]:
    """Run the ``with`` block in one thread at a time.

    Args:
        lock: The lock of the store. It may be reentrant.
        path: The SQLite file of the store.
        contents: What the store keeps, such as ``searches``, for the error message.

    Raises:
        DataError: SQLite or the file system failed. The message names the file.
    """
    with lock:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"{path}: the store of {contents} cannot be used: {error}; it needs a folder on a"
                " local disk with space; if the file is another one or damaged, move it away or"
                " name another"
            ) from error
