"""Finds and reads the file of a task: the published one, or one of the user's own.

The benchmarks' tasks call it when they read their rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import Source, blob_id, locate
from lm_factuality.ground.tables import FORMATS, Table, TableRow, read_table

INLINE = "inline"  # what lm_eval calls the source of a YAML that it was given by path
# where `lm-factuality run` found a YAML that it was given by path, which lm_eval forgets
YAML_FOLDER = "yaml_folder"


def folder_of(metadata: Mapping[str, Any]) -> Path | None:
    """Return the folder of the YAML that a task's metadata come from, None if it is unknown.

    lm_eval notes the path of a YAML that it finds by name. For one that the user gives by path,
    ``lm-factuality run`` notes the folder.
    """
    source = metadata.get("config_source", INLINE)
    folder = metadata.get(YAML_FOLDER) if source == INLINE else Path(source).parent
    return Path(folder) if folder else None


def own_data(config: Mapping[str, Any], expected: str) -> Path | None:
    """Return the user's data file that a YAML names under ``dataset_path``, None without one.

    Args:
        config: The task's YAML; the path is relative to its folder.
        expected: What the file should be, for the error.

    Raises:
        ConfigError: There is no such file.
    """
    if not config.get("dataset_path"):
        return None
    folder = folder_of(config.get("metadata") or {}) or Path()
    path = folder / str(config["dataset_path"])
    if not path.is_file():
        raise ConfigError(
            f"{config.get('task')}: dataset_path: {path}: no such file; expected {expected}"
        )
    return path


def find_data(
    own: Path | None, source: Source, data_dir: str | None
) -> tuple[Path, dict[str, Any]]:
    """Return the file that a task reads, and its description for the results file.

    Args:
        own: The user's file, or None for the published one.
        source: The published file.
        data_dir: A folder with the published files; None for the default.

    Returns:
        The path, and the file's name, git blob, and whether it is the published file.

    Raises:
        DataError: There is no such file, or the published one cannot be downloaded.
    """
    if own is None:
        published = locate(source, data_dir)
        path = published.path
        blob = published.blob
        # A file in `data_dir` may have the published file's name and other content.
        is_published = published.is_upstream
    elif own.is_file():
        path = own
        blob = blob_id(own)
        is_published = False
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
    task = str(config.get("task"))
    path = str(config.get("dataset_path") or "")
    if path.endswith(tuple(FORMATS)):
        file = own_data(config, expected)
        assert file is not None
        table = read_table(file)
        refuse(table.problems)
        about = {"file": file.name, "git_blob": blob_id(file), "is_published": False}
        return table.records, about
    if not path:
        raise ConfigError(f"{task}: dataset_path is missing; name a table or a dataset of the Hub")

    table, about = read_dataset(
        task,
        path,
        config.get("dataset_name"),
        config.get("dataset_kwargs"),
        config.get("test_split"),
    )
    return table.records, about


def read_dataset(
    where: str, path: str, name: str | None, options: Mapping[str, Any] | None, split: str | None
) -> tuple[Table, dict[str, Any]]:
    """Read a split of a dataset of the Hub.

    Args:
        where: The task or its YAML, for errors.
        path: The name of the dataset.
        name: The configuration of the dataset.
        options: Further arguments of ``datasets.load_dataset``.
        split: The name of the split. None stands for the only one, or for ``test`` of several.

    Returns:
        The rows, and what results say of the data.

    Raises:
        DataError: The dataset cannot be loaded, or has no such split.
    """
    import datasets

    try:
        splits = datasets.load_dataset(path, name, **(options or {}))
    except Exception as error:  # the loader raises many kinds of error, most without the name
        raise DataError(
            f"{where}: dataset {path!r} cannot be loaded: {error}. Without a network, download its"
            " table elsewhere and name the file under dataset_path"
        ) from error
    rows = splits
    if isinstance(splits, Mapping):  # which they are unless the options name a split
        if split is None:
            split = next(iter(splits)) if len(splits) == 1 else "test"
        if split not in splits:
            raise DataError(
                f"{where}: test_split: found {split!r}, expected one of {', '.join(splits)}"
            )
        rows = splits[split]
    place = f"{path}[{rows.split}]"
    records = [
        TableRow(f"{place}, row {number}", dict(values)) for number, values in enumerate(rows, 1)
    ]
    problems = () if records else (f"{place}: no rows; expected at least one",)
    return Table(tuple(records), problems), {"dataset": path, "fingerprint": rows._fingerprint}


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
