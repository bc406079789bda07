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


# What credentials look like wherever they stand. Each begins with a text that is looked for first, since samples are long.
_PATTERNS: tuple[tuple[str, str, str], ...] = (
    ("hf_", "a token of the Hugging Face Hub", r"\bhf_[A-Za-z0-9]{20,}"),
    ("sk-", "a key of an API", r"\bsk-(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{20,}"),
    ("gsk_", "a key of an API", r"\bgsk_[A-Za-z0-9]{20,}"),
    ("xai-", "a key of an API", r"\bxai-[A-Za-z0-9]{20,}"),
    ("r8_", "a key of an API", r"\br8_[A-Za-z0-9]{20,}"),
    ("AIza", "a key of an API", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("AKIA", "a cloud access key", r"\bAKIA[A-Z0-9]{16}\b"),
    ("gh", "a token of a code host", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("github_pat_", "a token of a code host", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("glpat-", "a token of a code host", r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("xox", "a token of a messenger", r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    ("eyJ", "a signed web token", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("PRIVATE KEY", "a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    ("earer ", "an authorization header", r"\b[Bb]earer (?=[A-Za-z0-9._~+/-]*\d)[A-Za-z0-9._~+/-]{16,}"),
    ("key", "an API key", r"(?i)\bapi_?key[\"']?\s*[:=]\s*[\"']?(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{16,}"),
    ("://", "an address with user and password", r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"'\\<>]+:[^\s/@\"'\\<>]+@[\w.-]"),
)  # fmt: skip
_COMPILED = tuple((start, what, re.compile(pattern)) for start, what, pattern in _PATTERNS)


def secrets_in_text(text: str) -> list[tuple[int, str]]:
    """(place in ``text``, what it looks like) of everything that looks like a credential; never the credential itself."""
    found = []
    for start, what, pattern in _COMPILED:
        if start in text:
            found += [(match.start(), what) for match in pattern.finditer(text)]
    return sorted(found)
