"""Errors that a user can act on: the command line prints them without a traceback and exits with 1."""

from __future__ import annotations


class FactualityError(Exception):
    """Something in the input, the data or the surroundings is wrong; the text says what, where and what to do."""


class ConfigError(FactualityError):
    """A task YAML or a command-line value that cannot be used."""


class DataError(FactualityError):
    """A data file that is missing, damaged or not what its task expects."""


class ModelError(FactualityError):
    """A model that cannot be scored in the way that was asked for."""
