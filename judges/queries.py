"""The queries with which a search engine is asked for evidence about claims.

A language model writes them. Without one, the words of a claim are its query.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from judges.judge import Judge
from judges.lexical.words import parse_text
from judges.typed import Reply, numbering_problem

PROMPT = "queries"

# The most claims in one question, and the most queries for each of them.
MAX_CLAIMS = 8
MAX_QUERIES = 3

_MAX_TOKENS = 1024  # of a reply
_MAX_WORDS = 32  # of a query without a model, since search engines ignore further words
_MAX_CHARACTERS = 300  # of any query


class ClaimQueries(BaseModel):
    """The queries for one claim."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    queries: list[str]


class QueriesReply(Reply):
    """The queries for each claim, by its number."""

    claims: list[ClaimQueries]


def queries_for_claims(judge: Judge | None, claims: Sequence[str]) -> list[list[str]]:
    """Return the queries by which evidence for or against claims is searched for.

    Args:
        judge: The judge that writes queries. Where there is no judge, where it cannot write, or
            where it writes none for a claim, the words of the claim are its query.
        claims: The claims.

    Returns:
        One to three queries for each claim. A blank claim has none.

    Raises:
        BackendDownError: The judge cannot be reached. Answers received so far are kept.
    """
    queries_by_claim: dict[str, list[str]] = {}
    # Equal claims have equal queries, and a blank one is not asked about.
    distinct_claims = [claim for claim in dict.fromkeys(claims) if claim.strip()]
    if judge is not None and judge.config.capabilities.reads_prompts:
        queries_by_claim = _queries_from_judge(judge, distinct_claims)

    for claim in distinct_claims:
        if not queries_by_claim.get(claim):
            queries_by_claim[claim] = [words_query(claim)]
    return [queries_by_claim.get(claim, []) for claim in claims]


def _queries_from_judge(judge: Judge, claims: Sequence[str]) -> dict[str, list[str]]:
    """Ask a judge for the queries of claims, up to eight claims at once.

    Returns:
        The queries by claim. Claims that the replies do not mention are left out.
    """
    subjects: list[dict[str, Any]] = []
    for start in range(0, len(claims), MAX_CLAIMS):
        group = list(claims[start : start + MAX_CLAIMS])
        subjects.append({"kind": PROMPT, "claims": group, "max_queries": MAX_QUERIES})
    samples_by_question = judge.ask_typed(
        PROMPT,
        QueriesReply,
        subjects,
        description="writing queries",
        check=_check_numbers,
        samples=1,
        max_tokens=_MAX_TOKENS,
    )

    queries_by_claim = {}
    for subject, samples in zip(subjects, samples_by_question, strict=True):
        # One sample per question was asked for.
        reply = samples[0].value
        # Without a usable reply, the words of the claims are searched for.
        if reply is None:
            continue
        for claim_queries in reply.claims:
            claim = subject["claims"][claim_queries.number - 1]
            queries_by_claim[claim] = _clean_queries(claim_queries.queries)
    return queries_by_claim


def _check_numbers(reply: QueriesReply, subject: Mapping[str, Any]) -> str:
    """Return what is wrong with the numbers of claims in a reply, such as ``claim 9 of 8``.

    A reply may leave claims out. The result is empty if nothing is wrong.
    """
    numbers = [claim_queries.number for claim_queries in reply.claims]
    return numbering_problem(numbers, len(subject["claims"]), "claim", must_be_complete=False)


def _clean_queries(queries: Sequence[str]) -> list[str]:
    """Return the first three distinct queries, each on one line and of limited length."""
    lines = []
    for query in queries:
        # SearXNG takes a word after "!" or ":" as a command, such as to send the user elsewhere.
        words = [word.lstrip("!:") for word in query.split()]
        lines.append(" ".join(words)[:_MAX_CHARACTERS].strip())
    return [line for line in dict.fromkeys(lines) if line][:MAX_QUERIES]


def words_query(claim: str) -> str:
    """Return the words of a claim that are neither stopwords nor negations, as a query.

    Example:
        ``Ada Hill was not born in Oslo.`` becomes ``Ada Hill born Oslo``.
    """
    words = [word.text for word in parse_text(claim).content_words]
    # A claim such as "It was." has no other words.
    query = " ".join(words[:_MAX_WORDS]) or " ".join(claim.split())
    return query[:_MAX_CHARACTERS]
