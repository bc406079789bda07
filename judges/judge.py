"""A judge that can be asked: each request once, and every answer on disk before it is used."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

from judges.answers import Answer, CostEstimate, Decoding, Request, Usage
from judges.backends import Backend
from judges.capabilities import BACKENDS
from judges.config import JudgeConfig
from judges.store import AnswerStore
from judges.templates import Prompts
from judges.typed import (
    ParsedReply,
    Reply,
    ReplyCheck,
    ReplyT,
    is_worth_retrying,
    json_schema_of,
    longest_retry_request,
    read_reply,
    retry_request,
)
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.thinking import ROOM_TO_THINK, without_thinking

if TYPE_CHECKING:
    from judges.budget import SpendingLimit

Item = TypeVar("Item")
Subjects = Sequence[Mapping[str, Any]]  # what each question is about
# Seconds between two looks at what another process is asking: the first, and the longest.
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0


class Judge(AbstractContextManager["Judge"]):
    """What a config describes, opened. Close it, or use it in a ``with``."""

    def __init__(
        self, config: JudgeConfig, backend: Backend, store: AnswerStore, prompts: Prompts
    ) -> None:
        self.config = config
        self.prompts = prompts
        self._backend = backend
        self._store = store
        self._stored = 0  # answers that were on disk

    @classmethod
    def open(
        cls,
        config: JudgeConfig,
        store: Path | None = None,
        spending_limit: SpendingLimit | None = None,
    ) -> Judge:
        """Open a judge.

        Args:
            config: The judge.
            store: The file with its answers. By default it is in the user's cache folder.
            spending_limit: The limit that several judges share. By default the judge has
                ``max_cost`` to itself.

        Raises:
            ConfigError: A prompt or a setting of the backend cannot be used.
            DataError: The store cannot be used.
        """
        prompts = Prompts(config.prompts)
        backend = open_backend(config, spending_limit)
        answers = AnswerStore(store)
        backend.bind(answers)
        return cls(config, backend, answers, prompts)

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.config.name

    @property
    def identity(self) -> str:
        """Everything about the model that can change an answer."""
        return self._backend.identity

    @property
    def usage(self) -> Usage:
        """What was sent since the judge was opened, and how many answers were on disk already."""
        return replace(self._backend.usage or Usage(), stored=self._stored)

    def ask(
        self,
        prompt_name: str,
        subjects: Subjects,
        description: str,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[Answer]]:
        """Ask one question per subject.

        Answers that the store has are not asked for again. A new answer is stored before it is
        returned.

        Args:
            prompt_name: The template, rendered once per subject.
            subjects: The template's variables, one mapping per question.
            description: What the progress bar says.
            samples: Answers per question. Defaults to the judge's configuration.
            **decoding: Overrides of fields of `Decoding`, such as ``max_tokens=64``.

        Returns:
            The answers of each subject, in the order of ``subjects``.

        Raises:
            BackendDownError: Nothing gets through. Answers received so far stay in the store.
            ConfigError: The prompt cannot be rendered.
            DataError: The store cannot be used.
        """
        requests = self._requests(prompt_name, subjects, samples, decoding)
        return _by_subject(self._answers(requests, description), len(subjects))

    def ask_typed(
        self,
        prompt_name: str,
        reply: type[ReplyT],
        subjects: Subjects,
        description: str,
        check: ReplyCheck[ReplyT] | None = None,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[ParsedReply[ReplyT]]]:
        """As `ask`, with the replies read.

        A reply that cannot be used is asked for once more, with the reason.

        Args:
            reply: The type of a reply.
            check: Finds what is wrong with a reply beyond its type.

        Returns:
            For each subject replies, or why there are none.
        """
        requests = self._requests(prompt_name, subjects, samples, decoding, self._schema(reply))
        answers = self._answers(requests, description)
        replies = [
            read_reply(answer, reply, request.subject, check)
            for request, answer in zip(requests, answers, strict=True)
        ]
        again: list[int] = []
        if self.config.capabilities.reads_prompts:  # any other backend would say the same again
            again = [place for place, typed in enumerate(replies) if is_worth_retrying(typed)]
        if again:
            longer = [retry_request(requests[place], replies[place]) for place in again]
            second = self._answers(longer, f"{description}, once more")
            for place, answer in zip(again, second, strict=True):
                typed = read_reply(answer, reply, requests[place].subject, check)
                if answer.error:
                    problem = f"{replies[place].problem}; asked once more: {typed.problem}"
                    typed = replace(typed, problem=problem)
                replies[place] = typed
        return _by_subject(replies, len(subjects))

    def offline_copy(self) -> Judge:
        """This judge, answering from the store alone. All else gets an error."""
        return Judge(self.config, _OfflineBackend(self._backend), self._store, self.prompts)

    @property
    def is_offline(self) -> bool:
        """Whether it answers from the store alone."""
        return isinstance(self._backend, _OfflineBackend)

    def plan(self, work: Callable[[Judge], object]) -> Plan:
        """Plan what ``work`` would ask first, by letting it ask a silent judge."""
        backend = _OfflineBackend(self._backend)
        judge = Judge(self.config, backend, self._store, self.prompts)
        work(judge)
        missing = backend.asked
        estimate = at_most = self._backend.estimate(missing)
        if self.config.capabilities.reads_prompts:
            at_most = self._backend.estimate([*missing, *map(longest_retry_request, missing)])
        return Plan(judge.usage.stored, len(missing), estimate, at_most)

    def close(self) -> None:
        """Close the connection and the store."""
        try:
            self._backend.close()
        finally:
            self._store.close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _answers(self, requests: Sequence[Request], description: str) -> list[Answer]:
        """The answers to requests.

        Unless the config speaks of thinking, a request cut off in a thought is sent again, with
        room to think.
        """
        answers = answer_requests(
            self._backend, self._store, requests, description, self._count_stored
        )
        cut_off = [place for place, answer in enumerate(answers) if is_cut_off_in_thought(answer)]
        if cut_off and self.config.thinking_tokens is None:
            longer = [_with_room(requests[place], ROOM_TO_THINK) for place in cut_off]
            title = f"{description}, with room to think"
            second = answer_requests(self._backend, self._store, longer, title, self._count_stored)
            for place, answer in zip(cut_off, second, strict=True):
                if not answer.error:
                    answers[place] = answer
        return answers

    def _count_stored(self, count: int) -> None:
        self._stored += count

    def _schema(self, reply: type[Reply]) -> str:
        accepts_schema = self.config.capabilities.accepts_schema and self.config.schema
        return json_schema_of(reply) if accepts_schema else ""

    def _requests(
        self,
        prompt_name: str,
        subjects: Subjects,
        samples: int | None,
        changes: Mapping[str, Any],
        schema: str = "",
    ) -> list[Request]:
        """Every sample of every question, in the order of ``subjects``."""
        config = self.config
        decoding: Decoding = replace(config.decoding, **changes)
        prompts = [self.prompts.render(prompt_name, subject) for subject in subjects]
        requests = [
            Request(prompt, decoding, sample, config.system, subject, schema)
            for prompt, subject in zip(prompts, subjects, strict=True)
            for sample in range(config.samples if samples is None else samples)
        ]
        return [_with_room(request, config.thinking_tokens or 0) for request in requests]


def open_backend(config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> Backend:
    """Open the way to a judge's model. ``spending_limit`` is money shared with other judges."""
    backend: Backend = resolve_name(BACKENDS[config.backend].backend)(config, spending_limit)
    return backend


def is_cut_off_in_thought(answer: Answer) -> bool:
    """Whether more tokens may bring an answer to its end.

    They may where it is not known why the answer ended, too.
    """
    if answer.finish_reason not in ("length", None) or answer.text is None:
        return False
    return without_thinking(answer.text) is None


def _with_room(request: Request, tokens: int) -> Request:
    decoding = request.decoding
    return replace(request, decoding=replace(decoding, max_tokens=decoding.max_tokens + tokens))


def _by_subject(items: Sequence[Item], subjects: int) -> list[list[Item]]:
    """Items in rows of equal length, one row a subject."""
    size = len(items) // max(1, subjects)
    return [list(items[row * size : (row + 1) * size]) for row in range(subjects)]


class _OfflineBackend(Backend):
    """A backend that sends nothing and notes what it was asked."""

    identity = ""

    def __init__(self, backend: Backend) -> None:
        self.identity = backend.identity
        self.reads_subject = backend.reads_subject
        self.asked: list[Request] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        self.asked += requests
        return ((number, Answer(None, error="not sent")) for number in range(len(requests)))


@dataclass(frozen=True)
class Plan:
    """What asking would do. Each distinct request counts once."""

    stored: int
    """Requests that have an answer on disk."""

    to_send: int
    """Requests that have none."""

    estimate: CostEstimate
    """What it takes if each request succeeds at once."""

    estimate_with_retries: CostEstimate
    """What it takes if each request is asked once more."""


def answer_requests(
    backend: Backend,
    store: AnswerStore,
    requests: Sequence[Request],
    description: str,
    on_stored: Callable[[int], None] = lambda count: None,
) -> list[Answer]:
    """Answer requests, each distinct one once.

    What the store has is not sent. What another process is asking just now is waited for, and
    asked here if that process dies. An answer with an error is returned but not kept, so that the
    next run asks again.

    Args:
        description: What the progress bar says.
        on_stored: Is told how many distinct answers came from the store.

    Returns:
        The answers in the order of ``requests``.

    Raises:
        BackendDownError: As the backend raises it. What arrived before is in the store, as it is
            after a KeyboardInterrupt.
        DataError: The store cannot be used.
    """
    keys = _keys(backend, requests)
    missing = dict(zip(keys, requests, strict=True))
    answers: dict[str, Answer] = {}
    bar: tqdm[Any]
    with tqdm(total=len(missing), desc=description, unit="answer", disable=not requests) as bar:

        def keep(key: str, answer: Answer) -> None:
            answers[key] = store.put(key, answer, backend.identity)
            if missing.pop(key, None) is not None:
                bar.update()

        def read_stored() -> int:
            stored = store.get_many(missing)
            answers.update(stored)
            for key in stored:
                del missing[key]
            bar.update(len(stored))
            on_stored(len(stored))
            return len(stored)

        read_stored()
        wait = _FIRST_WAIT
        while missing:
            ours = store.claim(missing)
            if ours:
                try:
                    _send(backend, {key: missing[key] for key in missing if key in ours}, keep)
                finally:
                    store.release(ours)
            is_progress = bool(read_stored() or ours)
            if missing:
                time.sleep(wait)
                wait = _FIRST_WAIT if is_progress else min(2 * wait, _LONGEST_WAIT)
    return [answers[key] for key in keys]


def _keys(backend: Backend, requests: Sequence[Request]) -> list[str]:
    """The key of each request. Those that the backend cannot tell apart have the same."""
    return [request.key(backend.identity, backend.reads_subject) for request in requests]


def _send(
    backend: Backend, requests: Mapping[str, Request], keep: Callable[[str, Answer], None]
) -> None:
    """Have a backend answer requests, and keep each answer as it comes."""
    keys = list(requests)
    unanswered = set(keys)

    def hand_over(arrival: tuple[int, Answer]) -> None:
        keep(keys[arrival[0]], arrival[1])
        unanswered.discard(keys[arrival[0]])

    arrivals = backend.answer(list(requests.values()))
    current: tuple[int, Answer] | None = None
    try:
        for current in arrivals:
            hand_over(current)
    except KeyboardInterrupt as interrupt:
        if current is not None:
            # The interrupt may have come before it was kept. Keeping twice does no harm.
            hand_over(current)
        if isinstance(arrivals, Generator):  # it still has in hand what came before the interrupt
            with suppress(KeyboardInterrupt, StopIteration):
                hand_over(arrivals.throw(interrupt))
                for current in arrivals:
                    hand_over(current)
        raise
    finally:
        if isinstance(arrivals, Generator):
            arrivals.close()
    if unanswered:
        raise BackendDownError(
            f"{backend.identity}: {len(unanswered)} of {len(keys)} requests came back without an"
            " answer"
        )
