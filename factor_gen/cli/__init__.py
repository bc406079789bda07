"""The ``factor-gen`` command."""

from factor_gen.cli.main import main

__all__ = ["main"]
