"""Stages for tests of the pipeline, which are fast and can fail, wait or die at a document."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from factor_gen.records import Candidate, Example
from factor_gen.settings import BuildSettings
from factor_gen.stages import Stage, open_stage
from lm_factuality.ground.errors import DataError

TROUBLE = "TINY_STAGES_TROUBLE"
"""The environment variable that says which stage fails at which document, and how.

Its entries have the form ``STAGE KIND DOC_ID FOLDER`` and are separated by semicolons. The folder
remembers what has happened, because each process has stages of its own.
"""


class TinyStage:
    """A stage that gives each example two candidates."""

    def __init__(self, name: str, seed: int) -> None:
        """Set the name, which becomes a part of the candidates' texts."""
        self.name = name
        self.closed = False
        self._seed = seed

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """What the stage's results depend on."""
        return {"tiny": 1}

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples with two more candidates each, and unused ones unchanged."""
        return [example if example.unused else self._one(example) for example in examples]

    def _one(self, example: Example) -> Example:
        """Return an example with a candidate of each of two types."""
        cause_trouble(self.name, example.doc_id)
        text_without_end = example.completion[:-1]
        new_candidates = [
            Candidate(
                f"{text_without_end} {self.name} {number}.", error_type, f"-> {number}", "tiny"
            )
            for number, error_type in (("1", "entity"), ("2", "predicate"))
        ]
        return replace(
            example,
            types=("predicate", "entity"),
            candidates=(*example.candidates, *new_candidates),
        )

    def close(self) -> None:
        """Remember that the stage was closed."""
        self.closed = True


def open_tiny(settings: BuildSettings, name: str) -> Stage:
    """Open the real ``select``, and a tiny stage of any other name."""
    if name == "select":
        return open_troubled(settings, name)
    return TinyStage(name, settings.seed)


def open_troubled(settings: BuildSettings, name: str) -> Stage:
    """Open the real stage of a name, in which trouble can happen as well."""
    return TroubledStage(open_stage(settings, name), name)


class TroubledStage:
    """A real stage that fails as `TROUBLE` says before it begins."""

    def __init__(self, stage: Stage, name: str) -> None:
        """Set the real stage and its name."""
        self.name = name
        self.fingerprint = stage.fingerprint
        self._stage = stage

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Cause the trouble of each example, then run the real stage."""
        for example in examples:
            cause_trouble(self.name, example.doc_id)
        return self._stage.run(examples)


def trouble(kind: str, *, stage: str, doc_id: str, folder: Path) -> str:
    """Return an entry of `TROUBLE`: a stage fails at a document, in one of the ways of `_fail`."""
    return f"{stage} {kind} {doc_id} {folder}"


def cause_trouble(stage: str, doc_id: str) -> None:
    """Fail in the way that `TROUBLE` names for a stage and a document, if it names one."""
    for entry in os.environ.get(TROUBLE, "").split(";"):
        if not entry:
            continue
        troubled_stage, kind, troubled_doc_id, folder = entry.split(" ")
        if (stage, doc_id) == (troubled_stage, troubled_doc_id):
            _fail(kind, marker=Path(folder) / f"{stage}-{kind}")


def _fail(kind: str, marker: Path) -> None:
    """Wait, raise an error or end the process.

    Args:
        kind: ``wait``, ``raise``, ``refuse`` or ``die``. With ``-once``, only the first time.
        marker: A file that exists after the first time.
    """
    is_first = not marker.exists()
    marker.touch()
    if kind == "wait":
        # The test kills the process in the meantime.
        time.sleep(60)
    if kind == "raise" or (kind == "raise-once" and is_first):
        raise ValueError("no luck")
    if kind == "refuse":
        raise DataError("the data is bad")
    if kind == "die" or (kind == "die-once" and is_first):
        os._exit(9)
