"""lm_eval models ``hf-tree``: ``hf`` with each distinct token position computed once;
``hf-prefix-free``: without prefixes."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from lm_factuality.ground.errors import ModelError
from lm_factuality.harness import requests as request_types
from lm_factuality.harness.internals import internal, lacks
from lm_factuality.models.tree.cached import Rescore
from lm_factuality.models.tree.forest import Forest, plant
from lm_factuality.models.tree.scorer import (
    Budget,
    Engine,
    Scores,
    choose_engine,
    score,
    score_side_by_side,
)

logger = logging.getLogger(__name__)

TokenRequest = tuple[tuple[str, str] | None, list[int], list[int]]
Answer = tuple[float, bool]

_AUTO_TOKENS, _AUTO_TOKENS_OF_ACCELERATORS = (
    4096,
    65536,
)  # of a forward pass to begin with under batch_size=auto
_MIN_TARGETS = 512  # positions that may need logits in any forward pass, and ...
_SHARE_OF_TARGETS = 8  # ... one of so many in a large one; on accelerators, as many as have ...
_LOGITS_OF_ACCELERATORS = 1 << 30  # ... so many logits


class HFTree(HFLM):  # type: ignore[misc]
    """HFLM with its options and its scores; log-likelihood requests are computed as a forest of
    tokens. ``batch_size`` is, as in HFLM, the number of inputs as long as the longest that a
    forward pass may hold; it is filled with distinct tokens. With ``auto`` a pass begins large and
    is halved when memory runs out, as it is under any batch size. Models whose positions cannot be
    shared (state-space, hybrid, encoder-decoder) are scored as HFLM does, with one warning."""

    name = "hf-tree"

    @functools.cached_property
    def engine(self) -> Engine | None:
        """How the forest is computed; None if HFLM has to do it. Found out by a trial on first
        use."""
        for name in ("softmax_dtype", "mixed_precision_dtype"):
            if not hasattr(self, name):
                raise lacks(f"lm_eval.models.huggingface:HFLM.{name}")
        found = None
        if self.backend == "causal":
            with self._forward_context():
                found = self.find_engine(int(self.model.get_input_embeddings().weight.shape[0]))
        if found is None:
            said = (
                "%s: %s cannot share positions between requests; every request is computed by"
                " itself, as hf does"
            )
            logger.warning(said, self.name, type(self.model).__name__)
        else:
            logger.info("%s: %s forward passes", self.name, found.name)
        return found

    def _rescore(self) -> Rescore | None:
        return None  # as the model says it, not contrasted with anything

    def find_engine(self, vocabulary: int) -> Engine | None:
        """An engine that the model can be trusted with, if there is one; ``vocabulary`` is what
        trials draw from."""
        return choose_engine(self.model, vocabulary, self.max_length)

    def _loglikelihood_tokens(
        self,
        requests: Sequence[TokenRequest],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Answer]:
        if self.engine is None:
            answers: list[Answer] = super()._loglikelihood_tokens(
                requests, disable_tqdm=disable_tqdm, override_bs=override_bs
            )
            return answers
        forest = plant(*self._fit(requests))
        with self._progress(forest, disable_tqdm) as progress:
            found = score_side_by_side(
                forest, self.engine, self._budget(forest), self._score, self._cores(), progress
            )
        answers = [
            (float(found.logprobs[targets].sum()), bool(found.greedy[targets].all()))
            for targets in forest.answers
        ]
        for (key, _, _), answer in zip(requests, answers, strict=True):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answer)
        return answers

    def _score(
        self,
        forest: Forest,
        engine: Engine,
        budget: Budget,
        progress: Callable[[int], Any] = lambda position: None,
    ) -> Scores:
        with self._forward_context():
            return score(forest, engine, budget, self.softmax_dtype, progress, self._rescore())

    def _cores(self) -> int:
        return torch.get_num_threads() if self.device.type == "cpu" else 1

    def _fit(self, requests: Sequence[TokenRequest]) -> tuple[list[list[int]], list[int]]:
        """Token sequences, cut from the left as in HFLM where they do not fit, and how many last
        tokens are asked for."""
        sequences = [[*context, *continuation] for _, context, continuation in requests]
        for _, context, continuation in requests:
            if not context or not continuation or len(continuation) > self.max_length:
                raise ValueError(
                    f"a request has {len(context)} tokens of context and {len(continuation)} of"
                    f" continuation, expected at least one of each and at most {self.max_length} of"
                    " continuation"
                )
        too_long = sum(len(sequence) > self.max_length + 1 for sequence in sequences)
        if too_long:
            said = (
                "%d of %d requests are longer than the model's %d tokens and lose their beginning"
            )
            logger.warning(said, too_long, len(sequences), self.max_length)
        num_targets = [len(continuation) for _, _, continuation in requests]
        return [sequence[-(self.max_length + 1) :] for sequence in sequences], num_targets

    def _budget(self, forest: Forest) -> Budget:
        auto = _AUTO_TOKENS if self.device.type == "cpu" else _AUTO_TOKENS_OF_ACCELERATORS
        longest = int(forest.depth.max(initial=0)) + 1
        tokens = auto if self.batch_size == "auto" else int(self.batch_size) * longest
        targets = tokens // _SHARE_OF_TARGETS
        if self.device.type != "cpu":
            targets = _LOGITS_OF_ACCELERATORS // int(
                self.model.get_input_embeddings().weight.shape[0]
            )
        return Budget(tokens, max(_MIN_TARGETS, targets))

    @contextlib.contextmanager
    def _forward_context(self) -> Iterator[None]:
        precision = self.mixed_precision_dtype
        with (
            torch.inference_mode(),
            torch.autocast(self.device.type, dtype=precision, enabled=precision is not None),
        ):
            yield

    @contextlib.contextmanager
    def _progress(self, forest: Forest, disable_tqdm: bool) -> Iterator[Any]:
        """A bar that counts requests: each is done when the last of its targets is."""
        last = np.sort([forest.target_positions[targets].max() for targets in forest.answers])
        with tqdm(
            total=len(last),
            desc="Running loglikelihood requests",
            disable=disable_tqdm or self.rank != 0,
        ) as bar:
            yield lambda position: bar.update(int(np.searchsorted(last, position)) - bar.n)

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """As HFLM, with the windows of all texts in one forest: the sum of each text's
        log-probabilities, in nats."""
        if self.engine is None:
            totals: list[float] = super().loglikelihood_rolling(requests, disable_tqdm=disable_tqdm)
            return totals
        return self._roll(
            requests, lambda windows, _: self._loglikelihood_tokens(windows, disable_tqdm)
        )

    def _roll(
        self,
        requests: Sequence[Instance],
        score_windows: Callable[[list[TokenRequest], list[Instance]], list[Answer]],
    ) -> list[float]:
        """Sums over each text's windows, of which ``score_windows`` is given all, with the request
        that each belongs to."""
        windows: list[TokenRequest] = []
        owners: list[int] = []
        for index, request in enumerate(requests):
            for window in internal("lm_eval.utils:get_rolling_token_windows")(
                token_list=self.tok_encode(request.args[0]),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            ):
                windows.append((None, *internal("lm_eval.utils:make_disjoint_window")(window)))
                owners.append(index)
        totals = [0.0] * len(requests)
        for owner, (logprob, _) in zip(
            owners, score_windows(windows, [requests[o] for o in owners]), strict=True
        ):
            totals[owner] += logprob
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals


class HFPrefixFree(HFTree):
    """``hf-tree`` with an empty context in the place of every request's own; texts without one are
    scored as they are. What it still gets right, a benchmark gives away without its documents: by
    common knowledge, or by how likely a sentence sounds."""

    name = "hf-prefix-free"

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Answer]:
        answers: list[Answer] = super().loglikelihood(
            list(map(_without_context, requests)), disable_tqdm=disable_tqdm
        )
        return answers

    def scored_loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Any]:
        """The suite's request type, as ``harness.requests`` adds it to other models."""
        return request_types.scored_loglikelihood(
            self, list(map(_without_context, requests)), disable_tqdm
        )

    def word_answers(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Any]:
        """Raises ModelError: always: the context of a question is the question."""
        raise ModelError(
            "hf-prefix-free answers no questions, which are all in the context that it leaves out;"
            " use hf-tree"
        )


def _without_context(request: Instance) -> Instance:
    arguments = ("", *request.args[1:])
    return Instance(request.request_type, request.doc, arguments, request.idx, request.metadata)
