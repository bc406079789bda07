"""Tiny models of the families, and judges that name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.judges.inference.conftest import folders  # noqa: F401  a fixture


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def write_judge(tmp_path, folders) -> Callable[..., Path]:  # noqa: F811
    """Writes a judge's YAML; by default a classifier of the RoBERTa's."""

    def write(name: str = "minicheck", **keys: Any) -> Path:
        path = tmp_path / f"{name}.yaml"
        content = {
            "backend": "classifier",
            "model": str(folders["roberta"]),
            "device": "cpu",
            **keys,
        }
        if content["backend"] != "classifier":
            content = keys
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write
