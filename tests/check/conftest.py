"""The browser that shows the page of a check."""

from __future__ import annotations

from tests.report.conftest import browser

__all__ = ["browser"]
