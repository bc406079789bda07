"""From lm_eval's results to a submission: the files as lm_eval wrote them, and what they are."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.errors import ConfigError, DataError, refuse
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.describe import date_of, describe_task
from lm_factuality.leaderboard.rules import Rules, leaderboard_names, read_rules
from lm_factuality.leaderboard.scan import own_secrets, secrets_in_file
from lm_factuality.leaderboard.submission import (
    CERTIFICATE,
    MODEL_NAME,
    REVISION,
    PackedFile,
    Submission,
    SubmittedCertificate,
    SubmittedModel,
    sha256_of,
    write_submission,
)
from lm_factuality.results import ResultsFile, read_results_files

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


@dataclass(frozen=True)
class Told:
    """What the results do not say, from the command line; an empty text is nothing."""

    model: str
    leaderboard: str = ""
    revision: str = ""
    dtype: str = ""
    certificate: Path | None = None
    notes: str = ""


def pack(results: Sequence[Path], told: Told, out: Path) -> Path:
    """Writes the submission below ``out``, in ``ORG__NAME/LEADERBOARD/DATE``, and returns that folder; nothing is written unless
    all of it would be accepted.

    Raises:
        ConfigError: ``told`` is not in order, or something is missing there.
        DataError: results or samples are missing, hold credentials, or ``check`` refuses them.
    """
    if not MODEL_NAME.fullmatch(told.model):
        raise ConfigError(f"--model is {told.model!r}; expected ORG/NAME as on the Hub, such as facebook/opt-125m")
    files = read_results_files(results)
    rules = _find_rules(told.leaderboard, files)
    chosen = _choose(rules, files)
    newest = max(chosen.values(), key=lambda file: file.date)
    model = SubmittedModel(
        told.model, _revision(told, newest), told.dtype.removeprefix("torch.") or newest.dtype or "", newest.backend,
        None if newest.num_parameters is None else int(newest.num_parameters),
    )  # fmt: skip
    if not model.dtype:
        raise ConfigError(f"{newest.path}: does not say in which number format the model was run; give it by --dtype")
    target = out / told.model.replace("/", "__") / rules.name / newest.date_text[:19]
    if target.exists():
        raise DataError(f"{target}: is there already; delete it, or give another folder by --out")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".packing-") as temporary:
        folder = Path(temporary) / "submission"
        folder.mkdir()
        _write(folder, rules, chosen, newest, model, told)
        refuse([str(each) for each in check_submission(folder).refusals], "refusals", "Nothing is packed.")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.replace(target)
    return target


def _write(
    folder: Path,
    rules: Rules,
    chosen: Mapping[str, ResultsFile],
    newest: ResultsFile,
    model: SubmittedModel,
    told: Told,
) -> None:
    tasks = []
    sources: dict[str, Path] = {}
    for name, file in chosen.items():
        task = file.task(name)
        if task is None or task.samples is None:
            raise DataError(f"{file.path}: the samples of {name} are gone")
        for path in (file.path, task.samples):
            if sources.setdefault(path.name, path).resolve() != path.resolve():
                raise DataError(f"{path}: another file of this name is packed already; give the results of one run")
        tasks.append(describe_task(file, task, file.path.name, task.samples.name))
    if told.certificate is not None:
        sources[CERTIFICATE] = told.certificate
    _refuse_secrets(sources.values(), told)
    for file_name, source in sources.items():
        try:
            shutil.copyfile(source, folder / file_name)
        except OSError as error:
            raise DataError(f"{source}: cannot be copied: {error}") from error
    packed = tuple(
        PackedFile(name, sha256_of(folder / name), (folder / name).stat().st_size) for name in sorted(sources)
    )
    versions = newest.versions
    write_submission(folder, Submission(
        rules.name, model, date_of(newest), versions.get("suite", ""), versions.get("lm_eval", ""), told.notes, tuple(tasks),
        _certificate(folder, packed) if told.certificate else None, packed,
    ))  # fmt: skip


def _find_rules(name: str, files: Sequence[ResultsFile]) -> Rules:
    """Those of the leaderboard called ``name``, or of the only one of which all tasks are there."""
    if name:
        return read_rules(name)
    there = {task.task for file in files for task in file.tasks}
    every = [read_rules(each) for each in leaderboard_names()]
    whole = [rules for rules in every if {task.task for task in rules.tasks} <= there]
    if len(whole) == 1:
        return whole[0]
    if whole:
        raise ConfigError(
            f"the results are whole for {', '.join(each.name for each in whole)}; choose one by --leaderboard"
        )
    closest = min(every, key=lambda rules: len({task.task for task in rules.tasks} - there))
    missing = sorted({task.task for task in closest.tasks} - there)
    raise ConfigError(
        f"the results have no leaderboard's tasks; closest is {closest.name}, for which there is no {', '.join(missing)}. Run: "
        f"lm-factuality run --config configs/leaderboard/{closest.name}.yaml"
    )


def _choose(rules: Rules, files: Sequence[ResultsFile]) -> dict[str, ResultsFile]:
    """The newest results of each task that have samples."""
    chosen: dict[str, ResultsFile] = {}
    problems = []
    for rule in rules.tasks:
        having = [file for file in files if file.task(rule.task) is not None]
        sampled = [file for file in having if (task := file.task(rule.task)) is not None and task.samples is not None]
        if sampled:
            chosen[rule.task] = max(sampled, key=lambda file: file.date)
        elif having:
            problems.append(f"{rule.task}: {having[0].path} has no samples beside it; run it again with --log_samples")
        else:
            problems.append(f"{rule.task}: not in the results")
    refuse(problems, "tasks", f"Run: lm-factuality run --config configs/leaderboard/{rules.name}.yaml")
    return chosen


def _revision(told: Told, file: ResultsFile) -> str:
    """The commit that lm_eval knows, the hash of a local checkpoint's weights, or what was told."""
    commit = str((file.content.get("config") or {}).get("model_sha") or "")
    folder = Path(file.model)
    found = commit if _COMMIT.fullmatch(commit) else ""
    if not found and folder.is_dir():
        found = weights_hash(folder)
    if told.revision and found and told.revision != found:
        raise ConfigError(f"--revision is {told.revision}, but {found} was run; leave --revision out")
    revision = told.revision or found
    if not REVISION.fullmatch(revision):
        given = f"--revision is {revision!r}" if revision else f"{file.path}: does not say which weights were run"
        raise ConfigError(
            f"{given}; give --revision: the commit (40 hexadecimal digits), sha256: and the hash of a local checkpoint, or api: "
            "and the dated name by which the service knows the model"
        )
    return revision


def weights_hash(folder: Path) -> str:
    """``sha256:`` and the hash of the names and hashes of a local checkpoint's weights.

    Raises:
        ConfigError: there are no weights.
    """
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not weights:
        raise ConfigError(f"{folder}: no weights here ({', '.join(_WEIGHTS)}); give --revision")
    lines = "".join(f"{sha256_of(path)}  {path.name}\n" for path in weights)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _refuse_secrets(paths: Any, told: Told) -> None:
    values = own_secrets()
    problems = [f"SECRET {path}: {place}" for path in paths for place in secrets_in_file(path, values)]
    if any(value in told.notes for value in values.values()):
        problems.append("SECRET --notes: holds the value of an environment variable")
    refuse(
        problems,
        "places",
        "Nothing is packed. Withdraw the credential if the file was ever public, and run again without it.",
    )


def _certificate(folder: Path, packed: Sequence[PackedFile]) -> SubmittedCertificate:
    (file,) = (each for each in packed if each.path == CERTIFICATE)
    try:
        content = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"--certificate: not JSON: {error}; expected what 'lm-factuality certify --out' wrote"
        ) from error
    if not isinstance(content, dict):
        raise DataError("--certificate: no JSON object; expected what 'lm-factuality certify --out' wrote")
    return SubmittedCertificate(file.path, file.sha256, content)
