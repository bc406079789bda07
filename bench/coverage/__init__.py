"""Measures by simulation how often 95% intervals contain the truth: ``python -m bench.coverage``.

Each family of scores has a module with functions that return `Cell`s, such as
`bench.coverage.means`. `bench.coverage.tables` lists all of them.
"""
