"""The browser and the search service of other tests, and documents to check answers against."""

from __future__ import annotations

import pytest

from tests.report.conftest import browser
from tests.retrieval.test_search import service

__all__ = ["browser", "service"]

DOCUMENT = """# The mill

The mill at Grayport was built in 1402. It has three floors and a wheel of oak.

Visitors may enter the mill on Mondays. A ticket costs four euros.
"""


@pytest.fixture(autouse=True)
def suite_home(tmp_path, monkeypatch):
    """Keep the indexes and stores of these tests apart from those of the user."""
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))


@pytest.fixture
def documents(tmp_path):
    """Write a folder with one document, and return it."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "mill.md").write_text(DOCUMENT, encoding="utf-8")
    return folder
