"""Reports of results with numbers that no honest run has: they are shown as unknown, or refused by
name, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_factuality.ground.errors import DataError
from lm_factuality.report.build import build_report
from tests.report.results import ambigbio_task, factor_task, felm_task, write_results

TASKS = ("my_factor", "my_felm", "my_bio")
ODD = (float("inf"), float("nan"), 1e308, -1e308)


def results(folder: Path) -> Path:
    tasks = {
        "my_factor": factor_task([True] * 6 + [False] * 2),
        "my_felm": felm_task(["Answer: 2", "Answer: 1"]),
        "my_bio": ambigbio_task(),
    }
    write_results(folder / "a", tasks, "org/other-350m")
    return write_results(folder / "b", tasks)


def built(path: Path, tmp_path: Path) -> str:
    """The pages of a report, or what it is refused with."""
    try:
        build_report([path.parents[1]], tmp_path / "out")
    except DataError as error:
        if path.name.removeprefix("results").removesuffix(".json") not in str(error):
            raise AssertionError(f"names no file: {error}") from error
        return ""
    return "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "out").glob("*.html"))


@pytest.mark.parametrize("value", ODD)
def test_every_metric_may_be_odd(value: float, tmp_path: Path) -> None:
    path = results(tmp_path / "r")
    content = json.loads(path.read_text())
    for task in TASKS:
        scores = content["results"][task]
        scores |= {key: value for key in scores if "," in key}
    path.write_text(json.dumps(content))
    pages = built(path, tmp_path)
    assert "org/small-125m" in pages
    assert ">inf<" not in pages
    assert ">nan<" not in pages


def test_half_a_character_is_shown_as_a_question_mark(tmp_path: Path) -> None:
    path = write_results(
        tmp_path / "r", {"my_factor": factor_task([True, False])}, "org/\ud800model"
    )
    build_report([path], tmp_path / "out")
    assert "org/?model" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
