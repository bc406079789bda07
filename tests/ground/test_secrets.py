"""What looks like a credential, and what does not."""

from __future__ import annotations

import time

import pytest

from lm_factuality.ground.secrets import is_secret, secrets_in_assignments, secrets_in_text

# Put together here, so that no tool takes this file for one that holds credentials.
CREDENTIALS = [
    pytest.param("hf_" + "aB3d" * 8, id="Hugging Face"),
    pytest.param("sk-" + "proj-" + "a1B2" * 8, id="OpenAI"),
    pytest.param("AKIA" + "ABCD1234" * 2, id="AWS"),
    pytest.param("ghp_" + "a1B2" * 9, id="GitHub"),
    pytest.param("github_pat_" + "a1B2" * 9, id="GitHub, fine-grained"),
    pytest.param("glpat-" + "a1B2" * 5, id="GitLab"),
    pytest.param("xoxb-" + "123456-abcdef", id="Slack"),
    pytest.param("AIza" + "a1B2" * 9, id="Google"),
    pytest.param(
        "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + "a1B2" * 5,
        id="JSON web token",
    ),
    pytest.param("-----BEGIN RSA PRIVATE KEY-----", id="private key"),
    pytest.param("Authorization: Bearer " + "a1B2" * 8, id="header"),
    pytest.param("https://user:pass@example.org/v1", id="password in a URL"),
    pytest.param("postgres://me:s3cret@host/db", id="password in the URL of a database"),
    pytest.param('"api_key": "' + "a1B2" * 5 + '"', id="JSON"),
    pytest.param("api_key=" + "a1B2" * 5, id="assignment"),
]


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_credential_in_a_text_is_found_and_not_repeated(credential):
    """The description is shown and logged."""
    descriptions = secrets_in_text(f"before {credential} after")

    assert descriptions
    for description in descriptions:
        assert credential not in description


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("hf-internal-testing/tiny-random-gpt2", id="name of a model"),
        pytest.param("a task-force of twenty-seven members", id="sk- within a word"),
        pytest.param("the bearer of bad news arrived", id="bearer as a word"),
        pytest.param("https://example.org:8080/path", id="port"),
        pytest.param("https://example.org/a:b@c", id="signs in a path"),
        pytest.param("2026-11-21T18:26:10", id="time"),
        pytest.param("api_key_env: OPENAI_API_KEY", id="name of a variable"),
        pytest.param("the eyJafjallajokull.eyJ volcano", id="eyJ in words"),
        pytest.param("sk-learn-compatible-estimators-for-all", id="sk- without digits"),
        pytest.param("token", id="the word alone"),
    ],
)
def test_a_text_that_only_resembles_a_credential_is_left_alone(text):
    """A refusal for nothing would stop honest users."""
    assert secrets_in_text(f"before {text} after") == []


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "bearer",
        "api_key",
        "x-api-key",
        "token",
        "client_secret",
        "headers",
        "Authorization",
    ],
)
def test_a_value_under_the_name_of_a_credential_is_secret(name):
    """The value itself may look like any word."""
    assert is_secret(name, "abc")
    assert not is_secret(name, "")  # nothing to protect


@pytest.mark.parametrize(
    "name",
    [
        "eot_token",
        "add_bos_token",
        "pad_token",
        "max_tokens",
        "tokenizer",
        "think_end_token",
        "key",
        "api_key_env",
        "monkey",
        "task_hashes",
    ],
)
def test_a_value_under_a_similar_name_is_not_secret(name):
    """Most of these are arguments of models."""
    assert not is_secret(name, "abc")


def test_credentials_among_the_arguments_of_a_model_are_named():
    """Results keep these arguments and are shared. The end mark ``eos_token`` is no credential."""
    descriptions = secrets_in_assignments(
        "pretrained=org/model,token=abcdefghijklmnop,eos_token=<|endoftext|>,password=hunter2"
    )

    assert descriptions == ["the value of token", "the value of password"]


def test_other_arguments_of_a_model_are_no_credentials():
    """A false alarm would refuse a sound run."""
    assert secrets_in_assignments("dtype=float32,revision=main") == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sk-" * 30_000, id="OpenAI"),
        pytest.param("eyJ-" * 25_000, id="JSON web token"),
        pytest.param("Bearer " * 15_000, id="header"),
        pytest.param("://" + "a" * 90_000, id="URL"),
        pytest.param("://a:" * 20_000, id="URL with a password"),
        pytest.param("apikey=" + " " * 90_000, id="assignment"),
        pytest.param("eyJaaaaaaaaaaaa." * 6_000, id="parts of a JSON web token"),
    ],
)
def test_a_long_text_of_beginnings_is_searched_within_a_second(text):
    """Samples are long, and a pattern that tries each beginning would take minutes."""
    start = time.process_time()

    secrets_in_text(text)
    secrets_in_assignments(text)

    assert time.process_time() - start < 1
