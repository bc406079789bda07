"""Where the suite's own task and run configs lie: in a checkout, or inside an installed wheel."""

from pathlib import Path
from typing import Any

import yaml

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import count_values
from lm_factuality.ground.secrets import secrets_within

MOST_VALUES = 100_000  # of a YAML
_PACKAGE = Path(__file__).resolve().parents[1]


def _folder(name: str) -> Path:
    packaged = (
        _PACKAGE / "_suite" / name
    )  # side by side as in a checkout, for paths from one to the other
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def tasks_folder() -> Path:
    """The folder to give to lm_eval as ``--include_path``."""
    return _folder("tasks")


def configs_folder() -> Path:
    """The folder of the suite's own configs, whatever lies where the command is run."""
    return _folder("configs")


def find_config(path: Path) -> Path:
    """``path`` as it is if it exists; otherwise, if it starts with ``configs/``, the file of that
    name that the suite brings."""
    if not path.exists() and path.parts[:1] == ("configs",):
        return configs_folder().joinpath(*path.parts[1:])
    return path


def read_config(path: Path) -> Any:
    """The content of the YAML file that ``find_config`` finds. Raises ConfigError: none, not YAML,
    or with a credential in it."""
    path = find_config(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if count_values(content, MOST_VALUES) > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES:,} values once its aliases are followed")
        wrong = next(secrets_within(content), None)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not a readable YAML file: {error}") from error
    if wrong is not None:
        raise ConfigError(
            f"{path}: {' '.join(wrong)}; keys come from the environment only: a judge names the"
            " variable by api_key_env, servers of lm_eval's take OPENAI_API_KEY, the Hub HF_TOKEN"
        )
    return content
