"""Keys that must not reach a results file, which lm_eval fills with the model's arguments as they
are."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml

_SECRET = re.compile(
    r"(?:.*[^a-z])?(?:(?:api|access|auth|private)?key|authorization|credentials?)|"
    r".*(?:token|secret|passw(?:or)?d|passphrase|bearer)|headers?",
    re.IGNORECASE,
)
# What ends like one and is none: tokens of a text, and keys by which things are found.
_HARMLESS = re.compile(
    r"(?:.*_)?(?:bos|eos|eot|eom|pad|unk|sep|cls|mask|prefix|stop|start|end|begin|think|max|min|num|first|last|next|new|special|image|audio|"
    r"video|tool|per|by)_token|(?:.*_)?(?:primary|foreign|public|sort|group|doc|cache|metric)_key|key",
    re.IGNORECASE,
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>]{1,2000}")
_IN_QUERIES = (
    "key",
    "sig",
    "signature",
    "code",
)  # which sign a request, besides what is_secret knows
_LONG_ENOUGH = 12  # characters of an environment variable's value that is looked for
_LONGEST_NAME = 200  # characters at the end of a name that are looked at
_ARGUMENT = re.compile(
    r"(?:^|[\s,;&?\"'{(])([A-Za-z][A-Za-z0-9_.-]{0,63})\s{0,3}=\s{0,3}[\"']?([^\s,;&\"']{6,512})"
)
INSTEAD = (
    "set the environment variable of the backend instead (OPENAI_API_KEY for OpenAI-compatible"
    " servers, HF_TOKEN for the Hub)"
)
_LOOKS = tuple(
    (start, what, re.compile(pattern))
    for start, what, pattern in load_yaml(__package__, "secrets.yaml")
)


def is_secret(name: str, value: Any) -> bool:
    """Whether ``name`` is that of a credential, and it is set."""
    end = name[-_LONGEST_NAME:]
    return (
        bool(_SECRET.fullmatch(end))
        and not _HARMLESS.fullmatch(end)
        and value not in (None, "", True, False)
    )


def without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` without those that look like credentials, or hold what does."""
    hidden = {place.partition(".")[0] for place, _ in secrets_within(arguments)}
    return {name: value for name, value in arguments.items() if name not in hidden}


def secrets_in_text(text: str) -> list[tuple[int, str]]:
    """(place in ``text``, what it looks like) of everything that looks like a credential; never the
    credential itself."""
    found = []
    for start, what, pattern in _LOOKS:
        if start in text:
            found += [(match.start(), what) for match in pattern.finditer(text)]
    return sorted(found)


def secrets_in_arguments(text: str) -> list[tuple[int, str]]:
    """(place, what) of credentials that ``text`` sets by name, as command lines and environments
    do: ``token=...``."""
    if "=" not in text:
        return []
    found = [match for match in _ARGUMENT.finditer(text) if is_secret(match[1], match[2])]
    return [(match.start(1), f"the value of {match[1]}") for match in found]


def secrets_within(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """(place, what is wrong with it) of every credential in options or settings, known by its name,
    by its look, or as what an environment variable with such a name holds. Places in places are
    joined by dots; the credential itself is never told."""
    if isinstance(value, str):
        if what := _look(value):
            yield place, f"holds what looks like {what}"
        return
    inside = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    for key, each in inside:
        where = f"{place}.{key}" if place else str(key)
        if isinstance(key, str) and is_secret(key, each):
            yield where, "is a credential"
        else:
            yield from secrets_within(each, where)


def _look(text: str) -> str | None:
    if found := secrets_in_text(text):
        return found[0][1]
    for match in _URL.finditer(text):
        try:
            url = urlsplit(match[0])
            names = [
                name
                for name, given in parse_qsl(url.query)
                if name.lower() in _IN_QUERIES or is_secret(name, given)
            ]
        except ValueError:
            continue
        if url.username or names:
            return (
                f"an address with {'a user name' if url.username else f'the key {names[0][:40]!r}'}"
            )
    return secret_of_environment(text)


def secret_of_environment(text: str) -> str | None:
    """Say which credential in an environment variable a text holds, or None if it holds none."""
    for name, value in os.environ.items():
        if len(value) >= _LONG_ENOUGH and value in text and is_secret(name, value):
            return f"the value of the environment variable {name}"
    return None


def refuse_secrets(arguments: Sequence[str]) -> None:
    """Looks at a command line, which logs and results repeat. Raises ConfigError: a credential in
    it; the text says where."""
    option = "the command line"
    for each in arguments:
        option = each.partition("=")[0] if each.startswith("--") else option
        try:
            value = json.loads(each) if each[:1] in "{[" else each
        except (ValueError, RecursionError):
            value = each
        found = [f"{place} {what}".strip() for place, what in secrets_within(value)]
        found += [what for _, what in secrets_in_arguments(each)]
        if found:
            raise ConfigError(
                f"{option}: {found[0]}, which logs and results would repeat; {INSTEAD}"
            )
