"""Small models of many architectures with random weights, and requests that share beginnings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from lm_eval.models.huggingface import HFLM
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from lm_factuality.models.hf_tree import HFTree, TokenRequest
from lm_factuality.models.tree.packed import PackedEngine
from lm_factuality.models.tree.scorer import PassBudget, score_trie
from lm_factuality.models.tree.trie import TokenTrie, build_trie

VOCABULARY = 97
"""The number of tokens that the small models know."""
POSITIONS = 64
"""The number of tokens that the small models see."""

_COMMON = {"vocab_size": VOCABULARY, "hidden_size": 32, "max_position_embeddings": POSITIONS}
_SMALL = {**_COMMON, "num_hidden_layers": 2, "num_attention_heads": 2}
_GPT = {"vocab_size": VOCABULARY, "n_positions": POSITIONS, "n_embd": 32, "n_layer": 2, "n_head": 2}
_GATED = {
    **_COMMON,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
}
_WINDOW = {"head_dim": 8, "sliding_window": 7}
ARCHITECTURES = {
    "gpt2": ("gpt2", _GPT),
    "opt": ("opt", {**_SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "gpt-neox": ("gpt_neox", {**_SMALL, "intermediate_size": 64}),
    "llama": ("llama", _GATED),
    "qwen2": ("qwen2", _GATED),
    "mistral-sliding": ("mistral", {**_GATED, "sliding_window": 7}),
    "mixtral": ("mixtral", {**_GATED, "sliding_window": None}),
    "gemma": ("gemma", {**_GATED, "head_dim": 8}),
    "gemma2-softcap": ("gemma2", {**_GATED, **_WINDOW}),
    "gpt-oss-sinks": ("gpt_oss", {**_GATED, **_WINDOW, "num_local_experts": 4}),
    "llama4-chunks": (
        "llama4_text",
        {
            **_GATED,
            "intermediate_size_mlp": 48,
            "head_dim": 8,
            "attention_chunk_size": 8,
            "num_local_experts": 2,
        },
    ),
}
"""The model type and the config of each name.

Windows and chunks are shorter than the requests, so that they change scores.
"""

_DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
UNSHARED = {
    "gpt-neo-local": (
        "gpt_neo",
        {
            **_COMMON,
            "num_layers": 2,
            "num_heads": 2,
            "window_size": 7,
            "attention_types": [[["global", "local"], 1]],
        },
    ),
    "mamba": (
        "mamba",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2},
    ),
    "jamba": (
        "jamba",
        {
            **_GATED,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 2,
            "use_mamba_kernels": False,
        },
    ),
    "dynamic-rope": ("llama", {**_GATED, "rope_parameters": _DYNAMIC}),
}
"""The same of models for which a position depends on more than the tokens before it."""


def build_model(name: str) -> PreTrainedModel:
    """Build a model with random weights.

    The weights are large, so that a position that sees a wrong token has clearly other scores.

    Args:
        name: A key of `ARCHITECTURES` or `UNSHARED`.
    """
    model_type, options = {**ARCHITECTURES, **UNSHARED}[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **options)
    model = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(6)
    return model


def make_requests(
    count: int, vocabulary: int = VOCABULARY, longest: int = POSITIONS, seed: int = 0
) -> list[TokenRequest]:
    """Make random requests as lm_eval gives them to a model: a key, a context, a continuation.

    Many contexts begin alike, and some are the beginning of another. Continuations have one token
    or many. Some requests are longer than the model can see.

    Args:
        count: The number of requests. The first one is then repeated at the end.
        vocabulary: The number of tokens of the model.
        longest: About how many tokens the longest context has.
        seed: The seed of the random tokens.
    """
    generator = random.Random(seed)

    def draw_tokens(number: int) -> list[int]:
        return [generator.randrange(vocabulary) for _ in range(number)]

    stem_lengths = [1, 3, longest // 3, longest]
    stems = [draw_tokens(generator.choice(stem_lengths)) for _ in range(8)]
    requests = []
    for index in range(count):
        stem = generator.choice(stems)
        stem_length = generator.randint(1, len(stem))
        context = stem[:stem_length] + draw_tokens(generator.choice([0, 0, 0, 2, 9]))
        continuation = draw_tokens(generator.choice([1, 1, 2, 5, longest // 4]))
        requests.append((("", str(index)), context, continuation))
    return [*requests, requests[0]]


def load_tree(model: PreTrainedModel, checkpoint: Path, batch_size: int = 2) -> HFTree:
    """Return ``hf-tree`` around a model.

    Args:
        model: The model.
        checkpoint: A folder with a tokenizer, which requests in tokens do not need.
        batch_size: How many requests are scored at once.
    """
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    return HFTree(model, tokenizer=tokenizer, max_length=POSITIONS, batch_size=batch_size)


def load_hf(model: PreTrainedModel, checkpoint: Path) -> HFLM:
    """Return lm_eval's ``hf`` around a model. The tokenizer of the checkpoint is not used."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    # With its cache, hf gives wrong sums to requests that differ only in where the context ends.
    return HFLM(model, tokenizer=tokenizer, max_length=POSITIONS, batch_size=2, logits_cache=False)


def answers_of(lm: HFLM, requests: Sequence[TokenRequest]) -> list[tuple[float, bool]]:
    """Return for each request its log-likelihood, and whether greedy decoding gives it."""
    return lm._loglikelihood_tokens(requests, disable_tqdm=True)


def build_trie_of_requests(requests: Sequence[TokenRequest]) -> TokenTrie:
    """Build the trie of requests, whose beginnings are cut to what the models see."""
    sequences = []
    num_targets = []
    for _, context, continuation in requests:
        # The last token is scored and not seen.
        sequences.append((context + continuation)[-POSITIONS - 1 :])
        num_targets.append(len(continuation))
    return build_trie(sequences, num_targets)


def score_in_passes(
    requests: Sequence[TokenRequest], engine: PackedEngine, budget: PassBudget
) -> list[float]:
    """Return the log-likelihood of each request from an engine with passes of a given size."""
    trie = build_trie_of_requests(requests)
    with torch.inference_mode():
        scores = score_trie(trie, engine, budget)
    return [float(scores.logprobs[targets].sum()) for targets in trie.targets_by_request]


def logprobs_of(answers: Sequence[tuple[float, bool]]) -> list[float]:
    """Return the log-likelihoods in a model's answers."""
    return [logprob for logprob, _ in answers]


def greedy_flags_of(answers: Sequence[tuple[float, bool]]) -> list[bool]:
    """Return for each of a model's answers whether greedy decoding gives the continuation."""
    return [is_greedy for _, is_greedy in answers]


def largest_difference(
    logprobs: Sequence[float], expected: Sequence[float], requests: Sequence[TokenRequest]
) -> float:
    """Return the largest difference between log-likelihoods, in nats per scored token."""
    differences = [
        abs(logprob - expected_logprob) / len(continuation)
        for logprob, expected_logprob, (_, _, continuation) in zip(
            logprobs, expected, requests, strict=True
        )
    ]
    return max(differences)


def assert_same_answers(
    answers: Sequence[tuple[float, bool]],
    expected: Sequence[tuple[float, bool]],
    requests: Sequence[TokenRequest],
    tolerance: float = 1e-4,
) -> None:
    """Check that two models give the same answers to requests.

    Args:
        answers: For each request, its log-likelihood and whether it is what greedy decoding gives.
        expected: The same of the other model.
        requests: The requests.
        tolerance: The largest difference between log-likelihoods, in nats per scored token.
    """
    difference = largest_difference(logprobs_of(answers), logprobs_of(expected), requests)
    assert difference < tolerance
    assert greedy_flags_of(answers) == greedy_flags_of(expected)
