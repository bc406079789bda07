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
def felm_tasks(tmp_path):
    """Return a folder with four tasks on the sample's rows.

    "one" and "same" ask the same, "shorter" asks for fewer tokens, and "sampled" samples three
    answers.
    """
    settings_by_task = {
        "one": {},
        "same": {},
        "shorter": {"generation_kwargs": {**GREEDY, "max_gen_toks": 3}},
        "sampled": {
            "generation_kwargs": {**GREEDY, "do_sample": True, "temperature": 0.9},
            "repeats": 3,
        },
    }
    for name, settings in settings_by_task.items():
        content = {
            "include": str(TASKS / "felm" / "_felm.yaml"),
            "task": name,
            "dataset_path": str(TASKS / "sample" / "sample_felm.jsonl"),
            "generation_kwargs": GREEDY,
            "metadata": {"mode": "vanilla", "unit": "segment"},
            **settings,
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return tmp_path


@pytest.fixture
def lm(checkpoint):
    """Return a real model."""
    return HFLM(pretrained=str(checkpoint), device="cpu", batch_size=4)


@pytest.fixture
def asked(monkeypatch):
    """Return the list of the arguments of every request for text that reaches the model."""
    recorded_arguments = []
    generate = HFLM.generate_until

    def record_and_generate(self, requests, **options):
        recorded_arguments.extend(request.args for request in requests)
        return generate(self, requests, **options)

    monkeypatch.setattr(HFLM, "generate_until", record_and_generate)
    return recorded_arguments


def responses_by_task(output):
    """Return the requests and the responses of each sample, by task."""
    keys = ("arguments", "resps", "filtered_resps")
    responses = {}
    for task, samples in output["samples"].items():
        responses[task] = [[sample[key] for key in keys] for sample in samples]
    return responses


@pytest.fixture
def evaluator_log(caplog):
    """Return the log with the messages of lm_eval's evaluator.

    Its logger does not pass messages on, so pytest would miss them.
    """
    logger = logging.getLogger("lm_eval.evaluator")
    logger.addHandler(caplog.handler)
    # Unlike an assignment to `level`, this also clears what loggers remember of their levels.
    with caplog.at_level(logging.INFO, logger.name):
        yield caplog
    logger.removeHandler(caplog.handler)


TASK_NAMES = ["one", "same", "shorter"]


def test_request_shared_by_two_tasks_is_sent_once(felm_tasks, lm, asked, evaluate, evaluator_log):
    """The tasks "one" and "same" have equal requests, and "shorter" asks for fewer tokens."""
    evaluate(lm, ["one", "same", "shorter"], felm_tasks, limit=6)

    report = "6 of 18 greedy requests for text repeat another, and are asked once"
    assert len(asked) == 2 * 6
    assert report in evaluator_log.text
    assert "generate_until" not in vars(lm)  # the model is left as it was


def test_sending_shared_requests_once_changes_no_result(
    felm_tasks, lm, asked, evaluate, monkeypatch
):
    """A second run, which asks for every request of each task, has the same responses."""
    output = evaluate(lm, TASK_NAMES, felm_tasks, limit=LIMIT)
    monkeypatch.setattr(evaluation, "ask_once", lambda generate, requests: generate(requests))
    asked.clear()

    plain_output = evaluate(lm, TASK_NAMES, felm_tasks, limit=LIMIT)

    assert len(asked) == 3 * LIMIT
    assert responses_by_task(output) == responses_by_task(plain_output)
    assert output["results"] == plain_output["results"]


def test_tasks_with_different_token_limits_get_separate_responses(felm_tasks, lm, evaluate):
    """A shorter limit cuts the text, so the answer to another task cannot stand in for it."""
    output = evaluate(lm, TASK_NAMES, felm_tasks, limit=LIMIT)

    responses = [sample["resps"] for sample in output["samples"]["one"]]
    shorter_responses = [sample["resps"] for sample in output["samples"]["shorter"]]
    assert responses != shorter_responses


def test_every_sampled_answer_is_requested(felm_tasks, lm, asked, evaluate):
    """Samples of one request differ, so each of two rows is asked for its three samples."""
    evaluate(lm, ["sampled"], felm_tasks, limit=2)

    assert len(asked) == 2 * 3


@pytest.mark.parametrize(
    ("arguments", "asked_count"),
    [
        pytest.param([("a", GREEDY), ("a", dict(reversed(GREEDY.items())))], 1, id="same"),
        pytest.param([("a", GREEDY), ("b", GREEDY)], 2, id="other prompt"),
        pytest.param([("a", GREEDY), ("a", {**GREEDY, "until": ["."]})], 2, id="other stop"),
        pytest.param([("a", {}), ("a", {})], 1, id="no settings"),
        pytest.param([("a", {"temperature": 0.7})] * 2, 2, id="temperature"),
        # Servers sample all the same.
        pytest.param(
            [("a", {"do_sample": False, "temperature": 0.7})] * 2, 2, id="temperature, no sampling"
        ),
        pytest.param([("a", {"do_sample": True})] * 2, 2, id="sampling"),
        pytest.param([("a", GREEDY, {"visual": ["an image"]})] * 2, 2, id="image"),
        pytest.param([], 0, id="none"),
    ],
)
def test_identical_greedy_requests_are_sent_once(arguments, asked_count):
    """An image is no part of the text by which requests are compared."""
    asked = []

    def generate(requests):
        asked.extend(requests)
        return [f"answer to {request.args[0]}" for request in requests]

    requests = [Instance("generate_until", {}, args, 0) for args in arguments]

    answers = evaluation.ask_once(generate, requests)

    assert len(asked) == asked_count
    assert answers == [f"answer to {prompt}" for prompt, *_ in arguments]


class ModelOfTwoProcesses:
    """A model whose two processes must receive the same number of requests."""

    world_size = 2

    def generate_until(self, requests):
        return requests


IndependentModel = type("HFLM", (ModelOfTwoProcesses,), {})
"""A model of two processes by the name of lm_eval's class, whose processes work independently."""


@pytest.mark.parametrize(
    ("model_class", "is_wrapped"),
    [
        pytest.param(ModelOfTwoProcesses, False, id="processes in step"),
        pytest.param(IndependentModel, True, id="independent processes"),
    ],
)
def test_synchronised_processes_send_duplicate_requests(model_class, is_wrapped, monkeypatch):
    """If processes wait for each other, one with fewer requests would wait for ever."""
    was_wrapped = []

    def record_whether_wrapped(lm, **options):
        was_wrapped.append("generate_until" in vars(lm))

    monkeypatch.setattr(evaluator, "evaluate", record_whether_wrapped)
    evaluation.extend_evaluate()

    evaluator.evaluate(model_class(), task_dict={})

    assert was_wrapped == [is_wrapped]


class Model:
    """A model that answers nothing."""

    def generate_until(self, requests):
        return []


def test_failed_run_restores_the_model(monkeypatch):
    """During a run, the suite replaces a method of the model, which a program may use again."""

    def fail(lm):
        raise RuntimeError("the run failed")

    monkeypatch.setattr(evaluator, "evaluate", fail)
    evaluation.extend_evaluate()
    evaluation.extend_evaluate()  # a program may start several runs, each of which extends it
    model = Model()

    with pytest.raises(RuntimeError, match="the run failed"):
        evaluator.evaluate(model)

    assert "generate_until" not in vars(model)
