"""Whether a certificate is that of the judge of a run."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lm_factuality.benchmarks import all_benchmarks
from lm_factuality.benchmarks.certifiable import (
    CertifiableSetting,
    as_mapping,
)

_WITHOUT_EFFECT = {
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
"""Keys of a judge's description that cannot change its answers, or that are compared apart."""

_KEYS = (
    "identity",
    "judge",
    "setting",
    "suite_version",
    "prompt_hashes",
    "data",
    "scores",
    "intervals",
)


def certifiable_settings() -> dict[str, CertifiableSetting]:
    """What can be certified, by name, in the order of the benchmarks."""
    return {
        each.name: each for benchmark in all_benchmarks() for each in benchmark.checks.certifiable
    }


def is_on_published_data(content: Mapping[str, Any]) -> bool:
    """Whether it was measured on the published data of its setting."""
    setting = certifiable_settings().get(str(content.get("setting")))
    data = as_mapping(content.get("data"))
    return (
        setting is not None
        and data.get("is_published") is True
        and data.get("git_blob") == setting.git_blob
    )


def certificate_problems(
    content: Mapping[str, Any], judge: Mapping[str, Any], suites: tuple[str, ...]
) -> Iterator[str]:
    """Why a certificate is not one of this judge.

    Its scores are believed: who doubts them certifies the judge again.

    Args:
        content: The certificate, whole or in short (see `judges.certificates`).
        judge: The judge's configuration in the results.
        suites: The versions of the suite that are taken.
    """
    missing = [key for key in _KEYS if key not in content]
    replaced = replaced_prompt_hashes(content.get("identity"))
    certified = content.get("judge")
    hashes = content.get("prompt_hashes")
    if (
        missing
        or replaced is None
        or not isinstance(certified, dict)
        or not isinstance(hashes, dict)
        or str(content["setting"]) not in certifiable_settings()
    ):
        problem = ", ".join(missing) or "its identity, judge, setting or prompt_hashes"
        yield f"not a certificate: {problem} is missing or not in order"
        return
    for key in sorted({*certified, *judge} - _WITHOUT_EFFECT):
        if certified.get(key) != judge.get(key):
            yield f"another judge: its {key[:60]} is not that of the run; certify this one"
    if content["suite_version"] not in suites:
        version = str(content["suite_version"])[:20]
        yield f"made by suite {version}, taken are {', '.join(suites)}; certify again"
    run_hashes = as_mapping(judge.get("prompt_hashes"))
    certified_hashes = {**hashes, **replaced}
    for name in sorted(set(run_hashes) & set(certified_hashes)):
        if certified_hashes[name] != run_hashes[name]:
            yield f"the prompt {name[:60]} is another one; certify this judge again"


def replaced_prompt_hashes(identity: Any) -> dict[str, str] | None:
    """Return the hashes of the prompts that a certified judge replaces.

    They are part of its identity (see ``judges.certificates.certified_identity``).

    Returns:
        The hashes by prompt, or None if the identity is not in order.
    """
    try:
        hashes = json.loads(identity)[4]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    is_sound = isinstance(hashes, dict) and all(isinstance(value, str) for value in hashes.values())
    return hashes if is_sound else None
