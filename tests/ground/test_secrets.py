"""What looks like a credential, and what does not."""

from __future__ import annotations

import time

import pytest

from lm_factuality.ground.secrets import is_secret, secrets_in_assignments, secrets_in_text

SECRETS = (
    "hf_" + "aB3d" * 8,
    "sk-" + "proj-" + "a1B2" * 8,
    "AKIA" + "ABCD1234" * 2,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "xoxb-" + "123456-abcdef",
    "AIza" + "a1B2" * 9,
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + "a1B2" * 5,
    "-----BEGIN RSA PRIVATE KEY-----",
    "Authorization: Bearer " + "a1B2" * 8,
    "https://user:pass@example.org/v1",
    "postgres://me:s3cret@host/db",
    '"api_key": "' + "a1B2" * 5 + '"',
    "api_key=" + "a1B2" * 5,
)
HARMLESS = (
    "hf-internal-testing/tiny-random-gpt2",
    "a task-force of twenty-seven members",
    "the bearer of bad news arrived",
    "https://example.org:8080/path",
    "https://example.org/a:b@c",
    "2026-11-21T18:26:10",
    "api_key_env: OPENAI_API_KEY",
    "the eyJafjallajokull.eyJ volcano",
    "sk-learn-compatible-estimators-for-all",
    "token",
)


@pytest.mark.parametrize("text", SECRETS)
def test_a_credential_is_found_where_it_stands(text):
    found = secrets_in_text(f"before {text} after")
    assert found
    assert all(text not in what for _, what in found)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_none_is_left_alone(text):
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
def test_names_of_credentials_are_known(name):
    assert is_secret(name, "abc")
    assert not is_secret(name, "")


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
def test_names_that_only_sound_like_them_are_none(name):
    assert not is_secret(name, "abc")


def test_credentials_that_are_set_by_name_are_found():
    found = secrets_in_assignments(
        "pretrained=org/model,token=abcdefghijklmnop,eos_token=<|endoftext|>,password=hunter2"
    )
    assert [what for _, what in found] == ["the value of token", "the value of password"]
    assert secrets_in_assignments("dtype=float32,revision=main") == []


@pytest.mark.parametrize(
    "text",
    [
        "sk-" * 30_000,
        "eyJ-" * 25_000,
        "Bearer " * 15_000,
        "://" + "a" * 90_000,
        "://a:" * 20_000,
        "apikey=" + " " * 90_000,
        "eyJaaaaaaaaaaaa." * 6_000,
    ],
)
def test_no_text_takes_long(text):
    start = time.process_time()
    secrets_in_text(text)
    secrets_in_assignments(text)
    assert time.process_time() - start < 1
