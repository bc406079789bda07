"""The lexical judge as a backend: it compares words by rules and coefficients, without a model.

`judges.judge` opens a `LexicalBackend`, which reads the template variables of a question and not
its prompt. The comparison of words itself is in `judges.lexical`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from judges.answers import Answer, CostEstimate, Request
from judges.backends import Backend, NumberedAnswer
from judges.backends.classifier import (
    NO_EVIDENCE,
    answer_to_unknown_kind,
    claims_of_subject,
    format_answer,
    passages_of_subject,
    support_reply,
)
from judges.capabilities import capabilities_of
from judges.claims import CheckReply, ClaimFinding
from judges.lexical.facts import group_by_individual, split_facts
from judges.lexical.grades import grade_answer
from judges.lexical.model import COEFFICIENTS, LexicalModel, load_lexical_model
from judges.lexical.verdicts import SUPPORT_THRESHOLD, LexicalFinding, find_verdict, verify_fact
from judges.lexical.words import parse_passage, parse_text
from judges.verify import SUPPORTED
from lm_factuality.ground.settings import FORBID, Number, read_settings

if TYPE_CHECKING:
    from judges.budget import SpendingLimit
    from judges.config import JudgeConfig

FACT_COEFFICIENTS = COEFFICIENTS.with_name("fact_coefficients.json")
_CAPABILITIES = capabilities_of("lexical")


@dataclasses.dataclass(frozen=True)
class Options:
    """The ``options`` of a lexical judge's YAML. They hold for claims and for atomic facts."""

    __pydantic_config__ = FORBID

    coefficients: Annotated[Path | None, Field(description="the path of a file")] = None
    """A file that ``python -m bench.lexical.fit`` wrote. None means the built-in coefficients."""

    threshold: Annotated[Number, Field(ge=0, le=1)] | None = None
    """The lowest probability at which a claim counts as supported. None means the fitted one."""


class LexicalBackend(Backend):
    """A judge that answers by word overlap, in the format that each prompt asks for.

    It verifies claims against passages (``verify``), tells contradicted claims from those that are
    not found (``check``), marks the units of a response (``segments``,
    ``claims``, ``marks``), splits sentences into atomic facts (``decompose``), groups facts by
    individual (``group``), does both at once (``joint``) and grades short answers (``grade``). Any
    other kind of question, and a claim without passages, gets an error.
    """

    reads_subject = True

    def __init__(self, config: JudgeConfig, spending_limit: SpendingLimit | None = None) -> None:
        """Load the coefficients.

        Args:
            config: The judge, with its `Options`.
            spending_limit: Not used, because a judge without a model costs no money.

        Raises:
            ConfigError: The judge's options are not those of `Options`.
            DataError: A file of coefficients cannot be used.
        """
        options = read_settings(Options, dict(config.options), "lexical judge")
        # An atomic fact is held against a whole page, so it has coefficients of its own.
        self._claim_model = _load_model(options, COEFFICIENTS)
        self._fact_model = _load_model(options, FACT_COEFFICIENTS)
        self._check_threshold = (
            SUPPORT_THRESHOLD if options.threshold is None else options.threshold
        )

    @property
    def identity(self) -> str:
        """Name the coefficients, the thresholds and the code that measures the features."""
        models = f"{self._claim_model.identity} facts {self._fact_model.identity}"
        return f"lexical {models} code {_hash_of_code()}"

    def answer(self, requests: Sequence[Request]) -> Iterator[NumberedAnswer]:
        """Answer each request by its ``subject``, in order; the prompt is not read."""
        for number, request in enumerate(requests):
            yield NumberedAnswer(number, self._answer_subject(request.subject))

    def estimate(self, requests: Sequence[Request]) -> CostEstimate:
        """Return the estimate of a judge without a model: no tokens are sent, and no cost."""
        return CostEstimate(len(requests), 0, 0, 0.0, 0.0, counted_by="no model, so no tokens")

    def _answer_subject(self, subject: Mapping[str, Any]) -> Answer:
        """Answer one question by the rules or the coefficients for its kind.

        Args:
            subject: The question. Its ``kind`` says which other fields it has, as in ``{"kind":
                "decompose", "sentence": "Ada sang."}``.

        Returns:
            The reply in the format of the question, or an answer with ``error``.
        """
        kind = str(subject.get("kind"))
        if not _CAPABILITIES.can_answer(kind):
            # The prompts of the generator, for example, need a language model.
            return answer_to_unknown_kind("the lexical judge", subject.get("kind"), _CAPABILITIES)

        match kind:
            case "decompose":
                return _json_answer(facts=split_facts(subject["sentence"]))
            case "group":
                return _group_facts(subject)
            case "joint":
                return _split_and_group(subject)
            case "grade":
                return _json_answer(**grade_answer(subject["reference"], subject["answer"]))
            case "check":
                return self._check_claims(subject)
            case "verify_page" if "pages" in subject:
                return self._verify_facts_on_pages(subject)
            case "verify_page":
                return self._verify_facts(subject)
            case _:
                # All other kinds ask whether passages support claims.
                return self._verify_claims(kind, subject)

    def _verify_claims(self, kind: str, subject: Mapping[str, Any]) -> Answer:
        """Judge how well the passages of a question support each of its claims.

        Args:
            kind: ``verify`` for one claim; ``segments``, ``claims`` or ``marks`` for the numbered
                claims of a response.
            subject: The claims and the passages. An atomic fact also has the ``entity`` whose page
                the passages are from.

        Returns:
            The verdicts in the format of the question, or an error if there are no passages.
        """
        passages = passages_of_subject(subject)
        if not passages:
            return NO_EVIDENCE

        # Only questions about atomic facts name an entity. Its whole page is the evidence, which
        # has coefficients of its own.
        model = self._fact_model if "entity" in subject else self._claim_model
        # A question that tells contradictions is about one atomic fact.
        if subject.get("tells_contradictions"):
            finding = verify_fact(model, subject["claim"], passages)
            return _json_answer(
                reason=finding.reason, verdict=finding.verdict, probability=finding.probability
            )
        replies = []
        for claim in claims_of_subject(subject):
            verdict = model.judge(claim, passages)
            probability = verdict.probability
            # A sentence of a response may be "Sure!", which states nothing that can be wrong.
            if kind != "verify" and not parse_text(claim).content_words:
                probability = 1.0
            replies.append(support_reply(probability, model.threshold, verdict.reason))
        return format_answer(kind, replies)

    def _verify_facts(self, subject: Mapping[str, Any]) -> Answer:
        """Judge several facts by one page.

        Only estimates of the cost of another judge ask this, in place of that judge.

        Args:
            subject: The question: the facts are its ``claims``, and ``passages`` are the page.

        Returns:
            The verdicts, such as ``{"number": 1, "reason": ..., "verdict": "supported"}``.
        """
        passages = passages_of_subject(subject)
        if not passages:
            return NO_EVIDENCE
        verdicts = []
        for number, fact in enumerate(subject["claims"], start=1):
            finding = verify_fact(self._fact_model, fact, passages)
            verdicts.append(_fact_verdict(number, finding))
        return _json_answer(verdicts=verdicts)

    def _verify_facts_on_pages(self, subject: Mapping[str, Any]) -> Answer:
        """Judge several facts by several pages.

        Only estimates of the cost of another judge ask this, in place of that judge. A fact is
        judged by the page about its individual. Without such a page it is judged by the best page,
        which is the page that supports it most.

        Args:
            subject: The question: the facts are its ``claims``. Each of its ``pages`` has
                ``passages``, and under ``facts`` the numbers of the facts about the individual whom
                the page describes, from 1.

        Returns:
            The verdicts, such as ``{"number": 1, "reason": ..., "verdict": "supported", "page":
            None}``. ``page`` is the number of the best page, from 1, if that page supports the fact
            but is not about its individual.
        """
        pages = [passages_of_subject(page) for page in subject["pages"]]
        if not any(pages):
            return NO_EVIDENCE
        # By the number of a fact, the index of the page about its individual.
        own_index_by_fact: dict[int, int] = {}
        for index, page in enumerate(subject["pages"]):
            own_index_by_fact.update(dict.fromkeys(page["facts"], index))

        verdicts = []
        for number, fact in enumerate(subject["claims"], start=1):
            findings = [verify_fact(self._fact_model, fact, passages) for passages in pages]
            best_index = max(range(len(pages)), key=lambda index: findings[index].probability)
            own_index = own_index_by_fact.get(number)
            judging_index = best_index if own_index is None else own_index
            verdict = _fact_verdict(number, findings[judging_index])
            # The page about the individual is known without the reply.
            names_page = findings[best_index].verdict == SUPPORTED and best_index != own_index
            # Prompts number the pages from 1.
            verdict["page"] = best_index + 1 if names_page else None
            verdicts.append(verdict)
        return _json_answer(verdicts=verdicts)

    def _check_claims(self, subject: Mapping[str, Any]) -> Answer:
        """Judge what the passages of a question say about each of its claims.

        Args:
            subject: The question with its ``claims`` and ``passages``.

        Returns:
            The verdicts, such as ``{"number": 1, "reason": ..., "verdict": "contradicted",
            "passage": 2, "quotation": "1870", "probability": 0.05}``.
        """
        # Empty passages stay, because verdicts refer to passages by their numbers.
        passages = [parse_passage(text) for text in subject["passages"]]
        if not passages_of_subject(subject):
            return NO_EVIDENCE

        verdicts = []
        for number, claim in enumerate(subject["claims"], start=1):
            # A claim such as "It was." has nothing to compare, so it gets no verdict.
            if not parse_text(claim).content_words:
                continue
            finding = find_verdict(self._claim_model, claim, passages, self._check_threshold)
            verdict = ClaimFinding(
                number=number,
                reason=finding.reason,
                verdict=finding.verdict,
                # Prompts number the passages from 1.
                passage=None if finding.passage is None else finding.passage + 1,
                quotation=" ... ".join(finding.deciding_words),
                probability=round(finding.probability, 4),
            )
            verdicts.append(verdict)
        return Answer(CheckReply(verdicts=verdicts).model_dump_json(), "stop")


def _fact_verdict(number: int, finding: LexicalFinding) -> dict[str, Any]:
    """Return the verdict on the fact with a number, as replies about pages state it."""
    return {"number": number, "reason": finding.reason, "verdict": finding.verdict}


def _load_model(options: Options, default_coefficients: Path) -> LexicalModel:
    """Load a lexical model with the coefficients and the threshold of the judge's options."""
    model = load_lexical_model(options.coefficients or default_coefficients)
    # Without a threshold in the YAML, the fitted one stays.
    if options.threshold is None:
        return model
    return dataclasses.replace(model, threshold=options.threshold)


def _group_facts(subject: Mapping[str, Any]) -> Answer:
    """Group the facts of a response by the individual that they are about.

    Args:
        subject: The question: the shared ``name``, the ``sentences`` of the response, its
            ``facts``, and under ``owners`` the index of the sentence that states each fact.

    Returns:
        The numbers of the facts in each group, such as ``{"groups": [[1, 2, 4], [3]]}``.
    """
    groups = group_by_individual(
        subject["name"], subject["sentences"], subject["facts"], subject["owners"]
    )
    numbered_groups = []
    for group in groups:
        # Prompts number the facts from 1.
        numbered_groups.append([index + 1 for index in group])
    return _json_answer(groups=numbered_groups)


def _split_and_group(subject: Mapping[str, Any]) -> Answer:
    """Split sentences into facts, and tell which individual each fact is about.

    Args:
        subject: The question about a part of a response: the shared ``name``, the numbered
            ``sentences``, the titles and leads of the ``pages``, and the ``individuals`` of earlier
            parts. If ``namesakes`` is False, all facts are about one individual.

    Returns:
        The facts, such as ``{"sentence": 1, "fact": "Ada sang."}``. If there are namesakes, each
        fact also has the number of its individual, and the individuals are described.
    """
    sentences = subject["sentences"]
    facts: list[dict[str, Any]] = []
    sentence_indices = []  # of the sentence that states each fact
    for index, sentence in enumerate(sentences):
        for text in split_facts(sentence["text"]):
            facts.append({"sentence": sentence["number"], "fact": text})
            sentence_indices.append(index)
    if not subject["namesakes"]:
        return _json_answer(facts=facts)

    groups = group_by_individual(
        subject["name"],
        sentences=[sentence["text"] for sentence in sentences],
        facts=[fact["fact"] for fact in facts],
        sentence_indices=sentence_indices,
    )
    facts_by_individual = [[facts[index] for index in group] for group in groups]
    individuals = _number_individuals(subject, facts_by_individual)
    return _json_answer(
        reason=f"by words: {len(groups)} individuals", individuals=individuals, facts=facts
    )


def _number_individuals(
    subject: Mapping[str, Any], facts_by_individual: Sequence[Sequence[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Give each individual a number, write it into the facts about them, and describe them.

    Args:
        subject: The question, with the ``individuals`` of earlier parts of the response.
        facts_by_individual: The facts about each individual. Each gets the field ``individual``.

    Returns:
        The number and the description of each individual, as `_describe_individual` returns it.
    """
    individuals = []
    # The rules cannot tell whether a later part returns to an individual of an earlier one, so all
    # get new numbers.
    first_number = len(subject["individuals"]) + 1
    for number, facts in enumerate(facts_by_individual, start=first_number):
        for fact in facts:
            fact["individual"] = number
        individuals.append({"number": number, **_describe_individual(subject, facts)})
    return individuals


def _describe_individual(
    subject: Mapping[str, Any], facts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Say who an individual is, and which page has most words of the facts about them.

    Example:
        ``{"who": "Ada was a pilot.", "reason": "1 words in common with the page", "page": 2}``.
        ``page`` is None if no page shares a word.

    Args:
        subject: The question, with the ``name`` of the individual and the ``pages``.
        facts: The facts about the individual, such as ``{"fact": "Ada was a pilot."}``.
    """
    texts = [fact["fact"] for fact in facts]
    # All pages have the words of the name, so these do not count.
    words = parse_text(" ".join(texts)).stem_set - parse_text(subject["name"]).stem_set
    num_shared_by_page = []
    for page in subject["pages"]:
        page_words = parse_text(f"{page['title']} {page['lead']}").stem_set
        num_shared_by_page.append(len(words & page_words))
    most = max(num_shared_by_page, default=0)
    return {
        "who": texts[0],
        "reason": f"{most} words in common with the page",
        # Prompts number the pages from 1.
        "page": num_shared_by_page.index(most) + 1 if most else None,
    }


def _json_answer(**fields: Any) -> Answer:
    """Write an answer that is a JSON object, such as ``{"facts": ["Ada was born in 1815."]}``."""
    return Answer(json.dumps(fields, ensure_ascii=False), "stop")


def _hash_of_code() -> str:
    """Return a hash of the code and the word lists, of 16 hexadecimal digits.

    It is part of the judge's identity, so that questions are asked anew after a change of them.
    """
    folder = COEFFICIENTS.parent
    # A change of a word list changes answers just as a change of the code does.
    files = [Path(__file__), *sorted(folder.glob("*.py")), *sorted(folder.glob("*.yaml"))]
    content = b"\0".join(file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()[:16]
