"""The stage ``contradiction``, which rejects candidates that may be true with the completion.

`factor_gen.stages.open_stage` opens it. The settings choose one of three kinds of check:
:mod:`~factor_gen.contradiction.offline` has rules, :mod:`~factor_gen.contradiction.judge` asks a
judge, and :mod:`~factor_gen.contradiction.nli` asks a model of natural language inference.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from factor_gen.contradiction.compatible import compatible_reason
from factor_gen.contradiction.places import DATA
from factor_gen.records import Candidate, Example
from factor_gen.settings import (
    BuildSettings,
    ContradictionSettings,
    JudgeSettings,
    NliSettings,
    OfflineSettings,
)
from factor_gen.text.lists import hash_lists
from judges.answers import Prices
from judges.budget import SpendingLimit

NOT_CONTRADICTORY = "not contradictory"

# Raise it if other candidates are rejected with the same lists.
_VERSION = 2


class Check(Protocol):
    """A kind of check of whether candidates contradict the completion."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Every setting that can change the result, as a JSON object with the key ``kind``."""

    def check(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples, in which further candidates may be rejected."""


def open_contradiction_stage(
    check: ContradictionSettings, settings: BuildSettings
) -> "ContradictionStage":
    """Open the stage.

    Args:
        check: The kind of check, with its settings.
        settings: The settings of the build.

    Raises:
        ConfigError: The judge cannot be used.
    """
    # Each kind is imported only if it is used, because the libraries of the others may not be
    # installed.
    if isinstance(check, NliSettings):
        from factor_gen.contradiction.nli import NliCheck

        return ContradictionStage(NliCheck(check))
    if isinstance(check, JudgeSettings):
        from factor_gen.contradiction.judge import JudgeCheck

        # Without a judge of its own, the check asks the one that wrote the candidates.
        judge = check.judge or settings.generate.judge
        row_size = settings.choose.contradictions
        return ContradictionStage(JudgeCheck(check, judge, settings.folder, row_size=row_size))
    if isinstance(check, OfflineSettings):
        from factor_gen.contradiction.offline import OfflineCheck

        return ContradictionStage(OfflineCheck())
    return ContradictionStage(None)


@dataclass(eq=False, repr=False)
class ContradictionStage:
    """The stage that rejects candidates which may be true together with the completion."""

    name = "contradiction"

    check: Check | None
    """The kind of check. None if nothing is checked."""

    @cached_property
    def fingerprint(self) -> Mapping[str, Any]:
        """The kind of check, and everything that decides what it rejects."""
        if self.check is None:
            return {"kind": "none"}
        return {**self.check.fingerprint, "version": _VERSION, "lists": hash_lists([DATA])}

    @property
    def prices(self) -> Prices | None:
        """The prices of the judge. None if there is none, or if its YAML has no prices."""
        return getattr(self.check, "prices", None)

    def share_spending_limit(self, limits: MutableMapping[str, SpendingLimit]) -> None:
        """Let the check share a judge's limit with other stages, if it asks a judge."""
        share = getattr(self.check, "share_spending_limit", None)
        if share is not None:
            share(limits)

    def run(self, examples: Sequence[Example]) -> list[Example]:
        """Reject the candidates that do not contradict the completion.

        Args:
            examples: Examples with the candidates that were generated for them.

        Returns:
            One example for each of ``examples``, in the same order. ``rejected`` of a candidate has
            the reason. Candidates that were rejected before are not checked.
        """
        if self.check is None:
            return list(examples)
        # These rules cost nothing, so that no model is asked about what they reject.
        return self.check.check(
            [reject_by_rule(example, compatible_reason) for example in examples]
        )

    def close(self) -> None:
        """Close the check, if it keeps anything open."""
        # The judge keeps connections and files open.
        close = getattr(self.check, "close", None)
        if close is not None:
            close()


def open_candidates(example: Example) -> list[Candidate]:
    """Return the candidates of a document that nothing has rejected so far."""
    return [candidate for candidate in example.candidates if not candidate.rejected]


def with_checked(example: Example, checked: Mapping[Candidate, Candidate]) -> Example:
    """Return a document with checked candidates in the place of the same candidates before."""
    candidates = [checked.get(candidate, candidate) for candidate in example.candidates]
    return replace(example, candidates=tuple(candidates))


def reject_by_rule(
    example: Example, find_reason_to_reject: Callable[[str, str], str | None]
) -> Example:
    """Reject the candidates of a document that a rule finds a reason to reject.

    Args:
        example: The document.
        find_reason_to_reject: The rule. It gets the completion and the text of a candidate, and
            returns the reason, or None to keep the candidate. An example is `compatible_reason`.
    """
    rejected = {}
    for candidate in open_candidates(example):
        reason = find_reason_to_reject(example.completion, candidate.text)
        if reason is not None:
            rejected[candidate] = replace(candidate, rejected=reason)
    return with_checked(example, rejected)
