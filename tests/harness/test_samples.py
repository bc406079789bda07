"""Samples that a run which was killed left in part."""

from __future__ import annotations

import json

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.harness.samples import samples_of
from tests.conftest import task_result


@pytest.mark.parametrize(
    ("lines", "effective", "expected"),
    [
        (3, 3, ""),
        (2, 3, "found 2 samples, but the results are of 3"),
        (3, 2, "found 3 samples"),
        (2, 0, ""),
        (0, 3, "found 0 samples"),
    ],
)
def test_they_are_as_many_as_the_results_say(tmp_path, lines, effective, expected):
    path = tmp_path / "samples_x_2026.jsonl"
    samples = [
        {"doc_id": number, "doc": {}, "filter": name}
        for number in range(lines)
        for name in ("none", "other")
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in samples), encoding="utf-8")
    task = task_result("x", "factor", effective=effective, samples=path)
    if expected:
        with pytest.raises(DataError, match=expected):
            list(samples_of(task))
    else:
        assert [each["doc_id"] for each in samples_of(task)] == list(range(lines))
