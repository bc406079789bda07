"""DoLa and contrastive decoding share positions, and give the scores of their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
)

from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.harness.requests import scored_loglikelihood
from lm_factuality.models.decoding import DoLa, choose_layers
from lm_factuality.models.hf_decoding import HFContrastive, HFDoLa
from lm_factuality.models.hf_tree import TokenRequest
from lm_factuality.models.tree.packed import PackedEngine
from tests.conftest import TASKS
from tests.models.architectures import (
    POSITIONS,
    answers_of,
    assert_same_answers,
    build_model,
    largest_difference,
    logprobs_of,
    make_requests,
)
from tests.models.decoding_reference import (
    ContrastiveSettings,
    DolaSettings,
    contrastive_scores,
    dola_scores,
    jensen_shannon_divergence,
)
from tests.tiny_models import save_gpt2, save_t5

LARGER = str(TASKS / "sample" / "models" / "larger")
SMALLER = str(TASKS / "sample" / "models" / "smaller")
LAST_EARLY_LAYER = 3
"""The last layer of the larger checkpoint before its final one."""
OPTIONS = {"pretrained": LARGER, "device": "cpu", "dtype": "float32"}

SCORE_TOLERANCE = 2e-4
"""The largest difference of scores by rounding, in nats per token.

It would be larger if rounding decided whether a token is plausible, which happens in no case here.
"""

PROMPTS = (
    "The library opened in",
    # The prompts of a batch are padded to the length of the longest one.
    "A keeper of the northern library was born in the year",
)


def answer_of(scores: Tensor, continuation: Sequence[int]) -> tuple[float, bool]:
    """Return the answer to a request: its score, and whether it is the best at each position.

    Args:
        scores: The score of every token at each position of the continuation.
        continuation: The tokens of the continuation.
    """
    targets = torch.tensor(continuation)
    target_scores = scores[torch.arange(len(continuation)), targets]
    is_greedy = bool((scores.argmax(-1) == targets).all())
    return float(target_scores.sum()), is_greedy


def dola_answers(
    model: PreTrainedModel,
    requests: Sequence[TokenRequest],
    settings: DolaSettings,
    max_length: int,
    head: Callable[[Tensor], Tensor] | None = None,
) -> list[tuple[float, bool]]:
    """Answer requests by the definition of DoLa, each by itself.

    Args:
        model: The model.
        requests: The requests.
        settings: The options of DoLa.
        max_length: The number of tokens that the model sees.
        head: Turns hidden states of early layers into logits. Defaults to the model's output
            embeddings.
    """
    answers = []
    for _, context, continuation in requests:
        tokens = [*context, *continuation][-max_length - 1 : -1]
        with torch.no_grad():
            output = model(torch.tensor([tokens]), output_hidden_states=True)
            length = len(continuation)
            scores = dola_scores(
                [state[0, -length:] for state in output.hidden_states],
                output.logits[0, -length:],
                head or model.get_output_embeddings(),
                settings,
            )
        answers.append(answer_of(scores, continuation))
    return answers


def make_dola(
    model: PreTrainedModel, checkpoint: Path, settings: DolaSettings, **options
) -> HFDoLa:
    """Return ``hf-dola`` around a model. The tokenizer of the checkpoint is not used."""
    return HFDoLa(
        model,
        tokenizer=AutoTokenizer.from_pretrained(checkpoint),
        max_length=POSITIONS,
        batch_size=2,
        **settings._asdict(),
        **options,
    )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(DolaSettings(layers=[0, 1, 2, 3]), id="several layers"),
        pytest.param(DolaSettings(layers=[2]), id="one layer"),
        pytest.param(DolaSettings(layers=[0, 1, 3], formula="code"), id="formula of the code"),
        pytest.param(DolaSettings(layers=[1, 3], relative_top=0), id="all tokens plausible"),
        pytest.param(DolaSettings(layers=[1, 3], softmax=False), id="no softmax"),
    ],
)
def test_dola_scores_match_the_reference_implementation(settings, checkpoint):
    """The reference in ``decoding_reference.py`` computes one position after the other."""
    model = build_model("llama")
    lm = make_dola(model, checkpoint, settings)
    requests = make_requests(25)

    answers = answers_of(lm, requests)

    assert isinstance(lm.engine, PackedEngine)
    expected = dola_answers(model, requests, settings, POSITIONS)
    assert_same_answers(answers, expected, requests, SCORE_TOLERANCE)


def test_soft_cap_also_applies_to_logits_of_early_layers(checkpoint):
    """Without it, the logits of early layers would be larger than those of the last one."""
    model = build_model("gemma2-softcap")
    settings = DolaSettings(layers=[0, 1], relative_top=0)
    lm = make_dola(model, checkpoint, settings)
    requests = make_requests(25)
    cap = model.config.final_logit_softcapping
    output_embeddings = model.get_output_embeddings()

    def capped_head(states: Tensor) -> Tensor:
        return torch.tanh(output_embeddings(states) / cap) * cap

    answers = answers_of(lm, requests)

    assert isinstance(lm.engine, PackedEngine)
    expected = dola_answers(model, requests, settings, POSITIONS, capped_head)
    assert_same_answers(answers, expected, requests, SCORE_TOLERANCE)


def test_models_without_shared_positions_are_refused(checkpoint):
    """Scores need the hidden states of early layers, which only the shared passes record."""
    lm = make_dola(build_model("gpt-neo-local"), checkpoint, DolaSettings(layers=[0, 1]))

    with pytest.raises(ConfigError, match="GPTNeoForCausalLM cannot share positions"):
        answers_of(lm, make_requests(2))


def test_the_final_norm_can_be_applied_to_early_layers(checkpoint):
    """With the option ``norm``, states of early layers are normalised like those of the last one."""
    model = build_model("llama")
    settings = DolaSettings(layers=[1, 2])
    lm = make_dola(model, checkpoint, settings, norm=True)
    requests = make_requests(10)
    output_embeddings = model.get_output_embeddings()

    def head_with_norm(states: Tensor) -> Tensor:
        return output_embeddings(model.model.norm(states))

    answers = answers_of(lm, requests)

    expected = dola_answers(model, requests, settings, POSITIONS, head_with_norm)
    assert_same_answers(answers, expected, requests, SCORE_TOLERANCE)
    without_norm = dola_answers(model, requests, settings, POSITIONS)
    logprobs = logprobs_of(answers)
    assert largest_difference(logprobs, logprobs_of(without_norm), requests) > 0.1


@pytest.fixture(scope="module")
def real_dola() -> HFDoLa:
    """Return ``hf-dola`` with a real checkpoint, whose layers are named as on the command line."""
    return HFDoLa(**OPTIONS, batch_size=3, layers="0+1")


@pytest.fixture(scope="module")
def dola_logprob(real_dola):
    """Return a function that gives the score of a text after a context by the definition."""

    def score(context: str, continuation: str) -> float:
        tokenizer = real_dola.tokenizer
        all_tokens = tokenizer.encode(context + continuation)
        if context:
            context_tokens = tokenizer.encode(context)
            continuation_tokens = all_tokens[len(context_tokens) :]
        else:
            context_tokens = [real_dola.prefix_token_id]
            continuation_tokens = all_tokens
        request = (None, context_tokens, continuation_tokens)
        settings = DolaSettings(layers=[0, 1])
        (answer,) = dola_answers(real_dola.model, [request], settings, real_dola.max_length)
        return answer[0]

    return score


def test_layers_are_read_from_the_command_line(real_dola):
    """The option was ``layers="0+1"``, since commas separate the options of lm_eval."""
    assert real_dola.method.layers == [0, 1]


TEXTS = pytest.mark.parametrize(
    ("context", "continuation"),
    [
        pytest.param(
            "The library opened in 1870.",
            " Its first keeper was a baker from the north.",
            id="long",
        ),
        pytest.param("The library opened in 1870.", " It closed.", id="short"),
    ],
)


@TEXTS
def test_lm_eval_requests_get_dola_scores(real_dola, dola_logprob, context, continuation):
    """Tasks of lm_eval ask for log-likelihoods in another way than those of the suite."""
    request = Instance("loglikelihood", {}, (context, continuation), 0)

    ((logprob, _),) = real_dola.loglikelihood([request], disable_tqdm=True)

    assert logprob == pytest.approx(dola_logprob(context, continuation), abs=2e-3)


@TEXTS
def test_suite_requests_get_dola_scores(real_dola, dola_logprob, context, continuation):
    """FACTOR's tasks ask for scores within a window, here of 1,024 tokens."""
    request = Instance("scored_loglikelihood", {}, (context, continuation, 1024), 0)

    (answer,) = scored_loglikelihood(real_dola, [request], disable_tqdm=True)

    assert answer.logprob == pytest.approx(dola_logprob(context, continuation), abs=2e-3)


def test_batched_suite_requests_get_dola_scores(real_dola, dola_logprob):
    """Requests of one batch share positions and must not see each other."""
    texts = [
        ("The library opened in 1870. ", "Its first keeper was a sailor."),
        ("The library opened in 1870.", " It closed."),
        ("", "A keeper."),
    ]
    requests = [Instance("scored_loglikelihood", {}, (*text, 1024), 0) for text in texts]

    answers = scored_loglikelihood(real_dola, requests, disable_tqdm=True)

    expected = [dola_logprob(context, continuation) for context, continuation in texts]
    assert [answer.logprob for answer in answers] == pytest.approx(expected, abs=2e-3)


def test_whole_texts_get_dola_scores(real_dola, dola_logprob):
    """Perplexity tasks score texts without any context."""
    request = Instance("loglikelihood_rolling", {}, ("A keeper.",), 0)

    (logprob,) = real_dola.loglikelihood_rolling([request], disable_tqdm=True)

    assert logprob == pytest.approx(dola_logprob("", "A keeper."), abs=2e-3)


def random_logits() -> Tensor:
    """Return random logits of 500 tokens at 200 positions, which prefer few tokens strongly."""
    return torch.randn(200, 500, dtype=torch.float64) * 12


def test_nearly_equal_divergences_of_layers_are_ranked_correctly_in_float32():
    """DoLa chooses the layer with the largest divergence, also if two differ by only 1e-9."""
    torch.manual_seed(0)
    last_logits = random_logits()
    early_logits = [random_logits() for _ in range(4)]
    dola = DoLa(layers=[0, 1, 2, 3], relative_top=0)

    def compute_divergences(dtype: torch.dtype) -> Tensor:
        last_layer = last_logits.to(dtype).log_softmax(-1)
        early_layers = [logits.to(dtype).log_softmax(-1) for logits in early_logits]
        return torch.stack([dola._divergence(last_layer, layer) for layer in early_layers])

    float64_divergences = compute_divergences(torch.float64)
    # The maximum is 0. At many positions all layers are so near to it that they hardly differ.
    assert (float64_divergences.amax(0) > -1e-4).sum() > 50

    float32_divergences = compute_divergences(torch.float32)

    assert torch.equal(float32_divergences.argmax(0), float64_divergences.argmax(0))


def test_divergence_is_jensen_shannon_minus_log_2():
    """Most layers diverge by nearly log 2, and float32 keeps more digits of numbers near 0."""
    torch.manual_seed(0)
    first = random_logits().log_softmax(-1)
    second = random_logits().log_softmax(-1)

    divergences = DoLa(layers=[0])._divergence(first, second)

    expected = [
        jensen_shannon_divergence(first_probabilities, second_probabilities) - math.log(2)
        for first_probabilities, second_probabilities in zip(first.exp(), second.exp(), strict=True)
    ]
    assert divergences.tolist() == pytest.approx(expected, abs=1e-9)


def generate(lm: HFLM, num_tokens: int) -> list[str]:
    """Return what a model generates greedily after each of `PROMPTS`."""
    options = {"until": ["zzzz"], "max_gen_toks": num_tokens, "do_sample": False}
    requests = [Instance("generate_until", {}, (prompt, options), 0) for prompt in PROMPTS]
    return lm.generate_until(requests, disable_tqdm=True)


def generate_by_scores(
    score_next: Callable[[list[int]], Tensor], tokenizer, prompt: str, num_tokens: int
) -> str:
    """Return the text that takes the token with the best score at each step.

    Args:
        score_next: Scores every possible token after some tokens.
        tokenizer: The tokenizer of the model.
        prompt: The text before.
        num_tokens: The most tokens to generate.
    """
    tokens = tokenizer.encode(prompt)
    num_prompt_tokens = len(tokens)
    for _ in range(num_tokens):
        best_token = int(score_next(tokens).argmax())
        if best_token == tokenizer.eos_token_id:
            break
        tokens.append(best_token)
    return tokenizer.decode(tokens[num_prompt_tokens:])


@pytest.mark.parametrize("relative_top", [0.1, 0])
def test_generation_picks_the_tokens_with_the_best_dola_scores(real_dola, relative_top):
    """Generation and scoring must use the same scores, or benchmarks of both kinds disagree."""
    settings = DolaSettings(layers=[LAST_EARLY_LAYER], relative_top=relative_top)
    model = real_dola.model

    def score_next(tokens: list[int]) -> Tensor:
        with torch.no_grad():
            output = model(torch.tensor([tokens]), output_hidden_states=True)
            states = [state[0, -1:] for state in output.hidden_states]
            head = model.get_output_embeddings()
            return dola_scores(states, output.logits[0, -1:], head, settings)[0]

    expected = [
        generate_by_scores(score_next, real_dola.tokenizer, prompt, num_tokens=6)
        for prompt in PROMPTS
    ]
    lm = HFDoLa(**OPTIONS, batch_size=3, layers=LAST_EARLY_LAYER, relative_top=relative_top)

    texts = generate(lm, num_tokens=6)

    assert texts == expected


def test_generation_with_dola_differs_from_plain_generation():
    """DoLa has an effect only if its tokens differ from those of the plain model."""
    dola = HFDoLa(**OPTIONS, batch_size=3, layers=LAST_EARLY_LAYER, relative_top=0)
    hf = HFLM(**OPTIONS, batch_size=3)

    dola_texts = generate(dola, num_tokens=6)
    plain_texts = generate(hf, num_tokens=6)

    assert dola_texts != plain_texts


def test_results_record_the_options_of_dola(real_dola):
    """Scores by DoLa depend on each of them, so a result without them cannot be repeated."""
    decoding = real_dola.get_model_info()["decoding"]

    assert decoding == {
        "method": "DoLa",
        "layers": [0, 1],
        "early_exit_layer": None,
        "relative_top": 0.1,
        "relative_top_value": -1000.0,
        "softmax": True,
        "norm": False,
        "formula": "paper",
    }


@pytest.mark.parametrize(
    "changed_option",
    [
        {"layers": "1"},
        {"relative_top": 0.2},
        {"softmax": False},
        {"norm": True},
        {"formula": "code"},
    ],
    ids=str,
)
def test_changed_option_does_not_reuse_cached_answers(real_dola, changed_option):
    """lm_eval's cache knows only the model, whose scores depend on these options."""
    options = {"layers": "0+1", **changed_option}

    lm = HFDoLa(**OPTIONS, **options)

    assert lm.cache_identity != real_dola.cache_identity


@pytest.mark.parametrize(
    ("layers", "num_layers", "has_tied_embeddings", "expected"),
    [
        # The authors' candidates for LLaMA-7B, 13B and 65B.
        pytest.param("low", 32, False, [0, 2, 4, 6, 8, 10, 12, 14], id="low of 32"),
        pytest.param("low", 40, False, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18], id="low of 40"),
        pytest.param("low", 80, False, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18], id="low of 80"),
        # With tied embeddings, the embedding layer predicts the token that is read.
        pytest.param("low", 30, True, [2, 4, 6, 8, 10, 12, 14], id="low, tied"),
        pytest.param("high", 32, True, [16, 18, 20, 22, 24, 26, 28, 30], id="high of 32"),
        pytest.param("high", 80, False, [60, 62, 64, 66, 68, 70, 72, 74, 76, 78], id="high of 80"),
        pytest.param("0+2+0", 4, True, [0, 2], id="text"),
        pytest.param(3, 4, True, [3], id="number"),
        pytest.param([1, 2], 4, False, [1, 2], id="list"),
    ],
)
def test_chosen_layers_follow_the_option_and_the_model_depth(
    layers, num_layers, has_tied_embeddings, expected
):
    """``low`` is every second layer of the lower half, and ``high`` of the upper half."""
    assert choose_layers(layers, num_layers, has_tied_embeddings) == expected


@pytest.mark.parametrize("layers", ["low", "4", -1, [0, 2], "middle", []])
def test_missing_layers_are_refused(layers):
    """A layer that is missing must not silently be left out."""
    message = r"expected low, high or numbers such as 0\+2\+4, from 0 \(the embedding\) to 1"
    with pytest.raises(ConfigError, match=message):
        choose_layers(layers, num_layers=2, is_tied=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"early_exit_layer": 9}, "hf-dola: layers is 9; expected", id="missing layer"),
        pytest.param(
            {"early_exit_layer": 1, "layers": "high"}, "exclude each other", id="two names"
        ),
        pytest.param({"layers": True}, "layers is True; expected a valid list", id="layers"),
        pytest.param(
            {"formula": "fixed"},
            "hf-dola: formula is 'fixed'; expected 'paper' or 'code'",
            id="formula",
        ),
        pytest.param(
            {"relative_top": 1.5},
            "relative_top is 1.5; expected less than or equal to 1",
            id="share",
        ),
        pytest.param(
            {"relative_top_value": -math.inf},
            "relative_top_value is -inf; expected",
            id="infinite score",
        ),
    ],
)
def test_a_wrong_option_of_dola_is_refused(options, message):
    """A run takes hours, so the error comes before it and names the option and what is expected."""
    with pytest.raises(FactualityError, match=message):
        HFDoLa(pretrained=LARGER, device="cpu", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {},
            "hf-contrastive: amateur is missing; expected the name or folder of a weaker model",
            id="no amateur",
        ),
        pytest.param({"amateur": SMALLER, "beta": -1}, "beta is -1; expected", id="beta"),
        pytest.param(
            {"amateur": SMALLER, "amateur_temperature": 0},
            "amateur_temperature is 0; expected greater than 0",
            id="temperature",
        ),
        pytest.param(
            {"amateur": "/nowhere/at/all"},
            "the tokenizer of amateur=/nowhere/at/all cannot be loaded",
            id="missing amateur",
        ),
    ],
)
def test_a_wrong_option_of_contrastive_decoding_is_refused(options, message):
    """A run takes hours, so the error comes before it and names the option and what is expected."""
    with pytest.raises(FactualityError, match=message):
        HFContrastive(pretrained=LARGER, device="cpu", **options)


def test_dola_refuses_an_encoder_decoder(tmp_path, checkpoint):
    """DoLa needs shared positions, which an encoder-decoder does not have."""
    t5 = save_t5(tmp_path / "t5", AutoTokenizer.from_pretrained(checkpoint))

    with pytest.raises(ConfigError, match=r"hf-dola: .*T5.* is not a decoder"):
        HFDoLa(pretrained=str(t5), device="cpu")


def test_dola_refuses_a_model_that_scales_its_logits(checkpoint):
    """DoLa computes the logits of early layers itself, and would miss the division by 8."""
    model = build_model("llama")
    original_forward = model.forward

    def forward_and_scale(*arguments, **options):
        output = original_forward(*arguments, **options)
        output.logits = output.logits / 8
        return output

    model.forward = forward_and_scale

    message = "logits are not its last hidden state times its output embedding"
    with pytest.raises(ConfigError, match=message):
        make_dola(model, checkpoint, DolaSettings(layers=[1]))


def contrastive_answers(
    expert: PreTrainedModel,
    amateur: PreTrainedModel,
    requests: Sequence[TokenRequest],
    settings: ContrastiveSettings,
    max_length: int,
) -> list[tuple[float, bool]]:
    """Answer requests by the definition of contrastive decoding, each by itself.

    Args:
        expert: The better model.
        amateur: The weaker model.
        requests: The requests.
        settings: The options of contrastive decoding.
        max_length: The number of tokens that the models see.
    """
    answers = []
    for _, context, continuation in requests:
        tokens = torch.tensor([[*context, *continuation][-max_length - 1 : -1]])
        length = len(continuation)
        with torch.no_grad():
            expert_logits = expert(tokens).logits[0, -length:]
            amateur_logits = amateur(tokens).logits[0, -length:]
        rows = [
            contrastive_scores(expert_logits[position], amateur_logits[position], settings)
            for position in range(length)
        ]
        answers.append(answer_of(torch.stack(rows), continuation))
    return answers


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"alpha": 0}, id="all tokens plausible"),
        pytest.param({"softmax": False, "alpha": 0.3}, id="no softmax"),
        pytest.param({"amateur_temperature": 0.5, "beta": 2}, id="temperature and beta"),
    ],
)
def test_contrastive_scores_match_the_reference_implementation(options):
    """The reference in ``decoding_reference.py`` computes each request by itself."""
    lm = HFContrastive(**OPTIONS, amateur=SMALLER, batch_size=2, max_length=64, **options)
    amateur = AutoModelForCausalLM.from_pretrained(SMALLER)
    requests = make_requests(30, lm.vocab_size, longest=64, seed=3)

    answers = answers_of(lm, requests)

    settings = ContrastiveSettings(**options)
    expected = contrastive_answers(lm.model, amateur, requests, settings, max_length=64)
    assert_same_answers(answers, expected, requests, SCORE_TOLERANCE)


def test_results_record_the_options_of_contrastive_decoding():
    """Scores depend on each of them, so a result without them cannot be repeated."""
    lm = HFContrastive(**OPTIONS, amateur=SMALLER, alpha=0.3, beta=2)

    decoding = lm.get_model_info()["decoding"]

    assert decoding["amateur"] == SMALLER
    assert decoding["alpha"] == 0.3
    assert decoding["beta"] == 2


def test_results_record_the_defaults_of_contrastive_decoding():
    """Defaults may change in a later release, so results have to state them."""
    lm = HFContrastive(**OPTIONS, amateur=SMALLER)

    decoding = lm.get_model_info()["decoding"]

    assert decoding["alpha"] == 0.1
    assert decoding["beta"] is None


@pytest.fixture
def padded_model(tmp_path) -> str:
    """Return the folder of a model whose logits are for seven tokens more than there are.

    Vocabularies are often padded so, to a size that suits a GPU.
    """
    folder = tmp_path / "padded"
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    save_random_gpt2(folder, vocab_size=len(tokenizer) + 7, num_positions=256)
    return str(folder)


def save_random_gpt2(folder: Path, vocab_size: int, num_positions: int) -> None:
    """Save a GPT-2 with random weights and the tokenizer of the sample's checkpoints."""
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=vocab_size, n_positions=num_positions, n_embd=32, n_layer=2, n_head=1
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(LARGER).save_pretrained(folder)


def assert_generates_by_contrast(amateur_folder: str) -> None:
    """Check that the larger checkpoint generates by its contrast to an amateur.

    Args:
        amateur_folder: The checkpoint of the amateur. Logits beyond the vocabulary do not count.
    """
    lm = HFContrastive(**OPTIONS, amateur=amateur_folder, batch_size=2, max_length=128)
    amateur = AutoModelForCausalLM.from_pretrained(amateur_folder)

    def score_next(tokens: list[int]) -> Tensor:
        with torch.no_grad():
            expert_logits = lm.model(torch.tensor([tokens])).logits[0, -1]
            amateur_logits = amateur(torch.tensor([tokens])).logits[0, -1]
        vocabulary_size = len(expert_logits)
        return contrastive_scores(
            expert_logits, amateur_logits[:vocabulary_size], ContrastiveSettings()
        )

    expected = [
        generate_by_scores(score_next, lm.tokenizer, prompt, num_tokens=5) for prompt in PROMPTS
    ]
    assert generate(lm, num_tokens=5) == expected


def test_generation_picks_the_tokens_with_the_best_contrastive_scores():
    """Generation and scoring must use the same scores, or benchmarks of both kinds disagree."""
    assert_generates_by_contrast(SMALLER)


def test_an_amateur_can_have_a_padded_vocabulary(padded_model):
    """Logits of padding belong to no token and must not be compared."""
    assert_generates_by_contrast(padded_model)


def test_an_expert_can_have_a_padded_vocabulary(padded_model):
    """The amateur has no logits for the padding of the expert."""
    lm = HFContrastive(
        pretrained=padded_model, amateur=LARGER, device="cpu", dtype="float32", max_length=128
    )
    request = Instance("loglikelihood", {}, ("The library", " opened in 1870."), 0)

    ((logprob, _),) = lm.loglikelihood([request], disable_tqdm=True)

    assert math.isfinite(logprob)


def test_an_amateur_with_another_vocabulary_is_refused(tmp_path):
    """The two models' scores of a token can be compared only if both mean the same token."""
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    tokenizer.add_tokens(["<another>"])
    amateur = save_gpt2(tmp_path / "another", tokenizer)

    with pytest.raises(ConfigError, match=r"has another vocabulary \(\d+ tokens\)"):
        HFContrastive(pretrained=LARGER, amateur=str(amateur), device="cpu")


def test_amateur_with_a_shorter_context_is_refused(tmp_path):
    """Otherwise the amateur would fail at the first long text, in the middle of a run."""
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    save_random_gpt2(tmp_path, vocab_size=len(tokenizer), num_positions=32)

    with pytest.raises(ConfigError, match=r"reads 32 tokens, the expert \d+; pass max_length=32"):
        HFContrastive(**OPTIONS, amateur=str(tmp_path))
