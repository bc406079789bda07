"""From lm_eval's results to a submission: the files as lm_eval wrote them, and what they are."""

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.errors import ConfigError, DataError, listed, refuse
from lm_factuality.ground.files import sha256_of, whole_folder, write_json
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.contents import secrets_in_file
from lm_factuality.leaderboard.rules import Rules, leaderboard_names, read_rules
from lm_factuality.leaderboard.submission import (
    CERTIFICATE,
    FILE,
    MODEL_NAME,
    REVISION,
    REVISIONS,
    PackedFile,
    Submission,
    SubmittedModel,
)
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key
from lm_factuality.results.read import read_results_files, write_correction

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


@dataclass(frozen=True)
class PackOptions:
    """What the results do not say. Empty texts are not given."""

    model: str
    revision: str = ""
    dtype: str = ""
    certificate: Path | None = None
    rules: Path | None = None
    """A folder of rules instead of the suite's."""

    key: Path | None = None
    """The key of the sheet whose labels correct the scores."""

    labels: tuple[Path, ...] = ()


def pack(results: Sequence[Path], options: PackOptions, out: Path) -> Path:
    """Write a submission into ``ORG__NAME/LEADERBOARD/DATE`` below a folder.

    Nothing is written unless all of it would be accepted.

    Returns:
        The folder of the submission.

    Raises:
        ConfigError: The options are not in order, or lack something.
        DataError: Files are missing, hold credentials, or are refused by the check.
    """
    if (options.key is None) != (not options.labels):
        raise ConfigError("--key and --labels: give both, the sheet's key and what people answered")
    files = read_results_files(results, with_corrected=False)
    rules = _find_rules(options, files)
    chosen = _choose_files(rules, files)
    newest = max(chosen.values(), key=lambda file: file.date)
    model = _describe_model(options, newest)
    target = out / options.model.replace("/", "__") / rules.name / newest.date_text[:19]
    if target.exists():
        problem = "is there already; delete it, or give another folder by --out"
        raise DataError(f"{target}: {problem}")
    with whole_folder(target, FILE) as folder:
        _correct_scores(folder, chosen, options)
        _copy_files(folder, chosen, options)
        # What is not in order here, the check refuses when it reads the file.
        submission = Submission.model_construct(
            leaderboard=rules.name,
            model=model,
            certificate=CERTIFICATE if options.certificate else None,
            key=options.key.name if options.key else None,
            labels=tuple(path.name for path in options.labels),
            files=tuple(
                PackedFile(path=path.name, sha256=sha256_of(path), bytes=path.stat().st_size)
                for path in sorted(folder.iterdir())
            ),
        )
        write_json(folder / FILE, submission.model_dump())
        refusals = check_submission(folder, options.rules).refusals
        refuse([str(refusal) for refusal in refusals], "refusals", "Nothing is packed.")
    return target


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


def _find_rules(options: PackOptions, files: Sequence[ResultsFile]) -> Rules:
    """The rules of the only leaderboard of which the results have all tasks.

    Raises:
        ConfigError: The tasks are those of no leaderboard, or of several.
    """
    tasks = {task.task for file in files for task in file.tasks}
    names = leaderboard_names(options.rules)
    candidates = [read_rules(name, options.rules) for name in names]
    complete = [rules for rules in candidates if tasks.issuperset(rules.by_task)]
    if len(complete) == 1:
        return complete[0]
    if complete:
        names = [rules.name for rules in complete]
        raise ConfigError(f"the results are whole for {listed(names)}; give those of one")
    closest = max(candidates, key=lambda rules: len(tasks.intersection(rules.by_task)))
    missing = ", ".join(sorted(set(closest.by_task) - tasks))
    # All tasks of a results file are packed.
    run = f"lm-factuality run --config configs/leaderboard/{closest.name}.yaml --log_samples"
    raise ConfigError(
        f"the results are whole for none of {listed(names)}; closest is {closest.name}, for which"
        f" there is no {missing}. Run its tasks and no other: {run}"
    )


def _choose_files(rules: Rules, files: Sequence[ResultsFile]) -> dict[str, ResultsFile]:
    """By task, the results file to submit.

    A file counts before others if it has the samples of more tasks of the leaderboard, then if it
    is newer.
    """

    def preference(file: ResultsFile) -> tuple[int, float]:
        sampled = [task for task in file.tasks if task.task in rules.by_task and task.samples]
        return len(sampled), file.date

    chosen = {}
    for file in sorted(files, key=preference):
        for task in file.tasks:
            if task.task in rules.by_task:
                chosen[task.task] = file
    return chosen


def _describe_model(options: PackOptions, file: ResultsFile) -> SubmittedModel:
    """The model of a run.

    Raises:
        ConfigError: Options are missing or not in order. All of them are named.
    """
    problems = []
    if not MODEL_NAME.fullmatch(options.model):
        problems.append(
            f"--model is {options.model!r}; expected ORG/NAME as on the Hub, such as"
            " facebook/opt-125m"
        )
    dtype = options.dtype.removeprefix("torch.") or file.dtype or ""
    if not dtype:
        problems.append(
            f"--dtype: {file.path} does not say in which number format the model was run; give it"
        )
    measured = _measured_revision(file)
    revision = options.revision or measured
    if measured and revision != measured:
        problems.append(f"--revision is {revision}, but {measured} was run; leave --revision out")
    elif not REVISION.fullmatch(revision):
        problem = f"is {revision!r}" if revision else "is missing, and the results do not say it"
        advice = "or pack where the run was started, if its weights are in a folder"
        problems.append(f"--revision {problem}; give {REVISIONS}, {advice}")
    if problems:
        raise ConfigError("\n".join(problems))
    return SubmittedModel(name=options.model, revision=revision, dtype=dtype)


def _measured_revision(file: ResultsFile) -> str:
    """The commit that lm_eval knows, the hash of a local checkpoint, or an empty text."""
    commit = str(as_mapping(file.content.get("config")).get("model_sha"))
    if _COMMIT.fullmatch(commit):
        return commit
    folder = Path(file.model)
    try:
        return weights_hash(folder) if folder.is_dir() else ""
    except ConfigError:
        return ""  # A folder that only has the name of the model.


def _correct_scores(folder: Path, chosen: Mapping[str, ResultsFile], options: PackOptions) -> None:
    """Write the scores that the labels correct into the folder of the submission."""
    if options.key is None:
        return
    for name in sorted({source.task for source in read_key(options.key).sources}):
        task = chosen[name].task(name) if name in chosen else None
        if task is None:
            raise ConfigError(f"--key {options.key}: its sheet is of {name}, which is not packed")
        correction = correct(task, options.key, options.labels)
        write_correction(correction, folder / chosen[name].path.name)


def _copy_files(folder: Path, chosen: Mapping[str, ResultsFile], options: PackOptions) -> None:
    """Copy all files of the submission as they are.

    Raises:
        DataError: A file holds a credential, cannot be copied, or has the name of another one.
    """
    packed = [(path.name, path) for path in (options.key, *options.labels) if path is not None]
    if options.certificate is not None:
        packed.append((CERTIFICATE, options.certificate))
    for name, file in chosen.items():
        packed.append((file.path.name, file.path))
        task = file.task(name)
        if task and task.samples:
            packed.append((task.samples.name, task.samples))
    sources: dict[str, Path] = {}
    problems = []
    for name, path in packed:
        if sources.setdefault(name, path).resolve() != path.resolve():
            raise DataError(f"{path}: another file of this name is packed already; rename it")
    for path in sources.values():
        problems += [f"SECRET {path}: {place}" for place in secrets_in_file(path)]
    advice = "Withdraw the credential if the file was ever public, and run again without it."
    refuse(problems, "places", f"Nothing is packed. {advice}")
    for name, path in sources.items():
        try:
            shutil.copyfile(path, folder / name)
        except OSError as error:
            raise DataError(f"{path}: cannot be copied: {error}") from error
