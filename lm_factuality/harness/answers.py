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
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM

from judges.answers import BLANKS, Answer
from judges.backends.server import UnusableReplyError, answer_from_reply
from lm_factuality.ground.errors import ModelError
from lm_factuality.ground.groups import split_into_groups
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.records import to_model
from lm_factuality.harness import thinking
from lm_factuality.harness.internals import lm_eval_part
from lm_factuality.harness.kept_answers import answer_kept
from lm_factuality.harness.outputs import ScoredContinuation, WordAnswer
from lm_factuality.harness.progress import reported_requests
from lm_factuality.harness.requests import (
    MAX_FAILURES,
    Encoder,
    has_class_named,
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

_SPACES = ("", " ")  # before a word; a template may leave the space to the model
_TOO_LONG = "the prompt is longer than the model's window"
_FORBIDDEN = 403  # HTTP: OpenAI's reply if a model's log-probabilities are not available
_REFUSED = "refused"  # the finish reason of a request that the server has turned down
# Servers limit how many alternatives of a token may be asked for: some chat servers to 20, others
# to 5. The arguments are tried in this order.
_LOGPROB_ARGUMENTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "chat": ({"logprobs": True, "top_logprobs": 20}, {"logprobs": True, "top_logprobs": 5}),
    "completions": ({"logprobs": 5},),
}
_NUM_TRIAL_QUESTIONS = 4  # by which a server shows whether it sends log-probabilities
TOKENS_PER_WORD = 4  # that a server generates for one word, which may follow white space


class WordQuestion(NamedTuple):
    """The arguments of a request of the type ``word_answers``."""

    prompt: Any
    """The prompt: a text, or what lm_eval's client of a chat server takes."""

    words: Sequence[str]
    """The possible answers, such as ``["yes", "no"]``."""

    method: AnswerMethod
    """How the answer is read from the model's output."""

    generation_kwargs: Mapping[str, Any]
    """lm_eval's generation arguments, such as ``{"until": ["."], "max_gen_toks": 64}``."""

    thinking_tokens: int = 0
    """How many tokens the model may think. Only requests to models that think have it."""


def word_answers(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool = False
) -> list[WordAnswer]:
    """Answer questions whose answers are given words, such as yes and no.

    Equal questions are answered once.

    Args:
        lm: Any model of lm_eval.
        requests: The questions. The arguments of each are a `WordQuestion`, for example ``("Is it
            true?", ["yes", "no"], "auto", {})``.
        disable_tqdm: Whether to hide the progress bar.

    Returns:
        The answers in the order of the requests.

    Raises:
        ModelError: The model has no log-probabilities and they are asked for, or its server stops
            answering.
    """
    # Equal questions have the same key, so only one of them is asked.
    keys = [_as_json(request.args) for request in requests]
    request_by_key = dict(zip(keys, requests, strict=True))

    # Questions with the same options are answered together.
    keys_by_options: dict[str, list[str]] = defaultdict(list)
    for key, request in request_by_key.items():
        question = WordQuestion(*request.args)
        options = (question.method, question.generation_kwargs, question.thinking_tokens)
        keys_by_options[_as_json(options)].append(key)

    answer_by_key: dict[str, WordAnswer] = {}
    for group_keys in keys_by_options.values():
        group = [request_by_key[key] for key in group_keys]
        answers = _answer_group(lm, group, disable_tqdm)
        answer_by_key.update(zip(group_keys, answers, strict=True))
    return [answer_by_key[key] for key in keys]


def _as_json(arguments: Sequence[Any]) -> str:
    """Return arguments of a request as a text that can be a key of a dictionary."""
    return json.dumps(arguments, sort_keys=True)


def _answer_group(lm: LM, requests: Sequence[Instance], disable_tqdm: bool) -> Sequence[WordAnswer]:
    """Answer questions with the same method and options, in their order.

    A server is asked for log-probabilities or texts, a local model scores each word as a
    continuation, and a model without a tokenizer generates texts.
    """
    questions = [WordQuestion(*request.args) for request in requests]
    # All questions have the method and the options of the first one.
    first = questions[0]
    if has_class_named(lm, "TemplateAPI"):
        server = _AnswerServer(lm, first.generation_kwargs, first.thinking_tokens)
        with reported_requests(lm, len(questions), "texts"):
            return server.answer(questions, first.method)

    # A model must split texts into tokens to score a given word.
    can_score = isinstance(lm, TemplateLM) and getattr(lm, "tokenizer", None) is not None
    if first.method == "logprobs" or (first.method == "auto" and can_score):
        return _answers_by_likelihood(lm, requests, disable_tqdm)
    return _answers_by_generation(lm, requests)


def _answers_by_generation(lm: LM, requests: Sequence[Instance]) -> list[WordAnswer]:
    """Answer questions by the texts that the model writes. The task looks for the words in them."""
    text_requests = []
    for request in requests:
        prompt, _, _, generation_kwargs, thinking_tokens = WordQuestion(*request.args)
        arguments = (prompt, generation_kwargs, thinking_tokens)
        text_requests.append(request_like(request, thinking.REQUEST_TYPE, arguments))
    return [WordAnswer(None, text) for text in thinking.answers_until(lm, text_requests)]


def _answers_by_likelihood(
    lm: LM, requests: Sequence[Instance], disable_tqdm: bool
) -> list[WordAnswer]:
    """Answer questions by the log-likelihood of each word as a continuation of the prompt.

    Each word is scored without and with a space before it, because a prompt may or may not end in a
    space. The question ``Is it true?`` with the words yes and no has the four continuations
    ``yes``, `` yes``, ``no`` and `` no``.
    """
    continuations = []
    num_words = []
    for request in requests:
        prompt, words, *_ = WordQuestion(*request.args)
        num_words.append(len(words))
        for word in words:
            for space in _SPACES:
                arguments = (prompt, space + word, None)
                continuations.append(request_like(request, "scored_loglikelihood", arguments))
    scores = scored_loglikelihood(lm, continuations, disable_tqdm)

    # The scores come in the order of the continuations.
    scores_by_word = split_into_groups(scores, [len(_SPACES)] * sum(num_words))
    scores_by_question = split_into_groups(scores_by_word, num_words)
    return list(map(_answer_from_scores, scores_by_question))


def _answer_from_scores(scores_by_word: Sequence[Sequence[ScoredContinuation]]) -> WordAnswer:
    """Answer a question by the scores that the model gives to its words.

    Args:
        scores_by_word: Two scores for each word: without and with a space before it.

    Returns:
        The answer. The log-probability of each word is that of its two spellings together. If a
        score is missing, or the prompt was cut off, the answer only has this problem.
    """
    word_logprobs = []
    for scores in scores_by_word:
        spelling_logprobs = []
        for score in scores:
            if score.logprob is None:
                return WordAnswer(None, "", score.problem)
            if score.truncated:
                return WordAnswer(None, "", _TOO_LONG)
            spelling_logprobs.append(score.logprob)
        word_logprobs.append(_log_of_summed_probabilities(spelling_logprobs))
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
        One log-probability per word, None for a word that is no alternative. If none of the words
        is an alternative, None in place of the tuple.

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


class _Trial(NamedTuple):
    """The outcome of asking a server for log-probabilities of a few questions."""

    replies: list[Answer]
    """The replies to these questions, with or without log-probabilities."""

    logprob_arguments: Mapping[str, Any] | None
    """The generation arguments that got log-probabilities, such as ``{"logprobs": 5}``; or None."""

    problem: str = ""
    """Why the server gave no log-probabilities; empty if it gave some."""


class _AnswerServer:
    """The server behind one of lm_eval's clients.

    It is asked with the client's own payload, headers and retries.
    """

    def __init__(
        self, lm: "TemplateAPI", generation_kwargs: Mapping[str, Any], thinking_tokens: int
    ) -> None:
        """Prepare the client, and check that lm_eval's client still has the methods used here.

        Args:
            lm: lm_eval's client of the server.
            generation_kwargs: lm_eval's generation arguments.
            thinking_tokens: The number of tokens that the model may think; 0 if it does not think.

        Raises:
            ConfigError: The installed lm_eval lacks one of the methods.
        """
        # `_send` wraps these methods. If lm_eval renamed one, the wrapper would never be called.
        for name in ("amodel_call", "get_batched_requests", "parse_generations"):
            lm_eval_part(f"lm_eval.models.api_models:TemplateAPI.{name}")

        self._lm = lm
        self._generation_kwargs = generation_kwargs
        self._thinking_tokens = thinking_tokens
        self._endpoint = "chat" if has_class_named(lm, "LocalChatCompletion") else "completions"
        self._encoder = Encoder(lm) if lm.tokenized_requests else None
        # Only replies in OpenAI's format have log-probabilities that this class can read.
        self._has_openai_format = has_openai_format(lm)

        self._attempts: Counter[str] = Counter()  # how often each request was sent and failed
        self._failures_in_a_row = 0
        self._last_failure: str | None = None  # set once the server counts as gone

    def answer(self, questions: Sequence[WordQuestion], method: AnswerMethod) -> list[WordAnswer]:
        """Answer questions by log-probabilities or, if the server sends none, by texts.

        The first few questions are a trial: their replies show whether the server sends
        log-probabilities. They are not sent again if the replies can be used.

        Args:
            questions: The questions.
            method: ``words`` or ``schema`` to read texts at once, ``logprobs`` to read nothing but
                log-probabilities, or ``auto``.

        Returns:
            The answers in the order of the questions.

        Raises:
            ModelError: Log-probabilities are required and the server has none, or it is gone.
        """
        if method == "schema":
            check_takes_schema(self._lm)
        reads_logprobs = method == "logprobs" or (method == "auto" and self._has_openai_format)
        if not reads_logprobs:
            return self._answers_by_text(questions, [])
        if not self._has_openai_format:
            client = type(self._lm).__name__
            raise ModelError(f"{client} reads no log-probabilities; pass --metadata answers=words")

        trial = self._try_logprobs(questions[:_NUM_TRIAL_QUESTIONS])
        if trial.logprob_arguments is None:
            self._report_missing_logprobs(trial.problem, is_error=method == "logprobs")
            return self._answers_by_text(questions, trial.replies)

        kwargs_for_word = {
            **self._generation_kwargs,
            **trial.logprob_arguments,
            "max_gen_toks": TOKENS_PER_WORD,
        }
        later_replies = self._send(questions[_NUM_TRIAL_QUESTIONS:], kwargs_for_word)
        return list(map(_answer_by_first_token, [*trial.replies, *later_replies], questions))

    def _try_logprobs(self, questions: Sequence[WordQuestion]) -> _Trial:
        """Ask the first questions for log-probabilities, to see whether the server sends them.

        Raises:
            ModelError: The server gives no answer, with or without log-probabilities.
        """
        for logprob_arguments in _LOGPROB_ARGUMENTS[self._endpoint]:
            replies = self._send(questions, {**self._generation_kwargs, **logprob_arguments})
            # A server that forbids log-probabilities fails every request of the trial. It is not
            # gone, so these failures do not count.
            self._failures_in_a_row = 0
            # A text shows that the server takes the arguments.
            if any(reply.text is not None for reply in replies):
                break
            # A server that refuses 20 alternatives may take 5.
            if not any(reply.finish_reason == _REFUSED for reply in replies):
                raise ModelError(
                    f"{self._lm.base_url}: the first questions got no answer; the first one:"
                    f" {replies[0].error}"
                )

        answers = list(map(_answer_by_first_token, replies, questions))
        if any(answer.logprobs for answer in answers):
            return _Trial(replies, logprob_arguments)
        problem = next(answer.problem for answer in answers if answer.problem)
        return _Trial(replies, logprob_arguments=None, problem=problem)

    def _report_missing_logprobs(self, reason: str, is_error: bool) -> None:
        """Warn that the server gives no log-probabilities, or raise a ModelError that says so."""
        problem = (
            f"{self._lm.base_url}: the server gives no log-probabilities of answers ({reason})"
        )
        if is_error:
            raise ModelError(
                f"{problem}; pass --metadata answers=words to read what the model writes"
            )
        logger.warning(
            "%s; what the model writes is read instead, and every probability is 0 or 1", problem
        )

    def _answers_by_text(
        self, questions: Sequence[WordQuestion], trial_replies: Sequence[Answer]
    ) -> list[WordAnswer]:
        """Answer questions by the texts that the model writes.

        Args:
            questions: The questions.
            trial_replies: The replies to the first questions when they were asked for
                log-probabilities (`_try_logprobs`); may be empty.

        Returns:
            The answers, with texts and without log-probabilities.
        """
        # A thinking model had no room to think in the trial. A question without a text may have
        # failed because of the log-probabilities. In both cases the replies are not reused.
        has_all_texts = all(reply.text is not None for reply in trial_replies)
        reused_replies = trial_replies if has_all_texts and not self._thinking_tokens else ()

        generation_kwargs = dict(self._generation_kwargs)
        if self._thinking_tokens:
            generation_kwargs = thinking.room_to_think(generation_kwargs, self._thinking_tokens)
        new_replies = self._send(questions[len(reused_replies) :], generation_kwargs)

        answers = []
        for reply in (*reused_replies, *new_replies):
            text = thinking.cut_answer_at_limits(
                self._lm, reply.text or "", self._generation_kwargs, self._thinking_tokens
            )
            answers.append(WordAnswer(None, text, reply.error or ""))
        return answers

    def _send(
        self, questions: Sequence[WordQuestion], generation_kwargs: Mapping[str, Any]
    ) -> list[Answer]:
        """Return a reply to each question, from the answers on disk or else from the server.

        Args:
            questions: The questions.
            generation_kwargs: lm_eval's generation arguments for all of them.

        Returns:
            The replies in the order of the questions. Where the server gave none, its text is None
            and it has an error.

        Raises:
            ModelError: So many requests in a row have failed that the server is gone.
        """
        # The third part keeps these replies, which have log-probabilities, apart from mere texts.
        cache_keys = [(question.prompt, generation_kwargs, "whole reply") for question in questions]
        send = partial(self._send_by_client, questions, cache_keys, generation_kwargs)

        replies = []
        for reply in answer_kept(self._lm, cache_keys, send):
            # A reply from disk is a mapping, as JSON has it.
            replies.append(reply if isinstance(reply, Answer) else to_model(Answer, reply))
        if self._last_failure is not None:
            raise server_is_gone(self._last_failure)
        return replies

    def _send_by_client(
        self,
        questions: Sequence[WordQuestion],
        cache_keys: Sequence[Sequence[Any]],
        generation_kwargs: Mapping[str, Any],
        indices: Sequence[int],
    ) -> list[Answer]:
        """Send questions by lm_eval's client, and return whole replies with log-probabilities.

        The client would keep only the text of a reply. Therefore `_send_one` and `_parse` replace
        two of its methods while it sends.

        Args:
            questions: All questions.
            cache_keys: A key per question, under which its reply is kept on disk.
            generation_kwargs: The generation arguments of all questions.
            indices: The indices of the questions to send. The replies to the others are on disk.

        Returns:
            The replies in the order of the indices.
        """
        prompts = [self._encode(questions[index].prompt) for index in indices]
        keys = [cache_keys[index] for index in indices]
        with replaced(
            self._lm,
            amodel_call=partial(self._send_one, self._lm.amodel_call),
            parse_generations=partial(self._parse, self._lm.parse_generations),
            # If one of several prompts in a batch failed, all of them would.
            _batch_size=1,
            # lm_eval reads num_concurrent=0 as one at a time, but would wait for ever here.
            _concurrent=max(1, self._lm._concurrent),
        ):
            batches: list[list[Answer]] = asyncio.run(
                self._lm.get_batched_requests(prompts, keys, gen_kwargs=generation_kwargs)
            )
        # Each batch is one prompt, and has a list of one reply.
        return [batch_replies[0] for batch_replies in batches]

    def _encode(self, prompt: object) -> object:
        """Return the tokens of a prompt if the client sends tokens; messages of a chat as is."""
        if self._encoder and isinstance(prompt, str):
            return self._encoder.tokenize(prompt)
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
            # A Counter cannot count lists, so it counts their texts.
            request = str(cache_keys)
            self._attempts[request] += 1
            has_tries_left = self._attempts[request] < self._lm.max_retries
            # A request that was turned down once would be turned down again.
            if has_tries_left and not _is_turned_down(error):
                raise
            self._count_failure(error)
            return [_failed_reply(error)]
        self._failures_in_a_row = 0
        return replies

    def _count_failure(self, error: Exception) -> None:
        """Count a failed request by its last error.

        `_last_failure` is set when so many requests in a row have failed that the server counts as
        gone. A server that turns a request down is still there.
        """
        self._failures_in_a_row = 0 if _is_turned_down(error) else self._failures_in_a_row + 1
        if self._failures_in_a_row >= MAX_FAILURES:
            self._last_failure = _describe_failure(error)


def _is_turned_down(error: Exception) -> bool:
    """Tell whether an error means that a server has turned down this one request."""
    return isinstance(error, UnusableReplyError) or is_refusal(error)


def _failed_reply(error: Exception) -> Answer:
    """Return a reply without a text, which says by a request's last error why it has failed."""
    # HTTP 403 forbids the log-probabilities, not the question. As after a refusal, the trial goes
    # on with fewer of them or without.
    is_forbidden = getattr(error, "status", None) == _FORBIDDEN
    finish_reason = _REFUSED if is_forbidden or _is_turned_down(error) else None
    problem = f"the server gave no usable answer: {_describe_failure(error)}"
    return Answer(None, finish_reason, error=problem)


def _describe_failure(error: Exception) -> str:
    """Describe the error of a request, such as ``HTTP 500``."""
    status = getattr(error, "status", None)
    # A URL may hold a key, and the client's text of an error with a status holds the URL.
    return f"HTTP {status}" if status else f"{type(error).__name__}: {error}"


def _answer_by_first_token(reply: Answer, question: WordQuestion) -> WordAnswer:
    """Answer a question by the log-probabilities of the reply's first token.

    Returns:
        The answer. It has a problem if no reply came, the reply has no log-probabilities, or none
        of the words is among the likely first tokens.
    """
    # Without a text, the server has not replied at all.
    if reply.text is None:
        return WordAnswer(None, "", reply.error or "")
    if reply.first_token_logprobs is None:
        return WordAnswer(None, reply.text, "no log-probabilities of a first token")
    logprobs = first_word_logprobs(reply.first_token_logprobs, question.words)
    problem = ""
    if logprobs is None:
        problem = f"no likely first token is one of {', '.join(question.words)}"
    return WordAnswer(logprobs, reply.text, problem)
