"""Optional packages, temporary replacement of their attributes, the Hub, and YAML beside the code.

Modules of all areas call these functions, so that an error always says what to install or fetch.
"""

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

from lm_factuality.ground.errors import ConfigError, DataError, ModelError
from lm_factuality.ground.files import Json

if TYPE_CHECKING:
    from datasets import IterableDataset

ENTRY_POINTS = "lm_factuality.benchmarks"
"""The group of entry points under which other packages announce their benchmarks."""


def need(module: str, feature: str, extra: str) -> ModuleType:
    """Import a module of an optional package, or say how to install it.

    Args:
        module: The module, such as ``sentence_transformers``.
        feature: The part of the suite that needs it, for the error, such as ``the NLI judge``.
        extra: The extra of ``lm-factuality`` that installs the package.

    Returns:
        The module.

    Raises:
        ConfigError: The package is not installed or cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package, _, _ = module.partition(".")
        raise missing_package(package, feature, extra, error) from error


def missing_package(name: str, feature: str, extra: str, error: ImportError) -> ConfigError:
    """Return the error that says how to install an optional package.

    Args:
        name: The package.
        feature: The part of the suite that needs it, such as ``the NLI judge``.
        extra: The extra of ``lm-factuality`` that installs it.
        error: The reason why it cannot be imported.
    """
    return ConfigError(
        f"{feature} needs {name}, which cannot be imported ({first_line(error)}):"
        f" {how_to_install(extra)}"
    )


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra of ``lm-factuality``, and the packages it brings.

    Example:
        ``pip install 'lm-factuality[dense]', which installs sentence-transformers``
    """
    missing = sorted(_missing_requirements(extra))
    all_packages = f", which installs {', '.join(missing)}" if missing else ""
    return f"pip install 'lm-factuality[{extra}]'{all_packages}"


def _missing_requirements(extra: str) -> Iterator[str]:
    """Yield the packages of an extra of ``lm-factuality`` that are not installed."""
    # Only errors about missing packages need this import.
    from packaging.requirements import Requirement

    try:
        declared = requires("lm-factuality") or []
    except PackageNotFoundError:
        # A source tree that was never installed declares nothing.
        return
    for requirement in map(Requirement, declared):
        marker = requirement.marker
        # A package without a marker such as 'extra == "dense"' is part of no extra.
        if marker is None:
            continue
        is_needed_without_extra = marker.evaluate({"extra": ""})
        if is_needed_without_extra or not marker.evaluate({"extra": extra}):
            continue
        # An extra may name other extras, as in "lm-factuality[generate]".
        if requirement.name == "lm-factuality":
            for other_extra in requirement.extras:
                yield from _missing_requirements(other_extra)
        elif not is_installed(requirement.name):
            yield requirement.name


def is_installed(package: str) -> bool:
    """Tell whether a package of this name is installed, in any version."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its ``repr`` if it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else repr(error)


@contextmanager
def replaced(owner: object, **attributes: Any) -> Iterator[None]:
    """Replace attributes of a module, a class or an object while the block runs.

    Args:
        owner: The module, class or object, which gets its own attributes back after the block.
        **attributes: The temporary values.
    """
    # Only an attribute of the owner itself must be set again. One of its class is merely hidden,
    # and reappears when the replacement is deleted.
    original = {name: vars(owner)[name] for name in attributes if name in vars(owner)}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in attributes:
            delattr(owner, name)
        for name, value in original.items():
            setattr(owner, name, value)


@contextmanager
def loading(model: str, alternative: str = "or its folder") -> Iterator[None]:
    """Turn the errors of a library that loads a model in the block into one that says what to do.

    Args:
        model: The model, for the error, such as ``the model 'gpt2'``.
        alternative: The end of the error's advice, which names a way without the Hub.

    Raises:
        ModelError: The library cannot load the model.
    """
    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise ModelError(
            f"{model} cannot be loaded ({first_line(error)}); give its name on the Hub where there"
            f" is a network, {alternative}"
        ) from error


def load_yaml(package: str, name: str) -> Json:
    """Return the content of a YAML file that lies beside the code of a package.

    Args:
        package: The dotted name of the package, usually ``__package__``.
        name: The name of the file, such as ``thinking.yaml``.
    """
    # The loader in C is several times as fast, but not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return yaml.load(text, loader)  # noqa: S506


def load_words(package: str) -> dict[str, str]:
    """Return the word lists in a package's ``words.yaml`` as parts of regular expressions.

    Returns:
        The alternatives ``a|b|c`` for each list ``[a, b, c]``, by the name of the list.
    """
    word_lists = load_yaml(package, "words.yaml")
    return {name: "|".join(words) for name, words in word_lists.items()}


class Patterns(dict[str, re.Pattern[str]]):
    """Regular expressions by name. Each is compiled when it is first used, since that takes long.

    Only ``patterns[name]`` finds an expression.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Keep the expressions as texts, by name."""
        super().__init__()
        self._texts = texts

    def __missing__(self, name: str) -> re.Pattern[str]:
        """Compile the expression of a name."""
        pattern = re.compile(self._texts[name])
        self[name] = pattern
        return pattern


def load_patterns(package: str) -> Patterns:
    r"""Return the regular expressions in a package's ``patterns.yaml``, by name.

    A pattern may refer to a word list in ``words.yaml`` or to an earlier pattern.

    Example:
        With the list ``month: [May, June]``, the pattern ``(@month@) \d+`` becomes
        ``(May|June) \d+``.
    """
    patterns: dict[str, str] = {}
    # A reference means a word list or, if there is none of this name, an earlier pattern.
    text_by_name = ChainMap(load_words(package), patterns)
    for name, template in load_yaml(package, "patterns.yaml").items():
        patterns[name] = re.sub("@([a-z_]+)@", lambda match: text_by_name[match[1]], template)
    return Patterns(patterns)


def commit_of(dataset: str, where: str, revision: str | None = None) -> str:
    """Ask the Hub for the commit of a dataset, so that a run can be pinned to it.

    Args:
        dataset: The dataset, such as ``cais/mmlu``.
        where: The file and key that name the dataset, with which the error begins.
        revision: A branch, a tag or a commit. None is the default branch.

    Returns:
        The full commit, in hexadecimal.

    Raises:
        DataError: The Hub cannot be reached, or has no such dataset or revision.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    # The base class of the errors of the HTTP library that the Hub's client uses. The client only
    # passes the name on, so mypy does not find it.
    from huggingface_hub.errors import HTTPError as HubError  # type: ignore[attr-defined]

    try:
        return str(HfApi().dataset_info(dataset, revision=revision).sha)
    except (OSError, HubError, HFValidationError, OfflineModeIsEnabled) as error:
        raise DataError(
            f"{where}: the Hub does not answer for {dataset!r} ({first_line(error)}); check the"
            " name, go where there is a network and unset HF_HUB_OFFLINE, or download the dataset"
            " and give its folder"
        ) from error


def stream_rows(
    source: str | Path, config: str | None, split: str, commit: str | None, where: str, example: str
) -> "IterableDataset":
    """Open a dataset of the Hub or of a folder to read its rows one by one.

    Args:
        source: The name of a dataset on the Hub, or the path of a folder: one that
            ``save_to_disk`` wrote, or one with data files.
        config: The configuration of the dataset, or None for its only one.
        split: The split, such as ``validation``.
        commit: The commit of a dataset on the Hub.
        where: The file and key that name the dataset, with which errors begin.
        example: A correct value of this key, with which errors end, such as ``hub:NAME::SPLIT``.

    Returns:
        The rows, each a dictionary by column.

    Raises:
        DataError: The dataset cannot be read, or has no such split.
    """
    import datasets

    try:
        # save_to_disk writes dataset_dict.json for several splits, and state.json for one.
        if isinstance(source, Path) and (source / "dataset_dict.json").is_file():
            splits = datasets.load_from_disk(str(source))
            if split not in splits:
                raise DataError(
                    f"{where}: no split {split!r}; found {', '.join(splits)}; name one: {example}"
                )
            return splits[split].to_iterable_dataset()
        # The one split in such a folder has no name, so that `split` is not compared.
        if isinstance(source, Path) and (source / "state.json").is_file():
            return datasets.load_from_disk(str(source)).to_iterable_dataset()
        # Streaming reads the rows of a large dataset without a download of all its files.
        return datasets.load_dataset(
            str(source), config, split=split, streaming=True, revision=commit
        )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"{where}: cannot be read: {error}; expected a dataset of the Hub, or a folder that the"
            f" datasets library wrote: {example}"
        ) from error
