"""The check without a model, by rules."""

from collections.abc import Mapping, Sequence
from typing import Any

from factor_gen.records import Example


class OfflineCheck:
    """The check that rejects what the stage's vetoes name."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """The kind of check."""
        return {"kind": "offline"}

    def check(self, examples: Sequence[Example]) -> list[Example]:
        """Return the examples as they are."""
        return list(examples)
