"""What a stage is: settings that decide its output, and examples in, examples out.

The stages in order: ``read`` (documents out of the corpus), ``select``, ``types``, ``generate``, ``filter``; each works on a
shard, a few hundred consecutive documents, without knowing the others, so that shards can be made anywhere and again. ``choose``
goes through all shards in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from factor_gen.records import Example

READ = "read"
STAGES = ("select", "types", "generate", "filter")
CHOOSE = "choose"
ALL_STAGES = (READ, *STAGES, CHOOSE)


class Stage(Protocol):
    """Examples in, the same number of examples out, in order; ``Example.unused`` says which are done with.

    What comes out depends on ``fingerprint``, the seed and each document alone, never on the other examples of the shard.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """Every setting that can change the output, as JSON has it: models by name and revision, prompts by hash."""

    def run(self, examples: Sequence[Example]) -> list[Example]: ...
