"""A request type for lm_eval: which of several words a model gives as its answer to a question.

`evaluation` gives models this request type, and tasks with questions send it. The answer is read
from the words' log-probabilities, where the model has them. A local model scores each word as a
continuation of the prompt. A server gets the prompt once, with ``logprobs``, and the alternatives
of its first token are read, which works for chat models too. A server without ``logprobs`` is asked
for text alone. Equal questions are sent once.
"""

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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
    answer_with_cache,
    is_a,
    is_refusal,
    scored_loglikelihood,
    server_is_gone,
)

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

logger = logging.getLogger(__name__)

REQUEST_TYPE = "word_answers"
AnswerMethod: TypeAlias = Literal["auto", "logprobs", "words"]
"""How to read answers: from log-probabilities, from the words that the model writes, or ``auto``:
from log-probabilities if the model has them."""

_LEADS = ("", " ")  # a template may leave the space before an answer to the model
_TOO_LONG = "the prompt is longer than the model's window"
_FORBIDDEN = 403  # HTTP: OpenAI's reply if a model's log-probabilities are not available
_REFUSED = "refused"  # the finish reason of a request that the server has turned down
_NUM_TRIAL_QUESTIONS = 4  # by which a server shows whether it sends log-probabilities
_FIRST_TOKENS = 4  # tokens to generate for one word, which may come after white space
# Clients of servers whose replies do not have OpenAI's format; they read the text themselves.
_OTHER_FORMATS = ("AnthropicChat", "SGLANGGENERATEAPI")


def word_answers(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[WordAnswer]:
    """Answer questions whose answers are given words, such as yes and no.

    Equal questions are answered once.

    Args:
        lm: Any model of lm_eval.
        requests: The questions. The arguments of each are the prompt, the words, an `AnswerMethod`,
            the generation arguments, and, only for a model that thinks, the number of tokens to
            think.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the requests.

    Raises:
        ModelError: The model has no log-probabilities and they are asked for, its server stops
            answering, or a chat model is sent prompts without roles.
    """
    keys = [json.dumps(request.args, sort_keys=True) for request in requests]
    question_by_key = dict(zip(keys, requests, strict=True))

    # Questions that differ in nothing but prompt and words are answered together.
    keys_by_options: dict[str, list[str]] = {}
    for key, question in question_by_key.items():
        options = json.dumps(question.args[2:], sort_keys=True)
        keys_by_options.setdefault(options, []).append(key)

    answers: dict[str, WordAnswer] = {}
    for group_keys in keys_by_options.values():
        group = [question_by_key[key] for key in group_keys]
        answers.update(zip(group_keys, _answer_group(lm, group, disable_tqdm), strict=True))
    return [answers[key] for key in keys]


def _answer_group(
    lm: LM, questions: Sequence[Instance], disable_tqdm: bool
) -> Sequence[WordAnswer]:
    """Answer questions that have the same method, generation arguments and room to think.

    A server is asked for log-probabilities or texts, a local model scores each word as a
    continuation, and a model without a tokenizer generates texts.

    Args:
        lm: Any model of lm_eval.
        questions: The questions, with arguments as in `word_answers`.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the questions.
    """
    method = questions[0].args[2]
    generation_arguments = questions[0].args[3:]
    if is_a(lm, "TemplateAPI"):
        return _AnswerServer(lm, generation_arguments).answer(questions, method)

    can_score = isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None
    if method == "logprobs" or (method == "auto" and can_score):
        return _answers_by_likelihood(lm, questions, disable_tqdm)

    generations = []
    for question in questions:
        prompt = question.args[0]
        arguments = (prompt, *generation_arguments)
        generations.append(_request_like(question, thinking.REQUEST_TYPE, arguments))
    return [WordAnswer(None, text) for text in thinking.answers_until(lm, generations)]


def _answers_by_likelihood(
    lm: LM, questions: Sequence[Instance], disable_tqdm: bool
) -> list[WordAnswer]:
    """Answer questions by the log-likelihood of each word as a continuation of the prompt.

    Each word is scored with and without a space before it, and the two probabilities are summed,
    because a template may or may not end in a space.

    Args:
        lm: A model that scores continuations.
        questions: The questions, with arguments as in `word_answers`.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers, each with the log-probabilities of its words or the problem of one of them.
    """
    continuations = []
    for question in questions:
        prompt, words = question.args[:2]
        for word in words:
            for lead in _LEADS:
                arguments = (prompt, lead + word, None)
                continuations.append(_request_like(question, "scored_loglikelihood", arguments))
    all_scores = iter(scored_loglikelihood(lm, continuations, disable_tqdm))

    answers = []
    for question in questions:
        words = question.args[1]
        word_logprobs = []
        problem = ""
        for _ in words:
            # The scores come in the order in which the continuations were built.
            lead_scores = [next(all_scores) for _ in _LEADS]
            for score in lead_scores:
                if not problem:
                    problem = score.problem or (_TOO_LONG if score.truncated else "")
            logprobs = [score.logprob for score in lead_scores if score.logprob is not None]
            word_logprobs.append(_log_of_summed_probabilities(logprobs))
        if problem:
            answers.append(WordAnswer(None, "", problem))
        else:
            answers.append(WordAnswer(tuple(word_logprobs)))
    return answers


def _request_like(question: Instance, request_type: str, arguments: tuple[Any, ...]) -> Instance:
    """Make a request of another type for the row of a question."""
    return Instance(request_type, question.doc, arguments, 0, question.metadata)


def first_word_logprobs(
    alternatives: Sequence[tuple[str, float]], words: Sequence[str]
) -> tuple[float | None, ...] | None:
    """Return the log-probability that a reply begins with each of several words.

    Tokens that differ from a word in case and white space alone are that word; their probabilities
    are summed.

    Args:
        alternatives: The likeliest first tokens with their log-probabilities.
        words: The words.

    Returns:
        One log-probability or None per word, in their order. None instead of the tuple if no
        alternative is one of the words.

    Example:
        ``[(" Yes", -0.1), ("No", -2.5)]`` with the words yes, no, maybe gives
        ``(-0.1, -2.5, None)``.
    """
    logprobs = []
    for word in words:
        token_logprobs = [
            logprob
            for token, logprob in alternatives
            if token.strip(BLANKS).lower() == word.lower()
        ]
        logprobs.append(_log_of_summed_probabilities(token_logprobs))
    if all(logprob is None for logprob in logprobs):
        return None
    return tuple(logprobs)


def _log_of_summed_probabilities(logprobs: Sequence[float]) -> float | None:
    """Return the logarithm of the sum of probabilities given by logarithms; None if none is given.

    The largest is factored out, so that tiny probabilities do not vanish.
    """
    if not logprobs:
        return None
    largest = max(logprobs)
    return largest + math.log(math.fsum(math.exp(logprob - largest) for logprob in logprobs))


class _AnswerServer:
    """The server behind one of lm_eval's clients.

    It is asked with the client's own payload, headers and retries.
    """

    def __init__(self, lm: "TemplateAPI", generation_arguments: Sequence[Any]) -> None:
        """Prepare the client, and check that lm_eval's client still has the methods used here.

        Args:
            lm: lm_eval's client of the server.
            generation_arguments: lm_eval's generation arguments, followed by the number of tokens
                to think if the model is to think.

        Raises:
            ConfigError: The installed lm_eval lacks one of the methods.
        """
        # `_send` wraps these methods. If lm_eval renamed one, the wrapper would never be called.
        for name in ("amodel_call", "get_batched_requests", "parse_generations"):
            internal(f"lm_eval.models.api_models:TemplateAPI.{name}")

        self._lm = lm
        self._generation_arguments = generation_arguments
        self._is_thinking = len(generation_arguments) > 1
        self._endpoint = "chat" if is_a(lm, "LocalChatCompletion") else "completions"
        self._encoder = Encoder(lm) if lm.tokenized_requests else None
        self._has_openai_format = not any(is_a(lm, name) for name in _OTHER_FORMATS)

        self._attempts: Counter[str] = Counter()  # by request
        self._failures_in_a_row = 0
        self._last_failure: str | None = None  # set once the server counts as gone

    def answer(self, questions: Sequence[Instance], method: str) -> list[WordAnswer]:
        """Answer all questions, by log-probabilities if the server sends them for the first ones.

        Otherwise the text is read, unless ``method`` forbids it. Questions that the server has
        answered in the trial are not sent again.

        Args:
            questions: The questions, with arguments as in `word_answers`.
            method: An `AnswerMethod`.

        Returns:
            The answers in the order of the questions.

        Raises:
            ModelError: Prompts of a chat model have no roles, log-probabilities are required and
                the server has none, or the server is gone.
        """
        client = type(self._lm).__name__
        is_plain_text = any(isinstance(question.args[0], str) for question in questions)
        if self._endpoint == "chat" and is_plain_text:
            raise ModelError(f"{client}: a chat model is sent messages; pass --apply_chat_template")
        if method == "words" or (method == "auto" and not self._has_openai_format):
            return self._answers_by_text(questions, [])
        if not self._has_openai_format:
            raise ModelError(f"{client} reads no log-probabilities; pass --metadata answers=words")

        trial_questions = questions[:_NUM_TRIAL_QUESTIONS]
        replies, logprob_arguments = self._try_logprobs(trial_questions)
        if logprob_arguments is not None:
            one_word = {**logprob_arguments, "max_gen_toks": _FIRST_TOKENS}
            replies += self._send(questions[_NUM_TRIAL_QUESTIONS:], one_word)
            return list(map(_answer_by_first_token, replies, questions))

        trial_answers = map(_answer_by_first_token, replies, trial_questions)
        reason = next(answer.problem for answer in trial_answers if answer.problem)
        problem = (
            f"{self._lm.base_url}: the server gives no log-probabilities of answers ({reason})"
        )
        if method == "logprobs":
            raise ModelError(
                f"{problem}; pass --metadata answers=words to read what the model writes"
            )
        logger.warning(
            "%s; what the model writes is read instead, and every probability is 0 or 1", problem
        )
        return self._answers_by_text(questions, replies)

    def _try_logprobs(
        self, questions: Sequence[Instance]
    ) -> tuple[list[Answer], dict[str, Any] | None]:
        """Ask the first questions for log-probabilities, to see whether the server sends them.

        Args:
            questions: The first questions.

        Returns:
            The replies, and the generation arguments with which the server sent log-probabilities
            of one of the words, or None if it did not.

        Raises:
            ModelError: The server answers nothing.
        """
        # Servers limit the number of alternatives: chat to 20 or 5, completions to 5.
        trials: list[dict[str, Any]] = [{"logprobs": 5}]
        if self._endpoint == "chat":
            trials = [{"logprobs": True, "top_logprobs": number} for number in (20, 5)]

        replies: list[Answer] = []
        for arguments in trials:
            replies = self._send(questions, arguments)
            # A server that forbids log-probabilities is not gone.
            self._failures_in_a_row = 0

            answers = map(_answer_by_first_token, replies, questions)
            if any(answer.logprobs for answer in answers):
                return replies, arguments
            # The server answers, but without log-probabilities.
            if any(reply.text is not None for reply in replies):
                break
            # A server that refuses 20 alternatives may take 5.
            if not any(reply.finish_reason == _REFUSED for reply in replies):
                raise ModelError(
                    f"{self._lm.base_url}: the first questions got no answer; the first one:"
                    f" {replies[0].error}"
                )
        return replies, None

    def _answers_by_text(
        self, questions: Sequence[Instance], trial_replies: Sequence[Answer]
    ) -> list[WordAnswer]:
        """Answer questions by the texts that the model writes.

        Args:
            questions: The questions, with arguments as in `word_answers`.
            trial_replies: The replies to the first questions, from the trial; may be empty.

        Returns:
            The answers, with texts and without log-probabilities.
        """
        replies = list(trial_replies)
        # The trial gave the model no room to think, so a thinking model is asked again.
        if self._is_thinking or any(reply.text is None for reply in replies):
            replies = []
        replies += self._send(questions[len(replies) :], {})

        answers = []
        for reply in replies:
            text = thinking.cut_answer_at_limits(
                self._lm, reply.text or "", *self._generation_arguments
            )
            answers.append(WordAnswer(None, text, reply.error or ""))
        return answers

    def _send(
        self, questions: Sequence[Instance], extra_arguments: Mapping[str, Any]
    ) -> list[Answer]:
        """Get a reply to each question, from lm_eval's response cache where it has one.

        Args:
            questions: The questions, of which the prompts are sent.
            extra_arguments: Arguments of the server's API that are added to the generation
                arguments; without any, a thinking model gets room to think.

        Returns:
            The replies in the order of the questions. A reply that never came has an error.

        Raises:
            ModelError: So many requests in a row have failed that the server is gone.
        """
        generation, *thinking_tokens = self._generation_arguments
        if thinking_tokens and not extra_arguments:
            generation = thinking.room_to_think(generation, *thinking_tokens)
        else:
            generation = {**generation, **extra_arguments}
        # The third part keeps these replies apart from the texts that lm_eval itself caches.
        cache_keys = [(question.args[0], generation, "whole reply") for question in questions]

        def send_uncached(indices: list[int]) -> list[Answer]:
            """Send the questions with these indices, with methods of ours in the client."""
            prompts = [self._encoded_prompt(questions[index].args[0]) for index in indices]
            keys = [cache_keys[index] for index in indices]
            batches = self._lm.get_batched_requests(prompts, keys, gen_kwargs=generation)
            with replaced(
                self._lm,
                amodel_call=partial(self._send_one, self._lm.amodel_call),
                parse_generations=partial(self._parse, self._lm.parse_generations),
                _batch_size=1,
                # lm_eval reads num_concurrent=0 as one at a time, but would wait for ever here.
                _concurrent=max(1, self._lm._concurrent),
            ):
                return [reply for (reply,) in asyncio.run(batches)]

        replies: list[Answer] = answer_with_cache(
            self._lm, "generate_until", cache_keys, send_uncached
        )
        if self._last_failure is not None:
            raise server_is_gone(self._last_failure)
        return replies

    def _encoded_prompt(self, prompt: object) -> object:
        """Return a prompt as token ids if the client sends tokens, and messages unchanged."""
        if isinstance(prompt, str) and self._encoder:
            return self._encoder.tokens(prompt)
        return prompt

    def _parse(
        self,
        parse_generations: Callable[[object], list[str]],
        outputs: Mapping[str, Any],
        **_: Any,
    ) -> list[Answer]:
        """Read a server's reply with its log-probabilities, which the client would drop.

        Args:
            parse_generations: The client's own method, which reads the text alone. It is used for
                replies that do not have OpenAI's format.
            outputs: The server's reply as JSON.
            **_: Further arguments of the client's method, ignored.

        Returns:
            The reply, in a list of one.
        """
        if self._has_openai_format:
            return [answer_from_reply(outputs, self._endpoint)]
        return [Answer(parse_generations(outputs)[0])]

    async def _send_one(
        self,
        amodel_call: Callable[..., Awaitable[list[Answer]]],
        cache_keys: Sequence[object],
        **arguments: Any,
    ) -> list[Answer]:
        """Send one prompt, and turn the last of its failures into a reply with an error.

        Counts the attempts and failures, and notes when the server counts as gone.

        Args:
            amodel_call: The client's own method, which sends the prompt.
            cache_keys: The request's key in the response cache, in a list of one.
            **arguments: The client's other arguments.

        Returns:
            The reply, in a list of one.

        Raises:
            Exception: The request failed, and the client is to try it again.
        """
        from aiohttp import ClientError

        # Once the server is gone, the remaining requests would only wait for their timeouts.
        if self._last_failure is not None:
            return [Answer(None)]

        # Errors of the connection, and of a reply that has another format.
        errors = (ClientError, asyncio.TimeoutError, OSError, ValueError, LookupError, TypeError)
        try:
            replies = await amodel_call(cache_keys=cache_keys, **arguments)
        except errors as error:
            is_refused = isinstance(error, UnusableReplyError) or is_refusal(error)
            # The keys hold dictionaries, which cannot be counted themselves.
            request = str(cache_keys)
            self._attempts[request] += 1
            if not is_refused and self._attempts[request] < self._lm.max_retries:
                raise
            return [self._count_failure(error, is_refused)]
        self._failures_in_a_row = 0
        return replies

    def _count_failure(self, error: Exception, is_refused: bool) -> Answer:
        """Count a failed request, and return a reply with its error.

        After too many failures in a row, the server counts as gone.

        Args:
            error: The last error of the request.
            is_refused: Whether the server is there and has turned this one request down.
        """
        self._failures_in_a_row = 0 if is_refused else self._failures_in_a_row + 1

        # A URL may hold a key, and the client's text of an error holds the URL.
        status = getattr(error, "status", None)
        reason = f"HTTP {status}" if status else f"{type(error).__name__}: {error}"
        if self._failures_in_a_row >= MAX_FAILURES:
            self._last_failure = reason
        # A request for log-probabilities that is forbidden is answered without them.
        finish_reason = _REFUSED if is_refused or status == _FORBIDDEN else None
        return Answer(None, finish_reason, error=f"the server gave no usable answer: {reason}")


def _answer_by_first_token(reply: Answer, question: Instance) -> WordAnswer:
    """Answer a question by the log-probabilities of the reply's first token.

    Args:
        reply: The server's reply.
        question: The question, of which the second argument is the words.

    Returns:
        The answer. It has a problem if no reply came, the reply has no log-probabilities, or none
        of the words is among the likely first tokens.
    """
    words = question.args[1]
    logprobs = first_word_logprobs(reply.first_token_logprobs or (), words)
    if logprobs is not None:
        return WordAnswer(logprobs, reply.text or "")
    if reply.text is None:
        return WordAnswer(None, "", reply.error or "")
    if reply.first_token_logprobs is None:
        return WordAnswer(None, reply.text, "no log-probabilities of a first token")
    problem = f"no likely first token is one of {', '.join(words)}"
    return WordAnswer(None, reply.text, problem)
