"""A cheap judge first, and another where that one is unsure: each keeps its answers in the store
under its own name."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from judges.answers import Answer, Backend, Estimate, Request, Usage, estimate_of
from judges.backends import open_backend as open_judge
from judges.backends.classifier import claims_of, to_answer
from judges.budget import Purse
from judges.certificates import find_calibration
from judges.config import JudgeConfig
from judges.store import AnswerStore
from judges.typed import read_reply
from judges.verify import SupportReply

logger = logging.getLogger(__name__)


class CascadeBackend:
    """The first judge says how probable it is that passages support each claim of a question. The
    second is asked the question if one of these lies in a band in which the first is ``unsure``, or
    there is none. Reasons name the judge that decided."""

    reads_subject = True

    def __init__(self, config: JudgeConfig, purse: Purse | None = None) -> None:
        """``purse`` pays the second judge. Raises ConfigError: a judge, or where the first is
        unsure, is not known."""
        assert config.first is not None
        assert config.then is not None
        self._first_config, self._then_config = config.first, config.then
        self._first, self._then = (
            open_judge(config.first),
            open_judge(replace(config.then, max_cost=config.max_cost), purse),
        )
        self._bands: tuple[tuple[float, float], ...] = (
            (config.unsure,) if isinstance(config.unsure, tuple) else ()
        )
        if config.unsure == "calibrated":
            self._bands = find_calibration(config.first, self._first.identity, config.error)
        self.identity = (
            f"cascade {json.dumps([self._first.identity, self._then.identity, self._bands])}"
        )
        self._store: AnswerStore | None = None

    def bind(self, store: AnswerStore) -> None:
        """Where both judges keep their answers."""
        self._store = store

    @property
    def usage(self) -> Usage:
        """What was asked of both; tokens, cost and errors are the second's."""
        first, then = (getattr(each, "usage", Usage()) for each in (self._first, self._then))
        return replace(then, calls=first.calls + then.calls)

    def estimate(self, requests: Sequence[Request]) -> Estimate:
        """At most: as if the second judge were asked everything."""
        estimate = estimate_of(self._then)(requests)
        return replace(
            estimate,
            counted_by=f"{estimate.counted_by}, if {self._first_config.name} is never sure",
        )

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        first, then = self._first_config, self._then_config
        can = first.capabilities.can_answer
        claims = [
            claims_of(each.subject) if can(str(each.subject.get("kind"))) else []
            for each in requests
        ]
        asked = []
        for request, each in zip(requests, claims, strict=True):
            kept = {
                key: request.subject[key]
                for key in ("passages", "entity")
                if key in request.subject
            }
            asked += [
                Request("", first.decoding, subject={"kind": "verify", "claim": claim, **kept})
                for claim in each
            ]
        found = iter(self._ask(self._first, asked, f"asking {first.name}"))
        unsure = []
        for number, (request, each) in enumerate(zip(requests, claims, strict=True)):
            read = [read_reply(next(found), SupportReply, request.subject).value for _ in each]
            sure = [
                reply
                for reply in read
                if reply
                and reply.probability is not None
                and not self._is_unsure(reply.probability)
            ]
            if not each or len(sure) < len(each):
                unsure.append(number)
                continue
            named = [
                reply.model_copy(update={"reason": f"{first.name}: {reply.reason}"})
                for reply in sure
            ]
            yield number, to_answer(str(request.subject["kind"]), named)
        logger.info(
            "%s decides %d of %d, %s the others",
            first.name,
            len(requests) - len(unsure),
            len(requests),
            then.name,
        )
        answers = self._ask(
            self._then, [requests[number] for number in unsure], f"asking {then.name}"
        )
        yield from (
            (number, _named(answer, then.name))
            for number, answer in zip(unsure, answers, strict=True)
        )

    def close(self) -> None:
        for each in (self._first, self._then):
            getattr(each, "close", lambda: None)()

    def _ask(self, backend: Backend, requests: Sequence[Request], description: str) -> list[Answer]:
        from judges.judge import ask

        assert self._store is not None, "a cascade is bound to a store before it is asked"
        return ask(backend, self._store, requests, description) if requests else []

    def _is_unsure(self, probability: float) -> bool:
        return any(
            low <= probability < high or probability == high == 1 for low, high in self._bands
        )


def _named(answer: Answer, judge: str) -> Answer:
    """The reason in a reply of JSON with the name of its judge before it; any other answer as it
    is."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        reply = json.loads(answer.text or "")
        return replace(
            answer,
            text=json.dumps({**reply, "reason": f"{judge}: {reply['reason']}"}, ensure_ascii=False),
        )
    return answer
