"""lm_eval models ``hf-tree`` and ``hf-prefix-free``.

``hf-tree`` gives ``hf``'s scores and computes each distinct token position once.
``hf-prefix-free`` does so without prefixes. `hf_ralm` and `hf_decoding` build on ``hf-tree``.
"""

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.harness import requests as request_types
from lm_factuality.harness.internals import internal
from lm_factuality.models.tree.forest import Forest, plant
from lm_factuality.models.tree.logits import Rescore
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import (
    PassBudget,
    TargetScores,
    find_engine,
    score,
    score_side_by_side,
)

logger = logging.getLogger(__name__)

TokenRequest = tuple[tuple[str, str] | None, list[int], list[int]]
"""(key in lm_eval's response cache, context, continuation) in tokens."""

Answer = tuple[float, bool]
"""A log-likelihood in nats, and whether the continuation is what the model would say."""

# Tokens of the first forward pass under batch_size=auto.
_AUTO_TOKENS = 4096
_AUTO_TOKENS_OF_ACCELERATORS = 65536
# At least so many positions may need logits in a forward pass, and in a large pass one of so many.
_MIN_TARGETS = 512
_SHARE_OF_TARGETS = 8
# On accelerators, as many positions may need logits as have so many logits together.
_LOGITS_OF_ACCELERATORS = 1 << 30


class HFTree(HFLM):  # type: ignore[misc]
    """HFLM whose log-likelihood requests are computed as a forest of tokens.

    Options and scores are those of HFLM. ``batch_size`` is, as in HFLM, the number of inputs as
    long as the longest that a forward pass may hold, but a pass is filled with distinct tokens.
    With ``auto`` a pass begins large. With any batch size it is halved when memory runs out. Models
    whose positions cannot be shared (state-space, hybrid, encoder-decoder, or with an attention of
    their own, as GPT-Neo) are scored as HFLM does, with one warning.
    """

    name = "hf-tree"

    @functools.cached_property
    def engine(self) -> PackedEngine | None:
        """What computes the forest, after a trial on first use. None if HFLM has to do it."""
        engine = None
        if self.backend == "causal":
            with self._forward_context():
                engine = self.find_engine(len(self.model.get_input_embeddings().weight))
        if engine is None:
            logger.warning(
                "%s: %s cannot share positions between requests; every request is computed by"
                " itself, as hf does",
                self.name,
                type(self.model).__name__,
            )
        return engine

    def require_decoder(self) -> None:
        """Refuse a model whose next tokens do not follow from the tokens before."""
        if self.backend != "causal":
            raise ConfigError(
                f"{self.name}: {type(self.model).__name__} is not a decoder; expected a model such"
                " as Llama or GPT-2"
            )

    def find_engine(self, vocabulary: int) -> PackedEngine | None:
        """Return an engine that the model can be trusted with, tried with so many tokens."""
        return find_engine(self.model, vocabulary, self.max_length)

    def _rescore(self) -> Rescore | None:
        """Return how logits become log-probabilities. None is the softmax."""
        return None

    def _cores(self) -> int:
        """Return how many trees may be computed side by side."""
        return torch.get_num_threads() if self.device.type == "cpu" else 1

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
        num_targets = [len(continuation) for _, _, continuation in requests]
        forest = plant(self._fit(requests), num_targets)
        with tqdm(
            total=len(forest),
            desc="Running loglikelihood requests",
            unit=" tokens",
            disable=disable_tqdm or self.rank != 0,
        ) as bar:

            def score_part(part: Forest, engine: PackedEngine, budget: PassBudget) -> TargetScores:
                with self._forward_context():
                    return score(
                        part, engine, budget, self.softmax_dtype, self._rescore(), bar.update
                    )

            budget = self._budget(forest)
            scores = score_side_by_side(forest, self.engine, budget, score_part, self._cores())
        answers = []
        for targets in forest.answers:
            logprob = float(scores.logprobs[targets].sum())
            answers.append((logprob, bool(scores.greedy[targets].all())))
        self._keep_answers(requests, answers)
        return answers

    def _keep_answers(self, requests: Sequence[TokenRequest], answers: Sequence[Answer]) -> None:
        """Put answers into lm_eval's response cache."""
        for (key, _, _), answer in zip(requests, answers, strict=True):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answer)

    def _fit(self, requests: Sequence[TokenRequest]) -> list[list[int]]:
        """Return token sequences, cut from the left as in HFLM where they do not fit."""
        most = self.max_length + 1
        sequences = []
        num_too_long = 0
        for _, context, continuation in requests:
            if not context or not continuation or len(continuation) > self.max_length:
                raise ValueError(
                    f"a request has {len(context)} tokens of context and {len(continuation)} of"
                    f" continuation, expected at least one of each and at most {self.max_length} of"
                    " continuation"
                )
            sequence = [*context, *continuation]
            num_too_long += len(sequence) > most
            sequences.append(sequence[-most:])
        if num_too_long:
            logger.warning(
                "%d of %d requests are longer than the model's %d tokens and lose their beginning",
                num_too_long,
                len(sequences),
                self.max_length,
            )
        return sequences

    def _budget(self, forest: Forest) -> PassBudget:
        is_cpu = self.device.type == "cpu"
        if self.batch_size == "auto":
            tokens = _AUTO_TOKENS if is_cpu else _AUTO_TOKENS_OF_ACCELERATORS
        else:
            longest = int(forest.depth.max(initial=0)) + 1
            tokens = int(self.batch_size) * longest
        vocabulary = len(self.model.get_input_embeddings().weight)
        targets = tokens // _SHARE_OF_TARGETS if is_cpu else _LOGITS_OF_ACCELERATORS // vocabulary
        return PassBudget(tokens, max(_MIN_TARGETS, targets))

    @contextlib.contextmanager
    def _forward_context(self) -> Iterator[None]:
        dtype = self.mixed_precision_dtype
        autocast = torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)
        with torch.inference_mode(), autocast:
            yield

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Return the sum of each text's log-probabilities, in nats, in HFLM's windows."""
        cut = internal("lm_eval.utils:get_rolling_token_windows")
        make_disjoint = internal("lm_eval.utils:make_disjoint_window")
        windows: list[TokenRequest] = []
        owners: list[int] = []
        for number, request in enumerate(requests):
            tokens = self.tok_encode(request.args[0])
            for window in cut(tokens, self.prefix_token_id, self.max_length, context_len=1):
                windows.append((None, *make_disjoint(window)))
                owners.append(number)
        totals = [0.0] * len(requests)
        answers = self._score_windows(windows, [requests[owner] for owner in owners], disable_tqdm)
        for owner, (logprob, _) in zip(owners, answers, strict=True):
            totals[owner] += logprob
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def _score_windows(
        self, windows: Sequence[TokenRequest], sources: Sequence[Instance], disable_tqdm: bool
    ) -> list[Answer]:
        """Score windows of texts.

        Args:
            sources: The text that each window belongs to.
        """
        return self._loglikelihood_tokens(windows, disable_tqdm)


class HFPrefixFree(HFTree):
    """``hf-tree`` with an empty context in the place of every request's own.

    What it still gets right, a benchmark gives away without its documents: by common knowledge, or
    by how likely a sentence sounds. Texts without a context are scored as they are.
    """

    name = "hf-prefix-free"

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Answer]:
        """Score lm_eval's requests without their contexts."""
        without = list(map(_without_context, requests))
        answers: list[Answer] = super().loglikelihood(without, disable_tqdm=disable_tqdm)
        return answers

    def scored_loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Any]:
        """Score the suite's requests, as `harness.requests` does, without their contexts."""
        without = list(map(_without_context, requests))
        return request_types.scored_loglikelihood(self, without, disable_tqdm)

    def word_answers(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Any]:
        """Refuse questions.

        Raises:
            ModelError: Always, because the context of a question is the question.
        """
        raise ModelError(
            "hf-prefix-free answers no questions, which are all in the context that it leaves out;"
            " use hf-tree"
        )


def _without_context(request: Instance) -> Instance:
    arguments = ("", *request.args[1:])
    return Instance(request.request_type, request.doc, arguments, request.idx, request.metadata)
