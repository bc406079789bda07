"""Runs the suite on published data with a real language model, and makes one table of the results.

``make real`` calls ``python -m bench.real``. ``docs/real.md`` explains it to users.
"""
