"""Options that a server does not support: how its error tells, and the request without them.

Judges behind a server and lm_eval's clients of servers both ask again without such an option.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

# The texts by which an error names each option.
_NAMES = {
    "response_format": ("response_format", "json_schema", "structured outputs?"),
    "seed": ("seed",),
    "logprobs": ("logprobs", "top_logprobs"),
    "max_tokens": ("max_tokens",),
    "max_completion_tokens": ("max_completion_tokens",),
    "temperature": ("temperature",),
    "top_k": ("top_k",),
}

# Finds the options that a text names. The name of the group that matches is the option.
_OPTION = re.compile(
    "|".join(rf"(?<!\w)(?P<{option}>{'|'.join(names)})(?!\w)" for option, names in _NAMES.items()),
    re.IGNORECASE,
)

# The limit of tokens has two names, of which a server may know one. It is never left out.
_OTHER_TOKEN_LIMIT = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}

# Tells "seed is not supported" from "max_tokens is too large", which is an error of the request.
_UNSUPPORTED = re.compile(
    r"unsupported|not support|n't support|unrecogni[sz]ed|unknown|unexpected|extra input|"
    r"extra field|not permitted|not allowed|not available|not enabled|not implemented|"
    r"cannot find field|only the default|deprecated",
    re.IGNORECASE,
)

# HTTP statuses about no money, a wrong key or address, or a slow or busy server.
_STATUSES_ABOUT_NO_OPTION = (401, 402, 404, 405, 408, 425, 429)


def find_unsupported_option(
    status: int, message: str, body: Mapping[str, Any], left_out: Collection[str] = ()
) -> str | None:
    """Find the option of a request that a server does not support, as its error message tells.

    Example:
        For status 400 and ``Unsupported parameter: 'max_tokens' is not supported with this model.
        Use 'max_completion_tokens' instead.`` it is ``max_tokens``.

    Args:
        status: The HTTP status of the reply.
        message: The text of the reply.
        body: The JSON of the request.
        left_out: The options that the request was sent without.

    Returns:
        The name of the option. None if the message is about something else.
    """
    if status < 400 or status in _STATUSES_ABOUT_NO_OPTION:
        return None
    is_about_support = _UNSUPPORTED.search(message) is not None
    # The advice to take another option stands after the unsupported one, so the first one counts.
    for mention in _OPTION.finditer(message):
        option = str(mention.lastgroup)
        # A request always has a limit of tokens, so the second of its two names is never left out.
        is_last_limit = _OTHER_TOKEN_LIMIT.get(option) in left_out
        can_be_left_out = option in body and not is_last_limit
        # A schema is left out after any error about it: the prompt asks for the same form.
        is_refused = is_about_support or option == "response_format"
        if can_be_left_out and is_refused:
            return option
    return None


def instead_of(option: str) -> str:
    """Return how requests are sent from now on: ``without it``, or under another name."""
    other_name = _OTHER_TOKEN_LIMIT.get(option)
    return f"with {other_name} instead" if other_name else "without it"


def without_options(body: Mapping[str, Any], options: Collection[str]) -> dict[str, Any]:
    """Return a request without some options. A limit of tokens gets its other name instead.

    Example:
        ``{"seed": 1, "max_tokens": 9}`` without ``seed`` and ``max_tokens`` →
        ``{"max_completion_tokens": 9}``
    """
    changed = dict(body)
    for option in options:
        value = changed.pop(option, None)
        if value is not None and option in _OTHER_TOKEN_LIMIT:
            changed[_OTHER_TOKEN_LIMIT[option]] = value
    if "logprobs" in options:
        # Servers accept the number of alternatives only together with log-probabilities.
        changed.pop("top_logprobs", None)
    return changed
