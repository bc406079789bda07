"""Probabilities of support, beside what the bare models give for the inputs of their authors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from judges.inference import (
    EntailmentPair,
    PassageCutter,
    WindowSupport,
    family_of,
    load_entailment,
)
from judges.inference.models import load_model
from judges.lexical.words import ParsedPassage
from lm_factuality.ground.errors import ConfigError, ModelError
from tests.judges.inference.examples import CLAIMS, TEXT, TITLE

# Each claim is judged by the passage without a title, and by the passage with one.
PREMISES = [TEXT, f"Title: {TITLE}\n{TEXT}"]
PREMISES_AND_CLAIMS = [(premise, claim) for claim in CLAIMS for premise in PREMISES]
PAIRS = [
    EntailmentPair(claim, (ParsedPassage(TEXT, title),))
    for claim in CLAIMS
    for title in ("", TITLE)
]


def probabilities_of_pairs(folder: Path, **options) -> list[float]:
    """Let the suite ask a model about ``PAIRS``, and return the probabilities of support."""
    supports = load_model(str(folder), device="cpu", **options).support(PAIRS)
    for support in supports:
        assert support.num_windows == 1
        assert support.problem == ""
    return [support.probability for support in supports]


def classify(folder: Path, *texts: str) -> torch.Tensor:
    """Return the logits that transformers alone gets for one text, or for a pair of texts."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).logits[0]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("kind", ["roberta", "deberta"])
def test_minicheck_reads_premise_and_claim_as_one_text(model_folders, kind, batch_size):
    """MiniCheck's authors join the two texts by the mark ``</s>``, and label 1 means support."""
    probabilities = probabilities_of_pairs(model_folders[kind], batch_size=batch_size)

    expected_probabilities = []
    for premise, claim in PREMISES_AND_CLAIMS:
        logits = classify(model_folders[kind], f"{premise}</s>{claim}")
        expected_probabilities.append(logits.softmax(-1)[1].item())
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)
    # A model that gives every input the same probability could not show a wrong input.
    assert max(probabilities) - min(probabilities) > 1e-3


def test_nli_model_reads_pairs_and_treats_entailment_as_support(model_folders):
    """The label is found by its name, because models number their labels differently."""
    probabilities = probabilities_of_pairs(model_folders["nli"])

    expected_probabilities = []
    for premise, claim in PREMISES_AND_CLAIMS:
        _, entailment, _ = classify(model_folders["nli"], premise, claim).softmax(-1)
        expected_probabilities.append(entailment.item())
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)


def test_alignscore_reads_pairs_and_treats_the_first_label_as_support(model_folders):
    """The authors of AlignScore put "aligned" first."""
    probabilities = probabilities_of_pairs(model_folders["roberta"], family="alignscore")

    expected_probabilities = []
    for premise, claim in PREMISES_AND_CLAIMS:
        aligned, _ = classify(model_folders["roberta"], premise, claim).softmax(-1)
        expected_probabilities.append(aligned.item())
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)


def test_a_single_label_is_a_score(model_folders):
    """A model with one label was trained with a sigmoid and not with a softmax."""
    probabilities = probabilities_of_pairs(model_folders["single label"])

    expected_probabilities = []
    for premise, claim in PREMISES_AND_CLAIMS:
        logits = classify(model_folders["single label"], premise, claim)
        expected_probabilities.append(logits.sigmoid().item())
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)


def first_word_support(folder: Path, prompt: str) -> float | None:
    """Return how probable "1" is beside "0" as the first word that a T5 generates.

    It is None if neither of the two is likely.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    with torch.no_grad():
        output = model.generate(
            **tokenizer(prompt, return_tensors="pt", return_token_type_ids=False),
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    probabilities = output.logits[0][0].softmax(-1)
    zero, one = probabilities[tokenizer.convert_tokens_to_ids(["0", "1"])].tolist()
    if zero + one < 0.5:
        return None
    return one / (zero + one)


@pytest.mark.parametrize(
    ("model_name", "prompt_template"),
    [
        ("MiniCheck-Flan-T5-Large", "predict: {premise}</s>{claim}"),
        ("t5_true_nli_mixture", "premise: {premise} hypothesis: {claim}"),
    ],
)
def test_the_probability_of_a_t5_is_that_of_writing_1_and_not_0(
    model_folders, tmp_path, model_name, prompt_template
):
    """Both models were trained to write one of the two numbers after such a prompt."""
    folder = tmp_path / model_name
    shutil.copytree(model_folders["seq2seq"], folder)

    supports = load_model(str(folder), device="cpu").support(PAIRS)

    probabilities = [support.probability for support in supports]
    expected_probabilities = []
    for premise, claim in PREMISES_AND_CLAIMS:
        prompt = prompt_template.format(premise=premise, claim=claim)
        expected_probabilities.append(first_word_support(folder, prompt))
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)
    assert set(probabilities) != {None}


def test_a_t5_that_writes_another_word_has_no_probability(model_folders, tmp_path):
    """The share of "1" among two unlikely words would look like a probability."""
    folder = tmp_path / "MiniCheck-Flan-T5-Large"
    tokenizer = AutoTokenizer.from_pretrained(model_folders["seq2seq"])
    model = AutoModelForSeq2SeqLM.from_pretrained(model_folders["seq2seq"])
    with torch.no_grad():
        # All words are equally likely, so "0" and "1" are two of 64.
        model.lm_head.weight.zero_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    pair = EntailmentPair("Ada Lind was a pilot.", (ParsedPassage("Ada Lind was a painter.", ""),))
    supports = load_model(str(folder), device="cpu").support([pair])

    assert supports == [
        WindowSupport(probability=None, num_windows=1, problem="the model answers neither 1 nor 0")
    ]


def support_of_each_window(
    folder: Path, claim: str, passage: ParsedPassage, window_tokens: int
) -> list[float]:
    """Ask a model about a claim by each window of a passage, as if it were a passage by itself.

    A window for which the model gives no probability has 0.
    """
    cutter = PassageCutter(AutoTokenizer.from_pretrained(folder))
    windows = cutter.windows((passage,), window_tokens)
    pairs = [EntailmentPair(claim, (ParsedPassage(window, ""),)) for window in windows]
    supports = load_model(str(folder), device="cpu", window=window_tokens).support(pairs)
    return [support.probability or 0.0 for support in supports]


@pytest.mark.parametrize("kind", ["roberta", "deberta", "seq2seq", "nli"])
def test_the_most_supportive_window_of_a_long_passage_counts(model_folders, kind):
    """The evidence stands in one place of a long text, and the other windows say nothing."""
    sentences = (
        "Ada Lind was a painter who taught at the school."
        " Ada Lind was a pilot who taught at the school."
        " Ada Lind flew mail to the islands. She was not in the north. "
    )
    long_passage = ParsedPassage(12 * sentences, "Ada Lind")
    claim = "Ada Lind was a pilot."
    model = load_model(str(model_folders[kind]), device="cpu", window=60, batch_size=4)

    (support,) = model.support([EntailmentPair(claim, (long_passage,))])

    window_probabilities = support_of_each_window(
        model_folders[kind], claim, long_passage, window_tokens=60
    )
    assert len(window_probabilities) > 8
    assert support.num_windows == len(window_probabilities)
    assert support.probability == pytest.approx(max(window_probabilities), abs=1e-5)


def test_a_classifier_without_a_label_for_entailment_is_refused(model_folders):
    """Taking some other label would turn verdicts round without notice."""
    with pytest.raises(
        ModelError,
        match=r"RoBERTa-Large: its labels are LABEL_0, LABEL_1, expected one called 'entailment'",
    ):
        load_model(str(model_folders["roberta"]), device="cpu", family="nli")


def test_generative_model_is_refused_as_a_classifier(model_folders):
    """A T5 has no labels, and its first logits would be taken for a verdict."""
    with pytest.raises(ModelError, match="T5ForConditionalGeneration is not an inference model"):
        load_model(str(model_folders["seq2seq"]), device="cpu", family="nli")


@pytest.mark.parametrize(
    ("model_name", "model_type", "family"),
    [
        ("lytang/MiniCheck-Flan-T5-Large", "t5", "minicheck-t5"),
        ("lytang/MiniCheck-RoBERTa-Large", "roberta", "minicheck"),
        ("lytang/MiniCheck-DeBERTa-v3-Large", "deberta-v2", "minicheck"),
        ("mine/AlignScore-large", "roberta", "alignscore"),
        ("google/t5_xxl_true_nli_mixture", "t5", "true"),
        ("microsoft/deberta-large-mnli", "deberta", "nli"),
        pytest.param("my-t5-like/roberta", "roberta", "nli", id="the owner's name does not count"),
    ],
)
def test_the_family_of_a_model_follows_from_its_name_and_type(model_name, model_type, family):
    """The family says which input the authors trained with, and which output is support."""
    assert family_of(model_name, {"model_type": model_type}) == family


def test_explicit_family_overrides_the_detected_family():
    """A fine-tuned model may have any name."""
    name_of_another_family = "lytang/MiniCheck-RoBERTa-Large"

    family = family_of(name_of_another_family, {"model_type": "roberta"}, stated_family="nli")

    assert family == "nli"


def test_an_unknown_family_is_refused_with_the_nearest_name():
    """Most unknown names are typing errors."""
    with pytest.raises(
        ConfigError, match=r"no family of models is called 'minichek'; did you mean minicheck"
    ):
        family_of("x", {}, "minichek")


def test_entailment_means_support_above_one_half(model_folders):
    """Where a program needs yes or no, one half is the threshold."""
    verdicts = load_entailment(str(model_folders["nli"])).entail(PAIRS)

    probabilities = probabilities_of_pairs(model_folders["nli"])
    assert verdicts == [probability > 0.5 for probability in probabilities]


def test_claim_filling_the_window_has_no_probability(model_folders):
    """The model would judge the claim without any evidence."""
    very_long_claim = "Ada " * 2000  # words, and the model reads 128 tokens
    pair = EntailmentPair(very_long_claim, (ParsedPassage(TEXT, ""),))

    (support,) = load_model(str(model_folders["nli"]), device="cpu").support([pair])

    assert support.probability is None
    assert support.num_windows == 0
    assert support.problem.startswith("the claim leaves no room for passages in")


def test_a_model_that_does_not_exist_is_refused_with_advice(tmp_path):
    """The advice names the offline alternative, ``--nli lexical``."""
    with pytest.raises(ModelError, match=r"gone' cannot be loaded .*--nli lexical"):
        load_entailment(str(tmp_path / "gone"))
