"""Certificates: how well a judge does where the truth is known.

They are read beside whatever the judge judges later.
"""

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from judges.config import JudgeConfig
from judges.judge import Judge
from judges.templates import Prompts
from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json, write_json
from lm_factuality.ground.published import cache_folder

# The usual ways of a judge, which identities leave out.
_USUAL = {"verdicts": "text", "verify": "fact", "thinking_tokens": None, "schema": True}
# A certificate in short: what it is about, so that whoever has only the results can tell whose it
# is, and what was found.
_SHORT = (
    "identity",
    "judge",
    "setting",
    "date",
    "suite_version",
    "data",
    "prompt_hashes",
    "intervals",
)


def make_certificate(
    judge: Judge,
    setting: str,
    measured: Mapping[str, Any],
    *,
    prompt_hashes: Mapping[str, str],
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """Certify what a judge scored.

    Args:
        judge: The judge.
        setting: What it was asked (``segment_cot``, ...).
        measured: ``scores`` (under ``ALL`` those of everything, under ``unscored`` the number of
            ``responses`` without a verdict), their ``intervals``, and whatever is to be read beside
            them.
        prompt_hashes: Of the prompts that were used.
        data: What it was asked about, and whether that ``is_published``.
    """
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {
        "identity": certified_identity(judge.config, judge.identity),
        "judge": judge.config.describe(),
        "setting": setting,
        "suite_version": __version__,
        "date": now,
        "prompt_hashes": dict(prompt_hashes),
        "data": dict(data),
        "usage": asdict(judge.usage),
        **measured,
    }


def certified_identity(config: JudgeConfig, identity: str) -> str:
    """What a certificate is about.

    That is the model by its ``identity``, how it is made to answer, the prompts that its config
    replaces, and where that is not the usual way, how it verifies facts, what room it has to think,
    and whether it is held to a schema.
    """
    own_prompts = Prompts(config.prompts).hashes(config.prompts)
    parts = [identity, config.system, config.decoding.to_dict(), config.samples, own_prompts]
    ways = {key: getattr(config, key) for key in _USUAL if getattr(config, key) != _USUAL[key]}
    if ways:
        parts.append(ways)
    return json.dumps(parts, sort_keys=True)


def certificates_folder(identity: str) -> Path:
    """Where a judge's certificates lie, the newest of each setting."""
    return cache_folder() / "certificates" / hashlib.sha256(identity.encode()).hexdigest()[:24]


def save_certificate(certificate: Mapping[str, Any], out: Path | None) -> list[Path]:
    """Write a certificate to ``out`` and, if it is on the published data, where runs find it.

    Returns:
        The files that were written.
    """
    paths = [out] if out else []
    if certificate["data"]["is_published"]:
        folder = certificates_folder(str(certificate["identity"]))
        paths.insert(0, folder / f"{certificate['setting']}.json")
    for path in paths:
        write_json(path, certificate)
    return paths


def find_certificates(judge: Judge) -> dict[str, Any] | None:
    """The newest certificates of a judge in short, by their setting.

    A certificate that was made with other prompts than today's counts no more.

    Raises:
        DataError: A file is damaged.
    """
    folder = certificates_folder(certified_identity(judge.config, judge.identity))
    certificates = {path.stem: _read_in_short(path) for path in sorted(folder.glob("*.json"))}
    return {
        setting: certificate
        for setting, certificate in certificates.items()
        if _has_prompts_of(judge, certificate["prompt_hashes"])
    } or None


def _has_prompts_of(judge: Judge, hashes: Mapping[str, str]) -> bool:
    try:
        return judge.prompts.hashes(hashes) == hashes
    except ConfigError:
        return False  # a prompt that the suite has no more


def summarize_certificate(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a certificate what results hold of it.

    Raises:
        KeyError: A key is missing.
        TypeError: A section is not as a certificate has it.
    """
    return {
        **{key: certificate[key] for key in _SHORT},
        "scores": certificate["scores"]["ALL"],
        "unscored": certificate["scores"]["unscored"]["responses"],
    }


def _read_in_short(path: Path) -> dict[str, Any]:
    try:
        return summarize_certificate(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a certificate: {error}; delete it and run lm-factuality certify again"
        ) from error
