"""The faults that ``python -m bench.attack.planted`` plants fit the files as they are."""

from __future__ import annotations

import pytest

from bench.attack.planted import FAULTS
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.changes])
def test_a_fault_changes_its_file(name):
    fault = FAULTS[name]

    text = (REPOSITORY / fault.file).read_text(encoding="utf-8")

    assert all(old in text for old in fault.changes)
