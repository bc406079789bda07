"""Measures how fast factor-gen makes benchmarks, and how good the rows are over many genres.

Run ``python -m bench.factor_gen PART``. ``make bench-gen`` and ``make bench-genres`` call it.
"""
