"""Files and folders that are whole or not there, their sums, and JSON read without what readers may
take in two ways."""

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

_BLOCK = 1 << 20
MOST_NESTED = 100  # lists and objects of JSON in one another
_TOO_DEEP = f"nested too deeply: at most {MOST_NESTED} lists and objects in one another are taken"
_BEGAN = time.time()
# several may share a folder, and number their processes alike
_MACHINE = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_PART = re.compile(r"\.(.*)\.([0-9a-f]{8})\.(\d+)\.part(\.old)?")


@contextmanager
def whole_file(
    path: Path,
    errors: tuple[type[Exception], ...] = (OSError, ValueError),
    cure: str = "choose another place",
) -> Iterator[Path]:
    """A file that becomes ``path`` when the block ends well; its folder is made. Raises DataError:
    one of ``errors``."""
    part = _part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        yield part
        part.replace(path)
    except errors as error:
        is_text = isinstance(error, UnicodeError)
        raise DataError(
            f"{path}: cannot be written: {error};"
            f" {'write the text without the characters it names' if is_text else cure}"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # there may be no folder to remove it from
            part.unlink()


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.part")


@cache
def _sweep(folder: Path) -> None:
    """Removes, once a process, what killed ones left half-written in ``folder``; what one had moved
    aside comes back."""
    for path in folder.glob(".*.part*"):
        found = _PART.fullmatch(path.name)
        if found is None or found[2] != _MACHINE:
            continue
        with contextlib.suppress(
            OSError
        ):  # another process was faster, or it is not ours to remove
            is_own = (
                int(found[3]) == os.getpid()
            )  # or of one before it: in containers, every process has the same number
            if path.stat().st_mtime > _BEGAN if is_own else is_alive(int(found[3])):
                continue
            if found[4] and not (whole := folder / found[1]).exists():
                path.replace(whole)
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs; on Windows, where asking would end it, always yes."""
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
    """Writes a whole file. Raises DataError: it cannot be written, or ``text`` holds halves of
    surrogate pairs."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes one line each."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def check_writable(folder: Path, what: str) -> None:
    """Makes ``folder`` if need be. Raises DataError: ``what`` is to be written there, and cannot
    be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(
            f"{folder}: {what} cannot be written here: {error}; choose another folder"
        ) from error


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def parse_json(text: str, is_shared: bool = True) -> Any:
    """``text`` as ``json.loads`` has it. Raises ValueError: no JSON, nested too deeply, a number of
    too many digits; or, in files that other programs read (``is_shared``), an object has a key
    twice, of which these might take the other."""
    try:
        content = json.loads(text, object_pairs_hook=_object if is_shared else None)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [content]
    for _ in range(MOST_NESTED + 1):
        inside = (
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, dict | list)
        )
        if not (level := [each for values in inside for each in values]):
            return content
    raise ValueError(_TOO_DEEP)


def num_values(content: Any, most: int, known: dict[int, int] | None = None) -> int:
    """How many values YAML holds when its aliases are followed; more than ``most`` where one stands
    for what it is in."""
    known = {} if known is None else known
    if not isinstance(content, dict | list):
        return 1
    if id(content) not in known:
        known[id(content)] = most + 1
        inside = content.values() if isinstance(content, dict) else content
        known[id(content)] = 1 + sum(num_values(each, most, known) for each in inside)
    return known[id(content)]


def not_finite(content: Any, where: str = "") -> Iterator[str]:
    """The places of numbers in ``content`` that are not finite, which JSON does not have."""
    if isinstance(content, float) and not math.isfinite(content):
        yield where
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from not_finite(value, f"{where}.{key}" if where else str(key))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from not_finite(value, f"{where}[{index}]")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice[:60]!r} twice")
    return found


@contextmanager
def whole_folder(out: Path, mark: str) -> Iterator[Path]:
    """A folder to write to, which becomes ``out`` (or where that links to) when the block ends
    without an error. An earlier one that holds a file called ``mark``, or nothing, is replaced.
    Raises DataError: it is something else, or cannot be written."""
    out = Path(os.path.realpath(out))
    if out.exists() and not (out.is_dir() and (not any(out.iterdir()) or (out / mark).is_file())):
        what = (
            f"a folder without {mark}, so not made by this command"
            if out.is_dir()
            else "not a folder"
        )
        raise DataError(
            f"{out}: is there already, and is {what}; it is left as it is, choose another --out"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out.parent)
        (part := _part_of(out)).mkdir(mode=0o700)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error}; choose another folder") from error
    try:
        yield part
        part.chmod(0o755)
        _put_in_place(part, out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def alone(folder: Path, busy: str, advice: str) -> Iterator[None]:
    """Makes ``folder`` if need be, and keeps other processes out that want to be alone in it.
    Raises DataError: one is in it already, of which ``busy`` tells; or the folder cannot be
    written, which ends with ``advice``."""
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


def _put_in_place(part: Path, out: Path) -> None:
    """Renames; what was there is moved aside first, and comes back if that fails."""
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
