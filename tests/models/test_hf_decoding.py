"""DoLa and contrastive decoding: shared positions give what a dense computation of every sequence
by itself gives."""

from __future__ import annotations

import math

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from lm_factuality.ground.errors import ConfigError, FactualityError
from lm_factuality.harness.requests import scored_loglikelihood
from lm_factuality.models.decoding import DoLa, choose_layers
from lm_factuality.models.hf_decoding import HFContrastive, HFDoLa
from lm_factuality.models.tree.packed import PackedEngine
from tests.conftest import TASKS
from tests.models.architectures import (
    POSITIONS,
    VOCABULARY,
    build,
    largest_difference,
    some_requests,
)
from tests.tiny_models import save_gpt2, save_t5

LARGER, SMALLER = (str(TASKS / "sample" / "models" / name) for name in ("larger", "smaller"))
TEXTS = (
    ("The library opened in 1870. ", "Its first keeper was a sailor."),
    ("The library opened in 1870.", " Its first keeper was a baker from the north."),
    ("The library opened in 1870.", " It closed."),
    ("", "A keeper."),
)


def dense(states, logits, head, settings) -> torch.Tensor:
    """DoLa's log-probabilities by the definition, [positions, vocabulary], position by position, in
    float64."""
    rows = []
    for place, row in enumerate(logits.double()):
        final = torch.softmax(row, -1)
        early = [
            torch.softmax(head(states[layer][place]).double(), -1) for layer in settings["layers"]
        ]
        gaps = []
        for other in early:
            middle = (final + other) / 2
            if settings["formula"] == "paper":
                parts = (final * (final / middle).log()).sum() + (
                    other * (other / middle).log()
                ).sum()
            else:
                parts = (middle * (middle / final).log()).sum() + (
                    middle * (middle / other).log()
                ).sum()
            gaps.append(float(parts) / 2)
        other = early[gaps.index(max(gaps))]
        scores = final.log() - other.log()
        rows.append(
            floored(
                scores, final, settings["relative_top"], settings["softmax"], settings["formula"]
            )
        )
    return torch.stack(rows)


def floored(scores, final, share, softmax, formula="paper", value=-1000.0) -> torch.Tensor:
    kept = final >= share * final.max()
    if softmax:
        counted = scores[kept] if formula == "paper" else scores
        scores = scores - counted.exp().sum().log()
    return torch.where(kept, scores, torch.tensor(value, dtype=scores.dtype))


def expected_dola(model, requests, settings, longest, norm=None):
    head = (
        model.get_output_embeddings()
        if norm is None
        else lambda state: model.get_output_embeddings()(norm(state))
    )
    answers = []
    with torch.no_grad():
        for _, context, continuation in requests:
            sequence = [*context, *continuation][-longest - 1 :]
            output = model(torch.tensor([sequence[:-1]]), output_hidden_states=True)
            count = len(continuation)
            states = dict(enumerate(each[0, -count:] for each in output.hidden_states))
            states["embedding"] = model.get_input_embeddings()(torch.tensor(sequence[:-1]))[-count:]
            rows = dense(states, output.logits[0, -count:], head, settings)
            chosen = rows[torch.arange(count), torch.tensor(continuation)]
            answers.append(
                (float(chosen.sum()), bool((rows.argmax(-1) == torch.tensor(continuation)).all()))
            )
    return answers


LAST = 3  # layer of the larger checkpoint
DEFAULTS = {"relative_top": 0.1, "softmax": True, "formula": "paper"}
SETTINGS = {
    "dynamic": {"layers": [0, 1, 2, 3]},
    "static": {"layers": [2]},
    "dynamic, code": {"layers": [0, 1, 3], "formula": "code"},
    "no floor": {"layers": [1, 3], "relative_top": 0},
    "no softmax": {"layers": [1, 3], "softmax": False},
}


def dola(model, checkpoint, **options):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    return HFDoLa(model, tokenizer=tokenizer, max_length=POSITIONS, batch_size=2, **options)


def agree(found, expected, requests):
    """Sums differ by less than rounding, except where a token is excluded on one side by a hair:
    none in these cases."""
    assert largest_difference(found, expected, requests) < 2e-4
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


@pytest.mark.parametrize("case", SETTINGS)
def test_shared_positions_give_the_dense_scores(case, checkpoint):
    model, settings = build("llama"), {**DEFAULTS, **SETTINGS[case]}
    lm = dola(model, checkpoint, **settings)
    requests = some_requests(VOCABULARY, POSITIONS, 25)
    assert isinstance(lm.engine, PackedEngine)
    agree(
        lm._loglikelihood_tokens(requests, True),
        expected_dola(model, requests, settings, POSITIONS),
        requests,
    )


def test_early_exits_have_the_models_soft_cap(checkpoint):
    settings = {**DEFAULTS, "layers": [0, 1], "relative_top": 0.0}
    model = build("gemma2-softcap")
    lm = dola(model, checkpoint, **settings)
    requests = some_requests(VOCABULARY, POSITIONS, 25)
    assert isinstance(lm.engine, PackedEngine)
    found = lm._loglikelihood_tokens(requests, True)
    cap = model.config.final_logit_softcapping
    head = model.get_output_embeddings()
    model.get_output_embeddings = lambda: lambda state: torch.tanh(head(state) / cap) * cap
    agree(found, expected_dola(model, requests, settings, POSITIONS), requests)


def test_models_whose_positions_cannot_be_shared_are_refused(checkpoint):
    lm = dola(build("gpt-neo-local"), checkpoint, layers=[0, 1])
    with pytest.raises(ConfigError, match="GPTNeoForCausalLM cannot share positions"):
        lm._loglikelihood_tokens(some_requests(VOCABULARY, POSITIONS, 2), True)


def test_the_final_norm_may_stand_before_early_exits(checkpoint):
    model, settings = build("llama"), {**DEFAULTS, "layers": [1, 2]}
    requests = some_requests(VOCABULARY, POSITIONS, 10)
    found = dola(model, checkpoint, norm=True, **settings)._loglikelihood_tokens(requests, True)
    agree(found, expected_dola(model, requests, settings, POSITIONS, model.model.norm), requests)
    without = expected_dola(model, requests, settings, POSITIONS)
    assert largest_difference(found, without, requests) > 0.1


@pytest.fixture(scope="module")
def real():
    """A checkpoint of the sample, by name, as the command line loads it."""
    return HFDoLa(pretrained=LARGER, device="cpu", dtype="float32", batch_size=3, layers="0+1")


def test_a_real_checkpoint_through_every_request_type(real):
    tokenizer, settings = real.tokenizer, {**DEFAULTS, "layers": [0, 1]}
    assert real.method.layers == [0, 1]

    def by_definition(context, continuation):
        before = tokenizer.encode(context) or [real.prefix_token_id]
        whole = tokenizer.encode(context + continuation)
        after = whole[len(before) :] if context else whole
        return expected_dola(real.model, [(None, before, after)], settings, real.max_length)[0]

    scored = [Instance("scored_loglikelihood", {}, (*each, 1024), 0) for each in TEXTS]
    for found, text in zip(scored_loglikelihood(real, scored, True), TEXTS, strict=True):
        assert found.logprob == pytest.approx(by_definition(*text)[0], abs=2e-3)
    plain = [Instance("loglikelihood", {}, each, 0) for each in TEXTS[1:3]]
    for found, text in zip(real.loglikelihood(plain, True), TEXTS[1:3], strict=True):
        assert found[0] == pytest.approx(by_definition(*text)[0], abs=2e-3)
    (rolled,) = real.loglikelihood_rolling(
        [Instance("loglikelihood_rolling", {}, (TEXTS[3][1],), 0)], True
    )
    assert rolled == pytest.approx(by_definition(*TEXTS[3])[0], abs=2e-3)


def greedy(score, tokenizer, prompt, count) -> str:
    """``count`` tokens, each the best by ``score`` of the ids so far."""
    ids = tokenizer.encode(prompt)
    start = len(ids)
    for _ in range(count):
        best = int(score(ids).argmax())
        if best == tokenizer.eos_token_id:
            break
        ids.append(best)
    return tokenizer.decode(ids[start:])


def generated(lm, prompts, count) -> list[str]:
    options = {"until": ["zzzz"], "max_gen_toks": count, "do_sample": False}
    return lm.generate_until(
        [Instance("generate_until", {}, (each, options), 0) for each in prompts], True
    )


def test_layers_that_hardly_overlap_with_the_last_are_told_apart_in_float32():
    """By how little the divergence misses log 2: 1e-9 here, where float32 has digits of 6e-8."""
    torch.manual_seed(0)
    last, *weaker = (torch.randn(200, 500, dtype=torch.float64) * 12 for _ in range(5))
    chosen = DoLa(layers=[0, 1, 2, 3], relative_top=0)
    exact = torch.stack(
        [chosen._divergence(last.log_softmax(-1), each.log_softmax(-1)) for each in weaker]
    )
    found = torch.stack(
        [
            chosen._divergence(last.float().log_softmax(-1), each.float().log_softmax(-1))
            for each in weaker
        ]
    )
    assert ((exact.amax(0) > -1e-4).sum()) > 50
    assert torch.equal(found.argmax(0), exact.argmax(0))
    one, other = last.softmax(-1), weaker[0].softmax(-1)
    mixture = (one + other) / 2
    defined = (one * (one / mixture).log() + other * (other / mixture).log()).sum(-1) / 2
    assert (exact[0] + math.log(2)).tolist() == pytest.approx(defined.tolist(), abs=1e-9)


PROMPTS = (
    "The library opened in",
    "A keeper of the northern library was born in the year",
)  # padded to one length in a batch


@pytest.mark.parametrize("relative_top", [0.1, 0])
def test_generation_decodes_with_the_method(real, relative_top):
    settings = {**DEFAULTS, "layers": [LAST], "relative_top": relative_top}
    options = {"pretrained": LARGER, "device": "cpu", "dtype": "float32", "batch_size": 3}

    def score(ids):
        with torch.no_grad():
            output = real.model(torch.tensor([ids]), output_hidden_states=True)
            states = [each[0, -1:] for each in output.hidden_states]
            return dense(
                states, output.logits[0, -1:], real.model.get_output_embeddings(), settings
            )[0]

    expected = [greedy(score, real.tokenizer, prompt, 6) for prompt in PROMPTS]
    found = generated(HFDoLa(**options, layers=LAST, relative_top=relative_top), PROMPTS, 6)
    assert found == expected
    if not relative_top:
        assert generated(HFLM(**options), PROMPTS, 6) != found, "the prompts tell the two apart"


def test_settings_are_told_and_name_cached_answers(real):
    told = real.get_model_info()["decoding"]
    assert told == {
        "method": "DoLa",
        "layers": [0, 1],
        "early_exit_layer": None,
        "relative_top": 0.1,
        "relative_top_value": -1000.0,
        "softmax": True,
        "norm": False,
        "formula": "paper",
    }
    others = [
        {"layers": "1"},
        {"relative_top": 0.2},
        {"softmax": False},
        {"norm": True},
        {"formula": "code"},
    ]
    options = {"pretrained": LARGER, "device": "cpu", "dtype": "float32"}
    names = [HFDoLa(**options, **{"layers": "0+1", **other}).cache_identity for other in others]
    assert len({real.cache_identity, *names}) == 1 + len(others)


@pytest.mark.parametrize(
    ("wanted", "count", "tied", "layers"),
    [
        (
            "low",
            32,
            False,
            tuple(range(0, 16, 2)),
        ),  # the authors' candidates for LLaMA-7B, 13B and 65B
        ("low", 40, False, tuple(range(0, 20, 2))),
        ("low", 80, False, tuple(range(0, 20, 2))),
        ("low", 30, True, tuple(range(2, 15, 2))),
        ("high", 32, True, tuple(range(16, 32, 2))),
        ("high", 80, False, tuple(range(60, 80, 2))),
        ("0+2+0", 4, True, (0, 2)),
        (3, 4, True, (3,)),
        ([1, 2], 4, False, (1, 2)),
    ],
)
def test_layers(wanted, count, tied, layers):
    assert choose_layers(wanted, count, tied) == list(layers)


@pytest.mark.parametrize("layers", ["low", "4", -1, [0, 2], "middle", []])
def test_layers_that_cannot_be_contrasted_are_refused(layers):
    expected = r"expected low, high or numbers such as 0\+2\+4, from 0 \(the embedding\) to 1"
    with pytest.raises(ConfigError, match=expected):
        choose_layers(layers, 2, True)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (HFDoLa, {"early_exit_layer": 9}, "hf-dola: layers is 9; expected"),
        (HFDoLa, {"early_exit_layer": 1, "layers": "high"}, "exclude each other"),
        (HFDoLa, {"layers": True}, "layers is True; expected a valid list"),
        (HFDoLa, {"formula": "fixed"}, "hf-dola: formula is 'fixed'; expected 'paper' or 'code'"),
        (HFDoLa, {"relative_top": 1.5}, "relative_top is 1.5; expected less than or equal to 1"),
        (HFDoLa, {"relative_top_value": -math.inf}, "relative_top_value is -inf; expected"),
        (
            HFContrastive,
            {},
            "hf-contrastive: amateur is missing; expected the name or folder of a weaker model",
        ),
        (
            HFContrastive,
            {"amateur": SMALLER, "beta": -1},
            "beta is -1; expected",
        ),
        (
            HFContrastive,
            {"amateur": SMALLER, "amateur_temperature": 0},
            "amateur_temperature is 0; expected greater than 0",
        ),
        (
            HFContrastive,
            {"amateur": "/nowhere/at/all"},
            "the tokenizer of amateur=/nowhere/at/all cannot be loaded",
        ),
    ],
)
def test_options_are_refused(kind, options, said):
    with pytest.raises(FactualityError, match=said):
        kind(pretrained=LARGER, device="cpu", **options)


def test_models_that_have_no_early_exits_are_refused(tmp_path, checkpoint):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    with pytest.raises(ConfigError, match=r"hf-dola: .*T5.* is not a decoder"):
        HFDoLa(pretrained=str(save_t5(tmp_path / "t5", tokenizer)), device="cpu")
    scaled = build("llama")
    scaled.lm_head.register_forward_hook(lambda module, given, output: output)
    original = scaled.forward

    def forward(*arguments, **named):
        output = original(*arguments, **named)
        output.logits = output.logits / 8
        return output

    scaled.forward = forward
    with pytest.raises(
        ConfigError, match="logits are not its last hidden state times its output embedding"
    ):
        dola(scaled, checkpoint, layers=1)


def expected_contrast(expert, amateur, requests, settings, longest):
    answers = []
    with torch.no_grad():
        for _, context, continuation in requests:
            ids = torch.tensor([[*context, *continuation][-longest - 1 : -1]])
            count = len(continuation)
            one, other = (model(ids).logits[0, -count:].double() for model in (expert, amateur))
            rows = torch.stack([contrast(*pair, settings) for pair in zip(one, other, strict=True)])
            chosen = rows[torch.arange(count), torch.tensor(continuation)]
            answers.append(
                (float(chosen.sum()), bool((rows.argmax(-1) == torch.tensor(continuation)).all()))
            )
    return answers


def contrast(one, other, settings):
    final, weak = (
        torch.softmax(one, -1),
        torch.softmax(other / settings.get("amateur_temperature", 1), -1),
    )
    beta = settings.get("beta")
    scores = (final / weak).log() if beta is None else (final ** (1 + beta) / weak**beta).log()
    return floored(scores, final, settings.get("alpha", 0.1), settings.get("softmax", True))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"alpha": 0},
        {"softmax": False, "alpha": 0.3},
        {"amateur_temperature": 0.5, "beta": 2},
    ],
    ids=str,
)
def test_contrastive_scores_are_those_of_both_models_by_themselves(settings):
    lm = HFContrastive(
        pretrained=LARGER,
        amateur=SMALLER,
        device="cpu",
        dtype="float32",
        batch_size=2,
        max_length=64,
        **settings,
    )
    requests = some_requests(lm.vocab_size, 64, 30, seed=3)
    amateur = AutoModelForCausalLM.from_pretrained(SMALLER)
    agree(
        lm._loglikelihood_tokens(requests, True),
        expected_contrast(lm.model, amateur, requests, settings, 64),
        requests,
    )
    told = lm.get_model_info()["decoding"]
    assert (told["amateur"], told["beta"], told["alpha"]) == (
        SMALLER,
        settings.get("beta"),
        settings.get("alpha", 0.1),
    )


def test_contrastive_generation_and_a_padded_vocabulary(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=len(tokenizer) + 7, n_positions=256, n_embd=32, n_layer=2, n_head=1
    )
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for amateur in (SMALLER, str(tmp_path)):
        lm = HFContrastive(
            pretrained=LARGER,
            amateur=amateur,
            device="cpu",
            dtype="float32",
            batch_size=2,
            max_length=128,
        )
        weak = AutoModelForCausalLM.from_pretrained(amateur)

        def score(ids, lm=lm, weak=weak):
            with torch.no_grad():
                one, other = (
                    model(torch.tensor([ids])).logits[0, -1].double() for model in (lm.model, weak)
                )
            return contrast(one, other[: len(one)], {})

        assert generated(lm, PROMPTS, 5) == [
            greedy(score, lm.tokenizer, prompt, 5) for prompt in PROMPTS
        ]
    swapped = HFContrastive(
        pretrained=str(tmp_path), amateur=LARGER, device="cpu", dtype="float32", max_length=128
    )
    ((logprob, _),) = swapped._loglikelihood_tokens([(None, [5, 6], [7])], True)
    assert math.isfinite(logprob)


def test_amateurs_that_do_not_fit_are_refused(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(LARGER)
    tokenizer.add_tokens(["<another>"])
    other = save_gpt2(tmp_path / "other", tokenizer)
    with pytest.raises(
        ConfigError,
        match=r"has another vocabulary \(\d+ tokens\)",
    ):
        HFContrastive(pretrained=LARGER, amateur=str(other), device="cpu")
    short = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer) - 1, n_positions=32, n_embd=16, n_layer=1, n_head=1)
    )
    short.save_pretrained(tmp_path / "short")
    AutoTokenizer.from_pretrained(LARGER).save_pretrained(tmp_path / "short")
    with pytest.raises(ConfigError, match=r"reads 32 tokens, the expert \d+; pass max_length=32"):
        HFContrastive(
            pretrained=LARGER, amateur=str(tmp_path / "short"), device="cpu", dtype="float32"
        )
