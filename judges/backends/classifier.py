"""A model made to say whether passages support a claim (see `judges.inference`), in this process.

The lexical judge and cascades write their replies by the functions here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judges.answers import Answer, CostEstimate, Request, Usage
from judges.backends import Backend
from judges.backends.lm_eval_model import fingerprint
from judges.capabilities import Capabilities, capabilities_of
from judges.inference import FAMILIES, EntailmentPair, WindowSupport, family_of
from judges.lexical.words import ParsedPassage, parse_passage
from judges.verify import NOT_SUPPORTED, PROMPT, SUPPORTED, SupportReply
from lm_factuality.ground.errors import BackendDownError, FactualityError
from lm_factuality.ground.packages import first_line, loading

if TYPE_CHECKING:
    from judges.budget import SpendingLimit
    from judges.config import JudgeConfig
    from judges.inference.models import SupportModel

_CAN = capabilities_of("classifier")
_BATCHES = 16  # of the model, after which answers are given out


class ClassifierBackend(Backend):
    """Answers ``verify``, ``segments``, ``claims`` and ``marks`` as the lexical judge does.

    A claim whose probability reaches the threshold is supported. The model is loaded with the
    first request, then kept, and so are its probabilities.
    """

    reads_subject = True
    identity = ""
    usage = Usage()

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Read about the model; asking it costs no money.

        Raises:
            ConfigError: There is no such family.
            ModelError: There is no such model here.
        """
        from transformers import PreTrainedConfig

        self._config = config
        with loading(f"the judge's model {config.model!r}"):
            about = PreTrainedConfig.get_config_dict(config.model, revision=config.revision)[0]
        family = family_of(config.model, about, config.family)
        self._how: dict[str, Any] = {
            "family": family,
            "window": config.window or FAMILIES[family].window,
        }
        settings = {
            "family": family,
            "revision": about.get("_commit_hash") or config.revision,
            "window": self._how["window"],
            "threshold": config.threshold,
        }
        self.identity = f"classifier {fingerprint(config.model)} {json.dumps(settings)}"
        self._support: dict[EntailmentPair, WindowSupport] = {}
        self._model: SupportModel | None = None

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `judges.backends.Backend`; some batches at a time.

        Raises:
            BackendDownError: The model fails, or is none.
        """
        step = _BATCHES * self._config.batch_size
        for start in range(0, len(requests), step):
            batch = requests[start : start + step]
            pairs = [_pairs(request.subject) for request in batch]
            self._measure([pair for own_pairs in pairs for pair in own_pairs])
            self.usage = self.usage.plus(calls=len(batch))
            for place, request in enumerate(batch):
                yield start + place, self._answer(request.subject, pairs[place])

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """For a plan: nothing is sent anywhere, and it costs nothing."""
        return CostEstimate(len(requests), 0, 0, 0.0, 0.0, "a model in this process")

    def _measure(self, pairs: Sequence[EntailmentPair]) -> None:
        """Ask the model about those pairs that it was not asked about before."""
        from judges.inference.models import load_model

        config = self._config
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._support]
        if not new:
            return
        try:
            if self._model is None:
                self._model = load_model(
                    config.model,
                    config.batch_size,
                    config.device,
                    revision=config.revision,
                    **self._how,
                )
            self._support.update(zip(new, self._model.support(new), strict=True))
        except (FactualityError, RuntimeError) as error:  # torch: no memory, no such device
            raise BackendDownError(
                f"judge {config.name}: {first_line(error)}; what was answered is kept"
            ) from error

    def _answer(self, subject: Mapping[str, Any], pairs: Sequence[EntailmentPair]) -> Answer:
        kind = str(subject.get("kind"))
        if not _CAN.can_answer(kind):
            return unable("a classifier", kind, _CAN)
        replies = []
        for pair in pairs:
            support = self._support[pair]
            if support.probability is None:
                return Answer(None, error=f"no verdict: {support.problem}")
            reason = f"probability of support {support.probability:.3f}"
            if support.windows > 1:
                reason += f", the highest of {support.windows} windows"
            replies.append(to_reply(support.probability, self._config.threshold, reason))
        return to_answer(kind, replies if passages_of(subject) else None)


def unable(judge: str, kind: Any, can: Capabilities) -> Answer:
    """For a kind of question that a judge does not know."""
    return Answer(None, error=f"{judge} cannot judge {kind!r}, only {', '.join(can.kinds or ())}")


def to_reply(probability: float, threshold: float, reason: str) -> SupportReply:
    """The verdict of a probability of support."""
    verdict = SUPPORTED if probability >= threshold else NOT_SUPPORTED
    return SupportReply(
        reason=" ".join(reason.split()), verdict=verdict, probability=round(probability, 4)
    )


def to_answer(kind: str, replies: Sequence[SupportReply] | None) -> Answer:
    """The reply that prompts of a kind ask for.

    Args:
        kind: ``verify`` for one claim; ``marks``, ``segments`` or ``claims`` for numbered units.
        replies: One a claim or unit. None if there was no evidence.
    """
    if replies is None:
        return Answer(None, error="no evidence: this judge needs passages")
    if kind == PROMPT:
        return Answer(replies[0].model_dump_json(), "stop")
    flagged = {
        number: reply.reason
        for number, reply in enumerate(replies, 1)
        if reply.verdict != SUPPORTED
    }
    if kind == "marks":
        wrong = [
            {"number": number, "reason": reason, "type": None} for number, reason in flagged.items()
        ]
        return Answer(json.dumps({"wrong": wrong}, ensure_ascii=False), "stop")
    thought = " / ".join(f"{number}: {reason}" for number, reason in flagged.items())
    numbers = ",".join(map(str, flagged))
    return Answer(f"Thought: {thought}\nAnswer: {numbers or 'ALL_CORRECT'}", "stop")


def claims_of(subject: Mapping[str, Any]) -> list[str]:
    """The claim of a question, or its numbered units."""
    if subject.get("kind") == PROMPT:
        return [subject["claim"]]
    return list(subject.get("units", ()))


def passages_of(subject: Mapping[str, Any]) -> tuple[ParsedPassage, ...]:
    """The passages of a question that hold anything."""
    return tuple(parse_passage(text) for text in subject.get("passages", ()) if text.strip())


def _pairs(subject: Mapping[str, Any]) -> list[EntailmentPair]:
    """What the model is asked for a question: nothing without passages."""
    passages = passages_of(subject)
    if not passages or not _CAN.can_answer(str(subject.get("kind"))):
        return []
    return [EntailmentPair(claim, passages) for claim in claims_of(subject)]
