"""Packages that not every installation has, what they load of the Hub, what is replaced in them for
a while, and data that lies beside the code that reads it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from lm_factuality.ground.errors import ConfigError, DataError, ModelError


def need(module: str, what: str, extra: str) -> Any:
    """Return the module that something needs, from an extra of the suite.

    Raises:
        ConfigError: It is not installed, or cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(module.partition(".")[0], what, extra, error) from error


def missing(name: str, what: str, extra: str, error: ImportError) -> ConfigError:
    """Return the error that says how to install a package."""
    return ConfigError(
        f"{what} needs {name}, which cannot be imported ({first_line(error)}): pip install"
        f" 'lm-factuality[{extra}]'"
    )


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return (str(error).strip().splitlines() or [repr(error)])[0]


@contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """Replace attributes of a module, a class or an object while the block runs."""
    before = {name: vars(owner)[name] for name in attributes if name in vars(owner)}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in attributes:
            delattr(owner, name)
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def loading(what: str, otherwise: str = "or its folder") -> Iterator[None]:
    """Turns what a library raises while it loads a model, ``what``, into a ModelError, which says
    what to do ``otherwise``."""
    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        where = "give its name on the Hub where there is a network"
        raise ModelError(
            f"{what} cannot be loaded ({first_line(error)}); {where}, {otherwise}"
        ) from error


def load_yaml(package: str, name: str) -> Any:
    """The content of a YAML file of ``package``."""
    # Several times as fast, where PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(files(package).joinpath(name).read_text(encoding="utf-8"), loader)  # noqa: S506


def load_words(package: str) -> dict[str, str]:
    """The lists of a package's ``words.yaml``, by name, each as the alternatives of a regular
    expression: ``a|b|c``."""
    return {name: "|".join(words) for name, words in load_yaml(package, "words.yaml").items()}


def load_patterns(package: str) -> dict[str, re.Pattern[str]]:
    """The regular expressions of a package's ``patterns.yaml``, by name.

    In each, ``@NAME@`` stands for the list of that name in ``words.yaml``, or for an earlier
    expression.
    """
    texts = load_words(package)
    patterns = {}
    for name, text in load_yaml(package, "patterns.yaml").items():
        whole = re.sub("@([a-z_]+)@", lambda match: texts[match[1]], text)
        patterns[name] = re.compile(whole)
        texts.setdefault(name, whole)
    return patterns


def commit_of(dataset: str, where: str, revision: str | None = None) -> str:
    """The commit of a ``revision`` (None: the newest) of a dataset of the Hub. Raises DataError,
    from ``where``: none."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled
    from huggingface_hub.errors import HTTPError as HubError  # type: ignore[attr-defined]  # of the HTTP library that it uses

    try:
        return str(HfApi().dataset_info(dataset, revision=revision).sha)
    except (OSError, HubError, HFValidationError, OfflineModeIsEnabled) as error:
        raise DataError(
            f"{where}: the Hub does not answer for {dataset!r} ({first_line(error)}); check the"
            " name, go where there is a network and unset HF_HUB_OFFLINE, or download the dataset"
            " and give its folder"
        ) from error


def stream(
    source: str | Path, config: str | None, split: str, commit: str | None, where: str, form: str
) -> Any:
    """The rows of a dataset of the Hub at ``commit``, or of a folder (a ``Path``): what
    ``save_to_disk`` wrote, or data files. Raises DataError: it cannot be read, or has no such split
    (named in the ``form``); ``where`` says who names it."""
    import datasets

    try:
        if isinstance(source, Path) and (source / "dataset_dict.json").is_file():
            splits = datasets.load_from_disk(str(source))
            if split not in splits:
                raise DataError(
                    f"{where}: no split {split!r}; found {', '.join(splits)}; name one: {form}"
                )
            return splits[split].to_iterable_dataset()
        if isinstance(source, Path) and (source / "state.json").is_file():
            return datasets.load_from_disk(str(source)).to_iterable_dataset()
        return datasets.load_dataset(
            str(source), config, split=split, streaming=True, revision=commit
        )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        expected = "expected a dataset of the Hub, or a folder that the datasets library wrote"
        raise DataError(f"{where}: cannot be read: {error}; {expected}: {form}") from error
