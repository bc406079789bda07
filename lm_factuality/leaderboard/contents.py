"""Check that a submission's files are those that were packed and hold no credentials.

`lm_factuality.leaderboard.evidence` calls the check, and `pack` searches files for credentials.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from judges.certificates import answers_path
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.files import sha256_of
from lm_factuality.ground.secrets import (
    secret_of_environment,
    secrets_in_assignments,
    secrets_in_text,
    secrets_within,
)
from lm_factuality.leaderboard.submission import (
    SUBMISSION_FILE,
    Refusal,
    Submission,
    SubmissionRefusedError,
)

MAX_FILE = 512 * 2**20
"""The largest size of one file of a submission, in bytes."""

_MAX_LISTED_SECRETS = 5
_RUN_FILE = re.compile(r"(results|samples|corrected)_.+\.jsonl?")
_PROSE = ("chat_template", "description", "system_instruction")
"""Parts of a file whose texts may write ``token=...`` and set no credential by it."""


def check_files(folder: Path, submission: Submission) -> Iterator[Refusal]:
    """Check that a submission has exactly the files that were packed, without credentials in them.

    Args:
        folder: The folder of the submission.
        submission: Its ``submission.json``, which lists each file with size and hash.

    Yields:
        One refusal for each place that looks like a credential.

    Raises:
        SubmissionRefusedError: A file is missing, changed, too large or not of the submission. No
            file is searched for credentials then.
    """
    # The error has all problems, so that a submitter sees them together.
    problems = [*_unexpected_files(folder, submission), *_changed_files(folder, submission)]
    if problems:
        raise SubmissionRefusedError(*problems)

    for name in sorted(_listed_names(submission)):
        for secret in secrets_in_file(folder / name):
            sentence = f"{secret}; withdraw it, and run and pack again without it"
            yield Refusal("SECRET", name, sentence)


def _unexpected_files(folder: Path, submission: Submission) -> Iterator[Refusal]:
    """Refuse links, files that ``submission.json`` does not list, and files of an unknown kind.

    Args:
        folder: The folder of the submission.
        submission: Its ``submission.json``.

    Yields:
        One refusal for each such file, sorted by name.
    """
    listed_names = _listed_names(submission)
    # Only listed files have a hash, so a certificate, key or labels have to be listed as well.
    special_names = {SUBMISSION_FILE, submission.certificate, submission.key, *submission.labels}
    if submission.certificate is not None:
        special_names.add(answers_path(Path(submission.certificate)).name)
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            # A link could lead to any file of the machine that checks.
            sentence = "is a link; a submission holds the files themselves"
            yield Refusal("PATH_ESCAPES", path.name, sentence)
        elif path.name not in listed_names:
            sentence = "is not listed under 'files'; take it away"
            yield Refusal("FILE_EXTRA", path.name[:80], sentence)
        elif path.name not in special_names and not _RUN_FILE.fullmatch(path.name):
            sentence = "is neither of a run nor a certificate, key or labels; take it away"
            yield Refusal("FILE_EXTRA", path.name[:80], sentence)


def _changed_files(folder: Path, submission: Submission) -> Iterator[Refusal]:
    """Refuse listed files that are missing, too large, or changed since they were packed.

    Args:
        folder: The folder of the submission.
        submission: Its ``submission.json``, with the size and SHA-256 of each file.

    Yields:
        One refusal for each such file.
    """
    for packed in submission.files:
        path = folder / packed.path
        if path.is_symlink():
            # Links are refused as unexpected files, and are not followed here.
            continue
        if not path.is_file():
            sentence = "is listed, but not there; pack the results again"
            yield Refusal("FILE_MISSING", packed.path, sentence)
            continue

        # The size is compared first, since hashing a large file takes long.
        size = path.stat().st_size
        if size > MAX_FILE:
            yield Refusal("TOO_LARGE", packed.path, f"{size} bytes, at most {MAX_FILE} are taken")
        elif size != packed.bytes or sha256_of(path) != packed.sha256:
            # Of the files of a run, only samples are in JSONL.
            code = "SAMPLES_CHANGED" if path.suffix == ".jsonl" else "FILE_CHANGED"
            sentence = "is not the file that was packed: its size or sha256 differs; pack again"
            yield Refusal(code, packed.path, sentence)


def _listed_names(submission: Submission) -> set[str]:
    """Return the names of all files that a submission may hold, with ``submission.json``."""
    return {SUBMISSION_FILE, *(packed.path for packed in submission.files)}


def secrets_in_file(path: Path) -> list[str]:
    """Find what looks like credentials in a file, without showing the credentials themselves.

    Args:
        path: The file. The values of JSON files are also searched after decoding, because JSON
            can write any letter as an escape sequence.

    Returns:
        At most five descriptions, such as ``line 3: looks like a key of OpenAI``.
    """
    secrets: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line_number, line in enumerate(lines, start=1):
            secrets += _secrets_in_line(line, line_number)
            # A few are enough to refuse the file.
            if len(secrets) >= _MAX_LISTED_SECRETS:
                return secrets[:_MAX_LISTED_SECRETS]

    # Samples are decoded line by line, a JSON file as a whole.
    if path.suffix == ".json":
        content = _parse_json(path.read_text(encoding="utf-8", errors="replace"))
        secrets += _secrets_in_json(content)
    return secrets[:_MAX_LISTED_SECRETS]


def _secrets_in_line(line: str, line_number: int) -> Iterator[str]:
    """Find what looks like credentials in one line of a file.

    Args:
        line: The line as it is written, such as a sample in JSON.
        line_number: Its number, from 1.

    Yields:
        Descriptions such as ``line 3: looks like a key of OpenAI`` or ``line 3: holds HF_TOKEN``.
    """
    text = line
    # JSON can write a letter of a credential as an escape sequence such as ``\u0061``. Then the
    # decoded line is searched too, beside the line as it is, which may be no valid JSON.
    if "\\u" in line:
        text += json.dumps(_parse_json(line), ensure_ascii=False)

    for kind in secrets_in_text(text):
        yield f"line {line_number}: looks like {kind}"
    # The value of a variable such as HF_TOKEN on this machine is a credential of any form.
    variable = secret_of_environment(text)
    if variable:
        yield f"line {line_number}: holds {variable}"


def _secrets_in_json(content: object) -> Iterator[str]:
    """Find what looks like credentials in the decoded content of a JSON file.

    Args:
        content: The decoded JSON, or None if the file is not JSON.

    Yields:
        Descriptions that begin with the key, such as ``config: looks like a key of OpenAI``.
    """
    for key_path, description in secrets_within(content):
        yield f"{key_path}: {description}"
    for key, value in as_mapping(content).items():
        # A prompt may explain how a program sets ``token=...``.
        if key in _PROSE:
            continue
        # The text of a mapping or list shows a line break as a backslash and an n, which would hide
        # the name of an argument at the start of a line.
        text = str(value).replace("\\n", "\n")
        for kind in secrets_in_assignments(text):
            yield f"{key[:40]}: looks like {kind}"


def _parse_json(text: str) -> object:
    """Decode a JSON text, or return None if it is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The code that reads the file as JSON reports this problem.
        return None
