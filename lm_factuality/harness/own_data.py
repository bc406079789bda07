"""The file that a task reads: the published one, or one of the user's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.published import Source, blob_id, locate

INLINE = "inline"  # what lm_eval calls the source of a YAML that it was given by path
# where `lm-factuality run` found a YAML that it was given by path, which lm_eval forgets
YAML_FOLDER = "yaml_folder"


def folder_of(metadata: Mapping[str, Any]) -> Path | None:
    """Where the YAML with this metadata lies, as far as lm_eval or ``lm-factuality run`` has told
    it."""
    source = metadata.get("config_source", INLINE)
    folder = metadata.get(YAML_FOLDER) if source == INLINE else Path(source).parent
    return Path(folder) if folder else None


def own_data(config: Mapping[str, Any], expected: str) -> Path | None:
    """The file that a YAML's ``dataset_path`` names, relative to it, if any. Raises ConfigError: it
    is missing (``expected``)."""
    if not config.get("dataset_path"):
        return None
    path = (folder_of(config.get("metadata") or {}) or Path()) / str(config["dataset_path"])
    if not path.is_file():
        raise ConfigError(
            f"{config.get('task')}: dataset_path: {path}: no such file; expected {expected}"
        )
    return path


def find_data(
    own: Path | None, source: Source, data_dir: str | None
) -> tuple[Path, dict[str, Any]]:
    """The file of a task, ``own`` or the published ``source``, and what results say of it. Raises
    DataError: it cannot be had."""
    if own is None:
        located = locate(source, data_dir)
        path, blob, is_published = located.path, located.blob, located.is_upstream
    elif own.is_file():
        path, blob, is_published = own, blob_id(own), False
    else:
        raise DataError(f"{own}: no such file; give another, or none for the published one")
    return path, {"file": path.name, "git_blob": blob, "is_published": is_published}
