"""Step 3: what the page of each candidate entity says of each fact, each pair asked once; all
scores read this matrix."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from judges.answers import BLANKS, Answer
from judges.judge import Judge, Plan
from judges.typed import Reply, Typed
from judges.verify import (
    NOT_SUPPORTED,
    PAGE_TOKENS,
    SUPPORTED,
    UNSCORED,
    by_page,
    lists_of,
    numbers_exist,
    page_subject,
    stated,
)
from lm_factuality.benchmarks.biographies.generations import nearest
from lm_factuality.benchmarks.biographies.scores import NO_PAGE
from lm_factuality.benchmarks.biographies.types import Fact, Judgement, Outcome
from lm_factuality.ground.thinking import UNFINISHED, without_thinking

FOLDER = "biographies"  # of the prompts, unless another is named that has the same ones
CHOICES = ("True", "False")
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


class FactsOfPage(Reply):
    """What a page says of the facts of a list."""

    verdicts: list[NumberedFact]


PAGE: Mapping[str, Any] = {
    "reply": FactsOfPage,
    "check": numbers_exist,
    "max_tokens": PAGE_TOKENS,
}  # how the judge is asked


@dataclass(frozen=True)
class Pair:
    """One fact to hold against the page of one entity; ``evidence`` is empty where there is nothing
    to show, and ``problem`` says why. A page that is missing supports nothing (``unasked``).
    ``about`` is what prompts say of the response. Without an ``entity`` each passage has its own
    title. ``sentence`` is that of a fact whose passages an index found."""

    fact: str
    entity: str
    evidence: tuple[str, ...]
    problem: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    sentence: int | None = None

    @property
    def subject(self) -> dict[str, Any]:
        passages = [
            f"Title: {self.entity}\n{text}" if self.entity else text for text in self.evidence
        ]
        of = {"entity": self.entity} if self.sentence is None else {}
        return {"kind": "verify", "claim": self.fact, "passages": passages, **of, **self.about}

    @property
    def page(self) -> str:
        """Facts of a response with the same one can be asked about together."""
        return self.entity if self.sentence is None else str(self.sentence)


PageOf: TypeAlias = Callable[
    [str], list[str] | None
]  # the passages of the page with a title; None if there is none


def pairs_of(
    facts: Sequence[Fact], entities: Sequence[str], page_of: PageOf
) -> dict[tuple[str, str], Pair]:
    """Every distinct fact with every entity, by (fact, entity)."""
    known = {entity: page_of(entity) for entity in entities}
    texts = dict.fromkeys(each.text for each in facts)
    return {
        (text, entity): _pair(text, entity, known[entity]) for text in texts for entity in entities
    }


def unasked(pair: Pair) -> Judgement:
    """The judgement of a pair that nobody is asked about: not supported, for a fact is supported by
    what is known of an entity, and nothing is. (Left without a verdict, one such candidate would
    take every unsupported fact out of the scores.) Where entities are not told apart, so that
    nothing is known at all, it is unscored."""
    if not pair.entity:
        return Judgement(UNSCORED, None, pair.problem or "no evidence")
    return Judgement(NOT_SUPPORTED, 0.0, pair.problem or NO_PAGE)


Key = tuple[int, str, str]  # (number of the response, fact, entity)


def judge_pairs(
    judge: Judge, pairs: Mapping[Key, Pair], folder: str = FOLDER
) -> dict[Key, Judgement]:
    """The judgement of each pair; those that nobody need be asked about are not supported.
    ``verdicts`` and ``verify`` of the judge's config say how it is asked."""
    found = {key: unasked(pair) for key, pair in pairs.items() if pair.problem is not None}
    asked = {key: pair for key, pair in pairs.items() if pair.problem is None}
    if judge.config.verdicts == "logprobs":
        name = f"{folder}/verify_true_false"
        answers = judge.ask(name, _with_choices(asked.values()), _DOING, top_logprobs=TOP_LOGPROBS)
        return found | {
            key: vote(asked[key], [*map(read_by_logprobs, each)])
            for key, each in zip(asked, answers, strict=True)
        }
    if judge.config.verify == "page":
        for key, subject, said, _ in by_page(
            judge, f"{folder}/verify_page", FactsOfPage, _pages(asked), _DOING
        ):
            read = [
                to_judgement(Typed(FactReply(reason=each.reason, verdict=each.verdict)))
                for each in said
            ]
            found[key] = vote(replace(asked[key], evidence=tuple(subject["evidence"])), read)
    alone = {key: pair for key, pair in asked.items() if key not in found}
    replies = judge.ask_typed(
        f"{folder}/verify", FactReply, [pair.subject for pair in alone.values()], _DOING
    )
    return found | {
        key: vote(alone[key], list(map(to_judgement, each)))
        for key, each in zip(alone, replies, strict=True)
    }


def plan_pairs(judge: Judge, pairs: Mapping[Key, Pair], folder: str = FOLDER) -> Plan:
    asked = {key: pair for key, pair in pairs.items() if pair.problem is None}
    singly = plan_singly(judge, asked.values(), folder)
    if judge.config.verdicts == "logprobs" or judge.config.verify != "page":
        return singly
    whole = judge.plan(f"{folder}/verify_page", [subject for _, subject in _pages(asked)], **PAGE)
    return replace(whole, most=whole.at_most + singly.at_most)


def plan_singly(judge: Judge, pairs: Collection[Pair], folder: str) -> Plan:
    if judge.config.verdicts == "logprobs":
        return judge.plan(
            f"{folder}/verify_true_false", _with_choices(pairs), top_logprobs=TOP_LOGPROBS
        )
    return judge.plan(f"{folder}/verify", [pair.subject for pair in pairs], reply=FactReply)


def _with_choices(pairs: Collection[Pair]) -> list[dict[str, Any]]:
    return [{**pair.subject, "choices": CHOICES} for pair in pairs]


def _pages(pairs: Mapping[Key, Pair]) -> list[tuple[list[Key], dict[str, Any]]]:
    """The facts of a response that one question about an entity can hold, and what it is about."""
    lists = lists_of(pairs, lambda key: (key[0], pairs[key].page))
    return [(each, subject_of([pairs[key] for key in each])) for each in lists]


def subject_of(pairs: Sequence[Pair]) -> dict[str, Any]:
    """What the prompt about a page is about: the passages are all that any of the facts would be
    shown singly."""
    evidence = list(dict.fromkeys(text for pair in pairs for text in pair.evidence))
    alone = replace(pairs[0], evidence=tuple(evidence)).subject
    more = {name: alone[name] for name in alone if name not in ("kind", "claim", "passages")}
    return page_subject([pair.fact for pair in pairs], alone["passages"], evidence=evidence, **more)


def vote(pair: Pair, read: Sequence[Judgement]) -> Judgement:
    """What the judge's replies, one a sample, say of a pair: the majority of those that could be
    read."""
    scored = [each for each in read if each.outcome != UNSCORED]
    if not scored:
        return replace(
            read[0] if read else Judgement(UNSCORED, None, "no answer"), evidence=pair.evidence
        )
    outcomes = [each.outcome for each in scored]
    best = max(dict.fromkeys(outcomes), key=outcomes.count)
    if any(other != best and outcomes.count(other) == outcomes.count(best) for other in outcomes):
        return Judgement(UNSCORED, None, f"tie among {len(scored)} samples", pair.evidence)
    first = next(each for each in scored if each.outcome == best)
    score = first.score if len(scored) == 1 else outcomes.count(SUPPORTED) / len(scored)
    return replace(first, score=score, evidence=pair.evidence)


def to_judgement(read: Typed[FactReply]) -> Judgement:
    if read.value is None:
        return Judgement(UNSCORED, None, read.problem)
    score, reason = stated(
        read.value.probability, read.value.verdict == SUPPORTED, read.value.reason
    )
    return Judgement(read.value.verdict, score, reason)


def read_by_logprobs(answer: Answer) -> Judgement:
    """What the first word of one answer says: supported if true is more probable than false. What
    its text says where there are no log-probabilities of the two words, or the first word is that
    of a thought. ``reason`` tells which was read."""
    if answer.text is None:
        return read_word(answer)
    if answer.first_token_logprobs is None:
        why = "no log-probabilities"
    elif without_thinking(answer.text) != answer.text:
        why = "a thought comes first"
    elif (words := read_first_word(answer.first_token_logprobs)) is None:
        why = "neither word among the most likely"
    else:
        true, false = words
        score = true / (true + false)
        outcome: Outcome = SUPPORTED if score > 0.5 else NOT_SUPPORTED
        return Judgement(
            outcome, score, f"by log-probabilities: true {true:.3g}, false {false:.3g}"
        )
    found = read_word(answer)
    return replace(found, reason=f"by the text ({why}): {found.reason}")


def read_first_word(alternatives: Sequence[tuple[str, float]]) -> tuple[float, float] | None:
    """The probabilities that an answer begins with true and with false: from (token,
    log-probability) of the alternatives, summed over case and white space; None if neither word is
    among them."""
    true, false = (
        math.fsum(
            math.exp(logprob)
            for token, logprob in alternatives
            if token.strip(BLANKS).lower() == word.lower()
        )
        for word in CHOICES
    )
    return (true, false) if true + false > 0 else None


def read_word(answer: Answer) -> Judgement:
    """What an answer says that is one of the two words and no other."""
    if answer.text is None:
        return Judgement(UNSCORED, None, f"judge error: {answer.error or 'no text'}")
    text = without_thinking(answer.text)
    if text is None:
        return Judgement(UNSCORED, None, UNFINISHED)
    word = text.strip(_MARKS).lower()
    if word not in ("true", "false"):
        return Judgement(UNSCORED, None, "neither true nor false")
    return Judgement(SUPPORTED if word == "true" else NOT_SUPPORTED, float(word == "true"), word)


def _pair(fact: str, entity: str, page: list[str] | None) -> Pair:
    passages = tuple(filter(str.strip, page or ()))
    if not passages:
        why = f"none is called {entity!r}" if page is None else f"that of {entity!r} is empty"
        return Pair(fact, entity, (), f"{NO_PAGE}: {why}")
    return Pair(fact, entity, nearest(passages, fact))
