"""The key of a sheet: what each of its items is, what the judge said of it and how it was drawn. It is not for annotators."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.records import read_text, to_model

_EXPECTED = "expected the NAME.key.json that 'lm-factuality people sheet' wrote beside the sheet"


@dataclass(frozen=True)
class Source:
    """A file that items come from, its SHA-256, and of a run its ``task``, its ``model`` and its samples file."""

    file: str
    sha256: str
    task: str = ""
    model: str = ""
    samples: str = ""
    samples_sha256: str = ""


@dataclass(frozen=True)
class Stratum:
    """So many ``units`` that people can be asked about, of which so many were ``drawn`` at random."""

    name: str
    units: StrictInt
    drawn: StrictInt


@dataclass(frozen=True)
class Entry:
    """An item of the sheet, by its ``number`` there, from 1. ``source`` is the place of its source, ``unit`` its sample (the key
    of its ``SampleRow``) or its row, ``item`` its id in that; ``strata`` are all groups of its unit, ``stratum`` is the one
    that it was drawn from, with what ``probability`` (its ``weight`` is one over that). ``judge`` is None where it is unscored.
    ``repeat_of`` is the number of the same item where it is shown for the first time."""

    number: StrictInt
    source: StrictInt
    unit: str
    cluster: str
    item: str
    question: str
    options: tuple[str, ...]
    judge: str | None
    stratum: str
    strata: Mapping[str, str]
    probability: Annotated[float, Field(gt=0, le=1)]
    weight: Annotated[float, Field(ge=1)]
    repeat_of: StrictInt | None = None

    @property
    def unit_key(self) -> tuple[int, str]:
        """Its unit, among those of all sources."""
        return self.source, self.unit


@dataclass(frozen=True)
class Key:
    """``benchmark`` is the kind of the sources, ``questions`` are those asked; ``stratify`` is what strata are by, empty for one
    stratum. ``sheet`` is the sheet's id, which follows from all the rest."""

    benchmark: str
    seed: int
    questions: tuple[str, ...]
    stratify: tuple[str, ...]
    sources: tuple[Source, ...]
    strata: tuple[Stratum, ...]
    items: tuple[Entry, ...]
    sheet: str = ""
    format: Literal[1] = 1

    def named(self) -> "Key":
        """The key with its id."""
        content = json.dumps(asdict(replace(self, sheet="")), sort_keys=True)
        return replace(self, sheet=hashlib.sha256(content.encode()).hexdigest()[:12])


def read_key(path: Path) -> Key:
    """The key of a sheet. Raises DataError: it cannot be read, is no key, or was changed since the sheet was made."""
    try:
        key = to_model(Key, parse_json(read_text(path, _EXPECTED)))
    except ValueError as error:
        raise DataError(f"{path}: not the key of a sheet: {error}; {_EXPECTED}") from error
    if key.named().sheet != key.sheet:
        raise DataError(f"{path}: its content is not that of sheet {key.sheet}: it was changed by hand; make the sheet again")
    return key
