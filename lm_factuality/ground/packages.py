"""Packages that not every installation has, and models that they load."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, ModelError


def need(module: str, what: str, extra: str) -> Any:
    """The module of that name; ``what`` needs it, and ``extra`` is the suite's with which it is installed.

    Raises:
        ConfigError: it is not installed, or cannot be imported, as when a package that it needs is broken.
    """
    name = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == name:
            raise missing(name, what, extra) from error
        again = f"pip install --force-reinstall {name}"
        raise ConfigError(f"{what} needs {name}, which cannot be imported ({first_line(error)}): {again}") from error


def missing(name: str, what: str, extra: str) -> ConfigError:
    """The error that says how to install the package ``name``."""
    return ConfigError(f"{what} needs {name}, which is not installed: pip install 'lm-factuality[{extra}]'")


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return (str(error).strip().splitlines() or [repr(error)])[0]


@contextmanager
def loading(what: str, otherwise: str = "or its folder") -> Iterator[None]:
    """Turns what a library raises while it loads a model, ``what``, into a ModelError, which says what to do ``otherwise``."""
    try:
        yield
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        where = "give its name on the Hub where there is a network"
        raise ModelError(f"{what} cannot be loaded ({first_line(error)}); {where}, {otherwise}") from error


_MARK = 'PROJECT = "lm-factuality"'  # a line of the engine's __init__.py


def require_engine() -> None:
    """Raises ConfigError if ``import judges`` would find another project's package (the package index has one), or none."""
    spec = find_spec("judges")
    origin = spec.origin if spec is not None else None
    if origin is None:
        raise ConfigError("the package 'judges' of lm-factuality is missing: install lm-factuality again")
    if _MARK not in Path(origin).read_text(encoding="utf-8", errors="replace"):
        raise ConfigError(
            f"{origin}: another project's package 'judges' is installed in place of lm-factuality's: pip uninstall judges, then "
            "install lm-factuality again (pip install --force-reinstall --no-deps)"
        )
