"""The judge without a model, as a backend: it reads what a prompt is about, not its prose."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from judges.answers import Answer, Estimate, Request
from judges.backends import capabilities
from judges.backends.classifier import claims_of, to_answer, to_reply
from judges.lexical.facts import split_facts, split_individuals
from judges.lexical.grades import grade_answer
from judges.lexical.model import COEFFICIENTS, LexicalModel, load_model
from judges.lexical.words import Passage, parse_passage, read
from judges.verify import SupportReply
from lm_factuality.ground.settings import FORBID, Number, read_settings

if TYPE_CHECKING:
    from judges.budget import Purse
    from judges.config import JudgeConfig

FACT_COEFFICIENTS = COEFFICIENTS.with_name("fact_coefficients.json")
_CAN = capabilities("lexical")


@dataclasses.dataclass(frozen=True)
class Options:
    """``coefficients`` (a file of ``bench.lexical.fit``) and ``threshold``, instead of the suite's;
    for facts too."""

    __pydantic_config__ = FORBID

    coefficients: Annotated[Path | None, Field(description="the path of a file")] = None
    threshold: Annotated[Number, Field(ge=0, le=1)] | None = None


class LexicalBackend:
    """Answers in the words that the prompts of each kind ask for.

    ``verify``: the reason, the verdict and its probability; a fact beside the page of an ``entity``
    is judged by the coefficients of ``python -m bench.lexical.fit_facts``. ``segments`` and
    ``claims``: ``Answer:`` with the numbers of the units below the threshold, or ``ALL_CORRECT``;
    ``marks``: these units as JSON. A unit without content words says nothing that could be wrong.
    By rules, ``decompose``, ``group`` and ``grade``. Another kind, or a claim or unit without
    passages, gets an error.
    """

    reads_subject = True

    def __init__(self, config: JudgeConfig, purse: Purse | None = None) -> None:
        """Raises ConfigError if its options are not those of :class:`Options`, DataError if the
        coefficients cannot be used."""
        read_options = read_settings(Options, dict(config.options), "lexical judge")
        own, threshold = read_options.coefficients, read_options.threshold
        models = [load_model(own or COEFFICIENTS), load_model(own or FACT_COEFFICIENTS)]
        if threshold is not None:
            models = [dataclasses.replace(model, threshold=threshold) for model in models]
        self._model, self._fact_model = models

    @property
    def identity(self) -> str:
        """The coefficients, the threshold and the code that measures the features."""
        return f"lexical {self._model.identity} facts {self._fact_model.identity} code {_code()}"

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """An answer a request, in order."""
        for number, request in enumerate(requests):
            yield number, self._answer(request.subject)

    def estimate(self, requests: Sequence[Request]) -> Estimate:
        """For a plan: nothing is sent anywhere, and it costs nothing."""
        return Estimate(
            len(requests),
            0,
            0,
            estimated_cost=0.0,
            max_cost=0.0,
            counted_by="no model, so no tokens",
        )

    def _answer(self, subject: Mapping[str, Any]) -> Answer:
        kind = subject.get("kind")
        if not _CAN.can_answer(str(kind)):
            return Answer(
                None,
                error=(
                    f"the lexical judge cannot judge {kind!r}, only {', '.join(_CAN.kinds or ())}"
                ),
            )
        if kind == "decompose":
            return _reply(facts=split_facts(subject["sentence"]))
        if kind == "group":
            groups = split_individuals(
                subject["name"], subject["sentences"], subject["facts"], subject["owners"]
            )
            return _reply(groups=[[number + 1 for number in group] for group in groups])
        if kind == "grade":
            return _reply(**grade_answer(subject["reference"], subject["answer"]))
        passages = [parse_passage(text) for text in subject.get("passages", ()) if text.strip()]
        model = self._fact_model if "entity" in subject else self._model
        replies = (
            [_support(model, claim, passages, kind != "verify") for claim in claims_of(subject)]
            if passages
            else None
        )
        return to_answer(str(kind), replies)


def _support(
    model: LexicalModel, claim: str, passages: Sequence[Passage], is_unit: bool
) -> SupportReply:
    support = model.judge(claim, passages)
    says_nothing = is_unit and not read(claim).content
    return to_reply(
        1.0 if says_nothing else support.probability,
        model.threshold,
        " ".join(support.reason.split()),
    )


def _reply(**fields: Any) -> Answer:
    return Answer(json.dumps(fields, ensure_ascii=False), "stop")


def _code() -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the modules and tables that an answer
    depends on."""
    modules = ("words", "comparison", "model", "facts", "grades")
    names = [*(f"{name}.py" for name in modules), "words.yaml", "facts.yaml", "individuals.yaml"]
    files = [Path(__file__), *(COEFFICIENTS.with_name(name) for name in names)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
