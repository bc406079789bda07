"""Checks that a model was asked exactly the prompts that follow from a task's documents.

A leaderboard runs the `RequestAudit` of a benchmark on each sample of a submission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from lm_factuality.benchmarks.asked import Sample
from lm_factuality.harness.samples import flatten_responses, prompt_text

UNKNOWN_REQUESTS = "not the requests of this task"
DIFFERENT_REQUEST = "the model was asked something else than the row says"


@dataclass(frozen=True)
class ExpectedRun:
    """How a leaderboard requires a task to be run."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The values that the task's metadata must have."""

    generation_kwargs: Mapping[str, Any] | None = None
    """The required decoding options of generated responses."""

    repeats: int = 1
    """The number of responses to each prompt."""

    has_template: bool = False
    """Whether the run put prompts into a chat template."""

    thinking_tokens: int = 0
    """The number of tokens that the run gave the model to think."""

    @property
    def generation_arguments(self) -> list[Any]:
        """The arguments that follow the prompt in a request for a generated text."""
        if self.thinking_tokens:
            return [self.generation_kwargs, self.thinking_tokens]
        return [self.generation_kwargs]


class RequestAudit(Protocol):
    """Checks the samples of one task, one after the other."""

    def request_problem(self, sample: Sample) -> str | None:
        """Say how the requests in a sample differ from its document, or return None."""


class PromptAudit:
    """The audit of benchmarks whose model generates responses to one prompt per document."""

    key: ClassVar[str] = "text"
    """The key of a document that holds the prompt."""

    def __init__(self, expected: ExpectedRun) -> None:
        """Create an audit for the samples of one task.

        Args:
            expected: How the leaderboard requires the task to be run.
        """
        self._expected = expected
        # The chat template of the run, which the first prompt shows.
        self._template: _Template | None = None

    def request_problem(self, sample: Sample) -> str | None:
        """Say how a sample's request or number of responses is wrong, or return None.

        Args:
            sample: A line of lm_eval's samples file.

        Returns:
            The problem as a phrase, such as ``2 responses, expected 1``.
        """
        document = sample["doc"]
        requests = request_arguments(sample)
        # One document makes one request, which has a prompt and at least one further argument.
        if len(requests) != 1 or len(requests[0]) < 2:
            return UNKNOWN_REQUESTS

        prompt, *generation_arguments = requests[0]
        # These are the decoding options, and the number of tokens for thinking if there is one.
        if generation_arguments != self._expected.generation_arguments:
            return "its generation arguments are not those of the leaderboard"
        problem = self._problem_of_prompt(prompt_text(prompt), str(document[self.key]))
        if problem:
            return problem

        num_responses = len(flatten_responses(sample["resps"]))
        num_expected = self.repeats(document)
        if num_responses != num_expected:
            return f"{num_responses} responses, expected {num_expected}"
        return None

    def repeats(self, document: Mapping[str, Any]) -> int:
        """Return the number of responses that the model has to give to a document."""
        return self._expected.repeats

    def _problem_of_prompt(self, prompt: str, text: str) -> str | None:
        """Say how a prompt differs from what was expected, or return None.

        If the run has a chat template, the first prompt shows it. The template is stored, and all
        later prompts of the run are expected to have the same one.

        Args:
            prompt: The prompt that the model received.
            text: The text of the document.
        """
        # Without a template, the model gets the text and nothing else.
        if not self._expected.has_template:
            return None if prompt == text else DIFFERENT_REQUEST

        template = _template_around(text, prompt)
        if self._template is None:
            self._template = template
        is_as_expected = template is not None and template == self._template
        return None if is_as_expected else DIFFERENT_REQUEST


class _Template(NamedTuple):
    """The texts that a chat template adds to each prompt, such as ``<user>`` and ``</user>``."""

    before: str
    after: str


def _template_around(text: str, prompt: str) -> _Template | None:
    """Return what a prompt has before and after a text, or None if it does not hold the text."""
    # Templates strip the text that they enclose.
    before, match, after = prompt.partition(text.strip())
    return _Template(before, after.strip()) if match else None


def request_arguments(sample: Sample) -> list[list[Any]]:
    """Return the arguments of each request that lm_eval made for a sample's document.

    Example:
        ``{"gen_args_0": {"arg_0": "Who?", "arg_1": {"do_sample": False}}}`` under ``arguments``
        gives ``[["Who?", {"do_sample": False}]]``.
    """
    return [list(arguments.values()) for arguments in sample["arguments"].values()]
