"""``python -m bench.judges``: requests one at a time and 64 at once, against a server on this
machine that takes 100 ms; and pairs for a classifier one at a time and in batches (``classifier``).

The time of a call is that of the whole way, answer store included, from a new store each time.
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

_REPLY = json.dumps(
    {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Answer: 1,3"},
            }
        ],
        "usage": {"prompt_tokens": 260, "completion_tokens": 4, "total_tokens": 264},
    }
).encode()
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    _REPLY
)
# 91 bytes
_WORDS = (
    "The river rises in the hills of the north and passes four towns before it reaches the sea. "
)


class _Slow(asyncio.Protocol):
    """One connection: the same reply to each POST, ``latency`` seconds after it has come."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, content = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = next(
            int(line[15:])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        if len(content) >= length:
            self._received = content[length:]
            asyncio.get_running_loop().call_later(
                self._latency, self._transport.write, _HEAD + _REPLY
            )


def _serve(pipe: Connection, latency: float) -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Slow(latency), "127.0.0.1", 0, backlog=512)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)

    asyncio.run(serve())


def _measure(arguments: argparse.Namespace) -> Iterator[Record]:
    """One at a time and many at once, in turn; ``ratio`` is how many times as fast the latter
    is."""
    calls = {1: arguments.calls_alone, arguments.concurrency: arguments.calls}
    with in_background(_serve, arguments.latency / 1000) as pipe:
        base_url = f"http://127.0.0.1:{pipe.recv()}/v1"
        _seconds(base_url, 4, 8)  # imports, first connections
        ways = {
            at_once: partial(_seconds, base_url, at_once, count) for at_once, count in calls.items()
        }
        seconds = take_turns(ways, arguments.runs, warm_up=0)
    found = {
        at_once: [1000 * each / calls[at_once] for each in runs]
        for at_once, runs in seconds.items()
    }
    medians = {at_once: statistics.median(each) for at_once, each in found.items()}
    ratio = medians[1] / medians[arguments.concurrency]
    for at_once, each in found.items():
        spread = {
            "median": medians[at_once],
            "slowest": max(each),
            "fastest": min(each),
            "rate": 1000 / medians[at_once],
        }
        yield {
            "concurrency": at_once,
            "calls": calls[at_once],
            "milliseconds": each,
            "ratio": ratio,
            **spread,
        }


def _seconds(base_url: str, concurrency: int, calls: int) -> float:
    config = JudgeConfig(
        "bench", "openai", model="bench", base_url=base_url, concurrency=concurrency
    )
    requests = [Request(f"{_WORDS * 11}\nClaim {number}.") for number in range(calls)]
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(AnswerStore(Path(folder) / "answers.sqlite")) as store,
        closing(OpenAIBackend(config)) as backend,
    ):
        start = time.perf_counter()
        answers = answer_requests(backend, store, requests, "asking")
        seconds = time.perf_counter() - start
    if any(answer.text != "Answer: 1,3" for answer in answers):
        raise FactualityError(f"the server on this machine gave a wrong answer: {answers[0]}")
    return seconds


def _measure_pairs(arguments: argparse.Namespace) -> Iterator[Record]:
    """A classifier's pairs one at a time and in batches, in turn, from a new store each time."""
    with tempfile.TemporaryDirectory() as folder:
        config = JudgeConfig(
            "bench",
            "classifier",
            model=str(_classifier(Path(folder) / "MiniCheck-tiny")),
            device="cpu",
        )
        sizes = {1: arguments.calls_alone, arguments.batch_size: arguments.pairs}
        ways = {
            size: partial(_pair_seconds, replace(config, batch_size=size), count)
            for size, count in sizes.items()
        }
        seconds = take_turns(ways, arguments.runs, warm_up=1)
    rates = {size: [sizes[size] / each for each in runs] for size, runs in seconds.items()}
    medians = {size: statistics.median(each) for size, each in rates.items()}
    for size, each in rates.items():
        spread = {
            "median": medians[size],
            "slowest": min(each),
            "fastest": max(each),
            "ratio": medians[size] / medians[1],
        }
        yield {"batch": size, "pairs": sizes[size], "rates": each, **spread}


def _classifier(folder: Path) -> Path:
    """A DeBERTa-v2 with random weights, small: on two cores arithmetic leaves little for batches to
    save, unlike on a GPU."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    from tests.judges.inference.tiny_classifiers import WORDS, word_tokenizer

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 512,
    }
    more = {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "type_vocab_size": 0,
        "pad_token_id": 0,
    }
    model = DebertaV2ForSequenceClassification(
        DebertaV2Config(vocab_size=len(WORDS) + 64, num_labels=2, **sizes, **more)
    )
    model.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def _pair_seconds(config: JudgeConfig, count: int) -> float:
    """Claims of 11 words against a passage of about 50."""
    pairs = [
        Pair(f"She was a painter {number} who taught at the school.", (_WORDS * 3,))
        for number in range(count)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Judge.open(config, Path(folder) / "answers.sqlite") as judge,
    ):
        verify(judge, pairs[:1])  # loads the model
        start = time.perf_counter()
        found = verify(judge, pairs)
        seconds = time.perf_counter() - start
    if any(each.score is None for each in found):
        raise FactualityError(f"a pair without a verdict: {found[0].reason}")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; the exit code says whether the ratio is at least ``--least``."""
    parser = argparse.ArgumentParser(prog="python -m bench.judges", description=__doc__)
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
        help="calls a run one at a time (default %(default)s)",
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
    parser.add_argument("--runs", type=int, default=5, help="default %(default)s")
    parser.add_argument(
        "--least", type=float, default=0, metavar="RATIO", help="exit with 1 if the ratio is below"
    )
    return run_parts(
        parser,
        {"asking": _measure, "classifier": _measure_pairs},
        Path(__file__).with_name("judges.yaml"),
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
