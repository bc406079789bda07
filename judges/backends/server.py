"""One call to an OpenAI-compatible server: what is sent, what comes back and what failures mean.

OpenAI's own key is sent to OpenAI alone. `judges.backends.openai_http` asks a `Server` from many
threads; the harness reads replies of evaluated models by `answer_in`.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judges.answers import BLANKS, Answer, Request
from lm_factuality.ground.errors import BackendDownError, ConfigError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.thinking import content_of

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

    from judges.budget import Bill
    from judges.config import JudgeConfig

AGAIN = "answers so far are kept: run the same command again to continue"
OPENAI_KEY = "OPENAI_API_KEY"
PATHS = {"chat": "/chat/completions", "completions": "/completions"}
_OPENAI_HOST = "api.openai.com"
# How headers begin that any server may have. The openai client takes others from the environment.
_HEADERS = ("accept", "connection", "content-", "host", "user-agent", "x-stainless-")
# Statuses after which a request is sent again, beside 5xx, and those that every request would get.
_RETRIED = {408, 409, 425, 429}
_DOWN = {401, 402, 403, 404, 405}
_KEY_ADVICE = "see that the environment variable named by api_key_env holds the server's key"
_ADVICE = {
    401: _KEY_ADVICE,
    403: _KEY_ADVICE,
    404: "check model, and base_url, which mostly ends in /v1",
}
# A server that finds fault with the schema of an answer names one of these.
_SCHEMA_WORDS = ("response_format", "json_schema")
_LONGEST_QUOTE = 300  # characters of a server's message
_MOST_TOKENS = 10**12  # a server that counts more has not counted


class TryAgain(Exception):
    """A call failed and may succeed next time."""

    def __init__(
        self, why: str, retry_after: float | None = None, is_unreachable: bool = False
    ) -> None:
        """Describe the failure.

        Args:
            why: What happened, in words.
            retry_after: Seconds that the server asks to wait.
            is_unreachable: There was not even a connection.
        """
        super().__init__(why)
        self.retry_after = retry_after
        self.is_unreachable = is_unreachable


class BadReply(ValueError):
    """A reply holds no answer. ``tokens`` has no text, but the tokens that the reply counts."""

    def __init__(self, why: str, tokens: Answer = Answer(None)) -> None:  # noqa: B008  frozen
        super().__init__(why)
        self.tokens = tokens


class Server:
    """The server of a judge. Threads may call it at once."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._key = find_key(config)
        self._client: OpenAI | None = None

    def connect(self) -> None:
        """Make the client, which connects with the first call."""
        if self._client is not None:
            return
        from openai import DefaultHttpxClient, OpenAI

        for name in ("httpx", "httpx2"):  # they log a line for every call, at INFO
            logging.getLogger(name).setLevel(logging.WARNING)
        url = self._config.base_url
        http = DefaultHttpxClient(
            trust_env=not is_local(url),  # proxies
            follow_redirects=False,
            event_hooks=hooks(url, self._key, self._config.timeout),
        )
        self._client = OpenAI(
            base_url=url,
            api_key=self._key or "none",
            max_retries=0,  # each try has to be counted
            timeout=self._config.timeout,
            http_client=http,
        )

    def close(self) -> None:
        """Close the connections. The server can be connected to again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def call(self, request: Request, bill: Bill) -> Answer:
        """Send a request once.

        Args:
            request: The question.
            bill: Is told what the call has used, as far as that is known.

        Returns:
            The answer, or one with an error if the server finds fault with this request.

        Raises:
            TryAgain: The same request may succeed later.
            BackendDownError: No request of this judge will succeed.
        """
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        config = self._config
        client = self._client
        assert client is not None
        body = to_body(
            request, config.model, config.endpoint, config.max_tokens_name, config.extra_body
        )
        try:
            text = self._hidden(client.post(PATHS[config.endpoint], cast_to=str, body=body))
            answer = read_reply(text, config.endpoint)
        except BadReply as error:
            bill.answer = error.tokens
            raise TryAgain(_quoted(str(error))) from None
        except APIStatusError as error:
            bill.is_free = True
            return self._answer_of_status(error)
        except APITimeoutError:
            raise TryAgain(f"no answer within {config.timeout:g} s") from None
        except APIConnectionError as error:
            # By name, for openai may bring an httpx of its own.
            bill.is_free = type(error.__cause__).__name__ == "ConnectError"
            why = _quoted(f"connection failed: {error.__cause__}")
            raise TryAgain(why, is_unreachable=bill.is_free) from None
        bill.answer = answer
        return answer

    def _answer_of_status(self, error: APIStatusError) -> Answer:
        """Say what an HTTP status other than 200 means; raise or return as ``call`` does."""
        status = error.status_code
        message = error.body.get("message") if isinstance(error.body, dict) else None
        why = f"HTTP {status}: {_quoted(self._hidden(str(message or error.message)))}"
        has_money = error.code != "insufficient_quota"
        if has_money and (status in _RETRIED or status >= 500):
            retry_after = seconds_of(error.response.headers.get("retry-after"))
            raise TryAgain(why, retry_after) from None
        advice = _ADVICE.get(status, f"no request of this judge can succeed; {AGAIN}")
        if status < 400:
            # Following a redirect would take prompts and the key to a server nobody has named.
            location = error.response.headers.get("location", "nowhere")
            target = _quoted(self._hidden(location))
            advice = f"it redirects to {target}, which is not followed; change base_url"
        elif any(word in why for word in _SCHEMA_WORDS):
            advice = (
                "set schema: false in the judge's YAML, and answers are asked for in words alone"
            )
        elif status not in _DOWN and has_money:
            return Answer(None, error=f"refused: {why}")
        place = f"judge {self._config.name}: {self._config.base_url}"
        raise BackendDownError(f"{place}: {why}; {advice}") from None

    def _hidden(self, text: str) -> str:
        """``text`` without the key, if the server should have repeated it."""
        return text.replace(self._key, "***") if len(self._key) >= 8 else text


def seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, None if they are no number."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _quoted(text: str) -> str:
    """What a server said, for a message of ours."""
    text = " ".join(text.split())
    if len(text) <= _LONGEST_QUOTE:
        return text
    return f"{text[:_LONGEST_QUOTE]}..."


def find_key(config: JudgeConfig) -> str:
    """The key for the judge's server, empty if there is none."""
    return os.environ.get(_key_variable(config), "").strip()


def _key_variable(config: JudgeConfig) -> str:
    """The environment variable with the key for the judge's server. Empty: no key is sent."""
    return config.api_key_env or (OPENAI_KEY if is_openai(config.base_url) else "")


def require_key(config: JudgeConfig) -> str:
    """The key as ``find_key`` gives it, empty only for a local server or a judge without one.

    Raises:
        ConfigError: The server is not a local one, and there is no key for it.
    """
    if config.then is not None:
        return require_key(config.then)
    key = find_key(config)
    if key or config.backend != "openai" or is_local(config.base_url):
        return key
    variable = _key_variable(config)
    advice = f"the environment variable {variable} is not set; set it, or name another one by"
    if not variable:
        advice = (
            f"{OPENAI_KEY} is sent to OpenAI only; name the environment variable that holds it by"
        )
    raise ConfigError(f"judge {config.name}: {config.base_url} wants a key: {advice} api_key_env")


def is_openai(base_url: str) -> bool:
    """Whether an address is OpenAI's, over TLS."""
    url = urlsplit(base_url)
    return url.scheme == "https" and url.hostname == _OPENAI_HOST and url.port in (None, 443)


def is_local(base_url: str) -> bool:
    """Whether a server is on this machine or in a private network; few of those ask for a key."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


def hooks(base_url: str, key: str, timeout: float) -> dict[str, list[Callable[[Any], None]]]:
    """What the HTTP client does to each request before it is sent, and to each reply.

    A server that is not OpenAI's gets ``key``, or no ``Authorization`` without one, and no other
    header that the openai client takes from the environment. A reply is read for at most
    ``timeout`` seconds.
    """

    def remove_foreign_headers(request: Any) -> None:
        for name in list(request.headers):
            if not name.lower().startswith(_HEADERS):
                del request.headers[name]
        if key:
            request.headers["Authorization"] = f"Bearer {key}"

    def bound_reply(response: Any) -> None:
        unbounded = response.iter_bytes
        deadline = time.monotonic() + timeout

        def iter_bytes(*options: Any) -> Iterator[bytes]:
            for part in unbounded(*options):
                if time.monotonic() > deadline:
                    raise TryAgain(f"no whole answer within {timeout:g} s")
                yield part

        response.iter_bytes = iter_bytes

    if is_openai(base_url):
        return {"response": [bound_reply]}
    return {"request": [remove_foreign_headers], "response": [bound_reply]}


def to_body(
    request: Request, model: str, endpoint: str, max_tokens_name: str, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON to send.

    Later samples count up from the seed. What is not set is not sent.

    Args:
        request: The question.
        model: As the server calls it.
        endpoint: ``chat`` or ``completions``.
        max_tokens_name: What this server calls the limit of an answer.
        extra: Fields that come last. One whose value is None takes away what is there.
    """
    decoding = request.decoding
    alternatives = decoding.top_logprobs or None
    body: dict[str, Any] = {"model": model}
    if endpoint == "chat":
        system = [{"role": "system", "content": request.system}] if request.system else []
        body["messages"] = [*system, {"role": "user", "content": request.prompt}]
        body["logprobs"] = True if alternatives else None
        body["top_logprobs"] = alternatives
    else:
        lead = f"{request.system}\n\n" if request.system else ""
        body["prompt"] = lead + request.prompt
        body["logprobs"] = alternatives
    body[max_tokens_name] = decoding.max_tokens
    body["temperature"] = decoding.temperature
    body["top_p"] = None if decoding.top_p == 1.0 else decoding.top_p
    body["stop"] = list(decoding.stop) or None
    body["seed"] = None if decoding.seed is None else decoding.seed + request.sample
    if request.schema:
        schema = {"name": "reply", "schema": json.loads(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {name: value for name, value in {**body, **extra}.items() if value is not None}


def read_reply(text: str, endpoint: str) -> Answer:
    """The answer in the JSON of a reply; see `answer_in`.

    Raises:
        BadReply: The text is no JSON, or holds no answer.
    """
    try:
        reply = parse_json(text, is_shared=False)
    except ValueError as error:
        raise BadReply(f"a reply that is not JSON ({error}): {text[:80]!r}") from None
    return answer_in(reply, endpoint)


def answer_in(reply: Any, endpoint: str) -> Answer:
    """The answer in a reply.

    Thoughts in a field of their own (``reasoning_content``) are left out, but for those that never
    came to an answer. Log-probabilities are those of the first token of the text, None where the
    server sends none that can be read. An empty text is an answer only if the server says that it
    was cut off or filtered: asking again would give the same.

    Raises:
        BadReply: The reply has not the expected shape, or an empty text.
    """
    usage = reply.get("usage") if isinstance(reply, dict) else None
    tokens = Answer(
        None,
        prompt_tokens=_token_count(usage, "prompt_tokens"),
        completion_tokens=_token_count(usage, "completion_tokens"),
    )
    quoted = f"{str(reply)[:80]!r}"
    try:
        choice = reply["choices"][0]
        text = content_of(choice, usage) if endpoint == "chat" else choice["text"]
        finish_reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadReply(f"a reply without choices: {quoted}", tokens) from None
    if not isinstance(text, str | None):
        raise BadReply(f"a text that is a {type(text).__name__}: {quoted}", tokens)
    text = _storable(text or "")
    if not isinstance(finish_reason, str):
        finish_reason = None
    if not text.strip() and finish_reason not in ("length", "content_filter"):
        raise BadReply(f"an empty text (finish_reason {finish_reason})", tokens)
    alternatives = _first_token_logprobs(choice.get("logprobs"), text)
    return replace(
        tokens, text=text, finish_reason=finish_reason, first_token_logprobs=alternatives
    )


def _token_count(usage: Any, name: str) -> int | None:
    """A count of tokens, None where the server gives none that can be true."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and 0 <= count <= _MOST_TOKENS else None


def _first_token_logprobs(logprobs: Any, text: str) -> tuple[tuple[str, float], ...] | None:
    """The alternatives of the first token that is not white space, most likely first.

    Returns:
        Tokens with natural log-probabilities. None if there are none that can be read, or if
        ``text`` does not begin with that token, as where a server took a thought out of the text
        but not out of the tokens.
    """
    try:
        for token, logprob, alternatives in _token_logprobs(logprobs):
            word = token.strip(BLANKS)
            if not word:
                continue
            if not text.lstrip().startswith(word):
                return None
            if token not in dict(alternatives):
                alternatives = [(token, logprob), *alternatives]
            readable = [
                (_storable(alternative), min(float(value), 0.0))
                for alternative, value in alternatives
                if value is not None and math.isfinite(value)
            ]
            return tuple(sorted(readable, key=lambda pair: -pair[1])) or None
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError):
        pass  # some other form: the text is an answer all the same
    return None


def _token_logprobs(logprobs: Any) -> Iterator[tuple[str, Any, list[tuple[str, Any]]]]:
    """(token, its log-probability, its alternatives) for each token of a text.

    The form is that of chat completions, which some servers send for both, or of completions.
    """
    if "content" in logprobs:
        for entry in logprobs["content"]:
            top = entry.get("top_logprobs") or ()
            alternatives = [(option["token"], option["logprob"]) for option in top]
            yield entry["token"], entry["logprob"], alternatives
        return
    for number, token in enumerate(logprobs["tokens"]):
        top = logprobs.get("top_logprobs")
        alternatives = list(((top and top[number]) or {}).items())
        yield token, logprobs["token_logprobs"][number], alternatives


def _storable(text: str) -> str:
    """``text`` with halves of surrogate pairs, which no file can hold, as question marks."""
    return text.encode("utf-8", "replace").decode()
