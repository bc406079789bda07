"""Keys that must not reach a results file, which lm_eval fills with the model's arguments as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SECRET = re.compile(
    r"(.*_)?(api_?key|auth_?token|access_?token|hf_?token|password|secret|authorization)|token|use_auth_token|headers?",
    re.I,
)


def is_secret(name: str, value: Any) -> bool:
    """Whether ``name`` is that of a credential, and it is set."""
    return bool(_SECRET.fullmatch(name)) and value not in (None, "", True, False)


def secret_names(arguments: Mapping[str, Any]) -> list[str]:
    """The names in ``arguments`` that look like credentials and are set."""
    return [name for name, value in arguments.items() if is_secret(name, value)]


def without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` less those that look like credentials."""
    hidden = secret_names(arguments)
    return {name: value for name, value in arguments.items() if name not in hidden}
