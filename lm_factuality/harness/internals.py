"""Looks up the parts of lm_eval that its guides do not describe.

Other releases may have moved these parts, so the suite imports each by name, and a missing one is
an error that says what to install. docs/development.md lists the parts and their uses.
"""

import pkgutil
from importlib.metadata import version
from typing import Any, TypeAlias

from lm_factuality.ground.errors import ConfigError

SUPPORTED = "lm-eval>=0.4.13,<0.5"  # as in pyproject.toml


LmEvalPart: TypeAlias = Any
"""A module, class, function or value of lm_eval. Its type depends on the name that is looked up."""


def internal(name: str) -> LmEvalPart:
    """Import a function, class or attribute of lm_eval that its guides do not describe.

    Example:
        ``internal("lm_eval.utils:make_table")`` returns the function ``make_table``.

    Args:
        name: The part, as ``lm_eval.module:Class.attribute``.

    Raises:
        ConfigError: The installed lm_eval has no such part.
    """
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError) as error:
        raise missing_part(name) from error


def missing_part(name: str) -> ConfigError:
    """Return the error for a part, such as ``lm_eval.utils:make_table``, that lm_eval lacks."""
    return ConfigError(
        f"lm_eval {version('lm_eval')} has no {name.replace(':', '.')}, which lm-factuality relies"
        f" on; install a version that has it: pip install '{SUPPORTED}'"
    )
