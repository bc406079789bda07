"""Models and requests of published sizes, without downloads: random weights, and a tokenizer
learned from the benchmark."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from lm_factuality.benchmarks.factor.corpus import PAPER_WINDOW, parse_corpus
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN as join
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.models.tree.trie import TokenTrie, build_trie

END = "<|endoftext|>"
SHAPES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("shapes.yaml").read_text(encoding="utf-8")
)
_VOCABULARY = 12_000  # of the tokenizer: about 4.4 characters a token on News-FACTOR, near GPT-2's

TokenRequests = list[tuple[list[int], list[int]]]


@functools.cache
def build(shape: str) -> Any:
    """The model with random weights, or from the folder of a checkpoint; on the GPU in bfloat16 if
    there is one, else in float32."""
    torch.manual_seed(0)
    if shape in SHAPES:
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPES[shape])).eval()
    else:
        model = AutoModelForCausalLM.from_pretrained(shape, dtype=torch.float32).eval()
    return model.to("cuda", torch.bfloat16) if torch.cuda.is_available() else model


def read_rows(task: str, data_dir: str | None, count: int) -> list[Row]:
    """``count`` rows of a FACTOR task, evenly spread over it."""
    config: dict[str, Any] = {"task": task, "metadata": {"source": task}}
    rows = [row for row in load_corpus(parse_corpus(config), data_dir).rows if not row.problem]
    return rows[:: max(1, len(rows) // count)][:count]


def sample_rows(count: int | None = None) -> Sequence[Row]:
    """The first ``count`` rows of the embedded benchmark, or all."""
    path = tasks_folder() / "sample" / "sample_factor.csv"
    return load_corpus(parse_corpus({"task": "sample_factor", "dataset_path": str(path)})).rows[
        :count
    ]


def tokenizer_of(shape: str, rows: Sequence[Row]) -> PreTrainedTokenizerBase:
    """The checkpoint's own, or for a shape one that is learned from the rows."""
    return learn_tokenizer(rows) if shape in SHAPES else AutoTokenizer.from_pretrained(shape)


def learn_tokenizer(rows: Sequence[Row]) -> PreTrainedTokenizerBase:
    """Byte-level BPE learned from the rows' own text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[END],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([f"{row.prefix}{row.choices[row.gold]}" for row in rows], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END)


def to_tokens(rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase) -> TokenRequests:
    """(context, continuation) of every choice as the FACTOR task encodes them, cut to the paper's
    window."""
    requests = []
    for row in rows:
        for choice in row.choices:
            context, continuation = join(row.prefix, choice)
            length = len(tokenizer(context)["input_ids"])
            whole = tokenizer(context + continuation)["input_ids"]
            kept = max(1, PAPER_WINDOW - (len(whole) - length))
            requests.append((whole[:length][-kept:], whole[length:]))
    return requests


def grow(forest_of: TokenRequests) -> TokenTrie:
    """The trie that hf-tree computes for requests."""
    return build_trie(
        [context + continuation for context, continuation in forest_of],
        [len(last) for _, last in forest_of],
    )


@dataclass(frozen=True)
class Operations:
    """Multiplications and additions of forward passes, in billions."""

    request_by_request: float
    each_position_once: float

    @property
    def bound(self) -> float:
        """How many times faster than request by request nothing can be that computes every distinct
        position."""
        return self.request_by_request / self.each_position_once


def count_operations(model: Any, requests: TokenRequests) -> Operations:
    """Matrix products of the layers, attention over all keys before, and the projection onto the
    vocabulary: of every position of every request without padding, and of every distinct position,
    projected only where a target follows."""
    config = model.config
    outer = model.get_input_embeddings().weight.numel()
    inner = (
        sum(weight.numel() for name, weight in model.named_parameters() if weight.dim() == 2)
        - outer
    )
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        inner -= outer
    inner -= sum(weight.numel() for name, weight in model.named_parameters() if "wpe" in name)
    attention = 2 * config.hidden_size * config.num_hidden_layers
    trie = grow(requests)
    lengths = [len(context) + len(continuation) - 1 for context, continuation in requests]
    every = sum(
        length * (inner + outer) + attention * length * (length + 1) / 2 for length in lengths
    )
    needed = len(set(trie.target_positions.tolist()))
    once = len(trie) * inner + needed * outer + attention * float((trie.depths + 1).sum())
    return Operations(2 * every / 1e9, 2 * once / 1e9)
