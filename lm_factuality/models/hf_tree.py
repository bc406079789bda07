"""lm_eval models ``hf-tree`` and ``hf-prefix-free``.

``hf-tree`` gives ``hf``'s scores and computes each distinct token position once.
``hf-prefix-free`` does so without prefixes. `hf_ralm` and `hf_decoding` build on ``hf-tree``.
"""

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tqdm.auto import tqdm

from lm_factuality.ground.errors import ConfigError, ModelError
from lm_factuality.ground.settings import Strict, read_settings
from lm_factuality.harness import requests as request_types
from lm_factuality.harness.internals import lm_eval_part
from lm_factuality.models.tree.logits import Rescore, TargetScores
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import (
    PassBudget,
    build_tested_engine,
    score_in_threads,
    score_trie,
)
from lm_factuality.models.tree.trie import TokenTrie, build_trie

logger = logging.getLogger(__name__)

TokenRequest = tuple[tuple[str, str] | None, list[int], list[int]]
"""A key of lm_eval's, which is not used, then context and continuation as token ids."""

Answer = tuple[float, bool]
"""A log-likelihood in nats, and whether greedy decoding would generate the continuation."""

# Tokens of the first forward pass under batch_size=auto.
_AUTO_TOKENS = 4096
_AUTO_TOKENS_OF_ACCELERATORS = 65536
# Answers are kept after so many passes. Each time, what later requests share is computed again.
_PASSES_PER_BATCH = 8
# Requests of one document begin with so many equal tokens.
_TOKENS_OF_DOCUMENT = 32
# On a CPU, one of so many positions may need logits. In most tasks, fewer tokens are scored.
_TOKENS_PER_TARGET = 8
# On accelerators, all positions of a pass together may need so many logits (4 GiB in float32).
_MAX_LOGITS_OF_ACCELERATORS = 1 << 30
# At least so many positions of a pass may need logits, so that passes do not become too small.
_MIN_TARGETS = 512


Settings = TypeVar("Settings", bound=Strict)


class HFTree(HFLM):  # type: ignore[misc]
    """HFLM whose log-likelihood requests are computed as one trie (prefix tree) of tokens.

    Options and scores are those of HFLM. ``batch_size`` is, as in HFLM, the number of inputs as
    long as the longest that a forward pass may hold, but a pass is filled with distinct tokens.
    With ``auto`` a pass begins large. With any batch size it is halved when memory runs out. Models
    whose positions cannot be shared (state-space, hybrid, encoder-decoder, or with an attention of
    their own, as GPT-Neo) are scored as HFLM does, with one warning.
    """

    name = "hf-tree"

    @functools.cached_property
    def engine(self) -> PackedEngine | None:
        """The engine that scores many requests at once, without computing any beginning twice.

        Two requests that begin with the same 100 tokens, for example, have these computed only
        once. On first use, the engine is built and tried out: it scores a few random token
        sequences, and its scores are compared with the model's own.

        Returns:
            The engine. None if the model is no decoder, or the scores differ. Then every request is
            scored by itself, as in HFLM.
        """
        packed_engine = None
        if self.backend == "causal":
            # The embedding has one row for each token that the model can read.
            vocab_size = len(self.model.get_input_embeddings().weight)
            with self._forward_context():
                packed_engine = self.make_engine(vocab_size)

        if packed_engine is None:
            logger.warning(
                "%s: %s cannot share positions between requests; every request is computed by"
                " itself, as hf does",
                self.name,
                type(self.model).__name__,
            )
        return packed_engine

    def pop_settings(self, settings_class: type[Settings], options: dict[str, Any]) -> Settings:
        """Take the settings of a decoding method or of retrieval out of a model's options.

        Args:
            settings_class: The pydantic class of the settings, such as `DoLa`.
            options: The options of the lm_eval model, such as ``{"pretrained": "gpt2", "layers":
                "low"}``. Those that the class has as fields, such as ``layers``, are removed. HFLM,
                which would refuse them, gets the rest.

        Raises:
            ConfigError: A setting has no valid value.
        """
        # The other settings have defaults.
        named = settings_class.model_fields.keys() & options.keys()
        settings = {name: options.pop(name) for name in named}
        return read_settings(settings_class, settings, self.name)

    def require_decoder(self) -> None:
        """Check that the model is a decoder, i.e. predicts each token from those before it.

        Raises:
            ConfigError: The model is of another kind, such as an encoder-decoder.
        """
        if self.backend != "causal":
            raise ConfigError(
                f"{self.name}: {type(self.model).__name__} is not a decoder; expected a model such"
                " as Llama or GPT-2"
            )

    def make_engine(self, vocab_size: int) -> PackedEngine | None:
        """Return an engine whose scores match the model's own on a trial.

        Args:
            vocab_size: The trial draws random token ids below this number.

        Returns:
            The engine, or None if its log-probabilities differ from the model's.
        """
        return build_tested_engine(self.model, vocab_size, self.max_length)

    def _rescore(self) -> Rescore | None:
        """Return the function that turns logits into log-probabilities, or None for the softmax.

        Decoding methods such as DoLa override this.
        """
        return None

    def count_answered(self, number: float) -> None:
        """Learn that requests were answered. A run replaces this to report its progress.

        Args:
            number: How many requests, which may be a part of one.
        """

    def _cores(self) -> int:
        """Return how many threads may score parts of the trie at the same time."""
        return torch.get_num_threads() if self.device.type == "cpu" else 1

    def _loglikelihood_tokens(
        self,
        requests: Sequence[TokenRequest],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Answer]:
        """Score the continuation of each request given its context, as `score_tokens` does."""
        return self.score_tokens(requests, disable_tqdm, override_bs=override_bs)

    def score_tokens(
        self,
        requests: Sequence[TokenRequest],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Answer]:
        """Score the continuation of each request given its context.

        A run replaces this method by one that keeps the answers (`harness.kept_answers`).

        Args:
            requests: The cache key, the context and the continuation of each request. Context and
                continuation are lists of token ids.
            disable_tqdm: Whether to hide the progress bar.
            override_bs: A batch size that HFLM passes on. Only models without an engine use it.

        Returns:
            For each request, in order, the log-likelihood of the continuation in nats and whether
            greedy decoding would generate it.
        """
        if self.engine is None:
            answers: list[Answer] = super()._loglikelihood_tokens(
                requests, disable_tqdm=disable_tqdm, override_bs=override_bs
            )
            return answers

        # Every token of a continuation is a target, whose log-probability is needed.
        num_targets = [len(continuation) for _, _, continuation in requests]
        trie = build_trie(self._join_and_truncate(requests), num_targets)
        scores = self._score_trie(trie, self.engine, disable_tqdm)
        answers = []
        for targets in trie.targets_by_request:
            # A continuation is greedy if each of its tokens is the likeliest one.
            logprob = float(scores.logprobs[targets].sum())
            is_greedy = bool(scores.is_likeliest[targets].all())
            answers.append((logprob, is_greedy))
        return answers

    def _score_trie(
        self, trie: TokenTrie, engine: PackedEngine, disable_tqdm: bool
    ) -> TargetScores:
        """Score all targets of a trie in several threads, and report the progress.

        Args:
            trie: The tokens of all requests.
            engine: Runs the model.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The scores of all targets, in the order of the trie's targets.
        """
        num_requests = len(trie.targets_by_request)
        bar = tqdm(
            total=len(trie),
            desc="Running loglikelihood requests",
            unit=" tokens",
            disable=disable_tqdm or self.rank != 0,
        )

        def report_progress(num_positions: int) -> None:
            """Report that some more positions of the trie are computed."""
            bar.update(num_positions)
            # The run counts requests. Each position counts as the same fraction of a request.
            self.count_answered(num_positions * num_requests / len(trie))

        def score_part(part: TokenTrie, engine: PackedEngine, budget: PassBudget) -> TargetScores:
            """Score some branches of the trie, in one of several threads."""
            # PyTorch turns off gradients only for the thread that asks for it.
            with self._forward_context():
                return score_trie(
                    part,
                    engine,
                    budget,
                    softmax_dtype=self.softmax_dtype,
                    rescore=self._rescore(),
                    progress=report_progress,
                )

        with bar:
            return score_in_threads(trie, engine, self._budget(trie), score_part, self._cores())

    def split_into_batches(self, requests: Sequence[TokenRequest]) -> list[list[int]] | None:
        """Divide requests into batches of several forward passes, whose answers are kept together.

        Requests that begin alike share what is computed, so they stay in one batch if possible.

        Args:
            requests: The cache key, the context and the continuation of each request. Context and
                continuation are lists of token ids.

        Returns:
            The indices of the requests in each batch; None if HFLM scores the requests.
        """
        if self.engine is None or not requests:
            return None
        sequences = [[*context, *continuation] for _, context, continuation in requests]
        max_tokens = _PASSES_PER_BATCH * self._max_tokens(max(map(len, sequences)))
        # Sorted by their tokens, requests that begin alike follow each other.
        sorted_indices = sorted(range(len(requests)), key=lambda index: sequences[index])

        batches: list[list[int]] = [[]]
        num_tokens = 0  # that the model computes for the last batch
        previous_sequence: list[int] = []
        for index in sorted_indices:
            sequence = sequences[index]
            # Requests of one document begin alike, and comparing a few tokens is fast.
            document_start = sequence[:_TOKENS_OF_DOCUMENT]
            is_same_document = document_start == previous_sequence[:_TOKENS_OF_DOCUMENT]
            if num_tokens >= max_tokens and not is_same_document:
                batches.append([])
                num_tokens = 0
            batches[-1].append(index)
            # A context that the previous request has too is not computed again.
            _, context, continuation = requests[index]
            is_same_context = previous_sequence[: len(context)] == context
            num_tokens += len(continuation) if is_same_context else len(sequence)
            previous_sequence = sequence
        return batches

    def _join_and_truncate(self, requests: Sequence[TokenRequest]) -> list[list[int]]:
        """Join context and continuation of each request and cut long sequences from the left.

        Args:
            requests: The cache key, the context and the continuation of each request.

        Returns:
            The token ids of each request, at most ``max_length + 1``. A warning counts the
            requests that were cut.

        Raises:
            ValueError: A context or continuation is empty, or a continuation is too long.
        """
        sequences = []
        for _, context, continuation in requests:
            if not context or not continuation or len(continuation) > self.max_length:
                raise ValueError(
                    f"a request has {len(context)} tokens of context and {len(continuation)} of"
                    f" continuation, expected at least one of each and at most {self.max_length} of"
                    " continuation"
                )
            sequences.append([*context, *continuation])

        # The model reads all tokens but the last, which is only predicted.
        max_tokens = self.max_length + 1
        num_too_long = sum(len(sequence) > max_tokens for sequence in sequences)
        if num_too_long:
            logger.warning(
                "%d of %d requests are longer than the model's %d tokens and lose their beginning",
                num_too_long,
                len(sequences),
                self.max_length,
            )
        return [sequence[-max_tokens:] for sequence in sequences]

    def _budget(self, trie: TokenTrie) -> PassBudget:
        """Return how many tokens and targets one forward pass may hold.

        A target is a position whose next token is scored. Logits are stored only for targets, so
        the limit of targets is one of memory. The limit of tokens follows from ``batch_size``: 8,
        for example, allows as many tokens as 8 copies of the longest input have.

        Args:
            trie: The tokens of all requests, which tell the length of the longest input.
        """
        # The first token of an input has depth 0.
        max_tokens = self._max_tokens(int(trie.depths.max(initial=0)) + 1)
        if self.device.type == "cpu":
            max_targets = max_tokens // _TOKENS_PER_TARGET
        else:
            # An accelerator is fastest with as many targets as its memory allows. A target has a
            # logit for each token of the vocabulary.
            vocab_size = len(self.model.get_input_embeddings().weight)
            max_targets = _MAX_LOGITS_OF_ACCELERATORS // vocab_size
        return PassBudget(max_tokens, max(_MIN_TARGETS, max_targets))

    def _max_tokens(self, longest: int) -> int:
        """Return how many tokens a forward pass may hold, if the longest input has so many."""
        if self.batch_size != "auto":
            return int(self.batch_size) * longest
        return _AUTO_TOKENS if self.device.type == "cpu" else _AUTO_TOKENS_OF_ACCELERATORS

    @contextlib.contextmanager
    def _forward_context(self) -> Iterator[None]:
        """Turn off gradients and turn on mixed precision if the user asked for it."""
        dtype = self.mixed_precision_dtype
        autocast = torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)
        with torch.inference_mode(), autocast:
            yield

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Return the log-likelihood of each text in nats.

        Texts longer than the model's input are split into disjoint windows, as in HFLM, and the
        log-likelihoods of the windows are added up.

        Args:
            requests: The requests, each with the text as its only argument.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            One sum of token log-probabilities per request, in order.
        """
        windows: list[TokenRequest] = []
        # The index of the request that each window was cut from.
        request_indices: list[int] = []
        for request_index, request in enumerate(requests):
            for window in self._split_text(request.args[0]):
                windows.append(window)
                request_indices.append(request_index)

        # All windows of all texts are scored at once, and then added up for each text.
        sources = [requests[index] for index in request_indices]
        answers = self._score_windows(windows, sources, disable_tqdm)
        totals = [0.0] * len(requests)
        for request_index, (logprob, _) in zip(request_indices, answers, strict=True):
            totals[request_index] += logprob
        return totals

    def _split_text(self, text: str) -> list[TokenRequest]:
        """Split a text into windows of at most the model's input.

        Returns:
            The context and the continuation of each window in tokens, without cache key. Each
            token of the text is in one continuation.
        """
        split_tokens = lm_eval_part("lm_eval.utils:get_rolling_token_windows")
        make_disjoint = lm_eval_part("lm_eval.utils:make_disjoint_window")
        token_windows = split_tokens(
            self.tok_encode(text), self.prefix_token_id, self.max_length, context_len=1
        )
        return [(None, *make_disjoint(window)) for window in token_windows]

    def _score_windows(
        self, windows: Sequence[TokenRequest], sources: Sequence[Instance], disable_tqdm: bool
    ) -> list[Answer]:
        """Score the windows that long texts were split into.

        Args:
            windows: The context and the continuation of each window in tokens, without cache key.
            sources: The request that each window was cut from. Retrieval models need it.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The log-likelihood in nats of each window, and whether it is the greedy continuation.
        """
        return self._loglikelihood_tokens(windows, disable_tqdm)


class HFPrefixFree(HFTree):
    """lm_eval model ``hf-prefix-free``: it scores every continuation after an empty context.

    Its accuracy shows how much of a benchmark can be answered without the prefix, from common
    knowledge or from how likely a sentence sounds. Texts without a context are scored unchanged.
    """

    name = "hf-prefix-free"

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Answer]:
        """Score lm_eval's requests without their contexts."""
        answers: list[Answer] = super().loglikelihood(
            _without_contexts(requests), disable_tqdm=disable_tqdm
        )
        return answers

    def scored_loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Any]:
        """Score the suite's requests, as `harness.requests` does, without their contexts."""
        return request_types.scored_loglikelihood(self, _without_contexts(requests), disable_tqdm)

    def word_answers(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Any]:
        """Refuse to answer questions.

        Raises:
            ModelError: Always, because the context of a question is the question.
        """
        raise ModelError(
            "hf-prefix-free cannot answer questions, because the question is in the context that"
            " it leaves out; use hf-tree"
        )


def _without_contexts(requests: Sequence[Instance]) -> list[Instance]:
    """Return copies of requests with an empty context and the same continuation."""
    copies = []
    for request in requests:
        # The context is the first argument.
        arguments = ("", *request.args[1:])
        copies.append(request_types.request_like(request, request.request_type, arguments))
    return copies
