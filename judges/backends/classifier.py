"""A judge that is a classifier in this process: a model made to say if passages support a claim.

`judges.judge` opens a `ClassifierBackend`, whose models are in `judges.inference`. The lexical
judge and cascades format their replies by the functions of this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from judges.answers import Answer, CostEstimate, Request, Usage
from judges.backends import Backend, NumberedAnswer
from judges.backends.lm_eval_model import fingerprint_checkpoint
from judges.capabilities import Capabilities, capabilities_of
from judges.claims import CHECK, CheckReply, ClaimFinding
from judges.inference import FAMILIES, EntailmentPair, WindowSupport, family_of
from judges.lexical.words import ParsedPassage, parse_passage
from judges.verify import NOT_SUPPORTED, PROMPT, SUPPORTED, SupportReply
from lm_factuality.ground.errors import BackendDownError, FactualityError
from lm_factuality.ground.packages import first_line, loading

if TYPE_CHECKING:
    from judges.budget import SpendingLimit
    from judges.config import JudgeConfig
    from judges.inference.models import SupportModel

_CAPABILITIES = capabilities_of("classifier")
_BATCHES_PER_ROUND = 16  # of the model; then the answers are handed out

# The answer of a judge that needs passages to a question without any.
NO_EVIDENCE = Answer(None, error="no evidence: this judge needs passages")


class ClassifierBackend(Backend):
    """A classifier that answers questions about the support of claims.

    A claim is supported if its probability reaches the judge's threshold. The model is loaded with
    the first request and then kept, and so are its probabilities.
    """

    reads_subject = True
    identity = ""
    usage = Usage()

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Read the configuration of the model; its weights are not loaded yet.

        Args:
            config: The judge: its model, threshold and window.
            spending_limit: Not used, because a model in this process costs no money.

        Raises:
            ConfigError: The judge names a family of models that does not exist.
            ModelError: There is no such model on this machine or on the Hub.
        """
        from transformers import PreTrainedConfig

        self._config = config
        # Only config.json is read here. It tells the family and the commit, and a run whose answers
        # are all stored needs no more of the model.
        with loading(f"the judge's model {config.model!r}"):
            model_config, _ = PreTrainedConfig.get_config_dict(
                config.model, revision=config.revision
            )
        self._family = family_of(config.model, model_config, config.family)
        # Without a size in the YAML, the family's window is used.
        self._window = config.window or FAMILIES[self._family].window
        self._support_by_pair: dict[EntailmentPair, WindowSupport] = {}
        self._model: SupportModel | None = None

        # Each of these can change a verdict, so each is part of the identity.
        settings = {
            "family": self._family,
            "revision": model_config.get("_commit_hash") or config.revision,
            "window": self._window,
            "threshold": config.threshold,
        }
        model_name = fingerprint_checkpoint(config.model)
        self.identity = f"classifier {model_name} {json.dumps(settings)}"

    def answer(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Let the model judge the claims of each request, some batches at a time.

        Args:
            requests: Their ``subject`` holds claims and passages; the prompt is not read.

        Yields:
            One answer per request, in order.

        Raises:
            BackendDownError: The model cannot be loaded, or fails.
        """
        requests_per_round = _BATCHES_PER_ROUND * self._config.batch_size
        for start in range(0, len(requests), requests_per_round):
            subjects = [request.subject for request in requests[start : start + requests_per_round]]
            # The pairs of several requests fill the batches of the model better.
            self._judge_new_pairs(chain.from_iterable(map(_pairs_to_judge, subjects)))
            self.usage = self.usage.plus(calls=len(subjects))
            for number, subject in enumerate(subjects, start):
                yield NumberedAnswer(number, self._to_answer(subject))

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Return the estimate of a model in this process: no tokens are sent, and no cost."""
        return CostEstimate(len(requests), 0, 0, 0.0, 0.0, "a model in this process")

    def _judge_new_pairs(self, pairs: Iterable[EntailmentPair]) -> None:
        """Let the model judge the pairs of claims and passages that it has not judged before.

        The results are in ``self._support_by_pair`` then.

        Raises:
            BackendDownError: The model cannot be loaded, or fails.
        """
        # dict.fromkeys drops duplicates and keeps the order.
        new_pairs = [pair for pair in dict.fromkeys(pairs) if pair not in self._support_by_pair]
        if not new_pairs:
            return
        try:
            supports = self._load_once().support(new_pairs)
        except (FactualityError, RuntimeError) as error:
            # torch raises a RuntimeError for a lack of memory and for an unknown device.
            raise BackendDownError(
                f"judge {self._config.name}: {first_line(error)}; what was answered is kept"
            ) from error
        self._support_by_pair.update(zip(new_pairs, supports, strict=True))

    def _load_once(self) -> SupportModel:
        """Load the model with the first call; later calls return the same model."""
        if self._model is None:
            # Importing torch takes seconds, so it waits until a question has no stored answer.
            from judges.inference.models import load_model

            config = self._config
            self._model = load_model(
                config.model,
                config.batch_size,
                config.device,
                family=self._family,
                revision=config.revision,
                window=self._window,
            )
        return self._model

    def _to_answer(self, subject: Mapping[str, Any]) -> Answer:
        """Answer one question from the probabilities of its claims, which are judged already.

        Args:
            subject: The question, such as ``{"kind": "verify", "claim": ..., "passages": [...]}``.

        Returns:
            The reply in the format of the question. An answer with ``error`` if the model cannot
            judge this kind of question or one of the claims.
        """
        kind = str(subject.get("kind"))
        if not _CAPABILITIES.can_answer(kind):
            return answer_to_unknown_kind("a classifier", kind, _CAPABILITIES)
        if not passages_of_subject(subject):
            return NO_EVIDENCE

        replies = []
        for pair in _pairs_to_judge(subject):
            support = self._support_by_pair[pair]
            # One claim without a probability leaves the whole question without a verdict.
            if support.probability is None:
                return Answer(None, error=f"no verdict: {support.problem}")
            reason = f"probability of support {support.probability:.3f}"
            # Long passages are judged part by part, and the best part decides.
            if support.num_windows > 1:
                reason += f", the highest of {support.num_windows} windows"
            replies.append(support_reply(support.probability, self._config.threshold, reason))
        return format_answer(kind, replies)


def answer_to_unknown_kind(judge: str, kind: object, judge_capabilities: Capabilities) -> Answer:
    """Return the error of a judge that is asked a kind of question that it cannot answer.

    Example:
        ``a classifier cannot judge 'decompose', only verify, segments``
    """
    kinds = ", ".join(judge_capabilities.kinds or ())
    return Answer(None, error=f"{judge} cannot judge {kind!r}, only {kinds}")


def support_reply(probability: float, threshold: float, reason: str) -> SupportReply:
    """Turn a probability of support into a verdict on a claim.

    The claim counts as supported if the probability reaches the threshold. Line breaks of the
    reason become spaces.
    """
    verdict = SUPPORTED if probability >= threshold else NOT_SUPPORTED
    return SupportReply(
        reason=" ".join(reason.split()), verdict=verdict, probability=round(probability, 4)
    )


def format_answer(kind: str, replies: Sequence[SupportReply]) -> Answer:
    """Write verdicts as a language model would write them for this kind of question.

    Args:
        kind: The kind of question: ``verify`` for one claim, ``check`` for several; ``marks``,
            ``segments`` or ``claims`` for the numbered claims of a response.
        replies: The verdict on each claim, in order.
    """
    # A question of the kind "verify" has exactly one claim.
    if kind == PROMPT:
        return Answer(replies[0].model_dump_json(), "stop")
    if kind == CHECK:
        return _format_findings(replies)

    # The other kinds ask for the numbers of the wrong claims, from 1.
    reasons_by_number = {}
    for number, reply in enumerate(replies, 1):
        if reply.verdict != SUPPORTED:
            reasons_by_number[number] = reply.reason
    format_reasons = _format_marks if kind == "marks" else _format_thought_and_answer
    return Answer(format_reasons(reasons_by_number), "stop")


def _format_findings(replies: Sequence[SupportReply]) -> Answer:
    """Write verdicts as the answer to a question of the kind ``check`` (`judges.claims`).

    A claim that is not supported counts as not found, because a classifier cannot tell whether it
    is contradicted.
    """
    findings = []
    for number, reply in enumerate(replies, 1):
        finding = ClaimFinding(
            number=number,
            reason=reply.reason,
            verdict="supported" if reply.verdict == SUPPORTED else "not_found",
            probability=reply.probability,
        )
        findings.append(finding)
    return Answer(CheckReply(verdicts=findings).model_dump_json(), "stop")


def _format_marks(reasons_by_number: Mapping[int, str]) -> str:
    """Write the wrong claims as JSON, as the prompt ``marks`` asks for them.

    Example:
        ``{2: "no evidence"}`` → ``{"wrong": [{"number": 2, "reason": "no evidence", "type":
        null}]}``
    """
    marks = []
    for number, reason in reasons_by_number.items():
        marks.append({"number": number, "reason": reason, "type": None})
    return json.dumps({"wrong": marks}, ensure_ascii=False)


def _format_thought_and_answer(reasons_by_number: Mapping[int, str]) -> str:
    """Write the wrong claims in the format of FELM's prompts.

    Example:
        ``{2: "no evidence"}`` → ``Thought: 2: no evidence`` and in a second line ``Answer: 2``
    """
    thoughts = [f"{number}: {reason}" for number, reason in reasons_by_number.items()]
    numbers = ",".join(map(str, reasons_by_number))
    return f"Thought: {' / '.join(thoughts)}\nAnswer: {numbers or 'ALL_CORRECT'}"


def claims_of_subject(subject: Mapping[str, Any]) -> list[str]:
    """Return the claims that a question is about.

    Example:
        ``{"kind": "verify", "claim": "A"}`` → ``["A"]``; ``{"kind": "check", "claims": ["A",
        "B"]}`` and ``{"kind": "segments", "units": ["A", "B"]}`` → ``["A", "B"]``
    """
    kind = subject.get("kind")
    if kind == PROMPT:
        return [subject["claim"]]
    if kind == CHECK:
        return list(subject["claims"])
    return list(subject.get("units", ()))


def passages_of_subject(subject: Mapping[str, Any]) -> tuple[ParsedPassage, ...]:
    """Return the passages that a question holds its claims against, without empty ones."""
    texts = subject.get("passages", ())
    return tuple(parse_passage(text) for text in texts if text.strip())


def _pairs_to_judge(subject: Mapping[str, Any]) -> list[EntailmentPair]:
    """Pair each claim of a question with all passages of the question.

    There are no pairs without passages, or if a classifier cannot answer this kind of question.
    """
    passages = passages_of_subject(subject)
    if not passages or not _CAPABILITIES.can_answer(str(subject.get("kind"))):
        return []
    return [EntailmentPair(claim, passages) for claim in claims_of_subject(subject)]
