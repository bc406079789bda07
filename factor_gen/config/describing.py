"""Settings as JSON and YAML have them, for the manifest and the card."""

from __future__ import annotations

import dataclasses
from typing import Any

from factor_gen.config.idle import idle_keys
from factor_gen.config.includes import PATHS
from factor_gen.portable import portable
from factor_gen.settings import BuildSettings

OFF = "none"


def describe(settings: BuildSettings) -> dict[str, Any]:
    """All settings that can change the benchmark, such that :func:`factor_gen.config.load_build` reads them back.

    Of absolute paths, which are this machine's, the last part is left; what is not set, or changes nothing, is left out.
    """
    about = dataclasses.asdict(settings)
    for key in ("folder", "yamls", "engine", "workers"):  # the output is the same whatever makes it
        del about[key]
    about["types"]["types"] = list(about["types"]["types"])
    for *sections, key in PATHS:
        values = about
        for section in sections:
            values = values[section] or {}  # of a filter that is off there are none
        if key in values:
            values[key] = portable(values[key])
    for section, key in idle_keys(about, settings.folder):
        about[section].pop(key, None)
    about["filter"] = {name: OFF if each is None else each for name, each in about["filter"].items()}
    return _without_empty(about)


def _without_empty(about: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_empty(value) if isinstance(value, dict) else value
        for key, value in about.items()
        if value is not None and value != ""
    }
