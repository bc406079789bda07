"""Measurements of responses on disk: people's as CSV, the pipeline's as JSON lines or as released
decisions."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from lm_factuality.benchmarks.asked import Measured
from lm_factuality.benchmarks.biographies.decisions import is_decision_file, read_decisions
from lm_factuality.benchmarks.biographies.generations import name_in
from lm_factuality.benchmarks.biographies.released import factscore, grouped_score, num_entities
from lm_factuality.ground.errors import DataError, did_you_mean, refuse
from lm_factuality.ground.records import read_lines
from lm_factuality.ground.settings import Strict, Text, read_settings
from lm_factuality.ground.suite import read_config
from lm_factuality.ground.tables import csv_rows, read_table

METRICS = ("factscore", "d_factscore", "num_biographies", "num_entities")
_KEYS = ("index", "name")
_SHARES = ("factscore", "d_factscore")


class Columns(Strict):
    """What the columns of a CSV of measurements are called, null for one that it lacks; and whether
    its shares are fractions."""

    model: Text = "model"
    index: Text | None = "index"
    name: Text | None = "name"
    factscore: Text | None = "factscore"
    d_factscore: Text | None = "d_factscore"
    num_biographies: Text | None = "num_biographies"
    num_entities: Text | None = "num_entities"
    shares: Literal["fractions", "percent"] = "fractions"


def read_columns(path: Path) -> Columns:
    """A YAML such as ``configs/people/ambigbio.yaml``. Raises ConfigError: everything that is
    wrong."""
    return read_settings(Columns, read_config(path), str(path))


def read_people(path: Path, columns: Columns | None = None) -> list[Measured]:
    """What people measured: CSV with a header and ``columns`` for the model, index or name (or
    both), and some of the metrics. A cell without a value was not measured; several rows of one
    response are several people's. Raises DataError: the file cannot be read, a column is missing,
    or rows are bad; each is named."""
    table, found = read_table(path, csv_rows), []
    problems = list(table.problems)
    for row in table.records:
        try:
            found.append(_person(path, row.values, columns or Columns()))
        except ValueError as error:
            problems.append(f"{row.location}: {error}")
    refuse(problems, "lines")
    return found


def read_results(argument: str, default: str | None = None) -> list[Measured]:
    """What the pipeline measured: ``verdicts.jsonl`` of ``lm-factuality judge ambigbio``, JSON
    lines with ``index`` or ``name`` and the four metrics (null: not measured) at the top or under
    ``scores``, or the authors' decision file (index: the place of the name in it, from 0; without a
    number of biographies). ``argument`` is ``FILE`` or ``MODEL=FILE``; else the model is a line's
    own, the ``default``, or the file's name up to its first dot. Raises DataError: the file cannot
    be read, or lines are bad."""
    is_named = "=" in argument and not Path(argument).exists()
    model, path = (
        (argument.partition("=")[0], Path(argument.partition("=")[2]))
        if is_named
        else (None, Path(argument))
    )
    default = model or default or path.name.split(".")[0]
    if is_decision_file(path):
        return [
            Measured(default, str(number), "", dict(zip(METRICS, values, strict=True)))
            for number, each in enumerate(read_decisions(path).responses)
            if each is not None
            for values in [(factscore(each), grouped_score(each), None, num_entities(each))]
        ]
    found = read_lines(path, lambda record: _result(record, model, default), "expected JSON lines")
    if not found:
        raise DataError(f"{path}: no responses; expected one line each")
    return found


def _person(path: Path, row: Mapping[str, str], called: Columns) -> Measured:
    columns = {
        name: column for name in ("model", *_KEYS, *METRICS) if (column := getattr(called, name))
    }
    keys = [columns[key] for key in _KEYS if key in columns]  # one is enough
    missing = [] if any(key in row for key in keys) else [" or ".join(keys) or "index or name"]
    missing += [each for name, each in columns.items() if each not in row and name not in _KEYS]
    if missing:
        raise DataError(
            f"{path}: no column {', '.join(missing)}; found"
            f" {', '.join(row)}{did_you_mean(missing[0], row)}; name the columns of this file in a"
            " YAML such as configs/people/ambigbio.yaml, null for what it lacks: --columns YAML"
        )
    values = {name: row.get(column, "").strip() or None for name, column in columns.items()}
    if all(values.get(metric) is None for metric in METRICS):
        raise ValueError("no measurement; leave rows out that nobody annotated")
    return _measured(values, values["model"] or "", called.shares == "percent")


def _result(record: Any, model: str | None, default: str) -> Measured:
    if not isinstance(record, dict):
        raise ValueError(f"found a JSON {type(record).__name__}, expected an object")  # noqa: TRY004
    inner = [record[key] for key in ("generation", "scores") if isinstance(record.get(key), dict)]
    values = {name: each for place in (*inner, record) for name, each in place.items()}
    if "scores" in record and record["scores"] is None:  # it declined, or could not be judged
        values |= dict.fromkeys(METRICS)
    if missing := next((metric for metric in METRICS if metric not in values), None):
        raise ValueError(
            f"no {missing!r}; found {', '.join(values)}; expected a line of verdicts.jsonl, or an"
            f" object with index or name and {', '.join(METRICS)}, null for what was not measured"
        )
    return _measured(values, model or str(values.get("model") or default))


def _measured(values: Mapping[str, Any], model: str, percent: bool = False) -> Measured:
    index, name = ("" if values.get(key) is None else str(values[key]) for key in _KEYS)
    if not model or not (index or name):
        raise ValueError("no model, or neither index nor name")
    return Measured(
        model,
        index,
        name_in(name),
        {metric: _number(metric, values.get(metric), percent) for metric in METRICS},
    )


def _number(metric: str, value: Any, percent: bool = False) -> float | None:
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    expected, most = "a number of 0 or more", math.inf
    if metric in _SHARES:
        expected, most = (
            ("a percentage from 0 to 100", 100.0)
            if percent
            else ("a fraction from 0 to 1 (95% is 0.95)", 1.0)
        )
    if not 0 <= number <= most or number == math.inf:
        raise ValueError(f"{metric}: found {value!r}, expected {expected}")
    return number / 100 if most == 100 else number
