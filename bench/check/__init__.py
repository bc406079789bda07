"""Measures the verdicts of ``lm-factuality check``: ``python -m bench.check PART``."""
