"""A repository of submissions: its skeleton with a workflow for GitHub, and the check of what a pull request changes."""

from lm_factuality.leaderboard.workflow.changed import Change, changed_submissions
from lm_factuality.leaderboard.workflow.skeleton import init_repository

__all__ = ["Change", "changed_submissions", "init_repository"]
