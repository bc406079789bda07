"""Reports how far a run is: the rate of its requests and the remaining time.

The bars of lm_eval move only when a batch is finished, and say nothing while a model is loaded. A
thread therefore logs a line after half a minute, and then less and less often.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from lm_eval.api.model import LM

from lm_factuality.ground.console import is_first_process, plural
from lm_factuality.ground.packages import replaced

# In a run lm_eval shows the lines of its own loggers alone.
logger = logging.getLogger("lm_eval.evaluator")

_FIRST_REPORT = 25.0  # seconds after the start
_LONGEST_PAUSE = 300.0  # seconds between two reports; each is twice as long as the one before


@contextmanager
def reported_stage(stage: str, has_ended: threading.Event | None = None) -> Iterator[None]:
    """Log that a stage of a run still goes on, while the ``with`` block runs.

    Args:
        stage: What the run does, such as ``loading the model gpt2``.
        has_ended: Is set by the caller if the stage ends before the block does.
    """
    with _log_regularly(lambda seconds: f"{stage}, for {_duration(seconds)}", has_ended):
        yield


@contextmanager
def reported_requests(
    lm: LM, num_requests: int, kind: str, longest_answer: int = 0
) -> Iterator[None]:
    """Log the rate and the remaining time of requests, while the ``with`` block answers them.

    Args:
        lm: The model. It reports each answer to its ``cache_hook``, where the answers are counted.
        num_requests: The number of different requests.
        kind: What is asked for, such as ``log-likelihoods``.
        longest_answer: The most tokens of an answer; 0 if no text is generated.
    """
    progress = _RequestProgress(lm, num_requests, kind, longest_answer, _count_kept(lm))
    with (
        _counted_passes(lm, progress),
        _counted_answers(lm, progress),
        _log_regularly(progress.describe),
    ):
        yield


def _counted_passes(lm: LM, progress: "_RequestProgress") -> AbstractContextManager[object]:
    """Count the forward passes of a local model that generates texts, within a ``with`` block.

    The model writes a whole batch before it gives any answer, one token of each text per pass.
    """
    network: Any = getattr(lm, "model", None)
    if not (progress.longest_answer and hasattr(network, "register_forward_hook")):
        return nullcontext()
    # PyTorch removes the hook at the end of the block.
    handle: AbstractContextManager[object] = network.register_forward_hook(progress.count_pass)
    return handle


@contextmanager
def _counted_answers(lm: LM, progress: "_RequestProgress") -> Iterator[None]:
    """Count the answers of a model within a ``with`` block.

    lm_eval's models pass each answer to their cache. hf-tree calls ``count_answered`` besides,
    since it works on many requests together, and has all answers only at the end.
    """
    add_to_cache = lm.cache_hook.add_partial

    def count_and_add_to_cache(*answer: object) -> None:
        progress.count_answers(1)
        add_to_cache(*answer)

    with ExitStack() as stack:
        stack.enter_context(replaced(lm.cache_hook, add_partial=count_and_add_to_cache))
        if hasattr(lm, "count_answered"):
            stack.enter_context(replaced(lm, count_answered=progress.count_answers))
        yield


@dataclass
class _RequestProgress:
    """Counts the answers to requests, and describes how far they are."""

    lm: LM
    num_requests: int

    kind: str
    """What is asked for, such as ``log-likelihoods``."""

    longest_answer: int
    """The most tokens of an answer; 0 if no text is generated."""

    num_kept_before: int
    """How many answers the model had taken from disk before these requests."""

    num_answered: float = 0.0
    """How many requests are answered; `hf-tree` counts parts of requests."""

    num_passes: int = 0
    """How many forward passes a local model has made to generate texts."""

    def count_answers(self, number: float) -> None:
        """Add a number of answers, which `hf-tree` gives as a fraction."""
        self.num_answered += number

    def count_pass(self, *_: object) -> None:
        """Count a forward pass, after which PyTorch calls this."""
        self.num_passes += 1

    def describe(self, seconds: float) -> str:
        """Return a line for the log, such as ``texts: 40 of 100 ...``, for the seconds so far."""
        # Answers that were kept on disk take no time, so the model is asked fewer requests.
        num_kept_since_start = _count_kept(self.lm) - self.num_kept_before
        num_asked = max(1, self.num_requests - num_kept_since_start)
        is_in_first_batch = self.num_passes and not self.num_answered
        if is_in_first_batch:
            return f"{self.kind}: {self._describe_first_batch(num_asked, seconds)}"
        progress = describe_progress(int(self.num_answered), num_asked, seconds)
        return f"{self.kind}: {progress}"

    def _describe_first_batch(self, num_asked: int, seconds: float) -> str:
        """Describe how far requests are before the first batch of texts is finished.

        Args:
            num_asked: The number of requests that the model is asked.
            seconds: The seconds so far.
        """
        # Each pass adds one token to each text of the batch.
        num_batches = math.ceil(num_asked / (batch_size_of(self.lm) or 1))
        most_passes = num_batches * self.longest_answer
        most_seconds = seconds * most_passes / self.num_passes
        return (
            f"none of {plural(num_asked, 'request')} answered in {_duration(seconds)};"
            f" {self.num_passes / seconds:.1f} tokens a second for each text of the first batch, at"
            f" most {_duration(most_seconds - seconds)} left"
        )


def _count_kept(lm: LM) -> int:
    """Return how many answers a model has taken from disk in this run; 0 if it keeps none."""
    return getattr(lm.cache_hook, "num_kept", 0)


def batch_size_of(lm: LM) -> int | None:
    """Return how many requests a model computes at once, None if it has no number or ``auto``."""
    try:
        return max(1, int(lm.batch_size))
    except (AttributeError, TypeError, ValueError):
        return None


def describe_progress(num_answered: int, num_requests: int, seconds: float) -> str:
    """Describe how far requests are, with their rate and the time that remains.

    Example:
        ``describe_progress(30, 90, 60.0)`` is
        ``30 of 90 requests answered in 60 s, 30.0 a minute, about 2 min left``.
    """
    if not num_answered:
        return f"none of {plural(num_requests, 'request')} answered in {_duration(seconds)}"
    # Some answers are announced twice, by the model and by the suite.
    num_answered = min(num_answered, num_requests)
    per_minute = 60 * num_answered / seconds
    num_left = num_requests - num_answered
    return (
        f"{num_answered:,} of {plural(num_requests, 'request')} answered in {_duration(seconds)},"
        f" {per_minute:,.1f} a minute, about {_duration(seconds * num_left / num_answered)} left"
    )


def _duration(seconds: float) -> str:
    """Format a duration: ``25 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def _log_regularly(
    describe: Callable[[float], str], has_ended: threading.Event | None = None
) -> Iterator[None]:
    """Log a description now and then, in a thread, until the ``with`` block ends.

    Args:
        describe: Returns the line to log, from the seconds since the start.
        has_ended: Stops the thread when it is set. The caller may set it early, and the end of the
            block sets it.
    """
    # Of several processes, only the first one logs.
    if not is_first_process():
        yield
        return
    has_ended = has_ended or threading.Event()
    # A daemon thread does not keep the program alive.
    threading.Thread(target=_log_until, args=(has_ended, describe), daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()


def _log_until(has_ended: threading.Event, describe: Callable[[float], str]) -> None:
    """Log a description again and again until an event is set.

    Args:
        has_ended: The event.
        describe: Returns the line to log, from the seconds since the start.
    """
    start = time.monotonic()
    pause = _FIRST_REPORT
    while not has_ended.wait(pause):
        logger.info("%s", describe(time.monotonic() - start))
        pause = min(2 * pause, _LONGEST_PAUSE)
