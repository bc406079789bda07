"""The ``lm-factuality`` command."""

from lm_factuality.cli.main import main

__all__ = ["main"]
