"""One call to an OpenAI-compatible server: what is sent, what comes back, what failures mean.

`judges.backends.openai_http` calls a `Server` from many threads, and the harness reads the replies
of evaluated models by `answer_from_reply`.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from judges.answers import BLANKS, Answer, Request
from judges.backends import chat_messages, plain_prompt
from judges.backends.refusals import find_unsupported_option, instead_of, without_options
from judges.typed import schema_to_send
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.http import RetryableError, is_local, parse_retry_after
from lm_factuality.ground.replies import (
    MAX_CONTENT_BYTES,
    MAX_NAME_LENGTH,
    MAX_REPLY_BYTES,
    KeyMask,
)
from lm_factuality.ground.thinking import content_of, reasoning_of

if TYPE_CHECKING:
    import httpx
    from openai import APIStatusError, OpenAI

    from judges.budget import Bill
    from judges.config import JudgeConfig

logger = logging.getLogger(__name__)

RESUME_HINT = "answers so far are kept: run the same command again to continue"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
_OPENAI_HOST = "api.openai.com"
_PATHS = {"chat": "/chat/completions", "completions": "/completions"}

# Prefixes of the headers that any server may receive. The openai client adds others, such as
# OpenAI-Organization, from environment variables.
_HARMLESS_HEADERS = ("accept", "connection", "content-", "host", "user-agent", "x-stainless-")

# HTTP statuses below 500 after which the same request may succeed, such as 429 (too many requests).
_RETRIED_STATUSES = {408, 409, 425, 429}

# HTTP statuses by which a gateway says that the model's server has not answered in time.
_TIMEOUT_STATUSES = {408, 504, 522, 524}

# HTTP statuses that every request of this judge would get, such as 401 (wrong key).
_FATAL_STATUSES = {401, 402, 403, 404, 405}

_KEY_ADVICE = "see that the environment variable named by api_key_env holds the server's key"
_STATUS_ADVICE = {
    401: _KEY_ADVICE,
    403: _KEY_ADVICE,
    404: "check model, and base_url, which mostly ends in /v1",
}

# Why a server ends a reply without any text in such a way that a retry would end the same.
_FINAL_FINISH_REASONS = ("length", "content_filter")

_NO_MASK = KeyMask()  # for a server without a key
_MAX_QUOTED_CHARACTERS = 300
_MAX_TOKEN_COUNT = 10**12  # a larger count is a server's mistake
_MAX_ALTERNATIVES = 1000  # to the first token; servers send as many as they are asked for


class UnusableReplyError(ValueError):
    """A server replied, but its reply holds no answer."""

    def __init__(self, reason: str, usage_only: Answer = Answer(None)) -> None:  # noqa: B008
        """Describe the reply.

        Args:
            reason: Why the reply cannot be used.
            usage_only: An answer without text that holds the token counts of the reply, since the
                server charges for them all the same.
        """
        super().__init__(reason)
        self.usage_only = usage_only


class TooLongReplyError(UnusableReplyError):
    """A reply is so long that it is not read. Asking again would not help."""


class UnsupportedOptionError(Exception):
    """A server does not support an option of a request, which may be sent again without it."""

    def __init__(self, option: str) -> None:
        """Name the option, such as ``seed``."""
        super().__init__(option)
        self.option = option


class Server:
    """The HTTP server of one judge. Any number of threads may call it at once."""

    def __init__(self, config: JudgeConfig) -> None:
        """Remember the server's address and look up its key; nothing is sent."""
        self._config = config
        self._key = find_key(config)
        self._mask = KeyMask(self._key)
        self._client: OpenAI | None = None
        # The options that the server does not support, and that requests are sent without.
        self._unsupported: set[str] = set()

    def connect(self) -> None:
        """Create the HTTP client, unless there is one. Nothing is sent before the first `call`."""
        if self._client is not None:
            return
        # The import takes a second, which other backends do not need to wait for.
        from openai import DefaultHttpxClient, OpenAI

        # httpx logs a line for every call at level INFO. The openai package may bring it as httpx2.
        for logger_name in ("httpx", "httpx2"):
            logging.getLogger(logger_name).setLevel(logging.WARNING)

        config = self._config
        http_client = DefaultHttpxClient(
            # A local server is not reached through the proxies of the environment.
            trust_env=not is_local(config.base_url),
            follow_redirects=False,
            event_hooks=event_hooks(config.base_url, self._key, config.timeout),
        )
        self._client = OpenAI(
            base_url=config.base_url,
            api_key=self._key or "none",
            # The caller retries, because each try counts towards the judge's limits.
            max_retries=0,
            timeout=config.timeout,
            http_client=http_client,
        )

    def close(self) -> None:
        """Close the connections. `connect` can open them again."""
        client = self._client
        self._client = None
        if client is not None:
            client.close()

    def call(
        self, request: Request, bill: Bill, unsupported_options: Collection[str] = ()
    ) -> Answer:
        """Send one request to the server, without retries.

        Args:
            request: The prompt and its decoding parameters.
            bill: Records what the call used: the server's token counts, or that it was free. If
                the server accepts the request, the answer is recorded here too.
            unsupported_options: The options of this request that the server does not support, such
                as ``seed``. If the server accepts the request without them, all later requests are
                sent without them too.

        Returns:
            The answer. If the server rejects this very request, an answer with ``error``.

        Raises:
            UnsupportedOptionError: The server does not support one more option of the request.
            RetryableError: The same request may succeed later.
            BackendDownError: No request of this judge can succeed.
        """
        whole_body = request_body(request, self._config)
        left_out = self._unsupported.union(unsupported_options)
        answer = self._post(without_options(whole_body, left_out), bill, left_out)
        # `_post` has recorded what the rejected request used.
        if answer.error is not None:
            return answer

        self._remember_unsupported(unsupported_options)
        # An option that this request never had does not matter to its answer.
        missing_options = tuple(sorted(left_out.intersection(whole_body)))
        bill.answer = replace(answer, left_out=missing_options or None)
        return bill.answer

    def _post(self, body: dict[str, Any], bill: Bill, left_out: Collection[str]) -> Answer:
        """Send the body of a request, and turn what goes wrong into the errors of `call`.

        Args:
            body: The JSON of the request, without the options that the server does not support.
            bill: Records what the call used if it fails.
            left_out: These options.

        Returns:
            The answer. One with ``error`` if asking again would not help, but others may succeed.
        """
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        config = self._config
        # Another thread may close the server in the meantime.
        client = self._client
        assert client is not None, "connect() comes before call()"
        try:
            reply_text = client.post(_PATHS[config.endpoint], cast_to=str, body=body)
            return parse_reply(reply_text, config.endpoint, self._mask)
        except TooLongReplyError as error:
            bill.answer = error.usage_only
            return Answer(None, error=str(error))
        except UnusableReplyError as error:
            # The tokens were generated, so they are charged although the reply is useless.
            bill.answer = error.usage_only
            raise RetryableError(_quoted(str(error))) from None
        except APIStatusError as error:
            # Servers charge nothing for a request that they reject. After a timeout of a gateway,
            # the model may go on, so the call counts at its highest price.
            bill.is_free = error.status_code not in _TIMEOUT_STATUSES
            message = self._message_of(error)
            option = find_unsupported_option(error.status_code, message, body, left_out)
            if option is not None:
                raise UnsupportedOptionError(option) from None
            return self._handle_status(error)
        except APITimeoutError:
            # The server may have answered too late, so the call counts at its highest price.
            raise RetryableError(f"no answer within {config.timeout:g} s") from None
        except APIConnectionError as error:
            if isinstance(error.__cause__, TooLongReplyError):
                return Answer(None, error=str(error.__cause__))
            # A call that never reached the server is free. The class is compared by name, because
            # openai may bring its own version of httpx.
            bill.is_free = type(error.__cause__).__name__ == "ConnectError"
            reason = _quoted(self._mask.mask_text(f"connection failed: {error.__cause__}"))
            raise RetryableError(reason, is_unreachable=bill.is_free) from None

    def _remember_unsupported(self, options: Collection[str]) -> None:
        """Leave options out of all later requests. Each option is logged the first time."""
        for option in set(options) - self._unsupported:
            self._unsupported.add(option)
            logger.warning(
                "judge %s: %s refuses %s: requests are sent %s",
                self._config.name,
                self._config.base_url,
                option,
                instead_of(option),
            )

    def _handle_status(self, error: APIStatusError) -> Answer:
        """Decide what an HTTP status of 300 or more means for this request and for the others.

        Returns:
            An answer with ``error``, if the server rejects this request alone.

        Raises:
            RetryableError: The status is temporary, such as 429 or 503.
            BackendDownError: Every request would fail in the same way.
        """
        status = error.status_code
        problem = f"HTTP {status}: {_quoted(self._mask.mask_text(self._message_of(error)))}"

        # OpenAI also sends 429 when the account has no money, which waiting does not change.
        is_out_of_money = error.code == "insufficient_quota"
        is_temporary = status in _RETRIED_STATUSES or status >= 500
        if is_temporary and not is_out_of_money:
            retry_after = parse_retry_after(error.response.headers.get("retry-after"))
            raise RetryableError(problem, retry_after) from None

        # A redirect or a lack of money concerns all requests.
        is_fatal = status < 400 or status in _FATAL_STATUSES
        if not is_fatal and not is_out_of_money:
            return Answer(None, error=f"refused: {problem}")
        advice = self._advice_on_status(error)
        raise BackendDownError(
            f"judge {self._config.name}: {self._config.base_url}: {problem}; {advice}"
        ) from None

    @staticmethod
    def _message_of(error: APIStatusError) -> str:
        """Return the server's own words in an error."""
        # OpenAI sends {"message": ..., "code": ...}; other servers may send any text.
        message = error.body.get("message") if isinstance(error.body, dict) else None
        return str(message or error.message)

    def _advice_on_status(self, error: APIStatusError) -> str:
        """Say what users can do about an HTTP status that every request would get."""
        if error.status_code < 400:
            # Following a redirect would send prompts and the key to a server that nobody named.
            location = error.response.headers.get("location", "nowhere")
            target = _quoted(self._mask.mask_text(location))
            return f"it redirects to {target}, which is not followed; change base_url"
        default_advice = f"no request of this judge can succeed; {RESUME_HINT}"
        return _STATUS_ADVICE.get(error.status_code, default_advice)


def request_body(request: Request, config: JudgeConfig) -> dict[str, Any]:
    """Build the JSON object that is sent to the server for one request.

    Args:
        request: The prompt and its decoding parameters.
        config: The judge: its model, endpoint and ``extra_body``. A null in ``extra_body`` removes
            the field of that name.

    Returns:
        The fields of the request, without those that are not set.

    Example:
        ``{"model": "gpt-4o", "messages": [{"role": "user", "content": "..."}], "max_tokens": 512,
        "temperature": 0.0}``
    """
    decoding = request.decoding
    # Fields that are None are taken out at the end.
    body: dict[str, Any] = {"model": config.model}
    if config.endpoint == "chat":
        body["messages"] = chat_messages(request)
        body["logprobs"] = True if decoding.top_logprobs else None
        body["top_logprobs"] = decoding.top_logprobs or None
    else:
        body["prompt"] = plain_prompt(request)
        # Completions have the number of alternatives in this field.
        body["logprobs"] = decoding.top_logprobs or None

    body[config.max_tokens_name] = decoding.max_tokens
    body["temperature"] = decoding.temperature
    body["top_p"] = None if decoding.top_p == 1.0 else decoding.top_p
    body["stop"] = list(decoding.stop) or None
    body["seed"] = decoding.seed_of(request.sample)
    if request.schema:
        sent_schema = schema_to_send(request.schema)
        schema = {"name": "reply", "schema": sent_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}

    # These come last, so that a user can replace or remove any field.
    body.update(config.extra_body)
    return {name: value for name, value in body.items() if value is not None}


def parse_reply(text: str, endpoint: str, mask: KeyMask = _NO_MASK) -> Answer:
    """Parse the body of a server's HTTP reply into an answer, as `answer_from_reply` does.

    Args:
        text: The body, which should be JSON.
        endpoint: ``chat`` or ``completions``.
        mask: Removes the key of the server. By default there is no key.

    Raises:
        UnusableReplyError: The text is not JSON, or holds no answer.
    """
    try:
        reply = parse_json(text, refuse_repeated_keys=False)
    except ValueError as error:
        reply_start = mask.mask_text(text)[:80]
        raise UnusableReplyError(f"a reply that is not JSON ({error}): {reply_start!r}") from None
    return answer_from_reply(reply, endpoint, mask)


def answer_from_reply(reply: Mapping[str, Any], endpoint: str, mask: KeyMask = _NO_MASK) -> Answer:
    """Convert a server's decoded JSON reply to an answer.

    All texts of the answer can be stored, and none is longer than a limit.

    Args:
        reply: The decoded reply. It is checked, because a server may send any JSON value.
        endpoint: ``chat`` or ``completions``, which have the text in different places.
        mask: Removes the key of the server. By default there is no key.

    Returns:
        The text, why it ended, the token counts and, if the server sent them, the
        log-probabilities of the first token.

    Raises:
        UnusableReplyError: The reply has no choices, or its text is empty or not a string.
        TooLongReplyError: The text has more than 1 MB.

    Example:
        ``{"choices": [{"message": {"content": "True"}, "finish_reason": "stop"}]}`` becomes
        ``Answer("True", "stop")``.
    """
    reply = mask.mask_json(reply)
    # Errors carry the token counts too, since the server charges for a reply of any form.
    usage_only = _answer_with_usage(reply)
    reply_start = str(reply)[:80]
    try:
        choice = reply["choices"][0]
        is_chat = endpoint == "chat"
        text = content_of(choice) if is_chat else choice["text"]
        reasoning = reasoning_of(choice) if is_chat else ""
        finish_reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        problem = f"a reply without choices: {reply_start!r}"
        raise UnusableReplyError(problem, usage_only) from None

    finish_reason = finish_reason[:MAX_NAME_LENGTH] if isinstance(finish_reason, str) else None
    text_problem = _text_problem(text, finish_reason)
    if text_problem:
        raise UnusableReplyError(f"{text_problem}: {reply_start!r}", usage_only)

    answer_text = text or ""
    num_bytes = len(answer_text.encode())
    if num_bytes > MAX_CONTENT_BYTES:
        problem = f"a text of {num_bytes:,} bytes, expected at most {MAX_CONTENT_BYTES:,}"
        raise TooLongReplyError(problem, usage_only)
    return replace(
        usage_only,
        text=answer_text,
        finish_reason=finish_reason,
        first_token_logprobs=_first_token_logprobs(choice.get("logprobs"), answer_text),
        # Thoughts are never read, so their beginning is enough.
        reasoning=reasoning[:MAX_CONTENT_BYTES] or None,
    )


def _text_problem(text: object, finish_reason: str | None) -> str:
    """Return why the text of a reply cannot be an answer. Empty if the text is an answer.

    Args:
        text: The text, or whatever the server sent in its place. Some send null for no text.
        finish_reason: Why the text ends, such as ``length``. None if the server does not say.
    """
    if text is not None and not isinstance(text, str):
        return f"a text that is a {type(text).__name__}"
    # A text that was cut off or filtered is empty after another try too, so it is an answer.
    if (text and text.strip()) or finish_reason in _FINAL_FINISH_REASONS:
        return ""
    return f"an empty text (finish_reason {finish_reason})"


def _answer_with_usage(reply: object) -> Answer:
    """Return an answer without text that holds the token counts of a server's reply.

    Example:
        ``{"usage": {"prompt_tokens": 31, "completion_tokens": 2}, ...}`` →
        ``Answer(None, prompt_tokens=31, completion_tokens=2)``

    Args:
        reply: The decoded reply, which may be any JSON value.
    """
    usage = reply.get("usage") if isinstance(reply, dict) else None
    counts: dict[str, Any] = {}
    for field in ("prompt_tokens", "completion_tokens"):
        count = usage.get(field) if isinstance(usage, dict) else None
        # The type is compared, because True and False are instances of int too.
        if type(count) is int and 0 <= count <= _MAX_TOKEN_COUNT:
            counts[field] = count
    return Answer(None, **counts)


class _TokenLogprobs(NamedTuple):
    """The log-probabilities that a server sends for one token of a text."""

    token: str
    """The token that the model wrote."""

    logprob: float | None
    """Its natural log-probability. Some servers send null for the first token."""

    alternatives: list[tuple[str, float | None]]
    """The most likely tokens in this position, each with its log-probability."""


def _first_token_logprobs(
    logprobs: Mapping[str, Any] | None, text: str
) -> tuple[tuple[str, float], ...] | None:
    """Read how likely the first token of a text was, and its alternatives.

    Example:
        ``(("True", -0.1), ("False", -2.4))``

    Args:
        logprobs: The ``logprobs`` of a choice in a server's reply, None if there are none.
        text: The text of the choice.

    Returns:
        Pairs of a token and its natural log-probability, most likely first, for the first token
        that is not white space. None if the server sent none, if they have an unknown form, or if
        they belong to a thought and not to the text.
    """
    if not logprobs:
        return None
    try:
        # Some servers send the form of chat completions for other completions too.
        read_tokens = _chat_logprobs if "content" in logprobs else _completion_logprobs
        visible_tokens = (token for token in read_tokens(logprobs) if token.token.strip(BLANKS))
        first_token = next(visible_tokens, None)
        if first_token is None:
            return None
        alternatives = _sorted_alternatives(first_token)
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError):
        # The log-probabilities have an unknown form, but the text is an answer all the same.
        return None

    # Some servers take a thought out of the text, but not out of the tokens.
    is_start_of_text = text.lstrip().startswith(first_token.token.strip(BLANKS))
    return alternatives if alternatives and is_start_of_text else None


def _chat_logprobs(logprobs: Mapping[str, Any]) -> Iterator[_TokenLogprobs]:
    """Read the log-probabilities of each token as chat completions have them.

    Example:
        ``{"content": [{"token": "True", "logprob": -0.1, "top_logprobs": [{"token": "False",
        "logprob": -2.4}]}]}`` → the token ``True`` with the alternative ``("False", -2.4)``
    """
    for token in logprobs["content"]:
        alternatives = []
        for alternative in token.get("top_logprobs") or ():
            alternatives.append((alternative["token"], alternative["logprob"]))
        yield _TokenLogprobs(token["token"], token["logprob"], alternatives)


def _completion_logprobs(logprobs: Mapping[str, Any]) -> Iterator[_TokenLogprobs]:
    """Read the log-probabilities of each token as completions have them.

    Example:
        ``{"tokens": ["True"], "token_logprobs": [-0.1], "top_logprobs": [{"False": -2.4}]}`` → the
        token ``True`` with the alternative ``("False", -2.4)``
    """
    alternatives_by_position = logprobs.get("top_logprobs")
    for position, token in enumerate(logprobs["tokens"]):
        # The list may be missing, and null may stand for a token without alternatives.
        alternatives = alternatives_by_position[position] if alternatives_by_position else None
        logprob = logprobs["token_logprobs"][position]
        yield _TokenLogprobs(token, logprob, list((alternatives or {}).items()))


def _sorted_alternatives(token_logprobs: _TokenLogprobs) -> tuple[tuple[str, float], ...]:
    """List a token and its alternatives, most likely first, each with its log-probability.

    Log-probabilities that are missing or infinite are left out.
    """
    alternatives = token_logprobs.alternatives
    # A server may list only the most likely tokens, and the model may have written another one.
    if token_logprobs.token not in dict(alternatives):
        alternatives = [(token_logprobs.token, token_logprobs.logprob), *alternatives]

    finite_alternatives = []
    for token, logprob in alternatives[:_MAX_ALTERNATIVES]:
        if logprob is not None and math.isfinite(logprob):
            # Rounding on a server can lift a log-probability above 0.
            finite_alternatives.append((token[:MAX_NAME_LENGTH], min(float(logprob), 0.0)))
    return tuple(sorted(finite_alternatives, key=itemgetter(1), reverse=True))


def _quoted(text: str) -> str:
    """Return a server's message on one line, cut off after 300 characters."""
    text = " ".join(text.split())
    if len(text) <= _MAX_QUOTED_CHARACTERS:
        return text
    return f"{text[:_MAX_QUOTED_CHARACTERS]}..."


def require_key(config: JudgeConfig) -> str:
    """Return the API key for a judge's server.

    Args:
        config: The judge. The key of a cascade is that of its second judge.

    Returns:
        The key. Empty if the server is local and has none, and for a judge without a server.

    Raises:
        ConfigError: The server is not local, and there is no key for it.
    """
    # The first judge of a cascade runs in this process, so only the second may have a server.
    if config.second is not None:
        return require_key(config.second)
    key = find_key(config)
    # Only judges of this backend have a server, and local servers need no key.
    if key or config.backend != "openai" or is_local(config.base_url):
        return key

    variable = _key_variable(config)
    if variable:
        advice = (
            f"the environment variable {variable} is not set; set it, or name another one by"
            " api_key_env"
        )
    else:
        advice = (
            f"{OPENAI_KEY_VARIABLE} is sent to OpenAI only; name the environment variable that"
            " holds it by api_key_env"
        )
    raise ConfigError(f"judge {config.name}: {config.base_url} wants a key: {advice}")


def find_key(config: JudgeConfig) -> str:
    """Look up the API key for a judge's server in the environment; empty if there is none."""
    return os.environ.get(_key_variable(config), "").strip()


def _key_variable(config: JudgeConfig) -> str:
    """Return the name of the environment variable that holds the key for a judge's server.

    It is ``api_key_env`` of the judge, or ``OPENAI_API_KEY`` if the server is OpenAI's. No other
    server may receive OpenAI's key, so the name is then empty.
    """
    if config.api_key_env:
        return config.api_key_env
    return OPENAI_KEY_VARIABLE if is_openai(config.base_url) else ""


def is_openai(base_url: str) -> bool:
    """Return whether an address is OpenAI's own server, reached over TLS."""
    url = urlsplit(base_url)
    return url.scheme == "https" and url.hostname == _OPENAI_HOST and url.port in (None, 443)


def event_hooks(base_url: str, key: str, timeout: float) -> dict[str, list[Callable[..., None]]]:
    """Return the functions that httpx calls before each request and after each response.

    Args:
        base_url: The address of the server.
        key: The key that this server receives, empty for none.
        timeout: Seconds in which the body of a reply has to arrive. Its size is limited as well.
    """
    hooks: dict[str, list[Callable[..., None]]] = {"response": [partial(_limit_reading, timeout)]}
    # The openai client adds headers for OpenAI to every request, which others may not see.
    if not is_openai(base_url):
        hooks["request"] = [partial(_replace_openai_headers, key)]
    return hooks


def _replace_openai_headers(key: str, request: httpx.Request) -> None:
    """Remove the headers that only OpenAI may see, such as its key, and set the server's own key.

    Args:
        key: The key of the server, empty for none.
        request: The request to another server than OpenAI's.
    """
    # The openai client may add further headers in later versions, so only known ones stay.
    for header in list(request.headers):
        if not header.lower().startswith(_HARMLESS_HEADERS):
            del request.headers[header]
    if key:
        request.headers["Authorization"] = f"Bearer {key}"


def _limit_reading(timeout: float, response: httpx.Response) -> None:
    """Make a response fail if its body takes more than ``timeout`` seconds, or has over 32 MB.

    httpx's own timeout starts anew with every byte, so a slow server could hold a call for ever.
    """
    # httpx has hooks for requests and headers but none for the body, so the method with which its
    # client reads the body is replaced.
    read_chunks = response.iter_bytes
    deadline = time.monotonic() + timeout

    def read_chunks_within_limits(chunk_size: int | None = None) -> Iterator[bytes]:
        """Yield the chunks of the body as long as the time and the size are within the limits."""
        num_bytes = 0
        for chunk in read_chunks(chunk_size):
            num_bytes += len(chunk)
            if num_bytes > MAX_REPLY_BYTES:
                raise TooLongReplyError(f"a reply of more than {MAX_REPLY_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise RetryableError(f"no whole answer within {timeout:g} s")
            yield chunk

    response.iter_bytes = read_chunks_within_limits  # type: ignore[method-assign]
