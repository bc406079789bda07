"""Step 3: what the page of each candidate entity says of each fact.

Each pair is asked about once, and all scores read this matrix.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from judges.answers import BLANKS, Answer
from judges.judge import Judge
from judges.typed import ParsedReply, Reply
from judges.verify import (
    NOT_SUPPORTED,
    SUPPORTED,
    UNSCORED,
    PageQuestion,
    PageReply,
    ask_by_page,
    page_subject,
    score_and_reason,
    split_by_page,
)
from lm_factuality.benchmarks.biographies.generations import nearest_passages
from lm_factuality.benchmarks.biographies.scores import NO_PAGE
from lm_factuality.benchmarks.biographies.types import Fact, Judgement
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

PROMPT_FOLDER = "biographies"  # of the prompts, unless another is named that has the same ones
TRUE_FALSE = ("True", "False")
TOP_LOGPROBS = 5  # alternatives: no server of completions has to give more
_DOING = "verifying facts"
_MARKS = " \t\r\n.*_\"'"  # around a word that is all of an answer

FactVerdict = Literal["supported", "not_supported", "irrelevant"]


class FactReply(Reply):
    """``irrelevant``: the fact says nothing about the person. ``probability``, if it is stated, is that of support."""  # noqa: E501

    reason: str
    verdict: FactVerdict
    probability: Annotated[float, Field(ge=0, le=1)] | None = None


class NumberedFact(Reply):
    """The verdict on one fact of a list, numbered from 1."""

    number: int
    reason: str
    verdict: FactVerdict


class FactsOfPage(PageReply):
    """What a page says of the facts of a list."""

    verdicts: list[NumberedFact]


@dataclass(frozen=True)
class FactPair:
    """One fact to hold against the page of one entity."""

    fact: str
    entity: str
    """The title of the page. Empty where each passage has its own title."""

    evidence: tuple[str, ...]
    """The passages to show. Empty where there is nothing to show."""

    preset_judgement: Judgement | None = None
    """The judgement if there is nothing to show, so that nobody is asked."""

    prompt_variables: Mapping[str, Any] = field(default_factory=dict)
    """What prompts say of the response."""

    sentence: int | None = None
    """The sentence of a fact whose passages an index found."""

    @property
    def subject(self) -> dict[str, Any]:
        """What the prompt is about."""
        passages = [
            f"Title: {self.entity}\n{text}" if self.entity else text for text in self.evidence
        ]
        entity = {"entity": self.entity} if self.sentence is None else {}
        return {
            "kind": "verify",
            "claim": self.fact,
            "passages": passages,
            **entity,
            **self.prompt_variables,
        }

    @property
    def page(self) -> str:
        """Facts of a response with the same one can be asked about together."""
        return self.entity if self.sentence is None else str(self.sentence)


PageOf: TypeAlias = Callable[[str], list[str] | None]
"""Returns the passages of the page with a title, or None if there is none."""

PairKey = tuple[int, str, str]  # (number of the response, fact, entity)


def pair_facts_with_pages(
    facts: Sequence[Fact], entities: Sequence[str], page_of: PageOf
) -> list[FactPair]:
    """Pair every distinct fact with every entity.

    What an entity without a page is said of is not supported, for a fact is supported by what is
    known of an entity, and nothing is. (Left without a verdict, one such candidate would take every
    unsupported fact out of the scores.)
    """
    pages = {entity: page_of(entity) for entity in entities}
    pairs = []
    for fact in dict.fromkeys(fact.text for fact in facts):
        for entity, page in pages.items():
            passages = tuple(filter(str.strip, page or ()))
            if passages:
                pairs.append(FactPair(fact, entity, nearest_passages(passages, fact)))
                continue
            why = f"none is called {entity!r}" if page is None else f"that of {entity!r} is empty"
            unasked = Judgement(NOT_SUPPORTED, 0.0, f"{NO_PAGE}: {why}")
            pairs.append(FactPair(fact, entity, (), unasked))
    return pairs


def judge_pairs(
    judge: Judge, pairs: Mapping[PairKey, FactPair], folder: str = PROMPT_FOLDER
) -> dict[PairKey, Judgement]:
    """Judge each pair. ``verdicts`` and ``verify`` of the judge's config say how it is asked."""
    judgements: dict[PairKey, Judgement] = {}
    asked: dict[PairKey, FactPair] = {}
    for key, pair in pairs.items():
        if pair.preset_judgement is None:
            asked[key] = pair
        else:
            judgements[key] = pair.preset_judgement
    if judge.config.verdicts == "logprobs":
        subjects = [{**pair.subject, "choices": TRUE_FALSE} for pair in asked.values()]
        answers = judge.ask(
            f"{folder}/verify_true_false", subjects, _DOING, top_logprobs=TOP_LOGPROBS
        )
        for (key, pair), texts in zip(asked.items(), answers, strict=True):
            judgements[key] = majority_judgement(
                pair.evidence, [*map(judgement_from_logprobs, texts)]
            )
        return judgements

    if judge.config.verify == "page":
        questions = _page_questions(asked)
        for page in ask_by_page(judge, f"{folder}/verify_page", FactsOfPage, questions, _DOING):
            samples = [_judgement(verdict.verdict, verdict.reason) for verdict in page.verdicts]
            evidence = tuple(page.subject["evidence"])
            judgements[page.key] = majority_judgement(evidence, samples)
            del asked[page.key]
        if judge.is_offline:
            # A real judge leaves out few facts of a page. Plans add what asking singly may cost.
            return judgements | dict.fromkeys(asked, Judgement(UNSCORED))
    return judgements | judge_pairs_singly(judge, asked, folder)


def judge_pairs_singly(
    judge: Judge, pairs: Mapping[PairKey, FactPair], folder: str
) -> dict[PairKey, Judgement]:
    """Judge each pair by a question of its own."""
    subjects = [pair.subject for pair in pairs.values()]
    typed = judge.ask_typed(f"{folder}/verify", FactReply, subjects, _DOING)
    return {
        key: majority_judgement(pair.evidence, [*map(reply_to_judgement, replies)])
        for (key, pair), replies in zip(pairs.items(), typed, strict=True)
    }


def _page_questions(pairs: Mapping[PairKey, FactPair]) -> list[PageQuestion[PairKey]]:
    """Return the facts of a response that one question can hold, and what the question is about.

    The passages are all that any of the facts would be shown singly.
    """
    questions = []
    for keys in split_by_page(pairs, lambda key: (key[0], pairs[key].page)):
        together = [pairs[key] for key in keys]
        evidence = dict.fromkeys(text for pair in together for text in pair.evidence)
        shared = replace(together[0], evidence=tuple(evidence)).subject
        passages = shared.pop("passages")
        del shared["kind"], shared["claim"]
        facts = [pair.fact for pair in together]
        subject = page_subject(facts, passages, evidence=list(evidence), **shared)
        questions.append(PageQuestion(keys, subject))
    return questions


def majority_judgement(evidence: tuple[str, ...], samples: Sequence[Judgement]) -> Judgement:
    """Return the majority of a judge's replies that could be read, one reply a sample."""
    scored = [judgement for judgement in samples if judgement.outcome != UNSCORED]
    if not scored:
        return replace(samples[0], evidence=evidence)
    votes = Counter(judgement.outcome for judgement in scored)
    (outcome, most), *rest = votes.most_common()
    if rest and rest[0][1] == most:
        return Judgement(UNSCORED, None, f"tie among {len(scored)} samples", evidence)
    first = next(judgement for judgement in scored if judgement.outcome == outcome)
    share = votes[SUPPORTED] / len(scored)
    return replace(first, score=first.score if len(scored) == 1 else share, evidence=evidence)


def reply_to_judgement(reply: ParsedReply[FactReply]) -> Judgement:
    if reply.value is None:
        return Judgement(UNSCORED, None, reply.problem)
    return _judgement(reply.value.verdict, reply.value.reason, reply.value.probability)


def _judgement(verdict: FactVerdict, reason: str, probability: float | None = None) -> Judgement:
    support = score_and_reason(probability, verdict == SUPPORTED, reason)
    return Judgement(verdict, support.score, support.reason)


def judgement_from_logprobs(answer: Answer) -> Judgement:
    """Read the first word of an answer: supported if true is more probable than false.

    The text is read where there are no log-probabilities of the two words, or the first word is
    that of a thought: it has to be one of the two words and no other. ``reason`` tells which was
    read.
    """
    if answer.text is None:
        return Judgement(UNSCORED, None, f"judge error: {answer.error or 'no text'}")
    text = without_thinking(answer.text)
    if answer.first_token_logprobs is None:
        why = "no log-probabilities"
    elif text != answer.text:
        why = "a thought comes first"
    else:
        true, false = (
            _probability(word.lower(), answer.first_token_logprobs) for word in TRUE_FALSE
        )
        if true + false > 0:
            score = true / (true + false)
            reason = f"by log-probabilities: true {true:.3g}, false {false:.3g}"
            return Judgement(SUPPORTED if score > 0.5 else NOT_SUPPORTED, score, reason)
        why = "neither word among the most likely"
    if text is None:
        return Judgement(UNSCORED, None, f"by the text ({why}): {UNFINISHED}")
    word = text.strip(_MARKS).lower()
    if word not in ("true", "false"):
        return Judgement(UNSCORED, None, f"by the text ({why}): neither true nor false")
    is_true = word == "true"
    reason = f"by the text ({why}): {word}"
    return Judgement(SUPPORTED if is_true else NOT_SUPPORTED, float(is_true), reason)


def _probability(word: str, alternatives: Collection[tuple[str, float]]) -> float:
    """Return how probable a first word is, summed over case and white space."""
    return math.fsum(
        math.exp(logprob) for token, logprob in alternatives if token.strip(BLANKS).lower() == word
    )
