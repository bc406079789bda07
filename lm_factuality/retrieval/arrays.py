"""Arrays that are written to disk piece by piece, and read the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy
from numpy.typing import NDArray


def write_header(file: BinaryIO, dtype: numpy.dtype[Any], shape: tuple[int, ...]) -> None:
    """Begins a ``.npy`` file; the array's bytes follow, row by row."""
    numpy.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})


def read_slice(path: Path, start: int, end: int) -> NDArray[numpy.int32]:
    """Elements ``start`` to ``end`` of a file of 32-bit integers without a header."""
    return numpy.fromfile(path, numpy.int32, count=end - start, offset=4 * start)
