"""Statistics of scores: means over clusters, paired tests, agreement, and corrections by labels.

Benchmarks, reports and leaderboards call it. Every function is pure, i.e. it changes nothing and
reads no files.
"""
