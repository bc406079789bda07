"""The model of the check by NLI, whose probabilities are compared with those of transformers."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from factor_gen.contradiction.nli import ContradictionPair, NliModel
from factor_gen.settings import NliSettings
from lm_factuality.ground.errors import ModelError
from tests.factor_gen.tiny import save_deberta
from tests.tiny_models import save_gpt2

WINDOW = 256
"""How many tokens the tiny DeBERTa reads at most."""

CONTEXT = (
    "The academy stands on a hill. Its members wear brown gowns, and they meet in the hall every"
    " spring. "
)


def make_pairs() -> list[ContradictionPair]:
    """Return 18 pairs of different lengths, after contexts of different lengths."""
    pairs = []
    for context in ("", CONTEXT, CONTEXT * 2):
        for subject in ("house", "old bridge of the northern town", "hall"):
            built = f"The {subject} was built in"
            pairs.append(
                ContradictionPair(
                    context, f"{built} 1820 by the river.", f"{built} 1832 by the river."
                )
            )
            pairs.append(
                ContradictionPair(
                    context,
                    f"{built} 1911 by the river.",
                    f"{built} 1923 by the sea, where it was seen by all who came by ship.",
                )
            )
    return pairs


PAIRS = make_pairs()

ClassProbabilities = Callable[[ContradictionPair], list[float]]
"""Returns the probability of each of a model's labels for a pair."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """Return the folder of a tiny DeBERTa, whose first label is contradiction."""
    return save_deberta(tmp_path_factory.mktemp("deberta"), checkpoint, places=WINDOW)


@pytest.fixture(scope="module")
def class_probabilities(folder: Path) -> ClassProbabilities:
    """Return a function that scores one pair at a time with transformers alone."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    def score(pair: ContradictionPair) -> list[float]:
        """Return the probability of each label for one pair."""
        premise = pair.context + pair.completion
        hypothesis = pair.context + pair.contradiction
        with torch.inference_mode():
            logits = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0]
        return logits.softmax(-1).tolist()

    return score


def test_tested_pairs_have_different_probabilities(
    class_probabilities: ClassProbabilities,
) -> None:
    """Otherwise the tests could not tell whose probability is whose."""
    probabilities = [class_probabilities(pair)[0] for pair in PAIRS]

    assert max(probabilities) - min(probabilities) > 0.01


@pytest.mark.parametrize("batch_size", [1, 32])
def test_batching_does_not_change_probabilities(
    folder: Path, class_probabilities: ClassProbabilities, batch_size: int
) -> None:
    """Padding in a batch must not change a probability."""
    model = NliModel(NliSettings(str(folder), batch_size=batch_size))

    probabilities = model.contradiction_probabilities(PAIRS)

    expected_probabilities = [class_probabilities(pair)[0] for pair in PAIRS]
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "contradiction_index"),
    [
        (("contradiction", "neutral", "entailment"), 0),
        (("Neutral", "Contradictory", "Entailment"), 1),
        (("entailment", "neutral", "contradiction"), 2),
    ],
)
def test_the_output_for_contradictions_is_found_by_its_label(
    checkpoint: Path,
    tmp_path: Path,
    class_probabilities: ClassProbabilities,
    labels: Sequence[str],
    contradiction_index: int,
) -> None:
    """Models have their three outputs in different orders.

    The model of this test has the same weights, and so the same outputs, as the model of
    `class_probabilities`. Only the labels of its outputs differ.
    """
    model_folder = save_deberta(tmp_path, checkpoint, labels, places=WINDOW)

    probabilities = NliModel(NliSettings(str(model_folder))).contradiction_probabilities(PAIRS)

    expected_probabilities = [class_probabilities(pair)[contradiction_index] for pair in PAIRS]
    assert probabilities == pytest.approx(expected_probabilities, abs=1e-5)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(("LABEL_0", "LABEL_1", "LABEL_2"), id="no names"),
        pytest.param(("entailment", "neutral", "not_entailment"), id="no contradiction"),
        pytest.param(("contradiction", "contradictory", "x"), id="two contradictions"),
    ],
)
def test_unnamed_labels_are_refused(folder: Path, tmp_path: Path, labels: Sequence[str]) -> None:
    """If the suite guessed wrong, it would keep true sentences and reject contradictions."""
    relabelled = shutil.copytree(folder, tmp_path / "relabelled")
    config = json.loads((relabelled / "config.json").read_text())
    config["id2label"] = dict(enumerate(labels))
    config["label2id"] = {label: number for number, label in enumerate(labels)}
    (relabelled / "config.json").write_text(json.dumps(config))

    with pytest.raises(ModelError, match="id2label"):
        NliModel(NliSettings(str(relabelled)))


def test_premise_and_hypothesis_lose_the_same_start_of_a_long_context(folder: Path) -> None:
    """Premise and hypothesis must have the same context, so that they differ in the edit alone."""
    pair = ContradictionPair(
        context=CONTEXT * 9,
        completion="The house was built in 1820 by the river.",
        contradiction="The house was built in 1832 by the river.",
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    premise = tokenizer.tokenize(pair.context + pair.completion)
    hypothesis = tokenizer.tokenize(pair.context + pair.contradiction)
    # [CLS] and two [SEP] take three places. An odd token is cut on both sides.
    num_excess = len(premise) + len(hypothesis) + 3 - WINDOW
    num_cut = math.ceil(num_excess / 2)
    assert num_excess > 20

    [encoded] = NliModel(NliSettings(str(folder))).encode([pair])

    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == [
        tokenizer.cls_token,
        *premise[num_cut:],
        tokenizer.sep_token,
        *hypothesis[num_cut:],
        tokenizer.sep_token,
    ]


def test_all_inputs_of_a_cut_pair_have_the_same_length(folder: Path) -> None:
    """The attention mask has to be cut like the tokens that it belongs to."""
    pair = ContradictionPair(
        context=CONTEXT * 9,
        completion="The house was built in 1820 by the river.",
        contradiction="The house was built in 1832 by the river.",
    )

    [encoded] = NliModel(NliSettings(str(folder))).encode([pair])

    lengths = {name: len(values) for name, values in encoded.items()}
    assert lengths == {"input_ids": 256, "attention_mask": 256}


def test_pair_longer_than_the_window_gets_nan(folder: Path) -> None:
    """NaN is below every threshold, so the contradiction is rejected."""
    long_pair = ContradictionPair(
        CONTEXT, "The house stood by the river. " * 40, "The house stood by the sea. " * 40
    )
    model = NliModel(NliSettings(str(folder)))

    [probability, other_probability] = model.contradiction_probabilities([long_pair, PAIRS[0]])

    assert math.isnan(probability)
    assert 0 <= other_probability <= 1


def test_model_without_classification_head_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    language_model = save_gpt2(tmp_path / "gpt2", AutoTokenizer.from_pretrained(checkpoint))

    with pytest.raises(ModelError, match="GPT2LMHeadModel is not an inference model"):
        NliModel(NliSettings(str(language_model)))


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        NliModel(NliSettings(str(tmp_path / "nowhere")))
