"""The surroundings in which attacked commands run: a judge, a web site, and a warm process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.attack.replies import ReplyingServer
from bench.attack.warm import ASKED_MODELS, Ending, Task, WarmProcess
from tests.retrieval.references.conftest import Site

STORE = "answers.sqlite"
"""The name of the store of a judge's answers in a command's folder."""

KEPT = "kept"
"""The name, without ``.sqlite``, of the file of a model's answers in a command's folder."""

PAGE_CACHE = "pages"
"""The name of the folder with pages from the web in a command's folder."""


@dataclass
class World:
    """Everything that attacked commands need besides their own folder."""

    folder: Path
    """The folder for all files of an attack."""

    judge: ReplyingServer = field(default_factory=ReplyingServer)
    """The server of the judge that commands ask."""

    site: Site = field(default_factory=Site)
    """The web site from which commands fetch pages."""

    warm: WarmProcess = field(default_factory=WarmProcess)
    """The process that commands are forks of."""

    def __post_init__(self) -> None:
        """Start the web site."""
        threading.Thread(target=self.site.serve_forever, daemon=True).start()

    def task(self, command: Sequence[str], folder: Path, **disturbance: Any) -> Task:
        """Make the task of running a command in a folder, with a home folder of its own.

        Args:
            command: The program and its arguments.
            folder: The working directory.
            **disturbance: Fields of `Task` that say how the command is disturbed.
        """
        # The name is short, because Ray makes sockets there, whose paths have a limit.
        temporary = self.folder / "t"
        temporary.mkdir(exist_ok=True)
        environment = {
            "LM_FACTUALITY_HOME": str(folder / "home"),
            "TMPDIR": str(temporary),
            "OPENAI_API_KEY": "not-a-real-key",
            ASKED_MODELS: str(self._asked_models),
        }
        return Task(command, str(folder), environment, **disturbance)

    def run(self, command: Sequence[str], folder: Path, **disturbance: Any) -> Ending:
        """Run a command, with arguments as in `task`, and return how it ended."""
        self.warm.begin(self.task(command, folder, **disturbance))
        return self.warm.end()

    def count_calls(self) -> int:
        """Return how many calls the judge, the web site and local models have got so far."""
        page_requests = [path for path, *_ in self.site.log if path != "/robots.txt"]
        model_requests = 0
        if self._asked_models.is_file():
            model_requests = sum(map(int, self._asked_models.read_text().split()))
        # A run asks the server of its model for one token before it begins.
        answers = [body for body in self.judge.bodies if body.get("max_tokens") != 1]
        return len(answers) + len(page_requests) + model_requests

    @property
    def _asked_models(self) -> Path:
        """The file that has a line with the number of requests for each call of a local model."""
        return self.folder / "asked.txt"

    def close(self) -> None:
        """End the process and both servers."""
        self.warm.close()
        self.site.shutdown()
        self.site.server_close()
        self.judge.close()


def read_errors(folder: Path) -> str:
    """Return what the last command in a folder has printed to the standard error output."""
    return Path(f"{folder}.stderr").read_text(encoding="utf-8", errors="replace")


def count_saved_replies(folder: Path) -> int:
    """Return how many replies of judges, models and the web site a command's folder has."""
    num_replies = len(list((folder / PAGE_CACHE).glob("*.json")))
    stores = [folder / STORE, folder / "home" / STORE]
    # Runs that keep a model's answers there have judges that work offline and make no calls.
    kept = folder / f"{KEPT}.sqlite"
    if kept.is_file():
        stores = [kept]
    for store in stores:
        if store.is_file():
            num_replies += _count_answers(store)
    return num_replies


def _count_answers(store: Path) -> int:
    """Return the number of answers in a store, which may not have a table for them yet."""
    with closing(sqlite3.connect(store)) as database:
        tables = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'answers'")
        if tables.fetchone() is None:
            return 0
        (num_answers,) = database.execute("SELECT COUNT(*) FROM answers").fetchone()
        return int(num_answers)
