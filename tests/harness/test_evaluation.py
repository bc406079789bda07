"""Identical greedy requests are asked of a model once in a run, through the real lm_eval."""

from __future__ import annotations

import logging

import pytest
import yaml
from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from lm_factuality.harness import evaluation
from tests.conftest import TASKS

LIMIT = 6
GREEDY = {"do_sample": False, "until": ["\n"], "max_gen_toks": 5}


@pytest.fixture
def felm(tmp_path):
    """Tasks of one's own on the sample's rows: two that ask the same, one with other limits, one
    that samples."""
    changes = {
        "one": {},
        "same": {},
        "shorter": {"max_gen_toks": 3},
        "sampled": {"do_sample": True, "temperature": 0.9},
    }
    for name, change in changes.items():
        content = {
            "include": str(TASKS / "felm" / "_felm.yaml"),
            "task": name,
            "dataset_path": str(TASKS / "sample" / "sample_felm.jsonl"),
            "generation_kwargs": {**GREEDY, **change},
            "metadata": {"mode": "vanilla", "unit": "segment"},
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return tmp_path


@pytest.fixture
def model(checkpoint, monkeypatch):
    """A real model, and ``asked``, the arguments of every request that reaches it."""
    lm, asked = HFLM(pretrained=str(checkpoint), device="cpu", batch_size=4), []
    generate = HFLM.generate_until

    def counting(self, requests, **options):
        asked.extend(request.args for request in requests)
        return generate(self, requests, **options)

    monkeypatch.setattr(HFLM, "generate_until", counting)
    return lm, asked


def written(results):
    return {
        task: [(each["arguments"], each["resps"], each["filtered_resps"]) for each in samples]
        for task, samples in results["samples"].items()
    }


def test_tasks_that_ask_the_same_are_answered_together(felm, model, evaluate, monkeypatch, caplog):
    lm, asked = model
    logger = logging.getLogger("lm_eval.evaluator")
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.addHandler(caplog.handler)
    try:
        found = evaluate(lm, ["one", "same", "shorter"], felm, limit=LIMIT)
    finally:
        logger.removeHandler(caplog.handler)
    assert len(asked) == 2 * LIMIT
    assert "6 of 18 greedy requests for text repeat another, and are asked once" in caplog.text
    assert "generate_until" not in vars(lm)  # as it was
    monkeypatch.setattr(evaluation, "ask_once", lambda generate, requests: generate(requests))
    asked.clear()
    alone = evaluate(lm, ["one", "same", "shorter"], felm, limit=LIMIT)
    assert len(asked) == 3 * LIMIT
    assert written(found) == written(alone)
    assert found["results"] == alone["results"]
    assert any(
        each[1] != other[1]
        for each, other in zip(written(found)["one"], written(found)["shorter"], strict=True)
    )


def test_what_is_sampled_is_asked_each_time(felm, model, evaluate):
    lm, asked = model
    content = yaml.safe_load((felm / "sampled.yaml").read_text())
    (felm / "sampled.yaml").write_text(yaml.safe_dump({**content, "repeats": 3}))
    evaluate(lm, ["sampled"], felm, limit=2)
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([("a", GREEDY), ("a", dict(reversed(GREEDY.items())))], 1),
        ([("a", GREEDY), ("b", GREEDY)], 2),
        ([("a", GREEDY), ("a", {**GREEDY, "until": ["."]})], 2),
        ([("a", {}), ("a", {})], 1),
        ([("a", {"temperature": 0.7})] * 2, 2),
        ([("a", {"do_sample": False, "temperature": 0.7})] * 2, 2),  # servers sample all the same
        ([("a", {"do_sample": True})] * 2, 2),
        ([("a", GREEDY, {"visual": ["an image"]})] * 2, 2),
        ([], 0),
    ],
)
def test_which_requests_are_identical(arguments, count):
    asked = []

    def generate(requests):
        asked.extend(requests)
        return [f"{number}: {request.args[0]}" for number, request in enumerate(requests)]

    answers = evaluation.ask_once(
        generate, [Instance("generate_until", {}, each, 0) for each in arguments]
    )
    assert len(asked) == count
    assert [each.partition(": ")[2] for each in answers] == [each[0] for each in arguments]


class Sharded:
    """A model of two processes that work in step."""

    world_size = 2

    def generate_until(self, requests):
        return requests


@pytest.mark.parametrize(
    ("base", "is_wrapped"), [(Sharded, False), (type("HFLM", (Sharded,), {}), True)]
)
def test_processes_that_work_in_step_are_left_alone(base, is_wrapped, monkeypatch):
    seen = []
    monkeypatch.setattr(
        evaluator, "evaluate", lambda lm, **options: seen.append("generate_until" in vars(lm))
    )
    evaluation.extend_evaluate()
    evaluator.evaluate(base(), task_dict={})
    assert seen == [is_wrapped]


def test_a_run_that_fails_leaves_the_model_as_it_was(monkeypatch):
    def fail(lm):
        raise RuntimeError

    monkeypatch.setattr(evaluator, "evaluate", fail)
    evaluation.extend_evaluate()
    evaluation.extend_evaluate()  # twice does no harm
    model = type("Model", (), {"generate_until": lambda self, requests: []})()
    with pytest.raises(RuntimeError):
        evaluator.evaluate(model)
    assert "generate_until" not in vars(model)
