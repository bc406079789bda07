"""The most that judging biographies can send, whatever the judge makes of them.

A fact has two words, and a word is one token or more; so a sentence has at most half as many facts as the judge may write tokens.
Each fact is verified by each entity, in each sample, and every reply asked for once more. Facts together are no longer than what
the judge may write, with ``_BYTES`` bytes a token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from judges.answers import Estimate
from judges.judge import Judge
from judges.verify import PAGE_CLAIMS, PAGE_TOKENS
from lm_factuality.benchmarks.biographies import group, matrix
from lm_factuality.benchmarks.biographies.decompose import without_citations
from lm_factuality.benchmarks.biographies.matrix import Pair
from lm_factuality.benchmarks.biographies.method import Settings
from lm_factuality.benchmarks.biographies.pages import EVIDENCE
from lm_factuality.benchmarks.biographies.types import Fact, JudgedBiography

_WORDS = 2  # of a fact, and so the tokens that it has at least
_BYTES = 18


def most_of(judge: Judge, judged: Sequence[JudgedBiography], settings: Settings) -> tuple[Estimate, Estimate]:
    """What grouping and verifying send at most, for responses that are not taken apart yet."""
    none = judge.plan(group.PROMPT, []).estimate
    tokens = judge.config.decoding.max_tokens
    grouping, verifying = none, none
    for each in judged:
        count = len(each.sentences) * (tokens // _WORDS)
        if count > 1:
            facts = [Fact(_text(len(each.sentences) * tokens), 0), *[Fact("", 0)] * (count - 1)]
            subject = group.group_subject(each.generation.name, without_citations(each.generation.output), facts, each.sentences)
            plan = judge.plan(group.PROMPT, [subject], samples=1, reply=group.GroupsReply, max_tokens=group.MAX_TOKENS)
            grouping += plan.at_most
        for page in _pages(each, settings):
            verifying += _verified(judge, page, len(each.sentences), count)
    return grouping, verifying


def _pages(judged: JudgedBiography, settings: Settings) -> Iterator[Pair]:
    """Of each entity with a page the longest passages that a judge can be shown, with a fact to be named."""
    pages = settings.pages_for(judged.generation)
    for pair in matrix.pairs_of([Fact("", 0)], judged.entities, pages).values():
        if pair.problem is None:
            longest = sorted(filter(str.strip, pages.passages(pair.entity) or ()), key=lambda text: len(text.encode()))
            yield replace(pair, evidence=tuple(longest[-EVIDENCE:]))


def _verified(judge: Judge, page: Pair, sentences: int, count: int) -> Estimate:
    """All facts of so many sentences by one page: those of a sentence are as long together as one may be."""
    tokens = judge.config.decoding.max_tokens
    short, long = ({**page.subject, "claim": text} for text in ("", _text(tokens)))
    if judge.config.verdicts == "logprobs":
        shown = [{**each, "choices": matrix.CHOICES} for each in (short, long)]
        plans = [judge.plan(matrix.PROMPT_BY_LOGPROBS, [each], top_logprobs=matrix.TOP_LOGPROBS) for each in shown]
    else:
        plans = [judge.plan(matrix.PROMPT, [each], reply=matrix.FactReply) for each in (short, long)]
    found = plans[0].at_most * max(0, count - sentences) + plans[1].at_most * min(count, sentences)
    if judge.config.verify == "page" and count:
        facts = [replace(page, fact=text) for text in (_text(sentences * tokens), *[""] * (PAGE_CLAIMS - 1))]
        subject = {**matrix.subject_of(facts), "passages": page.subject["passages"]}
        whole = judge.plan(matrix.PROMPT_PAGE, [subject], reply=matrix.FactsOfPage, max_tokens=PAGE_TOKENS)
        found += whole.at_most * ceil(count / PAGE_CLAIMS)
    return found


def _text(tokens: int) -> str:
    """No shorter than what has so many tokens: of signs that no tokenizer joins, of three bytes each."""
    return "\u3400" * (tokens * _BYTES // 3)
