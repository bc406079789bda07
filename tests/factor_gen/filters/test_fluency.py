"""The fluency filter's model, whose scores are compared with those of transformers, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

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
"""Texts of different lengths."""

CONTEXTS = [
    "The town lay by the sea. \n",
    "",
    " \n ",
    "They asked the keeper for the key, and he said:",
]
"""Texts before a sentence. Two of them are empty or blank."""

MeanLogprob = Callable[..., float]
"""Returns the mean log-probability of a text after a context, in nats per token."""


def transformers_mean_logprob(folder: Path) -> MeanLogprob:
    """Return a function that scores one text at a time with a checkpoint and transformers alone.

    The context is cut so that it fits into the model's window with the text.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    window = model.config.max_position_embeddings

    def tokenise(text: str) -> list[int]:
        """Return the tokens of a text, without one that begins it."""
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def mean_logprob(text: str, context: str = "") -> float:
        """Return the mean log-probability of a text's tokens after a context."""
        context_tokens = tokenise(context.rstrip())
        tokens = tokenise(f" {text}" if context_tokens else text)
        # The token that begins a text takes one place.
        excess = len(context_tokens) + len(tokens) + 1 - window
        context_tokens = context_tokens[max(0, excess) :]
        input_ids = torch.tensor([[tokenizer.bos_token_id, *context_tokens, *tokens]])
        with torch.inference_mode():
            logprobs = model(input_ids).logits[0].log_softmax(-1)
        # The token at a position is predicted at the position before it.
        num_before = 1 + len(context_tokens)
        predictions = logprobs[num_before - 1 : -1]
        return predictions[range(len(tokens)), tokens].mean().item()

    return mean_logprob


@pytest.fixture(scope="module")
def expected_logprob(checkpoint: Path) -> MeanLogprob:
    """Return the scores of the sample's checkpoint by transformers alone."""
    return transformers_mean_logprob(checkpoint)


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> FluencyModel:
    """Return the sample's checkpoint as the filter's model."""
    return FluencyModel(FluencySettings(str(checkpoint)))


def mean_logprobs(
    model: FluencyModel, texts: Sequence[str], contexts: Sequence[str]
) -> list[float]:
    """Return the mean log-probability of each text. NaN for a text that has no scores."""
    means = []
    for scored in model.score(texts, contexts):
        means.append(math.nan if scored is None else float(scored.logprobs.mean()))
    return means


def score_without_context(model: FluencyModel, texts: Sequence[str]) -> list[float]:
    """Return the mean log-probabilities of texts that nothing stands before."""
    return mean_logprobs(model, texts, [""] * len(texts))


def test_tested_texts_have_different_scores(expected_logprob: MeanLogprob) -> None:
    """Otherwise the tests could not tell whose score is whose."""
    scores = [expected_logprob(text) for text in TEXTS]

    assert max(scores) - min(scores) > 0.1


@pytest.mark.parametrize("batch_size", [1, 32])
def test_batching_does_not_change_scores(
    checkpoint: Path, expected_logprob: MeanLogprob, batch_size: int
) -> None:
    """Padding in a batch must not change a score."""
    model = FluencyModel(FluencySettings(str(checkpoint), batch_size=batch_size))
    texts = [*TEXTS, TEXTS[0]]

    scores = score_without_context(model, texts)

    assert scores == pytest.approx([expected_logprob(text) for text in texts], abs=1e-5)


def test_start_token_is_not_added_twice(checkpoint: Path, tmp_path: Path) -> None:
    """A second token that begins the text would lower every score."""
    folder = save_opt(tmp_path / "opt", AutoTokenizer.from_pretrained(checkpoint))
    expected_logprob = transformers_mean_logprob(folder)

    scores = score_without_context(FluencyModel(FluencySettings(str(folder))), TEXTS)

    assert scores == pytest.approx([expected_logprob(text) for text in TEXTS], abs=1e-5)


@pytest.mark.parametrize("has_engine", [True, False], ids=["with engine", "without engine"])
def test_context_tokens_are_not_scored(
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected_logprob: MeanLogprob,
    has_engine: bool,
) -> None:
    """The mean is over the tokens of the sentence alone.

    An engine computes a shared context once. For some models there is none, and the context is
    computed with each sentence.
    """
    if not has_engine:
        monkeypatch.setattr("factor_gen.filter_models.build_tested_engine", lambda *_: None)
    model = FluencyModel(FluencySettings(str(checkpoint)))

    for context in CONTEXTS:
        scores = mean_logprobs(model, TEXTS, [context] * len(TEXTS))

        expected_scores = [expected_logprob(text, context) for text in TEXTS]
        assert scores == pytest.approx(expected_scores, abs=1e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_a_blank_context_counts_as_none(model: FluencyModel, text: str) -> None:
    [empty, blank] = mean_logprobs(model, [text, text], ["", " \n "])

    assert blank == empty


@pytest.mark.parametrize("text", TEXTS)
def test_the_score_depends_on_the_context(model: FluencyModel, text: str) -> None:
    """The same sentence has three different scores after nothing and after two other texts."""
    scores = mean_logprobs(model, [text] * 3, ["", CONTEXTS[0], CONTEXTS[3]])

    assert len({round(score, 4) for score in scores}) == 3


@pytest.fixture
def window(model: FluencyModel) -> int:
    """Return how many tokens the model reads at most."""
    return model.model.config.n_positions


@pytest.fixture
def long_context(window: int) -> str:
    """Return a context with more tokens than the model's window."""
    return "The river rose by the town. " * window


def test_a_long_context_is_cut_at_its_beginning(
    model: FluencyModel, window: int, long_context: str
) -> None:
    """The words next to a sentence matter most, so words far before it are cut off."""
    contexts = [long_context, f"Snow fell. {long_context}"]

    [encoded, encoded_with_snow] = model.encode([TEXTS[0]] * 2, contexts)

    assert len(encoded.tokens) == window
    assert encoded_with_snow.tokens == encoded.tokens


def test_no_token_of_a_sentence_after_a_long_context_is_cut(
    model: FluencyModel, checkpoint: Path, long_context: str
) -> None:
    """If both do not fit into the model's window, only the context is cut."""
    sentence = "The house stood by the river."

    [encoded] = model.encode([sentence], [long_context])

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokens = tokenizer(f" {sentence}", add_special_tokens=False)["input_ids"]
    assert encoded.num_scored == len(tokens)
    assert list(encoded.tokens[-len(tokens) :]) == tokens


def test_sentence_after_a_long_context_has_the_score_of_transformers(
    model: FluencyModel, long_context: str, expected_logprob: MeanLogprob
) -> None:
    """The reference cuts the context in the same way."""
    sentence = "The house stood by the river."

    [score] = mean_logprobs(model, [sentence], [long_context])

    assert score == pytest.approx(expected_logprob(sentence, long_context), abs=1e-5)


def test_long_sentence_keeps_the_end_of_its_context(
    model: FluencyModel, window: int, long_context: str
) -> None:
    """The window has room for a beginning token, one token of context and the sentence."""
    num_tokens_of_sentence = window - 2
    sentence = "the" + " the" * (num_tokens_of_sentence - 1)

    [encoded] = model.encode([sentence], [long_context])

    assert len(encoded.tokens) == window
    assert encoded.num_scored == num_tokens_of_sentence


def test_sentence_longer_than_the_window_has_no_score(
    model: FluencyModel, window: int, long_context: str
) -> None:
    """A score of the beginning of the sentence would look like a score of all of it."""
    sentence = "the" + " the" * window

    [score] = mean_logprobs(model, [sentence], [long_context])

    assert math.isnan(score)


@pytest.fixture
def computed_tokens(model: FluencyModel) -> Iterator[list[int]]:
    """Return a list that gets the number of tokens of each pass through the model."""
    counts: list[int] = []

    def count_tokens(module: object, arguments: object, options: dict[str, torch.Tensor]) -> None:
        """Count the tokens that go into a pass of the model."""
        counts.append(options["input_ids"].numel())

    hook = model.model.register_forward_pre_hook(count_tokens, with_kwargs=True)
    yield counts
    hook.remove()


def test_a_shared_beginning_is_computed_once(
    model: FluencyModel, computed_tokens: list[int]
) -> None:
    """Contradictions share most words with their sentence, so that this saves time."""
    beginning = "It was built in 1820, and all who came by ship saw it from the sea."
    texts = [f"{beginning} He left.", f"{beginning} She left.", f"{beginning} He came back."]

    score_without_context(model, texts)

    encoded_texts = model.encode(texts, [""] * 3)
    [encoded_beginning] = model.encode([beginning], [""])
    num_tokens_one_by_one = sum(encoded.num_scored for encoded in encoded_texts)
    # The beginning is computed once, and not three times.
    num_saved = 2 * encoded_beginning.num_scored
    assert sum(computed_tokens) <= num_tokens_one_by_one - num_saved


def test_texts_with_a_shared_beginning_have_the_scores_of_transformers(
    model: FluencyModel, expected_logprob: MeanLogprob
) -> None:
    """The shared words are computed once."""
    beginning = "It was built in 1820, and all who came by ship saw it from the sea."
    texts = [f"{beginning} He left.", f"{beginning} She left.", f"{beginning} He came back."]

    scores = score_without_context(model, texts)

    assert scores == pytest.approx([expected_logprob(text) for text in texts], abs=1e-5)


@pytest.mark.parametrize(
    "text", [pytest.param("", id="empty"), pytest.param("the river " * 600, id="too long")]
)
def test_unscorable_text_gets_nan(model: FluencyModel, text: str) -> None:
    """NaN is below every limit, so the text is rejected."""
    [score, other_score] = score_without_context(model, [text, TEXTS[0]])

    assert math.isnan(score)
    # It does not spoil the score of another text.
    assert other_score < 0


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        FluencyModel(FluencySettings(str(tmp_path / "nowhere")))


def test_model_without_start_and_end_tokens_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Without one, the first token of a sentence would have no probability."""
    AutoModelForCausalLM.from_pretrained(checkpoint).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.bos_token = None
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)

    with pytest.raises(ModelError, match="no token that begins or ends a text"):
        FluencyModel(FluencySettings(str(tmp_path)))
