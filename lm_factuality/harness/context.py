"""What a run of lm_eval knows beyond what lm_eval tells its tasks and models.

lm_eval makes tasks and models itself, so nothing can be handed to them. `begin_run` starts a run;
tasks, judges and models then look at `current_run`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from judges.budget import SpendingLimit
from judges.config import JudgeConfig
from lm_factuality.ground.console import is_first_process
from lm_factuality.harness.outputs import Rows

if TYPE_CHECKING:
    from lm_eval.api.task import Task


@dataclass
class EvaluationRun:
    """A run of lm_eval, from its first task to its last judge."""

    folder: Path | None = None
    """Where generations are kept; None for the user's cache folder."""

    only_predicts: bool = False
    """Whether nothing is to be scored (``--predict_only``), so that nobody need judge."""

    has_response_cache: bool = False
    """Whether the run has ``--use_cache``."""

    tasks: dict[str, Task] = field(default_factory=dict)
    """The suite's tasks that were made, by name."""

    failures: list[str] = field(default_factory=list)
    """What judges that failed said, each with the command that judges what was kept."""

    spending_limits: list[tuple[JudgeConfig, SpendingLimit]] = field(default_factory=list)
    """What each judge may still spend."""

    retrieved: Rows = field(default_factory=dict)
    """What the model has retrieved for each row."""

    told: set[str] = field(default_factory=set)
    """The texts that were logged, which several tasks may have alike."""

    def tell_once(self, logger: logging.Logger, text: str, level: int = logging.WARNING) -> None:
        """Log a text only once in this run, and only in the first of several processes.

        Args:
            logger: The logger of the caller.
            text: The text, which several tasks may want to log.
            level: The level of the message.
        """
        is_new = text not in self.told
        if is_new and is_first_process() and logger.isEnabledFor(level):
            self.told.add(text)
            logger.log(level, "%s", text)


_run: ContextVar[EvaluationRun | None] = ContextVar("run", default=None)


def begin_run(run: EvaluationRun) -> EvaluationRun:
    """Make a run the current one."""
    _run.set(run)
    return run


def current_run() -> EvaluationRun:
    """Return the run that goes on, or a new one where only lm_eval has begun one."""
    return _run.get() or begin_run(EvaluationRun())
