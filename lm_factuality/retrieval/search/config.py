"""The configuration of a search service, i.e. the settings in its YAML file.

`load_search_config` reads a file, and `lm_factuality.retrieval.search.service` uses the result.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from lm_factuality.ground.errors import ConfigError, did_you_mean, short
from lm_factuality.ground.files import Json
from lm_factuality.ground.http import is_web_address, may_hold_secret
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.secrets import check_variable_name, secrets_within
from lm_factuality.ground.settings import Strict, read_settings
from lm_factuality.ground.suite import find_config, read_yaml
from lm_factuality.retrieval.search.request import RequestForm
from lm_factuality.retrieval.search.response import ResponseForm

_PRESETS: Mapping[str, Mapping[str, Any]] = load_yaml(__package__, "services.yaml")
_SERVICES = (*_PRESETS, "http")
# The keys that have no defaults, with what is expected there.
_REQUIRED = {
    "url": "the address of the service, such as http://localhost:8080/search",
    "request": "how the service is asked, such as params: {q: '{{ query }}'}",
    "response": "where results stand in the JSON, such as url: results[].url",
}
_EXPRESSION = re.compile(r"\{\{.*?\}\}")
# What may stand before the key in a header, such as "Bearer {{ key }}".
_SCHEME = re.compile(r"\s*(?:Bearer|Basic|Token|Key)?\s*", re.IGNORECASE)


def _check_url(url: str) -> str:
    """Return the address of a service unchanged, after a check that it holds no secret.

    Raises:
        ValueError: The address is not one of the web, or has credentials or parameters. The message
            leaves the address out, since it may hold a password.
    """
    if not is_web_address(url):
        raise ValueError("is not an address; write something like http://localhost:8080/search")
    if may_hold_secret(url):
        raise ValueError(
            "must hold no user, password or ?query; write parameters under request: params, and"
            " name the variable with the key by key_env"
        )
    return url


class SearchConfig(Strict):
    """All settings of a search service, as `load_search_config` reads them from its YAML."""

    service: str
    """``searxng``, ``serper``, or ``http`` for a service that the YAML describes in full."""

    url: Annotated[str, AfterValidator(_check_url)]
    """The address that requests are sent to. It may be a local one."""

    request: RequestForm
    """What is sent."""

    response: ResponseForm
    """Where the results stand in the answer."""

    results: Annotated[int, Field(ge=1, le=100)] = 5
    """The number of results that are taken for a query."""

    fetch: bool = False
    """Whether the pages of the results are read. Otherwise their snippets are the evidence."""

    key_env: Annotated[str, AfterValidator(check_variable_name)] | None = None
    """The environment variable that holds the key of the service."""

    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """The number of requests that may be under way at once, to the service and to pages."""

    timeout: Annotated[float, Field(gt=0)] = 20.0
    """Seconds until one try of a request is given up."""

    max_retries: Annotated[int, Field(ge=0)] = 3
    """How often a request is tried again after its first try failed."""

    @model_validator(mode="after")
    def _check_key(self) -> "SearchConfig":
        """Check that a key is named if, and only if, a template sends it.

        Raises:
            ValueError: A key is named that nothing sends, or sent but not named.
        """
        is_sent = "key" in self.request.find_variables()
        if is_sent and not self.key_env:
            raise ValueError(
                "key_env is missing: request sends {{ key }}; name the environment variable that"
                " holds it"
            )
        if self.key_env and not is_sent:
            raise ValueError(
                "key_env names a key that request does not send; write it where the service wants"
                " it, such as headers: {Authorization: 'Bearer {{ key }}'}, or take key_env out"
            )
        return self

    def find_key(self) -> str:
        """Return the key of the service from the environment. Empty if it needs none.

        Raises:
            ConfigError: The environment variable is not set, or holds no key.
        """
        if not self.key_env:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ConfigError(
                f"{self.url} wants a key: the environment variable {self.key_env} is not set; set"
                " it, or name another one by key_env"
            )
        # The error of a header that cannot be sent would quote the key.
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f"the environment variable {self.key_env} holds characters that no key has, such as"
                " a line break; set it again"
            )
        return key

    def identity(self, query: str) -> str:
        """Return the key under which the results of a query are stored: a SHA-256.

        It depends on everything that decides on the results, and never on the key of the service.
        """
        settings = self.model_dump_json(include={"url", "request", "response", "results"})
        return hashlib.sha256(f"{settings}\0{query}".encode("utf-8", "replace")).hexdigest()


def load_search_config(path: str | Path) -> SearchConfig:
    """Read the settings of a search service from a YAML file.

    Args:
        path: The file. ``configs/search/searxng.yaml`` is found among the suite's own, too.

    Returns:
        The settings, checked. Those that the file does not name are the known service's.

    Raises:
        ConfigError: There is no such file, it holds a credential, or values cannot be used. Each
            problem has a line of its own.
    """
    path = find_config(Path(path))
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping of names to values, such as service: serper")
    _check_no_secrets(content, path)

    # Without a known service, all other settings would seem to be missing too.
    service = content.get("service")
    if service not in _SERVICES:
        raise ConfigError(
            f"{path}: service is {short(service)}; expected one of {', '.join(_SERVICES)}"
            f"{did_you_mean(str(service), _SERVICES)}"
        )
    settings = _merge_settings(_PRESETS.get(service, {}), content)
    problems = [
        f"{path}: {name} is missing; expected {expected}"
        for name, expected in _REQUIRED.items()
        if name not in settings
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    return read_settings(SearchConfig, settings, str(path))


def _check_no_secrets(content: Mapping[str, Json], path: Path) -> None:
    """Check that a YAML holds no credential. It may hold templates such as ``Bearer {{ key }}``.

    Raises:
        ConfigError: A setting is a credential.
    """
    # The result is a copy, which may be changed.
    settings = _without_expressions(content)
    request = settings.get("request")
    # The search for credentials takes everything under the name "headers" for one. The headers are
    # therefore taken out of the settings and searched by themselves.
    headers = request.pop("headers", None) if isinstance(request, dict) else None
    secrets = [*secrets_within(settings), *secrets_within(headers, "request.headers")]
    if secrets:
        raise ConfigError(
            f"{path}: {secrets[0].key} {secrets[0].problem}; write {{{{ key }}}} in its place, and"
            " name the environment variable that holds it by key_env"
        )


def _without_expressions(content: Json) -> Json:
    """Return the settings without the expressions of templates, which are no credentials.

    Example:
        ``Bearer {{ key }}`` becomes an empty text. ``Bearer abc123`` stays.
    """
    if isinstance(content, str):
        rest = _EXPRESSION.sub("", content)
        # A scheme without a key is no credential.
        return "" if _SCHEME.fullmatch(rest) else rest
    if isinstance(content, dict):
        return {name: _without_expressions(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without_expressions(value) for value in content]
    return content


def _merge_settings(preset: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a known service, with the user's settings in the place of its own.

    Example:
        ``{params: {q: a, format: json}}`` with ``{params: {language: en}}`` has three parameters.
        A null removes a setting.
    """
    merged = dict(preset)
    for name, value in settings.items():
        preset_value = preset.get(name)
        if isinstance(value, dict) and isinstance(preset_value, dict):
            merged[name] = _merge_settings(preset_value, value)
        elif value is None and name in preset:
            del merged[name]
        else:
            merged[name] = value
    return merged
