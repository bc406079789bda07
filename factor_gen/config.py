"""A build as a YAML file, of about eight lines; everything else has the paper's values."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factor_gen.config_values import Values
from factor_gen.settings import (
    BuildSettings,
    ChooseSettings,
    CorpusSettings,
    FilterSettings,
    FluencySettings,
    GenerateSettings,
    NliSettings,
    SelectSettings,
    TypesSettings,
)
from lm_factuality.errors import ConfigError
from lm_factuality.suite import find_config, read_config

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_OFF = "none"
_SCALARS = {"name": "str", "seed": "int", "shard": "int", "engine": "str", "workers": "int | None"}
_KEYS = [
    "name",
    "corpus",
    "select",
    "types",
    "generate",
    "filter",
    "choose",
    "seed",
    "shard",
    "engine",
    "workers",
    "include",
]
_SHORT = {"corpus": "path", "types": "types", "generate": "generator"}  # the key that a value by itself stands for
_PATHS = (("corpus", "path"), ("generate", "judge"), ("generate", "prompts"))  # relative to the YAML they stand in
_TWO_WAYS = (
    "the generator llm asks a model: name its judge, generate: {generator: llm, judge: openai-server} or the path of a judge's "
    "YAML; without a model, generate: rules"
)


def load_build(path: str | Path) -> BuildSettings:
    """The build that a YAML file describes; ``include`` names another YAML whose keys hold where this one says nothing.

    Raises:
        ConfigError: all that is wrong with the file: unknown keys, values of the wrong type or out of range.
    """
    file = find_config(Path(path))
    content = _with_includes(file, ())
    values = Values(str(file))
    for key in content:
        if key not in _KEYS:
            values.unknown(str(key), _KEYS)
    scalars = {
        key: read
        for key, kind in _SCALARS.items()
        if content.get(key) is not None and _is_sound(read := values.value(key, kind, content[key]))
    }
    name = scalars.setdefault("name", file.stem)
    if not _NAME.fullmatch(name):
        values.wrong(
            "name", name, "letters, digits, _ and - alone, for it becomes the name of an lm_eval task: name: my_factor"
        )
    settings = BuildSettings(
        folder=file.parent,
        corpus=_corpus(values, content.get("corpus")),
        select=values.section(SelectSettings, "select", content.get("select", {})),
        types=values.section(TypesSettings, "types", content.get("types", {})),
        generate=_generate(values, content.get("generate", {})),
        filter=_filter(values, content.get("filter", {})),
        choose=values.section(ChooseSettings, "choose", content.get("choose", {})),
        **scalars,
    )
    longest = settings.select.max_words
    if longest is not None and longest < settings.select.min_words:
        values.wrong("select.max_words", longest, f"at least min_words, which is {settings.select.min_words}")
    if values.problems:
        raise ConfigError("\n".join(values.problems))
    return settings


def describe(settings: BuildSettings) -> dict[str, Any]:
    """All settings that can change the benchmark, as JSON has them; paths as they were given, without this machine's folders."""
    about = dataclasses.asdict(settings)
    for key in ("folder", "engine", "workers"):  # the output is the same whatever makes it
        del about[key]
    for section, key in _PATHS:
        about[section][key] = _portable(about[section][key])
    about["types"]["types"] = list(about["types"]["types"])
    about["types"]["model"] = _portable(about["types"]["model"])
    for name in ("nli", "fluency"):
        if about["filter"][name] is None:
            about["filter"][name] = _OFF
        else:
            about["filter"][name]["model"] = _portable(about["filter"][name]["model"])
    return about


def _portable(path: str | None) -> str | None:
    """A path without the folders of this machine: its last part if it is absolute."""
    return Path(path).name if path is not None and Path(path).expanduser().is_absolute() else path


def _is_sound(value: Any) -> bool:
    return isinstance(value, str | int)


def _with_includes(file: Path, within: tuple[Path, ...]) -> dict[str, Any]:
    """The content of ``file`` over the content of what it includes; a value that stands for a mapping is written as one."""
    if file.resolve() in within:
        raise ConfigError(f"{within[-1]}: include comes back to {file.name}; take one of the includes out")
    content = read_config(file)
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: expected a mapping of names to values, such as corpus: my_texts/*.txt")
    content = {key: _spelt_out(key, value) for key, value in content.items()}
    include = content.get("include")
    if include is None:
        return content
    if not isinstance(include, str):
        raise ConfigError(f"{file}: include is {include!r}; expected the path of another YAML")
    base_file = find_config(Path(include)) if include.startswith("configs/") else file.parent / include
    base = _with_includes(base_file, (*within, file.resolve()))
    for section, key in _PATHS:
        given = base.get(section)
        if isinstance(given, dict) and _is_path(section, key, given.get(key)):
            given[key] = os.path.relpath(base_file.parent / given[key], file.parent)
    return _merged(base, {**content, "include": None})


def _spelt_out(key: Any, value: Any) -> Any:
    short = _SHORT.get(key)
    return {short: value} if short is not None and isinstance(value, str | list) else value


def _is_path(section: str, key: str, value: Any) -> bool:
    """Whether a value is a relative path; a judge may be the bare name of one."""
    if not isinstance(value, str) or Path(value).is_absolute():
        return False
    return key != "judge" or len(Path(value).parts) > 1 or value.endswith((".yaml", ".yml"))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _corpus(values: Values, given: Any) -> CorpusSettings:
    if given is None:
        values.problems.append(
            f"{values.file}: corpus is missing; expected files, corpus: my_texts/*.txt, or a dataset, corpus: {{dataset: NAME}}"
        )
        return CorpusSettings()
    before = len(values.problems)
    corpus = values.section(CorpusSettings, "corpus", given)
    if len(values.problems) > before:
        return corpus
    if (corpus.path is None) == (corpus.dataset is None):
        found = "both path and dataset" if corpus.path else "neither path nor dataset"
        values.problems.append(f"{values.file}: corpus has {found}; expected one of them")
    elif corpus.path is not None:
        for key in ("config", "split", "revision"):
            if key in given:
                values.problems.append(f"{values.file}: corpus.{key} is for a dataset, and corpus.path names files")
    return corpus


def _generate(values: Values, given: Any) -> GenerateSettings:
    generate = values.section(GenerateSettings, "generate", given)
    if (
        generate.generator == "llm"
        and generate.judge is None
        and not any("generate" in each for each in values.problems)
    ):
        values.problems.append(f"{values.file}: generate.judge is missing; {_TWO_WAYS}")
    return generate


def _filter(values: Values, given: Any) -> FilterSettings:
    if given == _OFF:
        return FilterSettings(None, None)
    kinds: dict[str, type[Any]] = {"nli": NliSettings, "fluency": FluencySettings}
    if not isinstance(given, Mapping):
        values.wrong("filter", given, "none, or a mapping with nli and fluency; leave the line out for the defaults")
        return FilterSettings()
    for key in given:
        if key not in kinds:
            values.unknown(f"filter.{key}", kinds)
    read = {
        key: None if given.get(key) == _OFF else values.section(kind, f"filter.{key}", given.get(key, {}))
        for key, kind in kinds.items()
    }
    return FilterSettings(**read)
