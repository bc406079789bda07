"""A real HTTP server in a thread that plays a model, by a script of the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MODEL_NAMES = ("small-judge", "large-judge")
HANGING_SECONDS = 3600  # longer than any test waits


@dataclass(frozen=True)
class Act:
    """What the server does with one request: a sound reply by default, or a fault."""

    status: int = 200
    """The HTTP status."""

    text: str | None = None
    """The text of the model's answer or, with another status than 200, the message of the error."""

    headers: dict[str, str] = field(default_factory=dict)
    """Headers of the reply, besides those of its type and length."""

    finish_reason: str | None = "stop"
    """Why the model's answer ended."""

    usage: dict[str, int] | None = field(
        default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5}
    )
    """The tokens that the server counts."""

    raw: bytes | None = None
    """The whole body, in place of one that is made from ``text``."""

    delay: float = 0.0
    """How many seconds pass before the reply."""

    kind: str = "reply"
    """What happens: ``reply``, or one of these faults.

    ``hang`` never replies. ``reset`` closes the connection without a reply. ``cut`` sends half of
    the body and then closes the connection. ``truncate`` sends a reply whose JSON breaks off.
    """

    logprobs: Any = None
    """The log-probabilities of the answer's tokens. Left out if None."""


Script = Callable[[str, int], Act]
"""Says what happens to a request, from its prompt and how often the prompt was sent before."""


def answer_to_prompt(prompt: str, attempt: int) -> Act:
    """Answer "answer to p0" to the prompt "p0"."""
    return Act(text=f"answer to {prompt}")


class JudgeServer:
    """A server of the chat and completions endpoints on a free port, with a record of requests."""

    def __init__(self, script: Script = answer_to_prompt) -> None:
        """Start the server.

        Args:
            script: What it does with each request. A test may replace it at any time.
        """
        self.script = script
        self.attempts: Counter[str] = Counter()
        """How often each prompt was sent."""

        self.bodies: list[dict[str, Any]] = []
        """The JSON of each request, in the order of arrival, as are the next three."""

        self.headers: list[dict[str, str]] = []
        """The headers of each request, with names in lower case."""

        self.paths: list[str] = []
        """The path of each request, such as ``/v1/chat/completions``."""

        self.times: list[float] = []
        """When each request arrived, in seconds of a clock of the server."""

        self.busiest = 0
        """The largest number of requests that were under way at once."""

        self._num_under_way = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve_connection, "127.0.0.1", 0, backlog=256), self._loop
        ).result(timeout=10)
        self.port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        """Stop the server, also in the middle of replies."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        """Accept no more connections, and cancel the replies under way."""
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Reply to all requests of one connection, until one of the two sides ends it."""
        # A client that goes away, also in the middle of a request, is no failure of the test.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            is_open = True
            while is_open:
                request = await _read_request(reader)
                is_open = await self._reply(writer, request)
        writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, request: _HttpRequest) -> bool:
        """Reply to one request, and return whether the connection stays open."""
        if request.path == "/v1/models":
            models = {"data": [{"id": name} for name in MODEL_NAMES]}
            await _send(writer, 200, json.dumps(models).encode(), {})
            return True

        act = self._record(request)
        self._num_under_way += 1
        self.busiest = max(self.busiest, self._num_under_way)
        try:
            await asyncio.sleep(HANGING_SECONDS if act.kind == "hang" else act.delay)
        finally:
            self._num_under_way -= 1

        if act.kind == "reset":
            writer.transport.abort()
            return False
        body = _reply_body(act, is_chat="messages" in json.loads(request.body))
        if act.kind == "cut":
            # The header promises the whole length.
            writer.write(_reply_head(200, len(body), {}) + body[: len(body) // 2])
            await writer.drain()
            return False
        await _send(writer, act.status, body, act.headers)
        return True

    def _record(self, request: _HttpRequest) -> Act:
        """Record a request, and return what the script does with it."""
        content = json.loads(request.body)
        prompt = _prompt_of(content)
        attempt = self.attempts[prompt]
        self.attempts[prompt] += 1
        self.bodies.append(content)
        self.headers.append(request.headers)
        self.paths.append(request.path)
        self.times.append(self._loop.time())
        return self.script(prompt, attempt)


@dataclass(frozen=True)
class _HttpRequest:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


async def _read_request(reader: asyncio.StreamReader) -> _HttpRequest:
    """Read the next request of a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    request_line, *header_lines = head.strip().split("\r\n")
    headers = {}
    for line in header_lines:
        name, value = line.split(": ", 1)
        headers[name.lower()] = value
    _, path, _ = request_line.split()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return _HttpRequest(path, headers, body)


def _prompt_of(content: dict[str, Any]) -> str:
    """Return the prompt of a request: the text of its last message, or its only text."""
    if "messages" not in content:
        return content["prompt"]
    prompt = content["messages"][-1]["content"]
    # Clients of Anthropic's form send a list of parts, of which ours have one.
    if isinstance(prompt, list):
        return prompt[0]["text"]
    return prompt


def _reply_body(act: Act, *, is_chat: bool) -> bytes:
    """Return the body of a reply: the model's answer, or an error.

    Args:
        act: What the script does.
        is_chat: Whether the request was to the chat endpoint, whose answers are messages.
    """
    if act.raw is not None:
        return act.raw
    if act.status != 200:
        error = {"message": act.text or "not now", "code": None}
        return json.dumps({"error": error}).encode()

    choice: dict[str, Any] = {"index": 0, "finish_reason": act.finish_reason}
    if is_chat:
        choice["message"] = {"role": "assistant", "content": act.text}
    else:
        choice["text"] = act.text
    if act.logprobs is not None:
        choice["logprobs"] = act.logprobs
    body = json.dumps({"choices": [choice], "usage": act.usage}).encode()
    if act.kind == "truncate":
        return body[: len(body) // 2]
    return body


def _reply_head(status: int, length: int, headers: dict[str, str]) -> bytes:
    """Return the status line and the headers of a reply whose body has ``length`` bytes."""
    lines = [
        f"HTTP/1.1 {status} Some Reason",
        "Content-Type: application/json",
        f"Content-Length: {length}",
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]
) -> None:
    """Send a whole reply."""
    writer.write(_reply_head(status, len(body), headers) + body)
    await writer.drain()
