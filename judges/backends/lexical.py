"""The judge without a model, as a backend: it reads what a prompt is about, not its prose."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from judges.answers import Answer, CostEstimate, Request
from judges.backends import Backend
from judges.backends.classifier import claims_of, passages_of, to_answer, to_reply, unable
from judges.capabilities import capabilities_of
from judges.lexical.facts import group_by_individual, split_facts
from judges.lexical.grades import grade_answer
from judges.lexical.model import COEFFICIENTS, load_lexical_model
from judges.lexical.words import parse_text
from lm_factuality.ground.settings import FORBID, Number, read_settings

if TYPE_CHECKING:
    from judges.budget import SpendingLimit
    from judges.config import JudgeConfig

FACT_COEFFICIENTS = COEFFICIENTS.with_name("fact_coefficients.json")
_CAN = capabilities_of("lexical")


@dataclasses.dataclass(frozen=True)
class Options:
    """What a judge's YAML may change, for facts too."""

    __pydantic_config__ = FORBID

    coefficients: Annotated[Path | None, Field(description="the path of a file")] = None
    """A file of ``bench.lexical.fit``."""

    threshold: Annotated[Number, Field(ge=0, le=1)] | None = None
    """The probability from which a claim is supported."""


class LexicalBackend(Backend):
    """Answers in the words that the prompts of each kind ask for.

    ``verify``: the reason, the verdict and its probability; a fact beside the page of an ``entity``
    is judged by the coefficients of ``python -m bench.lexical.fit_facts``. ``segments`` and
    ``claims``: ``Answer:`` with the numbers of the units below the threshold, or ``ALL_CORRECT``;
    ``marks``: these units as JSON. A unit without content words says nothing that could be wrong.
    By rules, ``decompose``, ``group`` and ``grade``. Another kind, or a claim or unit without
    passages, gets an error.
    """

    reads_subject = True

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Read the coefficients; asking costs no money.

        Raises:
            ConfigError: The judge's options are not those of `Options`.
            DataError: The coefficients cannot be used.
        """
        options = read_settings(Options, dict(config.options), "lexical judge")
        models = [
            load_lexical_model(options.coefficients or path)
            for path in (COEFFICIENTS, FACT_COEFFICIENTS)
        ]
        if options.threshold is not None:
            models = [dataclasses.replace(model, threshold=options.threshold) for model in models]
        self._model, self._fact_model = models

    @property
    def identity(self) -> str:
        """The coefficients, the threshold and the code that measures the features."""
        return f"lexical {self._model.identity} facts {self._fact_model.identity} code {_code()}"

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """An answer a request, in order."""
        for number, request in enumerate(requests):
            yield number, self._answer(request.subject)

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """For a plan: nothing is sent anywhere, and it costs nothing."""
        return CostEstimate(len(requests), 0, 0, 0.0, 0.0, "no model, so no tokens")

    def _answer(self, subject: Mapping[str, Any]) -> Answer:
        kind = str(subject.get("kind"))
        if not _CAN.can_answer(kind):
            return unable("the lexical judge", subject.get("kind"), _CAN)
        if kind == "decompose":
            return _reply(facts=split_facts(subject["sentence"]))
        if kind == "group":
            groups = group_by_individual(
                subject["name"], subject["sentences"], subject["facts"], subject["owners"]
            )
            return _reply(groups=[[number + 1 for number in group] for group in groups])
        if kind == "grade":
            return _reply(**grade_answer(subject["reference"], subject["answer"]))
        passages = passages_of(subject)
        model = self._fact_model if "entity" in subject else self._model
        replies = []
        for claim in claims_of(subject):
            support = model.judge(claim, passages)
            says_nothing = kind != "verify" and not parse_text(claim).content
            probability = 1.0 if says_nothing else support.probability
            replies.append(to_reply(probability, model.threshold, support.reason))
        return to_answer(kind, replies if passages else None)


def _reply(**fields: Any) -> Answer:
    return Answer(json.dumps(fields, ensure_ascii=False), "stop")


def _code() -> str:
    """The first 16 hexadecimal digits of the SHA-256 of all that an answer depends on."""
    folder = COEFFICIENTS.parent
    files = [Path(__file__), *sorted(folder.glob("*.py")), *sorted(folder.glob("*.yaml"))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
