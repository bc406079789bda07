"""Models of lm_eval as judges, with the sample's checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from judges.answers import Decoding, Request
from judges.backends.lm_eval_model import LmEvalBackend
from judges.config import JudgeConfig
from lm_factuality.ground.errors import BackendDownError, ConfigError

GREEDY = Decoding(max_tokens=8)


def of(model_args: dict[str, object], model: str = "hf", **more: object) -> LmEvalBackend:
    return LmEvalBackend(
        JudgeConfig("local", "lm_eval", model=model, model_args=model_args, **more)
    )


@pytest.fixture(scope="module")
def backend() -> LmEvalBackend:
    from tests.conftest import TASKS

    return of(
        {
            "pretrained": str(TASKS / "sample" / "models" / "smaller"),
            "device": "cpu",
            "batch_size": 4,
        }
    )


def texts(backend: LmEvalBackend, requests: list[Request]) -> list[str | None]:
    answers = dict(backend.answer(requests))
    assert sorted(answers) == list(range(len(requests)))
    return [answers[number].text for number in range(len(requests))]


def test_it_says_what_the_checkpoint_says(backend, checkpoint):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompts = ["The harbour town lies", "She was born in", "The bridge over the river was built by"]
    tokenizer, model = (
        AutoTokenizer.from_pretrained(checkpoint),
        AutoModelForCausalLM.from_pretrained(checkpoint),
    )
    expected = []
    for prompt in prompts:
        tokens = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        with torch.no_grad():
            made = model.generate(
                **tokens, max_new_tokens=8, do_sample=False, pad_token_id=tokenizer.eos_token_id
            )
        expected.append(
            tokenizer.decode(made[0, tokens["input_ids"].shape[1] :], skip_special_tokens=True)
        )
    requests = [Request(prompt, GREEDY) for prompt in prompts]
    assert texts(backend, requests) == expected
    answer = dict(backend.answer(requests[:1]))[0]
    assert (answer.completion_tokens, answer.finish_reason) == (8, "length")
    assert answer.prompt_tokens == len(tokenizer(prompts[0], add_special_tokens=False)["input_ids"])


def test_a_stop_ends_the_text(backend):
    whole = texts(backend, [Request("The harbour town lies", GREEDY)])[0]
    word = whole.split()[-1]
    ((_, answer),) = backend.answer(
        [Request("The harbour town lies", Decoding(max_tokens=8, stop=(word,)))]
    )
    assert answer.text == whole[: whole.index(word)]
    assert answer.finish_reason == "stop"


def test_samples_differ_and_come_again(backend):
    hot = Decoding(temperature=1.5, max_tokens=8, seed=4)
    requests = [Request("The harbour town lies", hot, sample) for sample in range(4)]
    first = texts(backend, requests)
    assert len(set(first)) > 1
    assert texts(backend, requests) == first
    later = Decoding(temperature=1.5, max_tokens=8, seed=5)
    assert (
        texts(backend, [Request("The harbour town lies", later)]) == first[1:2]
    )  # later samples count up from the seed


def test_a_chat_template_is_applied_and_missed(checkpoint, tmp_path: Path, caplog):
    folder = tmp_path / "chatty"
    shutil.copytree(checkpoint, folder)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}", "utf-8"
    )
    chatty = of({"pretrained": str(folder), "device": "cpu"}, apply_chat_template=True)
    plain = of({"pretrained": str(folder)})  # on the CPU, too, where there is nothing else
    assert texts(chatty, [Request("hill", GREEDY, system="old")]) == texts(
        plain, [Request("<system> old <user> hill ", GREEDY)]
    )
    assert chatty.identity != plain.identity
    assert [
        record.message
        for record in caplog.records
        if "set apply_chat_template: true" in record.message
    ] == [
        "the judge's model has a chat template, but is asked without it: set apply_chat_template: true"
    ]


def test_a_prompt_that_does_not_fit_is_an_error_of_that_request_only(backend):
    long, short = Request("river " * 3000, GREEDY), Request("river", GREEDY)
    answers = dict(backend.answer([long, short]))
    assert "more than the model's" in answers[0].error
    assert answers[1].error is None


def test_answers_come_before_the_end(backend):
    requests = [Request(f"The year {number} was", Decoding(max_tokens=1)) for number in range(70)]
    before = backend.usage.calls
    arrivals = backend.answer(requests)
    next(arrivals)
    assert backend.usage.calls - before <= 64
    assert len(list(arrivals)) == 69


def test_the_identity_follows_the_checkpoint_not_its_place(checkpoint, tmp_path: Path):
    def identity(folder: Path, **more: object) -> str:
        return of({"pretrained": str(folder), **more}).identity

    copy = tmp_path / "elsewhere" / "smaller"
    shutil.copytree(checkpoint, copy)
    assert identity(copy) == identity(checkpoint)
    assert str(tmp_path) not in identity(copy)
    assert identity(copy, dtype="float16") != identity(checkpoint)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert identity(copy) != identity(checkpoint)


def test_what_cannot_be_loaded(tmp_path: Path):
    with pytest.raises(ConfigError, match="lm_eval has no model 'hff'; did you mean hf"):
        of({}, "hff")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BackendDownError, match="cannot be loaded"):
        list(
            of({"pretrained": str(tmp_path / "empty"), "device": "cpu"}).answer(
                [Request("p", GREEDY)]
            )
        )
