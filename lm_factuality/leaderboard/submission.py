"""Read ``submission.json``, the list of a submission's files, and refuse what is wrong with it.

`lm_factuality.leaderboard.pack` writes the file; the checks and the site read it. It holds no
scores, dates, versions or settings, which are read from the results files beside it.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from lm_factuality.ground.errors import DataError, printable
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.settings import Strict

SUBMISSION_FILE = "submission.json"
CERTIFICATE_FILE = "certificate.json"

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
REVISION = re.compile(r"[0-9a-f]{40}|sha256:[0-9a-f]{64}|api:[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
REVISION_FORMS = (
    "a commit (40 hexadecimal digits), sha256: and the hash of local weights, or api: and the dated"
    " name by which the service knows the model"
)

_MAX_BYTES = 4 * 2**20
"""The largest size of ``submission.json`` in bytes."""

# Control characters, and characters that turn the direction of writing, can hide text.
_HIDING_CHARACTERS = r"\p{Cc}\u202a-\u202e\u2066-\u2069"
_Line = Annotated[str, Field(pattern=f"^[^{_HIDING_CHARACTERS}]+$", max_length=100)]
_FileName = Annotated[str, Field(pattern=rf"^[^/\\:{_HIDING_CHARACTERS}]+$", max_length=255)]
"""A file in the folder of the submission. A name with a slash could lead out of it."""


class PackedFile(Strict):
    """A file of a submission, as it was packed."""

    path: _FileName
    """The name of the file."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The SHA-256 of its bytes in hexadecimal."""

    bytes: Annotated[int, Field(ge=0)]
    """Its size in bytes."""


class SubmittedModel(Strict):
    """The model of all runs of a submission."""

    name: Annotated[str, Field(pattern=f"^(?:{MODEL_NAME.pattern})$")]
    """ORG/NAME, as on the Hub."""

    revision: Annotated[str, Field(pattern=f"^(?:{REVISION.pattern})$")]
    """A commit, ``sha256:`` and the hash of local weights, or ``api:`` and a dated name."""

    dtype: _Line
    """The number format of the weights, such as ``bfloat16``."""


class Submission(Strict):
    """A submission of one model to one leaderboard."""

    format: Literal[2] = 2
    """The version of this file format."""

    leaderboard: _Line
    """The name of the leaderboard, such as ``factor``."""

    model: SubmittedModel
    """The submitted model."""

    certificate: _FileName | None = None
    """The file with what ``lm-factuality certify`` measured of the judge."""

    key: _FileName | None = None
    """The key of the sheet whose labels correct the scores."""

    labels: Annotated[tuple[_FileName, ...], Field(strict=False)] = ()
    """The files with the labels that people gave to this sheet."""

    files: Annotated[tuple[PackedFile, ...], Field(strict=False, max_length=1000)]
    """All files of the submission except ``submission.json``."""


@dataclass(frozen=True)
class Refusal:
    """One reason to refuse a submission."""

    code: str
    """The kind of the problem in capital letters, such as ``SCORE_CHANGED``."""

    where: str
    """The file, the task or the key that has the problem."""

    sentence: str
    """What was found, what was expected and what to do."""

    def __str__(self) -> str:
        """Return the refusal as one line, in which characters that act on a terminal are escaped.

        Example:
            ``TASKS_EXTRA hellaswag: is in two results files; submit one``
        """
        return printable(f"{self.code} {self.where}: {self.sentence}")


class SubmissionRefusedError(DataError):
    """A submission cannot be checked any further."""

    def __init__(self, *refusals: Refusal) -> None:
        """Create the error.

        Args:
            *refusals: The reasons, each of which becomes a line of the error's text.
        """
        super().__init__("\n".join(map(str, refusals)))
        self.refusals = refusals


def read_submission(folder: Path) -> Submission:
    """Read the ``submission.json`` of a submission, without checking what it claims.

    Args:
        folder: The folder of the submission.

    Returns:
        The content of the file.

    Raises:
        SubmissionRefusedError: The file is missing, too large or invalid, or the folder is a link.
    """
    # A link could lead to any folder of the machine that checks.
    if folder.is_symlink():
        sentence = "is a link; a submission is a folder of its own"
        raise SubmissionRefusedError(Refusal("PATH_ESCAPES", folder.name, sentence))
    path = folder / SUBMISSION_FILE
    if path.is_symlink() or not path.is_file():
        raise _invalid_file("no such file; make it with: lm-factuality leaderboard pack")
    # A huge file from a stranger must not fill the memory.
    if path.stat().st_size > _MAX_BYTES:
        raise _invalid_file(f"larger than {_MAX_BYTES} bytes; pack the results again")

    try:
        return Submission.model_validate(parse_json(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        # The message leaves out the invalid value, which could be a credential.
        first_error = error.errors(include_url=False, include_input=False)[0]
        # The path of a key such as ``files.0.sha256``, or empty if the file is no JSON object.
        key = ".".join(map(str, first_error["loc"]))[:80] or "the file"
        raise _invalid_file(f"{key}: {first_error['msg']}; pack the results again") from error
    except (OSError, ValueError) as error:
        raise _invalid_file(f"cannot be read as JSON: {error}") from error


def _invalid_file(sentence: str) -> SubmissionRefusedError:
    """Return the error that refuses ``submission.json`` for the reason in a sentence."""
    return SubmissionRefusedError(Refusal("SUBMISSION_INVALID", SUBMISSION_FILE, sentence))


def message_without_folder(error: Exception, folder: Path) -> str:
    """Return the text of an error, with paths relative to the folder of the submission."""
    return str(error).replace(f"{folder}/", "")[:500]
