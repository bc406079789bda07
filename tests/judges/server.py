"""A real HTTP server in a thread, with a script of what it does to whom."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Act:
    """What becomes of one request: a reply, or none (``reset``, ``hang``)."""

    status: int = 200
    text: str | None = None  # of the answer; the whole body if ``raw``
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str | None = "stop"
    usage: dict[str, int] | None = field(
        default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5}
    )
    raw: bytes | None = None
    delay: float = 0.0
    kind: str = "reply"
    logprobs: Any = None  # of the choice, left out if None


Script = Callable[[str, int], Act]


def echo(prompt: str, attempt: int) -> Act:
    return Act(text=f"answer to {prompt}")


class JudgeServer:
    """``script(prompt, attempt)`` says what happens; ``attempts`` counts by prompt, ``bodies`` and
    ``headers`` keep all.

    Extra attributes: ``busiest`` is the largest number of requests under way at once.
    """

    def __init__(self, script: Script = echo) -> None:
        self.script = script
        self.attempts: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.busiest = self._busy = 0
        self.models = ["small-judge", "large-judge"]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=256), self._loop
        ).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.strip().split("\r\n")
                headers = {
                    name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._reply(writer, first.split()[1], headers, body):
                    break
        writer.close()

    async def _reply(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: bytes
    ) -> bool:
        """Whether the connection lives on."""
        if path == "/v1/models":
            await _send(
                writer,
                200,
                json.dumps({"data": [{"id": name} for name in self.models]}).encode(),
                {},
            )
            return True
        content = json.loads(body)
        prompt = content["messages"][-1]["content"] if "messages" in content else content["prompt"]
        if isinstance(prompt, list) and isinstance(
            prompt[0], dict
        ):  # Anthropic's form: parts, of which ours have one
            prompt = prompt[0]["text"]
        attempt = self.attempts[prompt]
        self.attempts[prompt] += 1
        self.bodies.append(content)
        self.headers.append(headers)
        self.paths.append(path)
        self.times.append(self._loop.time())
        act = self.script(prompt, attempt)
        self._busy += 1
        self.busiest = max(self.busiest, self._busy)
        try:
            await asyncio.sleep(3600 if act.kind == "hang" else act.delay)
        finally:
            self._busy -= 1
        if act.kind == "reset":
            writer.transport.abort()
            return False
        sent = _body(act, "messages" in content)
        if act.kind == "cut":  # promised, but not sent
            writer.write(_head(200, len(sent), {}) + sent[: len(sent) // 2])
            await writer.drain()
            return False
        await _send(writer, act.status, sent, act.headers)
        return True


def _body(act: Act, is_chat: bool) -> bytes:
    if act.raw is not None:
        return act.raw
    if act.status != 200:
        return json.dumps({"error": {"message": act.text or "not now", "code": None}}).encode()
    choice: dict[str, Any] = {"index": 0, "finish_reason": act.finish_reason}
    choice |= (
        {"message": {"role": "assistant", "content": act.text}} if is_chat else {"text": act.text}
    )
    if act.logprobs is not None:
        choice["logprobs"] = act.logprobs
    reply = json.dumps({"choices": [choice], "usage": act.usage}).encode()
    return reply[: len(reply) // 2] if act.kind == "truncate" else reply


def _head(status: int, length: int, headers: dict[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} Some Reason",
        "Content-Type: application/json",
        f"Content-Length: {length}",
    ]
    return "\r\n".join(
        [*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    ).encode()


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]
) -> None:
    writer.write(_head(status, len(body), headers) + body)
    await writer.drain()
