"""What a server is sent (the key, OpenAI's own to OpenAI alone, and the request), and what its
replies and failures mean."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judges.answers import BLANKS, Answer, Request
from judges.backends import BACKENDS
from judges.backends.thinking import content_of
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.published import seconds_of

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

    from judges.config import JudgeConfig

OPENAI_KEY = "OPENAI_API_KEY"
_OPENAI_HOST = "api.openai.com"
_OPENAI_HEADERS = (
    "OpenAI-Organization",
    "OpenAI-Project",
)  # which the client takes from the environment
_CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"  # lines "name: value" that the client sends as well


def key_variable(config: JudgeConfig) -> str | None:
    """The environment variable with the key for the server of ``config``; None if it is sent
    none."""
    return config.api_key_env or (OPENAI_KEY if is_openai(config.base_url) else None)


def find_key(config: JudgeConfig) -> str:
    variable = key_variable(config)
    return os.environ.get(variable, "").strip() if variable else ""


def require_key(config: JudgeConfig) -> str:
    """The key as ``find_key`` gives it; empty only for a local server, or a judge without one.
    Raises ConfigError: the server is not a local one, and its config names no variable or the
    variable is not set."""
    if config.then is not None:
        return require_key(config.then)
    if "api_key_env" not in BACKENDS[config.backend].keys:
        return ""
    if (key := find_key(config)) or is_local(config.base_url):
        return key
    where, advice = (
        f"judge {config.name}: {config.base_url}",
        "set it, or name another one by api_key_env",
    )
    if (variable := key_variable(config)) is None:
        only = f"{OPENAI_KEY} is sent to https://{_OPENAI_HOST} only, unless api_key_env names it"
        advice = f"name the environment variable that holds it by api_key_env ({only})"
        raise ConfigError(f"{where} is not on this machine and wants a key; {advice}")
    raise ConfigError(
        f"{where} wants a key, and the environment variable {variable} is not set; {advice}"
    )


def is_openai(base_url: str) -> bool:
    url = urlsplit(base_url)
    return url.scheme == "https" and url.hostname == _OPENAI_HOST and url.port in (None, 443)


def is_local(base_url: str) -> bool:
    """Whether a server is on this machine or in a private network, where one mostly asks for no
    key."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return (
            host == "localhost"
            or "." not in host
            or host.endswith((".local", ".localhost", ".internal"))
        )


def hooks(base_url: str, key: str) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """For the HTTP client: what it does to each request before it is sent. A server that is not
    OpenAI's gets ``key``, or no ``Authorization`` without one, and no other header that the openai
    client takes from the environment."""
    if is_openai(base_url):
        return {"response": [_bounded]}
    lines = os.environ.get(_CUSTOM_HEADERS, "").splitlines()
    foreign = {
        *_OPENAI_HEADERS,
        "Authorization",
        *(line.partition(":")[0].strip() for line in lines if ":" in line),
    }

    async def strip(request: Any) -> None:
        for name in foreign:
            request.headers.pop(name, None)
        if key:
            request.headers["Authorization"] = f"Bearer {key}"

    return {"request": [strip], "response": [_bounded]}


async def _bounded(response: Any) -> None:
    """Has the body of a reply read up to ``_MOST_BYTES``, then TryAgain: compressed, a small one
    may hold any number."""
    decoded = response.aiter_bytes

    async def read(*options: Any) -> AsyncIterator[bytes]:
        size = 0
        async for part in decoded(*options):
            size += len(part)
            if size > _MOST_BYTES:
                raise TryAgain(f"a reply of more than {_MOST_BYTES:,} bytes")
            yield part

    response.aiter_bytes = read


AGAIN = "answers so far are kept: run the same command again to continue"
_RETRIED = {408, 409, 425, 429}  # and 5xx
_DOWN = {401, 402, 403, 404, 405}
_LONGEST_QUOTE = 300  # characters of a server's message
_MOST_BYTES = (
    1 << 26
)  # of a reply; an answer of 100,000 tokens with alternatives for each has a quarter of that
_MOST_TOKENS = 10**12  # that a reply can have: a larger count is none
_SCHEMA_WORDS = (
    "response_format",
    "json_schema",
)  # which a server names that finds fault with the schema of an answer


class TryAgain(Exception):
    """A try that failed and may succeed next time. ``unreachable``: there was not even a
    connection."""

    def __init__(
        self, why: str, retry_after: float | None = None, unreachable: bool = False
    ) -> None:
        super().__init__(why)
        self.retry_after, self.unreachable = retry_after, unreachable


class Faults:
    """Explains errors of the server of ``config`` in sentences that never hold ``key``."""

    def __init__(self, config: JudgeConfig, key: str) -> None:
        self._config, self._key = config, key

    def of_connection(self, error: Exception) -> TryAgain:
        """For a connection that was not made, or broke."""
        from aiohttp import ClientConnectorError

        cause: BaseException = error
        unreachable = isinstance(cause, ClientConnectorError)
        while cause.__cause__ is not None:
            cause = cause.__cause__
            unreachable = unreachable or isinstance(cause, ClientConnectorError)
        return TryAgain(self.quoted(f"connection failed: {cause}"), unreachable=unreachable)

    async def of_status(self, error: APIStatusError, client: AsyncOpenAI) -> Answer:
        """An answer with an error where only this request is at fault. Raises TryAgain: later,
        maybe; BackendDown: none will."""
        status, code = error.status_code, error.code
        said = error.body.get("message") if isinstance(error.body, dict) else None
        why = f"HTTP {status}: {self.quoted(str(said or error.message))}"
        if status in _DOWN or status < 400 or code == "insufficient_quota":
            target = error.response.headers.get("location") if 300 <= status < 400 else None
            # following a redirect would take prompts, and the key, to a server that nobody has
            # named
            elsewhere = (
                target
                and f"it redirects to {self.quoted(target)}, which is not followed; if the server is there, "  # noqa: E501
            )
            advice = (
                f"{elsewhere}change base_url" if elsewhere else await self._advice(status, client)
            )
            raise BackendDown(
                f"judge {self._config.name}: {self._config.base_url}: {why}; {advice}"
            ) from None
        if status in _RETRIED or status >= 500:
            milliseconds = seconds_of(
                error.response.headers.get("retry-after-ms")
            )  # as some say it
            seconds = seconds_of(error.response.headers.get("retry-after"))
            raise TryAgain(why, seconds if milliseconds is None else milliseconds / 1000) from None
        if any(word in why for word in _SCHEMA_WORDS):
            advice = (
                "set schema: false in the judge's YAML, and answers are asked for in words alone"
            )
            raise BackendDown(
                f"judge {self._config.name}: {self._config.base_url}: {why}; {advice}"
            ) from None
        return Answer(None, error=f"refused: {why}")

    async def _advice(self, status: int, client: AsyncOpenAI) -> str:
        if status in (401, 403):
            if (variable := key_variable(self._config)) is None:
                return (
                    "no key was sent; name the environment variable that holds one by api_key_env"
                )
            state = "set" if self._key else "not set"
            return f"the key is read from the environment variable {variable}, which is {state}"
        if status != 404:
            return f"no request of this judge can succeed; {AGAIN}"
        known = await _known_models(client)
        models = (
            f"the server knows: {', '.join(known)}"
            if known
            else "check base_url (it mostly ends in /v1)"
        )
        return f"the model asked for is {self._config.model!r}; {models}"

    def hidden(self, text: str) -> str:
        """``text`` without the key, if a server should have repeated it."""
        return text.replace(self._key, "***") if len(self._key) >= 8 else text

    def quoted(self, text: str) -> str:
        """What a server said, for a message of ours."""
        text = " ".join(self.hidden(text).split())
        return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


async def _known_models(client: AsyncOpenAI) -> list[str]:
    from aiohttp import ClientError
    from openai import OpenAIError

    try:
        reply = json.loads(await asyncio.wait_for(client.get("/models", cast_to=str), 5))
        return sorted(str(model["id"]) for model in reply["data"])[:20]
    except (
        OpenAIError,
        ClientError,
        OSError,
        asyncio.TimeoutError,
        ValueError,
        KeyError,
        TypeError,
    ):
        return []


PATHS = {"chat": "/chat/completions", "completions": "/completions"}


class BadReply(ValueError):
    """A reply that holds no answer; ``prompt_tokens`` and ``completion_tokens`` if it says what it
    cost all the same."""

    def __init__(
        self, what: str, prompt_tokens: int | None = None, completion_tokens: int | None = None
    ) -> None:
        super().__init__(what)
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens


def to_body(
    request: Request, model: str, endpoint: str, max_tokens_name: str, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON to send. Of ``extra``, which comes last, a key whose value is None takes away what
    is there. ``top_p``, ``stop``, ``seed`` and log-probabilities are only there if they are set;
    later samples count up from the seed."""
    decoding, is_chat, alternatives = (
        request.decoding,
        endpoint == "chat",
        request.decoding.top_logprobs or None,
    )
    system = [{"role": "system", "content": request.system}] if request.system else []
    named = {"name": "reply", "schema": json.loads(request.schema or "{}"), "strict": True}
    schema = {"type": "json_schema", "json_schema": named}
    content = {
        "model": model,
        "messages": [*system, {"role": "user", "content": request.prompt}] if is_chat else None,
        "prompt": (
            None
            if is_chat
            else f"{request.system}\n\n{request.prompt}"
            if request.system
            else request.prompt
        ),
        max_tokens_name: decoding.max_tokens,
        "temperature": decoding.temperature,
        "top_p": None if decoding.top_p == 1.0 else decoding.top_p,
        "stop": list(decoding.stop) or None,
        "seed": None if decoding.seed is None else decoding.seed + request.sample,
        "logprobs": True if is_chat and alternatives else alternatives,
        "top_logprobs": alternatives if is_chat else None,
        "response_format": schema if request.schema else None,
        **extra,
    }
    return {name: value for name, value in content.items() if value is not None}


def read_reply(text: str, endpoint: str) -> Answer:
    """The answer in the JSON of a reply. Thoughts that come in a field of their own
    (``reasoning_content``) are left out, but for those that never came to an answer.
    Log-probabilities are those of the first token of the text, None where the server sends none
    that can be read. An empty text is an answer only if the server says that it was cut off or
    filtered: asking again would give the same. Raises BadReply: no JSON, not the expected shape, or
    an empty text."""
    try:
        reply = parse_json(text, is_shared=False)
    except ValueError as error:
        raise BadReply(f"a reply that is not JSON ({error}): {text[:80]!r}") from None
    return answer_in(reply, endpoint)


def answer_in(reply: Any, endpoint: str) -> Answer:
    """As ``read_reply``, of what the JSON holds."""
    quoted = f"{str(reply)[:80]!r}"
    usage = reply.get("usage") if isinstance(reply, dict) else None
    given = [
        usage.get(name) if isinstance(usage, dict) else None
        for name in ("prompt_tokens", "completion_tokens")
    ]
    counts = [
        each if isinstance(each, int) and 0 <= each <= _MOST_TOKENS else None for each in given
    ]
    try:
        choice = reply["choices"][0]
        content = content_of(choice, usage) if endpoint == "chat" else choice["text"]
        finish_reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadReply(f"a reply without choices: {quoted}", *counts) from None
    if not isinstance(content, str | None):
        raise BadReply(f"a text that is a {type(content).__name__}: {quoted}", *counts)
    finish_reason = finish_reason if isinstance(finish_reason, str) else None
    if not (content and content.strip()) and finish_reason not in ("length", "content_filter"):
        raise BadReply(f"an empty text (finish_reason {finish_reason})", *counts)
    sound = _storable(content or "")
    alternatives = _first_token_logprobs(choice.get("logprobs"), sound)
    return Answer(sound, finish_reason, counts[0], counts[1], first_token_logprobs=alternatives)


def _first_token_logprobs(logprobs: Any, text: str) -> tuple[tuple[str, float], ...] | None:
    """The alternatives of the first token that is not white space, most likely first; None if
    ``text`` does not begin with that token, as where a server took a thought out of the text but
    not out of the tokens."""
    try:
        for token, alternatives in _positions(logprobs):
            if word := token.strip(BLANKS):
                if not text.lstrip().startswith(word):
                    return None
                sound = [
                    (_storable(other), min(float(value), 0.0))
                    for other, value in alternatives
                    if _is_number(value)
                ]
                return tuple(sorted(sound, key=lambda pair: -pair[1])) or None
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError):
        return None  # some other form: the text is an answer all the same
    return None


def _positions(logprobs: Any) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """(token, its alternatives and itself) for each token of the text, from the form of chat
    completions or of completions."""
    if "content" in logprobs:
        for each in logprobs["content"]:
            others = [
                (other["token"], other["logprob"]) for other in each.get("top_logprobs") or ()
            ]
            yield each["token"], _with_itself(others, each["token"], each["logprob"])
    else:
        for number, token in enumerate(logprobs["tokens"]):
            others = list(((logprobs.get("top_logprobs") or {number: None})[number] or {}).items())
            yield token, _with_itself(others, token, logprobs["token_logprobs"][number])


def _with_itself(others: list[tuple[str, Any]], token: str, logprob: Any) -> list[tuple[str, Any]]:
    return others if any(other == token for other, _ in others) else [(token, logprob), *others]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _storable(text: str) -> str:
    """``text`` without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()
