"""Run random rows of a submission again, to see whether the model gives the submitted outputs.

Files alone cannot show whether a model really wrote the outputs that they hold. The command
``lm-factuality leaderboard rerun`` calls `rerun`, and the site calls `describe_rerun`.
"""

import datetime
import json
import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from judges import LEXICAL
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json
from lm_factuality.ground.settings import Strict
from lm_factuality.ground.suite import find_config
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.run import run
from lm_factuality.harness.samples import flatten_responses, read_samples
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.evidence import Evidence, has_template, thinking_tokens_of
from lm_factuality.leaderboard.site.entries import digest_of
from lm_factuality.results.read import read_results_files
from lm_factuality.results.settings import model_arguments, score_changing_arguments

RERUN_SUFFIX = ".rerun.json"
"""The end of the name of a rerun's file, after the name of the submission's folder.

The file lies beside the folder, whose files must not change.
"""

_TOLERANCES = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}
"""The share by which a log-probability may differ, by number format."""

_TOLERANCE_OF_OTHER_FORMATS = 5e-2


class RerunTask(NamedTuple):
    """The outcome of running rows of one task again."""

    task: str
    """The name of the task."""

    rows: int
    """The number of rows that were run again."""

    same_rows: int
    """The number of rows with the submitted outputs."""

    outcome: str
    """``same``, ``differs``, or ``sampled`` if texts differ because they were sampled at random."""

    note: str
    """How the outputs were compared, such as ``log-probabilities, within 0.1%``."""


class Rerun(Strict):
    """The outcome of running rows of a submission again, as its file holds it."""

    submission: str
    """The hash of the submission's folder."""

    date: str
    """When the rows were run again (ISO 8601, UTC)."""

    seed: int
    """The seed with which the rows were drawn."""

    model_args: str
    """The ``--model_args`` of the run."""

    tasks: tuple[RerunTask, ...]
    """The outcome of each task."""


def rerun(
    folder: Path, rows: int, model_args: str = "", seed: int = 0, rules: Path | None = None
) -> Rerun:
    """Run random rows of a submission again, and write the outcome to a file beside it.

    Args:
        folder: The folder of the submission. ``FOLDER.rerun.json`` is written beside it.
        rows: The number of rows of each task.
        model_args: Arguments that replace those of the submission, such as ``pretrained=FOLDER``.
            The model's own code runs only if they contain ``trust_remote_code=True``.
        seed: The seed of the random draw.
        rules: A folder with the rules of leaderboards. Defaults to the suite's rules.

    Returns:
        The outcome.

    Raises:
        ConfigError: The submission is refused, or cannot be run.
        DataError: Results cannot be read.
    """
    if rows < 1:
        raise ConfigError(f"{folder}: --rows is {rows}, expected 1 or more")
    # A refused submission is not run: its files may name anything as a model or an argument.
    checked = check_submission(folder, rules)
    evidence = checked.evidence
    if evidence is None or checked.refusals:
        raise ConfigError(f"{folder}: {checked.refusals[0]}")
    config = _find_run_config(evidence.submission.leaderboard, rules)
    arguments = _model_arguments(folder, evidence, model_args)
    row_ids = _draw_rows(evidence, rows, seed)

    compared_tasks = _run_and_compare(config, evidence, arguments, row_ids)
    # With the hash of the submission, the site knows whether its files have changed since.
    outcome = Rerun(
        submission=digest_of(folder),
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        seed=seed,
        model_args=arguments,
        tasks=tuple(compared_tasks),
    )
    write_json(folder.with_name(folder.name + RERUN_SUFFIX), outcome.model_dump())
    return outcome


def _find_run_config(leaderboard: str, rules: Path | None) -> Path:
    """Find the file ``LEADERBOARD.yaml`` with which models are run for a leaderboard.

    Args:
        leaderboard: The name of the leaderboard, such as ``factor``.
        rules: A folder of rules, beside which the file lies. Defaults to the suite's.

    Raises:
        ConfigError: There is no such file.
    """
    folder = rules.parent if rules else Path("configs/leaderboard")
    config = find_config(folder / f"{leaderboard}.yaml")
    if not config.is_file():
        raise ConfigError(
            f"{config}: no such file; expected the leaderboard's run config there, beside the"
            " folder of its rules"
        )
    return config


def _model_arguments(folder: Path, evidence: Evidence, replacements: str) -> str:
    """Return the ``--model_args`` that run the model of a submission again.

    Example:
        ``pretrained=facebook/opt-125m,revision=27dcfa74d334bc871f3234de431e71c6eeba5dd6``

    Args:
        folder: The folder of the submission, which errors name.
        evidence: The parsed submission.
        replacements: The user's arguments in the same form. They replace those of the submission.

    Raises:
        ConfigError: A value of the submission holds a comma or an equals sign.
    """
    submitted = _submitted_arguments(evidence)
    for name, value in submitted.items():
        # A stranger wrote the value, which could add an argument such as trust_remote_code.
        if "," in str(value) or "=" in str(value):
            raise ConfigError(
                f"{folder}: {name} is {str(value)[:80]!r}; expected no comma and no equals sign;"
                " nothing was run"
            )
    # The user's own arguments are not refused, so that they can add anything.
    arguments = submitted | model_arguments({"model_args": replacements})
    return ",".join(f"{name}={value}" for name, value in arguments.items())


def _submitted_arguments(evidence: Evidence) -> dict[str, Any]:
    """Return the arguments with which the model of a submission was run, by name.

    ``trust_remote_code`` is left out: a stranger must not decide that code runs on this machine.
    """
    model = evidence.submission.model
    # The check accepts only runs of one model, so that all files have the same arguments.
    first_file = evidence.files[0]
    arguments = score_changing_arguments(first_file)
    arguments.pop("trust_remote_code", None)
    arguments |= {"pretrained": model.name, "revision": model.revision, "dtype": model.dtype}
    # The revision of local weights is a hash of their files, which lm_eval does not know.
    if model.revision.startswith("sha256:"):
        arguments["pretrained"] = first_file.model
        del arguments["revision"]
    return arguments


def _draw_rows(evidence: Evidence, rows: int, seed: int) -> dict[str, list[int]]:
    """Draw random rows of each task.

    Args:
        evidence: The parsed submission.
        rows: The number of rows of each task. A task with fewer rows is drawn whole.
        seed: The seed of the draw.

    Returns:
        The sorted numbers of the rows, by the name of the task: ``{"wiki_factor": [3, 71]}``.
    """
    # One generator for all tasks makes the draw repeatable from the seed alone.
    generator = random.Random(seed)
    row_ids = {}
    for name, task_evidence in evidence.tasks.items():
        # The rows are numbered from 0, since a submission holds all rows of the task.
        num_rows = task_evidence.task.effective
        row_ids[name] = sorted(generator.sample(range(num_rows), min(rows, num_rows)))
    return row_ids


def _run_and_compare(
    config: Path, evidence: Evidence, model_args: str, row_ids: Mapping[str, Sequence[int]]
) -> list[RerunTask]:
    """Run rows of a submission again, and compare the outputs with the submitted ones.

    Args:
        config: The run configuration of the leaderboard.
        evidence: The parsed submission.
        model_args: The arguments of the model.
        row_ids: The numbers of the rows to run, by the name of the task.
    """
    dtype = evidence.submission.model.dtype
    compared_tasks = []
    # The results of the second run are only compared, not kept.
    with tempfile.TemporaryDirectory() as out:
        _run_rows(config, Path(out), evidence, model_args, row_ids)
        for file in read_results_files([Path(out)]):
            for repeated in file.tasks:
                name = repeated.task
                submitted = evidence.tasks[name].task
                compared_tasks.append(_compare_task(submitted, repeated, row_ids[name], dtype))
    return compared_tasks


def _run_rows(
    config: Path,
    out: Path,
    evidence: Evidence,
    model_args: str,
    row_ids: Mapping[str, Sequence[int]],
) -> None:
    """Run rows of a submission with lm_eval, without judging or scoring the outputs.

    Args:
        config: The run configuration of the leaderboard.
        out: The folder to which lm_eval writes results and samples.
        evidence: The parsed submission, whose backend and chat template are used again.
        model_args: The arguments of the model.
        row_ids: The numbers of the rows to run, by the name of the task.
    """
    first_file = evidence.files[0]
    # Tasks without thinking ignore this number.
    thinking_tokens = max(thinking_tokens_of(task.task) for task in evidence.tasks.values())
    # Judged tasks need the name of a judge, which gets no requests here.
    metadata = {"judge": LEXICAL, "thinking_tokens": thinking_tokens}
    arguments = ["--config", str(config), "--output_path", str(out)]
    arguments += ["--model", first_file.backend, "--model_args", model_args]
    arguments += ["--metadata", json.dumps(metadata), "--samples", json.dumps(row_ids)]
    if has_template(first_file):
        arguments.append("--apply_chat_template")
    # With this option, lm_eval writes the outputs and computes no scores.
    run([*arguments, "--predict_only"])


def _compare_task(
    submitted: TaskResult, repeated: TaskResult, row_ids: Sequence[int], dtype: str
) -> RerunTask:
    """Compare the model's outputs of two runs of a task.

    Args:
        submitted: The task in the submission.
        repeated: The same task in the second run, which has only some of the rows.
        row_ids: The numbers of these rows.
        dtype: The number format of the model, which decides how much rounding can change.

    Returns:
        The outcome, with the number of rows whose outputs are the same.
    """
    submitted_outputs = _outputs_by_row(submitted)
    repeated_outputs = _outputs_by_row(repeated)
    # Only a task that generates texts states how they are decoded.
    decoding = submitted.config.get("generation_kwargs") or {}
    is_generation = bool(decoding)
    if is_generation:
        # Texts are compared letter by letter.
        tolerance = None
        submitted_length = _mean_length(submitted_outputs, row_ids)
        repeated_length = _mean_length(repeated_outputs, row_ids)
        # A change of length can show another model even where texts are sampled.
        note = f"texts, of {submitted_length} characters per row then, {repeated_length} now"
    else:
        tolerance = _TOLERANCES.get(dtype, _TOLERANCE_OF_OTHER_FORMATS)
        note = f"log-probabilities, within {tolerance:.1%}"

    num_same = 0
    for row_id in row_ids:
        num_same += _are_same(submitted_outputs[row_id], repeated_outputs[row_id], tolerance)
    outcome = "same"
    if num_same < len(row_ids):
        # Sampling draws other words each time, even from the same model.
        outcome = "sampled" if decoding.get("do_sample") else "differs"
    return RerunTask(submitted.task, len(row_ids), num_same, outcome, note)


def _outputs_by_row(task: TaskResult) -> dict[int, list[str]]:
    """Read the outputs of a model, i.e. its texts or log-probabilities, by row number."""
    samples = read_samples(task.samples) if task.samples else ()
    return {sample["doc_id"]: flatten_responses(sample["resps"]) for sample in samples}


def _mean_length(outputs: Mapping[int, Sequence[str]], row_ids: Sequence[int]) -> int:
    """Return the mean number of characters in the outputs of some rows, rounded down."""
    return sum(len("".join(outputs[row_id])) for row_id in row_ids) // len(row_ids)


def _are_same(submitted: Sequence[str], repeated: Sequence[str], tolerance: float | None) -> bool:
    """Return whether two runs gave the same outputs for a row, up to rounding."""
    # An answer that is missing in one run has no partner to be compared with.
    if len(submitted) != len(repeated):
        return False
    output_pairs = zip(submitted, repeated, strict=True)
    return all(_is_same_output(first, second, tolerance) for first, second in output_pairs)


def _is_same_output(submitted: str, repeated: str, tolerance: float | None) -> bool:
    """Return whether two outputs are the same text, or differ only by rounding.

    Example:
        With a tolerance of 0.001, ``-30.01`` and ``-30.02`` are the same, but ``12`` and ``13``
        are not: numbers without a point count tokens, which are not rounded.

    Args:
        submitted: The output in the submission.
        repeated: The output of the second run.
        tolerance: The share by which a log-probability may differ, or None for texts.

    Returns:
        True also for two booleans, since rounding can change whether a token is the likeliest.
    """
    if submitted == repeated:
        return True
    if tolerance is None:
        return False
    # With each log-probability, lm_eval writes whether the model would choose the same tokens.
    if {submitted, repeated} <= {"True", "False"}:
        return True
    # A log-probability is written with a point, a number of tokens without one.
    if "." not in submitted:
        return False
    try:
        return math.isclose(float(submitted), float(repeated), rel_tol=tolerance, abs_tol=tolerance)
    except ValueError:
        # One of them is a text.
        return False


def describe_rerun(folder: Path, digest: str) -> str:
    """Describe the outcome of running a submission again, for the site.

    Example:
        ``2026-01-31: wiki_factor same (50 of 50); news_factor differs (3 of 50)``

    Args:
        folder: The folder of the submission, beside which the outcome lies.
        digest: The hash of the folder.

    Returns:
        The date and the outcome of each task. Empty if nobody ran the submission again, or if its
        files have changed since.
    """
    path = folder.with_name(folder.name + RERUN_SUFFIX)
    # Most submissions have no such file, and one that is damaged counts as none.
    try:
        outcome = Rerun.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return ""
    # The outcome of earlier files says nothing about the present ones.
    if outcome.submission != digest:
        return ""
    descriptions = [
        f"{task.task} {task.outcome} ({task.same_rows} of {task.rows})" for task in outcome.tasks
    ]
    return f"{outcome.date[:10]}: {'; '.join(descriptions)}"
