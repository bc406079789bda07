"""Whether the files of a submission are those that were packed, and hold no credentials."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.secrets import (
    secret_of_environment,
    secrets_in_arguments,
    secrets_in_text,
    secrets_within,
)
from lm_factuality.leaderboard.submission import FILE, Refusal, Submission, SubmissionRefusedError

MAX_FILE = 512 * 2**20
"""The bytes that one file may have."""

_MOST_PLACES = 5
_OF_A_RUN = re.compile(r"(results|samples|corrected)_.+\.jsonl?")
_PROSE = ("chat_template", "description", "system_instruction")
"""Parts of a file whose texts may write ``token=...`` and set no credential by it."""


def check_files(folder: Path, submission: Submission) -> Iterator[Refusal]:
    """Yield a refusal for each place that looks like a credential.

    Raises:
        SubmissionRefusedError: A file is missing, changed, too large or not of the submission.
    """
    problems = [*_wrong_files(folder, submission)]
    if problems:
        raise SubmissionRefusedError(*problems)
    for name in (FILE, *(packed.path for packed in submission.files)):
        for place in secrets_in_file(folder / name):
            sentence = f"{place}; withdraw it, and run and pack again without it"
            yield Refusal("SECRET", name, sentence)


def secrets_in_file(path: Path) -> list[str]:
    """Say where a file holds what looks like a credential, without showing the credential.

    A file of JSON is looked at as it is written and as it is read, since JSON may write any letter
    as a number.

    Returns:
        The first places, such as ``line 3: looks like a key of OpenAI``.
    """
    places: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            is_escaped_sample = path.suffix == ".jsonl" and "\\u" in line
            text = line
            if is_escaped_sample:
                text += json.dumps(_parse(line), ensure_ascii=False)
            places += [f"line {number}: looks like {what}" for _, what in secrets_in_text(text)]
            variable = secret_of_environment(text)
            if variable:
                places.append(f"line {number}: holds {variable}")
            if len(places) >= _MOST_PLACES:
                return places[:_MOST_PLACES]
    if path.suffix == ".json":
        content = _parse(path.read_text(encoding="utf-8", errors="replace"))
        places += [f"{place}: {what}" for place, what in secrets_within(content)]
        for part, value in as_mapping(content).items():
            if part not in _PROSE:
                text = str(value).replace("\\n", "\n")
                found = secrets_in_arguments(text)
                places += [f"{part[:40]}: looks like {what}" for _, what in found]
    return places[:_MOST_PLACES]


def _wrong_files(folder: Path, submission: Submission) -> Iterator[Refusal]:
    """Files that are missing, links, too large, of no run, or not those that were packed."""
    names = {FILE, *(packed.path for packed in submission.files)}
    used = (submission.certificate, submission.key, *submission.labels)
    for name in used:
        if name is not None and name not in names:
            sentence = "is used, but not listed under 'files'; pack the results again"
            yield Refusal("FILE_MISSING", name, sentence)
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            sentence = "is a link; a submission holds the files themselves"
            yield Refusal("PATH_ESCAPES", path.name, sentence)
        elif path.name not in names:
            sentence = "is not listed under 'files'; take it away"
            yield Refusal("FILE_EXTRA", path.name[:80], sentence)
        elif path.name not in (FILE, *used) and not _OF_A_RUN.fullmatch(path.name):
            sentence = "is neither of a run nor a certificate, key or labels; take it away"
            yield Refusal("FILE_EXTRA", path.name[:80], sentence)
    for packed in submission.files:
        path = folder / packed.path
        if path.is_symlink():
            continue
        if not path.is_file():
            sentence = "is listed, but not there; pack the results again"
            yield Refusal("FILE_MISSING", packed.path, sentence)
            continue
        size = path.stat().st_size
        if size > MAX_FILE:
            yield Refusal("TOO_LARGE", packed.path, f"{size} bytes, at most {MAX_FILE} are taken")
        elif size != packed.bytes or sha256_of(path) != packed.sha256:
            code = "SAMPLES_CHANGED" if path.suffix == ".jsonl" else "FILE_CHANGED"
            sentence = "is not the file that was packed: its size or sha256 differs; pack again"
            yield Refusal(code, packed.path, sentence)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # Whoever reads the file as JSON reports that it is none.
