"""Certificates: records of how well a judge decides questions whose answers are known.

The command ``certify`` makes and saves them. Later runs of the same judge find them and attach them
to their results.
"""

import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from judges import LEXICAL
from judges.answers import Answer, Request
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge, open_backend
from judges.store import AnswerStore
from judges.templates import Prompts
from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.files import parse_json, write_json, write_lines
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.records import lines_of, to_model

# Settings that are part of a judge's identity only if they differ from these defaults, so that
# identities of older certificates, which lack these settings, stay valid.
_DEFAULT_SETTINGS = {"verdicts": "text", "verify": "fact", "thinking_tokens": None, "schema": True}

# The keys of a certificate that results repeat.
_SUMMARY_KEYS = (
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
    """Make the certificate of a judge for one kind of question.

    Args:
        judge: The judge.
        setting: The kind of question, such as ``segment_cot``.
        measured: The scores of all questions and by groups, how many responses are unscored, and
            the intervals of the scores: ``{"scores": {"ALL": {"f1": 0.8}, ..., "unscored":
            {"responses": 3}}, "intervals": {...}}``.
        prompt_hashes: The hashes of the prompts that were used, by prompt.
        data: Where the questions are from, and whether that is the published data: ``{...,
            "is_published": True}``.

    Returns:
        The certificate, as it is written to a JSON file.
    """
    # Seconds are precise enough, and keep the file easy to read.
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


def certified_identity(config: JudgeConfig, model_identity: str) -> str:
    """Return everything about a judge that can change a verdict, as a JSON list.

    Two judges have the same identity only if they decide alike.

    Args:
        config: The settings of the judge.
        model_identity: The identity of its model (`Judge.identity`).
    """
    parts: list[Any] = [
        model_identity,
        config.system,
        config.decoding.to_dict(),
        config.samples,
        # The prompts of the suite are left out: `find_certificates` compares their hashes.
        Prompts(config.prompts).hashes(config.prompts),
    ]
    changed_settings = {}
    for key, default in _DEFAULT_SETTINGS.items():
        value = getattr(config, key)
        if value != default:
            changed_settings[key] = value
    if changed_settings:
        parts.append(changed_settings)
    # Sorted keys give equal judges equal identities.
    return json.dumps(parts, sort_keys=True)


def certificates_folder(identity: str) -> Path:
    """Return the folder with the newest certificate of each setting, for a certified identity."""
    # An identity is too long for the name of a folder.
    digest = hashlib.sha256(identity.encode()).hexdigest()[:24]
    return cache_folder() / "certificates" / digest


def save_certificate(
    certificate: Mapping[str, Any], out: Path | None, answers: Sequence[Answer] = ()
) -> list[Path]:
    """Write a certificate to a file, and to the user's cache folder if later runs may use it.

    Args:
        certificate: The certificate.
        out: The file to write, if the user named one.
        answers: The judge's answers that it was measured by, in the order of the questions. They
            are written to another file next to ``out`` (`answers_path`).

    Returns:
        The files that were written.
    """
    paths = []
    # Runs of the same judge find certificates in the cache folder. A score on a user's own data
    # says little about other data, so it does not go there.
    if certificate["data"]["is_published"]:
        folder = certificates_folder(str(certificate["identity"]))
        path = folder / f"{certificate['setting']}.json"
        write_json(path, certificate)
        paths.append(path)

    if out is not None:
        write_json(out, certificate)
        # Thoughts are long, and no verdict is read from them.
        lines = (replace(answer, reasoning=None).to_json() for answer in answers)
        write_lines(answers_path(out), lines)
        paths += [out, answers_path(out)]
    return paths


def answers_path(certificate: Path) -> Path:
    """Return the file with the answers that a certificate was measured by.

    Example:
        The answers of ``certificate.json`` are in ``certificate.answers.jsonl``.
    """
    return certificate.with_suffix(".answers.jsonl")


class ReplayedJudge(Judge):
    """A judge that gives the answers of a certificate again, and asks and stores nothing."""

    def __init__(self, config: JudgeConfig, answers: Path, folder: Path) -> None:
        """Open a file of answers.

        Args:
            config: The settings of the judge that gave the answers.
            answers: The file.
            folder: An empty folder, for the store that every judge has.

        Raises:
            DataError: The file cannot be read. Every method that asks raises it as well.
        """
        # Every judge has a backend and a store, but `_answer` below uses neither.
        backend = open_backend(load_judge_config(LEXICAL))
        super().__init__(config, backend, AnswerStore(folder / "answers.sqlite"), Prompts({}))
        self._path = answers
        self._answers = _read_answers(answers)

    def _answer(self, requests: Sequence[Request], description: str) -> list[Answer]:
        """Return the next answers in the file, one per request. They have the same order."""
        answers = list(islice(self._answers, len(requests)))
        if len(answers) < len(requests):
            raise DataError(f"{self._path}: has fewer answers than the judge was asked questions")
        return answers

    def refuse_more_answers(self) -> None:
        """Raise a DataError if the file has answers that no question has taken."""
        if next(self._answers, None) is not None:
            raise DataError(f"{self._path}: has more answers than the judge was asked questions")


def _read_answers(path: Path) -> Iterator[Answer]:
    """Yield the answers in a file one by one.

    Raises:
        DataError: A line is not an answer.
    """
    for number, line in lines_of(path, "expected the answers as certify wrote them"):
        try:
            yield to_model(Answer, parse_json(line))
        except ValueError as error:
            raise DataError(f"{path}:{number}: not an answer of a judge: {error}") from error


def find_certificates(judge: Judge) -> dict[str, Any] | None:
    """Find the newest certificates of a judge whose prompts have not changed since.

    Returns:
        The summary of each certificate by the kind of question, such as ``{"segment_cot": ...}``.
        None if the judge has no valid certificate.

    Raises:
        DataError: A file is damaged.
    """
    folder = certificates_folder(certified_identity(judge.config, judge.identity))
    certificates = {}
    # A new certificate replaces the file of the last one, so each setting has only the newest.
    for path in sorted(folder.glob("*.json")):
        certificate = _read_summary(path)
        if _has_same_prompts(judge, certificate["prompt_hashes"]):
            certificates[path.stem] = certificate
    # Results have no key at all for a judge without certificates.
    return certificates or None


def _read_summary(path: Path) -> dict[str, Any]:
    """Read the summary of the certificate in a JSON file.

    Raises:
        DataError: The file is not a certificate.
    """
    try:
        return summarize_certificate(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a certificate: {error}; delete it and run lm-factuality certify again"
        ) from error


def _has_same_prompts(judge: Judge, prompt_hashes: Mapping[str, str]) -> bool:
    """Return whether the prompts of a judge still have these hashes."""
    try:
        return judge.prompts.hashes(prompt_hashes) == prompt_hashes
    except ConfigError:
        # A prompt has been removed since.
        return False


def summarize_certificate(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a certificate that results files show next to the scores of a run.

    Example:
        ``{"judge": {...}, "date": "2025-06-01T09:30:00+00:00", ..., "scores": {"f1": 0.8},
        "unscored": 3}``

    Raises:
        KeyError: A key is missing.
        TypeError: A section does not have the form of a certificate's.
    """
    # Scores by group of questions would be too long for a results file.
    scores = certificate["scores"]
    summary = {key: certificate[key] for key in _SUMMARY_KEYS}
    summary["scores"] = scores["ALL"]
    summary["unscored"] = scores["unscored"]["responses"]
    return summary
