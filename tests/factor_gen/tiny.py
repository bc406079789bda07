"""Tiny models of the architectures that the filters use, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, DebertaConfig, DebertaForSequenceClassification
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

MNLI = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
"""The labels in the order of microsoft/deberta-large-mnli."""


def save_deberta(
    folder: Path,
    checkpoint: Path,
    labels: Sequence[str] = MNLI,
    places: int = 128,
    hidden: int = 32,
) -> Path:
    """Save a DeBERTa classifier of two layers, which has the same random weights every time.

    Args:
        folder: The folder to save it to.
        checkpoint: A checkpoint whose vocabulary it has.
        labels: The names of its three outputs. Other names do not change its weights.
        places: How many tokens it reads at most.
        hidden: The size of its hidden states.

    Returns:
        The folder.
    """
    tokenizer = _load_pair_tokenizer(checkpoint, places)
    torch.manual_seed(0)
    config = DebertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        max_position_embeddings=places,
        type_vocab_size=2,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_relative_positions=32,
        position_biased_input=False,
        # With the default of 0.02, all texts would get nearly the same scores.
        initializer_range=0.5,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    DebertaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _load_pair_tokenizer(checkpoint: Path, places: int) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint, and let it frame pairs of texts as DeBERTa's does.

    Args:
        checkpoint: The checkpoint.
        places: The most tokens of a pair, with the special ones.
    """
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)],
    )
    tokenizer.model_max_length = places
    tokenizer.model_input_names = ["input_ids", "attention_mask", "token_type_ids"]
    return tokenizer
