"""lm_eval's clients of OpenAI-compatible servers, with what the suite needs on the wire.

`harness.run` and `judges.backends.lm_eval_model` replace lm_eval's classes by `client_class`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judges.backends.refusals import find_unsupported_option, instead_of, without_options
from judges.backends.server import OPENAI_KEY_VARIABLE, is_openai
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.replies import MAX_CONTENT_BYTES, KeyMask
from lm_factuality.ground.secrets import check_variable_name

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from lm_eval.api.model import LM
    from requests import HTTPError

# In a run lm_eval shows the lines of its own loggers alone.
logger = logging.getLogger("lm_eval.models")

# lm_eval's classes whose requests and replies have OpenAI's form, and whose key is OpenAI's.
_CLIENTS = (
    "LocalCompletionsAPI",
    "LocalChatCompletion",
    "OpenAICompletionsAPI",
    "OpenAIChatCompletion",
)

# The texts in a choice of a reply or in its message.
_TEXT_FIELDS = {"text", "content", "reasoning", "reasoning_content"}


@cache
def client_class(model_class: type[LM]) -> type[LM]:
    """Return the suite's version of a client class of lm_eval, and any other model class as it is.

    The version is a subclass of the same name, by which results and other code know it.
    """
    is_client = model_class.__module__ == "lm_eval.models.openai_completions"
    if not is_client or model_class.__name__ not in _CLIENTS:
        return model_class
    return type(model_class.__name__, (_Client, model_class), {})


def find_client_key(base_url: str, api_key_env: str | None) -> str:
    """Look up in the environment which key to send to a server.

    Args:
        base_url: The address of the server.
        api_key_env: The name of the environment variable, as the user wrote it in ``--model_args``.
            Empty stands for OPENAI_API_KEY. ``none``, which lm_eval turns into None, sends no key.

    Returns:
        The key. Empty if no key is sent.

    Raises:
        ConfigError: The environment variable that the user named is not set, or OpenAI's own
            server has no key.
    """
    # lm_eval turns the values of ``--model_args`` into None and numbers where it can.
    stated_name = str(api_key_env)
    if stated_name in ("none", "None"):
        return ""
    variable = stated_name or OPENAI_KEY_VARIABLE
    try:
        key = os.environ.get(check_variable_name(variable), "").strip()
    except ValueError as error:
        raise ConfigError(f"api_key_env in --model_args {error}") from None
    # A server of the user's own may need no key.
    is_needed = variable != OPENAI_KEY_VARIABLE or is_openai(base_url)
    if not key and is_needed:
        raise ConfigError(
            f"{base_url}: needs a key, but the environment variable {variable} is not set; set it,"
            " or pass api_key_env=NAME in --model_args, where none sends no key"
        )
    return key


class _Client:
    """What the suite changes in a client: its key, its seed, and what it does if refused.

    Attributes:
        refused_options: The options that the server has refused in this run, such as ``seed``.
        mask: Removes the key from what the server sends.
        think_end_token: The text that ends the model's thoughts. None for the common marks.
    """

    # Attributes of lm_eval's TemplateAPI, before which this class stands.
    base_url: str
    _header: dict[str, str] | None
    _seed: int | None

    def __init__(
        self, *, api_key_env: str | None = "", seed: int | None = 1234, **arguments: Any
    ) -> None:
        """Open the client; nothing is sent.

        Args:
            api_key_env: The environment variable that holds the server's key; empty for
                OPENAI_API_KEY. None or the word ``none`` sends no key.
            seed: The seed of the first sample of a prompt. None sends no seed.
            **arguments: The arguments of lm_eval's class.

        Raises:
            ConfigError: The environment variable is not set.
        """
        # The options that the server does not support.
        self.refused_options: set[str] = set()
        super().__init__(**arguments)
        # lm_eval's constructor cannot take None for the seed, and has set a default.
        self._seed = None if seed is None else int(seed)
        # Of lm_eval's clients, only those of chat servers keep this argument.
        self.think_end_token = arguments.get("think_end_token")
        self._key = find_client_key(self.base_url, api_key_env)
        self.mask = KeyMask(self._key)
        if self._key and not self._header and not is_openai(self.base_url):
            logger.warning(
                "the key in %s is sent to %s (api_key_env=NAME in --model_args takes the key of"
                " another variable, api_key_env=none sends none)",
                api_key_env or OPENAI_KEY_VARIABLE,
                urlsplit(self.base_url).netloc,
            )

    @cached_property
    def header(self) -> dict[str, str]:
        """The headers of each request."""
        if self._header:
            return self._header
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _create_payload(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Build a request as lm_eval does, without empty fields and unsupported options."""
        payload: dict[str, Any] = super()._create_payload(*arguments, **options)  # type: ignore[misc]
        # An answer would stop at once at an empty text.
        stop_texts = [text for text in payload.pop("stop", None) or () if text]
        # Some strict servers refuse an empty list.
        if stop_texts:
            payload["stop"] = stop_texts
        if payload.get("seed") in (None, "none"):
            payload.pop("seed", None)
        return without_options(payload, self.refused_options)

    def model_call(self, *arguments: Any, **options: Any) -> object:
        """Send one request, and send it again without each option that the server does not support.

        lm_eval calls this method with the prompts and the settings of the request.
        """
        from requests import HTTPError

        try:
            with self._masked_log():
                reply = super().model_call(*arguments, **options)  # type: ignore[misc]
            return self.safe_reply(reply)
        except HTTPError as error:
            option = self._option_refused_by(error)
            if option is None:
                raise

        # `_create_payload` now leaves the option out. If the server does not support another option
        # either, the next call finds it in the same way.
        self.refused_options.add(option)
        try:
            reply_without_option = self.model_call(*arguments, **options)
        except BaseException:
            # Without the option the request fails too, so the option may not be the problem.
            self.refused_options.discard(option)
            raise
        self._warn_of(option)
        return reply_without_option

    def _option_refused_by(self, error: HTTPError) -> str | None:
        """Return the option that the server does not support, as its error says, or None.

        The server's key is removed from the text of the error, in which a server may repeat it.
        """
        response: Any = error.response
        # The reason is part of the error's text.
        response.reason = self.mask.mask_text(str(response.reason))
        body = json.loads(response.request.body)
        return _unsupported_option(response.status_code, response.text, body, self.refused_options)

    async def amodel_call(self, session: ClientSession, *arguments: Any, **options: Any) -> object:
        """Send one request as `model_call` does, while others are under way."""
        adapting_session = _AdaptingSession(session, self)
        send = super().amodel_call  # type: ignore[misc]
        return await send(adapting_session, *arguments, **options)

    @contextmanager
    def _masked_log(self) -> Iterator[None]:
        """Mask the server's key in all that lm_eval logs while the ``with`` block runs."""

        def mask(record: logging.LogRecord) -> bool:
            """Mask the key in a line of the log, and return True so that the line is written."""
            record.msg = self.mask.mask_text(str(record.msg))
            return True

        client_logger = logging.getLogger("lm_eval.models.api_models")
        client_logger.addFilter(mask)
        try:
            yield
        finally:
            client_logger.removeFilter(mask)

    def safe_reply(self, reply: object) -> object:
        """Return a server's reply without the key, and with texts of more than 1 MB emptied.

        An empty text counts as no answer.

        Args:
            reply: The decoded JSON. It is checked, because a server may send any JSON value.
        """
        masked_reply = self.mask.mask_json(reply)
        choices = masked_reply.get("choices") if isinstance(masked_reply, dict) else None
        if not isinstance(choices, list):
            return masked_reply
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            self._empty_long_texts(choice)
            # Chat completions have the text in a message, other completions in the choice itself.
            if isinstance(choice.get("message"), dict):
                self._empty_long_texts(choice["message"])
        return masked_reply

    def _empty_long_texts(self, fields: dict[str, Any]) -> None:
        """Empty the texts of more than 1 MB among the fields of a reply, and log a warning."""
        for name in _TEXT_FIELDS.intersection(fields):
            if len(str(fields[name]).encode()) > MAX_CONTENT_BYTES:
                fields[name] = ""
                limit = f"{MAX_CONTENT_BYTES:,} bytes"
                logger.warning("%s: a text of more than %s is not read", self.base_url, limit)

    def remember_refused(self, options: Collection[str]) -> None:
        """Leave options out of all later requests. Each option is logged the first time."""
        for option in set(options) - self.refused_options:
            self.refused_options.add(option)
            self._warn_of(option)

    def _warn_of(self, option: str) -> None:
        """Log that requests are sent without an option."""
        server = urlsplit(self.base_url).netloc
        logger.warning("%s refuses %s: requests are sent %s", server, option, instead_of(option))


def _unsupported_option(
    status: int, text: str, body: Mapping[str, Any], left_out: Collection[str]
) -> str | None:
    """Return the option that a server does not support, as `find_unsupported_option` does.

    The result is never ``logprobs``. Log-probabilities are all that some tasks ask for, so a
    request without them is useless.
    """
    option = find_unsupported_option(status, text, body, left_out)
    return None if option == "logprobs" else option


class _AdaptingSession:
    """A session of aiohttp that posts a request again without the server's unsupported options.

    lm_eval builds all requests before it sends the first, so they are changed here. It sees only
    the last reply to each.
    """

    def __init__(self, session: ClientSession, client: _Client) -> None:
        """Wrap the session in which a client posts one request."""
        self._session = session
        self._client = client

    @asynccontextmanager
    async def post(
        self, url: str, *, json: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[_SafeReply]:
        """Post a request with the options that the server supports.

        Yields:
            The last reply, which may be an error.
        """
        async with await self._post_supported(url, json, headers) as reply:
            yield _SafeReply(reply, self._client)

    async def _post_supported(
        self, url: str, json: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ClientResponse:
        """Post a request, and post it again as long as its error names an unsupported option.

        Returns:
            The last reply, which may be an error.
        """
        left_out = set(self._client.refused_options)
        while True:
            body = without_options(json, left_out)
            reply = await self._session.post(url, json=body, headers=headers)
            if reply.ok:
                # Only a success shows that the request failed because of these options.
                self._client.remember_refused(left_out)
                return reply
            option = _unsupported_option(reply.status, await reply.text(), body, left_out)
            if option is None:
                return reply
            left_out.add(option)


class _SafeReply:
    """The part of an aiohttp reply that lm_eval reads, without the server's key."""

    def __init__(self, reply: ClientResponse, client: _Client) -> None:
        """Wrap the reply to a request of a client."""
        self._reply = reply
        self._client = client
        self.ok = reply.ok
        self.status = reply.status

    async def text(self) -> str:
        """Return the body as a text."""
        return self._client.mask.mask_text(await self._reply.text())

    async def json(self) -> object:
        """Return the body as JSON."""
        return self._client.safe_reply(await self._reply.json())

    def raise_for_status(self) -> None:
        """Raise aiohttp's error for a status of 400 or more."""
        from aiohttp import ClientResponseError

        try:
            self._reply.raise_for_status()
        except ClientResponseError as error:
            error.message = self._client.mask.mask_text(error.message)
            raise
