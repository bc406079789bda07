"""A model made to say whether passages support a claim (see ``judges.inference``), as a backend in
this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from judges.answers import Answer, Estimate, Request, Usage
from judges.backends import capabilities
from judges.backends.lm_eval_model import fingerprint
from judges.inference import FAMILIES, Pair, Support, family_of
from judges.lexical.words import Passage, parse_passage
from judges.verify import NOT_SUPPORTED, PROMPT, SUPPORTED, SupportReply
from lm_factuality.ground.errors import BackendDown, FactualityError
from lm_factuality.ground.packages import first_line, loading

if TYPE_CHECKING:
    from judges.budget import Purse
    from judges.config import JudgeConfig
    from judges.inference.models import SupportModel

_CAN = capabilities("classifier")
_BATCHES = 16  # of the model, after which answers are given out


class ClassifierBackend:
    """Answers ``verify``, ``segments``, ``claims`` and ``marks`` as the lexical judge does: a claim
    whose probability reaches the threshold is supported. The model is loaded with the first
    request, then kept, and so are its probabilities."""

    reads_subject = True

    def __init__(self, config: JudgeConfig, purse: Purse | None = None) -> None:
        """Raises ConfigError if there is no such family, ModelError if there is no such model here;
        it costs no money."""
        from transformers import PreTrainedConfig

        self._config = config
        with loading(f"the judge's model {config.model!r}"):
            about = PreTrainedConfig.get_config_dict(config.model, revision=config.revision)[0]
        self._family = family_of(config.model, about, config.family)
        self._window = config.window or FAMILIES[self._family].window
        revision = about.get("_commit_hash") or config.revision
        settings = {
            "family": self._family,
            "revision": revision,
            "window": self._window,
            "threshold": config.threshold,
        }
        self.identity = f"classifier {fingerprint(config.model)} {json.dumps(settings)}"
        self.usage = Usage()
        self._known: dict[Pair, Support] = {}
        self._model: SupportModel | None = None

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See :class:`judges.answers.Backend`; some batches at a time. Raises BackendDown: the
        model fails, or is none."""
        step = _BATCHES * self._config.batch_size
        for start in range(0, len(requests), step):
            some = requests[start : start + step]
            pairs = [_pairs(request.subject) for request in some]
            self._support([pair for each in pairs for pair in each])
            self.usage = self.usage.plus(calls=len(some))
            for number, (request, each) in enumerate(zip(some, pairs, strict=True), start):
                yield number, self._answer(request.subject, each)

    def estimate(self, requests: Sequence[Request]) -> Estimate:
        """For a plan: nothing is sent anywhere, and it costs nothing."""
        return Estimate(
            len(requests),
            0,
            0,
            estimated_cost=0.0,
            max_cost=0.0,
            counted_by="a model in this process",
        )

    def _support(self, pairs: Sequence[Pair]) -> None:
        from judges.inference.models import load_model

        config, new = (
            self._config,
            [pair for pair in dict.fromkeys(pairs) if pair not in self._known],
        )
        about: dict[str, Any] = {
            "revision": config.revision,
            "family": self._family,
            "window": self._window,
        }
        try:
            if new and self._model is None:
                self._model = load_model(config.model, config.batch_size, config.device, **about)
            if new and self._model is not None:
                self._known.update(zip(new, self._model.support(new), strict=True))
        except (FactualityError, RuntimeError) as error:  # of torch: no memory, no such device
            raise BackendDown(
                f"judge {config.name}: {first_line(error)}; what was answered is kept"
            ) from error

    def _answer(self, subject: Mapping[str, Any], pairs: Sequence[Pair]) -> Answer:
        kind = str(subject.get("kind"))
        if not _CAN.can_answer(kind):
            return Answer(
                None,
                error=f"a classifier cannot judge {kind!r}, only {', '.join(_CAN.kinds or ())}",
            )
        found = [self._known[pair] for pair in pairs]
        if problems := [each.problem for each in found if each.probability is None]:
            return Answer(None, error=f"no verdict: {problems[0]}")
        replies = []
        for each in found:
            where = f", the highest of {each.windows} windows" if each.windows > 1 else ""
            reason = f"probability of support {each.probability:.3f}{where}"
            replies.append(to_reply(each.probability or 0.0, self._config.threshold, reason))
        return to_answer(kind, replies if _passages(subject) else None)


def to_reply(probability: float, threshold: float, reason: str) -> SupportReply:
    verdict = SUPPORTED if probability >= threshold else NOT_SUPPORTED
    return SupportReply(reason=reason, verdict=verdict, probability=round(probability, 4))


def to_answer(kind: str, replies: Sequence[SupportReply] | None) -> Answer:
    """The reply that prompts of ``kind`` ask for, about a claim or about numbered units; None:
    there was no evidence."""
    if replies is None:
        return Answer(None, error="no evidence: this judge needs passages")
    if kind == PROMPT:
        return Answer(replies[0].model_dump_json(), "stop")
    flagged = {
        number: each.reason for number, each in enumerate(replies, 1) if each.verdict != SUPPORTED
    }
    if kind == "marks":
        wrong = [
            {"number": number, "reason": reason, "type": None} for number, reason in flagged.items()
        ]
        return Answer(json.dumps({"wrong": wrong}, ensure_ascii=False), "stop")
    thought = " / ".join(f"{number}: {reason}" for number, reason in flagged.items())
    return Answer(
        f"Thought: {thought}\nAnswer: {','.join(map(str, flagged)) or 'ALL_CORRECT'}", "stop"
    )


def claims_of(subject: Mapping[str, Any]) -> list[str]:
    return [subject["claim"]] if subject.get("kind") == "verify" else list(subject.get("units", ()))


def _passages(subject: Mapping[str, Any]) -> tuple[Passage, ...]:
    return tuple(parse_passage(text) for text in subject.get("passages", ()) if text.strip())


def _pairs(subject: Mapping[str, Any]) -> list[Pair]:
    passages = _passages(subject)
    is_ours = passages and _CAN.can_answer(str(subject.get("kind")))
    return [Pair(claim, passages) for claim in claims_of(subject)] if is_ours else []
