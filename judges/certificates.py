"""Certificates: how well a judge does where the truth is known, to be read beside whatever it
judges later."""

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

_USUAL = {
    "verdicts": "text",
    "verify": "fact",
    "thinking_tokens": None,
    "schema": True,
}  # which identities leave out
_FEWEST = 20  # units in a bin by which its rate of errors can be told
# Of a certificate in short: what it is about, so that whoever has only the results can tell whose
# it is, and what was found.
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


def to_certificate(
    judge: Judge,
    setting: str,
    measured: Mapping[str, Any],
    *,
    prompt_hashes: Mapping[str, str],
    data: Mapping[str, Any],
) -> dict[str, Any]:
    """What ``judge`` scored in one ``setting`` (``segment_cot``, ...) on ``data``, which says
    whether it ``is_published``. ``measured`` has ``scores`` (under ``ALL`` those of everything,
    under ``unscored`` the number of ``responses`` without a verdict), their ``intervals``, and
    whatever is to be read beside them."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    whose = {
        "identity": certified_identity(judge.config, judge.identity),
        "judge": judge.config.describe(),
        "setting": setting,
    }
    made = {
        "suite_version": __version__,
        "date": now,
        "prompt_hashes": dict(prompt_hashes),
        "data": dict(data),
    }
    return {**whose, **made, "usage": asdict(judge.usage), **measured}


def certified_identity(config: JudgeConfig, identity: str) -> str:
    """What a certificate is about: the model by its ``identity``, how it is made to answer, the
    prompts that its config replaces, and where that is not the usual way, how it verifies facts,
    what room it has to think, and whether it is held to a schema."""
    own = Prompts(config.prompts).hashes(config.prompts)
    ways = {key: value for key, usual in _USUAL.items() if (value := getattr(config, key)) != usual}
    said = [
        identity,
        config.system,
        config.decoding.to_dict(),
        config.samples,
        own,
        *([ways] if ways else []),
    ]
    return json.dumps(said, sort_keys=True)


def certificates_folder(identity: str) -> Path:
    """Where a judge's certificates lie, the newest of each setting."""
    return cache_folder() / "certificates" / hashlib.sha256(identity.encode()).hexdigest()[:24]


def save_certificate(certificate: Mapping[str, Any], out: Path | None) -> list[Path]:
    """Writes it to ``out``, and, if it is on the published data, where later runs find it; returns
    where."""
    folder = certificates_folder(str(certificate["identity"]))
    kept = (
        [folder / f"{certificate['setting']}.json"] if certificate["data"]["is_published"] else []
    )
    paths = [*kept, *([out] if out else [])]
    for path in paths:
        write_json(path, certificate)
    return paths


def find_certificate(judge: Judge) -> dict[str, Any] | None:
    """The newest certificates of ``judge`` in short, by their setting: date, data, and the scores
    on all domains. One that was made with other prompts than today's counts no more. Raises
    DataError: there is a file, but it is damaged."""
    folder = certificates_folder(certified_identity(judge.config, judge.identity))
    found = {path.stem: _in_short(path) for path in sorted(folder.glob("*.json"))}
    return {
        name: each for name, each in found.items() if _has_prompts_of(judge, each["prompt_hashes"])
    } or None


def _has_prompts_of(judge: Judge, hashes: Mapping[str, str]) -> bool:
    try:
        return all(
            name == "authors" or judge.prompts.hash(name) == found for name, found in hashes.items()
        )
    except ConfigError:
        return False  # a prompt that the suite has no more


def find_calibration(
    config: JudgeConfig, identity: str, error: float
) -> tuple[tuple[float, float], ...]:
    """The bands of probability in which more than a share ``error`` of a judge's verdicts were
    wrong when it was certified; or it gave too few to tell. Raises ConfigError: it has no
    certificate with a calibration. Raises DataError: it is damaged."""
    paths = sorted(certificates_folder(certified_identity(config, identity)).glob("*.json"))
    tables = [table for path in paths if (table := _read(path).get("calibration"))]
    if not tables:
        advice = (
            f"certify it first (lm-factuality certify --judge {config.name}.yaml), or give a band"
            " such as [0.2, 0.8]"
        )
        raise ConfigError(
            f"unsure: calibrated: {config.name} has no certificate that says where it errs;"
            f" {advice}"
        )
    unsure = [
        each
        for each in tables[0]
        if each["units"] < _FEWEST or each["wrong"] > error * each["units"]
    ]
    return tuple((each["low"], each["high"]) for each in unsure)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not a certificate: {error}; delete it and run lm-factuality certify again"
        ) from error
    return found


def _in_short(path: Path) -> dict[str, Any]:
    found = _read(path)
    try:
        kept = {key: found[key] for key in _SHORT}
        return {
            **kept,
            "scores": found["scores"]["ALL"],
            "unscored": found["scores"]["unscored"]["responses"],
        }
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a certificate: {error}; delete it and run lm-factuality certify again"
        ) from error
