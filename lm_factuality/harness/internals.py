"""What the suite uses of lm_eval beyond the interface that its guides describe.

Another release may have moved any of it, so each part is looked up by name, and a missing one is an
error that says what to install. docs/development.md lists the parts, and what for.
"""

import pkgutil
from importlib.metadata import version
from typing import Any, TypeAlias

from lm_factuality.ground.errors import ConfigError

SUPPORTED = "lm-eval>=0.4.13,<0.5"  # as in pyproject.toml


LmEvalPart: TypeAlias = Any
"""A module, class, function or value of lm_eval. Its type depends on the name that is looked up."""


def internal(name: str) -> LmEvalPart:
    """Import a part of lm_eval that its guides do not describe, and which may move.

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
        raise lacks(name) from error


def lacks(name: str) -> ConfigError:
    """Return the error for a part that is missing."""
    return ConfigError(
        f"lm_eval {version('lm_eval')} has no {name.replace(':', '.')}, which lm-factuality relies"
        f" on; install a version that has it: pip install '{SUPPORTED}'"
    )
