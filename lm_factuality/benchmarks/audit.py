"""Whether a model was asked what its document says, and whether it can have answered what the
samples hold.

A leaderboard looks at each sample of a submission with the ``Audit`` of the sample's benchmark
(``Benchmark.audit``)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Protocol

from lm_factuality.ground.thinking import read_output
from lm_factuality.harness.samples import prompt_text, texts

Sample = Mapping[str, Any]

HIGHEST_LOGPROB = 1e-6  # nats: above 0 by no more than rounding
SHORT = 8  # bytes: of a longer text no model is so sure that its log-probability is 0
MORE_TOKENS = 8  # than bytes, which a tokenizer that rewrites characters may make
# characters a token in a whole answer, runs of one character not counted; in English it is 4 to 5
_LONGEST = 8
_RUN = 4
_RETOKENIZED = 1.1, 4  # share and number of tokens that a text may have more than were written
UNKNOWN_REQUESTS = "not the requests of this task"
OTHER_REQUEST = "the model was asked something else than the row says"


@dataclass(frozen=True)
class Expected:
    """How a leaderboard wants a task to be run. ``metadata`` is what the task's metadata must say,
    ``generation_kwargs`` and ``repeats`` how responses are sampled, ``thinking_tokens`` how many
    tokens the run gave the model to think. ``max_length`` is how many it takes (None: unknown),
    ``has_template`` whether the run put prompts into a chat template. ``count`` says how many
    tokens a text has (None: the tokenizer is not here)."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    generation_kwargs: Mapping[str, Any] | None = None
    repeats: int = 1
    max_length: int | None = None
    has_template: bool = False
    thinking_tokens: int = 0
    count: Callable[[str], int] | None = None

    @property
    def generation_arguments(self) -> list[Any]:
        """Those of a request for a text, behind its prompt."""
        return [self.generation_kwargs, *([self.thinking_tokens] if self.thinking_tokens else [])]


class Audit(Protocol):
    """Looks at the samples of one task, one after the other."""

    def wrong_request(self, sample: Sample) -> str | None:
        """In what the model was asked something else than its document says; None if it was asked
        that."""

    def impossible(self, sample: Sample) -> str | None:
        """In what no model can have answered this; None if one can."""


class PromptAudit:
    """For benchmarks whose model answers one prompt, under ``key`` of the document. A chat template
    is the same around each."""

    key: ClassVar[str] = "text"

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._template: tuple[str, str] | None = None

    def wrong_request(self, sample: Sample) -> str | None:
        doc, requests = sample["doc"], requests_of(sample)
        if len(requests) != 1 or len(requests[0]) < 2:
            return UNKNOWN_REQUESTS
        prompt, *decoding = requests[0]
        if decoding != self._expected.generation_arguments:
            return "its generation arguments are not those of the leaderboard"
        if not self._is_prompt(prompt_text(prompt), str(doc[self.key])):
            return OTHER_REQUEST
        given, repeats = (
            sum(1 if isinstance(each, str) else len(each) for each in sample["resps"]),
            self.repeats(doc),
        )
        return None if given == repeats else f"{given} responses, expected {repeats}"

    def impossible(self, sample: Sample) -> str | None:
        """Any text is possible that ends where the run's limits end it."""
        return next(
            filter(None, (_past_limits(text, self._expected) for text in texts(sample["resps"]))),
            None,
        )

    def repeats(self, doc: Mapping[str, Any]) -> int:
        return self._expected.repeats

    def _is_prompt(self, prompt: str, text: str) -> bool:
        if not self._expected.has_template:
            return prompt == text
        before, found, after = prompt.partition(text.strip())
        if not found or not text.strip():
            return not text.strip()
        self._template = self._template or (before, after.strip())
        return (before, after.strip()) == self._template


def requests_of(sample: Sample) -> list[list[Any]]:
    """The arguments of each request that a sample's document led to."""
    return [list(each.values()) for each in sample["arguments"].values()]


def impossible_logprob(logprob: Any, tokens: Any, num_bytes: int) -> str | None:
    """Why no model can give this sum of log-probabilities to so many ``tokens`` of a text of
    ``num_bytes``, as lm_eval writes both; None if one can, or if there is no sum."""
    if logprob in (None, "None"):
        return None
    if float(logprob) > (HIGHEST_LOGPROB if num_bytes <= SHORT else -HIGHEST_LOGPROB):
        return (
            f"a log-probability is {float(logprob):.6g},"
            f" {'above 0' if float(logprob) > 0 else 'that of a certainty'}"
        )
    if tokens not in (None, "None") and not 1 <= int(tokens) <= num_bytes + MORE_TOKENS:
        return f"{str(tokens)[:20]} tokens for {num_bytes} bytes"
    return None


def _past_limits(written: str, expected: Expected) -> str | None:
    """What of an answer is behind its end by ``until`` or ``max_gen_toks``."""
    limits, output, room = (
        expected.generation_kwargs or {},
        read_output(written),
        expected.thinking_tokens,
    )
    is_thought = room > 0 and output.is_unfinished
    text, most = (
        (output.text if room and not is_thought else written),
        limits.get("max_gen_toks", math.inf),
    )
    most += room if is_thought else 0
    stops = [] if is_thought else limits.get("until") or []
    if stop := next(
        (each for each in ([stops] if isinstance(stops, str) else stops) if each and each in text),
        None,
    ):
        return f"an answer continues after {stop!r}, where it ends"
    if (
        expected.count is not None
        and (found := expected.count(text)) > _RETOKENIZED[0] * most + _RETOKENIZED[1]
    ):
        return f"an answer has {found} tokens, at most {most} were to be written"
    size = sum(min(_RUN, len(list(run))) for _, run in groupby(text))
    return (
        f"an answer has {size} characters, too many for {most} tokens"
        if size > _LONGEST * most + SHORT
        else None
    )
