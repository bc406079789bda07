"""The most that judging biographies can send, whatever the judge makes of them.

A sentence has no more facts than ``decompose.most_facts`` takes, nor than half as many as the judge may write tokens, for a fact
has two words.
Each fact is verified by each entity, in each sample, and every reply asked for once more. Facts together are no longer than what
the judge may write, with ``_BYTES`` bytes a token.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from judges.answers import Estimate
from judges.judge import Judge
from judges.verify import PAGE_CLAIMS, PAGE_TOKENS
from lm_factuality.benchmarks.biographies import group, matrix
from lm_factuality.benchmarks.biographies.decompose import most_facts
from lm_factuality.benchmarks.biographies.matrix import Pair
from lm_factuality.benchmarks.biographies.method import Settings, group_subjects
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography

_WORDS = 2  # of a fact, and so the tokens that it has at least
_BYTES = 18


def most_of(judge: Judge, judged: Sequence[JudgedBiography], settings: Settings) -> tuple[Estimate, Estimate]:
    """What grouping and verifying send at most, for responses that are not taken apart yet."""
    cut = f"{settings.folder}/group"
    how: dict[str, Any] = {"samples": 1, "reply": group.GroupsReply, "max_tokens": group.MAX_TOKENS}
    tokens = judge.config.decoding.max_tokens + (judge.config.thinking_tokens or 0)  # which may all be of the reply
    grouping = verifying = judge.plan(cut, []).estimate
    for each in judged:
        count = sum(min(most_facts(sentence), tokens // _WORDS) for sentence in each.sentences)
        facts = [Fact(_text(len(each.sentences) * tokens), 0), *[Fact("", 0)] * (count - 1)]
        grouping += judge.plan(cut, group_subjects([replace(each, facts=tuple(facts))], settings), **how).at_most
        for page in settings.pairs(replace(each, facts=(Fact("", 0),))).values():
            if page.problem is None:
                by_fact, by_page = (
                    replace(page, evidence=settings.longest(each, page, facts)) for facts in (1, min(count, PAGE_CLAIMS))
                )
                verifying += _verified(judge, by_fact, by_page, len(each.sentences), count, tokens, settings.folder)
    return grouping, verifying


def _verified(judge: Judge, by_fact: Pair, by_page: Pair, sentences: int, count: int, tokens: int, folder: str) -> Estimate:
    """All facts of so many sentences by one page: those of a sentence are as long together as one may be."""
    short, long = ({**by_fact.subject, "claim": text} for text in ("", _text(tokens)))
    if judge.config.verdicts == "logprobs":
        shown = [{**each, "choices": matrix.CHOICES} for each in (short, long)]
        plans = [judge.plan(f"{folder}/verify_true_false", [each], top_logprobs=matrix.TOP_LOGPROBS) for each in shown]
    else:
        plans = [judge.plan(f"{folder}/verify", [each], reply=matrix.FactReply) for each in (short, long)]
    found = plans[0].at_most * max(0, count - sentences) + plans[1].at_most * min(count, sentences)
    if judge.config.verify == "page" and count:
        facts = [replace(by_page, fact=text) for text in (_text(sentences * tokens), *[""] * (PAGE_CLAIMS - 1))]
        subject = {**matrix.subject_of(facts), "passages": by_page.subject["passages"]}
        whole = judge.plan(f"{folder}/verify_page", [subject], reply=matrix.FactsOfPage, max_tokens=PAGE_TOKENS)
        # Where each sentence has passages of its own, so it has questions.
        found += whole.at_most * (
            ceil(count / PAGE_CLAIMS) if by_page.page == by_page.entity else min(count, sentences) + count // PAGE_CLAIMS
        )
    return found


def _text(tokens: int) -> str:
    """No shorter than what has so many tokens: of signs that no tokenizer joins, of three bytes each."""
    return "\u3400" * (tokens * _BYTES // 3)
