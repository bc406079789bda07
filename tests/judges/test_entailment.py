"""Inference models of the real architectures, tiny, trained here to know one word: claims about
rain are entailed."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from judges.inference import Pair, Support, load_entailment
from judges.inference.models import load_model
from lm_factuality.benchmarks.biographies.types import Passage
from lm_factuality.ground.errors import ModelError

WORDS = [
    "premise",
    "hypothesis",
    ":",
    "Title",
    "Ada",
    "Lind",
    "rain",
    "sun",
    "snow",
    "fell",
    "in",
    "the",
    "north",
    "all",
    "day",
    "and",
    "night",
    ".",
    "1",
    "0",
]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PASSAGE = Passage("Ada Lind", "the north")
PAIRS = [
    Pair(f"{weather} fell {more}", (PASSAGE,) * count)
    for weather in ("rain", "sun", "snow")
    for more in ("in the north", "all day", "all day and all night in the north", "")
    for count in (1, 2, 3)
]
ENTAILED = [pair.claim.startswith("rain") for pair in PAIRS]


def premise_of(pair):
    """The passages in ALCE's form."""
    return "\n".join(f"Title: {passage.title}\n{passage.text}" for passage in pair.passages)


def tokenizer(template):
    inner = Tokenizer(
        models.WordLevel(
            {word: number for number, word in enumerate((*SPECIAL, *WORDS))}, unk_token="[UNK]"
        )
    )
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    single, pair = template
    inner.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="[SEP]",
    )


def train(model, inputs, labels):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(300):
        optimizer.zero_grad()
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        if loss.item() < 0.02:
            break
    return model.eval()


def classifier(kind, labels):
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 32,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    sizes |= {
        "max_position_embeddings": 40,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": 0,
    }
    names = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if kind == "bert":
        return BertForSequenceClassification(BertConfig(**sizes, **names))
    return DebertaV2ForSequenceClassification(
        DebertaV2Config(
            **sizes,
            **names,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            type_vocab_size=0,
        )
    )


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models this small are slower with more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    """Two architectures; ``entailment`` is the third label of one and the first of the other."""
    return {
        kind: make_classifier(kind, tmp_path_factory.mktemp(kind)) for kind in ("deberta", "bert")
    }


def make_classifier(kind, folder):
    labels = (
        ("contradiction", "neutral", "ENTAILMENT")
        if kind == "deberta"
        else ("entailment", "not_entailment")
    )
    words = tokenizer(("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"))
    model = classifier(kind, labels)
    inputs = words(
        [premise_of(pair) for pair in PAIRS],
        [pair.claim for pair in PAIRS],
        padding=True,
        return_tensors="pt",
    )
    entailed = [label.lower() for label in labels].index("entailment")
    train(model, inputs, torch.tensor([entailed if each else 1 for each in ENTAILED]))
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def t5_folder(tmp_path_factory):
    torch.manual_seed(0)
    words = tokenizer(("$A [SEP]", "$A $B [SEP]"))
    config = T5Config(
        vocab_size=32,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config)
    prompts = [f"premise: {premise_of(pair)} hypothesis: {pair.claim}" for pair in PAIRS]
    answers = words(["1" if each else "0" for each in ENTAILED], return_tensors="pt")["input_ids"]
    inputs = words(prompts, padding=True, return_tensors="pt")
    train(model, {key: inputs[key] for key in ("input_ids", "attention_mask")}, answers)
    folder = tmp_path_factory.mktemp("t5")
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["deberta", "bert"])
@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_classifiers(classifiers, kind, batch_size):
    assert load_entailment(str(classifiers[kind]), batch_size, "cpu").entail(PAIRS) == ENTAILED


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_true_t5(t5_folder, batch_size):
    entailment = load_entailment(str(t5_folder), batch_size, "cpu")
    assert entailment.entail(PAIRS) == ENTAILED
    assert entailment.identity == f"true {t5_folder}"
    assert entailment.entail([]) == []


def test_a_long_premise_is_cut_into_windows_and_the_claim_is_not(classifiers, t5_folder):
    long = Passage("Ada Lind", "the north . " * 40)
    pairs = [
        Pair("rain fell all day", (long,)),
        Pair("rain fell", (PASSAGE,)),
        Pair("rain fell " * 20, (PASSAGE,)),
    ]
    for folder, window, longest in ((classifiers["deberta"], None, 40), (t5_folder, 24, 4096)):
        found = load_model(str(folder), 16, "cpu", window=window).support(pairs)
        assert found[0].windows > 5
        assert found[1].windows == 1
        assert found[1].probability > 0.5
        no_room = Support(None, 0, f"the claim leaves no room for passages in {longest} tokens")
        assert (found[2] == no_room) == (longest == 40)


def test_t5_that_answers_something_else_gives_no_verdict(t5_folder, tmp_path):
    model = T5ForConditionalGeneration.from_pretrained(t5_folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.save_pretrained(tmp_path)
    tokenizer(("$A [SEP]", "$A $B [SEP]")).save_pretrained(tmp_path)
    assert load_entailment(str(tmp_path), 16, "cpu").entail(PAIRS[:2]) == [None, None]


def test_labels_that_do_not_say_entailment(classifiers, tmp_path):
    for file in classifiers["bert"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["id2label"] = {number: f"LABEL_{number}" for number in config["id2label"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ModelError, match="its labels are LABEL_0, LABEL_1.*expected one called 'entailment'"
    ):
        load_entailment(str(tmp_path), 16, "cpu")


def test_models_that_are_none(tmp_path, checkpoint):
    with pytest.raises(ModelError, match=r"gone' cannot be loaded .*--nli lexical"):
        load_entailment(str(tmp_path / "gone"))
    with pytest.raises(ModelError, match="LMHeadModel is not an inference model"):
        load_entailment(str(checkpoint))
