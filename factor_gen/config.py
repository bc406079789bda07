"""A build as a YAML file of about eight lines.

``factor-gen build`` and :mod:`lm_factuality.api` read it with :func:`load_build`. Everything that
the file does not say has the values of :mod:`factor_gen.settings`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from factor_gen.records import portable
from factor_gen.settings import OFF, BuildSettings
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import adapter_of, read_settings
from lm_factuality.ground.suite import find_config, read_config

_PATHS = (("corpus", "path"), ("generate", "prompts"))
# these may be names as well
_PATHS_OR_NAMES = (
    ("corpus", "dataset"),
    ("types", "model"),
    ("generate", "judge"),
    ("filter", "nli", "model"),
    ("filter", "fluency", "model"),
)
_KEY_OF_SHORT_FORM = {"corpus": "path", "types": "types", "generate": "generator"}
# of BuildSettings: what the file does not say, and how the work is shared out
_NOT_DESCRIBED = {"folder", "yaml", "contexts", "engine", "workers", "shard"}


def load_build(path: str | Path) -> BuildSettings:
    """Read the build that a YAML file describes.

    ``include`` names another YAML whose keys hold where this one says nothing.

    Raises:
        ConfigError: Everything that is wrong with the file: unknown keys, and values of the wrong
            type or out of range.
    """
    file = find_config(Path(path))
    content = _read_with_includes(file)
    content = {"name": file.stem, **content, "folder": file.parent, "yaml": file}
    return read_settings(BuildSettings, content, str(file))


def describe(settings: BuildSettings) -> dict[str, Any]:
    """Return all settings that can change the benchmark, for the manifest and the card.

    :func:`load_build` can read them back. Of absolute paths, which are this machine's, the last
    part is left. What is not set is left out.
    """
    content: dict[str, Any] = adapter_of(BuildSettings).dump_python(
        settings, mode="json", exclude=_NOT_DESCRIBED, exclude_none=True
    )
    for *sections, key in (*_PATHS, *_PATHS_OR_NAMES):
        section = _section(content, sections)
        if key in section:
            section[key] = portable(section[key])
    content["filter"] = {name: content["filter"].get(name, OFF) for name in ("nli", "fluency")}
    return content


def _section(content: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the section that lies under ``names``; an empty one if there is none."""
    for name in names:
        content = content.get(name)
        if not isinstance(content, dict):
            return {}
    return content  # type: ignore[no-any-return]


def _read_with_includes(file: Path, including: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a YAML and what it includes.

    Args:
        file: The YAML.
        including: The files that include this one.

    Returns:
        The content of the file over that of the YAMLs it includes, with all paths seen from the
        file.

    Raises:
        ConfigError: A file is not there or no YAML, holds no mapping, or includes itself.
    """
    real_path = Path(os.path.realpath(file))  # which does not mind a loop of links
    if real_path in including:
        raise ConfigError(
            f"{including[-1]}: include comes back to {file.name}; take one of the includes out"
        )
    content = read_config(file)
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file}: expected a mapping of names to values, such as corpus: my_texts/*.txt"
        )
    for section, key in _KEY_OF_SHORT_FORM.items():
        if isinstance(content.get(section), str | list):
            content[section] = {key: content[section]}
    include = content.pop("include", None)
    if include is None:
        return content
    if not isinstance(include, str):
        raise ConfigError(f"{file}: include is {include!r}; expected the path of another YAML")
    base = file.parent / include
    if include.startswith("configs/"):
        base = find_config(Path(include))
    included = _read_with_includes(base, (*including, real_path))
    _move_paths(included, base.parent, file.parent)
    return _merged(included, content)


def _move_paths(content: dict[str, Any], source: Path, target: Path) -> None:
    """Let the relative paths in ``content``, which start from ``source``, start from ``target``."""
    for *sections, key in (*_PATHS, *_PATHS_OR_NAMES):
        section = _section(content, sections)
        value = section.get(key)
        if not isinstance(value, str) or value.startswith(("~", "/")):
            continue
        is_judge_file = key == "judge" and ("/" in value or value.endswith((".yaml", ".yml")))
        if (*sections, key) in _PATHS or is_judge_file or (value and (source / value).is_dir()):
            section[key] = os.path.relpath(source / value, target)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``over`` in place of its own, section by section."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = _merged(below, value)
        merged[key] = value
    return merged
