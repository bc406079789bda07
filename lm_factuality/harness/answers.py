"""A request type for lm_eval: which of some words a model gives for an answer, by their
log-probabilities where it has them.

A local model scores each word as a continuation of the prompt. lm_eval's clients of servers send a
prompt once and drop what is not text; here it is sent with ``logprobs`` and the whole reply is
read, so that the first token's alternatives answer for chat models too. A server without
``logprobs`` is asked for text alone. Equal questions are sent once."""

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM

from judges.answers import BLANKS, Answer
from judges.backends.server import BadReply, answer_in
from lm_factuality.ground.errors import ModelError
from lm_factuality.harness import thinking
from lm_factuality.harness.internals import internal
from lm_factuality.harness.outputs import WordAnswer
from lm_factuality.harness.requests import (
    MAX_FAILURES,
    Encoder,
    cached,
    is_a,
    is_refusal,
    scored_loglikelihood,
)

logger = logging.getLogger(__name__)

REQUEST_TYPE = "word_answers"
WAYS = ("auto", "logprobs", "words")

_LEADS = ("", " ")  # a template may leave the space before an answer to the model
_TOO_LONG = "the prompt is longer than the model's window"
_FORBIDDEN = 403  # HTTP: what OpenAI answers where a model's log-probabilities are not to be had
_REFUSED = "refused"  # why there is no answer: the server has decided on this one request
_TRIED = 4  # questions by which a server shows whether it sends log-probabilities
_FIRST_TOKENS = 4  # enough for an answer behind white space, where its text is not read
_ALTERNATIVES = {
    "chat": (20, 5),
    "completions": (5,),
}  # of a token: the most to ask for, then what every server has to give
_OTHER_FORMS = (
    "AnthropicChat",
    "SGLANGGENERATEAPI",
)  # clients whose replies have not OpenAI's form: they read their texts


def word_answers(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[WordAnswer]:
    """Answers to requests with arguments (prompt, words, way, generation arguments, tokens to think
    if any): by ``logprobs`` the words' log-probabilities, by ``words`` what the model writes, by
    ``auto`` log-probabilities where it has some. Raises ModelError: it has none and they are asked
    for, its server stops answering, or a chat model is sent prompts without roles."""
    keys = [json.dumps(request.args, sort_keys=True) for request in requests]
    distinct = dict(zip(keys, requests, strict=True))
    groups: dict[str, list[str]] = {}
    for key, request in distinct.items():
        groups.setdefault(json.dumps(request.args[2:], sort_keys=True), []).append(key)
    found: dict[str, WordAnswer] = {}
    for members in groups.values():
        found |= zip(
            members, _answer(lm, [distinct[key] for key in members], disable_tqdm), strict=True
        )
    return [found[key] for key in keys]


def _answer(lm: LM, asked: Sequence[Instance], disable_tqdm: bool) -> Sequence[WordAnswer]:
    way, *arguments = asked[0].args[2:]
    if is_a(lm, "TemplateAPI"):
        return _Server(lm, arguments, disable_tqdm).answer(asked, way)
    can_score = isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None
    if way == "logprobs" or (way == "auto" and can_score):
        return _by_likelihood(lm, asked, disable_tqdm)
    requests = [
        Instance(thinking.REQUEST_TYPE, each.doc, (each.args[0], *arguments), 0, each.metadata)
        for each in asked
    ]
    return [WordAnswer(None, text) for text in thinking.answers_until(lm, requests)]


def _by_likelihood(lm: LM, asked: Sequence[Instance], disable_tqdm: bool) -> list[WordAnswer]:
    wanted = [(each, lead + word) for each in asked for word in each.args[1] for lead in _LEADS]
    asks = [
        Instance("scored_loglikelihood", each.doc, (each.args[0], text, None), 0, each.metadata)
        for each, text in wanted
    ]
    scored = iter(scored_loglikelihood(lm, asks, disable_tqdm))
    answers = []
    for each in asked:
        found = [[next(scored) for _ in _LEADS] for _ in each.args[1]]
        problem = next(
            (
                why
                for row in found
                for score in row
                if (why := score.problem or _TOO_LONG * score.truncated)
            ),
            "",
        )
        logprobs = tuple(
            _sum([score.logprob for score in row if score.logprob is not None]) for row in found
        )
        answers.append(WordAnswer(None, "", problem) if problem else WordAnswer(logprobs))
    return answers


def first_word(
    alternatives: Sequence[tuple[str, float]], words: Sequence[str]
) -> tuple[float | None, ...] | None:
    """The log-probability of each word as first token, summed over case and white space, or None;
    None if there are none."""
    found = [
        [logprob for token, logprob in alternatives if token.strip(BLANKS).lower() == word.lower()]
        for word in words
    ]
    return tuple(map(_sum, found)) if any(found) else None


def _sum(logprobs: Sequence[float]) -> float | None:
    if not logprobs:
        return None
    most = max(logprobs)
    return most + math.log(math.fsum(math.exp(each - most) for each in logprobs))


class _Server:
    """The server behind one of lm_eval's clients, asked with the client's own payload, headers and
    retries."""

    def __init__(self, lm: Any, arguments: Sequence[Any], disable_tqdm: bool) -> None:
        """``arguments`` are those of the generation, and the tokens to think, if there are some."""
        self._lm, self._arguments, self._disable_tqdm = lm, arguments, disable_tqdm
        self._endpoint = "chat" if is_a(lm, "LocalChatCompletion") else "completions"
        self._encoder = Encoder(lm) if lm.tokenized_requests else None
        self._failures = 0
        self._is_openai = not any(is_a(lm, name) for name in _OTHER_FORMS)
        for name in ("amodel_call", "parse_generations"):
            internal(f"lm_eval.models.api_models:TemplateAPI.{name}")

    def answer(self, asked: Sequence[Instance], way: str) -> list[WordAnswer]:
        """The first questions show whether the server sends log-probabilities; what it has answered
        is not asked again."""
        if self._endpoint == "chat" and any(isinstance(each.args[0], str) for each in asked):
            raise ModelError(
                f"{type(self._lm).__name__}: a chat model is sent messages; pass"
                " --apply_chat_template"
            )
        if way == "logprobs" and not self._is_openai:
            raise ModelError(
                f"{type(self._lm).__name__} reads no log-probabilities; pass --metadata"
                " answers=words"
            )
        tried, replies = asked[:_TRIED], list[Answer]()
        for count in () if way == "words" or not self._is_openai else _ALTERNATIVES[self._endpoint]:
            extra = (
                {"logprobs": True, "top_logprobs": count}
                if self._endpoint == "chat"
                else {"logprobs": count}
            )
            replies, self._failures = (
                self._send(tried, extra),
                0,
            )  # it may forbid log-probabilities, and be there
            if any(_by_first_token(*each).logprobs for each in zip(replies, tried, strict=True)):
                replies += self._send(asked[_TRIED:], {**extra, "max_gen_toks": _FIRST_TOKENS})
                return [_by_first_token(*each) for each in zip(replies, asked, strict=True)]
            if any(reply.text is not None for reply in replies):
                break
            if not any(reply.finish_reason == _REFUSED for reply in replies):
                raise ModelError(
                    f"{self._lm.base_url}: the first questions got no answer; the first one:"
                    f" {replies[0].error}"
                )
        if replies:
            why = next(
                filter(
                    None,
                    (_by_first_token(*each).problem for each in zip(replies, tried, strict=True)),
                )
            )
            said = f"{self._lm.base_url}: the server gives no log-probabilities of answers ({why})"
            if way == "logprobs":
                raise ModelError(
                    f"{said}; pass --metadata answers=words to read what the model writes"
                )
            logger.warning(
                "%s; what the model writes is read instead, and every probability is 0 or 1", said
            )
        had_room = len(self._arguments) == 1  # none to think was wanted
        answered = {
            number: reply
            for number, reply in enumerate(replies)
            if reply.text is not None and had_room
        }
        wanted = [number for number in range(len(asked)) if number not in answered]
        answered |= zip(wanted, self._send([asked[number] for number in wanted], {}), strict=True)
        texts = (
            thinking.within_limits(self._lm, answered[place].text or "", *self._arguments)
            for place in range(len(asked))
        )
        return [
            WordAnswer(None, text, answered[place].error or "") for place, text in enumerate(texts)
        ]

    def _send(self, asked: Sequence[Instance], extra: Mapping[str, Any]) -> list[Answer]:
        """A reply to each, from lm_eval's response cache where it has it; one with an error where
        there is none."""
        generation, *tokens = self._arguments
        generation = (
            thinking.room_to_think(generation, *tokens)
            if tokens and not extra
            else {**generation, **extra}
        )
        keys = [(each.args[0], generation, "whole reply") for each in asked]
        replies: dict[int, Answer] = cached(self._lm, "generate_until", keys)
        if missing := [number for number in range(len(asked)) if number not in replies]:
            with self._whole_replies():
                prompts = [(asked[number].args[0], keys[number]) for number in missing]
                encoded = self._encoder.tokens if self._encoder else str
                calls = asyncio.run(
                    self._call_all(
                        [(encoded(p) if isinstance(p, str) else p, key) for p, key in prompts]
                    )
                )
            replies |= zip(missing, calls, strict=True)
        return [replies[number] for number in range(len(asked))]

    @contextlib.contextmanager
    def _whole_replies(self) -> Iterator[None]:
        """The client hands a reply to ``parse_generations``, which keeps the text."""
        read = self._lm.parse_generations

        def parse(outputs: Any, **_: Any) -> list[Answer]:
            if self._is_openai:
                return [answer_in(outputs, self._endpoint)]
            try:
                return [Answer(str(read(outputs)[0]))]
            except (LookupError, TypeError) as error:
                raise BadReply(f"a reply without a text: {str(outputs)[:80]!r}") from error

        self._lm.parse_generations = parse
        try:
            yield
        finally:
            del self._lm.parse_generations

    async def _call_all(self, calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> list[Answer]:
        from aiohttp import ClientSession, ClientTimeout, TCPConnector
        from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential
        from tqdm.asyncio import tqdm_asyncio

        lm, limit = self._lm, max(1, self._lm._concurrent)
        call = retry(
            stop=stop_after_attempt(lm.max_retries),
            wait=wait_exponential(multiplier=0.5, min=1, max=10),
            retry=retry_if_exception(lambda error: not _is_final(error)),
            reraise=True,
        )(lm.amodel_call)
        turn, connector = (
            asyncio.Semaphore(limit),
            TCPConnector(limit=limit, ssl=lm.verify_certificate),
        )
        async with ClientSession(
            connector=connector, timeout=ClientTimeout(total=lm.timeout)
        ) as session:
            one = partial(self._one, call, session=session, sem=turn)
            asks = (
                one(messages=[message], cache_keys=[key], gen_kwargs=key[1])
                for message, key in calls
            )
            tasks = list(map(asyncio.ensure_future, asks))
            try:
                found: list[Answer] = await tqdm_asyncio.gather(
                    *tasks, desc="asking", disable=self._disable_tqdm
                )
                return found
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, call: Any, **arguments: Any) -> Answer:
        """Raises ModelError: so many requests in a row have failed that the server is gone."""
        from aiohttp import ClientError

        try:
            (answer,) = await call(**arguments)
        except (ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            # A URL may hold a key, and the client's text of an error holds the URL.
            status = getattr(error, "status", None)
            why = f"HTTP {status}" if status else f"{type(error).__name__}: {error}"
            self._failures = 0 if _is_final(error) else self._failures + 1
            if self._failures >= MAX_FAILURES:
                raise ModelError(
                    f"{self._failures} requests in a row failed, the last with {why}; is the server"
                    " still there? With --use_cache a new run continues where this one ended."
                ) from error
            reason = _REFUSED if _is_final(error) or status == _FORBIDDEN else None
            return Answer(None, reason, error=f"the server gave no usable answer: {why}")
        self._failures = 0
        return answer  # type: ignore[no-any-return]


def _is_final(error: BaseException) -> bool:
    """Whether the server has decided on this one request, so that it would fail again and others
    need not."""
    return isinstance(error, BadReply) or (isinstance(error, Exception) and is_refusal(error))


def _by_first_token(reply: Answer, asked: Instance) -> WordAnswer:
    words = asked.args[1]
    logprobs = first_word(reply.first_token_logprobs or (), words)
    if logprobs is None and reply.text is not None:
        none = reply.first_token_logprobs is None
        why = (
            "no log-probabilities of a first token"
            if none
            else f"no likely first token is one of {', '.join(words)}"
        )
        return WordAnswer(None, reply.text, why)
    return WordAnswer(logprobs, reply.text or "", reply.error or "" if logprobs is None else "")
