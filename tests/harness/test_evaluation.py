"""What surrounds an evaluation of lm_eval is taken away when it ends."""

from __future__ import annotations

import pytest
from lm_eval import evaluator

from lm_factuality.harness import evaluation


def test_a_run_that_fails_leaves_the_model_as_it_was(monkeypatch):
    def fail(lm):
        assert "answers_until" in vars(lm)
        raise RuntimeError

    monkeypatch.setattr(evaluator, "evaluate", fail)
    evaluation.install()
    evaluation.install()  # twice does no harm
    model = type("Model", (), {})()
    with pytest.raises(RuntimeError):
        evaluator.evaluate(model)
    assert vars(model) == {}
