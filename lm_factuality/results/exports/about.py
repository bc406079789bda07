"""What exports say of the model, the data, the settings and the judge of a run, and the schemas
that they follow.

Only what is named here leaves: arguments and environments of a run may hold paths and keys."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, refuse
from lm_factuality.ground.html import read_file
from lm_factuality.ground.packages import need
from lm_factuality.harness.outputs import ResultsFile

# A model as the Hub names it. Both parts become folders, so none may be a name that a file system
# keeps for itself.
_MODEL = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?"
)
HUB = "hub_eval_results"


def model_id(file: ResultsFile, given: str | None) -> str:
    """``ORG/NAME`` of the model: ``given``, or what lm_eval calls it. Raises ConfigError: no such
    name, as of a folder."""
    found = given or file.model
    if (
        not _MODEL.fullmatch(found)
        or "data" in found.split("/")
        or (given is None and Path(found).is_dir())
    ):
        advice = "expected ORG/NAME as on the Hub; say which it is with --model ORG/NAME"
        raise ConfigError(f"{file.path}: the model is {found!r}, {advice}")
    return found


def check_one_model(files: Sequence[ResultsFile], given: str | None) -> None:
    """Raises ConfigError, with the models' names, if one name is given for the results of
    several."""
    found = sorted(
        {Path(file.model).name for file in files}
    )  # the same folder may be named in several ways
    if given is not None and len(found) > 1:
        raise ConfigError(
            f"--model {given}: the results are of {len(found)} models ({', '.join(found)}); export"
            " each by itself"
        )


@cache
def read_schema(name: str) -> dict[str, Any]:
    """The JSON schema called ``name``, one of those above."""
    found: dict[str, Any] = json.loads(read_file(f"{__package__}/schemas/{name}.schema.json"))
    return found


def check_against(name: str, values: Iterable[Any], what: str) -> None:
    """Does nothing if all of ``values`` are as the schema says; ``what`` they are is named where
    one is not. Raises ConfigError: jsonschema is not installed; DataError: names the first fields
    that are wrong."""
    validator = need("jsonschema", "an export", "report").Draft7Validator(read_schema(name))
    version = read_schema(name)["version"]
    problems = [
        f"{what}[{number}].{'.'.join(map(str, error.absolute_path)) or '(all)'}:"
        f" {error.message[:300]}"
        for number, value in enumerate(values)
        for error in sorted(
            validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path))
        )
    ]
    refuse(
        problems,
        "problems",
        f"Nothing was written: this is not what the schema {name} {version} describes.",
    )
