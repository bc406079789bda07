"""The YAML file that describes a build, and the way back from settings to YAML.

``factor-gen build`` and :mod:`lm_factuality.api` read the file with :func:`load_build`. Whatever
the file does not set has the defaults of :mod:`factor_gen.settings`.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from factor_gen.records import shorten_paths
from factor_gen.settings import OFF, BuildSettings
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import adapter_of, read_settings
from lm_factuality.ground.suite import find_config, read_config

# These settings, named by their sections and their key, hold paths.
_PATHS = ("corpus.path",)
# These settings hold either a path or a name, such as that of a model on the Hub.
_PATHS_OR_NAMES = (
    "corpus.dataset",
    "types.model",
    "generate.judge",
    "filter.fluency.model",
    "contradiction.judge",
    "contradiction.model",
)
# A section may be written as one value, which stands for that of this key: "corpus: a.txt" is
# short for "corpus: {path: a.txt}".
_KEY_OF_SINGLE_VALUE = {
    "corpus": "path",
    "types": "types",
    "generate": "generator",
    "contradiction": "kind",
}
# If a model writes or checks contradictions, each sentence that is tried costs questions to it.
_DEFAULTS_IF_MODEL_IS_ASKED = {"select": {"draws": 4}}
# A model that writes contradictions is asked for all error types at once.
_DEFAULTS_IF_MODEL_WRITES = {"generate": {"per_type": 3}}
# These settings say where the build runs and how the work is shared out, not what is built.
_NOT_DESCRIBED = {"folder", "yaml", "collocations", "engine", "workers", "shard"}


def load_build(path: str | Path) -> BuildSettings:
    """Read the settings of a build from a YAML file.

    The file may ``include`` another YAML, whose values hold for the keys that it does not set.

    Args:
        path: The file, or the name of one that is installed, such as ``configs/corpora/wiki.yaml``.

    Raises:
        ConfigError: The file has problems, such as unknown keys and values out of range. The
            message names all of them.

    Example:
        A file needs two lines: ``corpus: my_texts/*.txt`` and ``generate: rules``.
    """
    file = find_config(Path(path))
    content = _read_with_includes(file)
    model_writes = _find_section("generate", content).get("generator", "llm") == "llm"
    judge_checks = _find_section("contradiction", content).get("kind") == "judge"
    if model_writes or judge_checks:
        content = _merge_sections(_DEFAULTS_IF_MODEL_IS_ASKED, content)
    if model_writes:
        content = _merge_sections(_DEFAULTS_IF_MODEL_WRITES, content)
    # A benchmark without a name is called like the file.
    content = {"name": file.stem, **content, "folder": file.parent, "yaml": file}
    return read_settings(BuildSettings, content, str(file))


def describe_settings(settings: BuildSettings) -> dict[str, Any]:
    """Return all settings that can change the benchmark, for the manifest and the dataset card.

    They have the form that :func:`load_build` reads, without those that are None. Absolute paths
    are cut to their last part, because the folders of this machine mean nothing elsewhere.
    """
    # The check that the settings lead to is described even if the YAML does not name it.
    settings = replace(settings, contradiction=settings.contradiction_check)
    description: dict[str, Any] = adapter_of(BuildSettings).dump_python(
        settings, mode="json", exclude=_NOT_DESCRIBED, exclude_none=True
    )
    for setting in (*_PATHS, *_PATHS_OR_NAMES):
        section_name, _, key = setting.rpartition(".")
        section = _find_section(section_name, description)
        # Settings that are None are not in the description.
        if key in section:
            section[key] = shorten_paths(section[key])

    # A filter that is off is None, and so is missing from the description. It must say "none",
    # because a YAML that does not name the filter would mean the default one.
    description["filter"].setdefault("fluency", OFF)
    return description


def _find_section(name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return a section of a YAML's content, not a copy of it; an empty one if it is missing.

    Example:
        The section ``filter.fluency`` is ``content["filter"]["fluency"]``.
    """
    section = content
    for part in name.split("."):
        value = section.get(part)
        # The YAML of a user may hold anything in the place of a section.
        if not isinstance(value, dict):
            return {}
        section = value
    return section


def _read_with_includes(file: Path, including_files: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a YAML file, merged over the file that it includes.

    Args:
        file: The YAML file, from whose folder all relative paths of the result start.
        including_files: The files that led to this one, each included by the one before it.

    Raises:
        ConfigError: A file is missing, is no YAML, holds no mapping, or includes itself.
    """
    # Unlike Path.resolve, this does not fail if links form a loop.
    real_path = Path(os.path.realpath(file))
    if real_path in including_files:
        raise ConfigError(
            f"{including_files[-1]}: include leads back to {file.name}; remove one of the includes"
        )

    content = _read_mapping(file)
    include = content.pop("include", None)
    if include is None:
        return content

    included_file = _find_included_file(include, file)
    included = _read_with_includes(included_file, (*including_files, real_path))
    _rebase_paths(included, included_file.parent, file.parent)
    return _merge_sections(included, content)


def _find_included_file(include: object, file: Path) -> Path:
    """Return the file that the setting ``include`` of a YAML names.

    Args:
        include: The value of the setting.
        file: The YAML, from whose folder a relative path starts.

    Raises:
        ConfigError: The value is no text.
    """
    if not isinstance(include, str):
        raise ConfigError(f"{file}: include is {include!r}; expected the path of another YAML")
    # Such a path may name a file that comes with the package.
    if include.startswith("configs/"):
        return find_config(Path(include))
    return file.parent / include


def _read_mapping(file: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file, and replace the short forms of sections by the long ones.

    Raises:
        ConfigError: The file is missing, is no YAML, or holds no mapping.

    Example:
        The line ``corpus: my_texts/*.txt`` becomes ``{"corpus": {"path": "my_texts/*.txt"}}``.
    """
    content = read_config(file)
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file}: expected a mapping of names to values, such as corpus: my_texts/*.txt"
        )
    for section, key in _KEY_OF_SINGLE_VALUE.items():
        # A section in the long form is a mapping already.
        if isinstance(content.get(section), str | list):
            content[section] = {key: content[section]}
    return content


def _rebase_paths(content: dict[str, Any], old_folder: Path, new_folder: Path) -> None:
    """Change the relative paths in a YAML's content in place, to start from another folder.

    Example:
        ``texts/*.txt`` in the folder ``a/b`` becomes ``b/texts/*.txt`` for the folder ``a``.
    """
    for setting in (*_PATHS, *_PATHS_OR_NAMES):
        section_name, _, key = setting.rpartition(".")
        section = _find_section(section_name, content)
        value = section.get(key)
        if isinstance(value, str) and _is_relative_path(setting, value, old_folder):
            section[key] = os.path.relpath(old_folder / value, new_folder)


def _is_relative_path(setting: str, value: str, folder: Path) -> bool:
    """Tell whether the value of a setting is a relative path, rather than a name such as ``gpt2``.

    Args:
        setting: A setting that holds a path, such as ``corpus.path``, or either a path or a name.
        value: The value in the YAML.
        folder: The folder of the YAML, from which relative paths start.
    """
    # A path from the home or the root folder is the same in every YAML.
    if value.startswith(("~", "/")):
        return False
    # Some settings can only be paths. The others may be names.
    if setting in _PATHS:
        return True
    # The name of a judge has no slash and no ending, unlike that of a model on the Hub.
    if setting.endswith(".judge") and ("/" in value or value.endswith((".yaml", ".yml"))):
        return True
    # Anything else is a path if there is such a folder, for example one that holds a model.
    return bool(value) and (folder / value).is_dir()


def _merge_sections(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of two YAML files, where ``overrides`` replaces values of ``base``.

    Sections that both have are merged key by key, unless they are of different kinds.

    Example:
        ``{"a": {"b": 1, "c": 2}}`` and ``{"a": {"c": 3}}`` give ``{"a": {"b": 1, "c": 3}}``.
    """
    merged = dict(base)
    for key, value in overrides.items():
        base_value = merged.get(key)
        if isinstance(base_value, Mapping) and isinstance(value, Mapping):
            base_kind = base_value.get("kind")
            # The keys of a section of another kind have no meaning in this one.
            if value.get("kind", base_kind) == base_kind:
                value = _merge_sections(base_value, value)
        merged[key] = value
    return merged
