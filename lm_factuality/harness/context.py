"""The state of a run of lm_eval that its tasks, judges and models share.

lm_eval builds tasks and models itself, so the suite cannot pass them anything. The command ``run``
calls `begin_run`; tasks, judges and models then call `current_run`.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from judges.budget import SpendingLimit
from lm_factuality.ground.console import is_first_process
from lm_factuality.harness.outputs import Rows

if TYPE_CHECKING:
    from lm_eval.api.task import Task

    from lm_factuality.harness.kept_answers import AnswerFile


@dataclass
class EvaluationRun:
    """The shared state of a run of lm_eval, from its first task to its last judge."""

    folder: Path | None = None
    """The folder in which generations are saved; None for the user's cache folder."""

    only_predicts: bool = False
    """Whether the run has ``--predict_only``, so that nothing is scored and no judge is asked."""

    answers: AnswerFile | None = None
    """The file in which the model's answers are kept; None keeps none."""

    tasks: dict[str, Task] = field(default_factory=dict)
    """The suite's tasks that were built, by name."""

    failures: list[str] = field(default_factory=list)
    """A message for each failed judge, with the command that judges the saved generations."""

    spending_limits: dict[str, SpendingLimit] = field(default_factory=dict)
    """What each judge may still spend, by its configuration as text."""

    retrieved: Rows = field(default_factory=dict)
    """The passages that the model has retrieved for each row."""

    is_evaluating: Event = field(default_factory=Event)
    """Is set once the model is loaded and requests begin."""

    logged: set[str] = field(default_factory=set)
    """The texts that `log_once` has logged."""

    def log_once(self, logger: logging.Logger, text: str, level: int = logging.WARNING) -> None:
        """Log a text unless this run has logged it, and only in the first of several processes.

        Args:
            logger: The logger of the caller.
            text: The text. Several tasks of a run may log the same warning.
            level: The level of the message.
        """
        # A text that the logger drops is not remembered, because a later call may show it.
        is_new = text not in self.logged
        if is_new and is_first_process() and logger.isEnabledFor(level):
            self.logged.add(text)
            logger.log(level, "%s", text)


_run: ContextVar[EvaluationRun | None] = ContextVar("run", default=None)


def begin_run(run: EvaluationRun) -> EvaluationRun:
    """Make a run the current one."""
    _run.set(run)
    return run


def current_run() -> EvaluationRun:
    """Return the run that `begin_run` made the current one, or begin one with the defaults."""
    return _run.get() or begin_run(EvaluationRun())
