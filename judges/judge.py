"""A judge that can be asked: a `Judge` renders prompts, asks its backend and reads the replies.

Each request is sent once, and every answer is in the store before it is used. Benchmarks and
commands open a judge with `Judge.open`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from tqdm.auto import tqdm

from judges import LEXICAL
from judges.answers import Answer, CostEstimate, Decoding, Request, Usage
from judges.backends import Backend, NumberedAnswer
from judges.capabilities import BACKENDS
from judges.config import JudgeConfig
from judges.store import AnswerStore
from judges.templates import Prompts
from judges.typed import (
    ParsedReply,
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

ItemT = TypeVar("ItemT")

# The subjects of questions: the variables of a prompt's template, one mapping per question.
Subjects: TypeAlias = Sequence[Mapping[str, Any]]

# Seconds between two looks for answers that another process is asking for. The wait doubles from
# the first to the longest while nothing arrives.
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0


class Judge(AbstractContextManager["Judge"]):
    """A judge with its backend and its answer store open.

    Use it in a ``with`` statement, or call `close` at the end.

    Attributes:
        config: The settings of the judge.
        prompts: The prompts that it renders.
        record: The list to which all answers are added in the order of the questions, if it is
            not None.
    """

    def __init__(
        self, config: JudgeConfig, backend: Backend, store: AnswerStore, prompts: Prompts
    ) -> None:
        """Make a judge of parts that are open already. `Judge.open` opens them.

        Args:
            config: The settings of the judge.
            backend: Sends the requests.
            store: Keeps the answers.
            prompts: The prompts, which become the requests.
        """
        self.config = config
        self.prompts = prompts
        self.record: list[Answer] | None = None
        self._backend = backend
        self._store = store
        # These three are part of `usage`, beside what the backend counts.
        self._num_stored = 0  # distinct answers that came from the store
        self._shared_prompt_tokens = 0  # sent tokens in beginnings that all prompts share
        self._refused_options: set[str] = set()  # options that the server refused

    @classmethod
    def open(
        cls,
        config: JudgeConfig,
        store: Path | None = None,
        spending_limit: SpendingLimit | None = None,
    ) -> Judge:
        """Open a judge: its prompts, its backend and its answer store. The caller has to close it.

        Args:
            config: The settings of the judge.
            store: The file of its answer store. By default one in the user's cache folder.
            spending_limit: The limit that several judges share. By default the judge has
                ``max_cost`` to itself.

        Raises:
            ConfigError: A prompt or a setting of the backend cannot be used.
            DataError: The store cannot be used.
        """
        # Mistakes in the configuration are found before the store is opened.
        prompts = Prompts(config.prompts)
        backend = open_backend(config, spending_limit)
        answer_store = AnswerStore(store)
        # A cascade keeps the answers of both its judges in the same store.
        backend.bind(answer_store)
        return cls(config, backend, answer_store, prompts)

    @property
    def name(self) -> str:
        """The name of the judge, which is that of its YAML file."""
        return self.config.name

    @property
    def identity(self) -> str:
        """The identity of the model: everything about it that can change an answer."""
        return self._backend.identity

    @property
    def usage(self) -> Usage:
        """What was used since the judge was opened, and the options that its server refused."""
        return replace(
            self._backend.usage,
            stored=self._num_stored,
            shared_prompt_tokens=self._shared_prompt_tokens,
            refused_options=tuple(sorted(self._refused_options)),
        )

    def ask(
        self,
        prompt_name: str,
        subjects: Subjects,
        description: str,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[Answer]]:
        """Ask one question per subject. Questions with an answer in the store are not sent again.

        Args:
            prompt_name: The template, which is rendered once per subject.
            subjects: The template's variables, one mapping per question.
            description: The label of the progress bar.
            samples: Answers per question. Defaults to the judge's configuration.
            **decoding: Overrides of fields of `Decoding`, such as ``max_tokens=64``.

        Returns:
            The answers of each subject, in the order of ``subjects``.

        Raises:
            BackendDownError: The model cannot be reached. Answers received so far stay stored.
            ConfigError: The prompt cannot be rendered.
            DataError: The store cannot be used.
        """
        requests = self._make_requests(prompt_name, subjects, samples, decoding)
        answers = self._answer_with_room_to_think(requests, description)
        return _group_by_subject(answers, len(subjects))

    def ask_typed(
        self,
        prompt_name: str,
        reply_type: type[ReplyT],
        subjects: Subjects,
        description: str,
        check: ReplyCheck[ReplyT] | None = None,
        samples: int | None = None,
        **decoding: Any,
    ) -> list[list[ParsedReply[ReplyT]]]:
        """Ask one question per subject, as `ask` does, and parse the answers as typed replies.

        An answer that cannot be used is asked for once more, with the reason.

        Args:
            prompt_name: The template, which is rendered once per subject.
            reply_type: The class of the replies.
            subjects: The template's variables, one mapping per question.
            description: The label of the progress bar.
            check: Finds problems of a reply that its type does not show.
            samples: Replies per question. Defaults to the judge's configuration.
            **decoding: Overrides of fields of `Decoding`, such as ``max_tokens=64``.

        Returns:
            The replies of each subject, in the order of ``subjects``. A reply that cannot be used
            has its problem instead of a value.

        Raises:
            BackendDownError: The model cannot be reached. Answers received so far stay stored.
            ConfigError: The prompt cannot be rendered.
            DataError: The store cannot be used.
        """
        sends_schema = self.config.capabilities.accepts_schema and self.config.schema
        schema = json_schema_of(reply_type) if sends_schema else ""
        requests = self._make_requests(prompt_name, subjects, samples, decoding, schema)
        answers = self._answer_with_room_to_think(requests, description)
        replies = [
            read_reply(answer, reply_type, request.subject, check)
            for request, answer in zip(requests, answers, strict=True)
        ]

        # A backend that does not read prompts would give the same answer again.
        if self.config.capabilities.reads_prompts:
            replies = self._retry_replies(replies, requests, reply_type, check, description)
        return _group_by_subject(replies, len(subjects))

    def _retry_replies(
        self,
        replies: Sequence[ParsedReply[ReplyT]],
        requests: Sequence[Request],
        reply_type: type[ReplyT],
        check: ReplyCheck[ReplyT] | None,
        description: str,
    ) -> list[ParsedReply[ReplyT]]:
        """Ask once more for each reply that cannot be used.

        Args:
            replies: The first replies to the requests.
            requests: The requests, in the same order.
            reply_type: The class of the replies.
            check: Finds problems of a reply that its type does not show.
            description: The label of the progress bar of the first try.

        Returns:
            The replies, in the same order. The second reply to a question replaces the first.
        """
        retried = [index for index, reply in enumerate(replies) if is_worth_retrying(reply)]
        retry_requests = [retry_request(requests[index], replies[index]) for index in retried]
        answers = self._answer_with_room_to_think(retry_requests, f"{description}, once more")

        final_replies = list(replies)
        for index, answer in zip(retried, answers, strict=True):
            first_reply = replies[index]
            reply = read_reply(answer, reply_type, requests[index].subject, check)
            # If the second try got no reply at all, users need the problem of the first.
            if answer.error:
                problem = f"{first_reply.problem}; asked once more: {reply.problem}"
                reply = replace(reply, problem=problem)
            final_replies[index] = replace(reply, earlier_answer=first_reply.answer)
        return final_replies

    def with_verify(self, verify: Literal["fact", "page"]) -> Judge:
        """Return a judge that differs in how it verifies facts. It shares backend and store."""
        config = replace(self.config, verify=verify)
        return Judge(config, self._backend, self._store, self.prompts)

    def plan(self, ask: Callable[[Judge], object]) -> Plan:
        """Estimate how many requests some work would send and what they cost; nothing is sent.

        The answers that the work gets come from the store. Where the store has none, they are those
        of the offline judge, so that questions that follow from an answer are counted too.

        Args:
            ask: Asks all questions, such as ``lambda judge: verify(judge, pairs)``.

        Returns:
            The estimate, with and without a second try of each request.
        """
        whole_work = _PlannedStep()
        for step in self._record_steps(ask).values():
            whole_work.num_stored += step.num_stored
            whole_work.missing += step.missing
        return self._plan_step(whole_work)

    def plan_steps(self, ask: Callable[[Judge], object]) -> dict[str, Plan]:
        """Estimate requests as `plan` does, separately for each step of the work.

        Returns:
            The estimates by the labels of the progress bars, such as ``verifying``.
        """
        plans = {}
        for label, step in self._record_steps(ask).items():
            # A step of which earlier steps have asked everything already has no requests.
            if step.num_stored or step.missing:
                plans[label] = self._plan_step(step)
        return plans

    def _record_steps(self, ask: Callable[[Judge], object]) -> dict[str, _PlannedStep]:
        """Return the requests that some work would send, by the label of its progress bar."""
        planner = _PlanningJudge(self.config, self._backend, self._store, self.prompts)
        ask(planner)
        return planner.steps

    def _plan_step(self, step: _PlannedStep) -> Plan:
        """Estimate the cost of one step of some work."""
        retries = []
        # A backend that does not read prompts is never asked once more.
        if self.config.capabilities.reads_prompts:
            retries = [longest_retry_request(request) for request in step.missing]
        return Plan(
            stored=step.num_stored,
            to_send=len(step.missing),
            estimate=self._backend.estimate(step.missing),
            estimate_with_retries=self._backend.estimate([*step.missing, *retries]),
        )

    def close(self) -> None:
        """Close the backend and the store."""
        try:
            self._backend.close()
        finally:
            self._store.close()

    def __exit__(self, *exception_info: object) -> None:
        """Close the judge at the end of a ``with`` statement."""
        self.close()

    def _answer_with_room_to_think(
        self, requests: Sequence[Request], description: str
    ) -> list[Answer]:
        """Answer requests, and repeat those that are cut off in a thought with more tokens.

        Args:
            requests: The requests.
            description: The label of the progress bar.

        Returns:
            The answers, in the order of ``requests``.
        """
        answers = self._answer(requests, description)
        # The user has said how many tokens the model may think, and gets no longer thoughts.
        if self.config.thinking_tokens is not None:
            return answers

        cut_off = [index for index, answer in enumerate(answers) if is_cut_off_in_thought(answer)]
        # The store keeps these answers apart, because the limit of tokens is part of their keys.
        longer_requests = [_add_tokens(requests[index], ROOM_TO_THINK) for index in cut_off]
        longer_answers = self._answer(longer_requests, f"{description}, with room to think")
        for index, answer in zip(cut_off, longer_answers, strict=True):
            # A cut-off answer is better than an error.
            if not answer.error:
                answers[index] = answer
        return answers

    def _answer(self, requests: Sequence[Request], description: str) -> list[Answer]:
        """Answer requests from the store or the backend, and note for `usage` what that took.

        Args:
            requests: The requests.
            description: The label of the progress bar.

        Returns:
            The answers, in the order of ``requests``, some of which may be cut off.
        """
        tokens_before = self.usage.prompt_tokens
        # Stored answers are counted as soon as they come, because the backend may fail.
        answers = answer_requests(
            self._backend, self._store, requests, description, on_stored=self._count_stored
        )
        # A server may charge less for the beginning that all prompts share. Its tokens are not
        # known, so they are estimated from its share of the characters.
        num_sent_tokens = self.usage.prompt_tokens - tokens_before
        self._shared_prompt_tokens += round(num_sent_tokens * common_prefix_share(requests))
        for answer in answers:
            # A stored answer was also given without the options that the server refused then.
            self._refused_options.update(answer.left_out or ())
        if self.record is not None:
            self.record += answers
        return answers

    def _count_stored(self, count: int) -> None:
        """Note for `usage` that answers came from the store."""
        self._num_stored += count

    def _make_requests(
        self,
        prompt_name: str,
        subjects: Subjects,
        samples: int | None,
        decoding_changes: Mapping[str, Any],
        schema: str = "",
    ) -> list[Request]:
        """Make the requests of all questions.

        Args:
            prompt_name: The template, which is rendered once per subject.
            subjects: The template's variables, one mapping per question.
            samples: Requests per question. None takes the number in the configuration.
            decoding_changes: Fields of `Decoding` that differ from the configuration.
            schema: The JSON schema of the reply. Empty if none is sent.

        Returns:
            All samples of the first subject, then all of the second, and so on.
        """
        config = self.config
        decoding: Decoding = replace(config.decoding, **decoding_changes)
        if config.thinking_tokens is not None:
            max_tokens = decoding.max_tokens + config.thinking_tokens
            decoding = replace(decoding, max_tokens=max_tokens)
        num_samples = config.samples if samples is None else samples
        # All prompts are rendered before anything is sent, so that a wrong template costs nothing.
        prompts = [self.prompts.render(prompt_name, subject) for subject in subjects]

        requests = []
        for prompt, subject in zip(prompts, subjects, strict=True):
            for sample in range(num_samples):
                requests.append(
                    Request(
                        prompt,
                        decoding,
                        sample=sample,
                        system=config.system,
                        subject=subject,
                        schema=schema,
                    )
                )
        return requests


def open_backend(config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> Backend:
    """Open the backend of a judge. The caller has to close it.

    Args:
        config: The settings of the judge.
        spending_limit: The limit that several judges share. By default the judge has ``max_cost``
            to itself.

    Raises:
        ConfigError: A setting cannot be used.
    """
    # Backends are imported by name, since their libraries take seconds to load.
    backend_class = resolve_name(BACKENDS[config.backend].backend)
    backend: Backend = backend_class(config, spending_limit)
    return backend


def is_cut_off_in_thought(answer: Answer) -> bool:
    """Return whether an answer ends within a thought, so that more tokens may help."""
    # Some servers do not say why an answer ended.
    may_be_cut_off = answer.finish_reason in ("length", None)
    if answer.text is None or not may_be_cut_off:
        return False
    return without_thinking(answer.text) is None


def common_prefix_share(requests: Sequence[Request]) -> float:
    """Return the share of all prompts' characters that is in their common beginning.

    Example:
        ``Is it true: A`` and ``Is it true: B`` begin with the same 12 of 13 characters → 12/13

    Args:
        requests: The requests. Equal prompts count once, and a single prompt shares nothing.
    """
    prompts = {request.prompt for request in requests}
    if len(prompts) < 2:
        return 0.0
    shared_beginning = commonprefix(list(prompts))  # noqa: RUF071  of characters, not of paths
    num_characters = sum(map(len, prompts))
    return len(shared_beginning) * len(prompts) / num_characters


def _add_tokens(request: Request, tokens: int) -> Request:
    """Return a copy of a request whose answer may have more tokens."""
    max_tokens = request.decoding.max_tokens + tokens
    return replace(request, decoding=replace(request.decoding, max_tokens=max_tokens))


def _group_by_subject(items: Sequence[ItemT], num_subjects: int) -> list[list[ItemT]]:
    """Split items into one list per subject, all of the same length.

    Example:
        ``["a1", "a2", "b1", "b2"]`` and 2 subjects → ``[["a1", "a2"], ["b1", "b2"]]``
    """
    if not num_subjects:
        return []
    size = len(items) // num_subjects
    starts = [number * size for number in range(num_subjects)]
    return [list(items[start : start + size]) for start in starts]


@dataclass
class _PlannedStep:
    """The requests of one step of a plan, i.e. those that share a progress bar."""

    num_stored: int = 0
    """The number of distinct requests that have an answer in the store."""

    missing: list[Request] = field(default_factory=list)
    """The distinct requests that have none."""


class _PlanningJudge(Judge):
    """A judge that sends and stores nothing, and records what it would send.

    Attributes:
        steps: The recorded requests, by the label of their progress bar.
    """

    def __init__(
        self, config: JudgeConfig, backend: Backend, store: AnswerStore, prompts: Prompts
    ) -> None:
        """Take the place of a judge with this backend and store."""
        super().__init__(config, backend, store, prompts)
        self.steps: defaultdict[str, _PlannedStep] = defaultdict(_PlannedStep)
        self._answers: dict[str, Answer] = {}

    def _answer(self, requests: Sequence[Request], description: str) -> list[Answer]:
        """Answer requests from the store or by guesses, and record them in the step of the plan."""
        # Equal requests have the same key. They count once, also if an earlier step asked them.
        keys = [self._backend.key_of(request) for request in requests]
        new_requests = {}
        for key, request in zip(keys, requests, strict=True):
            if key not in self._answers:
                new_requests[key] = request
        self._answers |= self._plan_answers(new_requests, self.steps[description])
        return [self._answers[key] for key in keys]

    def _plan_answers(
        self, requests: Mapping[str, Request], step: _PlannedStep
    ) -> dict[str, Answer]:
        """Look requests up in the store, guess the other answers, and count both in a step.

        Args:
            requests: The requests by their keys.
            step: The step that asks them. Its numbers are increased.

        Returns:
            The answers by the keys of their requests.
        """
        stored_answers = self._store.get_many(requests)
        missing = {key: requests[key] for key in requests if key not in stored_answers}
        step.num_stored += len(stored_answers)
        step.missing += missing.values()
        guessed_answers = self._guess_answers(list(missing.values()))
        return {**stored_answers, **dict(zip(missing, guessed_answers, strict=True))}

    def _guess_answers(self, requests: Sequence[Request]) -> list[Answer]:
        """Return the answers that the offline judge gives, in the order of the requests."""
        # If this judge itself is the offline judge, its plan is exact.
        if self.config.backend == LEXICAL:
            return [arrival.answer for arrival in self._backend.answer(requests)]
        # These answers are made with the classes of this module.
        from judges.estimates import typical_answer

        return [typical_answer(request) for request in requests]


@dataclass(frozen=True)
class Plan:
    """An estimate of what some work would ask. Identical requests count once."""

    stored: int
    """The number of requests that have an answer in the store."""

    to_send: int
    """The number of requests that have none."""

    estimate: CostEstimate
    """The tokens and the cost if each request succeeds at once."""

    estimate_with_retries: CostEstimate
    """The tokens and the cost if each request is asked once more."""


def answer_requests(
    backend: Backend,
    store: AnswerStore,
    requests: Sequence[Request],
    description: str,
    on_stored: Callable[[int], None] = lambda count: None,
) -> list[Answer]:
    """Answer requests from the store or, if they have no answer there, by a backend.

    Identical requests are sent once. If another process has sent one already, this process waits
    until the answer is in the store, and sends the request itself if the other process dies. An
    answer with an error is returned but not stored, so the next run asks again.

    Args:
        backend: Answers the requests that the store cannot answer.
        store: Keeps the answers.
        requests: The requests, of which some may be identical.
        description: The label of the progress bar.
        on_stored: Is called after each look into the store, with the number of distinct answers
            that were found there.

    Returns:
        The answers, in the order of ``requests``.

    Raises:
        BackendDownError: The model cannot be reached. Answers that arrived before are stored, as
            they are after a KeyboardInterrupt.
        DataError: The store cannot be used.
    """
    # Requests that the backend cannot tell apart have the same key.
    keys = [backend.key_of(request) for request in requests]
    missing = dict(zip(keys, requests, strict=True))
    with tqdm(
        total=len(missing), desc=description, unit="answer", disable=not requests
    ) as progress_bar:
        batch = _RequestBatch(backend, store, missing, progress_bar)
        on_stored(batch.take_stored_answers())
        wait = _FIRST_WAIT
        # The batch removes each request that is answered from `batch.missing`.
        while batch.missing:
            num_sent = batch.send_unclaimed()
            # Other processes have claimed the rest, and put their answers into the store.
            num_stored = batch.take_stored_answers()
            on_stored(num_stored)
            if batch.missing:
                time.sleep(wait)
                # While nothing arrives, the store is looked into less and less often.
                has_progress = num_sent or num_stored
                wait = _FIRST_WAIT if has_progress else min(2 * wait, _LONGEST_WAIT)
    return [batch.answers[key] for key in keys]


@dataclass
class _RequestBatch:
    """Distinct requests, and the answers to them that have arrived so far."""

    backend: Backend
    """Answers the requests."""

    store: AnswerStore
    """Keeps the answers, also those of other processes."""

    missing: dict[str, Request]
    """The requests without an answer, by key."""

    progress_bar: tqdm[Any]
    """Shows how many requests are answered."""

    answers: dict[str, Answer] = field(default_factory=dict)
    """The answers, by the key of their request."""

    def take_stored_answers(self) -> int:
        """Take the answers that are in the store by now, and return how many there were."""
        stored_answers = self.store.get_many(self.missing)
        self.answers.update(stored_answers)
        for key in stored_answers:
            del self.missing[key]
        self.progress_bar.update(len(stored_answers))
        return len(stored_answers)

    def send_unclaimed(self) -> int:
        """Have the backend answer the requests that no other process is asking already.

        Returns:
            The number of requests that were sent.

        Raises:
            BackendDownError: The backend failed, or left requests without an answer.
        """
        claimed_keys = self.store.claim(self.missing)
        if not claimed_keys:
            return 0
        requests = {key: request for key, request in self.missing.items() if key in claimed_keys}
        try:
            self._send(requests)
        finally:
            # Other processes may now send the requests that got no answer.
            self.store.release(claimed_keys)
        return len(requests)

    def _send(self, requests: Mapping[str, Request]) -> None:
        """Have the backend answer requests, and save each answer as it arrives.

        After Ctrl-C, the answers to calls that were under way are saved too, because they are paid
        for.

        Args:
            requests: The requests by key, which are some of the missing ones.

        Raises:
            BackendDownError: The backend failed, or left requests without an answer.
            KeyboardInterrupt: The user pressed Ctrl-C. Answers that had arrived are saved.
        """
        keys = list(requests)
        answers = self.backend.answer(list(requests.values()))
        last_answer: NumberedAnswer | None = None
        try:
            for last_answer in answers:
                self._save_answer(last_answer, keys)
        except KeyboardInterrupt as interrupt:
            # The interrupt may have come while the last answer was being saved.
            if last_answer is not None:
                self._save_answer(last_answer, keys)
            for late_answer in _answers_after_interrupt(answers, interrupt):
                self._save_answer(late_answer, keys)
            raise
        finally:
            if isinstance(answers, Generator):
                answers.close()

        num_unanswered = len(self.missing.keys() & requests.keys())
        if num_unanswered:
            raise BackendDownError(
                f"{self.backend.identity}: {num_unanswered} of {len(keys)} requests came back"
                " without an answer"
            )

    def _save_answer(self, numbered_answer: NumberedAnswer, keys: Sequence[str]) -> None:
        """Store the answer to a request, which is then no longer missing.

        Saving an answer twice changes nothing.

        Args:
            numbered_answer: The answer, with the number of its request counted from 0.
            keys: The keys of the requests that were sent, in order.
        """
        number, answer = numbered_answer
        key = keys[number]
        # Another process may have stored an answer first. All then use that one.
        self.answers[key] = self.store.put(key, answer, self.backend.identity)
        if self.missing.pop(key, None) is not None:
            self.progress_bar.update()


def _answers_after_interrupt(
    arrivals: Iterator[NumberedAnswer], interrupt: KeyboardInterrupt
) -> Iterator[NumberedAnswer]:
    """Tell a backend that the user pressed Ctrl-C, and yield the answers that still arrive.

    A backend can only be told if it is a generator.
    """
    if not isinstance(arrivals, Generator):
        return
    # The backend raises the interrupt again after its last answer.
    with suppress(KeyboardInterrupt, StopIteration):
        yield arrivals.throw(interrupt)
        yield from arrivals
