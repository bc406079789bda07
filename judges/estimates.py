"""Typical lengths of judges' answers and the time that servers take, for estimates.

The plans of judges and of runs are made of them.
"""

from __future__ import annotations

import json
from collections import Counter
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
    return seconds / concurrency


def typical_answer_tokens(requests: Sequence[Request]) -> int:
    """Return how many tokens the answers of a language model to some requests typically have.

    They are measured on answers of the offline judge, which have the same form.
    """
    num_tokens = 0
    for request in requests:
        text = typical_answer(request).text
        longest = request.decoding.max_tokens
        # A question that the offline judge cannot answer may get the longest answer.
        length = longest if text is None else ceil(len(text.encode()) / BYTES_PER_TOKEN)
        num_tokens += min(length, longest)
    return num_tokens


# A plan needs each answer several times: for what follows from it, and for its length.
@lru_cache(maxsize=100_000)
def typical_answer(request: Request) -> Answer:
    """Answer a request as the offline judge does, in the form and length of a model's answer."""
    # A question with choices is answered by one word.
    choices = request.subject.get("choices")
    if choices:
        return Answer(choices[0], "stop")

    (arrival,) = _offline_judge().answer([request])
    answer = arrival.answer
    if answer.text is None:
        return answer
    # The offline judge finds fewer facts than language models do.
    kind = request.subject.get("kind")
    if kind == "decompose":
        return replace(answer, text=_fill_up_facts_of_sentence(answer.text, request.subject))
    if kind == "joint":
        return replace(answer, text=_fill_up_facts_of_sentences(answer.text, request.subject))
    return answer


def _fill_up_facts_of_sentence(reply_text: str, subject: Mapping[str, Any]) -> str:
    """Add invented facts to a reply, until its sentence has as many as a model would find.

    Example:
        ``{"facts": ["Ada sang."]}`` → ``{"facts": ["Ada sang.", "Ada sang in Rome and wrote two
        (0)"]}``
    """
    reply = json.loads(reply_text)
    reply["facts"] += _invent_missing_facts(subject["sentence"], len(reply["facts"]))
    return json.dumps(reply)


def _fill_up_facts_of_sentences(reply_text: str, subject: Mapping[str, Any]) -> str:
    """Add invented facts to a reply, until each sentence has as many as a model would find.

    Args:
        reply_text: The reply as JSON, with facts such as ``{"sentence": 1, "fact": "Ada sang."}``.
        subject: The question with its numbered ``sentences``.
    """
    reply = json.loads(reply_text)
    num_facts = Counter(fact["sentence"] for fact in reply["facts"])
    # An invented fact is about the same individual as the last one of its sentence.
    last_facts = {fact["sentence"]: fact for fact in reply["facts"]}
    for sentence in subject["sentences"]:
        number = sentence["number"]
        # A sentence without facts, such as a question, stays without.
        if number not in last_facts:
            continue
        for text in _invent_missing_facts(sentence["text"], num_facts[number]):
            reply["facts"].append({**last_facts[number], "fact": text})
    return json.dumps(reply, ensure_ascii=False)


def _invent_missing_facts(sentence: str, num_found: int) -> list[str]:
    """Invent the facts of a sentence that a model would find but the offline judge did not.

    They are parts of the sentence as long as facts usually are, such as ``Ada sang in Rome and
    wrote two (0)``. Each has a number, because equal facts would be verified only once.

    Args:
        sentence: The sentence.
        num_found: How many facts the offline judge found in it.
    """
    words = sentence.split()
    num_missing = round(len(words) / _WORDS_PER_FACT) - num_found
    texts = []
    # The offline judge may also find more, and `range` of a negative number is empty.
    for index in range(num_missing):
        start = index % len(words)
        texts.append(f"{' '.join(words[start : start + _WORDS_PER_STAND_IN])} ({index})")
    return texts


@cache
def _offline_judge() -> LexicalBackend:
    """Open the offline judge."""
    return LexicalBackend(load_judge_config(LEXICAL))
