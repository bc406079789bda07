"""From lm_eval's results to a submission: the files as lm_eval wrote them, and what they are."""

import contextlib
import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.ground.errors import ConfigError, DataError, refuse
from lm_factuality.ground.files import alone, parse_json, sha256_of
from lm_factuality.ground.suite import find_config
from lm_factuality.harness.outputs import ResultsFile, TaskResult
from lm_factuality.leaderboard import submission as submitted
from lm_factuality.leaderboard.check import UNFINISHED, check_submission
from lm_factuality.leaderboard.contents import own_secrets, secrets_in_file
from lm_factuality.leaderboard.rules import Rules, leaderboard_names, read_rules
from lm_factuality.leaderboard.runs import Run, describe_task, is_judged, num_parameters_of
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key
from lm_factuality.results.read import date_of, read_results_files, write_correction

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def weights_hash(folder: Path) -> str:
    """``sha256:`` and a hash of the names and contents of a local checkpoint's weights.

    Raises:
        ConfigError: The folder holds no weights.
    """
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not weights:
        raise ConfigError(f"{folder}: no weights here ({', '.join(_WEIGHTS)})")
    lines = "".join(f"{sha256_of(path)}  {path.name}\n" for path in weights)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


@dataclass(frozen=True)
class PackOptions:
    """What the results do not say; empty texts are not given. ``rules`` is a folder of rules
    instead of the suite's. By ``labels`` on the sheet of ``key`` scores are corrected."""

    model: str
    leaderboard: str = ""
    revision: str = ""
    dtype: str = ""
    certificate: Path | None = None
    notes: str = ""
    rules: Path | None = None
    key: Path | None = None
    labels: tuple[Path, ...] = ()


def pack(results: Sequence[Path], options: PackOptions, out: Path) -> Path:
    """Writes the submission below ``out``, in ``ORG__NAME/LEADERBOARD/DATE``, and returns that
    folder; nothing is written unless all of it would be accepted. Raises ConfigError: ``options``
    are not in order, or lack something; all of it is named at once. Raises DataError: results or
    samples are missing, hold credentials, or ``check`` refuses them."""
    files = read_results_files(results, with_corrected=False)
    rules = _find_rules(options, files)
    chosen, problems = _choose(rules, files)
    refuse(problems, "results", _run_again(rules))
    newest = max(chosen.values(), key=lambda file: file.date)
    model = _model(
        options, rules, newest, [task for name, file in chosen.items() if (task := file.task(name))]
    )
    target = out / options.model.replace("/", "__") / rules.name / newest.date_text[:19]
    folder = out / UNFINISHED / "submission"
    busy, advice = "another pack is at work here; wait until it has ended", "choose another --out"
    with alone(folder.parent, busy, advice), contextlib.ExitStack() as at_end:
        at_end.callback(shutil.rmtree, folder.parent, ignore_errors=True)
        if target.exists():
            raise DataError(
                f"{target}: is there already; delete it, or give another folder by --out"
            )
        shutil.rmtree(folder, ignore_errors=True)  # of a pack that was killed
        folder.mkdir()
        _correct(folder, chosen, options)
        packed = _copy(folder, chosen, options)
        tasks = [
            describe_task(Run(file), task)
            for name, file in chosen.items()
            if (task := file.task(name)) and task.samples
        ]
        about: Any = {
            "leaderboard": rules.name,
            "model": model,
            "date": date_of(newest),
            "notes": options.notes,
        }
        about |= {f"{name}_version": newest.versions.get(name, "") for name in ("suite", "lm_eval")}
        about |= {
            "key": options.key.name if options.key else "",
            "labels": tuple(each.name for each in options.labels),
        }
        about["certificate"] = _certificate(folder) if options.certificate else None
        # As it is: what is not in order, the check refuses when it reads it.
        submission = submitted.Submission.model_construct(**about, tasks=tuple(tasks), files=packed)
        submitted.write_submission(folder, submission)
        refusals = check_submission(folder, options.rules).refusals
        refuse([str(each) for each in refusals], "refusals", "Nothing is packed.")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.replace(target)
    return target


def _correct(folder: Path, chosen: Mapping[str, ResultsFile], options: PackOptions) -> None:
    if (options.key is None) != (not options.labels):
        raise ConfigError("--key and --labels: give both, the sheet's key and what people answered")
    wanted = {each.task for each in read_key(options.key).sources} if options.key else set()
    if unpacked := sorted(wanted - set(chosen)):
        raise ConfigError(
            f"--key {options.key}: its sheet is of {', '.join(unpacked)}, which is not packed"
        )
    for name in sorted(wanted):
        task = chosen[name].task(name)
        if options.key and task:
            write_correction(
                correct(task, options.key, options.labels), folder / chosen[name].path.name
            )


def _copy(
    folder: Path, chosen: Mapping[str, ResultsFile], options: PackOptions
) -> tuple[submitted.PackedFile, ...]:
    sources: dict[str, Path] = {}
    for name, file in chosen.items():
        task = file.task(name)
        for path in (file.path, task.samples if task else None):
            if path is None:
                raise DataError(f"{file.path}: the samples of {name} are gone")
            if sources.setdefault(path.name, path).resolve() != path.resolve():
                raise DataError(
                    f"{path}: another file of this name is packed already; give the results of"
                    " one run"
                )
    if options.certificate is not None:
        sources[submitted.CERTIFICATE] = options.certificate
    for path in (*([options.key] if options.key else []), *options.labels):
        if sources.setdefault(path.name, path) != path:
            raise DataError(f"{path}: another file of this name is packed already; rename it")
    values = own_secrets()
    problems = [
        f"SECRET {path}: {place}"
        for path in sources.values()
        for place in secrets_in_file(path, values)
    ]
    if any(value in options.notes for value in values.values()):
        problems.append("SECRET --notes: holds the value of an environment variable")
    advice = (
        "Nothing is packed. Withdraw the credential if the file was ever public, and run again"
        " without it."
    )
    refuse(problems, "places", advice)
    for file_name, source in sources.items():
        try:
            shutil.copyfile(source, folder / file_name)
        except OSError as error:
            raise DataError(f"{source}: cannot be copied: {error}") from error
    paths = sorted(folder.iterdir())
    return tuple(
        submitted.PackedFile(path=path.name, sha256=sha256_of(path), bytes=path.stat().st_size)
        for path in paths
    )


def _find_rules(options: PackOptions, files: Sequence[ResultsFile]) -> Rules:
    """Those of the leaderboard that is named, or of the only one of which all tasks are there."""
    if options.leaderboard:
        return read_rules(options.leaderboard, options.rules)
    there = {task.task for file in files for task in file.tasks}
    every = [read_rules(each, options.rules) for each in leaderboard_names(options.rules)]
    whole = [rules for rules in every if set(rules.by_task) <= there]
    if len(whole) == 1:
        return whole[0]
    if whole:
        raise ConfigError(
            f"the results are whole for {', '.join(each.name for each in whole)}; choose one by"
            " --leaderboard"
        )
    closest = max(
        every,
        key=lambda rules: (len(rules.by_task.keys() & there), -len(rules.by_task.keys() - there)),
    )
    if not closest.by_task.keys() & there:
        known = ", ".join(rules.name for rules in every)
        raise ConfigError(
            f"the results have no task of a leaderboard; there are {known}. {_run_again(closest)}"
        )
    missing = ", ".join(sorted(closest.by_task.keys() - there))
    found = (
        f"the results are whole for no leaderboard; closest is {closest.name}, for which there is"
        f" no {missing}"
    )
    raise ConfigError(f"{found}. {_run_again(closest)}")


def _run_again(rules: Rules) -> str:
    """What to run; the tasks are named, since a results file is packed as lm_eval wrote it, all of
    it or nothing."""
    tasks = f"--tasks {','.join(rules.by_task)} and no other, with --log_samples"
    config = Path(f"configs/leaderboard/{rules.name}.yaml")
    return (
        f"Run: lm-factuality run --config {config} ({tasks})"
        if find_config(config).is_file()
        else f"Run {tasks}"
    )


def _choose(rules: Rules, files: Sequence[ResultsFile]) -> tuple[dict[str, ResultsFile], list[str]]:
    """The newest results of each task that have samples, all from one file where one has all; and
    what is wrong with them."""
    extra = {
        id(file): [str(name) for name in file.content["results"] if name not in rules.by_task]
        for file in files
    }
    sampled = {
        name: [each for each in files if (task := each.task(name)) and task.samples]
        for name in rules.by_task
    }
    if whole := [
        file
        for file in files
        if all(any(file is each for each in found) for found in sampled.values())
    ]:
        chosen = dict.fromkeys(
            sampled, max(whole, key=lambda file: (not extra[id(file)], file.date))
        )
    else:
        chosen = {
            name: max(found, key=lambda file: file.date) for name, found in sampled.items() if found
        }
    problems = []
    for name in (name for name in sampled if name not in chosen):
        lacking = next((file.path for file in files if file.task(name) is not None), None)
        what = (
            "not in the results"
            if lacking is None
            else f"{lacking} has no samples beside it; run it again with --log_samples"
        )
        problems.append(f"{name}: {what}")
    taken = list({id(file): file for file in chosen.values()}.values())
    also = [(file.path, extra[id(file)]) for file in taken]
    problems += [
        f"{path}: also holds {', '.join(names)}, which nobody would check"
        for path, names in also
        if names
    ]
    for name in sampled:
        twice = [str(file.path) for file in taken if file.task(name) is not None]
        if len(twice) > 1:
            problems.append(
                f"{name}: is in {' and in '.join(twice)}; each task may be in one of the files"
            )
    return chosen, problems


def _model(
    options: PackOptions, rules: Rules, file: ResultsFile, tasks: Sequence[TaskResult]
) -> submitted.SubmittedModel:
    """The model of a run. Raises ConfigError: options that are missing or not in order, a line
    each."""
    problems = []
    if not submitted.MODEL_NAME.fullmatch(options.model):
        problems.append(
            f"--model is {options.model!r}; expected ORG/NAME as on the Hub, such as"
            " facebook/opt-125m"
        )
    revision, problem = _revision(options.revision, file)
    problems += [problem] if problem else []
    dtype = options.dtype.removeprefix("torch.") or file.dtype or ""
    if not dtype:
        problems.append(
            f"--dtype: {file.path} does not say in which number format the model was run; give it"
        )
    bare = [
        task.task
        for task in tasks
        if is_judged(task) and not task.metadata.get("judge_certificate")
    ]
    if options.certificate is not None:
        problems += (
            []
            if options.certificate.is_file()
            else [f"--certificate {options.certificate}: no such file"]
        )
    elif bare and rules.certificate != "none":
        found = f"{', '.join(bare)} {'was' if len(bare) == 1 else 'were'} marked by a judge"
        make = "make its certificate by lm-factuality certify --judge CONFIG --out certificate.json"
        problems.append(f"--certificate: {found}; {make}")
    if problems:
        raise ConfigError("\n".join(problems))
    size = num_parameters_of(file)
    return submitted.SubmittedModel.model_construct(
        name=options.model,
        revision=revision,
        dtype=dtype,
        backend=file.backend,
        num_parameters=size,
    )


def _revision(given: str, file: ResultsFile) -> tuple[str, str]:
    """The commit that lm_eval knows, the hash of a local checkpoint, or what is ``given``; and what
    is wrong with it."""
    commit, why, folder = Run(file).commit, "", Path(file.model)
    found = commit if _COMMIT.fullmatch(commit) else ""
    if not found and folder.is_dir():
        try:
            found = weights_hash(folder)
        except ConfigError as error:
            why = f" ({error})"
    elif (
        folder.is_absolute()
        or file.model.startswith(".")
        or file.model.count("/") > 1
        or folder.parent.is_dir()
    ):
        why = (
            f" (no folder {folder.absolute()}: pack where the run was started, or where the"
            " checkpoint is)"
        )
    if given and found and given != found:
        return found, f"--revision is {given}, but {found} was run; leave --revision out"
    revision = given or found
    if submitted.REVISION.fullmatch(revision):
        return revision, ""
    found = (
        f"--revision is {revision!r}"
        if revision
        else f"--revision: {file.path} does not say which weights were run{why}"
    )
    return revision, f"{found}; give {submitted.REVISIONS}"


def _certificate(folder: Path) -> submitted.SubmittedCertificate:
    path, expected = (
        folder / submitted.CERTIFICATE,
        "expected what 'lm-factuality certify --out' wrote",
    )
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"--certificate: not JSON: {error}; {expected}") from error
    if not isinstance(content, dict):
        raise DataError(f"--certificate: no JSON object; {expected}")
    return submitted.SubmittedCertificate(
        path=submitted.CERTIFICATE, sha256=sha256_of(path), content=content
    )
