"""vLLM's prefix cache is tried before log-probabilities are taken from it; a model of that name
stands in, with a cache of blocks."""

from __future__ import annotations

from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM

from lm_factuality.ground.errors import ModelError
from lm_factuality.harness import requests
from tests.conftest import example_row

BLOCK = 16
ROWS = [
    example_row(doc_id=str(number), turncated_prefixes=f"{number} " + "word " * 40)
    for number in range(4)
]


class VLLM(HFLM):
    """Whole blocks that an earlier prompt began with are in its cache; ``stale`` gives their
    positions a log-probability of ``held``, which the buffer happened to hold."""

    def __init__(
        self, *arguments: Any, stale: bool, held: float | None = 0.0, **options: Any
    ) -> None:
        super().__init__(*arguments, logits_cache=False, **options)
        self.model_args: dict[str, Any] = {}
        self.data_parallel_size = 1
        self.calls = 0
        self._stale, self._held, self._seen = stale, held, set()

    def _loglikelihood_tokens(self, given, disable_tqdm=False, **options):
        answers = []
        for key, context, continuation in given:
            self.calls += 1
            tokens = [*context, *continuation]
            cached = 0
            while (
                self._stale
                and tuple(tokens[: cached + BLOCK]) in self._seen
                and cached + BLOCK < len(tokens)
            ):
                cached += BLOCK
            self._seen |= {tuple(tokens[:end]) for end in range(BLOCK, len(tokens) + 1, BLOCK)}
            begin = max(len(context), cached)
            ((logprob, greedy),) = super()._loglikelihood_tokens(
                [(key, tokens[:begin], tokens[begin:])], disable_tqdm=True
            )
            for _ in range(begin - len(context)):
                logprob += self._held
            answers.append((logprob, greedy))
        return answers


@pytest.fixture
def score(checkpoint, write_rows, factor_yaml, evaluate, tmp_path):
    """Runs the rows through the stand-in; gives it and the results."""
    write_rows(ROWS)
    factor_yaml("t", dataset_path="rows.jsonl")

    def run(stale: bool, held: float | None = 0.0, parallel: int = 1, **model_args: Any):
        model = VLLM(
            pretrained=str(checkpoint), device="cpu", dtype="float32", stale=stale, held=held
        )
        model.model_args, model.data_parallel_size = model_args, parallel
        return model, evaluate(model, ["t"], tmp_path)["results"]["t"]

    return run


@pytest.mark.parametrize("held", [0.0, -7.0, float("nan")])
def test_a_cache_that_changes_log_probabilities_is_refused(score, held):
    with pytest.raises(
        ModelError, match=r"prompt of \d+ tokens has -\d.*enable_prefix_caching=False"
    ):
        score(stale=True, held=held)


def test_a_cache_without_log_probabilities_is_refused(score):
    with pytest.raises(
        ModelError,
        match=r"no log-probabilities of positions in its prefix cache.*enable_prefix_caching=False",
    ):
        score(stale=True, held=None)


def test_a_cache_that_is_left_aside_is_used(score):
    model, results = score(stale=False)
    assert results["unscored,none"] == 0
    assert model.calls == 4 * len(ROWS) + 2 * 3  # three prompts, asked for twice


def test_what_earlier_requests_left_in_the_cache_is_forgotten_first(score, monkeypatch):
    model, _ = score(stale=True, enable_prefix_caching=False)
    model.model_args.clear()
    prompt = list(range(5, 90))
    model.model.reset_prefix_cache = model._seen.clear
    model._loglikelihood_tokens([(None, prompt[:1], prompt[1:])])
    with pytest.raises(ModelError, match="prefix cache"):
        requests.score(model, [requests.Encoded(("", ""), prompt[:1], prompt[1:], False)], True)


def test_without_a_cache_nothing_is_tried(score):
    assert score(stale=True, enable_prefix_caching=False)[0].calls == 4 * len(ROWS)


def test_replicas_are_started_without_a_cache(score):
    model, _ = score(stale=False, parallel=2)
    assert model.model_args == {"enable_prefix_caching": False}
    assert model.calls == 4 * len(ROWS)
