"""The store of judges' answers: an SQLite file that several threads and processes may share.

`judges.judge.answer_requests` looks answers up here, and keeps each new one before it is used.
"""

import json
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from judges.answers import Answer
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.records import to_model
from lm_factuality.ground.sqlite import exclusive_access, open_store

# What the store keeps, for error messages.
_CONTENTS = "judges' answers"

# The number in the file's header ("lmfa" in ASCII) that marks an SQLite file as an answer store.
_APPLICATION_ID = 0x6C6D6661

_TABLES = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL,"
    " time TEXT NOT NULL, model TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID",
)

# Adds a lease (?1 key, ?2 owner) unless the key has an answer or a lease already.
_ADD_LEASE = (
    "INSERT OR IGNORE INTO leases SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM answers WHERE key"
    " = ?1)"
)


def default_store() -> Path:
    """Return the store that judges use if none is named: a file in the user's cache folder."""
    return cache_folder() / "answers.sqlite"


class AnswerStore:
    """Answers on disk by the key of their request (`judges.answers.Request.key`).

    Processes that share the store do not ask the same request twice: each claims the keys that it
    will ask, which adds a lease per key. The owner of leases holds a lock on a file next to the
    store. The system releases that lock when the process ends, even if it is killed, and other
    processes then take the leases over.

    An answer is committed when `put` returns, so a killed process loses none. A power failure may
    lose the last few answers but does not damage the file. The file must be on a local disk, since
    SQLite's write-ahead log does not work on network file systems.

    Attributes:
        path: The SQLite file.
    """

    def __init__(self, path: str | Path | None) -> None:
        """Open a store, and create the file if it is missing.

        Args:
            path: The SQLite file. None takes the store in the user's cache folder.

        Raises:
            DataError: The file cannot be opened, or is not an answer store.
        """
        self.path = default_store() if path is None else Path(path)
        # Each opened store is an owner of leases, also within one process.
        self._owner = uuid.uuid4().hex
        self._owner_lock = self._lock_of(self._owner)
        self._thread_lock = threading.RLock()

        with self._exclusive_access():
            self._database = open_store(self.path, _APPLICATION_ID, _TABLES, _CONTENTS)
            try:
                self._delete_stale_lock_files()
            except BaseException:
                # The caller gets no store that it could close.
                self._database.close()
                raise

    def close(self) -> None:
        """Close the file. Other processes may then ask what this store has claimed."""
        if self._owner_lock.is_locked:
            with self._exclusive_access():
                self._delete_leases_of(self._owner)
            self._owner_lock.release()
            # As soon as the lock is released, another process may delete its file.
            Path(self._owner_lock.lock_file).unlink(missing_ok=True)
        self._database.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the stored answers to requests by key. Keys without an answer are left out.

        Raises:
            DataError: An answer is damaged, or the store cannot be used.
        """
        with self._exclusive_access():
            query = "SELECT key, answer FROM answers WHERE key IN (SELECT value FROM json_each(?))"
            rows = self._database.execute(query, [json.dumps(list(keys))])
            return {key: self._parse_answer(key, text) for key, text in rows}

    def put(self, key: str, answer: Answer, model: str = "") -> Answer:
        """Store an answer, unless it is an error.

        Args:
            key: The key of its request.
            answer: The answer. An error is not stored, and its request may be asked again.
            model: The identity of the model, for people who look into the file.

        Returns:
            The answer, or the one that another process stored first under the same key.

        Raises:
            DataError: The store cannot be used.
        """
        if answer.error is not None:
            self.release([key])
            return answer

        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self._exclusive_access():
            inserted = self._database.execute(
                "INSERT OR IGNORE INTO answers (key, answer, time, model) VALUES (?, ?, ?, ?)",
                (key, answer.to_json(), now, model),
            )

        if inserted.rowcount == 1:
            return answer
        # Nothing was inserted, because another process was first. Its answer counts.
        return self.get_many([key])[key]

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Claim requests that the caller is about to ask, so that no other process asks them.

        A claim ends with `release` or `close`, or when this process ends.

        Args:
            keys: The keys of the requests.

        Returns:
            The claimed keys. Requests that have an answer, and those that another process has
            claimed, are left out.

        Raises:
            DataError: The store cannot be used.
        """
        with self._exclusive_access(), self._transaction():
            # A lease counts only while its owner holds a file lock, so the lock is taken first.
            # Otherwise another process could take this one for dead, and delete its leases.
            if not self._owner_lock.is_locked:
                self._owner_lock.acquire()

            self._free_keys_of_dead_processes()
            claimed_keys = set()
            for key in keys:
                result = self._database.execute(_ADD_LEASE, (key, self._owner))
                # No row was added if the key has an answer or the lease of another process.
                if result.rowcount:
                    claimed_keys.add(key)
            return claimed_keys

    def _free_keys_of_dead_processes(self) -> None:
        """Delete the leases of processes that were killed, so that others can claim their keys."""
        rows = self._database.execute("SELECT DISTINCT owner FROM leases").fetchall()
        for (owner,) in rows:
            if owner != self._owner and self._delete_lock_if_ended(owner):
                self._delete_leases_of(owner)

    def release(self, keys: Collection[str]) -> None:
        """Give up keys that `claim` returned. Keys that another process has claimed stay so."""
        with self._exclusive_access(), self._transaction():
            self._database.executemany(
                "DELETE FROM leases WHERE key = ? AND owner = ?",
                [(key, self._owner) for key in keys],
            )

    def _delete_stale_lock_files(self) -> None:
        """Delete the lock files of processes that were killed.

        `claim` deletes only those of processes that had leases.
        """
        for lock_file in self.path.parent.glob(f"{self.path.name}.*.lock"):
            # The file of the owner 3f2a is called answers.sqlite.3f2a.lock.
            owner = lock_file.suffixes[-2].removeprefix(".")
            self._delete_lock_if_ended(owner)

    def _parse_answer(self, key: str, text: str) -> Answer:
        """Parse the JSON of a stored answer.

        Args:
            key: The key of its request, for errors.
            text: Its fields as JSON, such as ``{"text": "yes", "finish_reason": "stop"}``.

        Raises:
            DataError: The JSON is not an answer with a text.
        """
        try:
            answer = to_model(Answer, parse_json(text))
            # Only answers with a text are stored, so this row was changed by hand or is damaged.
            if answer.text is None:
                raise ValueError("it has no text")
        except ValueError as error:
            raise DataError(
                f"{self.path}: the answer {key} cannot be read: {error}; update the suite if a"
                " later version wrote it, or delete that row of the table answers to ask again"
            ) from error
        return answer

    def _lock_of(self, owner: str) -> FileLock:
        """Return the file lock that the process of an owner holds while it runs."""
        return FileLock(f"{self.path}.{owner}.lock", thread_local=False)

    def _delete_lock_if_ended(self, owner: str) -> bool:
        """Delete the lock file of an owner whose process has ended, and return whether it has."""
        lock = self._lock_of(owner)
        try:
            with lock.acquire(timeout=0):
                Path(lock.lock_file).unlink(missing_ok=True)
        except Timeout:
            # A running process holds its lock.
            return False
        return True

    def _delete_leases_of(self, owner: str) -> None:
        """Delete all leases of an owner, so that others can claim its keys."""
        self._database.execute("DELETE FROM leases WHERE owner = ?", (owner,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the ``with`` block in one transaction, which is rolled back after an exception."""
        with self._database:
            # The write lock is taken now, so that no other process writes between two statements.
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def _exclusive_access(self) -> AbstractContextManager[None]:
        """Return the context in which one thread at a time uses the file."""
        return exclusive_access(self._thread_lock, self.path, _CONTENTS)
