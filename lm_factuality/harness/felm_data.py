"""Where the rows of a FELM task and the texts of their references come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judges.felm.rows import FelmRow
from lm_factuality.data.fetch import blob_id, locate
from lm_factuality.data.registry import find_source
from lm_factuality.errors import ConfigError, DataError
from lm_factuality.factor.corpus import YAML_FOLDER

PUBLISHED = "published"


def own_data(config: Mapping[str, Any]) -> Path | None:
    """The file that a YAML's ``dataset_path`` names, relative to the YAML; nothing if it names none.

    Raises:
        ConfigError: there is no such file.
    """
    if not config.get("dataset_path"):
        return None
    metadata: Mapping[str, Any] = config.get("metadata") or {}
    folder = Path(metadata["config_source"]).parent if metadata.get("config_source") else None
    path = (folder or Path(metadata.get(YAML_FOLDER) or ".")) / str(config["dataset_path"])
    if not path.is_file():
        raise ConfigError(f"{config.get('task')}: dataset_path: {path}: no such file; expected JSONL in FELM's columns")
    return path


def find_data(own: Path | None, data_dir: str | None) -> tuple[Path, dict[str, Any]]:
    """The file of rows, ``own`` or the published one, and what results say of it.

    Raises:
        DataError: the published one is neither here nor can be downloaded.
    """
    path, is_published = own, False
    if path is None:
        located = locate(find_source("felm"), data_dir)
        path, is_published = located.path, located.is_upstream
    return path, {"file": path.name, "git_blob": blob_id(path), "is_published": is_published}


def reference_texts(references: str, rows: Sequence[FelmRow]) -> Callable[[FelmRow], tuple[str, ...]]:
    """The contents of a row's references: what the file of rows holds (``published``), or what ``lm-factuality data
    fetch-references`` left in the folder ``references``.

    Raises:
        DataError: there is no such folder, or it holds none of these rows' references.
    """
    if references == PUBLISHED:
        return lambda row: row.reference_texts
    from lm_factuality.references import ReferenceCache, collect_links

    folder = Path(references)
    if not folder.is_dir():
        raise DataError(
            f"references: {folder}: no such folder; make it with: lm-factuality data fetch-references --cache {folder}"
        )
    cache = ReferenceCache(folder)
    found = {
        row.index: tuple(
            page.text for url in collect_links([{"ref": row.references}]).urls if (page := cache.get(url)) and page.text
        )
        for row in rows
    }
    if not any(found.values()):
        raise DataError(
            f"references: {folder}: holds the text of no page that these rows cite; run 'lm-factuality data fetch-references "
            f"--cache {folder}' for them, or leave the setting out"
        )
    return lambda row: found[row.index]
