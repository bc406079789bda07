"""Readers of lm_eval's results files, and the recomputation of scores from samples.

Comparisons, reports and leaderboards read results with this package.
"""
