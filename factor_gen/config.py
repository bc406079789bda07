"""A build as a YAML file, of about eight lines; everything else has the values of
:mod:`factor_gen.settings`."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factor_gen.corpus import is_text
from factor_gen.language import ENGLISH
from factor_gen.records import portable
from factor_gen.settings import OFF, BuildSettings
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import read_settings, unknown_key
from lm_factuality.ground.suite import find_config, read_config

_ALWAYS_PATHS = (("corpus", "path"), ("generate", "prompts"))
# the keys that may name a file or a folder, relative to the YAML they stand in; these may be other
# names too
_PATHS = (
    *_ALWAYS_PATHS,
    ("corpus", "dataset"),
    ("types", "model"),
    ("generate", "judge"),
    ("filter", "nli", "model"),
    ("filter", "fluency", "model"),
)
_SHORT = {
    "corpus": "path",
    "types": "types",
    "generate": "generator",
}  # the key that a value by itself stands for
_NOT_IN_YAML = ("folder", "yamls", "contexts")
_KEYS = (
    *(each.name for each in dataclasses.fields(BuildSettings) if each.name not in _NOT_IN_YAML),
    "include",
)
_MAY_BE_EMPTY = ("name", "seed", "shard", "engine", "workers")
_OF_A_MODEL = "is for the generator llm, and rules ask no model"
_OF_A_TABLE = "is for tables, and a text file is one document without columns"


def load_build(path: str | Path) -> BuildSettings:
    """The build that a YAML file describes; ``include`` names another YAML whose keys hold where
    this one says nothing. Raises ConfigError: all that is wrong with the file: unknown keys, values
    of the wrong type or out of range, keys that would change nothing."""
    file = find_config(Path(path))
    own, everything, files = _read(file)
    problems = [f"{file}: {unknown_key(str(key), _KEYS)}" for key in everything if key not in _KEYS]
    content = {key: value for key, value in everything.items() if key in _KEYS and key != "include"}
    content = {
        key: value
        for key, value in content.items()
        if value is not None or key not in _MAY_BE_EMPTY
    }
    for (section, name), why in _idle_keys(content, file.parent).items():
        if (
            _value(own, section, name) is not None
        ):  # what an include says for other settings is passed over
            problems.append(f"{file}: {section}.{name} {why}; take it out")
        if isinstance(given := content.get(section), Mapping):
            content[section] = {key: value for key, value in given.items() if key != name}
    content = {"name": file.stem, "generate": {}, **content, "folder": file.parent, "yamls": files}
    try:
        settings = read_settings(BuildSettings, content, str(file))
    except ConfigError as error:
        raise ConfigError("\n".join([*problems, str(error)])) from error
    if problems:
        raise ConfigError("\n".join(problems))
    return settings


def describe(settings: BuildSettings) -> dict[str, Any]:
    """All settings that can change the benchmark, as JSON and YAML have them, for the manifest and
    the card: such that :func:`load_build` reads them back. Of absolute paths, which are this
    machine's, the last part is left; what is not set, or changes nothing, is left out."""
    about = dataclasses.asdict(settings)
    for key in (
        *_NOT_IN_YAML,
        "engine",
        "workers",
        "shard",
    ):  # the output is the same however the work is shared out
        del about[key]
    for *sections, key in _PATHS:
        values = about
        for section in sections:
            values = values[section] or {}  # of a filter that is off there are none
        if key in values:
            values[key] = portable(values[key])
    for section, key in _idle_keys(about, settings.folder):
        about[section].pop(key, None)
    about["filter"] = {
        name: OFF if each is None else each for name, each in about["filter"].items()
    }
    described: dict[str, Any] = _without_empty(about)
    return described


def _without_empty(about: Any) -> Any:
    if not isinstance(about, dict):
        return list(about) if isinstance(about, tuple) else about
    return {
        key: _without_empty(value) for key, value in about.items() if value not in (None, "", {})
    }


def _idle_keys(content: Mapping[str, Any], folder: Path) -> dict[tuple[str, str], str]:
    """The (section, key) that change nothing in a build with this ``content``, each with the
    reason, whether set or not: who sets one expects something that will not come."""
    found: dict[tuple[str, str], str] = {}
    if _value(content, "generate", "generator") == "rules":
        found |= {("generate", key): _OF_A_MODEL for key in ("judge", "prompts", "context")}
    if _value(content, "types", "tagger") in (None, "pattern"):
        found["types", "model"] = "is for the tagger spacy, and the tagger is pattern"
    if _value(content, "corpus", "language") not in (None, ENGLISH):
        found |= {
            ("types", key): "is for English, and the corpus is in another language"
            for key in ("tagger", "model")
        }
    path = _value(content, "corpus", "path")
    if isinstance(path, str) and _value(content, "corpus", "dataset") is None:
        found |= {
            ("corpus", key): "is for a dataset, and corpus.path names files"
            for key in ("config", "split", "revision")
        }
        if is_text(folder, path):
            found |= {("corpus", key): _OF_A_TABLE for key in ("text", "id", "where")}
    return found


def _value(content: Any, *keys: str) -> Any:
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def _read(
    file: Path, within: tuple[Path, ...] = ()
) -> tuple[Mapping[str, Any], Mapping[str, Any], tuple[Path, ...]]:
    """The content of ``file`` without its includes; the same over that of the YAMLs it includes,
    with all paths seen from ``file``; and the files that were read. A value that stands for a
    mapping is written as one. Raises ConfigError: a file is not there or no YAML, holds no mapping,
    or includes itself."""
    if (here := Path(os.path.realpath(file))) in within:
        raise ConfigError(
            f"{within[-1]}: include comes back to {file.name}; take one of the includes out"
        )
    own = read_config(file)
    if not isinstance(own, dict):
        raise ConfigError(
            f"{file}: expected a mapping of names to values, such as corpus: my_texts/*.txt"
        )
    own = {
        key: {_SHORT[key]: value} if key in _SHORT and isinstance(value, str | list) else value
        for key, value in own.items()
    }
    include = own.get("include")
    if include is None:
        return own, own, (file,)
    if not isinstance(include, str):
        raise ConfigError(f"{file}: include is {include!r}; expected the path of another YAML")
    base_file = (
        find_config(Path(include)) if include.startswith("configs/") else file.parent / include
    )
    _, base, files = _read(base_file, (*within, here))
    return own, _merged(_moved(base, base_file.parent, file.parent), own), (file, *files)


def _moved(content: Mapping[str, Any], source: Path, target: Path) -> Mapping[str, Any]:
    """``content``, whose paths start from ``source``, with paths that start from ``target``."""
    for keys in _PATHS:
        value = _value(content, *keys)
        if _is_relative(keys, value, source):
            moved: Any = os.path.relpath(source / value, target)
            for key in reversed(keys):
                moved = {key: moved}
            content = _merged(content, moved)
    return content


def _is_relative(keys: tuple[str, ...], value: Any, folder: Path) -> bool:
    """Whether a value is a path from ``folder``, rather than a whole path, one of the user's home,
    or a name."""
    if (
        not isinstance(value, str)
        or not value
        or value.startswith("~")
        or Path(value).is_absolute()
    ):
        return False
    if keys[-1] == "judge":
        return len(Path(value).parts) > 1 or value.endswith((".yaml", ".yml"))
    return keys in _ALWAYS_PATHS or (folder / value).is_dir()


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return merged
