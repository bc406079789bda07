"""Times FACTOR's questions for chat models, one after the other and many at once.

`bench.suite` calls `compare` with a server on this machine.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.suite.shapes import sample_rows
from bench.timing import Timing, time_in_processes
from lm_factuality.ground.suite import tasks_folder
from tests.judges.server import Act, JudgeServer
from tests.serving import serve

CONCURRENCY = 16
"""The number of questions at once."""

_CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
_BIN = Path(sys.executable).parent
_VLLM = _BIN / "vllm"
_TRANSFORMERS = _BIN / "transformers"
_SECONDS_OF_ANSWER = 0.1  # of the server without a model


class ChatServer(NamedTuple):
    """A chat model behind a server."""

    url: str
    """The address of the server, without the path of its API."""

    model: str
    """The name of the model there."""


@contextmanager
def serve_sample_model(folder: Path) -> Iterator[ChatServer]:
    """Serve the sample's checkpoint with a chat template within a ``with`` block.

    The server is vLLM's if it is installed, or else that of transformers, which computes one
    request after the other. Without either, a server without a model takes 100 ms for each answer.

    Args:
        folder: A folder for the checkpoint.
    """
    has_vllm = _VLLM.exists()
    if not has_vllm and importlib.util.find_spec("uvicorn") is None:
        answer = Act(text="True", delay=_SECONDS_OF_ANSWER)
        with closing(JudgeServer(lambda prompt, attempt: answer)) as server:
            yield ChatServer(server.base_url.removesuffix("/v1"), "none")
        return

    model = folder / "larger"
    shutil.copytree(tasks_folder() / "sample" / "models" / "larger", model)
    (model / "chat_template.jinja").write_text(_CHAT_TEMPLATE, encoding="utf-8")
    program = _VLLM if has_vllm else _TRANSFORMERS
    options = ["--enforce-eager"] if has_vllm else ["--device", "cpu"]

    def command(port: str) -> list[str]:
        address = ["--host", "127.0.0.1", "--port", port]
        return [str(program), "serve", str(model), *address, "--dtype", "float32", *options]

    with serve(command) as url:
        yield ChatServer(url, str(model))


def compare(server: ChatServer, num_rows: int, runs: int) -> dict[str, Timing]:
    """Time both ways in turn.

    Args:
        server: The server to ask.
        num_rows: The number of the sample's rows. There are four questions about each.
        runs: The number of runs.

    Returns:
        The timing of each way. The results are the answers as tuples.
    """
    ways = {
        "one after the other": (prepare_questions, (server, num_rows, 1)),
        f"{CONCURRENCY} at once": (prepare_questions, (server, num_rows, CONCURRENCY)),
    }
    return time_in_processes(ways, runs)


def prepare_questions(
    server: ChatServer, num_rows: int, concurrency: int
) -> Callable[[], list[tuple[object, ...]]]:
    """Prepare lm_eval's client for chat servers, and return the work of asking all questions.

    Args:
        server: The server to ask.
        num_rows: The number of the sample's rows.
        concurrency: The number of questions at once.
    """
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalChatCompletion

    from judges.templates import Prompts
    from lm_factuality.benchmarks.factor_chat.metrics import PROTOCOLS
    from lm_factuality.harness.answers import word_answers

    client = LocalChatCompletion(
        model=server.model,
        base_url=f"{server.url}/v1/chat/completions",
        num_concurrent=concurrency,
        timeout=600,
    )
    protocol = PROTOCOLS["statements"]
    prompts = Prompts()
    generation = {"max_gen_toks": 4, "temperature": 0.0}
    questions = []
    for row in sample_rows(num_rows):
        for subject in protocol.subjects(row.prefix, row.choices):
            text = prompts.render(protocol.prompt, subject)
            messages = client.apply_chat_template([{"role": "user", "content": text}])
            arguments = (messages, protocol.answer_words(4), "auto", generation)
            questions.append(Instance("word_answers", {}, arguments, 0))

    def ask() -> list[tuple[object, ...]]:
        return [tuple(answer) for answer in word_answers(client, questions, disable_tqdm=True)]

    return ask
