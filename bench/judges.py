"""Times judges: requests one at a time and many at once, and pairs in batches.

    python -m bench.judges asking
    python -m bench.judges classifier

``asking`` sends requests to a server on this machine that takes 100 ms for each. ``classifier``
gives pairs to a small classifier. Times include the store of answers, which is new in each run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench.timing import Record, in_background, run_parts, take_turns
from judges.answers import Request
from judges.backends.openai_http import OpenAIBackend
from judges.config import JudgeConfig
from judges.judge import Judge, answer_requests
from judges.store import AnswerStore
from judges.verify import Pair, verify
from lm_factuality.ground.errors import FactualityError

_ANSWER = "Answer: 1,3"
_REPLY = json.dumps(
    {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": _ANSWER},
            }
        ],
        "usage": {"prompt_tokens": 260, "completion_tokens": 4, "total_tokens": 264},
    }
).encode()
_HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    _REPLY
)
_CONTENT_LENGTH = b"content-length:"
_SENTENCE = (
    "The river rises in the hills of the north and passes four towns before it reaches the sea. "
)
_SENTENCES_IN_PROMPT = 11  # about 1,000 bytes


class _SlowConnection(asyncio.Protocol):
    """A connection to the server, which gives the same reply to each POST after a while."""

    def __init__(self, latency: float) -> None:
        """Wait for requests.

        Args:
            latency: The seconds between a request and its reply.
        """
        self._latency = latency
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, over which the replies go."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Schedule a reply as soon as a whole request has arrived."""
        self._received += data
        headers, separator, content = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        content_length = 0
        for line in headers.lower().split(b"\r\n"):
            if line.startswith(_CONTENT_LENGTH):
                content_length = int(line.removeprefix(_CONTENT_LENGTH))
        if len(content) >= content_length:
            self._received = content[content_length:]
            loop = asyncio.get_running_loop()
            loop.call_later(self._latency, self._transport.write, _HEADERS + _REPLY)


def _serve(pipe: Connection, latency: float) -> None:
    """Run the server in a process of its own until something comes through the pipe.

    Args:
        pipe: Gets the server's port, and ends the server.
        latency: The seconds between a request and its reply.
    """

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _SlowConnection(latency), "127.0.0.1", 0, backlog=512
        )
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)

    asyncio.run(serve())


def measure_requests(arguments: argparse.Namespace) -> Iterator[Record]:
    """Time requests one at a time and many at once, in turn.

    Yields:
        A record for each number of requests at once, with milliseconds per call. Its ``ratio`` is
        how many times as fast many at once are.
    """
    calls_by_concurrency = {1: arguments.calls_alone, arguments.concurrency: arguments.calls}
    with in_background(_serve, arguments.latency / 1000) as pipe:
        base_url = f"http://127.0.0.1:{pipe.recv()}/v1"
        # The first calls also import modules and open connections.
        _time_requests(base_url, concurrency=4, num_calls=8)
        ways = {
            concurrency: partial(_time_requests, base_url, concurrency, num_calls)
            for concurrency, num_calls in calls_by_concurrency.items()
        }
        seconds = take_turns(ways, arguments.runs, warm_up=0)

    milliseconds = {}
    for concurrency, runs in seconds.items():
        num_calls = calls_by_concurrency[concurrency]
        milliseconds[concurrency] = [1000 * run / num_calls for run in runs]
    medians = {concurrency: statistics.median(runs) for concurrency, runs in milliseconds.items()}
    for concurrency, runs in milliseconds.items():
        yield {
            "concurrency": concurrency,
            "calls": calls_by_concurrency[concurrency],
            "milliseconds": runs,
            "ratio": medians[1] / medians[arguments.concurrency],
            "median": medians[concurrency],
            "slowest": max(runs),
            "fastest": min(runs),
            "rate": 1000 / medians[concurrency],
        }


def _time_requests(base_url: str, concurrency: int, num_calls: int) -> float:
    """Return the seconds that a number of requests takes.

    Args:
        base_url: The address of the server.
        concurrency: The number of requests at once.
        num_calls: The number of requests, which all differ.

    Raises:
        FactualityError: The server gave another answer than expected.
    """
    config = JudgeConfig(
        "bench", "openai", model="bench", base_url=base_url, concurrency=concurrency
    )
    text = _SENTENCE * _SENTENCES_IN_PROMPT
    requests = [Request(f"{text}\nClaim {number}.") for number in range(num_calls)]
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(AnswerStore(Path(folder) / "answers.sqlite")) as store,
        closing(OpenAIBackend(config)) as backend,
    ):
        start = time.perf_counter()
        answers = answer_requests(backend, store, requests, "asking")
        seconds = time.perf_counter() - start
    for answer in answers:
        if answer.text != _ANSWER:
            raise FactualityError(f"the server on this machine gave a wrong answer: {answer}")
    return seconds


def measure_pairs(arguments: argparse.Namespace) -> Iterator[Record]:
    """Time a classifier with pairs one at a time and in batches, in turn.

    Yields:
        A record for each size of batch, with pairs per second. Its ``ratio`` is how many times as
        fast this size is as one pair at a time.
    """
    pairs_by_batch_size = {1: arguments.calls_alone, arguments.batch_size: arguments.pairs}
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = _save_classifier(Path(folder) / "MiniCheck-tiny")
        config = JudgeConfig("bench", "classifier", model=str(checkpoint), device="cpu")
        ways = {
            batch_size: partial(_time_pairs, replace(config, batch_size=batch_size), num_pairs)
            for batch_size, num_pairs in pairs_by_batch_size.items()
        }
        seconds = take_turns(ways, arguments.runs, warm_up=1)

    rates = {}
    for batch_size, runs in seconds.items():
        rates[batch_size] = [pairs_by_batch_size[batch_size] / run for run in runs]
    medians = {batch_size: statistics.median(runs) for batch_size, runs in rates.items()}
    for batch_size, runs in rates.items():
        yield {
            "batch": batch_size,
            "pairs": pairs_by_batch_size[batch_size],
            "rates": runs,
            "median": medians[batch_size],
            "slowest": min(runs),
            "fastest": max(runs),
            "ratio": medians[batch_size] / medians[1],
        }


def _save_classifier(folder: Path) -> Path:
    """Save a small DeBERTa-v2 with random weights to a folder, and return the folder.

    It is small because batches save little on two cores, where arithmetic takes most of the time.
    """
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    from tests.judges.inference.tiny_classifiers import WORDS, word_tokenizer

    torch.manual_seed(0)
    config = DebertaV2Config(
        vocab_size=len(WORDS) + 64,
        num_labels=2,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        type_vocab_size=0,
        pad_token_id=0,
    )
    DebertaV2ForSequenceClassification(config).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def _time_pairs(config: JudgeConfig, num_pairs: int) -> float:
    """Return the seconds that a classifier takes for claims of 11 words and passages of 54.

    Raises:
        FactualityError: A pair got no verdict.
    """
    pairs = [
        Pair(f"She was a painter {number} who taught at the school.", (_SENTENCE * 3,))
        for number in range(num_pairs)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Judge.open(config, Path(folder) / "answers.sqlite") as judge,
    ):
        # The first pair loads the model.
        verify(judge, pairs[:1])
        start = time.perf_counter()
        verdicts = verify(judge, pairs)
        seconds = time.perf_counter() - start
    for verdict in verdicts:
        if verdict.score is None:
            raise FactualityError(f"a pair without a verdict: {verdict.reason}")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. The exit code says whether the ratio is at least ``--least``."""
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m bench.judges", description=description)
    parser.add_argument(
        "--concurrency", type=int, default=64, help="requests at once (default %(default)s)"
    )
    parser.add_argument(
        "--calls",
        type=int,
        default=2560,
        help="calls a run at that concurrency (default %(default)s)",
    )
    parser.add_argument(
        "--calls-alone",
        type=int,
        default=40,
        help="calls or pairs a run, one at a time (default %(default)s)",
    )
    parser.add_argument(
        "--latency", type=float, default=100, help="of the server, in ms (default %(default)s)"
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=256,
        help="pairs a run of the classifier in batches (default %(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=16, help="pairs a batch (default %(default)s)"
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each way (default %(default)s)"
    )
    parser.add_argument(
        "--least", type=float, default=0, metavar="RATIO", help="exit with 1 if the ratio is below"
    )
    parts = {"asking": measure_requests, "classifier": measure_pairs}
    return run_parts(parser, parts, Path(__file__).with_name("judges.yaml"), arguments)


if __name__ == "__main__":
    sys.exit(main())
