"""Measurements of responses on disk.

People's are CSV files, the pipeline's are verdicts or released decisions.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from lm_factuality.benchmarks.asked import Measured
from lm_factuality.benchmarks.biographies.decisions import read_decisions
from lm_factuality.benchmarks.biographies.generations import name_in
from lm_factuality.benchmarks.biographies.released import factscore, grouped_score, num_entities
from lm_factuality.ground.errors import DataError, did_you_mean, refuse
from lm_factuality.ground.records import read_lines, to_model
from lm_factuality.ground.settings import Strict, Text
from lm_factuality.ground.tables import csv_rows, read_table

METRICS = ("factscore", "d_factscore", "num_biographies", "num_entities")


class Columns(Strict):
    """What the columns of a CSV file of measurements are called; null for one that it lacks."""

    model: Text = "model"
    index: Text | None = "index"
    name: Text | None = "name"
    factscore: Text | None = "factscore"
    d_factscore: Text | None = "d_factscore"
    num_biographies: Text | None = "num_biographies"
    num_entities: Text | None = "num_entities"


_Share = Annotated[float, Field(ge=0, le=1, description="a fraction from 0 to 1 (95% is 0.95)")]
_Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Row(BaseModel):
    model: str
    index: str | None = None
    name: str | None = None
    factscore: _Share | None = None
    d_factscore: _Share | None = None
    num_biographies: _Count | None = None
    num_entities: _Count | None = None


def read_people(path: Path, columns: Columns) -> list[Measured]:
    """Read what people measured, from a CSV file with a header.

    A cell without a value was not measured. Several rows of one response are several people's.

    Raises:
        DataError: The file cannot be read, a column is missing, or rows are bad. The error names
            them.
    """
    table = read_table(path, csv_rows)
    problems = list(table.problems)
    people = []
    for record in table.records:
        try:
            people.append(_measured(path, record.values, columns))
        except ValueError as error:
            problems.append(f"{record.location}: {error}")
    refuse(problems, "lines")
    return people


def _measured(path: Path, values: Mapping[str, str], columns: Columns) -> Measured:
    names = {name: column for name, column in columns if column}
    for name, column in names.items():
        if column not in values and name not in ("index", "name"):
            raise DataError(
                f"{path}: no column {column}; found {', '.join(values)}"
                f"{did_you_mean(column, values)}; name the columns of this file in a YAML such as"
                " configs/people/ambigbio.yaml, null for what it lacks: --columns YAML"
            )
    cells = {name: values.get(column, "").strip() or None for name, column in names.items()}
    row = to_model(_Row, cells)
    if not (row.index or row.name):
        raise ValueError(f"neither index nor name; found {', '.join(values)}")
    metrics = {metric: getattr(row, metric) for metric in METRICS}
    return Measured(row.model, row.index or "", name_in(row.name or ""), metrics)


class _Verdict(BaseModel):
    index: str
    name: str
    scores: dict[str, float | str | None] | None


def read_results(argument: str, default: str | None = None) -> list[Measured]:
    """Read what the pipeline measured.

    Args:
        argument: ``FILE`` or ``MODEL=FILE``, where the file is the ``verdicts.jsonl`` of
            ``lm-factuality judge ambigbio``, or the authors' decision file. The index of a response
            is there the place of its name, from 0.
        default: The model of a file without one. Defaults to the file's name up to its first dot.

    Raises:
        DataError: The file cannot be read, or lines are bad.
    """
    model, _, file = argument.rpartition("=")
    path = Path(file)
    model = model or default or path.name.split(".")[0]
    results = []
    if path.suffix == ".jsonl":
        expected = "expected verdicts.jsonl of 'judge ambigbio'"
        for verdict in read_lines(path, lambda line: to_model(_Verdict, line), expected):
            metrics = {metric: (verdict.scores or {}).get(metric) for metric in METRICS}
            results.append(Measured(model, verdict.index, name_in(verdict.name), metrics))
    else:
        for number, response in enumerate(read_decisions(path).responses):
            if response is not None:
                scores = (factscore(response), grouped_score(response), None)
                values = dict(zip(METRICS, (*scores, num_entities(response)), strict=True))
                results.append(Measured(model, str(number), "", values))
    if not results:
        raise DataError(f"{path}: no responses; expected one line each")
    return results
