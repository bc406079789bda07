"""A random part of a submission, run again.

The files of a submission cannot show whether the model really said what they hold.
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
from lm_factuality.harness.samples import read_samples, texts
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.evidence import Evidence, has_template, thinking_tokens_of
from lm_factuality.leaderboard.site.entries import digest_of
from lm_factuality.results.read import read_results_files
from lm_factuality.results.settings import changing_arguments, model_arguments

BESIDE = ".rerun.json"
"""What the name of the file adds to that of the submission's folder, whose files stay as they
are."""

_TOLERANCES = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}
"""By number format, the share by which a log-probability may differ."""

_TOLERANCE_ELSEWHERE = 5e-2


class RerunTask(NamedTuple):
    """What came of running a part of a task again."""

    task: str
    rows: int
    same: int
    """How many rows are as submitted."""

    outcome: str
    """``same``, ``differs``, or ``sampled``, which nobody can repeat."""

    note: str


class Rerun(Strict):
    """What came of running a part of a submission again."""

    submission: str
    """The hash of its folder."""

    date: str
    seed: int
    model_args: str
    tasks: tuple[RerunTask, ...]


def rerun(
    folder: Path, rows: int, model_args: str = "", seed: int = 0, rules: Path | None = None
) -> Rerun:
    """Run a random part of a submission again by lm_eval, and write beside it what came of it.

    Args:
        rows: How many rows of each task to run.
        model_args: Replaces arguments of the submission's model, such as ``pretrained`` by a local
            folder. Code of a model's own is run only if they say so.
        seed: Of the draw of the rows.
        rules: A folder of rules instead of the suite's. The run config lies beside it.

    Raises:
        ConfigError: The submission is refused, or cannot be run.
        DataError: Results cannot be read.
    """
    checked = check_submission(folder, rules)
    evidence = checked.evidence
    if evidence is None or checked.refusals or rows < 1:
        reason = next(map(str, checked.refusals), f"--rows is {rows}, expected 1 or more")
        raise ConfigError(f"{folder}: {reason}")
    configs = rules.parent if rules else Path("configs/leaderboard")
    config = find_config(configs / f"{evidence.submission.leaderboard}.yaml")
    if not config.is_file():
        raise ConfigError(
            f"{config}: no such file; expected the leaderboard's run config there, beside the"
            " folder of its rules"
        )
    arguments = _model_arguments(folder, evidence, model_args)
    generator = random.Random(seed)
    drawn = {}
    for file in evidence.files:
        for task in file.tasks:
            count = min(rows, task.effective)
            drawn[task.task] = sorted(generator.sample(range(task.effective), count))
    with tempfile.TemporaryDirectory() as out:
        _run_again(config, Path(out), evidence, arguments, drawn)
        compared = []
        for file in read_results_files([Path(out)]):
            for task in file.tasks:
                submitted = evidence.tasks[task.task].task
                dtype = evidence.submission.model.dtype
                compared.append(_compare(submitted, task, drawn[task.task], dtype))
    outcome = Rerun(
        submission=digest_of(folder),
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        seed=seed,
        model_args=arguments,
        tasks=tuple(compared),
    )
    write_json(folder.with_name(folder.name + BESIDE), outcome.model_dump())
    return outcome


def describe_rerun(folder: Path, digest: str) -> str:
    """Say what came of running a submission again; empty if nobody did.

    Args:
        digest: The hash of the folder. A rerun of other files does not count.
    """
    try:
        outcome = Rerun.model_validate_json(folder.with_name(folder.name + BESIDE).read_bytes())
    except (OSError, ValueError):
        return ""
    if outcome.submission != digest:
        return ""
    sentences = [
        f"{task.task} {task.outcome} ({task.same} of {task.rows})" for task in outcome.tasks
    ]
    return f"{outcome.date[:10]}: {'; '.join(sentences)}"


def _model_arguments(folder: Path, evidence: Evidence, replaced: str) -> str:
    """The ``--model_args`` with which the model of a submission is run again.

    Raises:
        ConfigError: A value would begin another argument. A stranger wrote the values.
    """
    model, first = evidence.submission.model, evidence.files[0]
    arguments = changing_arguments(first)
    arguments.pop("trust_remote_code", None)  # Code of a model's own is never run unasked.
    arguments |= {"pretrained": model.name, "revision": model.revision, "dtype": model.dtype}
    if model.revision.startswith("sha256:"):
        arguments["pretrained"] = first.model
        del arguments["revision"]
    for name, value in arguments.items():
        if "," in str(value) or "=" in str(value):
            raise ConfigError(
                f"{folder}: {name} is {str(value)[:80]!r}; expected no comma and no equals sign;"
                " nothing was run"
            )
    arguments |= model_arguments({"model_args": replaced})
    return ",".join(f"{name}={value}" for name, value in arguments.items())


def _run_again(
    config: Path,
    out: Path,
    evidence: Evidence,
    model_args: str,
    drawn: Mapping[str, Sequence[int]],
) -> None:
    """Run the drawn rows by lm_eval, without judging what the model says."""
    first = evidence.files[0]
    tokens = max(thinking_tokens_of(of_task.task) for of_task in evidence.tasks.values())
    # Nobody judges what is only predicted, but judged tasks need the name of a judge.
    metadata = {"judge": LEXICAL, "thinking_tokens": tokens}
    options: dict[str, Any] = {
        "--config": config,
        "--output_path": out,
        "--model": first.backend,
        "--model_args": model_args,
        "--metadata": json.dumps(metadata),
        "--samples": json.dumps(drawn),
    }
    words = [str(word) for option in options.items() for word in option]
    template = ["--apply_chat_template"] if has_template(first) else []
    run([*words, "--predict_only", *template])


def _compare(
    submitted: TaskResult, again: TaskResult, row_ids: Sequence[int], dtype: str
) -> RerunTask:
    """Compare what the model said of the drawn rows."""
    decoding = submitted.config.get("generation_kwargs")
    tolerance = None if decoding else _TOLERANCES.get(dtype, _TOLERANCE_ELSEWHERE)
    before = _answers_of(submitted)
    after = _answers_of(again)
    same = 0
    for row_id in row_ids:
        is_complete = len(before[row_id]) == len(after[row_id])
        pairs = zip(before[row_id], after[row_id], strict=False)
        same += is_complete and all(_is_same(*pair, tolerance) for pair in pairs)
    note = f"log-probabilities, within {tolerance or 0:.1%}"
    if tolerance is None:
        lengths = []
        for answers in (before, after):
            texts_of_rows = ["".join(answers[row_id]) for row_id in row_ids]
            lengths.append(len("".join(texts_of_rows)) // len(row_ids))
        note = f"texts, of {lengths[0]} characters per row then, {lengths[1]} now"
    outcome = "same"
    if same < len(row_ids):
        outcome = "sampled" if decoding and decoding.get("do_sample") else "differs"
    return RerunTask(submitted.task, len(row_ids), same, outcome, note)


def _answers_of(task: TaskResult) -> dict[int, list[str]]:
    """By the number of the document, what the model said."""
    samples = read_samples(task.samples) if task.samples else ()
    return {sample["doc_id"]: texts(sample["resps"]) for sample in samples}


def _is_same(before: str, after: str, tolerance: float | None) -> bool:
    """Whether it is the same text, or the same log-probability but for rounding.

    Rounding may also decide which token is greedy.
    """
    if before == after:
        return True
    if tolerance is None:
        return False
    if {before, after} <= {"True", "False"}:
        return True
    try:
        is_close = math.isclose(float(before), float(after), rel_tol=tolerance, abs_tol=tolerance)
    except ValueError:
        return False
    return "." in before and is_close
