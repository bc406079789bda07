"""Small models of many architectures with random weights, and requests that share beginnings."""

from __future__ import annotations

import random

import torch
from lm_eval.models.huggingface import HFLM
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from lm_factuality.models.hf_tree import HFTree
from lm_factuality.models.tree.scorer import score_trie
from lm_factuality.models.tree.trie import build_trie

VOCABULARY, POSITIONS = 97, 64
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
# For each name its model type and its config. Windows and chunks are shorter than the requests.
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
_DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
# Models whose positions cannot be shared.
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


def build(name: str):
    """A model with weights so large that a position which sees the wrong keys shows."""
    model_type, options = ARCHITECTURES.get(name) or UNSHARED[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **options)
    model = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(6)
    return model


def some_requests(vocabulary: int, longest: int, count: int, seed: int = 0) -> list[tuple]:
    """Shared and nested contexts, continuations of one token and of many, over-long requests.

    The last request is the first one again.
    """
    rng = random.Random(seed)

    def draw(number: int) -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(number)]

    stems = [draw(rng.choice([1, 3, longest // 3, longest])) for _ in range(8)]
    requests = []
    for index in range(count):
        stem = rng.choice(stems)
        context = [*stem[: rng.randint(1, len(stem))], *draw(rng.choice([0, 0, 0, 2, 9]))]
        continuation = draw(rng.choice([1, 1, 2, 5, longest // 4]))
        requests.append((("", str(index)), context, continuation))
    return [*requests, requests[0]]


def tree_and_plain(model, checkpoint, **options):
    """``hf-tree`` and ``hf`` with a model."""
    common = {
        "pretrained": model,
        "tokenizer": AutoTokenizer.from_pretrained(checkpoint),
        "max_length": POSITIONS,
        "batch_size": 2,
        **options,
    }
    # hf's logits_cache gives wrong sums to requests with the same tokens but the last that are
    # split at other points.
    return HFTree(**common), HFLM(**common, logits_cache=False)


def forest_of(requests):
    """The trie of requests, cut to the models' length."""
    sequences = [(context + following)[-POSITIONS - 1 :] for _, context, following in requests]
    return build_trie(sequences, [len(following) for _, _, following in requests])


def score_in_passes(requests, engine, budget):
    """The answers to requests that an engine computes in passes of a size."""
    trie = forest_of(requests)
    with torch.inference_mode():
        scores = score_trie(trie, engine, budget)
    return [(scores.logprobs[targets].sum(), True) for targets in trie.targets_by_request]


def largest_difference(answers, expected, requests) -> float:
    """In nats a token."""
    return max(
        abs(answer[0] - wanted[0]) / len(request[2])
        for answer, wanted, request in zip(answers, expected, requests, strict=True)
    )
