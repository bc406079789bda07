"""Typical lengths of judges' answers and the time that servers take, for estimates.

The plans of judges and of runs are made of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from math import ceil
from typing import Any

from judges import LEXICAL
from judges.answers import BYTES_PER_TOKEN, Answer, Request
from judges.backends.lexical import LexicalBackend
from judges.config import load_judge_config

SECONDS_PER_REQUEST = 0.5
"""The assumed time of a server until its answer begins."""

TOKENS_PER_SECOND = 50.0
"""The assumed speed at which a server writes one answer."""

# Words of a response per fact. Released decisions have 4.7, and terser judges about twice as many.
_WORDS_PER_FACT = 6.0
# Words of a text that stands for a fact.
_WORDS_PER_STAND_IN = 7

ASSUMED_SPEED = f"{SECONDS_PER_REQUEST} s per request and {TOKENS_PER_SECOND:g} tokens/s per answer"


def seconds_of_server(num_requests: int, answer_tokens: int, concurrency: int) -> float:
    """Return how long a server of the assumed speed takes.

    Args:
        num_requests: The number of requests.
        answer_tokens: The tokens of all answers.
        concurrency: How many requests are under way at once.
    """
    seconds = num_requests * SECONDS_PER_REQUEST + answer_tokens / TOKENS_PER_SECOND
    return seconds / max(1, concurrency)


def typical_answer_tokens(requests: Sequence[Request]) -> int:
    """Return how many tokens the answers of a model to some requests typically have.

    An answer that the offline judge cannot give counts with the most tokens that it may have.
    """
    num_tokens = 0
    for request, answer in zip(requests, typical_answers(requests), strict=True):
        longest = request.decoding.max_tokens
        text = answer.text
        length = longest if text is None else ceil(len(text.encode()) / BYTES_PER_TOKEN)
        num_tokens += min(length, longest)
    return num_tokens


def typical_answers(requests: Sequence[Request]) -> list[Answer]:
    """Answer requests as the offline judge does, in the form and length of a model's answers."""
    return [_typical_answer(request) for request in requests]


# A plan needs each answer several times: for what follows from it, and for its length.
@lru_cache(maxsize=100_000)
def _typical_answer(request: Request) -> Answer:
    """Return an answer to a request as a model might give it, by the offline judge."""
    # A question with choices is answered by one word.
    choices = request.subject.get("choices")
    if choices:
        return Answer(choices[0], "stop")
    (arrival,) = _offline_judge().answer([request])
    answer = arrival.answer
    if answer.text is not None and request.subject.get("kind") in ("decompose", "joint"):
        return replace(answer, text=_add_facts(answer.text, request.subject))
    return answer


def _add_facts(answer: str, subject: Mapping[str, Any]) -> str:
    """Add facts to an answer of the offline judge, which finds fewer than language models do.

    Args:
        answer: The answer to a question that asks for the facts of one or several sentences.
        subject: The subject of the question.

    Returns:
        The answer with a fact for each `_WORDS_PER_FACT` words of a sentence.
    """
    content = json.loads(answer)
    if subject["kind"] == "decompose":
        content["facts"] += _stand_ins(subject["sentence"], len(content["facts"]))
        return json.dumps(content)

    facts_by_sentence: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for fact in content["facts"]:
        facts_by_sentence[fact["sentence"]].append(fact)
    for sentence in subject["sentences"]:
        facts = facts_by_sentence[sentence["number"]]
        # A sentence without facts, such as a question, stays without.
        if not facts:
            continue
        for text in _stand_ins(sentence["text"], len(facts)):
            # The added fact is about the same individual as another one of the sentence.
            content["facts"].append({**facts[-1], "fact": text})
    return json.dumps(content, ensure_ascii=False)


def _stand_ins(sentence: str, num_found: int) -> list[str]:
    """Invent texts in place of the facts that a model would find and the offline judge does not.

    Args:
        sentence: The sentence.
        num_found: How many facts the offline judge found in it.

    Returns:
        Parts of the sentence as long as facts usually are, such as ``Ada sang in Rome and wrote two
        (0)``. They differ, because equal facts would be verified by the same question.
    """
    words = sentence.split()
    # A model may also find fewer, and `range` of a negative number is empty.
    num_missing = round(len(words) / _WORDS_PER_FACT) - num_found
    texts = []
    for index in range(num_missing):
        start = index % len(words)
        texts.append(f"{' '.join(words[start : start + _WORDS_PER_STAND_IN])} ({index})")
    return texts


@cache
def _offline_judge() -> LexicalBackend:
    """Open the offline judge."""
    return LexicalBackend(load_judge_config(LEXICAL))
