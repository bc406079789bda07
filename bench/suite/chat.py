"""FACTOR's questions for chat models, all at once beside one request after the other, to a server
on this machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.suite.shapes import sample_rows
from bench.timing import Timing, time_in_processes
from lm_factuality.ground.suite import tasks_folder
from tests.judges.server import Act, JudgeServer
from tests.serving import serve

AT_ONCE = 16
_TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
_BIN = Path(sys.executable).parent


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """(URL, the model's name there) of a server of the sample's checkpoint with a chat template,
    written to ``folder``: vLLM's if it is installed, or that of transformers, which computes one
    request after the other whatever it is sent. Without either, of a server without a model, which
    takes 100 ms for each answer."""
    if not (_BIN / "vllm").exists() and importlib.util.find_spec("uvicorn") is None:
        slow = JudgeServer(lambda prompt, attempt: Act(text="True", delay=0.1))
        yield slow.base_url.removesuffix("/v1"), "none"
        slow.close()
        return
    model = folder / "larger"
    shutil.copytree(tasks_folder() / "sample" / "models" / "larger", model)
    (model / "chat_template.jinja").write_text(_TEMPLATE, encoding="utf-8")
    program = _BIN / "vllm" if (_BIN / "vllm").exists() else _BIN / "transformers"
    options = ["--enforce-eager"] if program.name == "vllm" else ["--device", "cpu"]

    def command(port: str) -> list[str]:
        return [
            str(program),
            "serve",
            str(model),
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--dtype",
            "float32",
            *options,
        ]

    with serve(command) as url:
        yield url, str(model)


def compare(url: str, model: str, rows: int, runs: int) -> dict[str, Timing]:
    """Both ways in turn; results are the answers."""
    ways = {"one after the other": 1, f"{AT_ONCE} at once": AT_ONCE}
    return time_in_processes(
        {way: (prepare, (at_once, url, model, rows)) for way, at_once in ways.items()}, runs
    )


def prepare(at_once: int, url: str, model: str, rows: int) -> Callable[[], list[Any]]:
    """All questions about the first ``rows`` of the sample, by lm_eval's client for chat
    servers."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalChatCompletion

    from judges.templates import Prompts
    from lm_factuality.benchmarks.factor_chat.metrics import PROTOCOLS
    from lm_factuality.harness.answers import word_answers

    protocol, prompts = PROTOCOLS["statements"], Prompts()
    client = LocalChatCompletion(
        model=model, base_url=f"{url}/v1/chat/completions", num_concurrent=at_once, timeout=600
    )
    texts = [
        prompts.render(protocol.prompt, each)
        for row in sample_rows(rows)
        for each in protocol.subjects(row.prefix, row.choices)
    ]
    rest = (protocol.answer_words(4), "auto", {"max_gen_toks": 4, "temperature": 0.0})
    asked = [
        Instance(
            "word_answers",
            {},
            (client.apply_chat_template([{"role": "user", "content": text}]), *rest),
            0,
        )
        for text in texts
    ]
    return lambda: [tuple(answer) for answer in word_answers(client, asked, disable_tqdm=True)]
