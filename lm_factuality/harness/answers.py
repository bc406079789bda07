"""A request type for lm_eval: which of some words a model gives for an answer.

The answer is read from the words' log-probabilities, where the model has them. A local model scores
each word as a continuation of the prompt. lm_eval's clients of servers send a prompt once and drop
what is not text; here it is sent with ``logprobs`` and the whole reply is read, so that the first
token's alternatives answer for chat models too. A server without ``logprobs`` is asked for text
alone. Equal questions are sent once.
"""

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM

from judges.answers import BLANKS, Answer
from judges.backends.server import UnusableReplyError, answer_from_reply
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import replaced
from lm_factuality.harness import thinking
from lm_factuality.harness.internals import internal
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.harness.requests import (
    MAX_FAILURES,
    Encoder,
    is_a,
    is_refusal,
    scored_loglikelihood,
    server_is_gone,
    with_cache,
)

logger = logging.getLogger(__name__)

REQUEST_TYPE = "word_answers"
Way: TypeAlias = Literal["auto", "logprobs", "words"]
"""By what to answer: log-probabilities, the words that the model writes, or the first if it can."""

_LEADS = ("", " ")  # a template may leave the space before an answer to the model
_TOO_LONG = "the prompt is longer than the model's window"
_FORBIDDEN = 403  # HTTP: what OpenAI answers where a model's log-probabilities are not to be had
_REFUSED = "refused"  # why there is no answer: the server has decided on this one request
_TRIED = 4  # questions by which a server shows whether it sends log-probabilities
_FIRST_TOKENS = 4  # enough for an answer behind white space, where its text is not read
_OTHER_FORMS = (
    "AnthropicChat",
    "SGLANGGENERATEAPI",
)  # clients whose replies have not OpenAI's form: they read their texts


def word_answers(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[WordAnswer]:
    """Answer questions.

    Args:
        lm: Any model of lm_eval.
        requests: Their arguments are the prompt, the words, a `Way`, generation arguments,
            and the tokens to think if the model is to think.
        disable_tqdm: Whether to show no progress.

    Raises:
        ModelError: The model has no log-probabilities and they are asked for, its server stops
            answering, or a chat model is sent prompts without roles.
    """
    keys = [json.dumps(request.args, sort_keys=True) for request in requests]
    distinct = dict(zip(keys, requests, strict=True))
    groups: dict[str, list[str]] = {}  # the keys of requests that are to be answered alike
    for key, request in distinct.items():
        groups.setdefault(json.dumps(request.args[2:], sort_keys=True), []).append(key)
    answers: dict[str, WordAnswer] = {}
    for members in groups.values():
        group = [distinct[key] for key in members]
        answers.update(zip(members, _answer(lm, group, disable_tqdm), strict=True))
    return [answers[key] for key in keys]


def _answer(lm: LM, questions: Sequence[Instance], disable_tqdm: bool) -> Sequence[WordAnswer]:
    way, *arguments = questions[0].args[2:]
    if is_a(lm, "TemplateAPI"):
        return _AnswerServer(lm, arguments).answer(questions, way)
    can_score = isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None
    if way == "logprobs" or (way == "auto" and can_score):
        return _by_likelihood(lm, questions, disable_tqdm)
    generations = [
        _instance(thinking.REQUEST_TYPE, question, (question.args[0], *arguments))
        for question in questions
    ]
    return [WordAnswer(None, text) for text in thinking.answers_until(lm, generations)]


def _by_likelihood(lm: LM, questions: Sequence[Instance], disable_tqdm: bool) -> list[WordAnswer]:
    """Score each word as a continuation, with and without a space before it."""
    continuations = []
    for question in questions:
        for word in question.args[1]:
            for lead in _LEADS:
                arguments = (question.args[0], lead + word, None)
                continuations.append(_instance("scored_loglikelihood", question, arguments))
    scored = iter(scored_loglikelihood(lm, continuations, disable_tqdm))
    answers = []
    for question in questions:
        logprobs = []
        problem = ""
        for _ in question.args[1]:
            scores = [next(scored) for _ in _LEADS]
            for score in scores:
                problem = problem or score.problem or _TOO_LONG * score.truncated
            logprobs.append(_sum([score.logprob for score in scores if score.logprob is not None]))
        answers.append(WordAnswer(None, "", problem) if problem else WordAnswer(tuple(logprobs)))
    return answers


def _instance(request_type: str, question: Instance, arguments: tuple[Any, ...]) -> Instance:
    return Instance(request_type, question.doc, arguments, 0, question.metadata)


def first_word(
    alternatives: Sequence[tuple[str, float]], words: Sequence[str]
) -> tuple[float | None, ...] | None:
    """Return the log-probability of each word as the first token.

    Tokens that differ in case and white space alone are summed.

    Args:
        alternatives: The likeliest tokens with their log-probabilities.
        words: The words.

    Returns:
        None for a word that is not among the alternatives, and None as a whole if no word is.
    """
    logprobs = []
    for word in words:
        same = [
            logprob
            for token, logprob in alternatives
            if token.strip(BLANKS).lower() == word.lower()
        ]
        logprobs.append(_sum(same))
    return None if all(logprob is None for logprob in logprobs) else tuple(logprobs)


def _sum(logprobs: Sequence[float]) -> float | None:
    """Return the logarithm of the sum of probabilities, None if there are none."""
    if not logprobs:
        return None
    most = max(logprobs)
    return most + math.log(math.fsum(math.exp(logprob - most) for logprob in logprobs))


class _AnswerServer:
    """The server behind one of lm_eval's clients.

    It is asked with the client's own payload, headers and retries.
    """

    def __init__(self, lm: Any, arguments: Sequence[Any]) -> None:
        """Take the generation arguments, and the tokens to think if there are some."""
        self._lm = lm
        self._arguments = arguments
        self._endpoint = "chat" if is_a(lm, "LocalChatCompletion") else "completions"
        self._encoder = Encoder(lm) if lm.tokenized_requests else None
        self._attempts: Counter[str] = Counter()  # by request
        self._failures = 0  # in a row
        self._why_gone = ""  # the last of as many failures as show that the server is gone
        self._is_openai = not any(is_a(lm, name) for name in _OTHER_FORMS)
        for name in ("amodel_call", "get_batched_requests", "parse_generations"):
            internal(f"lm_eval.models.api_models:TemplateAPI.{name}")

    def answer(self, questions: Sequence[Instance], way: str) -> list[WordAnswer]:
        """Answer all questions in the way that the first of them show the server to have.

        What it has answered then is not asked again.
        """
        client = type(self._lm).__name__
        if self._endpoint == "chat" and any(isinstance(q.args[0], str) for q in questions):
            raise ModelError(f"{client}: a chat model is sent messages; pass --apply_chat_template")
        if way == "words" or (way == "auto" and not self._is_openai):
            return self._by_texts(questions, [])
        if not self._is_openai:
            raise ModelError(f"{client} reads no log-probabilities; pass --metadata answers=words")
        tried = questions[:_TRIED]
        replies, extra = self._probe(tried)
        if extra is not None:
            replies += self._send(questions[_TRIED:], {**extra, "max_gen_toks": _FIRST_TOKENS})
            return list(map(_by_first_token, replies, questions))
        problems = [answer.problem for answer in map(_by_first_token, replies, tried)]
        why = next(filter(None, problems))
        problem = f"{self._lm.base_url}: the server gives no log-probabilities of answers ({why})"
        if way == "logprobs":
            raise ModelError(
                f"{problem}; pass --metadata answers=words to read what the model writes"
            )
        logger.warning(
            "%s; what the model writes is read instead, and every probability is 0 or 1", problem
        )
        return self._by_texts(questions, replies)

    def _probe(self, tried: Sequence[Instance]) -> tuple[list[Answer], dict[str, Any] | None]:
        """Ask the first questions for log-probabilities.

        Returns:
            The replies, and the arguments by which the server gives log-probabilities, or None.

        Raises:
            ModelError: The server answers nothing.
        """
        is_chat = self._endpoint == "chat"
        replies: list[Answer] = []
        for count in (20, 5) if is_chat else (5,):  # the most alternatives that servers give
            extra = {"logprobs": True, "top_logprobs": count} if is_chat else {"logprobs": count}
            replies = self._send(tried, extra)
            self._failures = 0  # it may forbid log-probabilities, and be there
            if any(answer.logprobs for answer in map(_by_first_token, replies, tried)):
                return replies, extra
            if any(reply.text is not None for reply in replies):
                break
            if not any(reply.finish_reason == _REFUSED for reply in replies):
                raise ModelError(
                    f"{self._lm.base_url}: the first questions got no answer; the first one:"
                    f" {replies[0].error}"
                )
        return replies, None

    def _by_texts(self, questions: Sequence[Instance], replies: list[Answer]) -> list[WordAnswer]:
        """Read what the model writes; ``replies`` are to the first questions."""
        has_room = len(self._arguments) > 1  # with room to think, the model is asked anew
        if has_room or any(reply.text is None for reply in replies):
            replies = []
        answers = []
        for reply in replies + self._send(questions[len(replies) :], {}):
            text = thinking.within_limits(self._lm, reply.text or "", *self._arguments)
            answers.append(WordAnswer(None, text, reply.error or ""))
        return answers

    def _send(self, questions: Sequence[Instance], extra: Mapping[str, Any]) -> list[Answer]:
        """Get a reply to each question, from lm_eval's response cache where it has it.

        A reply that never came has an error.

        Raises:
            ModelError: So many requests in a row have failed that the server is gone.
        """
        generation, *tokens = self._arguments
        if tokens and not extra:
            generation = thinking.room_to_think(generation, *tokens)
        else:
            generation = {**generation, **extra}
        keys = [(question.args[0], generation, "whole reply") for question in questions]

        def send(places: list[int]) -> list[Answer]:
            prompts = []
            for place in places:
                prompt = questions[place].args[0]
                if isinstance(prompt, str) and self._encoder:
                    prompt = self._encoder.tokens(prompt)
                prompts.append(prompt)
            place_keys = [keys[place] for place in places]
            asked = self._lm.get_batched_requests(prompts, place_keys, gen_kwargs=generation)
            with replaced(
                self._lm,
                amodel_call=partial(self._call, self._lm.amodel_call),
                parse_generations=partial(self._parse, self._lm.parse_generations),
                _batch_size=1,
                # lm_eval reads num_concurrent=0 as one at a time, but would wait for ever here.
                _concurrent=max(1, self._lm._concurrent),
            ):
                return [reply for (reply,) in asyncio.run(asked)]

        replies: list[Answer] = with_cache(self._lm, "generate_until", keys, send)
        if self._why_gone:
            raise server_is_gone(self._why_gone)
        return replies

    def _parse(
        self, parse_generations: Callable[[Any], list[str]], outputs: Any, **_: Any
    ) -> list[Answer]:
        """Keep the whole reply, of which the client's ``parse_generations`` keeps the text."""
        if self._is_openai:
            return [answer_from_reply(outputs, self._endpoint)]
        return [Answer(parse_generations(outputs)[0])]

    async def _call(
        self, amodel_call: Any, cache_keys: Sequence[Any], **arguments: Any
    ) -> list[Answer]:
        """Send one prompt. An error is raised as long as the client is to try again."""
        from aiohttp import ClientError

        if self._why_gone:
            return [Answer(None)]
        errors = (ClientError, asyncio.TimeoutError, OSError, ValueError, LookupError, TypeError)
        try:
            answers: list[Answer] = await amodel_call(cache_keys=cache_keys, **arguments)
        except errors as error:
            is_final = isinstance(error, UnusableReplyError) or is_refusal(error)
            request = str(cache_keys)
            self._attempts[request] += 1
            if not is_final and self._attempts[request] < self._lm.max_retries:
                raise
            self._failures = 0 if is_final else self._failures + 1
            # A URL may hold a key, and the client's text of an error holds the URL.
            status = getattr(error, "status", None)
            why = f"HTTP {status}" if status else f"{type(error).__name__}: {error}"
            if self._failures >= MAX_FAILURES:
                self._why_gone = why
            reason = _REFUSED if is_final or status == _FORBIDDEN else None
            return [Answer(None, reason, error=f"the server gave no usable answer: {why}")]
        self._failures = 0
        return answers


def _by_first_token(reply: Answer, question: Instance) -> WordAnswer:
    words = question.args[1]
    logprobs = first_word(reply.first_token_logprobs or (), words)
    if logprobs is not None:
        return WordAnswer(logprobs, reply.text or "")
    if reply.text is None:
        return WordAnswer(None, "", reply.error or "")
    if reply.first_token_logprobs is None:
        return WordAnswer(None, reply.text, "no log-probabilities of a first token")
    why = f"no likely first token is one of {', '.join(words)}"
    return WordAnswer(None, reply.text, why)
