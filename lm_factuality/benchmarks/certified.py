"""Checks whether a certificate was made with the judge of a run, on published data.

Leaderboards call these checks on the certificates that submissions hold.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import CertifiableSetting, as_mapping, changed_prompts
from lm_factuality.ground.errors import short

_KEYS_WITHOUT_EFFECT = {
    "name",
    "prompt_hashes",
    "base_url",
    "api_key_env",
    "tokenizer",
    "max_tokens_name",
    "schema",
    "batch_size",
    "device",
    "concurrency",
    "timeout",
    "total_timeout",
    "max_retries",
    "requests_per_minute",
    "tokens_per_minute",
    "max_cost",
    "prices",
}
"""Keys of a judge's configuration that cannot change its answers.

``prompt_hashes`` can, but prompts are compared one by one.
"""

_REQUIRED_KEYS = (
    "identity",
    "judge",
    "setting",
    "suite_version",
    "date",
    "prompt_hashes",
    "data",
    "scores",
    "intervals",
)
"""The keys that every certificate has."""


_REPLACED_HASHES_INDEX = 4
"""The position of the hashes of replaced prompts in a certificate's identity."""


def certifiable_settings() -> dict[str, CertifiableSetting]:
    """Return every setting in which a judge can be certified, by name.

    The order is that of the benchmarks in lists.
    """
    return {
        setting.name: setting
        for benchmark in all_benchmarks()
        for setting in benchmark.checks.certifiable
    }


def is_on_published_data(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate was measured on the published data of its setting."""
    setting = certifiable_settings().get(str(certificate.get("setting")))
    # The setting can belong to a package that is not installed on this machine.
    if setting is None:
        return False
    data = as_mapping(certificate.get("data"))
    # Published data can have changed since, so its hash counts as well.
    return data.get("is_published") is True and data.get("git_blob") == setting.git_blob


def certificate_problems(
    certificate: Mapping[str, Any], judge: Mapping[str, Any], suite_versions: tuple[str, ...]
) -> Iterator[str]:
    """Yield every reason why a certificate does not certify the judge of a run.

    The scores of a certificate are not checked.

    Args:
        certificate: The full certificate or its short form (see `judges.certificates`).
        judge: The judge's configuration, as the results of the run hold it.
        suite_versions: The versions of this package whose certificates are accepted.
    """
    invalid_keys = _invalid_keys(certificate)
    if invalid_keys:
        yield f"not a certificate: missing or malformed: {', '.join(invalid_keys)}"
        return

    # The certificate comes from a file of others, so messages cut its texts to a sensible length.
    for key in _differing_judge_keys(certificate["judge"], judge):
        yield f"another judge: its {key[:60]} is not that of the run; certify this one"
    if certificate["suite_version"] not in suite_versions:
        version = str(certificate["suite_version"])[:20]
        accepted = ", ".join(suite_versions)
        yield f"made by suite {version}, accepted are {accepted}; certify again"
    # Both are texts such as 2026-01-31T12:00:00+00:00.
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    if str(certificate["date"]) > tomorrow.isoformat():
        yield f"its date is {short(certificate['date'])}, expected one before now"

    # A judge may replace prompts. Their hashes then count instead of those of the setting.
    replaced_hashes = replaced_prompt_hashes(certificate["identity"]) or {}
    certified_hashes = {**certificate["prompt_hashes"], **replaced_hashes}
    for name in changed_prompts(certified_hashes, judge):
        yield f"the prompt {name[:60]} is another one; certify this judge again"


def _invalid_keys(certificate: Mapping[str, Any]) -> list[str]:
    """Return the keys of a certificate that are missing or malformed.

    The file comes from others, so nothing about its form is certain. Values are checked only if no
    key is missing.
    """
    missing_keys = [key for key in _REQUIRED_KEYS if key not in certificate]
    # The checks of values below need all keys.
    if missing_keys:
        return missing_keys

    is_valid_by_key = {
        "identity": replaced_prompt_hashes(certificate["identity"]) is not None,
        "judge": isinstance(certificate["judge"], dict),
        "setting": str(certificate["setting"]) in certifiable_settings(),
        "prompt_hashes": isinstance(certificate["prompt_hashes"], dict),
    }
    return [key for key, is_valid in is_valid_by_key.items() if not is_valid]


def _differing_judge_keys(
    certified_judge: Mapping[str, Any], run_judge: Mapping[str, Any]
) -> list[str]:
    """Return the configuration keys by which two judges may give different answers, sorted."""
    # A key that only one judge has counts as a difference as well.
    keys = {*certified_judge, *run_judge} - _KEYS_WITHOUT_EFFECT
    return sorted(key for key in keys if certified_judge.get(key) != run_judge.get(key))


def replaced_prompt_hashes(identity: object) -> dict[str, str] | None:
    """Read from a certificate's identity which prompts the judge's configuration replaces.

    Args:
        identity: A text with a JSON list, which says what a certificate depends on. Its fifth entry
            holds the hashes by the prompt's name (see ``judges.certificates.certified_identity``).

    Returns:
        The hashes, or None if the identity is malformed.

    Example:
        ``'["gpt-4", null, {}, 1, {"felm/marks": "5b1c"}]'`` gives ``{"felm/marks": "5b1c"}``.
    """
    if not isinstance(identity, str):
        return None
    # Files of others may hold anything, also JSON that is nested too deeply to parse.
    try:
        hashes = json.loads(identity)[_REPLACED_HASHES_INDEX]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    # A list or a number in the place of a hash would never match.
    if isinstance(hashes, dict) and all(isinstance(value, str) for value in hashes.values()):
        return hashes
    return None
