"""Files that a stranger may send: damaged, of another kind, or made to break what reads them.

``python -m tests.hostile FOLDER`` writes them, to be tried by hand.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

DEEP = 100_000  # brackets, more than Python nests
DIGITS = 6_000  # more than Python reads as an integer


def _parquet() -> bytes:
    """Return a sound Parquet file with 100 rows."""
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"] * 100}), file)
    return file.getvalue()


def _aliases(levels: int = 12, width: int = 12) -> str:
    """Return YAML whose aliases stand for more items than any memory holds.

    Args:
        levels: The number of lists.
        width: How often each list contains the one before it. The last list has
            ``width ** (levels - 1)`` items once all aliases are followed.
    """
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        items = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{items}]")
    lines.append(f"task: *a{levels - 1}")
    return "\n".join(lines) + "\n"


def _contents() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each hostile file."""
    # Texts and their encodings.
    yield "empty", b""
    yield "blank", b"\n\n \n"
    yield "nul", b"\0" * 1000
    yield "bom", b"\xef\xbb\xbf"
    yield "bom_twice", b"\xef\xbb\xbf\xef\xbb\xbf{}\n"
    yield "utf16", '{"a": "b"}\n'.encode("utf-16")
    yield "latin1", '{"a": "caf\xe9"}\n'.encode("latin-1")
    yield "crlf", b'{"a": 1}\r\n{"b": 2}\r\n'

    # JSON and JSONL.
    yield "brackets", b"[" * DEEP
    yield "braces", b'{"a":' * DEEP + b"1" + b"}" * DEEP
    yield "deep_list", b"[" * 3000 + b"]" * 3000
    yield "deep_object", b'{"a":' * 900 + b"1" + b"}" * 900
    yield "integer", b'{"a": ' + b"9" * DIGITS + b"}\n"
    yield "integer_alone", b"9" * DIGITS
    yield "integer_of_400", b'{"a": ' + b"9" * 400 + b"}\n"
    yield "float", b'{"a": ' + b"9" * 400 + b".5}\n"
    yield "exponent", b'{"a": 1e999}\n'
    yield "not_a_number", b'{"a": NaN, "b": -Infinity}\n'
    yield "surrogate", b'{"a": "\\ud800", "\\udfff": 1}\n'
    yield "twice", b'{"a": 1, "a": 2}\n'
    yield "null", b"null\n"
    yield "number", b"1\n"
    yield "text", b'"a"\n'
    yield "list", b"[1, [2], null]\n"
    yield "objects", b'[{}, {"a": 1}]\n'
    yield "object", b"{}\n"
    yield "cut_json", b'{"a": [1, 2'

    # CSV.
    yield "csv_quote", b'a,b\n"never closed,1\n' * 3
    yield "csv_columns", b",".join(b"c%d" % number for number in range(1_000_000)) + b"\n1\n"
    yield "csv_same_columns", b"c," * 200_000 + b"c\n1\n"
    yield "long_line", b"a" * 1_000_000

    # Binary formats.
    yield "gzip", gzip.compress(b'{"a": 1}\n')
    yield "cut_gzip", gzip.compress(os.urandom(1000))[:300]
    yield "no_gzip", b"\x1f\x8b" + b"junk" * 100
    yield "parquet", _parquet()
    yield "cut_parquet", _parquet()[:-40]
    yield "bad_parquet", b"PAR1" + b"\xff" * 200 + b"PAR1"
    yield "sqlite", b"SQLite format 3\0" + b"\xff" * 4096

    # YAML.
    yield "yaml_aliases", _aliases().encode()
    yield "yaml_circle", b"a: &a [*a]\ntask: *a\n"
    yield "yaml_python", b"task: !!python/object/apply:os.system [true]\n"
    yield "yaml_deep", b"a: " + b"[" * 3000 + b"]" * 3000
    yield "yaml_integer", b"task: t\nmetadata: {version: " + b"9" * DIGITS + b"}\n"
    yield "yaml_key", b"{[a]: 1, null: 2, 3: {1: 2}}\n"
    yield "yaml_date", b"task: 2020-01-01\nmetadata: 99999-99-99\n"
    yield "yaml_bad_date", b"task: 2020-99-99\n"
    yield "html", b"<html><body>404</body></html>"


def write_hostile(folder: Path, suffix: str) -> Mapping[str, Path]:
    """Write all hostile files, each into a folder of its own.

    Args:
        folder: Where to write them.
        suffix: What all names end with, such as ``.json``, whatever the content.

    Returns:
        The path of each file by its name. Some paths are of no file: ``missing``, a ``folder``, a
        ``loop`` of links, a path ``below_a_file`` and one with a ``long_name``.
    """
    paths = {}
    for name, content in _contents():
        path = folder / name / f"results_{name}{suffix}"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        paths[name] = path

    paths["missing"] = folder / f"missing{suffix}"
    paths["below_a_file"] = paths["empty"] / f"x{suffix}"
    paths["long_name"] = folder / f"{'x' * 300}{suffix}"
    paths["folder"] = folder / f"folder{suffix}"
    paths["folder"].mkdir()
    paths["loop"] = folder / f"loop{suffix}"
    paths["loop"].symlink_to(paths["loop"])
    return paths


if __name__ == "__main__":
    for suffix in (".json", ".jsonl", ".csv", ".yaml"):
        write_hostile(Path(sys.argv[1]) / suffix[1:], suffix)
