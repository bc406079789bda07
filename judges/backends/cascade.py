"""A cheap judge first, and another where that one is unsure.

Each keeps its answers in the store under its own name.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from judges.answers import Answer, CostEstimate, Request, Usage
from judges.backends import Backend
from judges.backends.classifier import claims_of, to_answer
from judges.budget import SpendingLimit
from judges.config import JudgeConfig
from judges.judge import answer_requests, open_backend
from judges.store import AnswerStore
from judges.typed import read_reply
from judges.verify import SupportReply

logger = logging.getLogger(__name__)


class CascadeBackend(Backend):
    """Asks a second judge where the first is unsure.

    The first judge says how probable it is that passages support each claim of a question. The
    second is asked the question if one of these lies in the band in which the first is ``unsure``,
    or there is none. Reasons name the judge that decided.
    """

    reads_subject = True
    identity = ""

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Open both judges. ``spending_limit`` pays the second.

        Raises:
            ConfigError: There is no such judge.
        """
        assert config.first
        assert config.then
        assert config.unsure
        self._first_config = config.first
        self._then_config = config.then
        self._unsure = config.unsure
        self._first = open_backend(config.first)
        self._then = open_backend(replace(config.then, max_cost=config.max_cost), spending_limit)
        parts = [self._first.identity, self._then.identity, [self._unsure]]
        self.identity = f"cascade {json.dumps(parts)}"
        self._store: AnswerStore | None = None

    def bind(self, store: AnswerStore) -> None:
        """Be told where both judges keep their answers."""
        self._store = store

    @property
    def usage(self) -> Usage:
        """What was asked of both. Tokens, cost and errors are the second's."""
        calls = self._first.usage.calls if self._first.usage else 0
        return (self._then.usage or Usage()).plus(calls=calls)

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate what it comes to if the second judge is asked everything."""
        estimate = self._then.estimate(requests)
        counted_by = f"{estimate.counted_by}, if {self._first_config.name} is never sure"
        return replace(estimate, counted_by=counted_by)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `judges.backends.Backend`: first what the first judge decides, then the others."""
        first = self._first_config.name
        then = self._then_config.name
        questions = [self._claims(request) for request in requests]
        asked = [question for claims in questions for question in claims]
        answers = iter(self._ask(self._first, asked, f"asking {first}"))
        unsure = []
        for number, (request, claims) in enumerate(zip(requests, questions, strict=True)):
            replies = []
            for _ in claims:
                reply = read_reply(next(answers), SupportReply, request.subject).value
                if reply and self._is_sure(reply):
                    reason = f"{first}: {reply.reason}"
                    replies.append(reply.model_copy(update={"reason": reason}))
            if claims and len(replies) == len(claims):
                yield number, to_answer(str(request.subject["kind"]), replies)
            else:
                unsure.append(number)
        decided = len(requests) - len(unsure)
        logger.info("%s decides %d of %d, %s the others", first, decided, len(requests), then)
        rest = [requests[number] for number in unsure]
        second = self._ask(self._then, rest, f"asking {then}")
        for number, answer in zip(unsure, second, strict=True):
            yield number, _named(answer, then)

    def close(self) -> None:
        """Close both judges."""
        self._first.close()
        self._then.close()

    def _claims(self, request: Request) -> list[Request]:
        """What the first judge is asked for a question: each claim. Nothing if it cannot judge."""
        subject = request.subject
        if not self._first_config.capabilities.can_answer(str(subject.get("kind"))):
            return []
        evidence = {key: subject[key] for key in ("passages", "entity") if key in subject}
        return [
            Request(
                "",
                self._first_config.decoding,
                subject={"kind": "verify", "claim": claim, **evidence},
            )
            for claim in claims_of(subject)
        ]

    def _ask(self, backend: Backend, requests: Sequence[Request], description: str) -> list[Answer]:
        assert self._store is not None, "a cascade is bound to a store before it is asked"
        return answer_requests(backend, self._store, requests, description)

    def _is_sure(self, reply: SupportReply) -> bool:
        """Whether a reply has a probability outside the band. A band that ends at 1 includes 1."""
        low, high = self._unsure
        probability = reply.probability
        return probability is not None and not (
            low <= probability < high or probability == high == 1
        )


def _named(answer: Answer, judge: str) -> Answer:
    """The answer with the name of its judge before the reason, if it is JSON with a reason."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        reply = json.loads(answer.text or "")
        reply["reason"] = f"{judge}: {reply['reason']}"
        return replace(answer, text=json.dumps(reply, ensure_ascii=False))
    return answer
