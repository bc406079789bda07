"""Options of the suite's models beside settings of its tasks, into whose metadata lm_eval merges
``--model_args``."""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points

import pytest

from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.models.hf_decoding import HFDecoding
from lm_factuality.models.hf_ralm import HFRALM, Retrieval

POINTS = [
    each for each in entry_points(group="lm_eval.models") if each.value.startswith("lm_factuality.")
]
SETTINGS = {name for benchmark in all_benchmarks() for name in benchmark.data.settings}


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_no_option_of_a_model_is_a_setting_of_a_task(point):
    model = point.load()
    options = {
        each for base in model.__mro__ for each in inspect.signature(base.__init__).parameters
    }
    if issubclass(model, HFDecoding):
        options |= set(model.settings_class.model_fields)
    if model is HFRALM:
        options |= set(Retrieval.model_fields)
    assert {"protocol", "window", "stride"} <= SETTINGS
    assert not options & SETTINGS
