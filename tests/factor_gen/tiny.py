"""Tiny models of the filters' architectures, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, DebertaConfig, DebertaForSequenceClassification

MNLI = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")  # the order of microsoft/deberta-large-mnli


def save_deberta(
    folder: Path,
    checkpoint: Path,
    labels: Sequence[str] = MNLI,
    places: int = 128,
    hidden: int = 32,
) -> Path:
    """A DeBERTa whose tokenizer is that of ``checkpoint``, with DeBERTa's frame around pairs;
    ``labels`` only names its outputs, so that in another order the same outputs have other
    names."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)],
    )
    tokenizer.model_max_length = places
    tokenizer.model_input_names = ["input_ids", "attention_mask", "token_type_ids"]
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
        initializer_range=0.5,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    DebertaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
