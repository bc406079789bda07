"""Models of the families with random weights, one of each class, with a real tokenizer of the
sample's words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    T5ForTokenClassification,
)

WORDS = [
    "Ada",
    "Lind",
    "was",
    "a",
    "painter",
    "pilot",
    "who",
    "taught",
    "at",
    "the",
    "school",
    "in",
    "north",
    ".",
    "She",
    "flew",
    "mail",
    "to",
    "islands",
    "and",
    "not",
    "1870",
    "predict",
]
MORE = [
    "premise",
    "hypothesis",
    "Premise",
    "Hypothesis",
    "Determine",
    "if",
    "is",
    "true",
    "given",
    "Title",
    ":",
    "?",
    "1",
    "0",
]
SPECIAL = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
T5_SIZES = {
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
}


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    words = dict.fromkeys([*SPECIAL.values(), *WORDS, *MORE])
    inner = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    special = [("<s>", 2), ("</s>", 3)]
    single, pair = (
        ("$A </s>", "$A </s> $B </s>")
        if kind == "t5"
        else ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    )
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=special
    )
    names = {f"{name}_token": token for name, token in SPECIAL.items()} | {
        "cls_token": "<s>",
        "sep_token": "</s>",
    }
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def save(folder: Path, kind: str, labels: int | tuple[str, ...] = 2) -> Path:
    """A model of ``kind`` whose weights are large enough for its probabilities to differ."""
    torch.manual_seed(len(str(labels)))
    names = (
        {"num_labels": labels} if isinstance(labels, int) else {"id2label": dict(enumerate(labels))}
    )
    if kind == "roberta":
        config = RobertaConfig(
            **SIZES, **names, max_position_embeddings=130, pad_token_id=0, type_vocab_size=1
        )
        model = RobertaForSequenceClassification(config)
    elif kind == "deberta":
        more = {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "type_vocab_size": 0,
            "pad_token_id": 0,
        }
        model = DebertaV2ForSequenceClassification(
            DebertaV2Config(**SIZES, **names, **more, max_position_embeddings=128)
        )
    else:
        config = T5Config(
            **T5_SIZES, **names, pad_token_id=0, eos_token_id=3, decoder_start_token_id=0
        )
        model = (T5ForConditionalGeneration if kind == "seq2seq" else T5ForTokenClassification)(
            config
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.6 if "classifier" in name or "lm_head" in name else 0.3)
        if kind == "roberta" and labels == 2:
            model.classifier.out_proj.bias[0] = 5.5  # about half of what it is asked is supported
    model.save_pretrained(folder)
    tokenizer("t5" if kind in ("seq2seq", "tokens") else kind).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A checkpoint of each class, in folders that are called as on the Hub."""
    root = tmp_path_factory.mktemp("support")
    return {
        "roberta": save(root / "MiniCheck-RoBERTa-Large", "roberta"),
        "deberta": save(root / "MiniCheck-DeBERTa-v3-Large", "deberta"),
        "nli": save(
            root / "nli-deberta-v3-base", "deberta", ("contradiction", "entailment", "neutral")
        ),
        "single": save(root / "cross-encoder", "roberta", 1),
        "seq2seq": save(root / "MiniCheck-Flan-T5-Large", "seq2seq"),
    }
