"""Measurements of biographies on disk: what is read, under which names of columns, and what is
refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from lm_factuality.benchmarks.asked import Measured
from lm_factuality.benchmarks.biographies.measured import (
    METRICS,
    read_columns,
    read_people,
    read_results,
)
from lm_factuality.ground.errors import ConfigError, DataError
from tests.conftest import REPOSITORY

HEADER = "model,index,name,factscore,d_factscore,num_biographies,num_entities\n"


def measured(model, index, *values, name=""):
    return Measured(model, str(index), name, dict(zip(METRICS, values, strict=True)))


@pytest.fixture
def write(tmp_path):
    def make(text, name="people.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def test_people_are_read(write):
    path = write(f'\ufeff{HEADER}a,0,"Lind, Ada",1.0,0.5,1,\nb, 3 ,,0,,2,1\n')
    assert read_people(path) == [
        measured("a", 0, 1.0, 0.5, 1.0, None, name="Lind, Ada"),
        measured("b", 3, 0.0, None, 2.0, 1.0),
    ]


BROKEN = {
    "no column": (
        "model,index,factscore,d_factscor,num_biographies,num_entities\na,0,1,1,1,1\n",
        "no column d_factscore; found model, .*did you mean d_factscor.*--columns YAML",
    ),
    "no key": (
        "model,factscore,d_factscore,num_biographies,num_entities\na,1,1,1,1\n",
        "no column index or name; found model, factscore",
    ),
    "empty": ("", "no rows"),
    "no rows": (HEADER, "no rows"),
    "percent": (
        f"{HEADER}a,0,x,95,1,1,1\n",
        r"people\.csv:2: factscore: found '95', expected a fraction from 0 to 1",
    ),
    "text": (f"{HEADER}a,0,x,1,1,one,1\n", "2: num_biographies: found 'one'"),
    "nan": (f"{HEADER}a,0,x,nan,1,1,1\n", "2: factscore: found 'nan'"),
    "few cells": (f"{HEADER}a,0,x,1\n", "2: . cells, expected 7"),
    "many cells": (f"{HEADER}a,0,x,1,1,1,1,1\n", "2: . cells, expected 7"),
    "nobody": (f"{HEADER}a,,,1,1,1,1\n", "2: no model, or neither index nor name"),
    "nothing": (f"{HEADER}a,0,x,,,,\n", "2: no measurement"),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN.values(), ids=BROKEN)
def test_broken_files_of_people(write, text, expected):
    with pytest.raises(DataError, match=expected):
        read_people(write(text))


def test_results_are_read_in_each_form(write, tmp_path):
    values = {"factscore": 1, "d_factscore": 0.5, "num_biographies": None, "num_entities": 2}
    flat = {"model": "m", "index": 0, "name": "Ada Lind", **values}
    verdict = {"generation": {"index": "1", "name": "Ada Lind"}, "scores": {"index": "1", **values}}
    declined = {"index": "2", "name": "Ada Lind", "scores": None}
    path = write(
        "".join(json.dumps(each) + "\n" for each in (flat, verdict, declined)), "verdicts.jsonl"
    )
    expected = [
        measured("m", 0, 1, 0.5, None, 2, name="Ada Lind"),
        measured("verdicts", 1, 1, 0.5, None, 2, name="Ada Lind"),
        measured("verdicts", 2, None, None, None, None, name="Ada Lind"),
    ]
    assert read_results(str(path)) == expected
    assert {each.model for each in read_results(f"mine={path}")} == {"mine"}
    path = write('{"index": 0, "factscore": 1}\n[]\n{"factscore": 1}\n', "bad.jsonl")
    with pytest.raises(DataError) as error:
        read_results(str(path))
    first, second, third = str(error.value).splitlines()
    assert "bad.jsonl:1: no 'd_factscore'; found index, factscore; expected" in first
    assert "bad.jsonl:2: found a JSON list" in second
    assert "bad.jsonl:3: no 'd_factscore'" in third


def test_decision_files_are_results(shared):
    results = read_results(
        str(shared / "data" / "ambigbio" / "decisions" / "llama2-13b-chat__ambig.json.gz"), "llama"
    )
    assert len(results) == 499
    assert results[0].index == "0"
    assert results[0].values["num_biographies"] is None
    assert np.mean([each.values["factscore"] for each in results]) == pytest.approx(
        0.9459693891923565, abs=1e-9
    )


def test_lines_of_results_end_at_line_feeds_alone(write):
    line = {"index": 0, "note": "a\u2028b\x85c", **dict.fromkeys(METRICS, 1)}
    path = write(json.dumps(line, ensure_ascii=False) + "\n", "verdicts.jsonl")
    assert [each.model for each in read_results(str(path))] == ["verdicts"]
    assert [each.model for each in read_results(str(path), default="llama")] == ["llama"]
    path = write(json.dumps({**line, "model": "own"}), "verdicts.jsonl")
    assert [each.model for each in read_results(str(path), default="llama")] == ["own"]


def test_columns_of_another_name(write, tmp_path):
    path = write("who,paragraph,FS,D-FS,bios\nGPT,Tell me a bio of Ada Lind.,98,92.5,2\n")
    names = {
        "model": "who",
        "index": None,
        "name": "paragraph",
        "factscore": "FS",
        "d_factscore": "D-FS",
    }
    content = {**names, "num_biographies": "bios", "num_entities": None, "shares": "percent"}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (found,) = read_people(path, read_columns(tmp_path / "c.yaml"))
    assert (found.model, found.index, found.name) == ("GPT", "", "Ada Lind")
    assert found.values == pytest.approx(
        {"factscore": 0.98, "d_factscore": 0.925, "num_biographies": 2, "num_entities": None}
    )
    path = write("who,paragraph,FS,D-FS,bios\nGPT,Ada Lind,98,192.5,2\n")
    with pytest.raises(
        DataError, match="2: d_factscore: found '192.5', expected a percentage from 0 to 100"
    ):
        read_people(path, read_columns(tmp_path / "c.yaml"))


def test_the_columns_in_configs_are_the_default(write):
    text = f"{HEADER}a,0,x,1,0.5,1,2\n"
    assert read_people(
        write(text), read_columns(REPOSITORY / "configs" / "people" / "ambigbio.yaml")
    ) == read_people(write(text))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"colour": "x"}, "unknown key 'colour'"),
        ({"shares": "percents"}, "shares is 'percents'; expected 'fractions' or 'percent'"),
    ],
)
def test_broken_columns(tmp_path, content, expected):
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ConfigError, match=expected):
        read_columns(tmp_path / "c.yaml")
