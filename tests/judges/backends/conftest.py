"""Judges that name tiny inference models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from judges.inference import EntailmentPair, WindowSupport
from judges.inference.models import SupportModel
from tests.judges.inference.conftest import model_folders  # noqa: F401  a fixture


@pytest.fixture(autouse=True)
def suite_home(tmp_path, monkeypatch) -> Path:
    """Keep the stores of answers of these tests apart from those of the user."""
    home = tmp_path / "home"
    monkeypatch.setenv("LM_FACTUALITY_HOME", str(home))
    return home


@pytest.fixture
def write_judge(tmp_path) -> Callable[..., Path]:
    """Return a function that writes the YAML of a judge, and returns its path.

    The first argument is the judge's name, and the keyword arguments are the keys of the YAML.
    """

    def write(name: str, **keys: Any) -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(keys), encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_classifier(write_judge, model_folders) -> Callable[..., Path]:  # noqa: F811
    """Return a function that writes the YAML of the judge ``minicheck``, a tiny RoBERTa.

    Keyword arguments change keys of the YAML, as in ``write_classifier(threshold=0.4)``.
    """

    def write(**changes: Any) -> Path:
        keys = {"backend": "classifier", "model": str(model_folders["roberta"]), "device": "cpu"}
        return write_judge("minicheck", **{**keys, **changes})

    return write


@pytest.fixture
def set_probabilities(monkeypatch) -> Callable[[dict[str, float]], None]:
    """Return a function that says which probability of support a classifier gives to each claim."""

    def replace_model(probability_by_claim: dict[str, float]) -> None:
        def support(self: SupportModel, pairs: list[EntailmentPair]) -> list[WindowSupport]:
            return [WindowSupport(probability_by_claim[pair.claim], 1) for pair in pairs]

        monkeypatch.setattr(SupportModel, "support", support)

    return replace_model
