"""The file that a task reads: the published one, or one of the user's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import Source, blob_id, locate
from lm_factuality.ground.tables import FORMATS, TableRow, read_table

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


def read_records(
    config: Mapping[str, Any], expected: str
) -> tuple[Sequence[TableRow], dict[str, Any]]:
    """Read the rows of the table, or of the dataset of the Hub, that a YAML names.

    Of a dataset of the Hub, the rows are those of the split ``test_split``, or of its only split.

    Args:
        config: The YAML.
        expected: What the file should be, for errors.

    Returns:
        The rows, and what results say of the data.

    Raises:
        ConfigError: The YAML names no data, or a file that does not exist.
        DataError: The data cannot be read.
    """
    task, path = config.get("task"), str(config.get("dataset_path") or "")
    if path.endswith(tuple(FORMATS)):
        file = own_data(config, expected)
        assert file is not None
        table = read_table(file)
        refuse(table.problems)
        about = {"file": file.name, "git_blob": blob_id(file), "is_published": False}
        return table.records, about
    if not path:
        raise ConfigError(f"{task}: dataset_path is missing; name a table or a dataset of the Hub")

    import datasets

    options = config.get("dataset_kwargs") or {}
    try:
        splits = datasets.load_dataset(path, config.get("dataset_name"), **options)
    except Exception as error:  # the loader raises many kinds of error, most without the name
        raise DataError(
            f"{task}: dataset {path!r} cannot be loaded: {error}. Without a network, download its"
            " table elsewhere and name the file under dataset_path"
        ) from error
    split = str(config.get("test_split") or "test")
    if len(splits) == 1:
        split = next(iter(splits))
    if split not in splits:
        raise DataError(f"{task}: test_split: found {split!r}, expected one of {', '.join(splits)}")
    rows = splits[split]
    records = [
        TableRow(f"{path}, row {number}", values) for number, values in enumerate(rows, start=1)
    ]
    return records, {"dataset": path, "fingerprint": rows._fingerprint}


def text_in(record: TableRow, column: str) -> str:
    """The text in a column of a row.

    Raises:
        DataError: There is no such column, or it is empty.
    """
    if column not in record.values:
        columns = ", ".join(map(repr, record.values))
        raise DataError(f"{record.location}: no column {column!r}; expected it among {columns}")
    value = record.values[column]
    text = "" if value is None else str(value).strip()
    if not text:
        raise DataError(f"{record.location}: the column {column!r} is empty; expected a text")
    return text
