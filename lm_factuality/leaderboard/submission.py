"""``submission.json``, what a submission says of itself, and why one is refused: a code and a
sentence for each reason."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from lm_factuality.ground.errors import DataError, did_you_mean, printable
from lm_factuality.ground.files import not_finite, parse_json, write_json
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.settings import Strict

FILE = "submission.json"
SCHEMA = "lm-factuality/submission"
SCHEMA_VERSION = 1
CERTIFICATE = "certificate.json"
MAX_BYTES = 4 * 2**20  # of submission.json itself

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
REVISION = re.compile(r"[0-9a-f]{40}|sha256:[0-9a-f]{64}|api:[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
REVISIONS = (
    "a commit (40 hexadecimal digits), sha256: and the hash of local weights, or api: and the dated"
    " name by which the service knows the model"
)

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_MANY = 1000  # tasks or files
_UNSHOWN = ("Cc", "Cs")
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

# Every code that there is, and what is wrong.
CODES: Mapping[str, str] = load_yaml(__package__, "refusals.yaml")

Item = TypeVar("Item")
Count = Annotated[int, Field(ge=0, le=2**53)]
Many = Annotated[tuple[Item, ...], Field(strict=False, max_length=_MANY)]


def _only(is_right: Callable[[str], object], wrong: str) -> AfterValidator:
    def check(text: str) -> str:
        if not is_right(text):
            raise ValueError(wrong)
        return text

    return AfterValidator(check)


def _line(most: int) -> AfterValidator:
    wrong = f"more than {most} characters, or some that cannot be shown on one line"
    return _only(lambda text: len(text) <= most and text.isprintable(), wrong)


Short = Annotated[str, _line(100)]
Name = Annotated[
    str, _line(255)
]  # of a task, or a path in the submission, with a slash between folders


class PackedFile(Strict):
    path: Name
    sha256: Name
    bytes: Count


class SubmittedModel(Strict):
    """``revision`` is a commit of the Hub, ``sha256:`` and the hash of the weights of a local
    checkpoint, or ``api:`` and the dated name by which a service knows the model; ``backend`` is
    lm_eval's ``--model``."""

    name: Annotated[str, _only(MODEL_NAME.fullmatch, "expected ORG/NAME")]
    revision: str
    dtype: Short
    backend: Short
    num_parameters: Annotated[int, Field(ge=1, le=10**15)] | None


class SubmittedTask(Strict):
    """``results`` and ``samples`` are paths in the submission. ``settings`` are those of the run
    that change a score; ``judge`` is its config with the hashes of its prompts, None where no judge
    is asked."""

    task: Name
    version: str
    results: Name
    samples: Name
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    documents: Count
    unscored: Count
    judge: Mapping[str, Any] | None


class SubmittedCertificate(Strict):
    """What ``lm-factuality certify`` found of the judge: the file in the submission, its hash and
    its content."""

    path: str
    sha256: str
    content: Mapping[str, Any]


class Submission(Strict):
    """A submission to one leaderboard. ``date`` is when its newest run began, in UTC. ``labels``
    are files of people's labels on the sheet of ``key`` that scores are corrected by, empty where
    none are."""

    leaderboard: Short
    model: SubmittedModel
    date: Annotated[str, _only(_DATE.fullmatch, "expected one such as 2026-01-31T12:00:00+00:00")]
    suite_version: Short
    lm_eval_version: Short
    notes: Annotated[str, Field(max_length=4000)]
    tasks: Many[SubmittedTask]
    certificate: SubmittedCertificate | None
    files: Many[PackedFile]
    key: Name = ""
    labels: Many[Name] = ()


def read_submission(folder: Path) -> Submission:
    """What ``folder`` says of itself; nothing of it is believed yet. Raises Refused: it is missing
    or not in order."""
    path = folder / FILE
    if path.is_symlink() or not path.is_file():
        raise _invalid("no such file; make it with: lm-factuality leaderboard pack")
    if path.stat().st_size > MAX_BYTES:
        raise _invalid(f"larger than {MAX_BYTES} bytes")
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _invalid(f"cannot be read as JSON: {error}") from error
    if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
        raise _invalid(f"'schema' is not {SCHEMA!r}")
    version = content.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        advice = f"expected {SCHEMA_VERSION}; pack the results again"
        raise Refused(
            Refusal("SCHEMA_UNKNOWN", FILE, f"'schema_version' is {str(version)[:40]!r}, {advice}")
        )
    if problem := next(_improper(content, ""), None):
        raise _invalid(f"{problem}; pack the results again")
    try:
        return Submission.model_validate(content)
    except ValidationError as error:
        raise _invalid(f"{_sentence(error)}; pack the results again") from error


def write_submission(folder: Path, submission: Submission) -> None:
    write_json(
        folder / FILE,
        {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **submission.model_dump()},
    )


def _invalid(sentence: str) -> Refused:
    return Refused(Refusal("SUBMISSION_INVALID", FILE, sentence))


def _sentence(error: ValidationError) -> str:
    """The first of what is wrong. Values are not shown: nobody has looked for credentials yet."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))[:80]
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        known = [
            each
            for model in (Submission, SubmittedModel, SubmittedTask, PackedFile)
            for each in model.model_fields
        ]
        return f"{where}: unknown key{did_you_mean(name[:80], known)}"
    message = first["ctx"]["error"] if first["type"] == "value_error" else first["msg"]
    return f"{where or 'the file'}: {message}"


def _improper(content: Any, where: str) -> Iterator[str]:
    """What no text or number in the file may be: a page could not show it, or would show it as
    something else."""
    if isinstance(content, str):
        if any(unicodedata.category(each) in _UNSHOWN and each not in "\n\t\r" for each in content):
            yield f"{where}: holds control characters, or halves of characters"
        elif any(each in _TURNING for each in content):
            yield f"{where}: holds characters that turn the direction of writing"
    elif isinstance(content, int):
        if abs(content) > 2**63:
            yield f"{where}: a number of more than 64 bits"
    elif isinstance(content, float):
        yield from (f"{where}: no finite number" for _ in not_finite(content))
    elif isinstance(content, dict):
        for key, value in content.items():
            yield from _improper(key, f"a key of {where or 'the file'}")
            yield from _improper(value, f"{where}.{key}"[-80:].lstrip("."))
    elif isinstance(content, list):
        for each in content:
            yield from _improper(each, where)


@dataclass(frozen=True)
class Refusal:
    """``code`` is one of ``CODES``; ``where`` the file, task or key; ``sentence`` what was found,
    what was expected and what to do. As text it is one line in which nothing of a submission can
    move a cursor or pass for another line."""

    code: str
    where: str
    sentence: str

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"no refusal has the code {self.code!r}")

    def __str__(self) -> str:
        return printable(f"{self.code} {self.where}: {self.sentence}")


class Refused(DataError):
    """A submission of which nothing more can be looked at."""

    def __init__(self, *refusals: Refusal) -> None:
        super().__init__("\n".join(f"{each.where}: {each.sentence}" for each in refusals))
        self.refusals = refusals
