"""Readers of lm_eval's results files, comparisons of runs, and recomputed scores.

The commands ``lm-factuality compare`` and ``report`` and leaderboards read results here.
"""
