"""Tiny inference models with random weights, whose tokenizer knows the words of the tests."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
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
TEMPLATE_WORDS = [
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
SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>"]  # their ids are 0 to 3

CLASSIFIER_SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "pad_token_id": 0,
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


def word_tokenizer(*, is_t5: bool = False) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token for each word and each punctuation mark.

    Args:
        is_t5: Whether it joins two texts as the tokenizer of T5 does. Otherwise it joins them as
            that of RoBERTa does, which marks the beginning as well.
    """
    vocabulary = dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *TEMPLATE_WORDS])
    token_ids = {word: token_id for token_id, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(token_ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>" if is_t5 else "<s> $A </s>",
        pair="$A </s> $B </s>" if is_t5 else "<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 2), ("</s>", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
    )


def save_roberta(folder: Path, *, num_labels: int = 2) -> Path:
    """Save a RoBERTa that supports about half of the claims of the tests, and return its folder."""
    torch.manual_seed(1)
    config = RobertaConfig(
        **CLASSIFIER_SIZES,
        num_labels=num_labels,
        max_position_embeddings=130,
        type_vocab_size=1,
    )
    model = RobertaForSequenceClassification(config)
    enlarge_weights(model)
    if num_labels == 2:
        # With its random weights alone, the model would support almost every claim.
        with torch.no_grad():
            model.classifier.out_proj.bias[0] = 5.5
    return save_checkpoint(folder, model, word_tokenizer())


def save_deberta(folder: Path, label_names: tuple[str, ...] = ("LABEL_0", "LABEL_1")) -> Path:
    """Save a DeBERTa whose labels have these names, and return its folder."""
    torch.manual_seed(1)
    config = DebertaV2Config(
        **CLASSIFIER_SIZES,
        id2label=dict(enumerate(label_names)),
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        type_vocab_size=0,
        max_position_embeddings=128,
    )
    model = DebertaV2ForSequenceClassification(config)
    enlarge_weights(model)
    return save_checkpoint(folder, model, word_tokenizer())


def save_t5(folder: Path) -> Path:
    """Save a T5 that writes mostly "0" or "1", as MiniCheck's does, and return its folder."""
    torch.manual_seed(1)
    config = T5Config(**T5_SIZES, pad_token_id=0, eos_token_id=3, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    enlarge_weights(model)
    tokenizer = word_tokenizer(is_t5=True)
    zero, one = tokenizer.convert_tokens_to_ids(["0", "1"])
    with torch.no_grad():
        model.lm_head.weight[one] *= 30
        model.lm_head.weight[zero] = -model.lm_head.weight[one]
    return save_checkpoint(folder, model, tokenizer)


def enlarge_weights(model: PreTrainedModel) -> None:
    """Draw random weights that are large enough for the model's probabilities to differ."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                is_head = "classifier" in name or "lm_head" in name
                parameter.normal_(0, 0.6 if is_head else 0.3)


def save_checkpoint(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> Path:
    """Save a model and its tokenizer, and return the folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
