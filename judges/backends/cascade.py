"""A judge made of two: a cheap one is asked first, and another where the first is unsure.

`judges.judge` opens a `CascadeBackend`. Each of the two judges keeps its answers in the store under
its own name.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from judges.answers import Answer, CostEstimate, Request, Usage
from judges.backends import Backend, NumberedAnswer
from judges.backends.classifier import claims_of_subject, format_answer
from judges.budget import SpendingLimit
from judges.claims import CHECK
from judges.config import JudgeConfig
from judges.judge import answer_requests, open_backend
from judges.store import AnswerStore
from judges.typed import read_reply
from judges.verify import SUPPORTED, SupportReply
from lm_factuality.ground.groups import split_into_groups

logger = logging.getLogger(__name__)


class CascadeBackend(Backend):
    """Two judges, of which the second is asked only where the first is unsure.

    The first judge gives the probability that the passages support each claim of a question. If
    one of these lies in the band ``unsure_between``, or is missing, the second judge is asked the
    whole question. Reasons begin with the name of the judge that decided.
    """

    reads_subject = True
    identity = ""

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Open both judges.

        Args:
            config: The cascade: its two judges, and the band ``unsure_between``.
            spending_limit: The limit of the second judge. By default it has ``max_cost`` to itself.

        Raises:
            ConfigError: A setting of one of the judges cannot be used.
        """
        # JudgeConfig has checked that a cascade names all three.
        assert config.first
        assert config.second
        assert config.unsure_between
        self._first_config = config.first
        self._second_config = config.second
        self._unsure_between = config.unsure_between
        self._first = open_backend(config.first)
        self._second = open_backend(
            replace(config.second, max_cost=config.max_cost), spending_limit
        )
        self._store: AnswerStore | None = None

        # Another band sends other questions to the second judge, so it belongs to the identity. It
        # stays a list in a list, because stored answers are found by exactly this text.
        parts = [self._first.identity, self._second.identity, [self._unsure_between]]
        self.identity = f"cascade {json.dumps(parts)}"

    def bind(self, store: AnswerStore) -> None:
        """Pass the store in which both judges keep their answers."""
        self._store = store

    @property
    def usage(self) -> Usage:
        """Return the calls to both judges, and the tokens, cost and errors of the second."""
        # The first judge runs in this process, so its calls cost nothing.
        return self._second.usage.plus(calls=self._first.usage.calls)

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Estimate the cost of the worst case, in which the second judge is asked everything."""
        estimate = self._second.estimate(requests)
        counted_by = f"{estimate.counted_by}, if {self._first_config.name} is never sure"
        return replace(estimate, counted_by=counted_by)

    def answer(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Ask the first judge everything, and the second judge what the first leaves undecided.

        Args:
            requests: The questions, whose ``subject`` holds claims and passages.

        Yields:
            First the answers of the first judge, then those of the second.

        Raises:
            BackendDownError: One of the two judges cannot be reached.
        """
        undecided: dict[int, Request] = {}
        for number, answer_of_first in enumerate(self._ask_first_judge(requests)):
            if answer_of_first is None:
                undecided[number] = requests[number]
            else:
                yield NumberedAnswer(number, answer_of_first)

        second_name = self._second_config.name
        logger.info(
            "%s decides %d of %d, %s the others",
            self._first_config.name,
            len(requests) - len(undecided),
            len(requests),
            second_name,
        )
        # The second judge is asked the original question, with all claims in one prompt.
        answers = self._ask(self._second, list(undecided.values()), f"asking {second_name}")
        for number, answer in zip(undecided, answers, strict=True):
            yield NumberedAnswer(number, _prefix_reason(answer, second_name))

    def close(self) -> None:
        """Close both judges."""
        self._first.close()
        self._second.close()

    def _ask_first_judge(self, requests: Sequence[Request]) -> list[Answer | None]:
        """Ask the first judge about each claim of each question.

        Returns:
            The answer to each question, in order. None if the second judge has to decide.
        """
        # The claims of all questions are asked together, so that they share batches.
        requests_by_question = [self._claim_requests(request) for request in requests]
        all_claim_requests = list(chain.from_iterable(requests_by_question))
        description = f"asking {self._first_config.name}"
        all_claim_answers = self._ask(self._first, all_claim_requests, description)
        answers_by_question = split_into_groups(all_claim_answers, map(len, requests_by_question))

        answers = []
        for request, claim_answers in zip(requests, answers_by_question, strict=True):
            answers.append(self._combine_claim_answers(request, claim_answers))
        return answers

    def _claim_requests(self, request: Request) -> list[Request]:
        """Make one request to the first judge for each claim of a question.

        Example:
            A question about the claims ``A`` and ``B`` → requests with the subjects ``{"kind":
            "verify", "claim": "A", "passages": [...]}`` and the same for ``B``.

        Returns:
            The requests. An empty list if the first judge cannot answer this kind of question.
        """
        subject = request.subject
        # A classifier, for example, cannot split a text into facts.
        if not self._first_config.capabilities.can_answer(str(subject.get("kind"))):
            return []

        evidence = {key: subject[key] for key in ("passages", "entity") if key in subject}
        claim_requests = []
        for claim in claims_of_subject(subject):
            claim_subject = {"kind": "verify", "claim": claim, **evidence}
            # The first judge reads the subject, so it needs no prompt.
            claim_requests.append(Request("", self._first_config.decoding, subject=claim_subject))
        return claim_requests

    def _ask(self, backend: Backend, requests: Sequence[Request], description: str) -> list[Answer]:
        """Ask one of the two judges what the store cannot answer, and store its answers."""
        assert self._store is not None, "a cascade is bound to a store before it is asked"
        return answer_requests(backend, self._store, requests, description)

    def _combine_claim_answers(
        self, request: Request, claim_answers: Sequence[Answer]
    ) -> Answer | None:
        """Combine the first judge's answers to all claims of a question into one answer.

        Returns:
            The answer to the question. None if the second judge has to decide, because the first
            is unsure about a claim or was not asked.
        """
        # The first judge was not asked, or the question has no claims.
        if not claim_answers:
            return None

        kind = str(request.subject["kind"])
        verdicts = []
        for answer in claim_answers:
            verdict = read_reply(answer, SupportReply, request.subject).value
            # One unsure claim is enough, since the second judge is asked the whole question.
            if verdict is None or not self._is_sure(verdict):
                return None
            # Only the second judge tells whether a claim is contradicted or not found.
            if kind == CHECK and verdict.verdict != SUPPORTED:
                return None
            reason = f"{self._first_config.name}: {verdict.reason}"
            verdicts.append(verdict.model_copy(update={"reason": reason}))
        return format_answer(kind, verdicts)

    def _is_sure(self, verdict: SupportReply) -> bool:
        """Return whether the first judge's probability lies outside of the band ``unsure_between``.

        Example:
            With the band ``[0.2, 0.8]``, the judge is unsure at 0.2 and sure at 0.19 and 0.8. With
            ``[0.2, 1]``, it is unsure at 1.
        """
        low, high = self._unsure_between
        probability = verdict.probability
        # A verdict without a probability cannot be compared with the band.
        if probability is None:
            return False
        # The band includes its lower end. It includes its upper end only if that is 1, since every
        # high probability then has to be checked.
        is_above_band = high < 1 and probability >= high
        return probability < low or is_above_band


def _prefix_reason(answer: Answer, judge_name: str) -> Answer:
    """Put the name of a judge before each reason in its answer.

    Example:
        For the judge ``gpt``: ``{"reason": "Passage 2.", "verdict": "supported"}`` → ``{"reason":
        "gpt: Passage 2.", "verdict": "supported"}``. An answer of another form stays as it is.
    """
    try:
        reply = json.loads(answer.text or "")
        # The reply to a question about several claims has a list of verdicts. The reply to a
        # question about one claim is the verdict itself.
        verdicts = reply.get("verdicts", [reply])
        for verdict in verdicts:
            verdict["reason"] = f"{judge_name}: {verdict['reason']}"
        text = json.dumps(reply, ensure_ascii=False)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        # The reply is not JSON or has another form. The caller reports what is wrong with it, as
        # for any other judge.
        return answer
    return replace(answer, text=text)
