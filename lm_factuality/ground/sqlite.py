"""Access to SQLite files that several threads share."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lm_factuality.ground.errors import DataError


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
