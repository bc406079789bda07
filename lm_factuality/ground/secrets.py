"""Detection of credentials, such as API keys, which must not reach results files and logs.

The command line, readers of YAML files and the results call it, since lm_eval writes all arguments
of a model into its results.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.packages import load_yaml

_SECRET = re.compile(
    r"(?:.*[^a-z])?(?:(?:api|access|auth|private)?key|authorization|credentials?)|"
    r".*(?:token|secret|passw(?:or)?d|passphrase|bearer)|headers?",
    re.IGNORECASE,
)
# Names that end like those of credentials, but are tokens of a text or keys of a table.
_HARMLESS = re.compile(
    r"(?:.*_)?(?:bos|eos|eot|eom|pad|unk|sep|cls|mask|prefix|stop|start|end|begin|think|max|min|num|first|last|next|new|special|image|audio|"
    r"video|tool|per|by)_token|(?:.*_)?(?:primary|foreign|public|sort|group|doc|cache|metric)_key|key",
    re.IGNORECASE,
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>]{1,2000}")
# Parameters of an address that authorize a request, in addition to those of is_secret.
_CREDENTIAL_PARAMETERS = ("key", "sig", "signature", "code")
_LONG_ENOUGH = 12  # characters; shorter values of environment variables may occur in any text
_LONGEST_NAME = 200  # characters at the end of a name that are compared, to bound the time
_ARGUMENT = re.compile(
    r"(?:^|[\s,;&?\"'{(])([A-Za-z][A-Za-z0-9_.-]{0,63})\s{0,3}=\s{0,3}[\"']?([^\s,;&\"']{6,512})"
)
INSTEAD = (
    "set the environment variable of the backend instead (OPENAI_API_KEY for OpenAI-compatible"
    " servers, HF_TOKEN for the Hub)"
)


class CredentialFormat(NamedTuple):
    """The form that the credentials of one provider have."""

    start: str
    """Text that each of these credentials contains, which is fast to find."""

    description: str
    """Their name for an error, such as ``a token of the Hugging Face Hub``."""

    pattern: re.Pattern[str]


_CREDENTIAL_FORMATS = tuple(
    CredentialFormat(start, description, re.compile(pattern))
    for start, description, pattern in load_yaml(__package__, "secrets.yaml")
)


class SecretSetting(NamedTuple):
    """A setting that holds a credential. The credential itself is not kept."""

    key: str
    """The key of the setting, with dots between levels, such as ``server.headers.0``."""

    problem: str
    """The end of the error's sentence, such as ``is a credential``."""


def is_secret(name: str, value: object) -> bool:
    """Tell whether a setting has the name of a credential, such as ``api_key``, and is set.

    Args:
        name: The name of an argument, an option, a key or an environment variable.
        value: Its value. None, an empty text and booleans are no credentials.
    """
    if value in (None, "", True, False):
        return False
    name_end = name[-_LONGEST_NAME:]
    return bool(_SECRET.fullmatch(name_end)) and not _HARMLESS.fullmatch(name_end)


def without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without those that are credentials or contain any."""
    return {
        name: value for name, value in arguments.items() if not any(secrets_within({name: value}))
    }


def secrets_in_text(text: str) -> list[str]:
    """Describe everything in a text that has the form of a known provider's credential.

    Returns:
        Descriptions such as ``a token of the Hugging Face Hub``, in the order of the text. They do
        not quote the credentials.
    """
    matches = []
    for credential_format in _CREDENTIAL_FORMATS:
        if credential_format.start not in text:
            continue
        for match in credential_format.pattern.finditer(text):
            matches.append((match.start(), credential_format.description))
    return [description for _, description in sorted(matches)]


def secrets_in_assignments(text: str) -> list[str]:
    """Describe the credentials that a text sets by name, as command lines and environments do.

    Returns:
        Descriptions in the order of the text. ``model=gpt2,token=abc123`` has one:
        ``the value of token``.
    """
    # Most texts set nothing, and this is much faster than the search.
    if "=" not in text:
        return []
    return [
        f"the value of {name}" for name, value in _ARGUMENT.findall(text) if is_secret(name, value)
    ]


def secrets_within(value: object, key: str = "") -> Iterator[SecretSetting]:
    """Find the credentials in a setting and in all settings inside it.

    ``{"server": {"api_key": "abc"}}`` has one, at the key ``server.api_key``. A credential is
    recognized by the name of its key, by its form, or because it is the value of an environment
    variable such as ``OPENAI_API_KEY``.

    Args:
        value: The setting: a text, or mappings and lists of settings. Other values hold nothing.
        key: The key of the setting, with dots between levels. Empty for the outermost one.

    Yields:
        The settings with a credential, in the order of the file.
    """
    if isinstance(value, str):
        description = _describe_secret(value)
        if description:
            yield SecretSetting(key, f"holds what looks like {description}")
        return

    # The settings directly inside, each with its key or its position in the list.
    children: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, list | tuple):
        children = enumerate(value)
    else:
        return

    for child_key, child in children:
        full_key = f"{key}.{child_key}" if key else str(child_key)
        if isinstance(child_key, str) and is_secret(child_key, child):
            yield SecretSetting(full_key, "is a credential")
        else:
            yield from secrets_within(child, full_key)


def _describe_secret(text: str) -> str | None:
    """Say what kind of credential a text contains, or return None if it contains none.

    Returns:
        A description such as ``an address with a user name``, without the credential.
    """
    descriptions = secrets_in_text(text)
    if descriptions:
        return descriptions[0]
    return _secret_in_address(text) or secret_of_environment(text)


def _secret_in_address(text: str) -> str | None:
    """Say which credential the addresses (URLs) in a text contain, or return None.

    Returns:
        A description such as ``an address with a user name``.
    """
    for match in _URL.finditer(text):
        try:
            url = urlsplit(match[0])
            parameters = parse_qsl(url.query)
        except ValueError:
            # For example brackets without an IPv6 address between them.
            continue
        if url.username:
            return "an address with a user name"
        for name, value in parameters:
            if name.lower() in _CREDENTIAL_PARAMETERS or is_secret(name, value):
                return f"an address with the key {name[:40]!r}"
    return None


def secret_of_environment(text: str) -> str | None:
    """Name the environment variable whose credential a text contains.

    Returns:
        A description such as ``the value of the environment variable HF_TOKEN``, or None.
    """
    for name, value in os.environ.items():
        if len(value) >= _LONG_ENOUGH and value in text and is_secret(name, value):
            return f"the value of the environment variable {name}"
    return None


def refuse_secrets(arguments: Sequence[str]) -> None:
    """Refuse a command line with a credential in it, since logs and results repeat it.

    Args:
        arguments: The words of the command line after the program.

    Raises:
        ConfigError: A word contains a credential. The text names the option, not the credential.
    """
    # The error names the option that the credential belongs to, the last one so far.
    option = "the command line"
    for argument in arguments:
        if argument.startswith("--"):
            option, _, _ = argument.partition("=")

        problems = _secrets_of_argument(argument)
        # The first problem is enough to refuse the command.
        if problems:
            raise ConfigError(
                f"{option}: {problems[0]}, which logs and results would repeat; {INSTEAD}"
            )


def _secrets_of_argument(argument: str) -> list[str]:
    """Describe the credentials in a word of the command line."""
    # Options such as --metadata take JSON.
    setting: object = argument
    if argument.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            setting = json.loads(argument)

    problems = []
    for secret in secrets_within(setting):
        # The key is empty if the word is not JSON.
        problems.append(f"{secret.key} {secret.problem}".strip())
    return problems + secrets_in_assignments(argument)


def check_variable_name(name: str) -> str:
    """Return the name of an environment variable if it is valid and does not look like a key.

    Args:
        name: The name, such as ``MY_API_KEY``.

    Raises:
        ValueError: The name is not valid. The message leaves it out, since it may be a secret.
    """
    # A user may have put the key itself here.
    is_identifier = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    if not is_identifier or secrets_in_text(name):
        raise ValueError("must be the name of an environment variable, not the key itself")
    return name
