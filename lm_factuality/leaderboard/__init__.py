"""Submissions: made out of lm_eval's results (``pack``), and refused if anything about them is not so (``check``).

``rules`` say what a leaderboard takes, ``submission`` what a submission says of itself, ``refusals`` why one is refused. The
checks go from the outside in: ``contents`` (the files), ``scan`` (credentials), ``configuration`` (how the model was run),
``judges`` (who marked it), ``rows`` and ``documents`` (the data), and the scores made anew by ``lm_factuality.results``.
"""

from lm_factuality.leaderboard.check import Checked, check_submission
from lm_factuality.leaderboard.find import check_every, find_submissions
from lm_factuality.leaderboard.pack import Told, pack
from lm_factuality.leaderboard.refusals import CODES, Refusal
from lm_factuality.leaderboard.rules import Rules, TaskRules, leaderboard_names, read_rules
from lm_factuality.leaderboard.submission import Submission, read_submission

__all__ = [
    "CODES",
    "Checked",
    "Refusal",
    "Rules",
    "Submission",
    "TaskRules",
    "Told",
    "check_every",
    "check_submission",
    "find_submissions",
    "leaderboard_names",
    "pack",
    "read_rules",
    "read_submission",
]
