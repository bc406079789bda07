"""The words that judges are asked in: Jinja2 files, rendered in a sandbox and known by hashes."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import FunctionLoader, StrictUndefined, TemplateError, TemplateNotFound, meta
from jinja2.sandbox import SandboxedEnvironment

from lm_factuality.ground.errors import ConfigError, did_you_mean

_SUFFIX = ".jinja"
# The folders of prompts by prefix. The engine's own have none.
_registered: dict[str, Path] = {"": Path(__file__).resolve().parent / "prompts"}


def register_prompts(prefix: str, folder: Path) -> None:
    """Make every prompt in a folder known as ``prefix/NAME``.

    Raises:
        ConfigError: The prompts of another folder have this prefix.
    """
    folder = folder.resolve()
    if _registered.setdefault(prefix, folder) != folder:
        raise ConfigError(
            f"{folder}: prompts called {prefix}/NAME are those of {_registered[prefix]}; take"
            " another prefix"
        )


def prompt_names(folder: Path | None = None) -> list[str]:
    """All registered prompts, or those in ``folder``.

    Files whose name begins with an underscore are parts of others.
    """
    names = []
    for prefix, place in _folders(folder).items():
        for file in place.rglob(f"*{_SUFFIX}"):
            if not file.name.startswith("_"):
                name = file.relative_to(place).with_suffix("").as_posix()
                names.append(f"{prefix}/{name}".lstrip("/"))
    return sorted(names)


def _folders(folder: Path | None) -> dict[str, Path]:
    return _registered if folder is None else {"": folder.resolve()}


class Prompts:
    """Prompts by name (``verify``, ``felm/segment_cot``), some replaced by a user's own files."""

    def __init__(
        self, overrides: Mapping[str, Path | str] | None = None, folder: Path | None = None
    ) -> None:
        """Find the prompts.

        Args:
            overrides: Files, or templates themselves, by the name of the prompt they replace.
            folder: The prompts of a package that keeps its own to itself. By default all that are
                registered.

        Raises:
            ConfigError: An override is of no prompt, or its file is missing.
        """
        self._folder = folder
        self._overrides = dict(overrides or {})
        for name, path in self._overrides.items():
            known = prompt_names(folder)
            if name not in known:
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
        """The prompt about a subject, which has the template's variables.

        Raises:
            ConfigError: There is no such prompt, or it fails.
        """
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
        """A hash of the prompt's file, what it includes, and its demonstrations.

        Returns:
            The first 16 hexadecimal digits of the SHA-256.

        Raises:
            ConfigError: There is no such prompt.
        """
        digest = hashlib.sha256()
        try:
            for path in sorted(self._file(name).parent.glob("*.yaml")):
                digest.update(path.read_bytes() + b"\0")
            for part in sorted(self._with_parts(name)):
                digest.update(part.encode() + b"\0" + self._source(part).encode() + b"\0")
        except TemplateNotFound as error:
            raise self._unknown(error) from error
        return digest.hexdigest()[:16]

    def hashes(self, names: Iterable[str]) -> dict[str, str]:
        """The hash of each prompt."""
        return {name: self.hash(name) for name in names}

    def _unknown(self, error: TemplateNotFound) -> ConfigError:
        hint = did_you_mean(str(error.name), prompt_names(self._folder))
        return ConfigError(f"no prompt is called {error.name!r}{hint}")

    def _file(self, name: str) -> Path:
        """The file of a prompt unless it is replaced.

        Raises:
            TemplateNotFound: It would lie outside the folders of prompts.
        """
        folders = _folders(self._folder)
        prefix, _, rest = name.partition("/")
        if not rest or prefix not in folders:
            prefix, rest = "", name
        path = (folders[prefix] / f"{rest}{_SUFFIX}").resolve()
        if not path.is_relative_to(folders[prefix]):
            raise TemplateNotFound(name)
        return path

    def _source(self, name: str) -> str:
        """The template: the user's, or that of the folder with its prefix."""
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
        """The prompt and the templates that it includes, directly or not."""
        names: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            names.add(current)
            template = self._environment.parse(self._source(current))
            parts = meta.find_referenced_templates(template)
            waiting += [part for part in parts if part is not None and part not in names]
        return names
