"""Files whose SHA-256 is computed while they are read."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 20


class HashedFile(io.RawIOBase):
    """A file for reading that sums up every byte the first time it passes; seeking back does not sum it up again."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._digest = hashlib.sha256()
        self.hashed = 0  # bytes from the start that are in the sum

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves; what lies between the sum's end and a later place is read for the sum first."""
        target = self._file.seek(offset, whence)
        if target > self.hashed:
            self.hash_to(target)
            self._file.seek(target)
        return target

    def readinto(self, buffer: WriteableBuffer) -> int:
        start = self._file.tell()
        view = memoryview(buffer)
        count = self._file.readinto(view)
        end = start + count
        if end > self.hashed:
            self._digest.update(view[self.hashed - start : count])
            self.hashed = end
        return count

    def hash_to(self, end: int | None = None) -> str:
        """Reads on until the first ``end`` bytes (all, if None) are in the sum; returns the sum as it then is."""
        self._file.seek(self.hashed)
        while end is None or self.hashed < end:
            chunk = self._file.read(_CHUNK if end is None else min(_CHUNK, end - self.hashed))
            if not chunk:
                break
            self._digest.update(chunk)
            self.hashed += len(chunk)
        return self.sha256()

    def sha256(self) -> str:
        """The sum of the first ``hashed`` bytes."""
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()
        super().close()
