"""Files of records: what is read, and how an error names its place."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, StrictBool, StrictInt

from lm_factuality.ground.errors import DataError
from lm_factuality.ground.records import read_lines, read_text, to_model


@dataclass(frozen=True)
class Part:
    name: str
    number: StrictInt


class Whole(BaseModel):
    parts: tuple[Part, ...]
    is_done: StrictBool = False


@pytest.mark.parametrize(
    "content",
    ["caf\u00e9\n".encode(), "\ufeffcaf\u00e9\n".encode(), gzip.compress("caf\u00e9\n".encode())],
    ids=["plain", "marked", "packed"],
)
def test_texts_are_read_plain_or_packed(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert read_text(tmp_path / "a", "expected") == "caf\u00e9\n"


def test_texts_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="a: no such file; make it with: x"):
        read_text(tmp_path / "a", "make it with: x")
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(DataError, match="a: cannot be read: .*; make it with: x"):
        read_text(tmp_path / "a", "make it with: x")


def test_every_bad_line_is_named(tmp_path):
    (tmp_path / "a").write_text(
        '{"name": "a\u2028b", "number": 1}\r\n\n{\n{"number": 1}\n' + "[" * 100_000,
        encoding="utf-8",
    )
    with pytest.raises(DataError) as error:
        read_lines(tmp_path / "a", lambda record: to_model(Part, record), "expected")
    first, second, third = str(error.value).splitlines()
    assert first.startswith(f"{tmp_path / 'a'}:3: not JSON: ")
    assert second == f"{tmp_path / 'a'}:4: name is missing; found {{'number': 1}}"
    assert third.startswith(f"{tmp_path / 'a'}:5: not JSON: ")
    (tmp_path / "a").write_text('{"name": "a\u2028b", "number": 1}\r\n', encoding="utf-8")
    assert read_lines(tmp_path / "a", lambda record: to_model(Part, record), "expected") == [
        Part("a\u2028b", 1)
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({}, "parts is missing; found {}"),
        ([], "found []; expected a valid dictionary or instance of Whole"),
        (
            {"parts": [{"name": "a", "number": 1}, 3]},
            "parts[1] is 3; expected a dictionary or an instance of Part",
        ),
        (
            {"parts": [{"name": "a", "number": True}]},
            "parts[0].number is True; expected a valid integer",
        ),
        (
            {"parts": [{"name": None, "number": 1}]},
            "parts[0].name is empty; expected a valid string",
        ),
    ],
)
def test_what_does_not_fit_a_model_is_named(record, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_model(Whole, record)
