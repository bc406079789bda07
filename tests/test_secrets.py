"""What looks like a credential, and what does not."""

from __future__ import annotations

import pytest

from lm_factuality.secrets import secrets_in_text

SECRETS = (
    "hf_" + "aB3d" * 8, "sk-" + "proj-" + "a1B2" * 8, "gsk_" + "a1B2" * 8, "xai-" + "a1B2" * 8, "AKIA" + "ABCD1234" * 2,
    "ghp_" + "a1B2" * 9, "github_pat_" + "a1B2" * 9, "glpat-" + "a1B2" * 5, "xoxb-" + "123456-abcdef", "AIza" + "a1B2" * 9,
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + "a1B2" * 5,
    "-----BEGIN RSA PRIVATE KEY-----", "Authorization: Bearer " + "a1B2" * 8, "https://user:pass@example.org/v1",
    "postgres://me:s3cret@host/db", '"api_key": "' + "a1B2" * 5 + '"', "api_key=" + "a1B2" * 5,
)  # fmt: skip
HARMLESS = (
    "hf-internal-testing/tiny-random-gpt2", "a task-force of twenty-seven members", "hf_model", "the bearer of bad news arrived",
    "https://example.org:8080/path", "https://example.org/a:b@c", "2026-11-21T18:26:10", "api_key_env: OPENAI_API_KEY",
    "the eyJafjallajokull.eyJ volcano", "sk-learn-compatible-estimators-for-all", "token", "a@b:c",
)  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_a_credential_is_found_where_it_stands(text):
    found = secrets_in_text(f"before {text} after")
    assert found
    assert all(text not in what for _, what in found)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_none_is_left_alone(text):
    assert secrets_in_text(f"before {text} after") == []
