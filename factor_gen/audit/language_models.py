"""A causal language model as a baseline, shown each choice without its prefix, and with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factor_gen.audit.records import BLIND_LM, SEES_PREFIX, Scores
from lm_factuality.benchmarks.factor.corpus import PAPER_WINDOW
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.benchmarks.factor.scoring import join, score_row
from lm_factuality.ground.packages import loading

WITHOUT, WITH = "LM without prefix", "LM with prefix"


def lm_scores(rows: Sequence[Row], model: str, device: str | None = None) -> list[Scores]:
    """Mean log-probability per token (equation 1) of each choice by the causal model ``model``, without prefix and with it.

    As the suite's tasks score it: windows of 1,024 tokens or what the model takes, whose beginnings are cut; without prefix as
    ``hf-prefix-free`` does. A row that cannot be scored is None.

    Raises:
        ModelError: there is no such model.
    """
    from lm_eval.api.instance import Instance

    from lm_factuality.harness.requests import REQUEST_TYPE, scored_loglikelihood

    lm = _load(model, device)
    instances = []
    for row in rows:
        for index, choice in enumerate(row.choices):
            context, continuation = join(row.prefix, choice)
            instances += [Instance(REQUEST_TYPE, {}, (shown, continuation, PAPER_WINDOW), index) for shown in ("", context)]
    answers = scored_loglikelihood(lm, instances)
    found = []
    for name, family, its_answers in ((WITHOUT, BLIND_LM, iter(answers[::2])), (WITH, SEES_PREFIX, iter(answers[1::2]))):
        values: list[Sequence[float] | None] = []
        for row in rows:
            scores = [next(its_answers) for _ in row.choices]
            means = score_row(scores, row.choices, row.gold, row.problem).mean_logprob
            values.append(None if None in means else [mean for mean in means if mean is not None])
        found.append(Scores(f"{name} ({model})", family, values))
    return found


def _load(model: str, device: str | None) -> Any:
    import torch

    from lm_factuality.models.hf_tree import HFTree

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    with loading(f"the language model {model!r}"):
        return HFTree(pretrained=model, batch_size="auto", device=device)
