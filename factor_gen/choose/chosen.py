"""A row of the benchmark before it is written: an example, and the contradictions that were chosen for it."""

from __future__ import annotations

from dataclasses import dataclass

from factor_gen.records import Candidate, Example


@dataclass(frozen=True, slots=True)
class Chosen:
    """``contradictions`` are some of ``example.candidates``, in the order of their columns. The example keeps all of them, so
    that what was generated and what was rejected can be counted."""

    example: Example
    contradictions: tuple[Candidate, ...]
