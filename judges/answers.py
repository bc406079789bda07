"""What a judge is asked, and what comes back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Decoding:
    """How a model chooses its words. ``seed`` is of the first sample; later ones count up from it."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Request:
    """One prompt. ``subject`` holds what was rendered into it, for backends that read no prose; ``sample`` tells apart
    several answers to the same prompt."""

    prompt: str
    decoding: Decoding = Decoding()
    sample: int = 0
    system: str = ""
    subject: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def key(self, identity: str) -> str:
        """The name of its answer in a store: a hash of everything that can change it, ``identity`` being the model's."""
        parts = [identity, self.system, self.prompt, asdict(self.decoding), self.sample]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What came back: a text, or the ``error`` why there is none. ``finish_reason`` is ``stop``, ``length`` (cut off),
    ``content_filter`` or what the server says; token counts are those that it reports."""

    text: str | None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None

    @property
    def is_cut_off(self) -> bool:
        return self.finish_reason == "length"


class Backend(Protocol):
    """A way to reach a model."""

    @property
    def identity(self) -> str:
        """Everything that can change an answer besides the request: the kind, the model, its revision; never a key."""

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """(number of the request, its answer), each once, in the order in which they come.

        A request that gets none, after the retries that the backend makes, has an answer with ``error``.

        Raises:
            BackendDown: nothing gets through, so that going on would only turn the rest into errors.
        """
