"""What a judge's YAML may say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from judges.answers import Decoding, Prices
from judges.config import JudgeConfig, load_judge_config
from judges.templates import prompt_names
from lm_factuality.ground.errors import ConfigError
from tests.conftest import REPOSITORY

OPENAI = {"backend": "openai", "model": "m"}
LM_EVAL = {"backend": "lm_eval", "model": "hf"}
SECRET = "sk-0123456789abcdefghij"


def write(folder: Path, content: object, name: str = "mine.yaml") -> Path:
    (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder / name


def test_everything_that_can_be_said(tmp_path: Path):
    prompt = prompt_names()[0]
    (tmp_path / "own.jinja").write_text("Own words.", encoding="utf-8")
    content = {
        **OPENAI,
        "base_url": "https://api.example.com/v1",
        "api_key_env": "MY_KEY",
        "endpoint": "completions",
        "max_tokens_name": "max_completion_tokens",
        "concurrency": 3,
        "timeout": 9,
        "total_timeout": 99,
        "max_retries": 0,
        "requests_per_minute": 60,
        "tokens_per_minute": 1e5,
        "prices": {"prompt": 1, "completion": 2.5},
        "max_cost": 4,
        "tokenizer": "t",
        "extra_body": {"top_k": 4},
        "samples": 9,
        "system": "Be brief.",
        "verdicts": "logprobs",
        "prompts": {prompt: "own.jinja"},
        "decoding": {"temperature": 1, "top_p": 0.9, "max_tokens": 9, "stop": "END", "seed": 3},
    }
    config = load_judge_config(write(tmp_path, content))
    assert (config.name, config.timeout, config.samples) == ("mine", 9.0, 9)
    assert config.decoding == Decoding(1.0, 0.9, 9, ("END",), 3)
    assert config.prices == Prices(1.0, 2.5)
    assert config.prompts == {prompt: tmp_path / "own.jinja"}
    about = json.loads(json.dumps(config.describe([prompt])))
    assert about["prompts"] == {prompt: "own.jinja"}
    assert len(about["prompt_hashes"][prompt]) == 16
    for key in content.keys() - {"prompts", "decoding"}:
        assert about[key] == content[key], key


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1], "expected a mapping"),
        ({}, "backend is missing"),
        ({"backend": "opnai"}, "did you mean openai"),
        ({"backend": ["openai"]}, "backend is"),
        ({**OPENAI, "modle": "x"}, "backend openai: unknown key 'modle'; did you mean model"),
        (
            {**OPENAI, "model_args": {}},
            "unknown key 'model_args'",
        ),
        ({"backend": "openai"}, "model is missing: the name by which the server knows it"),
        ({**OPENAI, "model": 4}, "model is 4; expected a valid string"),
        ({**OPENAI, "concurrency": "many"}, "concurrency is 'many'; expected a valid integer"),
        ({**OPENAI, "concurrency": 0}, "concurrency is 0; expected greater than or equal to 1"),
        ({**OPENAI, "concurrency": 1.5}, "concurrency is 1.5; expected a valid integer"),
        ({**OPENAI, "samples": True}, "samples is True; expected a valid integer"),
        ({**OPENAI, "timeout": 0}, "timeout is 0; expected greater than 0"),
        ({**OPENAI, "timeout": None}, "timeout is empty; expected a valid number"),
        ({**OPENAI, "timeout": float("nan")}, "timeout is nan"),
        (
            {**OPENAI, "endpoint": "responses"},
            "endpoint is 'responses'; expected 'chat' or 'completions'",
        ),
        (
            {**OPENAI, "max_tokens_name": "tokens"},
            "max_tokens_name is 'tokens'; expected 'max_tokens' or 'max_completion_tokens'",
        ),
        ({**OPENAI, "verdicts": "logits"}, "verdicts is 'logits'; expected 'text' or 'logprobs'"),
        ({**LM_EVAL, "verdicts": True}, "verdicts is True; expected 'text' or 'logprobs'"),
        (
            {"backend": "lexical", "samples": 3},
            "samples of backend lexical would all be the same",
        ),
        ({**OPENAI, "max_cost": 1}, "max_cost needs prices"),
        *(
            (
                {
                    **OPENAI,
                    "max_cost": 1,
                    "prices": {"prompt": 1, "completion": 1},
                    "extra_body": {"top_k": 4, key: value},
                },
                f"extra_body holds {key}; take it out",
            )
            for key, value in (
                ("n", 8),
                ("best_of", 8),
                ("max_tokens", 9999),
                ("max_completion_tokens", None),
            )
        ),
        (
            {**OPENAI, "prices": {"prompt": 1}},
            "prices.completion is missing",
        ),
        (
            {**OPENAI, "prices": {"prompt": -1, "completion": 1}},
            "prices.prompt is -1; expected greater than or equal to 0",
        ),
        (
            {**OPENAI, "decoding": {"temprature": 1}},
            "unknown key 'temprature' of decoding; did you mean temperature",
        ),
        (
            {**OPENAI, "decoding": {"max_tokens": 0}},
            "decoding.max_tokens is 0; expected greater than or equal to 1",
        ),
        ({**OPENAI, "decoding": {"top_p": 1.2}}, "decoding.top_p is 1.2"),
        ({**OPENAI, "decoding": {"stop": [1]}}, "decoding.stop[0] is 1; expected a valid string"),
        (
            {**OPENAI, "decoding": "hot"},
            "decoding is 'hot'; expected a dictionary or an instance of Decoding",
        ),
        ({**OPENAI, "prompts": ["verify"]}, "prompts is"),
        ({**OPENAI, "extra_body": 3}, "extra_body is 3; expected a valid dictionary"),
        ({**OPENAI, "base_url": "localhost:8000"}, "base_url is not an address"),
        (
            {**OPENAI, "base_url": "http://me:secret1@host/v1"},
            "base_url holds what looks like an address with",
        ),
        (
            {**OPENAI, "base_url": "http://host/v1?key=secret1"},
            "base_url holds what looks like an address with",
        ),
        (
            {**OPENAI, "api_key": "secret1"},
            "api_key is a credential; put the credential",
        ),
        (
            {**OPENAI, "extra_body": {"deep": [{"Authorization": "Bearer secret1"}]}},
            "extra_body.deep.0.Authorization is a cred",
        ),
        ({**LM_EVAL, "model_args": {"token": "secret1"}}, "model_args.token is a credential"),
        ({**OPENAI, "system": f"use {SECRET}"}, "system holds what looks like a key"),
        ({**OPENAI, "api_key_env": SECRET}, "api_key_env holds what looks like a key"),
        (
            {**OPENAI, "api_key_env": "my key secret1"},
            "must be the name of an environment variable",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, content, says):
    with pytest.raises(ConfigError) as caught:
        load_judge_config(write(tmp_path, content))
    assert says in str(caught.value)
    assert str(tmp_path / "mine.yaml") in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "secret1" not in str(caught.value)


def test_every_problem_is_told_at_once(tmp_path: Path):
    content = {
        **OPENAI,
        "modle": "x",
        "options": {},
        "timeout": 0,
        "decoding": {"top_k": 1},
        "prompts": {"verify": 3},
    }
    with pytest.raises(ConfigError) as caught:
        load_judge_config(write(tmp_path, content))
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert all(line.startswith(f"{tmp_path / 'mine.yaml'}: ") for line in lines)
    for says in (
        "'modle'",
        "unknown key 'options'",
        "timeout is 0",
        "'top_k' of decoding",
        "prompts.verify is 3",
    ):
        assert says in str(caught.value)


def test_names_stand_for_the_judges_of_the_suite(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = sorted(file.stem for file in (REPOSITORY / "configs" / "judges").glob("*.yaml"))
    assert {"openai-server", "local-hf"} <= set(names)
    for name in names:
        assert load_judge_config(name).name == name
    assert load_judge_config("configs/judges/local-hf.yaml") == load_judge_config("local-hf")
    with pytest.raises(ConfigError, match="no judge is called 'local-hff'; did you mean local-hf"):
        load_judge_config("local-hff")
    with pytest.raises(ConfigError, match="no judge is called '.*none.yaml'"):
        load_judge_config(tmp_path / "none.yaml")


def test_a_changed_config_is_checked_again():
    config = JudgeConfig("c", "openai", model="m")
    with pytest.raises(ConfigError, match="judge c: max_cost needs prices"):
        dataclasses.replace(config, max_cost=1.0)
    assert dataclasses.replace(config, max_cost=1.0, prices=Prices(1, 1)).max_cost == 1.0
    generous = dataclasses.replace(
        config, extra_body={"n": 2}, prices=Prices(1, 1)
    )  # without max_cost it may
    with pytest.raises(ConfigError, match="extra_body holds n"):
        dataclasses.replace(generous, max_cost=1.0)


@pytest.mark.parametrize(
    "base_url",
    [
        "localhost:8000",
        "http://[::1/v1",
        "http://localhost:80a0/v1",
        "http://:8000/v1",
        "http://localhost:0/v1",
    ],
)
def test_what_is_no_address(base_url):
    with pytest.raises(ConfigError, match="base_url is not an address"):
        JudgeConfig("c", "openai", model="m", base_url=base_url)


def test_the_scheme_of_an_address_may_be_in_capitals():
    assert JudgeConfig("c", "openai", model="m", base_url="HTTP://host").base_url == "HTTP://host"


@pytest.mark.parametrize(
    "values",
    [
        {"base_url": "http://me:secret1@host/v1"},
        {"base_url": "http://host/v1?key=secret1"},
        {"base_url": "http://secret1 host:80a0"},
        {"api_key_env": "hf_secret1" + "A" * 40},
    ],
)
def test_a_credential_in_a_config_made_in_python_is_refused_and_not_shown(values):
    with pytest.raises(ConfigError) as caught:
        JudgeConfig("c", "openai", model="m", **values)
    assert next(iter(values)) in str(caught.value)
    assert "secret1" not in str(caught.value)
