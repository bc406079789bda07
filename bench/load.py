"""Runs the suite on much data, with a judge's server that often fails, and measures memory.

    python -m bench.load
    python -m bench.load check --answers 2000

Each part runs a quarter of the data and then all of it, so that the growth of memory shows. Judges
ask a server on this machine. It fails in one of ten requests: it refuses, closes the connection,
breaks off, or replies in the wrong form. The exit code is 1 if a row is lost, or if a request that
has a usable reply is sent again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from bench.suite.leaderboard import make_documents, write_results
from bench.timing import Record, in_background, peak_mb, peak_mb_of_process, run_parts
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.verify import Pair, verify
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.files import write_lines, write_text
from tests.judges.server import Act, JudgeServer

_CONCURRENCY = 64
_SHARE_OF_FAULTS = 0.1
_FAULTS = (
    Act(status=503, text="overloaded"),
    Act(status=429, text="too many requests"),
    Act(text="", kind="reset"),
    Act(text="{}", kind="cut"),
    Act(text="I would rather not say."),
)
_CLAIMS_IN_PROMPT = re.compile(r"^Claims:\n((?:\d+\. .*\n)+)", re.MULTILINE)
_SUPPORTED = {"reason": "It is stated.", "verdict": "supported", "probability": 0.9}
_NUM_DOCUMENTS = 500
_PLACES = ("north gate", "old mill", "harbour", "market hall", "upper bridge")
_START = "import sys; from lm_factuality.cli import main; sys.exit(main(sys.argv[1:]))"
_CHECK_INTERVAL = 0.2  # seconds between two looks at the memory of a command


class FaultyJudge:
    """A server that plays a judge, and fails in some requests."""

    def __init__(self) -> None:
        """Start the server."""
        self.num_faults = 0
        """The requests that got no usable reply."""

        self._usable_replies: Counter[str] = Counter()
        self._server = JudgeServer(self._act)
        self.base_url = self._server.base_url

    @property
    def num_requests(self) -> int:
        """The requests that arrived."""
        return self.num_faults + self._usable_replies.total()

    @property
    def num_repeated(self) -> int:
        """The requests that came although the same prompt had got a usable reply."""
        return self._usable_replies.total() - len(self._usable_replies)

    def close(self) -> None:
        """Stop the server."""
        self._server.close()

    def _act(self, prompt: str, attempt: int) -> Act:
        """Fail, or support all claims of a prompt."""
        # The server would keep every request.
        self._server.bodies.clear()
        generator = random.Random(f"{attempt} {prompt}")
        if generator.random() < _SHARE_OF_FAULTS:
            self.num_faults += 1
            return generator.choice(_FAULTS)
        self._usable_replies[prompt] += 1
        return Act(text=json.dumps(_supporting_reply(prompt)))


def _supporting_reply(prompt: str) -> Mapping[str, Any]:
    """Return the reply that supports the claim of a prompt, or each of its numbered claims."""
    claims = _CLAIMS_IN_PROMPT.search(prompt)
    if claims is None:
        return _SUPPORTED
    num_claims = claims[1].count("\n")
    return {"verdicts": [{"number": number + 1, **_SUPPORTED} for number in range(num_claims)]}


def measure_check(arguments: argparse.Namespace) -> Iterator[Record]:
    """Check answers with a judge, and then the same answers once more.

    Raises:
        FactualityError: A claim is lost, or a request that has a usable reply is sent again.
    """
    for num_answers in _quarter_and_all(arguments.answers):
        with tempfile.TemporaryDirectory() as name, closing(FaultyJudge()) as server:
            folder = Path(name)
            answers = [_statement(2 * number) for number in range(num_answers)]
            _write_documents(folder / "documents")
            write_lines(
                folder / "answers.jsonl", [json.dumps({"answer": answer}) for answer in answers]
            )
            config = {"backend": "openai", "model": "small-judge", "base_url": server.base_url}
            write_text(
                folder / "judge.yaml", yaml.safe_dump({**config, "concurrency": _CONCURRENCY})
            )
            command = ["check", f"{folder}/answers.jsonl", "--knowledge", f"{folder}/documents"]
            command += ["--judge", f"{folder}/judge.yaml", "--out", f"{folder}/checked"]

            seconds, megabytes = _run_command(command, folder)
            requests = server.num_requests
            summary = json.loads((folder / "checked" / "summary.json").read_text(encoding="utf-8"))
            _run_command([*command[:-1], f"{folder}/again"], folder)
            _refuse_repetition(server)
            claims = (folder / "checked" / "claims.jsonl").read_text(encoding="utf-8").splitlines()
        numbers_of_answers = {json.loads(claim)["answer"] for claim in claims}
        if len(numbers_of_answers) != num_answers:
            raise FactualityError(f"of {num_answers} answers {len(numbers_of_answers)} have claims")
        yield {
            "work": f"{num_answers:,} answers",
            "items": len(claims),
            "unscored": summary["claims"]["unscored"],
            "requests": requests,
            "faults": server.num_faults,
            "again": server.num_requests - requests,
            "seconds": seconds,
            "megabytes": megabytes,
        }


def measure_verify(arguments: argparse.Namespace) -> Iterator[Record]:
    """Verify pairs of a claim and passages, and then the same pairs once more.

    Raises:
        FactualityError: A request that has a usable reply is sent again.
    """
    for num_pairs in _quarter_and_all(arguments.pairs):
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(FaultyJudge()) as server,
            in_background(_verify_pairs, num_pairs, server.base_url, folder) as pipe,
        ):
            seconds, unscored, megabytes = pipe.recv()
            requests = server.num_requests
            pipe.send("again")
            pipe.recv()
            _refuse_repetition(server)
            yield {
                "work": f"{num_pairs:,} pairs",
                "items": num_pairs,
                "unscored": unscored,
                "requests": requests,
                "faults": server.num_faults,
                "again": server.num_requests - requests,
                "seconds": seconds,
                "megabytes": megabytes,
            }


def _verify_pairs(pipe: Connection, num_pairs: int, base_url: str, folder: str) -> None:
    """Verify pairs as often as the pipe asks for, in a process of its own.

    Args:
        pipe: Gets the seconds, the number of unscored pairs and the peak memory in MB each time.
        num_pairs: The number of pairs.
        base_url: The address of the judge.
        folder: The folder of the store of answers.
    """
    config = JudgeConfig(
        "load", "openai", model="small-judge", base_url=base_url, concurrency=_CONCURRENCY
    )
    pairs = [
        Pair(_statement(number), (_statement(number), _statement(number + 1)))
        for number in range(num_pairs)
    ]
    is_asked = True
    while is_asked:
        start = time.perf_counter()
        with Judge.open(config, Path(folder) / "answers.sqlite") as judge:
            verifications = verify(judge, pairs)
        unscored = sum(verification.score is None for verification in verifications)
        pipe.send((time.perf_counter() - start, unscored, peak_mb()))
        is_asked = pipe.recv() != "stop"


def measure_report(arguments: argparse.Namespace) -> Iterator[Record]:
    """Build a report of many runs of simulated models, each over thousands of rows."""
    documents = {"news_factor": make_documents(arguments.rows)}
    for num_runs in _quarter_and_all(arguments.reported_runs):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for number in range(num_runs):
                write_results(folder / "results" / str(number), number, documents)
            command = ["report", f"{folder}/results", "--out", f"{folder}/report"]
            seconds, megabytes = _run_command(command, folder)
        yield {
            "work": f"{num_runs} runs of {arguments.rows:,} rows",
            "seconds": seconds,
            "megabytes": megabytes,
        }


def _quarter_and_all(count: int) -> tuple[int, int]:
    """Return a quarter of a number and the number."""
    return max(1, count // 4), count


def _statement(number: int) -> str:
    """Return a statement that no other number has."""
    place = _PLACES[number % len(_PLACES)]
    return f"House {number} at the {place} was built by family {number * 7} in {1200 + number}."


def _write_documents(folder: Path) -> None:
    """Write the documents that answers are checked against."""
    for number in range(_NUM_DOCUMENTS):
        statements = [_statement(40 * number + offset) for offset in range(40)]
        write_text(folder / f"{number}.txt", "\n\n".join(statements))


def _run_command(arguments: Sequence[str], folder: Path) -> tuple[float, float]:
    """Run ``lm-factuality`` in a process of its own.

    Args:
        arguments: The command line.
        folder: The folder for its stores.

    Returns:
        The seconds, and the highest resident memory in MB.

    Raises:
        FactualityError: The command failed.
    """
    start = time.perf_counter()
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdout=log,
            stderr=log,
            env={**os.environ, "LM_FACTUALITY_HOME": str(folder / "home")},
        )
        megabytes = 0.0
        while process.poll() is None:
            megabytes = max(megabytes, peak_mb_of_process(process.pid))
            time.sleep(_CHECK_INTERVAL)
        log.seek(0)
        if process.returncode != 0:
            raise FactualityError(f"{arguments[0]} ended with {process.returncode}: {log.read()}")
    return time.perf_counter() - start, megabytes


def _refuse_repetition(server: FaultyJudge) -> None:
    """Raise an error if a request was sent again although it had a usable reply."""
    if server.num_repeated:
        raise FactualityError(f"{server.num_repeated} requests were sent after a usable reply")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=description)
    sizes = {
        "answers": (10_000, "answers to check"),
        "pairs": (20_000, "pairs of a claim and passages to verify"),
        "reported-runs": (50, "runs in the report"),
        "rows": (1036, "rows of each run"),
    }
    for name, (default, meaning) in sizes.items():
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{meaning} (default %(default)s)"
        )
    parts: Mapping[str, Callable[[argparse.Namespace], Iterator[Record]]] = {
        "check": measure_check,
        "verify": measure_verify,
        "report": measure_report,
    }
    return run_parts(parser, parts, Path(__file__).with_name("load.yaml"), argv)


if __name__ == "__main__":
    sys.exit(main())
