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
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM

from judges.answers import BLANKS, Answer
from judges.backends.server import UnusableReplyError, answer_from_reply
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.records import to_model
from lm_factuality.harness import thinking
from lm_factuality.harness.internals import internal
from lm_factuality.harness.kept_answers import answer_kept
from lm_factuality.harness.outputs import ScoredContinuation, WordAnswer
from lm_factuality.harness.progress import reported_requests
from lm_factuality.harness.requests import (
    MAX_FAILURES,
    Encoder,
    is_a,
    is_refusal,
    request_like,
    scored_loglikelihood,
    server_is_gone,
)
from lm_factuality.harness.schema import check_takes_schema, has_openai_format

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

logger = logging.getLogger(__name__)

REQUEST_TYPE = "word_answers"
AnswerMethod: TypeAlias = Literal["auto", "logprobs", "words", "schema"]
"""How to read answers: from log-probabilities, from the words that the model writes, from the words
in a JSON object (`schema`), or ``auto``: from log-probabilities if the model has them."""

_LEADS = ("", " ")  # a template may leave the space before an answer to the model
_TOO_LONG = "the prompt is longer than the model's window"
_FORBIDDEN = 403  # HTTP: OpenAI's reply if a model's log-probabilities are not available
_REFUSED = "refused"  # the finish reason of a request that the server has turned down
_NUM_TRIAL_QUESTIONS = 4  # by which a server shows whether it sends log-probabilities
TOKENS_PER_WORD = 4  # that a server generates for one word, which may follow white space


def word_answers(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[WordAnswer]:
    """Answer questions whose answers are given words, such as yes and no.

    Equal questions are answered once.

    Args:
        lm: Any model of lm_eval.
        requests: The questions. The arguments of each are the prompt, the words, an `AnswerMethod`,
            the generation arguments, and, only for a model that thinks, the number of tokens that
            it may think. For example, ``("Is it true?", ["yes", "no"], "auto", {})``.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the requests.

    Raises:
        ModelError: The model has no log-probabilities and they are asked for, or its server stops
            answering.
    """
    # Equal questions have the same key, their arguments as JSON.
    keys = [json.dumps(request.args, sort_keys=True) for request in requests]

    # The questions by their options, which are all arguments but prompt and words, and by key.
    # Questions with the same options are answered together.
    questions_by_options: dict[str, dict[str, Instance]] = {}
    for key, question in zip(keys, requests, strict=True):
        options = json.dumps(question.args[2:], sort_keys=True)
        questions_by_options.setdefault(options, {})[key] = question

    answers: dict[str, WordAnswer] = {}
    for questions in questions_by_options.values():
        group_answers = _answer_group(lm, list(questions.values()), disable_tqdm)
        answers.update(zip(questions, group_answers, strict=True))
    return [answers[key] for key in keys]


def _answer_group(
    lm: LM, questions: Sequence[Instance], disable_tqdm: bool
) -> Sequence[WordAnswer]:
    """Answer questions that differ in nothing but their prompts and words.

    A server is asked for log-probabilities or texts, a local model scores each word as a
    continuation, and a model without a tokenizer generates texts.

    Args:
        lm: Any model of lm_eval.
        questions: The questions. The arguments of each are the prompt, the words, an
            `AnswerMethod` and the generation arguments, as in `word_answers`.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the questions.
    """
    # Only the prompts and the words differ, so the first question tells the other arguments.
    _, _, method, *generation_arguments = questions[0].args
    if is_a(lm, "TemplateAPI"):
        with reported_requests(lm, len(questions), "texts"):
            return _AnswerServer(lm, *generation_arguments).answer(questions, method)

    # A model must split texts into tokens to score a given word.
    can_score = isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None
    if method == "logprobs" or (method == "auto" and can_score):
        return _answers_by_likelihood(lm, questions, disable_tqdm)

    # The model writes what it likes, and the task looks for one of the words in its text.
    generations = []
    for question in questions:
        prompt = question.args[0]
        arguments = (prompt, *generation_arguments)
        generations.append(request_like(question, thinking.REQUEST_TYPE, arguments))
    return [WordAnswer(None, text) for text in thinking.answers_until(lm, generations)]


def _answers_by_likelihood(
    lm: LM, questions: Sequence[Instance], disable_tqdm: bool
) -> list[WordAnswer]:
    """Answer questions by the log-likelihood of each word as a continuation of the prompt.

    Each word is scored without and with a space before it, and the two probabilities are summed,
    because a prompt may or may not end in a space.

    Args:
        lm: A model that scores continuations.
        questions: The questions. The first two arguments of each are the prompt and the words.
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
                continuations.append(request_like(question, "scored_loglikelihood", arguments))
    # The scores come in the order of the continuations, so each question takes the next ones.
    all_scores = iter(scored_loglikelihood(lm, continuations, disable_tqdm))

    answers = []
    for question in questions:
        num_scores = len(question.args[1]) * len(_LEADS)
        answers.append(_answer_from_scores(list(islice(all_scores, num_scores))))
    return answers


def _answer_from_scores(scores: Sequence[ScoredContinuation]) -> WordAnswer:
    """Answer a question by the scores that the model gives to its words.

    Args:
        scores: Two scores per word, in the order of the words: without and with a space before it.

    Returns:
        The answer. The log-probability of each word is that of its two spellings together. If a
        score is missing, or the prompt was cut off, the answer only has this problem.
    """
    for score in scores:
        if score.problem:
            return WordAnswer(None, "", score.problem)
        if score.truncated:
            return WordAnswer(None, "", _TOO_LONG)

    logprobs = [score.logprob for score in scores if score.logprob is not None]
    word_logprobs = []
    for start in range(0, len(logprobs), len(_LEADS)):
        lead_logprobs = logprobs[start : start + len(_LEADS)]
        word_logprobs.append(_log_of_summed_probabilities(lead_logprobs))
    return WordAnswer(tuple(word_logprobs))


def first_word_logprobs(
    alternatives: Sequence[tuple[str, float]], words: Sequence[str]
) -> tuple[float | None, ...] | None:
    """Return the log-probability that a reply begins with each of several words.

    A word may have several tokens, such as ``Yes`` and `` yes``: case and the white space around a
    token do not count. Their probabilities are summed.

    Args:
        alternatives: The likeliest first tokens with their log-probabilities.
        words: The words.

    Returns:
        One log-probability per word, None for a word that is no alternative. None instead of the
        tuple if none of the words is an alternative.

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
    """Add up probabilities that are given as logarithms, and return the logarithm of their sum.

    Example:
        ``[log(0.2), log(0.3)]`` gives ``log(0.5)``, and an empty list gives None.
    """
    if not logprobs:
        return None
    # The largest is factored out, because the exponential of a very low logarithm is 0.
    largest = max(logprobs)
    return largest + math.log(math.fsum(math.exp(logprob - largest) for logprob in logprobs))


class _AnswerServer:
    """The server behind one of lm_eval's clients.

    It is asked with the client's own payload, headers and retries.
    """

    def __init__(
        self, lm: "TemplateAPI", generation: Mapping[str, Any], thinking_tokens: int = 0
    ) -> None:
        """Prepare the client, and check that lm_eval's client still has the methods used here.

        Args:
            lm: lm_eval's client of the server.
            generation: lm_eval's generation arguments.
            thinking_tokens: The number of tokens that the model may think; 0 if it does not think.

        Raises:
            ConfigError: The installed lm_eval lacks one of the methods.
        """
        # `_send` wraps these methods. If lm_eval renamed one, the wrapper would never be called.
        for name in ("amodel_call", "get_batched_requests", "parse_generations"):
            internal(f"lm_eval.models.api_models:TemplateAPI.{name}")

        self._lm = lm
        self._generation = generation
        self._thinking_tokens = thinking_tokens
        self._endpoint = "chat" if is_a(lm, "LocalChatCompletion") else "completions"
        self._encoder = Encoder(lm) if lm.tokenized_requests else None
        # Only replies in OpenAI's format have log-probabilities that this class can read.
        self._has_openai_format = has_openai_format(lm)

        self._attempts: Counter[str] = Counter()  # how often each request was sent and failed
        self._failures_in_a_row = 0
        self._last_failure: str | None = None  # set once the server counts as gone

    def answer(self, questions: Sequence[Instance], method: str) -> list[WordAnswer]:
        """Answer questions by log-probabilities or, if the server sends none, by texts.

        The first few questions are a trial: their replies show whether the server sends
        log-probabilities. They are not sent again if the replies can be used.

        Args:
            questions: The questions. The first two arguments of each are the prompt and the words.
            method: ``words`` or ``schema`` to read texts at once, ``logprobs`` to read nothing but
                log-probabilities, or ``auto``.

        Returns:
            The answers in the order of the questions.

        Raises:
            ModelError: Log-probabilities are required and the server has none, or it is gone.
        """
        if method == "schema":
            check_takes_schema(self._lm)
        if method in ("words", "schema") or (method == "auto" and not self._has_openai_format):
            return self._answers_by_text(questions, [])
        if not self._has_openai_format:
            client = type(self._lm).__name__
            raise ModelError(f"{client} reads no log-probabilities; pass --metadata answers=words")

        trial_questions = questions[:_NUM_TRIAL_QUESTIONS]
        replies, logprob_arguments = self._try_logprobs(trial_questions)
        if logprob_arguments is not None:
            one_word = {**logprob_arguments, "max_gen_toks": TOKENS_PER_WORD}
            replies += self._send(questions[_NUM_TRIAL_QUESTIONS:], one_word)
            return list(map(_answer_by_first_token, replies, questions))

        # No reply of the failed trial has log-probabilities, and each answer says why.
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
            The last replies, and the generation arguments with which the server sent
            log-probabilities, such as ``{"logprobs": 5}``. None instead of the arguments if it sent
            none of any word of the questions.

        Raises:
            ModelError: The server gives no answer, with or without log-probabilities.
        """
        # Servers limit how many alternatives of a token may be asked for: some chat servers to 20,
        # others to 5.
        trials: list[dict[str, Any]] = [{"logprobs": 5}]
        if self._endpoint == "chat":
            trials = [{"logprobs": True, "top_logprobs": number} for number in (20, 5)]

        replies: list[Answer] = []
        for arguments in trials:
            replies = self._send(questions, arguments)
            # A server that forbids log-probabilities fails every request of the trial. It is not
            # gone, so these failures do not count.
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
        # The trial gave the model no room to think, so a thinking model is asked again. If one of
        # its questions got no text, all of them are asked again, without log-probabilities.
        if self._thinking_tokens or any(reply.text is None for reply in replies):
            replies = []
        replies += self._send(questions[len(replies) :], {})

        answers = []
        for reply in replies:
            text = thinking.cut_answer_at_limits(
                self._lm, reply.text or "", self._generation, self._thinking_tokens
            )
            answers.append(WordAnswer(None, text, reply.error or ""))
        return answers

    def _send(
        self, questions: Sequence[Instance], extra_arguments: Mapping[str, Any]
    ) -> list[Answer]:
        """Return a reply to each question, from the answers on disk or else from the server.

        Args:
            questions: The questions. The first argument of each is the prompt.
            extra_arguments: Added to the generation arguments, such as ``{"logprobs": 5}``. Without
                any, a thinking model gets tokens to think.

        Returns:
            The replies in the order of the questions. Where the server gave none, its text is None
            and it has an error.

        Raises:
            ModelError: So many requests in a row have failed that the server is gone.
        """
        generation = {**self._generation, **extra_arguments}
        if self._thinking_tokens and not extra_arguments:
            generation = thinking.room_to_think(generation, self._thinking_tokens)
        # The third part keeps these replies, which have log-probabilities, apart from mere texts.
        cache_keys = [(question.args[0], generation, "whole reply") for question in questions]
        send_uncached = partial(self._send_uncached, cache_keys, generation)
        replies = [
            # A reply from disk is a mapping, as JSON has it.
            reply if isinstance(reply, Answer) else to_model(Answer, reply)
            for reply in answer_kept(self._lm, "generate_until", cache_keys, send_uncached)
        ]
        if self._last_failure is not None:
            raise server_is_gone(self._last_failure)
        return replies

    def _send_uncached(
        self,
        cache_keys: Sequence[Sequence[Any]],
        generation: Mapping[str, Any],
        indices: Sequence[int],
    ) -> list[Answer]:
        """Send prompts by lm_eval's client, and return whole replies instead of mere texts.

        The client would keep only the text of a reply, so two of its methods are replaced
        meanwhile by `_send_one` and `_parse`.

        Args:
            cache_keys: A key per question, under which its reply is kept on disk. The first part of
                a key is the prompt.
            generation: The generation arguments of all questions.
            indices: The positions of the questions to send, because their replies are not on disk.

        Returns:
            The replies in the order of the indices.
        """
        keys = [cache_keys[index] for index in indices]
        prompts = [key[0] for key in keys]
        # Some clients send the tokens of a text. Messages of a chat always stay as they are.
        if self._encoder:
            tokens = self._encoder.tokens
            prompts = [tokens(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        batches = self._lm.get_batched_requests(prompts, keys, gen_kwargs=generation)
        with replaced(
            self._lm,
            amodel_call=partial(self._send_one, self._lm.amodel_call),
            parse_generations=partial(self._parse, self._lm.parse_generations),
            # If one of several prompts in a batch failed, all of them would.
            _batch_size=1,
            # lm_eval reads num_concurrent=0 as one at a time, but would wait for ever here.
            _concurrent=max(1, self._lm._concurrent),
        ):
            # Each batch is one prompt, and has a list of one reply.
            return [batch_replies[0] for batch_replies in asyncio.run(batches)]

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
            outputs: The server's reply, parsed from JSON.
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
        """Send one prompt, and return an error as its reply when no further try would help.

        lm_eval's client calls this instead of its own ``amodel_call``, and again after an error.
        The last error would end the whole run, so it becomes the reply to this question.

        Args:
            amodel_call: The client's own method, which sends the prompt.
            cache_keys: The key under which the reply is kept, in a list of one.
            **arguments: The client's other arguments.

        Returns:
            The reply, in a list of one.

        Raises:
            Exception: This try failed, and the client has tries left.
        """
        from aiohttp import ClientError

        # `_count_failure` sets this once the server is gone. All other requests would only wait for
        # their timeouts.
        if self._last_failure is not None:
            return [Answer(None)]

        # The first three are errors of the connection, the others of a reply in another format.
        errors = (ClientError, asyncio.TimeoutError, OSError, ValueError, LookupError, TypeError)
        try:
            replies = await amodel_call(cache_keys=cache_keys, **arguments)
        except errors as error:
            is_refused = isinstance(error, UnusableReplyError) or is_refusal(error)
            # A Counter cannot count lists, so it counts their texts.
            request = str(cache_keys)
            self._attempts[request] += 1
            # A request that was turned down once would be turned down again.
            if not is_refused and self._attempts[request] < self._lm.max_retries:
                raise
            return [self._count_failure(error, is_refused)]
        self._failures_in_a_row = 0
        return replies

    def _count_failure(self, error: Exception, is_refused: bool) -> Answer:
        """Count a failed request, and make its error the reply to it.

        After too many failures in a row, the server counts as gone, and `_last_failure` is set.

        Args:
            error: The last error of the request.
            is_refused: Whether the server turned this request down, and so is still there.

        Returns:
            A reply without a text. Its error is, for example, ``the server gave no usable answer:
            HTTP 500``.
        """
        self._failures_in_a_row = 0 if is_refused else self._failures_in_a_row + 1

        # A URL may hold a key, and the client's text of an error holds the URL.
        status = getattr(error, "status", None)
        reason = f"HTTP {status}" if status else f"{type(error).__name__}: {error}"
        if self._failures_in_a_row >= MAX_FAILURES:
            self._last_failure = reason
        # HTTP 403 forbids the log-probabilities, not the question. As after a refusal, the trial
        # goes on with fewer of them or without.
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
    # Without a text, the server has not replied at all.
    if reply.text is None:
        return WordAnswer(None, "", reply.error or "")
    if reply.first_token_logprobs is None:
        return WordAnswer(None, reply.text, "no log-probabilities of a first token")
    problem = f"no likely first token is one of {', '.join(words)}"
    return WordAnswer(None, reply.text, problem)
