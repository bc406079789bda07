"""The words that judges are asked in: Jinja2 files, rendered in a sandbox, known by their
hashes."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateNotFound, meta
from jinja2.sandbox import SandboxedEnvironment

from lm_factuality.ground.errors import ConfigError, did_you_mean

_SUFFIX = ".jinja"
_registered: dict[str, Path] = {
    "": Path(__file__).resolve().parent / "prompts"
}  # by prefix; "" is the engine's own


def register_prompts(prefix: str, folder: Path) -> None:
    """Makes every prompt in ``folder`` known as ``prefix/NAME``, to be asked by and to be replaced
    in a judge's config. Raises ConfigError: the prompts of another folder have this prefix."""
    folder = folder.resolve()
    if _registered.setdefault(prefix, folder) != folder:
        raise ConfigError(
            f"{folder}: prompts called {prefix}/NAME are those of {_registered[prefix]}; take"
            " another prefix"
        )


def prompt_names(folder: Path | None = None) -> list[str]:
    """All registered prompts, or those in ``folder``; files whose name begins with an underscore
    are parts of others."""
    folders = _registered if folder is None else {"": folder}
    found = []
    for prefix, each in folders.items():
        names = (
            file.relative_to(each).with_suffix("").as_posix() for file in each.rglob(f"*{_SUFFIX}")
        )
        found += [
            f"{prefix}/{name}".lstrip("/")
            for name in names
            if not name.rpartition("/")[2].startswith("_")
        ]
    return sorted(found)


class Prompts:
    """Prompts by name (``verify``, ``felm/segment_cot``), some of them replaced by a user's own
    files. ``folder`` holds the prompts of a package that keeps its own to itself (default: the
    registered ones)."""

    def __init__(
        self, overrides: Mapping[str, Path | str] | None = None, folder: Path | None = None
    ) -> None:
        """An override is a file, or the template itself. Raises ConfigError if it is of no prompt,
        or its file cannot be read."""
        self._folder = folder
        self._folders = _registered if folder is None else {"": folder.resolve()}
        self._overrides = dict(overrides or {})
        for name, path in self._overrides.items():
            if name not in (known := prompt_names(folder)):
                raise ConfigError(
                    f"prompts: no prompt is called {name!r}{did_you_mean(name, known)}; known:"
                    f" {', '.join(known)}"
                )
            if isinstance(path, Path) and not path.is_file():
                raise ConfigError(f"prompts: {name}: {path}: no such file")
        self._environment = SandboxedEnvironment(
            loader=FunctionLoader(self._source),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def render(self, name: str, subject: Mapping[str, Any]) -> str:
        """The prompt ``name`` about ``subject``. Raises ConfigError: there is no such prompt, or it
        fails."""
        try:
            return self._environment.get_template(name).render(**subject).strip()
        except TemplateNotFound as error:
            raise self._unknown(error) from error
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
        ) as error:
            raise ConfigError(f"prompt {name}: {type(error).__name__}: {error}") from error

    def hash(self, name: str) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the prompt's file, what it includes,
        and demonstrations."""
        digest = hashlib.sha256()
        try:
            for path in sorted(self._file(name).parent.glob("*.yaml")):
                digest.update(path.read_bytes() + b"\0")
            for each in sorted(self._with_parts(name)):
                digest.update(each.encode() + b"\0" + self._source(each).encode() + b"\0")
        except TemplateNotFound as error:
            raise self._unknown(error) from error
        return digest.hexdigest()[:16]

    def hashes(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.hash(name) for name in names}

    def _unknown(self, error: TemplateNotFound) -> ConfigError:
        hint = did_you_mean(str(error.name), prompt_names(self._folder))
        return ConfigError(f"no prompt is called {error.name!r}{hint}")

    def _file(self, name: str) -> Path:
        """Where the prompt lies that ``name`` stands for unless it is replaced; TemplateNotFound if
        that is in no folder."""
        prefix, _, rest = name.partition("/")
        folder, rest = (
            (self._folders[prefix], rest)
            if rest and prefix in self._folders
            else (self._folders[""], name)
        )
        path = (folder / f"{rest}{_SUFFIX}").resolve()
        if not path.is_relative_to(folder):
            raise TemplateNotFound(name)
        return path

    def _source(self, name: str) -> str:
        """The user's file if there is one, otherwise that of the folder with its prefix."""
        path = self._overrides.get(name) or self._file(name)
        if isinstance(path, str):
            return path
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise TemplateNotFound(name) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}") from error

    def _with_parts(self, name: str) -> set[str]:
        found, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            found.add(current)
            parts = meta.find_referenced_templates(self._environment.parse(self._source(current)))
            waiting += [part for part in parts if part is not None and part not in found]
        return found
