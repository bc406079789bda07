"""Make a submission of lm_eval's results: copies of its files, and ``submission.json``.

The command ``lm-factuality leaderboard pack`` calls `pack`.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judges.certificates import answers_path
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.errors import ConfigError, DataError, listed, refuse
from lm_factuality.ground.files import sha256_of, whole_folder, write_json
from lm_factuality.harness.outputs import ResultsFile
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.rules import Rules, leaderboard_names, read_rules
from lm_factuality.leaderboard.submission import (
    CERTIFICATE_FILE,
    MODEL_NAME,
    REVISION,
    REVISION_FORMS,
    SUBMISSION_FILE,
    PackedFile,
    Submission,
    SubmittedModel,
)
from lm_factuality.people.correct import correct_scores
from lm_factuality.people.labels import read_key
from lm_factuality.results.read import read_results_files, write_correction

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


@dataclass(frozen=True)
class PackOptions:
    """The properties of a submission that the results do not state."""

    model: str
    """The name of the model, ORG/NAME as on the Hub."""

    revision: str = ""
    """The revision of the model. Empty if the results or the local weights state it."""

    dtype: str = ""
    """The number format of the weights. Empty if the results state it."""

    certificate: Path | None = None
    """The judge's certificate, or None if nobody judges."""

    rules: Path | None = None
    """A folder with the rules of leaderboards. Defaults to the suite's rules."""

    key: Path | None = None
    """The key of the sheet whose labels correct the scores, or None without a correction."""

    labels: tuple[Path, ...] = ()
    """The labels that people gave to this sheet."""


def pack(results: Sequence[Path], options: PackOptions, out: Path) -> Path:
    """Write a submission into the folder ``ORG__NAME/LEADERBOARD/DATE``.

    The submission is checked first. If it would be refused, nothing is written.

    Args:
        results: Results files of lm_eval, or folders that contain them.
        options: The model and other properties that the results do not state.
        out: The folder of all submissions.

    Returns:
        The folder of the submission.

    Raises:
        ConfigError: The options are invalid or incomplete.
        DataError: Files are missing, hold credentials, or are refused by the check.
    """
    # Labels can be read only with the key of their sheet, and a key alone corrects nothing.
    if bool(options.key) != bool(options.labels):
        raise ConfigError("--key and --labels: give both, the sheet's key and what people answered")

    # The scores are corrected here again, so that earlier corrections are not read.
    files = read_results_files(results, with_corrected=False)
    rules = _find_rules(options, files)
    files_by_task = _choose_files(rules, files)
    newest = max(files_by_task.values(), key=lambda file: file.date)
    model = _describe_model(options, newest)
    # The date goes down to the second, such as ``2026-01-31T10-00-00``.
    target = out / options.model.replace("/", "__") / rules.name / newest.date_text[:19]
    if target.exists():
        problem = "is there already; delete it, or give another folder by --out"
        raise DataError(f"{target}: {problem}")

    # The folder gets its name at the end of the block. An error in the block removes it.
    with whole_folder(target, SUBMISSION_FILE) as folder:
        _correct_scores(folder, files_by_task, options)
        _copy_files(folder, files_by_task, options)
        _write_submission(folder, rules.name, model, options)
        refusals = check_submission(folder, options.rules).refusals
        refuse([str(refusal) for refusal in refusals], "refusals", "Nothing is packed.")
    return target


def _find_rules(options: PackOptions, files: Sequence[ResultsFile]) -> Rules:
    """Find the leaderboard that the results are for.

    A leaderboard ranks models by a set of tasks, all of which have to be in the results.

    Args:
        options: The options, with the folder of rules.
        files: The results files.

    Returns:
        The rules of the only leaderboard whose tasks are all in the results.

    Raises:
        ConfigError: There is no such leaderboard, or there are several.
    """
    tasks = {task.task for file in files for task in file.tasks}
    names = leaderboard_names(options.rules)
    all_rules = [read_rules(name, options.rules) for name in names]
    complete = [rules for rules in all_rules if tasks.issuperset(rules.by_task)]
    if len(complete) == 1:
        return complete[0]
    if complete:
        complete_names = [rules.name for rules in complete]
        raise ConfigError(f"the results are whole for {listed(complete_names)}; give those of one")

    # The error names the leaderboard that shares the most tasks with the results.
    closest = max(all_rules, key=lambda rules: len(tasks.intersection(rules.by_task)))
    missing_tasks = ", ".join(sorted(set(closest.by_task) - tasks))
    command = f"lm-factuality run --config configs/leaderboard/{closest.name}.yaml --log_samples"
    # Files are packed unchanged, so that one with other tasks would be refused.
    raise ConfigError(
        f"the results are whole for none of {listed(names)}; closest is {closest.name}, for which"
        f" there is no {missing_tasks}. Run its tasks and no other: {command}"
    )


def _choose_files(rules: Rules, files: Sequence[ResultsFile]) -> dict[str, ResultsFile]:
    """Choose the results file to submit for each task of a leaderboard.

    Files with the samples of more tasks of the leaderboard are preferred, then newer files.

    Args:
        rules: The rules of the leaderboard.
        files: The results files, which may contain a task several times.

    Returns:
        The chosen file of each task, by the name of the task.
    """

    def preference(file: ResultsFile) -> tuple[int, float]:
        """Return how many of the leaderboard's tasks have samples in a file, and its date."""
        sampled = [task for task in file.tasks if task.task in rules.by_task and task.samples]
        return len(sampled), file.date

    files_by_task = {}
    # Later files, which are preferred, replace earlier ones.
    for file in sorted(files, key=preference):
        for task in file.tasks:
            if task.task in rules.by_task:
                files_by_task[task.task] = file
    return files_by_task


def _describe_model(options: PackOptions, file: ResultsFile) -> SubmittedModel:
    """Collect the name, revision and number format of the submitted model.

    Args:
        options: The options, which complete the results.
        file: The newest results file.

    Raises:
        ConfigError: Options are missing or invalid. The error lists all of them, so that the user
            corrects the command only once.
    """
    problems = []
    if not MODEL_NAME.fullmatch(options.model):
        problems.append(
            f"--model is {options.model!r}; expected ORG/NAME as on the Hub, such as"
            " facebook/opt-125m"
        )
    # PyTorch calls the number format ``torch.float16``, lm_eval ``float16``.
    dtype = options.dtype.removeprefix("torch.") or file.dtype or ""
    if not dtype:
        problems.append(
            f"--dtype: {file.path} does not say in which number format the model was run; give it"
        )
    run_revision = _revision_of_run(file)
    revision = options.revision or run_revision
    revision_problem = _revision_problem(revision, run_revision)
    if revision_problem:
        problems.append(revision_problem)
    if problems:
        raise ConfigError("\n".join(problems))
    return SubmittedModel(name=options.model, revision=revision, dtype=dtype)


def _revision_problem(revision: str, run_revision: str) -> str:
    """Say what is wrong with the revision to submit, or return an empty text.

    Args:
        revision: The revision to submit. Empty if the user has not named it and the run does not
            state it.
        run_revision: The revision that was run. It is empty if it is unknown, as it is for models
            behind an API.
    """
    if run_revision and revision != run_revision:
        return f"--revision is {revision}, but {run_revision} was run; leave --revision out"
    if REVISION.fullmatch(revision):
        return ""
    problem = f"is {revision!r}" if revision else "is missing, and the results do not say it"
    advice = "or pack where the run was started, if its weights are in a folder"
    return f"--revision {problem}; give {REVISION_FORMS}, {advice}"


def _revision_of_run(file: ResultsFile) -> str:
    """Return the revision that was run, as far as the results and this machine show it.

    Returns:
        The commit that lm_eval records for a model of the Hub, the hash of a local checkpoint,
        such as ``sha256:0a1b...``, or an empty text if both are unknown.
    """
    commit = str(as_mapping(file.content.get("config")).get("model_sha"))
    if _COMMIT.fullmatch(commit):
        return commit
    # For local weights, lm_eval records the path of their folder as the model's name.
    folder = Path(file.model)
    return weights_hash(folder) if folder.is_dir() else ""


def weights_hash(folder: Path) -> str:
    """Hash the names and contents of a local checkpoint's weights.

    Args:
        folder: The folder of the checkpoint. Its tokenizer and configuration are not hashed.

    Returns:
        The revision of the model: ``sha256:`` and 64 hexadecimal digits. Empty if the folder has
        no weights and only happens to have the name of a model.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHT_SUFFIXES)
    if not paths:
        return ""
    # The lines are those that the program ``sha256sum`` prints.
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in paths]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _correct_scores(
    folder: Path, files_by_task: Mapping[str, ResultsFile], options: PackOptions
) -> None:
    """Correct scores by people's labels, if there are any, and write them into a submission.

    Args:
        folder: The folder of the submission, which gets a file ``corrected_TASK_DATE.json`` for
            each corrected task.
        files_by_task: The results file of each task.
        options: The options, with the key and the labels of the sheet.

    Raises:
        ConfigError: The sheet is of a task that is not packed.
    """
    if options.key is None:
        return
    task_names = {source.task for source in read_key(options.key).sources}
    for name in sorted(task_names):
        file = files_by_task.get(name)
        task = file.task(name) if file else None
        # A sheet can be of several runs, one of which is not packed.
        if file is None or task is None:
            raise ConfigError(f"--key {options.key}: its sheet is of {name}, which is not packed")
        correction = correct_scores(task, options.key, options.labels)
        write_correction(correction, folder / file.path.name)


def _copy_files(
    folder: Path, files_by_task: Mapping[str, ResultsFile], options: PackOptions
) -> None:
    """Copy results, samples, certificate with its answers, key and labels into the submission.

    Args:
        folder: The folder of the submission.
        files_by_task: The results file of each task.
        options: The options, with the paths of the certificate, the key and the labels.

    Raises:
        DataError: Two files have the same name.
    """
    # The certificate is renamed, so that all submissions name it alike.
    sources: dict[str, Path] = {}
    if options.certificate is not None:
        sources[CERTIFICATE_FILE] = options.certificate
        answers = answers_path(options.certificate)
        if answers.is_file():
            sources[answers_path(Path(CERTIFICATE_FILE)).name] = answers

    for path in _files_that_keep_names(files_by_task, options):
        # Tasks that were run together share one results file. Others of the same name have no
        # place, because all files of a submission lie in one folder.
        if path.name in sources and sources[path.name].resolve() != path.resolve():
            raise DataError(f"{path}: another file of this name is packed already; rename it")
        sources[path.name] = path
    for name, path in sources.items():
        shutil.copyfile(path, folder / name)


def _files_that_keep_names(
    files_by_task: Mapping[str, ResultsFile], options: PackOptions
) -> Iterator[Path]:
    """Yield the files that are copied into a submission without renaming them.

    These are the key, the labels, and the results and samples of each task. A results file occurs
    once for each of its tasks.
    """
    if options.key is not None:
        yield options.key
    yield from options.labels
    for name, file in files_by_task.items():
        yield file.path
        task = file.task(name)
        if task is not None and task.samples is not None:
            yield task.samples


def _write_submission(
    folder: Path, leaderboard: str, model: SubmittedModel, options: PackOptions
) -> None:
    """Write ``submission.json``, which lists all files of a submission with size and hash.

    Args:
        folder: The folder of the submission, to which all other files have been copied.
        leaderboard: The name of the leaderboard.
        model: The submitted model.
        options: The options, with the names of the certificate, the key and the labels.
    """
    files = tuple(
        PackedFile(path=path.name, sha256=sha256_of(path), bytes=path.stat().st_size)
        for path in sorted(folder.iterdir())
    )
    # The values are not validated: the check refuses invalid ones when it reads the file.
    submission = Submission.model_construct(
        leaderboard=leaderboard,
        model=model,
        certificate=CERTIFICATE_FILE if options.certificate else None,
        key=options.key.name if options.key else None,
        labels=tuple(path.name for path in options.labels),
        files=files,
    )
    write_json(folder / SUBMISSION_FILE, submission.model_dump())
