"""Every answer on disk before it is used.

An SQLite file holds the answers. Several threads and processes may share it.
"""

import json
import sqlite3
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from judges.answers import Answer
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.records import to_model

_BUSY = 60.0  # seconds to wait for another process's transaction
_APPLICATION = 0x6C6D6661  # marks the file as ours
_TABLES = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL,"
    " time TEXT NOT NULL, model TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID",
)
_LEASE = (
    "INSERT OR IGNORE INTO leases SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM answers WHERE key"
    " = ?1)"
)


def default_store() -> Path:
    """The file that judges use if none is named."""
    return cache_folder() / "answers.sqlite"


class AnswerStore:
    """Answers by the key of their request (`judges.answers.Request.key`), and leases.

    A lease says who is asking for an answer just now. Its owner holds a lock on a file beside the
    store, which the system releases when the process ends, however it ends.

    An answer is committed when ``put`` returns, so a killed process loses none. A power failure may
    take the last few, never the file. It must lie on a local disk: SQLite's write-ahead log does
    not work on network file systems.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open the store in a file, which is made if it is missing.

        Raises:
            DataError: The file cannot be opened, or is not an answer store.
        """
        self.path = Path(path) if path is not None else default_store()
        self._owner = uuid.uuid4().hex
        self._owner_lock = self._lock_of(self._owner)
        self._lock = threading.RLock()
        with self._guarded():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            try:
                self._make_tables()
                # A process that was killed with nothing claimed left a lock that no lease names.
                for lock in self.path.parent.glob(f"{self.path.name}.*.lock"):
                    self._is_gone(lock.suffixes[-2].removeprefix("."))
            except BaseException:
                self._database.close()
                raise

    def close(self) -> None:
        """Give back what is still claimed and close the file."""
        if self._owner_lock.is_locked:
            with self._guarded():
                self._disown(self._owner)
            self._owner_lock.release()
            Path(self._owner_lock.lock_file).unlink(missing_ok=True)
        self._database.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers that the store has.

        Raises:
            DataError: An answer is damaged, or the store cannot be used.
        """
        with self._guarded():
            query = "SELECT key, answer FROM answers WHERE key IN (SELECT value FROM json_each(?))"
            rows = self._database.execute(query, [json.dumps(list(keys))])
            return {key: self._read(key, answer) for key, answer in rows}

    def put(self, key: str, answer: Answer, model: str = "") -> Answer:
        """Keep an answer.

        An answer with an error is not kept: its request is free to be asked again.

        Returns:
            The answer, or the one that another process was first to keep under the same key.
        """
        if answer.error is not None:
            self.release([key])
            return answer
        fields = {name: value for name, value in asdict(answer).items() if value is not None}
        text = json.dumps(fields, ensure_ascii=False)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self._guarded():
            done = self._database.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", (key, text, now, model)
            )
        return answer if done.rowcount else self.get_many([key])[key]

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Claim what the caller is now to ask for.

        Returns:
            Those of ``keys`` that nobody else is asking for and that have no answer yet. They stay
            claimed until there is an answer, ``release`` or ``close``, or this process ends.
        """
        with self._guarded(), self._transaction():
            if not self._owner_lock.is_locked:
                self._owner_lock.acquire()
            for (owner,) in self._database.execute("SELECT DISTINCT owner FROM leases").fetchall():
                if owner != self._owner and self._is_gone(owner):
                    self._disown(owner)
            return {
                key for key in keys if self._database.execute(_LEASE, (key, self._owner)).rowcount
            }

    def release(self, keys: Collection[str]) -> None:
        """Give back what ``claim`` gave to this store."""
        with self._guarded(), self._transaction():
            self._database.executemany(
                "DELETE FROM leases WHERE key = ? AND owner = ?",
                [(key, self._owner) for key in keys],
            )

    def _make_tables(self) -> None:
        with self._transaction():
            (mark,) = self._database.execute("PRAGMA application_id").fetchone()
            (tables,) = self._database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            if mark != _APPLICATION:
                if tables:
                    raise DataError(
                        f"{self.path}: an SQLite database, but not of judges' answers; name another"
                        " file"
                    )
                for statement in _TABLES:
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
        # If another process is at it, SQLite does not wait here, and the mode stays with the file.
        with suppress(sqlite3.OperationalError):
            self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")

    def _read(self, key: str, text: str) -> Answer:
        try:
            answer = to_model(Answer, parse_json(text))
            if answer.text is None:
                raise ValueError("it has no text")
        except ValueError as error:
            raise DataError(
                f"{self.path}: the answer {key} cannot be read: {error}; it is damaged, or of a"
                " later version of the suite; update the suite, or delete that row of the table"
                " answers and its request is sent again, or name another file"
            ) from error
        return answer

    def _lock_of(self, owner: str) -> FileLock:
        return FileLock(f"{self.path}.{owner}.lock", thread_local=False)

    def _is_gone(self, owner: str) -> bool:
        """Whether the process that has claimed something has ended."""
        lock = self._lock_of(owner)
        try:
            with lock.acquire(timeout=0):
                Path(lock.lock_file).unlink(missing_ok=True)
        except Timeout:
            return False
        return True

    def _disown(self, owner: str) -> None:
        self._database.execute("DELETE FROM leases WHERE owner = ?", (owner,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._database:  # which commits, or rolls back after an error
            self._database.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """One thread at a time, and errors of SQLite with the name of the file."""
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError) as error:
                raise DataError(
                    f"{self.path}: the store of judges' answers cannot be used: {error}; it needs a"
                    " folder on a local disk with space; if the file is another one or damaged,"
                    " move it away or name another"
                ) from error
