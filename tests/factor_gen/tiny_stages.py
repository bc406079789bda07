"""Stages for the tests of the pipeline: quick, pure, and ready to stop, fail once or die where a
test wants it."""

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

# the environment variable "STAGE KIND DOC_ID FOLDER;...": what happens at which document
TROUBLE = "TINY_STAGES_TROUBLE"


class TinyStage:
    """Gives each example two candidates a stage."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.closed = False
        self._seed = seed

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {"tiny": 1}

    def run(self, examples: Sequence[Example]) -> list[Example]:
        return [example if example.unused else self._one(example) for example in examples]

    def _one(self, example: Example) -> Example:
        trouble(self.name, example.doc_id)
        edits = (("1", "entity"), ("2", "predicate"))
        made = tuple(
            Candidate(
                f"{example.completion[:-1]} {self.name} {number}.", kind, f"-> {number}", "tiny"
            )
            for number, kind in edits
        )
        return replace(
            example, types=("predicate", "entity"), candidates=(*example.candidates, *made)
        )

    def close(self) -> None:
        self.closed = True


def open_tiny(settings: BuildSettings, name: str) -> Stage:
    """The real ``select``, and tiny stages for the others."""
    if name == "select":
        return open_troubled(settings, name)
    return TinyStage(name, settings.seed)


def open_troubled(settings: BuildSettings, name: str) -> Stage:
    """The real stage, in which trouble can be had as well."""
    return Troubled(open_stage(settings, name), name)


class Troubled:
    """A stage that trouble comes to before it begins."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.name = name
        self.fingerprint = stage.fingerprint
        self._stage = stage

    def run(self, examples: Sequence[Example]) -> list[Example]:
        for example in examples:
            trouble(self.name, example.doc_id)
        return self._stage.run(examples)


def trouble(stage: str, doc_id: str) -> None:
    for each in filter(None, os.environ.get(TROUBLE, "").split(";")):
        where, kind, victim, folder = each.split(" ")
        if (stage, doc_id) == (where, victim):
            _happen(kind, Path(folder) / f"{stage}-{kind}")


def _happen(kind: str, marker: Path) -> None:
    is_first = not marker.exists()
    marker.touch()
    if kind == "wait":  # until the test kills us
        time.sleep(60)
    if kind == "raise" or (kind == "raise-once" and is_first):
        raise ValueError("no luck")
    if kind == "refuse":
        raise DataError("the data is bad")
    if kind == "die" or (kind == "die-once" and is_first):
        os._exit(9)
