"""The NLI filter's model: a DeBERTa with random weights, whose scores transformers itself gives one
by one."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from factor_gen.filter_models import ContradictionPair, NliModel
from factor_gen.settings import NliSettings
from lm_factuality.ground.errors import ModelError
from tests.factor_gen.tiny import save_deberta
from tests.tiny_models import save_gpt2

CONTEXT = "The academy stands on a hill. Its members wear brown gowns, and they meet in the hall every spring. "
PAIRS = [
    ContradictionPair(
        context,
        f"The {who} was built in {year} by the river.",
        f"The {who} was built in {year + 12} by the {where}.",
    )
    for context in ("", CONTEXT, CONTEXT * 2)
    for who in ("house", "old bridge of the northern town", "hall")
    for year, where in ((1820, "river"), (1911, "sea, where it was seen by all who came by ship"))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, checkpoint):
    return save_deberta(tmp_path_factory.mktemp("deberta"), checkpoint, places=256)


@pytest.fixture(scope="module")
def one_by_one(folder):
    """What the model says of a text and another, by transformers' own way to tokenise a pair."""
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForSequenceClassification.from_pretrained(folder).eval(),
    )

    def score(premise: str, hypothesis: str) -> list[float]:
        with torch.inference_mode():
            return (
                model(**tokenizer(premise, hypothesis, return_tensors="pt"))
                .logits[0]
                .softmax(-1)
                .tolist()
            )

    return score


def test_batches_give_what_transformers_gives_one_by_one(folder, one_by_one):
    expected = [
        one_by_one(each.context + each.completion, each.context + each.contradiction)[0]
        for each in PAIRS
    ]
    assert max(expected) - min(expected) > 0.01  # or it would not matter which is whose
    for batch_size in (1, 32):
        assert NliModel(
            NliSettings(str(folder), batch_size=batch_size)
        ).contradiction_probabilities(PAIRS) == pytest.approx(expected, abs=1e-5)


def test_the_order_of_labels_is_read_from_the_config(folder, checkpoint, tmp_path, one_by_one):
    orders = (
        ("entailment", "neutral", "contradiction"),
        ("Neutral", "Contradictory", "Entailment"),
    )
    for order in orders:
        copy = save_deberta(tmp_path / order[0], checkpoint, order, places=256)
        place = next(
            number for number, label in enumerate(order) if label.lower().startswith("contra")
        )
        expected = [
            one_by_one(each.context + each.completion, each.context + each.contradiction)[place]
            for each in PAIRS
        ]
        assert NliModel(NliSettings(str(copy))).contradiction_probabilities(PAIRS) == pytest.approx(
            expected, abs=1e-5
        )


@pytest.mark.parametrize(
    "labels",
    [
        ("LABEL_0", "LABEL_1", "LABEL_2"),
        ("entailment", "neutral", "not_entailment"),
        ("contradiction", "contradictory", "x"),
    ],
)
def test_labels_that_do_not_say_which_is_contradiction_are_refused(folder, tmp_path, labels):
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    config |= {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="id2label"):
        NliModel(NliSettings(str(copy)))


def test_a_context_that_does_not_fit_is_cut_from_its_left_on_both_sides(folder):
    long = ContradictionPair(CONTEXT * 9, PAIRS[0].completion, PAIRS[0].contradiction)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sides = [
        tokenizer(long.context + text, add_special_tokens=False)["input_ids"]
        for text in (long.completion, long.contradiction)
    ]
    excess = sum(map(len, sides)) + 3 - 256  # with [CLS] and two [SEP]
    premise, hypothesis = (tokens[(excess + 1) // 2 :] for tokens in sides)
    expected = [
        tokenizer.cls_token_id,
        *premise,
        tokenizer.sep_token_id,
        *hypothesis,
        tokenizer.sep_token_id,
    ]
    model = NliModel(NliSettings(str(folder)))

    (encoded,) = model.encode([long])

    assert excess > 20
    assert encoded["input_ids"] == expected
    assert [len(values) for values in encoded.values()] == [len(expected)] * len(encoded)


def test_completions_that_do_not_fit_at_all_are_not_scored(folder):
    endless = ContradictionPair(
        CONTEXT, "The house stood by the river. " * 40, "The house stood by the sea. " * 40
    )
    first, second = NliModel(NliSettings(str(folder))).contradiction_probabilities(
        [endless, PAIRS[0]]
    )
    assert math.isnan(first)
    assert 0 <= second <= 1


def test_a_model_that_is_no_classifier_is_refused(checkpoint, tmp_path):
    causal = save_gpt2(tmp_path / "gpt2", AutoTokenizer.from_pretrained(checkpoint))
    with pytest.raises(ModelError, match="GPT2LMHeadModel is not an inference model"):
        NliModel(NliSettings(str(causal)))
    with pytest.raises(ModelError, match="cannot be loaded"):
        NliModel(NliSettings(str(tmp_path / "nowhere")))
