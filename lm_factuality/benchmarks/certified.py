"""Checks whether a certificate was made with the judge of a run, on published data.

Leaderboards call these checks on the certificates that submissions hold.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import CertifiableSetting, as_mapping

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
    "prompt_hashes",
    "data",
    "scores",
    "intervals",
)
"""The keys that every certificate has."""


def certifiable_settings() -> dict[str, CertifiableSetting]:
    """Return every setting in which a judge can be certified, by name."""
    settings = {}
    for benchmark in all_benchmarks():
        for setting in benchmark.checks.certifiable:
            settings[setting.name] = setting
    return settings


def is_on_published_data(certificate: Mapping[str, Any]) -> bool:
    """Return whether a certificate was measured on the published data of its setting."""
    setting = certifiable_settings().get(str(certificate.get("setting")))
    # The setting can belong to a package that is not installed here.
    if setting is None:
        return False
    data = as_mapping(certificate.get("data"))
    return data.get("is_published") is True and data.get("git_blob") == setting.git_blob


def certificate_problems(
    certificate: Mapping[str, Any], judge: Mapping[str, Any], suite_versions: tuple[str, ...]
) -> Iterator[str]:
    """Yield every reason why a certificate does not certify the judge of a run.

    The scores of a certificate are not checked. Whoever doubts them certifies the judge again.

    Args:
        certificate: The full certificate or its short form (see `judges.certificates`).
        judge: The judge's configuration, as the results of the run hold it.
        suite_versions: The versions of this package whose certificates are accepted.
    """
    shape_problem = _shape_problem(certificate)
    if shape_problem:
        yield f"not a certificate: {shape_problem} is missing or not in order"
        return

    certified_judge = certificate["judge"]
    # A key that only one of them has counts as a difference as well.
    for key in sorted({*certified_judge, *judge} - _KEYS_WITHOUT_EFFECT):
        if certified_judge.get(key) != judge.get(key):
            yield f"another judge: its {key[:60]} is not that of the run; certify this one"

    if certificate["suite_version"] not in suite_versions:
        # The version comes from a file of others, so it can be a long text.
        version = str(certificate["suite_version"])[:20]
        accepted = ", ".join(suite_versions)
        yield f"made by suite {version}, taken are {accepted}; certify again"

    # A run can use prompts that the setting does not, so only shared ones are compared.
    run_hashes = as_mapping(judge.get("prompt_hashes"))
    replaced_hashes = replaced_prompt_hashes(certificate["identity"]) or {}
    # A judge may replace prompts. Their hashes then count instead of those of the setting.
    certified_hashes = {**certificate["prompt_hashes"], **replaced_hashes}
    for name in sorted(set(run_hashes) & set(certified_hashes)):
        if certified_hashes[name] != run_hashes[name]:
            yield f"the prompt {name[:60]} is another one; certify this judge again"


def _shape_problem(certificate: Mapping[str, Any]) -> str:
    """Return the parts of a certificate that are missing or malformed, or an empty text."""
    missing = [key for key in _REQUIRED_KEYS if key not in certificate]
    if missing:
        return ", ".join(missing)

    # The file comes from others, so nothing about its form is certain.
    is_sound = (
        replaced_prompt_hashes(certificate["identity"]) is not None
        and isinstance(certificate["judge"], dict)
        and isinstance(certificate["prompt_hashes"], dict)
        and str(certificate["setting"]) in certifiable_settings()
    )
    return "" if is_sound else "its identity, judge, setting or prompt_hashes"


def replaced_prompt_hashes(identity: object) -> dict[str, str] | None:
    """Read from a certificate's identity which prompts the judge's configuration replaces.

    Args:
        identity: A JSON list, whose fifth entry holds the hashes by the prompt's name (see
            ``judges.certificates.certified_identity``).

    Returns:
        The hashes, or None if the identity is malformed.

    Example:
        ``'["gpt-4", null, {}, 1, {"felm/marks": "5b1c"}]'`` gives ``{"felm/marks": "5b1c"}``.
    """
    if not isinstance(identity, str):
        return None
    # Files of others may hold anything here, also JSON that is nested too deeply to parse.
    try:
        hashes = json.loads(identity)[4]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if not isinstance(hashes, dict):
        return None
    # A list or a number in the place of a hash would never match.
    all_are_texts = all(isinstance(prompt_hash, str) for prompt_hash in hashes.values())
    return hashes if all_are_texts else None
