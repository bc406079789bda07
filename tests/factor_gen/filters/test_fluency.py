"""The fluency filter's model: a GPT-2 that was trained on the sample's encyclopedia, and others
with random weights."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from factor_gen.filter_models import FluencyModel
from factor_gen.settings import FluencySettings
from lm_factuality.ground.errors import ModelError
from tests.tiny_models import save_opt

TEXTS = [
    "The house stood by the river.",
    "It was built in 1820, and all who came by ship saw it from the sea before they saw the town.",
    "Members wear brown gowns.",
    "A",
]


CONTEXTS = [
    "The town lay by the sea. \n",
    "",
    " \n ",
    "They asked the keeper for the key, and he said:",
]


def alone(model, texts):
    """The means of texts without a context."""
    return model.mean_logprobs(texts, [""] * len(texts))


def expected(folder, text, context=""):
    """The same of the text's tokens alone, in one pass, after as much of the context as the window
    leaves room for."""
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder).eval(),
    )
    before = (
        tokenizer(context.rstrip(), add_special_tokens=False)["input_ids"]
        if context.strip()
        else []
    )
    ids = tokenizer(f" {text}" if before else text, add_special_tokens=False)["input_ids"]
    before = before[max(0, len(before) - (model.config.max_position_embeddings - 1 - len(ids))) :]
    row = torch.tensor([[tokenizer.bos_token_id, *before, *ids]])
    assert row.shape[1] <= model.config.max_position_embeddings
    with torch.inference_mode():
        found = model(row).logits[0, :-1].log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
    return found[len(before) :].mean().item()


def test_batches_give_the_mean_of_the_log_probabilities_of_each_token(checkpoint):
    means = [expected(checkpoint, text) for text in TEXTS]
    assert max(means) - min(means) > 0.1
    for batch_size in (1, 32):
        model = FluencyModel(FluencySettings(str(checkpoint), batch_size=batch_size))
        assert alone(model, [*TEXTS, TEXTS[0]]) == pytest.approx([*means, means[0]], abs=1e-5)


def test_a_tokenizer_that_begins_texts_by_itself_does_not_do_so_twice(checkpoint, tmp_path):
    folder = save_opt(tmp_path / "opt", AutoTokenizer.from_pretrained(checkpoint))
    assert alone(FluencyModel(FluencySettings(str(folder))), TEXTS) == pytest.approx(
        [expected(folder, text) for text in TEXTS], abs=1e-5
    )


@pytest.mark.parametrize("shared", [True, False])
def test_only_the_tokens_of_the_sentence_count_after_its_context(checkpoint, monkeypatch, shared):
    if not shared:
        monkeypatch.setattr("factor_gen.filter_models.find_engine", lambda *_: None)
    pairs = [(text, context) for text in TEXTS for context in CONTEXTS]
    found = FluencyModel(FluencySettings(str(checkpoint))).mean_logprobs(*zip(*pairs, strict=True))
    assert found == pytest.approx(
        [expected(checkpoint, text, context) for text, context in pairs], abs=1e-5
    )
    for text, (first, empty, blank, last) in zip(
        TEXTS, zip(*[iter(found)] * 4, strict=True), strict=True
    ):
        assert empty == blank == pytest.approx(expected(checkpoint, text), abs=1e-5)
        assert len({round(each, 4) for each in (first, empty, last)}) == 3


def test_a_context_is_cut_from_the_left_at_the_window(checkpoint):
    model = FluencyModel(FluencySettings(str(checkpoint)))
    window = AutoModelForCausalLM.from_pretrained(checkpoint).config.n_positions
    long = f"Snow fell. {'The river rose by the town. ' * window}"
    (row, size), (whole, _) = model.encode([TEXTS[0]] * 2, [long, long.removeprefix("Snow fell. ")])
    assert len(row) == window
    assert row == whole  # the beginning is what is cut
    assert size == len(model.encode([f" {TEXTS[0]}"], [""])[0].tokens) - 1
    assert model.mean_logprobs([TEXTS[0]], [long]) == pytest.approx(
        [expected(checkpoint, TEXTS[0], long)], abs=1e-5
    )
    nearly = "the" + " the" * (window - 3)
    ((row, size),) = model.encode([nearly], [long])
    assert (len(row), size) == (window, window - 1 - (len(row) - 1 - size))
    assert math.isnan(
        model.mean_logprobs([nearly + " the" * 3], [long])[0]
    )  # no room for the sentence itself


def test_a_shared_beginning_is_computed_once(checkpoint):
    texts = [f"{TEXTS[1]} {end}" for end in ("He left.", "She left.", "He came back.")]
    model, seen = FluencyModel(FluencySettings(str(checkpoint))), []
    hook = model.model.register_forward_pre_hook(
        lambda *given: seen.append(given[2]["input_ids"].numel()), with_kwargs=True
    )
    scores = alone(model, texts)
    hook.remove()
    lengths = [size for _, size in model.encode(texts, [""] * 3)]
    assert sum(seen) < sum(lengths) - model.encode(TEXTS[1:2], [""])[0].num_scored - 1
    assert scores == pytest.approx([expected(checkpoint, text) for text in texts], abs=1e-5)


def test_what_cannot_be_scored_is_no_number(checkpoint):
    empty, endless, fine = alone(
        FluencyModel(FluencySettings(str(checkpoint))), ["", "the river " * 600, TEXTS[0]]
    )
    assert math.isnan(empty)
    assert math.isnan(endless)
    assert fine < 0


def test_models_that_cannot_be_used_are_refused(checkpoint, tmp_path):
    with pytest.raises(ModelError, match="cannot be loaded"):
        FluencyModel(FluencySettings(str(tmp_path / "nowhere")))
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    AutoModelForCausalLM.from_pretrained(checkpoint).save_pretrained(tmp_path / "speechless")
    tokenizer.bos_token = tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path / "speechless")
    with pytest.raises(ModelError, match="no token that begins or ends a text"):
        FluencyModel(FluencySettings(str(tmp_path / "speechless")))
