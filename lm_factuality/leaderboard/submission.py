"""``submission.json``: what results do not say of a submission, and why a submission is refused.

`lm_factuality.leaderboard.pack` writes the file, and the checks and the site read it. Scores,
dates, versions and settings are not in it: they are read from the results, which lie beside it.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from lm_factuality.ground.errors import DataError, printable
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.settings import Strict

FILE = "submission.json"
CERTIFICATE = "certificate.json"

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
REVISION = re.compile(r"[0-9a-f]{40}|sha256:[0-9a-f]{64}|api:[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
REVISIONS = (
    "a commit (40 hexadecimal digits), sha256: and the hash of local weights, or api: and the dated"
    " name by which the service knows the model"
)

_LARGEST = 4 * 2**20
"""The bytes that ``submission.json`` itself may have."""

# Control characters and what turns the direction of writing cannot be shown.
_UNSHOWN = r"\p{Cc}\u202a-\u202e\u2066-\u2069"
_Line = Annotated[str, Field(pattern=f"^[^{_UNSHOWN}]+$", max_length=100)]
_FileName = Annotated[str, Field(pattern=rf"^[^/\\:{_UNSHOWN}]+$", max_length=255)]
"""A file in the folder of the submission. A name with a slash could lead out of it."""


class PackedFile(Strict):
    """A file of a submission."""

    path: _FileName
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]


class SubmittedModel(Strict):
    """The model of all runs of a submission."""

    name: Annotated[str, Field(pattern=f"^(?:{MODEL_NAME.pattern})$")]
    """ORG/NAME, as on the Hub."""

    revision: Annotated[str, Field(pattern=f"^(?:{REVISION.pattern})$")]
    dtype: _Line


class Submission(Strict):
    """A submission to one leaderboard."""

    format: Literal[2] = 2
    leaderboard: _Line
    model: SubmittedModel
    certificate: _FileName | None = None
    """The file with what ``lm-factuality certify`` measured of the judge."""

    key: _FileName | None = None
    """The key of the sheet whose labels correct the scores."""

    labels: Annotated[tuple[_FileName, ...], Field(strict=False)] = ()
    files: Annotated[tuple[PackedFile, ...], Field(strict=False, max_length=1000)]


@dataclass(frozen=True)
class Refusal:
    """Why a submission is refused.

    As text it is one line, in which nothing of a submission can move a cursor or pass for another
    line.
    """

    code: str
    """What is wrong, in capital letters, such as ``SCORE_CHANGED``."""

    where: str
    """The file, the task or the key."""

    sentence: str
    """What was found, what was expected and what to do."""

    def __str__(self) -> str:
        """Return the refusal as one line: its code, its place and its sentence."""
        return printable(f"{self.code} {self.where}: {self.sentence}")


class SubmissionRefusedError(DataError):
    """A submission that cannot be checked any further."""

    def __init__(self, *refusals: Refusal) -> None:
        """Refuse the submission for these reasons, one line each."""
        super().__init__("\n".join(f"{each.where}: {each.sentence}" for each in refusals))
        self.refusals = refusals


def read_submission(folder: Path) -> Submission:
    """Read what a submission says of itself. Nothing of it is believed yet.

    Raises:
        SubmissionRefusedError: The file is missing or not in order.
    """
    if folder.is_symlink():
        sentence = "is a link; a submission is a folder of its own"
        raise SubmissionRefusedError(Refusal("PATH_ESCAPES", folder.name, sentence))
    path = folder / FILE
    if path.is_symlink() or not path.is_file():
        raise _invalid("no such file; make it with: lm-factuality leaderboard pack")
    if path.stat().st_size > _LARGEST:
        raise _invalid(f"larger than {_LARGEST} bytes")
    try:
        return Submission.model_validate(parse_json(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        # Values are not shown: nobody has looked for credentials in the file yet.
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))[:80] or "the file"
        raise _invalid(f"{place}: {problem['msg']}; pack the results again") from error
    except (OSError, ValueError) as error:
        raise _invalid(f"cannot be read as JSON: {error}") from error


def _invalid(sentence: str) -> SubmissionRefusedError:
    return SubmissionRefusedError(Refusal("SUBMISSION_INVALID", FILE, sentence))
