"""lm_eval model ``hf-prefix-free``: a language model that is not shown the prefix.

What it still gets right, a benchmark gives away without its documents: by common knowledge, or by how likely a sentence
sounds on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance

from lm_factuality.harness import requests as request_types
from lm_factuality.models.hf_tree import Answer, HFTree


class HFPrefixFree(HFTree):
    """``hf-tree`` with an empty context in the place of every request's own; texts without one are scored as they are."""

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        answers: list[Answer] = super().loglikelihood(list(map(_without_context, requests)), disable_tqdm=disable_tqdm)
        return answers

    def scored_loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Any]:
        """The suite's request type, as ``harness.requests`` adds it to other models."""
        return request_types.scored_loglikelihood(self, list(map(_without_context, requests)), disable_tqdm)


def _without_context(request: Instance) -> Instance:
    arguments = ("", *request.args[1:])
    return Instance(request.request_type, request.doc, arguments, request.idx, request.metadata)
