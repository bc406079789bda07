"""Whether the files of a submission are those that were packed, may be opened at all, and hold no
credentials."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.secrets import is_secret, secrets_in_arguments, secrets_in_text
from lm_factuality.leaderboard.submission import FILE, Refusal, Refused, Submission

MAX_FILE = 512 * 2**20  # bytes of one file
MAX_TOTAL = 2 * 2**30
MAX_LINE = 4 * 2**20  # bytes: a row of samples, or a text of the results, is far shorter
_LONG_ENOUGH = 12  # characters of an environment variable's value that is looked for
_SHOWN = 5
_KEY_ENDS = (
    "key token secret password passwd passphrase bearer authorization credential credentials header"
    " headers"
)
_KEYS = tuple(f'{end}"' for end in _KEY_ENDS.split(" "))
_PROSE = ("chat_template", "description", "system_instruction")  # where NAME=VALUE is no argument


def check_contents(folder: Path, submission: Submission) -> Iterator[Refusal]:
    """What looks like a credential, in any of the files. Raises Refused: something is wrong with
    the files themselves."""
    unsafe = list(_unsafe(folder, submission))  # what leads out of the folder is not opened
    if wrong := unsafe or [*_sizes(folder, submission), *_changed(folder, submission)]:
        raise Refused(*wrong)
    for name in (FILE, *(each.path for each in submission.files)):
        in_name = [f"its name looks like {what}" for _, what in secrets_in_text(name)]
        for place in [*in_name, *secrets_in_file(folder / name)]:
            shown = "the name of a file" if in_name else name
            yield Refusal(
                "SECRET", shown, f"{place}; withdraw it, and run and pack again without it"
            )


def _unsafe(folder: Path, submission: Submission) -> Iterator[Refusal]:
    used = {path for task in submission.tasks for path in (task.results, task.samples)}
    used |= {each for each in (submission.key, *submission.labels) if each}
    used |= {
        each.path
        for each in submission.files
        if submission.key and PurePosixPath(each.path).match("corrected_*.json")
    }
    used |= {submission.certificate.path} if submission.certificate else set()
    listed = [each.path for each in submission.files]
    for name in dict.fromkeys([*listed, *sorted(used)]):
        path = PurePosixPath(name)
        if (
            not name
            or path.is_absolute()
            or ".." in path.parts
            or "\\" in name
            or ":" in name
            or "\0" in name
        ):
            yield Refusal("PATH_ESCAPES", name[:80], "expected a path inside the submission")
        if name not in listed:
            yield Refusal(
                "FILE_MISSING",
                name[:80],
                "is used, but not listed under 'files'; pack the results again",
            )
    for name in sorted(set(listed) - used):
        yield Refusal(
            "FILE_EXTRA", name[:80], "is listed, but no task uses it; take it away and pack again"
        )
    if len(set(listed)) < len(listed):
        yield Refusal("SUBMISSION_INVALID", FILE, "a file is listed twice")
    for name, path_found in _walk(folder):
        if path_found.is_symlink():
            yield Refusal(
                "PATH_ESCAPES", name, "is a link; a submission holds the files themselves"
            )


def _sizes(folder: Path, submission: Submission) -> Iterator[Refusal]:
    total = 0
    for each in submission.files:
        path = folder / each.path
        size = path.stat().st_size if path.is_file() else 0
        total += size
        if size > MAX_FILE:
            yield Refusal("TOO_LARGE", each.path, f"{size} bytes, at most {MAX_FILE} are taken")
        elif size > MAX_LINE:
            with path.open("rb") as file:  # never more than a part of it in memory
                if any(
                    len(line) > MAX_LINE for line in iter(lambda: file.readline(MAX_LINE + 1), b"")
                ):
                    yield Refusal("TOO_LARGE", each.path, f"a line has more than {MAX_LINE} bytes")
    if total > MAX_TOTAL:
        yield Refusal(
            "TOO_LARGE", "all files", f"{total} bytes together, at most {MAX_TOTAL} are taken"
        )


def _changed(folder: Path, submission: Submission) -> Iterator[Refusal]:
    listed = {FILE, *(each.path for each in submission.files)}
    for name, path in _walk(folder):
        if path.is_dir():
            if not any(path.iterdir()):
                yield Refusal("FILE_EXTRA", name[:80], "is an empty folder; take it away")
        elif name not in listed:
            yield Refusal("FILE_EXTRA", name[:80], "is not listed under 'files'; take it away")
    for each in submission.files:
        path = folder / each.path
        if not path.is_file():
            yield Refusal(
                "FILE_MISSING", each.path, "is listed, but not there; pack the results again"
            )
        elif (size := path.stat().st_size) <= MAX_FILE and (
            size != each.bytes or sha256_of(path) != each.sha256
        ):
            code = "SAMPLES_CHANGED" if each.path.endswith(".jsonl") else "FILE_CHANGED"
            yield Refusal(
                code,
                each.path,
                "is not the file that was packed: its size or sha256 differs; pack again",
            )


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for parent, folders, files in os.walk(folder, followlinks=False):
        for path in (Path(parent) / name for name in sorted((*folders, *files))):
            yield path.relative_to(folder).as_posix(), path


def secrets_in_file(path: Path, values: Mapping[str, str] | None = None) -> list[str]:
    """Where ``path`` holds what looks like a credential, or one of ``values`` (by the name of what
    it is): a line and, in JSON, a key; never the credential. JSON is looked at as it is written and
    as it is read, since it may write any letter as a number."""
    found: list[str] = []
    values, is_lines = values or {}, path.suffix == ".jsonl"
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            here = _in_text(line, values) or (_in_sample(line, values) if is_lines else [])
            found += [f"line {number}: {what}" for what in here]
            if len(found) >= _SHOWN:
                return found[:_SHOWN]
    if path.suffix == ".json":
        content = list(_keys_in(_parse(path.read_text(encoding="utf-8", errors="replace"))))
        found += _set_by_key(content)
        for place, key, value in content:
            around = place.rpartition(".")[0] or "the file"
            found += [f"a key of {around}: {what}" for what in _in_text(key, values)]
            if isinstance(value, str):
                named = [] if key in _PROSE else secrets_in_arguments(value)
                found += [
                    f"{place}: {what}"
                    for what in [
                        *_in_text(value, values),
                        *(f"looks like {name}" for _, name in named),
                    ]
                ]
    return found[:_SHOWN]


def own_secrets() -> dict[str, str]:
    """The credentials in this process's environment, by the names of their variables."""
    long = {name: value for name, value in os.environ.items() if len(value) >= _LONG_ENOUGH}
    return {
        name: value
        for name, value in long.items()
        if is_secret(name.lower(), value) and not value.startswith(("/", "~"))
    }


def _in_text(text: str, values: Mapping[str, str]) -> list[str]:
    found = [f"looks like {what}" for _, what in secrets_in_text(text)]
    return found + [
        f"holds the value of the environment variable {name}"
        for name, value in values.items()
        if value in text
    ]


def _in_sample(line: str, values: Mapping[str, str]) -> list[str]:
    """What a row of samples holds as it is read: keys, and texts with escapes. Most rows have none,
    and reading is slow."""
    lower, found = line.lower(), []
    if "\\u" in line or any(each in lower for each in _KEYS):
        content = _parse(line)
        rest = content.items() if isinstance(content, dict) else ()
        found = _set_by_key(
            _keys_in({key: value for key, value in rest if key not in ("doc", "arguments")})
        )
        if "\\u" in line:
            found += _in_text(json.dumps(content, ensure_ascii=False), values)
    return found


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # whoever reads the file as JSON says so


def _set_by_key(content: Any) -> list[str]:
    """The places of keys named like a credential whose value is a text, or an object of them
    (headers)."""
    named = [
        place
        for place, key, value in content
        if isinstance(value, str | dict) and value and is_secret(key, value)
    ]
    return [f"{place}: is the name of a credential, and it is set" for place in named]


def _keys_in(content: Any, where: str = "") -> Iterator[tuple[str, str, Any]]:
    """(place, key, value) of everything in ``content``; what is in a list has no key. A place never
    shows a credential."""
    if isinstance(content, dict):
        for key, value in content.items():
            shown = "(hidden)" if secrets_in_text(key) else key
            place = f"{where}.{shown}" if where else shown
            yield place, key, value
            yield from _keys_in(value, place)
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield f"{where}[{index}]", "", value
            yield from _keys_in(value, f"{where}[{index}]")
