"""lm-factuality: how factual language models are, as tasks for lm-evaluation-harness."""

__version__ = "0.2.0"
