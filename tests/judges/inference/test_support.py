"""Probabilities of support, beside those that the bare models give for the inputs that their
authors describe."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from judges.inference import EntailmentPair, family_of, load_entailment
from judges.inference.models import load_model
from judges.lexical.words import ParsedPassage
from lm_factuality.ground.errors import ConfigError, ModelError

TEXT = "Ada Lind was a painter who taught at the school in the north."
CLAIMS = (
    "Ada Lind was a pilot.",
    "She taught at the school.",
    "She flew mail to the islands in 1870.",
    "Ada",
)
PAIRS = [
    EntailmentPair(claim, (ParsedPassage(TEXT, title),))
    for claim in CLAIMS
    for title in ("", "Ada Lind")
]
PREMISES = [
    f"Title: {pair.passages[0].title}\n{TEXT}" if pair.passages[0].title else TEXT for pair in PAIRS
]
ASKED = list(zip(PREMISES, [pair.claim for pair in PAIRS], strict=True))


def probabilities(folder: Path, **options) -> list[float]:
    found = load_model(str(folder), device="cpu", **options).support(PAIRS)
    assert all(each.num_windows == 1 and not each.problem for each in found)
    return [each.probability for each in found]


def of_labels(folder: Path, *texts: str) -> torch.Tensor:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")).logits[0]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("kind", ["roberta", "deberta"])
def test_minicheck_is_one_text_with_the_end_mark_between_and_label_1(folders, kind, batch_size):
    expected = [
        of_labels(folders[kind], f"{premise}</s>{claim}").softmax(-1)[1].item()
        for premise, claim in ASKED
    ]
    assert probabilities(folders[kind], batch_size=batch_size) == pytest.approx(expected, abs=1e-5)
    assert max(expected) - min(expected) > 1e-3


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("MiniCheck-Flan-T5-Large", "predict: {}</s>{}"),
        ("t5_true_nli_mixture", "premise: {} hypothesis: {}"),
    ],
)
def test_a_t5_goes_by_its_first_word(folders, tmp_path, name, form):
    folder = folders["seq2seq"]
    model, words = (
        AutoModelForSeq2SeqLM.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    zero, one = words.convert_tokens_to_ids(["0", "1"])
    with torch.no_grad():  # a head that says little but 0 and 1
        model.lm_head.weight[one] *= 30
        model.lm_head.weight[zero] = -model.lm_head.weight[one]
    model.save_pretrained(tmp_path / name)
    words.save_pretrained(tmp_path / name)
    found = load_model(str(tmp_path / name), device="cpu").support(PAIRS)
    for (premise, claim), each in zip(ASKED, found, strict=True):
        inputs = words(form.format(premise, claim), return_tensors="pt")
        with torch.no_grad():
            output = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                max_new_tokens=1,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        logits = output.logits[0][0]
        chances = logits.softmax(-1)
        if chances[zero] + chances[one] < 0.5:
            assert (each.probability, each.problem) == (None, "the model answers neither 1 nor 0")
        else:
            assert each.probability == pytest.approx(
                logits[[zero, one]].softmax(-1)[1].item(), abs=1e-5
            )
    assert any(each.probability is not None for each in found)


def test_an_nli_model_is_given_a_pair_and_goes_by_the_label_entailment(folders):
    expected = [of_labels(folders["nli"], *texts).softmax(-1)[1].item() for texts in ASKED]
    assert probabilities(folders["nli"]) == pytest.approx(expected, abs=1e-5)


def test_alignscore_is_given_a_pair_and_goes_by_the_first_label(folders):
    expected = [of_labels(folders["roberta"], *texts).softmax(-1)[0].item() for texts in ASKED]
    assert probabilities(folders["roberta"], family="alignscore") == pytest.approx(
        expected, abs=1e-5
    )


def test_a_single_label_is_a_score(folders):
    expected = [of_labels(folders["single"], *texts).sigmoid().item() for texts in ASKED]
    assert probabilities(folders["single"]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["roberta", "deberta", "seq2seq", "nli"])
def test_of_a_long_text_the_highest_probability_of_a_window_counts(folders, kind):
    sentences = [
        f"Ada Lind was a {word} who taught at the school."
        for word in ("painter", "pilot", "mail", "school") * 12
    ]
    long = ParsedPassage(" ".join(sentences), "Ada Lind")
    model = load_model(str(folders[kind]), device="cpu", window=60, batch_size=4)
    (found,) = model.support([EntailmentPair(CLAIMS[0], (long,))])
    assert found.num_windows > 8
    each = [
        model.support([EntailmentPair(CLAIMS[0], (ParsedPassage(part, "Ada Lind"),))])[0]
        for part in sentences
    ]
    assert all(one.num_windows == 1 for one in each)
    windows = [" ".join(sentences[start : start + 5]) for start in range(len(sentences))]
    near = [
        model.support([EntailmentPair(CLAIMS[0], (ParsedPassage(part, "Ada Lind"),))])[
            0
        ].probability
        for part in windows
    ]
    if found.probability is not None:
        assert (
            min(p for p in near if p is not None) - 0.2
            <= found.probability
            <= max(p for p in near if p is not None) + 0.2
        )


def test_a_model_without_the_head_is_refused_not_made_up(folders):
    with pytest.raises(
        ModelError,
        match=r"RoBERTa-Large: its labels are LABEL_0, LABEL_1, expected one called 'entailment'",
    ):
        load_model(str(folders["roberta"]), device="cpu", family="nli")
    with pytest.raises(ModelError, match="T5ForConditionalGeneration is not an inference model"):
        load_model(str(folders["seq2seq"]), device="cpu", family="nli")


@pytest.mark.parametrize(
    ("name", "config", "family"),
    [
        ("lytang/MiniCheck-Flan-T5-Large", {"model_type": "t5"}, "minicheck-t5"),
        ("lytang/MiniCheck-RoBERTa-Large", {"model_type": "roberta"}, "minicheck"),
        ("lytang/MiniCheck-DeBERTa-v3-Large", {"model_type": "deberta-v2"}, "minicheck"),
        ("mine/AlignScore-large", {"model_type": "roberta"}, "alignscore"),
        ("google/t5_xxl_true_nli_mixture", {"model_type": "t5"}, "true"),
        ("microsoft/deberta-large-mnli", {"model_type": "deberta"}, "nli"),
        ("my-t5-like/roberta", {"model_type": "roberta"}, "nli"),
    ],
)
def test_families_by_name_and_by_config(name, config, family):
    assert family_of(name, config) == family
    assert family_of(name, config, "true") == "true"


def test_a_family_that_is_none():
    with pytest.raises(
        ConfigError, match=r"no family of models is called 'minichek'; did you mean minicheck"
    ):
        family_of("x", {}, "minichek")


def test_entailment_is_support_that_is_likelier_than_not(folders):
    assert load_entailment(str(folders["nli"]), 4, "cpu").entail(PAIRS) == [
        each > 0.5 for each in probabilities(folders["nli"])
    ]


def test_a_claim_that_leaves_no_room_is_not_asked_about(folders):
    (found,) = load_model(str(folders["nli"]), device="cpu").support(
        [EntailmentPair("Ada " * 2000, (ParsedPassage(TEXT, ""),))]
    )
    assert (found.probability, found.num_windows) == (None, 0)
    assert found.problem.startswith("the claim leaves no room for passages in")


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(ModelError, match=r"gone' cannot be loaded .*--nli lexical"):
        load_entailment(str(tmp_path / "gone"))
