"""Files and folders that are whole or not there, their sums, and strict JSON.

Every command writes its outputs with `whole_file` and `whole_folder`, so that a run that is killed
leaves the earlier output as it was.
"""

import contextlib
import hashlib
import json
import os
import shutil
import socket
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lm_factuality.ground.errors import DataError

MOST_NESTED = 100  # lists and objects of JSON in one another

_BLOCK = 1 << 20  # bytes that are read at once
_STARTED = time.time()
# Several machines may share a folder, and number their processes alike.
_MACHINE = f"{zlib.crc32(socket.gethostname().encode()):08x}"


@contextmanager
def whole_file(
    path: Path,
    errors: tuple[type[Exception], ...] = (OSError, ValueError),
    cure: str = "choose another place",
) -> Iterator[Path]:
    """Give a file to write to, which becomes ``path`` when the block ends well.

    Args:
        path: Its folder is made if need be.
        errors: What writing may raise.
        cure: What to do then.

    Raises:
        DataError: One of ``errors`` was raised.
    """
    part = _part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        yield part
        part.replace(path)
    except errors as error:
        if isinstance(error, UnicodeError):
            cure = "write the text without the characters it names"
        raise DataError(f"{path}: cannot be written: {error}; {cure}") from error
    finally:
        with contextlib.suppress(OSError):  # there may be no folder to remove it from
            part.unlink()


@contextmanager
def whole_folder(out: Path, mark: str) -> Iterator[Path]:
    """Give a folder to write to, which becomes ``out`` when the block ends well.

    Args:
        out: An earlier folder is replaced if it is empty or holds ``mark``. A link is followed.
        mark: A file that tells folders made by this command.

    Raises:
        DataError: ``out`` is something else, or cannot be written.
    """
    out = Path(os.path.realpath(out))
    is_replaced = out.is_dir() and ((out / mark).is_file() or not any(out.iterdir()))
    if out.exists() and not is_replaced:
        raise DataError(
            f"{out}: is there already, and is no folder with {mark}, so not made by this command;"
            " it is left as it is, choose another --out"
        )
    part = _part_of(out)
    earlier = out.with_name(f".{out.name}.earlier")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out.parent)
        if earlier.exists() and not out.exists():  # a process was killed between two renames
            earlier.replace(out)
        for left in (part, earlier):
            shutil.rmtree(left, ignore_errors=True)
        part.mkdir(mode=0o700)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error}; choose another folder") from error
    try:
        yield part
        part.chmod(0o755)
        _replace_folder(part, out, earlier)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _replace_folder(part: Path, out: Path, earlier: Path) -> None:
    """Rename a folder. What was there is moved aside first, and comes back if that fails."""
    try:
        if out.exists():
            out.replace(earlier)
        part.replace(out)
    except OSError as error:
        if earlier.exists():
            earlier.replace(out)
        raise DataError(f"{out}: cannot be replaced: {error}; choose another folder") from error
    shutil.rmtree(earlier, ignore_errors=True)


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.part")


@cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes of this machine left half-written in a folder, once a process.

    In containers an earlier process may have had this one's number. What it left is older.
    """
    for path in folder.glob(f".*.{_MACHINE}.*.part"):
        pid = path.suffixes[-2].removeprefix(".")
        with contextlib.suppress(OSError):  # another process was faster, or it is not ours
            is_ours = pid == str(os.getpid()) and path.stat().st_mtime > _STARTED
            if is_ours or _is_alive(int(pid)):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _is_alive(pid: int) -> bool:
    """Tell whether another process of this machine runs.

    On Windows, where asking would end it, the answer is always yes.
    """
    if pid == os.getpid():
        return False
    if os.name != "nt":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def write_text(path: Path, text: str) -> None:
    """Write a whole file.

    Raises:
        DataError: It cannot be written, or the text holds halves of surrogate pairs.
    """
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write texts, one on each line."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def check_writable(folder: Path, what: str) -> None:
    """Make a folder if need be.

    Raises:
        DataError: ``what`` is to be written there, and cannot be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(
            f"{folder}: {what} cannot be written here: {error}; choose another folder"
        ) from error


@contextmanager
def alone(folder: Path, busy: str, advice: str) -> Iterator[None]:
    """Make a folder if need be, and keep other processes out that want to be alone in it.

    Raises:
        DataError: Another process is in it, of which ``busy`` tells; or the folder cannot be
            written, about which ``advice`` says what to do.
    """
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise DataError(f"{folder}: {busy}") from error
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error}; {advice}") from error
    try:
        yield
    finally:
        lock.release()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def parse_json(text: str, is_shared: bool = True) -> Any:
    """Read JSON without what readers may take in two ways.

    Args:
        text: The JSON.
        is_shared: Whether other programs read it too. They might take the other value of an object
            that has a key twice, so that is refused.

    Raises:
        ValueError: The text is no JSON, is nested too deeply, has a number of too many digits, or
            has a key twice.
    """
    too_deep = f"nested too deeply: more than {MOST_NESTED} lists and objects in one another"
    try:
        content = json.loads(text, object_pairs_hook=_object if is_shared else None)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [content]
    for _ in range(MOST_NESTED + 1):
        level = [value for parent in level for value in _values_in(parent)]
        if not level:
            return content
    raise ValueError(too_deep)


def num_values(content: Any, most: int) -> int:
    """Return how many values YAML holds when its aliases are followed, or more than ``most``."""
    count = 0
    remaining = [content]
    while remaining and count <= most:
        remaining.extend(_values_in(remaining.pop()))
        count += 1
    return count


def _values_in(content: Any) -> Iterable[Any]:
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list) else ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"an object has the key {key[:60]!r} twice")
        values[key] = value
    return values
