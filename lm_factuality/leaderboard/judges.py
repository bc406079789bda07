"""Whether the judge that marked the responses is one with a certificate, and the certificate is its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lm_factuality import __version__
from lm_factuality.data.registry import find_source
from lm_factuality.leaderboard.refusals import Refusal
from lm_factuality.leaderboard.rules import Rules
from lm_factuality.leaderboard.submission import Submission, SubmittedCertificate
from lm_factuality.results import TaskResult

# Of a judge's description: what can change its answers.
_IDENTITY = (
    "backend", "model", "model_args", "apply_chat_template", "options", "decoding", "samples", "system", "extra_body", "endpoint",
    "prompts",
)  # fmt: skip
JUDGED = ("felm_gen", "factor_generation", "ambigbio")  # kinds of tasks whose responses a judge marks


def check_judge(folder: Path, submission: Submission, task: TaskResult, rules: Rules) -> list[Refusal]:
    """What is wrong with the judge of a task; nothing for tasks without one."""
    if task.kind not in JUDGED:
        return []
    judge = task.metadata.get("judge_config")
    if not isinstance(judge, dict) or not isinstance(judge.get("prompt_hashes"), dict):
        return [Refusal("RESULTS_INVALID", task.task, "judge_config with prompt_hashes is missing; run it again")]
    return [*_prompts(task, judge), *_certificate(folder, submission.certificate, task, judge, rules)]


def _prompts(task: TaskResult, judge: Mapping[str, Any]) -> Iterator[Refusal]:
    """Prompts that the judge does not replace must be the suite's."""
    if task.metadata.get("suite_version") != __version__:
        return
    from judges.templates import Prompts

    own = judge.get("prompts") or {}
    prompts = Prompts()
    for name, found in judge["prompt_hashes"].items():
        if name not in own and found != _hash_of(prompts, str(name)):
            yield Refusal(
                "CONFIG_DIFFERS", task.task, f"the judge's prompt {str(name)[:60]} is not that of suite {__version__}"
            )


def _hash_of(prompts: Any, name: str) -> str | None:
    from lm_factuality.errors import ConfigError

    try:
        found: str = prompts.hash(name)
    except ConfigError:
        return None
    return found


def _certificate(
    folder: Path, given: SubmittedCertificate | None, task: TaskResult, judge: Mapping[str, Any], rules: Rules
) -> Iterator[Refusal]:
    attached = task.metadata.get("judge_certificate")
    if given is not None:
        yield from _mismatches(folder, given, task, judge)
        data = [given.content.get("data")]
    elif isinstance(attached, dict):
        data = [each.get("data") for each in attached.values() if isinstance(each, dict)]
    else:
        data = []
    if rules.certificate == "none":
        return
    if not data:
        yield Refusal(
            "JUDGE_UNCERTIFIED", task.task,
            "no certificate: make one by lm-factuality certify --judge CONFIG --out certificate.json; pack with --certificate",
        )  # fmt: skip
    elif rules.certificate == "published" and not any(_is_published(each) for each in data):
        yield Refusal(
            "JUDGE_UNCERTIFIED", task.task, "the certificate was not made on FELM as published; certify again on that"
        )


def _mismatches(
    folder: Path, given: SubmittedCertificate, task: TaskResult, judge: Mapping[str, Any]
) -> Iterator[Refusal]:
    content = given.content
    missing = [key for key in ("identity", "judge", "setting", "prompt_hashes", "data", "scores") if key not in content]
    if missing or not isinstance(content["judge"], dict) or not isinstance(content["prompt_hashes"], dict):
        yield Refusal(
            "CERTIFICATE_MISMATCH", given.path, f"not a certificate: {', '.join(missing) or 'judge'} is not in order"
        )
        return
    try:
        same = json.loads((folder / given.path).read_text(encoding="utf-8")) == content
    except (OSError, ValueError, RecursionError):
        same = False
    if not same:
        yield Refusal("CLAIM_DIFFERS", "certificate", f"the content is not that of {given.path}; pack again")
    for key in _IDENTITY:
        if content["judge"].get(key) != judge.get(key):
            yield Refusal(
                "CERTIFICATE_MISMATCH", task.task, f"another judge: its {key} is not that of the run; certify this one"
            )
    hashes = {**content["prompt_hashes"], **_own_hashes(content["identity"])}
    for name in sorted(set(hashes) & set(judge["prompt_hashes"])):
        if hashes[name] != judge["prompt_hashes"][name]:
            yield Refusal(
                "CERTIFICATE_MISMATCH", task.task, f"the prompt {name[:60]} is another one; certify this judge again"
            )


def _own_hashes(identity: Any) -> dict[str, str]:
    """The hashes of the prompts that a certified judge replaces (see ``judges.certificates.certified_identity``)."""
    try:
        own = json.loads(identity)[-1]
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        return {}
    return own if isinstance(own, dict) else {}


def _is_published(data: Any) -> bool:
    return (
        isinstance(data, dict) and data.get("is_published") is True and data.get("git_blob") == find_source("felm").blob
    )
