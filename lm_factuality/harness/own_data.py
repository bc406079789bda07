"""Finds and reads the file of a task: the published one, or one of the user's own.

The benchmarks' tasks call it when they read their rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.published import Source, blob_id, locate
from lm_factuality.ground.tables import FORMATS, Table, TableRow, read_table

if TYPE_CHECKING:
    import datasets

INLINE = "inline"  # lm_eval's name for the source of a YAML that the user gave by its path
YAML_FOLDER = "yaml_folder"  # the key of metadata with the folder of such a YAML


class DataFile(NamedTuple):
    """The file that a task reads."""

    path: Path
    """The path of the file."""

    description: dict[str, Any]
    """Its name, git blob, and whether it is the published file, as results files describe it."""


def folder_of(metadata: Mapping[str, Any]) -> Path | None:
    """Return the folder of a task's YAML, None if it is unknown.

    Args:
        metadata: The task's metadata. In ``config_source``, lm_eval notes the path of a YAML that
            it finds by the task's name, or ``inline``. For a YAML that the user gives by its path,
            ``lm-factuality run`` notes the folder in ``yaml_folder``.
    """
    source = metadata.get("config_source", INLINE)
    folder = metadata.get(YAML_FOLDER) if source == INLINE else Path(source).parent
    return Path(folder) if folder else None


def own_data_file(config: Mapping[str, Any], expected_file: str) -> Path | None:
    """Return the user's data file that a YAML names under ``dataset_path``, None without one.

    Args:
        config: The task's YAML. A relative path starts from the folder of the YAML.
        expected_file: A description of the file for the error, such as ``a table``.

    Raises:
        ConfigError: There is no such file.
    """
    if not config.get("dataset_path"):
        return None
    return _existing_data_file(config, expected_file)


def find_data(own_file: Path | None, source: Source, data_dir: str | None) -> DataFile:
    """Find the file that a task reads: the user's own, or else the published one.

    Args:
        own_file: The user's file, or None for the published one.
        source: The published file, which is downloaded if it is missing.
        data_dir: A folder with the published files; None for the default.

    Raises:
        DataError: There is no such file, or the published one cannot be downloaded.
    """
    if own_file is None:
        published = locate(source, data_dir)
        description = {
            "file": published.path.name,
            "git_blob": published.blob,
            # A file in `data_dir` may have the published file's name and other content.
            "is_published": published.is_published,
        }
        return DataFile(published.path, description)
    if not own_file.is_file():
        raise DataError(f"{own_file}: no such file; give another, or none for the published one")
    return DataFile(own_file, _describe_own_file(own_file))


def read_records(
    config: Mapping[str, Any], expected_file: str
) -> tuple[Sequence[TableRow], dict[str, Any]]:
    """Read the rows of a task from a table or from a dataset of the Hub.

    For example, ``dataset_path: rows.csv`` names a table beside the task's YAML, and
    ``dataset_path: truthful_qa`` a dataset. ``test_split`` chooses a split of the dataset.

    Args:
        config: The content of the task's YAML.
        expected_file: A description of the table for errors, such as ``a table``.

    Returns:
        The rows, and the description of the data in results.

    Raises:
        ConfigError: The YAML names no data, or a file that does not exist.
        DataError: The data cannot be read.
    """
    task = str(config.get("task"))
    path = str(config.get("dataset_path") or "")
    if not path:
        raise ConfigError(f"{task}: dataset_path is missing; name a table or a dataset of the Hub")

    if path.endswith(tuple(FORMATS)):
        file = _existing_data_file(config, expected_file)
        table = read_table(file)
        refuse(table.problems)
        return table.records, _describe_own_file(file)

    table, description = read_dataset(
        task,
        path,
        config.get("dataset_name"),
        config.get("dataset_kwargs"),
        config.get("test_split"),
    )
    return table.records, description


def _existing_data_file(config: Mapping[str, Any], expected_file: str) -> Path:
    """Return the file under ``dataset_path`` of a YAML, after checking that it exists.

    Args:
        config: The content of the YAML. A relative path starts from the folder of the YAML.
        expected_file: A description of the file for the error, such as ``a table``.

    Raises:
        ConfigError: There is no such file.
    """
    # Without a known folder, the path starts from the current one.
    folder = folder_of(config.get("metadata") or {}) or Path()
    path = folder / str(config["dataset_path"])
    if not path.is_file():
        raise ConfigError(
            f"{config.get('task')}: dataset_path: {path}: no such file; expected {expected_file}"
        )
    return path


def _describe_own_file(path: Path) -> dict[str, Any]:
    """Return the description of a user's file in results, as `DataFile` has it."""
    return {"file": path.name, "git_blob": blob_id(path), "is_published": False}


def read_dataset(
    task: str,
    path: str,
    config_name: str | None,
    options: Mapping[str, Any] | None,
    split: str | None,
) -> tuple[Table, dict[str, Any]]:
    """Read a split of a dataset of the Hub.

    Args:
        task: The name of the task, or the path of its YAML, for errors.
        path: The name of the dataset.
        config_name: The configuration of the dataset.
        options: Further arguments of ``datasets.load_dataset``.
        split: The name of the split. None stands for the only one, or for ``test`` of several.

    Returns:
        The rows, and the description of the data in results.

    Raises:
        DataError: The dataset cannot be loaded, or has no such split.
    """
    loaded = _load_dataset(task, path, config_name, options or {})
    rows = _choose_split(loaded, split, task) if isinstance(loaded, Mapping) else loaded
    location = f"{path}[{rows.split}]"
    records = [
        TableRow(f"{location}, row {number}", dict(values)) for number, values in enumerate(rows, 1)
    ]
    problems = () if records else (f"{location}: no rows; expected at least one",)
    # The library changes the fingerprint whenever the content of a dataset changes.
    description = {"dataset": path, "fingerprint": rows._fingerprint}
    return Table(tuple(records), problems), description


def _load_dataset(
    task: str, path: str, config_name: str | None, options: Mapping[str, Any]
) -> "datasets.Dataset | Mapping[str, datasets.Dataset]":
    """Load a dataset of the Hub: all splits by name or, if the options name one, this split.

    Args:
        task: The task or its YAML, for the error.
        path: The name of the dataset.
        config_name: The configuration of the dataset.
        options: Further arguments of ``datasets.load_dataset``.

    Raises:
        DataError: The dataset cannot be loaded.
    """
    import datasets

    try:
        return datasets.load_dataset(path, config_name, **options)
    # The loader raises many kinds of errors, and most do not name the dataset.
    except Exception as error:
        raise DataError(
            f"{task}: dataset {path!r} cannot be loaded: {error}. Without a network, download its"
            " table elsewhere and name the file under dataset_path"
        ) from error


def _choose_split(
    splits: "Mapping[str, datasets.Dataset]", name: str | None, task: str
) -> "datasets.Dataset":
    """Return a split by its name, or the only split, or ``test``.

    Args:
        splits: The dataset's splits by name.
        name: The name of the split, or None.
        task: The task or its YAML, for the error.

    Raises:
        DataError: The dataset has no such split.
    """
    if name is None:
        name = next(iter(splits)) if len(splits) == 1 else "test"
    if name not in splits:
        raise DataError(f"{task}: test_split: found {name!r}, expected one of {', '.join(splits)}")
    return splits[name]


def require_text(record: TableRow, column: str) -> str:
    """Return the text in a column of a row, without white space at its ends.

    Raises:
        DataError: There is no such column, or it is empty.
    """
    if column not in record.values:
        columns = ", ".join(map(repr, record.values))
        raise DataError(f"{record.location}: no column {column!r}; expected it among {columns}")
    cell = record.values[column]
    text = "" if cell is None else str(cell).strip()
    if not text:
        raise DataError(f"{record.location}: the column {column!r} is empty; expected a text")
    return text
