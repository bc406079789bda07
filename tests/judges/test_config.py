"""The YAML of a judge: what it may say, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

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
PROMPT_NAME = prompt_names()[0]  # whichever comes first: the tests put their own text there


@pytest.fixture
def write_yaml(tmp_path: Path):
    """Return a function that writes the content of ``mine.yaml``, and returns its path."""

    def write(content: object) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def full_content(tmp_path: Path) -> dict[str, Any]:
    """Return the content of a YAML that sets every key of a judge behind a server."""
    (tmp_path / "own.jinja").write_text("Own words.", encoding="utf-8")
    return {
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
        "prompts": {PROMPT_NAME: "own.jinja"},
        "decoding": {"temperature": 1, "top_p": 0.9, "max_tokens": 9, "stop": "END", "seed": 3},
    }


def test_every_setting_of_a_yaml_is_read(write_yaml, full_content, tmp_path):
    """A key that was read by name but then ignored would go unnoticed for long.

    Numbers become floats, a single stop word becomes a tuple, and paths are relative to the
    YAML.
    """
    config = load_judge_config(write_yaml(full_content))

    assert config.name == "mine"  # the name of the file
    assert config.timeout == 9.0
    assert config.samples == 9
    assert config.decoding == Decoding(
        temperature=1.0, top_p=0.9, max_tokens=9, stop=("END",), seed=3
    )
    assert config.prices == Prices(prompt=1.0, completion=2.5)
    assert config.prompts == {PROMPT_NAME: tmp_path / "own.jinja"}


def test_results_describe_every_setting_as_the_yaml_states_it(write_yaml, full_content):
    """A reader of results must be able to write the same judge again."""
    config = load_judge_config(write_yaml(full_content))

    description = json.loads(json.dumps(config.describe([PROMPT_NAME])))

    # Defaults of decoding are added, so it is not compared here.
    for key in full_content.keys() - {"decoding"}:
        assert description[key] == full_content[key], key


def test_results_hold_a_hash_of_each_prompt(write_yaml, tmp_path):
    """Two runs are not compared if their prompts differ."""
    prompt_path = tmp_path / "own.jinja"
    content = {"backend": "openai", "model": "m", "prompts": {PROMPT_NAME: "own.jinja"}}
    hashes = []

    for prompt in ("Is it true?", "Is it false?"):
        prompt_path.write_text(prompt, encoding="utf-8")
        description = load_judge_config(write_yaml(content)).describe([PROMPT_NAME])
        hashes.append(description["prompt_hashes"][PROMPT_NAME])

    first_hash, second_hash = hashes
    assert first_hash != second_hash
    assert len(first_hash) == 16


def assert_refused_without_showing_secrets(path: Path, message: str) -> None:
    """Assert that the error has ``message`` and the file's name, and shows no credential."""
    with pytest.raises(ConfigError) as error:
        load_judge_config(path)

    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert SECRET not in str(error.value)
    assert "secret1" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param([1], "expected a mapping", id="list"),
        pytest.param({}, "backend is missing", id="empty"),
        pytest.param({"backend": "opnai"}, "did you mean openai", id="unknown backend"),
        pytest.param({"backend": ["openai"]}, "backend is", id="list of backends"),
        pytest.param(
            {**OPENAI, "modle": "x"},
            "backend openai: unknown key 'modle'; did you mean model",
            id="unknown key",
        ),
        pytest.param(
            {**OPENAI, "model_args": {}}, "unknown key 'model_args'", id="key of another backend"
        ),
        pytest.param(
            {"backend": "openai"},
            "model is missing: the name by which the server knows it",
            id="no model",
        ),
        pytest.param(
            {"backend": "lexical", "samples": 3},
            "samples of backend lexical would all be the same",
            id="samples without randomness",
        ),
    ],
)
def test_yaml_unsuited_to_its_backend_is_refused(write_yaml, content, message):
    """A setting that a backend never reads would be silently without effect."""
    assert_refused_without_showing_secrets(write_yaml(content), message)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"model": 4}, "model is 4; expected a valid string"),
        ({"concurrency": "many"}, "concurrency is 'many'; expected a valid integer"),
        ({"concurrency": 0}, "concurrency is 0; expected greater than or equal to 1"),
        ({"concurrency": 1.5}, "concurrency is 1.5; expected a valid integer"),
        ({"samples": True}, "samples is True; expected a valid integer"),
        ({"timeout": 0}, "timeout is 0; expected greater than 0"),
        ({"timeout": None}, "timeout is empty; expected a valid number"),
        ({"timeout": float("nan")}, "timeout is nan"),
        (
            {"endpoint": "responses"},
            "endpoint is 'responses'; expected 'chat' or 'completions'",
        ),
        (
            {"max_tokens_name": "tokens"},
            "max_tokens_name is 'tokens'; expected 'max_tokens' or 'max_completion_tokens'",
        ),
        ({"verdicts": "logits"}, "verdicts is 'logits'; expected 'text' or 'logprobs'"),
        ({"verdicts": True}, "verdicts is True; expected 'text' or 'logprobs'"),
        ({"prompts": ["verify"]}, "prompts is"),
        ({"extra_body": 3}, "extra_body is 3; expected a valid dictionary"),
        ({"base_url": "localhost:8000"}, "base_url is not an address"),
    ],
)
def test_a_setting_with_an_impossible_value_is_refused(write_yaml, setting, message):
    """YAML turns words into numbers and booleans, so that types are checked strictly."""
    assert_refused_without_showing_secrets(write_yaml({**OPENAI, **setting}), message)


def test_an_impossible_value_is_refused_for_a_model_of_lm_eval_as_well(write_yaml):
    """The key is read by servers alone, but a wrong value is still a mistake of the user."""
    path = write_yaml({**LM_EVAL, "verdicts": True})

    assert_refused_without_showing_secrets(path, "verdicts is True; expected 'text' or 'logprobs'")


@pytest.mark.parametrize(
    ("decoding", "message"),
    [
        (
            {"temprature": 1},
            "unknown key 'temprature' of decoding; did you mean temperature",
        ),
        (
            {"max_tokens": 0},
            "decoding.max_tokens is 0; expected greater than or equal to 1",
        ),
        ({"top_p": 1.2}, "decoding.top_p is 1.2"),
        ({"stop": [1]}, "decoding.stop[0] is 1; expected a valid string"),
        ("hot", "decoding is 'hot'; expected a dictionary or an instance of Decoding"),
    ],
)
def test_impossible_decoding_is_refused(write_yaml, decoding, message):
    """A misspelt setting would leave the default in force and change every answer."""
    assert_refused_without_showing_secrets(write_yaml({**OPENAI, "decoding": decoding}), message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"max_cost": 1}, "max_cost needs prices", id="no prices"),
        pytest.param(
            {"prices": {"prompt": 1}}, "prices.completion is missing", id="price of prompts only"
        ),
        pytest.param(
            {"prices": {"prompt": -1, "completion": 1}},
            "prices.prompt is -1; expected greater than or equal to 0",
            id="negative price",
        ),
    ],
)
def test_a_budget_with_missing_or_impossible_prices_is_refused(write_yaml, settings, message):
    """Without both prices nobody knows when the budget is spent."""
    assert_refused_without_showing_secrets(write_yaml({**OPENAI, **settings}), message)


@pytest.mark.parametrize(
    ("key", "value"),
    [("n", 8), ("best_of", 8), ("max_tokens", 9999), ("max_completion_tokens", None)],
)
def test_a_budget_refuses_an_extra_body_that_raises_the_cost(write_yaml, key, value):
    """The suite computes the most that a call can cost, and these keys would exceed it."""
    content = {
        **OPENAI,
        "max_cost": 1,
        "prices": {"prompt": 1, "completion": 1},
        "extra_body": {"top_k": 4, key: value},
    }

    assert_refused_without_showing_secrets(
        write_yaml(content), f"extra_body holds {key}; take it out"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            {**OPENAI, "base_url": "http://me:secret1@host/v1"},
            "base_url holds what looks like an address with",
            id="password in the address",
        ),
        pytest.param(
            {**OPENAI, "base_url": "http://host/v1?key=secret1"},
            "base_url holds what looks like an address with",
            id="key in the address",
        ),
        pytest.param(
            {**OPENAI, "api_key": "secret1"},
            "api_key is a credential; put the credential",
            id="key",
        ),
        pytest.param(
            {**OPENAI, "extra_body": {"deep": [{"Authorization": "Bearer secret1"}]}},
            "extra_body.deep.0.Authorization is a cred",
            id="header deep in the body",
        ),
        pytest.param(
            {**LM_EVAL, "model_args": {"token": "secret1"}},
            "model_args.token is a credential",
            id="argument of a model",
        ),
        pytest.param(
            {**OPENAI, "system": f"use {SECRET}"},
            "system holds what looks like a key",
            id="key in a text",
        ),
        pytest.param(
            {**OPENAI, "api_key_env": SECRET},
            "api_key_env holds what looks like a key",
            id="key in place of its variable",
        ),
        pytest.param(
            {**OPENAI, "api_key_env": "my key secret1"},
            "must be the name of an environment variable",
            id="no name of a variable",
        ),
    ],
)
def test_a_credential_in_a_yaml_is_refused_and_not_shown(write_yaml, content, message):
    """Configs are published with results, so keys may come from the environment only."""
    assert_refused_without_showing_secrets(write_yaml(content), message)


def test_all_problems_of_a_yaml_are_reported_at_once(write_yaml):
    """The user can then correct the file at once."""
    path = write_yaml(
        {
            **OPENAI,
            "modle": "x",
            "options": {},
            "timeout": 0,
            "decoding": {"top_k": 1},
            "prompts": {"verify": 3},
        }
    )

    with pytest.raises(ConfigError) as error:
        load_judge_config(path)

    message = str(error.value)
    problems = message.splitlines()
    assert len(problems) == 5
    for problem in problems:
        assert problem.startswith(f"{path}: ")
    assert "'modle'" in message
    assert "unknown key 'options'" in message
    assert "timeout is 0" in message
    assert "'top_k' of decoding" in message
    assert "prompts.verify is 3" in message


SUITE_JUDGES = sorted(path.stem for path in (REPOSITORY / "configs" / "judges").glob("*.yaml"))


def test_the_suite_has_judges_for_a_server_and_for_a_local_model():
    """Users copy one of these files to begin with."""
    assert {"openai-server", "local-hf"} <= set(SUITE_JUDGES)


@pytest.mark.parametrize("name", SUITE_JUDGES)
def test_a_judge_of_the_suite_is_found_by_its_name(name, tmp_path, monkeypatch):
    """Commands take the name, wherever they are run."""
    monkeypatch.chdir(tmp_path)  # away from the folder "configs" of the repository

    assert load_judge_config(name).name == name


def test_a_judge_of_the_suite_is_found_by_its_path_in_the_repository(tmp_path, monkeypatch):
    """An installed suite has no folder "configs" beside it, but its pages name such paths."""
    monkeypatch.chdir(tmp_path)

    by_path = load_judge_config("configs/judges/local-hf.yaml")

    assert by_path == load_judge_config("local-hf")


def test_an_unknown_name_of_a_judge_is_refused_with_the_nearest_name():
    """Most unknown names are typing errors."""
    with pytest.raises(ConfigError, match="no judge is called 'local-hff'; did you mean local-hf"):
        load_judge_config("local-hff")


def test_a_missing_yaml_is_refused(tmp_path):
    """A path that does not exist is not taken for the name of a judge."""
    with pytest.raises(ConfigError, match="no judge is called '.*none.yaml'"):
        load_judge_config(tmp_path / "none.yaml")


@pytest.fixture
def config() -> JudgeConfig:
    """Return a judge behind a server, without a budget."""
    return JudgeConfig("c", "openai", model="m")


def test_a_budget_that_is_added_later_needs_prices(config):
    """``--max-cost`` adds a budget to a config that was already checked."""
    with pytest.raises(ConfigError, match="judge c: max_cost needs prices"):
        dataclasses.replace(config, max_cost=1.0)


def test_a_budget_can_be_added_later_with_prices(config):
    """The option ``--max-cost`` sets it for a judge whose YAML has none."""
    with_budget = dataclasses.replace(config, max_cost=1.0, prices=Prices(1, 1))

    assert with_budget.max_cost == 1.0


def test_a_budget_that_is_added_later_refuses_an_expensive_extra_body():
    """``n: 2`` asks for two answers, which doubles the cost of a call without notice."""
    without_budget = JudgeConfig("c", "openai", model="m", prices=Prices(1, 1), extra_body={"n": 2})

    with pytest.raises(ConfigError, match="extra_body holds n"):
        dataclasses.replace(without_budget, max_cost=1.0)


@pytest.mark.parametrize(
    "base_url",
    [
        pytest.param("localhost:8000", id="no scheme"),
        pytest.param("http://[::1/v1", id="open bracket"),
        pytest.param("http://localhost:80a0/v1", id="port with a letter"),
        pytest.param("http://:8000/v1", id="no host"),
        pytest.param("http://localhost:0/v1", id="port 0"),
    ],
)
def test_invalid_address_is_refused(base_url):
    """The mistake is reported when the config is read, not as a server that is down."""
    with pytest.raises(ConfigError, match="base_url is not an address"):
        JudgeConfig("c", "openai", model="m", base_url=base_url)


def test_the_scheme_of_an_address_may_be_in_capitals():
    """By the standard of addresses it means the same."""
    config = JudgeConfig("c", "openai", model="m", base_url="HTTP://host")

    assert config.base_url == "HTTP://host"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("base_url", "http://me:secret1@host/v1"),
        ("base_url", "http://host/v1?key=secret1"),
        ("base_url", "http://secret1 host:80a0"),
        ("api_key_env", "hf_secret1" + "A" * 40),
    ],
)
def test_credential_in_a_python_config_is_refused_and_not_shown(key, value):
    """The class checks as the YAML does, because programs make judges as well."""
    with pytest.raises(ConfigError) as error:
        JudgeConfig("c", "openai", model="m", **{key: value})

    assert key in str(error.value)
    assert "secret1" not in str(error.value)
