"""A judge that can be asked: each request once, and every answer on disk before it is used."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from tqdm import tqdm

from judges.answers import Answer, Backend, Decoding, Estimate, Request, Usage, estimate_of
from judges.backends import open_backend
from judges.budget import Purse
from judges.config import JudgeConfig
from judges.store import AnswerStore
from judges.templates import Prompts
from judges.typed import (
    Check,
    R,
    Reply,
    Typed,
    is_worth_another_try,
    longest_again,
    once_more,
    read_reply,
    schema_of,
)
from lm_factuality.ground.errors import BackendDown
from lm_factuality.ground.thinking import ROOM_TO_THINK, without_thinking

Item = TypeVar("Item")
Subjects = Sequence[Mapping[str, Any]]  # what each question is about
IsAskedAgain = Callable[[Request, Answer], bool]


class Judge(AbstractContextManager["Judge"]):
    """What ``config`` describes, opened; close it, or use it in a ``with``."""

    def __init__(
        self, config: JudgeConfig, backend: Backend, store: AnswerStore, prompts: Prompts
    ) -> None:
        self.config = config
        self.prompts = prompts
        self._backend = backend
        self._store = store
        self._stored = list[int]()  # how many answers were on disk, each time

    @classmethod
    def open(
        cls, config: JudgeConfig, store: Path | None = None, purse: Purse | None = None
    ) -> Judge:
        """The judge of ``config`` with the answers in the file ``store`` (default: in the user's
        cache folder). ``purse`` is the money that it shares with other judges (default: it has
        ``max_cost`` to itself). Raises ConfigError: a prompt or a setting of the backend cannot be
        used. Raises DataError: the store cannot be used."""
        prompts = Prompts(config.prompts)
        opened, answers = open_backend(config, purse), AnswerStore(store)
        getattr(opened, "bind", lambda store: None)(answers)
        return cls(config, opened, answers, prompts)

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def identity(self) -> str:
        """Everything about the model that can change an answer."""
        return self._backend.identity

    @property
    def usage(self) -> Usage:
        """What was sent since the judge was opened, and how many answers were on disk already."""
        sent = getattr(self._backend, "usage", None)
        return dataclasses.replace(
            sent if isinstance(sent, Usage) else Usage(), stored=sum(self._stored)
        )

    def ask(
        self,
        prompt_name: str,
        subjects: Subjects,
        description: str,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[Answer]]:
        """Of each of ``subjects``, ``samples`` answers (default: as the config says) to the prompt
        about it. ``decoding`` replaces fields of :class:`judges.answers.Decoding`. Raises
        BackendDown: nothing gets through; answers are kept. Raises ConfigError: the prompt cannot
        be rendered. Raises DataError: the store cannot be used."""
        requests = self._requests(prompt_name, subjects, samples, decoding)
        return _rows(self._answers(requests, description), len(subjects))

    def ask_typed(
        self,
        prompt_name: str,
        reply: type[R],
        subjects: Subjects,
        description: str,
        check: Check[R] | None = None,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[Typed[R]]]:
        """As :meth:`ask`, the replies read: each is a ``reply`` that ``check`` finds nothing wrong
        with, or unscored with the reason. One that cannot be used is asked for once more, with the
        reason."""
        requests = self._requests(prompt_name, subjects, samples, decoding, self._schema(reply))
        answers = self._answers(requests, description)
        read = [
            read_reply(answer, reply, each.subject, check)
            for each, answer in zip(requests, answers, strict=True)
        ]
        can_read = (
            self.config.capabilities.reads_prompts
        )  # any other backend would say the same again
        if can_read and (
            again := [place for place, each in enumerate(read) if is_worth_another_try(each)]
        ):
            second = self._answers(
                [once_more(requests[place], read[place]) for place in again],
                f"{description}, once more",
            )
            for place, answer in zip(again, second, strict=True):
                tried = read_reply(answer, reply, requests[place].subject, check)
                why = (
                    f"{read[place].problem}; asked once more: {tried.problem}"
                    if answer.error
                    else tried.problem
                )
                read[place] = dataclasses.replace(tried, problem=why)
        return _rows(read, len(subjects))

    def plan(
        self,
        prompt_name: str,
        subjects: Subjects,
        samples: int | None = None,
        reply: type[R] | None = None,
        check: Check[R] | None = None,
        **decoding: Any,
    ) -> Plan:
        """What :meth:`ask` would send, or with ``reply`` the first questions of :meth:`ask_typed`;
        nothing is."""
        schema = self._schema(reply) if reply else ""
        requests = self._with_thoughts_on_disk(
            self._requests(prompt_name, subjects, samples, decoding, schema)
        )

        def is_asked_again(request: Request, said: Answer) -> bool:
            return reply is not None and is_worth_another_try(
                read_reply(said, reply, request.subject, check)
            )

        may_ask_again = reply is not None and self.config.capabilities.reads_prompts
        return plan(self._backend, self._store, requests, is_asked_again if may_ask_again else None)

    def silent(self) -> Judge:
        """This judge, answering from the store alone; all else gets an error."""
        return Judge(self.config, _Silent(self._backend), self._store, self.prompts)

    def rehearse(self, work: Callable[[Judge], object]) -> Plan:
        """What ``work`` would ask first, found by letting it ask a ``silent`` judge; at most each
        reply is asked for again."""
        work(other := self.silent())
        stored, missing = other.usage.stored, cast("_Silent", other._backend).asked
        estimate = estimate_of(self._backend)
        total = stored + len(missing)
        most = (
            estimate([*missing, *map(longest_again, missing)])
            if self.config.capabilities.reads_prompts
            else None
        )
        return Plan(total, total, stored, len(missing), estimate(missing), most)

    def close(self) -> None:
        try:
            getattr(self._backend, "close", lambda: None)()
        finally:
            self._store.close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _answers(self, requests: Sequence[Request], description: str) -> list[Answer]:
        """Unless the config speaks of thinking, a request cut off in a thought is sent again, with
        room to think."""
        answers = ask(self._backend, self._store, requests, description, self._stored.append)
        cut = [place for place, each in enumerate(answers) if is_cut_off_in_thought(each)]
        if cut and self.config.thinking_tokens is None:
            longer = [_with_room(requests[place], ROOM_TO_THINK) for place in cut]
            second = ask(
                self._backend,
                self._store,
                longer,
                f"{description}, with room to think",
                self._stored.append,
            )
            for place, answer in zip(cut, second, strict=True):
                answers[place] = answers[place] if answer.error else answer
        return answers

    def _with_thoughts_on_disk(self, requests: Sequence[Request]) -> list[Request]:
        """What :meth:`_answers` goes on with: a request has room to think where its answer on disk
        was cut off in a thought."""
        if self.config.thinking_tokens is not None:
            return list(requests)
        stored = self._store.get_many(keys := _keys(self._backend, requests))
        cut = {key for key, answer in stored.items() if is_cut_off_in_thought(answer)}
        return [
            _with_room(each, ROOM_TO_THINK) if key in cut else each
            for key, each in zip(keys, requests, strict=True)
        ]

    def _schema(self, reply: type[Reply]) -> str:
        return (
            schema_of(reply) if self.config.capabilities.takes_schema and self.config.schema else ""
        )

    def _requests(
        self,
        prompt_name: str,
        subjects: Subjects,
        samples: int | None,
        changes: Mapping[str, Any],
        schema: str = "",
    ) -> list[Request]:
        decoding: Decoding = dataclasses.replace(self.config.decoding, **changes)
        prompts = [self.prompts.render(prompt_name, subject) for subject in subjects]
        return [
            _with_room(
                Request(prompt, decoding, sample, self.config.system, subject, schema),
                self.config.thinking_tokens or 0,
            )
            for prompt, subject in zip(prompts, subjects, strict=True)
            for sample in range(self.config.samples if samples is None else samples)
        ]


def is_cut_off_in_thought(answer: Answer) -> bool:
    """Whether more tokens may bring an answer to its end.

    They may where it is not known why the answer ended, too.
    """
    return (
        answer.finish_reason in ("length", None)
        and answer.text is not None
        and without_thinking(answer.text) is None
    )


def _with_room(request: Request, tokens: int) -> Request:
    decoding = dataclasses.replace(
        request.decoding, max_tokens=request.decoding.max_tokens + tokens
    )
    return dataclasses.replace(request, decoding=decoding)


def _rows(items: Sequence[Item], count: int) -> list[list[Item]]:
    size = len(items) // max(1, count)
    return [list(items[row * size : (row + 1) * size]) for row in range(count)]


class _Silent:
    def __init__(self, backend: Backend) -> None:
        self.identity, self.reads_subject = (
            backend.identity,
            bool(getattr(backend, "reads_subject", False)),
        )
        self.asked: list[Request] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        self.asked += requests
        return ((number, Answer(None, error="not sent")) for number in range(len(requests)))


_PATIENCE = (
    0.05,
    1.0,
)  # seconds between two looks at what another process is asking: the first, the longest


@dataclass(frozen=True)
class Plan:
    """What asking would do: ``total`` requests, of which ``distinct`` differ, ``stored`` of these
    have an answer already and ``to_send`` have none. ``most`` is what it can come to, where that
    depends on the answers."""

    total: int
    distinct: int
    stored: int
    to_send: int
    estimate: Estimate
    most: Estimate | None = None

    @property
    def at_most(self) -> Estimate:
        return self.most or self.estimate


def plan(
    backend: Backend,
    store: AnswerStore,
    requests: Sequence[Request],
    is_asked_again: IsAskedAgain | None = None,
) -> Plan:
    """What :func:`ask` would do with ``requests``; nothing is sent. Where there is
    ``is_asked_again``, which says it of a request with its answer, one without an answer may be
    asked again too."""
    distinct = dict(zip(_keys(backend, requests), requests, strict=True))
    stored = store.get_many(distinct)
    missing = [request for key, request in distinct.items() if key not in stored]
    estimate = estimate_of(backend)
    most = None
    if is_asked_again is not None:
        again = [
            each
            for key, each in distinct.items()
            if key not in stored or is_asked_again(each, stored[key])
        ]
        most = estimate([*missing, *map(longest_again, again)])
    return Plan(len(requests), len(distinct), len(stored), len(missing), estimate(missing), most)


def ask(
    backend: Backend,
    store: AnswerStore,
    requests: Sequence[Request],
    description: str,
    on_stored: Callable[[int], None] = lambda count: None,
) -> list[Answer]:
    """The answers to ``requests``, in their order. Identical requests are sent once; what the store
    has is not sent; what another process is asking just now is waited for, and asked here if that
    process dies. An answer with an error is returned but not kept, so that the next run asks again.
    ``on_stored`` is told how many distinct answers came from the store. Raises BackendDown: as the
    backend raises it. What arrived before is in the store, as it is after a KeyboardInterrupt.
    Raises DataError: the store cannot be used."""
    identity, keys = backend.identity, _keys(backend, requests)
    distinct = dict(zip(keys, requests, strict=True))
    found = store.get_many(distinct)
    on_stored(len(found))
    missing = {key: request for key, request in distinct.items() if key not in found}
    bar: tqdm[Any]
    with tqdm(
        total=len(distinct),
        initial=len(found),
        desc=description,
        unit="answer",
        disable=not requests,
    ) as bar:

        def keep(key: str, answer: Answer) -> None:
            found[key] = store.put(key, answer, identity)
            if missing.pop(key, None) is not None:
                if isinstance(usage := getattr(backend, "usage", None), Usage):
                    bar.set_postfix_str(str(usage), refresh=False)
                bar.update()

        patience = _PATIENCE[0]
        while missing:
            ours = store.claim(missing)
            if ours:
                try:
                    _send(backend, {key: missing[key] for key in missing if key in ours}, keep)
                finally:
                    store.release(ours)
            theirs = store.get_many(missing)
            on_stored(len(theirs))
            for key, answer in theirs.items():
                keep(key, answer)
            if missing:
                time.sleep(patience)
                patience = _PATIENCE[0] if ours or theirs else min(2 * patience, _PATIENCE[1])
    return [found[key] for key in keys]


def _keys(backend: Backend, requests: Sequence[Request]) -> list[str]:
    """The key of each of ``requests``; those that ``backend`` cannot tell apart have the same."""
    identity, with_subject = backend.identity, bool(getattr(backend, "reads_subject", False))
    return [request.key(identity, with_subject) for request in requests]


def _send(
    backend: Backend, requests: Mapping[str, Request], keep: Callable[[str, Answer], None]
) -> None:
    keys, unanswered = list(requests), set(requests)
    arrivals = backend.answer(list(requests.values()))
    current: tuple[int, Answer] | None = None
    try:
        for current in arrivals:
            keep(keys[current[0]], current[1])
            unanswered.discard(keys[current[0]])
    except KeyboardInterrupt as interrupt:
        if current is not None:
            keep(
                keys[current[0]], current[1]
            )  # the interrupt may have come before it was kept; keeping twice does no harm
        if isinstance(arrivals, Generator):  # it still has in hand what came before the interrupt
            with suppress(KeyboardInterrupt, StopIteration):
                for number, answer in chain([arrivals.throw(interrupt)], arrivals):
                    keep(keys[number], answer)
        raise
    finally:
        if isinstance(arrivals, Generator):  # while its event loop runs
            arrivals.close()
    if unanswered:
        raise BackendDown(
            f"{backend.identity}: {len(unanswered)} of {len(keys)} requests came back without an"
            " answer"
        )
