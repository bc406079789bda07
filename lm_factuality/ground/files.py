"""Files and folders that are whole or not there, their sums, and strict JSON.

Every command writes its outputs with `whole_file` and `whole_folder`, so that a run that is killed
leaves the earlier output as it was.
"""

import contextlib
import hashlib
import json
import math
import os
import re
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
_PART = re.compile(rf"\.(?P<name>.*)\.{_MACHINE}\.(?P<pid>\d+)\.part(?P<is_old>\.old)?")


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
    if out.is_dir():
        problem = f"a folder without {mark}, so not made by this command"
        is_ours = (out / mark).is_file() or not any(out.iterdir())
    else:
        problem = "not a folder"
        is_ours = not out.exists()
    if not is_ours:
        raise DataError(
            f"{out}: is there already, and is {problem}; it is left as it is, choose another --out"
        )
    part = _part_of(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out.parent)
        part.mkdir(mode=0o700)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error}; choose another folder") from error
    try:
        yield part
        part.chmod(0o755)
        _put_in_place(part, out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _put_in_place(part: Path, out: Path) -> None:
    """Rename a folder. What was there is moved aside first, and comes back if that fails."""
    old = part.with_name(f"{part.name}.old")
    try:
        if out.exists():
            out.replace(old)
        try:
            part.replace(out)
        except OSError:
            if old.exists():
                old.replace(out)
            raise
    except OSError as error:
        raise DataError(f"{out}: cannot be replaced: {error}; choose another folder") from error
    shutil.rmtree(old, ignore_errors=True)


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.part")


@cache
def _sweep(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder, once a process.

    What one of them had moved aside comes back.
    """
    for path in folder.glob(".*.part*"):
        part = _PART.fullmatch(path.name)
        if part is None:
            continue
        with contextlib.suppress(OSError):  # another process was faster, or it is not ours
            if _is_being_written(path, int(part["pid"])):
                continue
            whole = folder / part["name"]
            if part["is_old"] and not whole.exists():
                path.replace(whole)
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _is_being_written(path: Path, pid: int) -> bool:
    if pid == os.getpid():  # in containers, an earlier process may have had the same number
        return path.stat().st_mtime > _STARTED
    return is_alive(pid)


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine runs.

    On Windows, where asking would end it, the answer is always yes.
    """
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
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


def num_values(content: Any, most: int, sizes: dict[int, int] | None = None) -> int:
    """Return how many values YAML holds when its aliases are followed.

    Args:
        content: What the YAML holds.
        most: The result is more than this where an alias stands for what it is in.
        sizes: The values within lists and mappings that were counted, by `id`.
    """
    sizes = {} if sizes is None else sizes
    if not isinstance(content, dict | list):
        return 1
    if id(content) not in sizes:
        sizes[id(content)] = most + 1
        within = sum(num_values(value, most, sizes) for value in _values_in(content))
        sizes[id(content)] = 1 + within
    return sizes[id(content)]


def not_finite(content: Any, where: str = "") -> Iterator[str]:
    """Yield the places of numbers that are not finite, which JSON does not have.

    Example:
        ``scores.values[2]``
    """
    if isinstance(content, float) and not math.isfinite(content):
        yield where
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from not_finite(value, f"{where}.{key}" if where else str(key))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from not_finite(value, f"{where}[{index}]")


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
