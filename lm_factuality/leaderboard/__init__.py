"""Submissions to a leaderboard: made from lm_eval's results, checked, and shown on a site.

``pack`` makes a submission. ``rules`` say what a leaderboard accepts, ``evidence`` reads a
submission once, and ``check`` holds the checks, which are pure functions of what was read.
``rerun`` runs a part of a submission again, ``site`` shows what was accepted, and ``workflow``
writes the repository that submissions come to. The command ``lm-factuality leaderboard`` calls
these modules.
"""
