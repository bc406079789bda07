"""Every answer on disk before it is used: an SQLite file that several threads and processes may
share."""

import json
import logging
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from judges.answers import Answer
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import is_alive
from lm_factuality.ground.published import cache_folder

logger = logging.getLogger(__name__)

# seconds without a sign of life after which another process may take over what this one has claimed
EXPIRY = 120.0
_BUSY = 60.0  # seconds to wait for another process's transaction
_APPLICATION = 0x6C6D6661  # marks the file as ours
_ANSWER = TypeAdapter(Answer)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL, time TEXT NOT NULL, model TEXT NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owners (owner TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, beat REAL NOT NULL);
CREATE TABLE IF NOT EXISTS leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
"""  # noqa: E501
_LEASE = (
    "INSERT OR IGNORE INTO leases SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM answers WHERE key"
    " = ?1)"
)


def default_store() -> Path:
    return cache_folder() / "answers.sqlite"


class AnswerStore:
    """Answers by the key of their request (:meth:`judges.answers.Request.key`), and leases: who is
    asking for one just now. An answer is committed when ``put`` returns, so a killed process loses
    none; a power failure may take the last few, never the file. It must lie on a local disk:
    SQLite's write-ahead log does not work on network file systems."""

    def __init__(self, path: str | Path | None = None, expiry: float = EXPIRY) -> None:
        """Raises DataError if the file cannot be opened, or is not an answer store."""
        self.path = Path(path) if path is not None else default_store()
        self._expiry = expiry
        self._owner = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None
        with self._guarded():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            try:
                self._open()
            except BaseException:
                self._database.close()
                raise

    def _open(self) -> None:
        with self._transaction():
            (mark,) = self._database.execute("PRAGMA application_id").fetchone()
            (tables,) = self._database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            if mark != _APPLICATION:
                if tables:
                    raise DataError(
                        f"{self.path}: an SQLite database, but not of judges' answers; name another"
                        " file"
                    )
                for statement in _SCHEMA.split(";"):
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
        deadline = time.monotonic() + _BUSY
        while self._database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:  # another process is at it: SQLite does not wait here
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self._database.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Gives back what is still claimed and closes the file."""
        self._stop.set()
        if self._heart is not None:
            self._heart.join()
            with self._guarded(), self._transaction():
                self._disown(self._owner)
            self._heart = None
        self._database.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, Answer]:
        with self._guarded():
            query = "SELECT key, answer FROM answers WHERE key IN (SELECT value FROM json_each(?))"
            return {
                key: self._read(key, answer)
                for key, answer in self._database.execute(query, [json.dumps(list(keys))])
            }

    def _read(self, key: str, text: str) -> Answer:
        try:
            answer = _ANSWER.validate_json(text, strict=True)
            if answer.text is None:
                raise ValueError("it has no text")
        except ValueError as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else None
            what = f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip() if first else error
            raise DataError(
                f"{self.path}: the answer {key} cannot be read ({what}): it is damaged, or of a"
                " later version of the suite; update the suite, or delete that row of the table"
                " answers and its request is sent again, or name another file"
            ) from error
        return answer

    def put(self, key: str, answer: Answer, model: str = "") -> Answer:
        """Keeps ``answer`` and returns it, or the one that another process was first to keep under
        the same key. An answer with an error is not kept: its request is free to be asked again."""
        if answer.error is not None:
            self.release([key])
            return answer
        text = json.dumps(
            {name: value for name, value in asdict(answer).items() if value is not None},
            ensure_ascii=False,
        )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self._guarded():
            done = self._database.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", (key, text, now, model)
            )
        return answer if done.rowcount else self.get_many([key])[key]

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that the caller is now to ask for: nobody else does, and none has an
        answer yet. They stay claimed until there is an answer, ``release`` or ``close``, or this
        process has shown no sign of life for ``expiry`` seconds."""
        self._beat()
        ours = set()
        with self._guarded(), self._transaction():
            host, now = socket.gethostname(), time.time()
            for owner, its_host, pid, beat in self._database.execute(
                "SELECT owner, host, pid, beat FROM owners"
            ).fetchall():
                if now - beat > self._expiry or (
                    its_host == host and not is_alive(pid)
                ):  # it is gone: what it claimed is free
                    self._disown(owner)
            for key in keys:
                if self._database.execute(_LEASE, (key, self._owner)).rowcount:
                    ours.add(key)
        return ours

    def release(self, keys: Collection[str]) -> None:
        """Gives back what ``claim`` gave to this store."""
        with self._guarded(), self._transaction():
            self._database.executemany(
                "DELETE FROM leases WHERE key = ? AND owner = ?",
                [(key, self._owner) for key in keys],
            )

    def _disown(self, owner: str) -> None:
        self._database.execute("DELETE FROM leases WHERE owner = ?", (owner,))
        self._database.execute("DELETE FROM owners WHERE owner = ?", (owner,))

    def _beat(self) -> None:
        """Says that this store lives, and has a thread say it again from time to time."""
        with self._guarded():
            row = (self._owner, socket.gethostname(), os.getpid(), time.time())
            self._database.execute("INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?)", row)
            if self._heart is None:
                self._heart = threading.Thread(
                    target=self._keep_beating, name="answer-store", daemon=True
                )
                self._heart.start()

    def _keep_beating(self) -> None:
        while not self._stop.wait(self._expiry / 4):
            try:
                self._beat()
            except DataError as error:
                logger.warning("%s; other processes may ask again what this one is asking", error)

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
            except sqlite3.OperationalError as error:
                advice = "it needs a folder on a local disk that can be written to and has space"
                raise DataError(
                    f"{self.path}: the answer store cannot be used: {error}; {advice}"
                ) from error
            except sqlite3.DatabaseError as error:
                found = f"not an SQLite file of judges' answers, or a damaged one ({error})"
                raise DataError(
                    f"{self.path}: {found}; move it away to begin a new one, or name another file"
                ) from error
            except OSError as error:
                raise DataError(
                    f"{self.path}: the folder of the answer store cannot be made: {error}"
                ) from error
