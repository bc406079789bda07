"""Makes models and requests of published sizes without downloads.

The other modules of ``bench.suite`` time these. A model is a shape with random weights, because
weights do not change the time, or the folder of a checkpoint. Requests are rows of a FACTOR task,
with a tokenizer that is learned from them.
"""

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
from lm_factuality.benchmarks.factor.joining import AUTHORS_JOIN
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.rows import Row
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.models.tree.trie import TokenTrie, build_trie

END = "<|endoftext|>"

SHAPES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("shapes.yaml").read_text(encoding="utf-8")
)
"""The configurations of transformers from which models are made, by the name of the shape."""

TokenRequests = list[tuple[list[int], list[int]]]
"""The token ids of the context and the continuation of each request, as lm_eval has them."""

# A token has about 4.4 characters of News-FACTOR then, which is near GPT-2's tokenizer.
_VOCABULARY_SIZE = 12_000


@dataclass(frozen=True)
class Operations:
    """The multiplications and additions of forward passes, in billions."""

    request_by_request: float
    """Those of each position of each request, without padding."""

    each_position_once: float
    """Those of each distinct position, with logits only where a target follows."""

    @property
    def bound(self) -> float:
        """How many times as fast as request by request the distinct positions can be at most."""
        return self.request_by_request / self.each_position_once


@functools.cache
def build_model(shape: str) -> Any:
    """Build a model, once in a process.

    Args:
        shape: The name of a shape, or the folder of a checkpoint.

    Returns:
        The model, on the GPU in bfloat16 if there is a GPU, else in float32.
    """
    torch.manual_seed(0)
    if shape in SHAPES:
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPES[shape])).eval()
    else:
        model = AutoModelForCausalLM.from_pretrained(shape, dtype=torch.float32).eval()
    return model.to("cuda", torch.bfloat16) if torch.cuda.is_available() else model


def read_rows(task: str, data_dir: str | None, count: int) -> list[Row]:
    """Read rows of a FACTOR task, evenly spread over it.

    Args:
        task: The name of the task.
        data_dir: A folder with the published files, which are downloaded if it is None.
        count: The number of rows.

    Raises:
        FactualityError: The data cannot be read.
    """
    corpus = parse_corpus({"task": task, "metadata": {"source": task}})
    rows = [row for row in load_corpus(corpus, data_dir).rows if not row.problem]
    step = max(1, len(rows) // count)
    return rows[::step][:count]


def sample_rows(count: int | None = None) -> Sequence[Row]:
    """Return the first rows of the sample of FACTOR, or all rows if no count is given."""
    path = tasks_folder() / "sample" / "sample_factor.csv"
    corpus = parse_corpus({"task": "sample_factor", "dataset_path": str(path)})
    return load_corpus(corpus).rows[:count]


def tokenizer_of(shape: str, rows: Sequence[Row]) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a checkpoint or, for a shape, one that is learned from rows."""
    return learn_tokenizer(rows) if shape in SHAPES else AutoTokenizer.from_pretrained(shape)


def learn_tokenizer(rows: Sequence[Row]) -> PreTrainedTokenizerBase:
    """Learn a byte-level BPE tokenizer from the true texts of rows."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_SIZE,
        special_tokens=[END],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    texts = [f"{row.prefix}{row.choices[row.gold]}" for row in rows]
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END)


def tokenize_rows(rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase) -> TokenRequests:
    """Return the request of each choice of each row, as the FACTOR task encodes it.

    Contexts are cut from the left to fit the window of the paper.
    """
    requests = []
    for row in rows:
        for choice in row.choices:
            context, continuation = AUTHORS_JOIN(row.prefix, choice)
            # Both are tokenized together, as text that a model reads. The continuation is what
            # comes after as many tokens as the context has alone.
            context_length = len(tokenizer(context)["input_ids"])
            ids = tokenizer(context + continuation)["input_ids"]
            continuation_ids = ids[context_length:]
            kept_length = max(1, PAPER_WINDOW - len(continuation_ids))
            requests.append((ids[:context_length][-kept_length:], continuation_ids))
    return requests


def build_request_trie(requests: TokenRequests) -> TokenTrie:
    """Build the trie that hf-tree computes for requests."""
    return build_trie(
        [context + continuation for context, continuation in requests],
        [len(continuation) for _, continuation in requests],
    )


def count_operations(model: Any, requests: TokenRequests) -> Operations:
    """Count the operations that the matrix products of a model take for requests.

    They are the products with the weights of the layers, the attention of each position to itself
    and to all before it, and the projection onto the vocabulary.
    """
    # A position takes one multiplication for each weight of a layer and of the projection.
    projection_weights = model.get_input_embeddings().weight.numel()
    layer_weights = _count_layer_weights(model)
    # It takes two for each key and number of the width: for the score and for the sum of values.
    attention = 2 * model.config.hidden_size * model.config.num_hidden_layers

    request_by_request = 0.0
    for context, continuation in requests:
        # The last token is only predicted, so it is no input.
        length = len(context) + len(continuation) - 1
        num_keys = length * (length + 1) / 2
        request_by_request += length * (layer_weights + projection_weights) + attention * num_keys

    trie = build_request_trie(requests)
    num_projected = len(set(trie.target_positions.tolist()))
    num_keys = float((trie.depths + 1).sum())
    each_position_once = (
        len(trie) * layer_weights + num_projected * projection_weights + attention * num_keys
    )
    # Each multiplication goes with an addition.
    return Operations(2 * request_by_request / 1e9, 2 * each_position_once / 1e9)


def _count_layer_weights(model: Any) -> int:
    """Return the number of weights in the matrices of the layers, without biases and embeddings."""
    count = 0
    for name, weight in model.named_parameters():
        # Embeddings of positions, which GPT-2 calls wpe, are looked up and not multiplied.
        if weight.dim() == 2 and "wpe" not in name:
            count += weight.numel()
    input_embeddings = model.get_input_embeddings().weight
    count -= input_embeddings.numel()
    # Parameters that are used twice are listed once.
    if model.get_output_embeddings().weight is not input_embeddings:
        count -= input_embeddings.numel()
    return int(count)
