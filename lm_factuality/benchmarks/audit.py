"""Whether a model was asked what its documents say.

A leaderboard looks at each sample of a submission with the `RequestAudit` of its benchmark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from lm_factuality.harness.samples import prompt_text

Sample = Mapping[str, Any]

UNKNOWN_REQUESTS = "not the requests of this task"
DIFFERENT_REQUEST = "the model was asked something else than the row says"


@dataclass(frozen=True)
class ExpectedRun:
    """How a leaderboard wants a task to be run."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the task's metadata must say."""

    generation_kwargs: Mapping[str, Any] | None = None
    repeats: int = 1
    """The number of responses to each prompt."""

    has_template: bool = False
    """Whether the run put prompts into a chat template."""

    thinking_tokens: int = 0
    """The number of tokens that the run gave the model to think."""

    @property
    def generation_arguments(self) -> list[Any]:
        """The arguments of a request for a text, behind its prompt."""
        thinking = [self.thinking_tokens] if self.thinking_tokens else []
        return [self.generation_kwargs, *thinking]


class RequestAudit(Protocol):
    """Looks at the samples of one task, one after the other."""

    def request_problem(self, sample: Sample) -> str | None:
        """In what the model was asked something else than its document says, if in anything."""


class PromptAudit:
    """For benchmarks whose model answers one prompt, which the document holds under ``key``.

    A chat template is the same around each prompt.
    """

    key: ClassVar[str] = "text"

    def __init__(self, expected: ExpectedRun) -> None:
        self._expected = expected
        self._template: tuple[str, str] | None = None

    def request_problem(self, sample: Sample) -> str | None:
        doc, requests = sample["doc"], request_arguments(sample)
        if len(requests) != 1 or len(requests[0]) < 2:
            return UNKNOWN_REQUESTS
        prompt, *decoding = requests[0]
        if decoding != self._expected.generation_arguments:
            return "its generation arguments are not those of the leaderboard"
        if not self._is_prompt(prompt_text(prompt), str(doc[self.key])):
            return DIFFERENT_REQUEST
        responses = sum(1 if isinstance(texts, str) else len(texts) for texts in sample["resps"])
        expected = self.repeats(doc)
        if responses != expected:
            return f"{responses} responses, expected {expected}"
        return None

    def repeats(self, doc: Mapping[str, Any]) -> int:
        """The number of responses that a document gets."""
        return self._expected.repeats

    def _is_prompt(self, prompt: str, text: str) -> bool:
        if not self._expected.has_template:
            return prompt == text
        before, found, after = prompt.partition(text.strip())
        if not found or not text.strip():
            return not text.strip()
        self._template = self._template or (before, after.strip())
        return (before, after.strip()) == self._template


def request_arguments(sample: Sample) -> list[list[Any]]:
    """The arguments of each request that a sample's document led to."""
    return [list(arguments.values()) for arguments in sample["arguments"].values()]
