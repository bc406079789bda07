"""A random part of a submission run again, for what its files cannot show: whether the model really
said what they hold."""

import datetime
import json
import math
import random
import tempfile
from itertools import repeat
from pathlib import Path

from judges import LEXICAL
from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.files import write_json
from lm_factuality.ground.settings import Strict
from lm_factuality.ground.suite import find_config
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.run import run
from lm_factuality.harness.samples import read_samples, texts
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.runs import REPEATED_ARGUMENTS, read_runs, thinking_tokens_of
from lm_factuality.leaderboard.site.entries import digest_of
from lm_factuality.results.read import read_results_files

BESIDE = ".rerun.json"  # behind the name of a submission's folder, whose own files stay as they are
_TOLERANCES, _OTHER = (
    {"float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2},
    5e-2,
)  # shares of a log-probability


class Rerun(Strict):
    """What came of it; ``submission`` is the hash of the folder. ``tasks`` are (task, rows, how
    many of them are as submitted, outcome, note), the outcome being ``same``, ``differs``, or
    ``sampled``, which nobody can repeat."""

    submission: str
    date: str
    seed: int
    model_args: str
    tasks: tuple[tuple[str, int, int, str, str], ...]


def rerun(
    folder: Path, rows: int, model_args: str = "", seed: int = 0, rules: Path | None = None
) -> Rerun:
    """Runs ``rows`` of each task again by lm_eval, and writes beside ``folder`` what came of it.
    ``model_args`` replace those of the submission, such as ``pretrained`` by a local folder; code
    of a model's own is run only if they say so. Beside ``rules``, a folder (default: the suite's),
    lies the run config. Raises ConfigError, DataError: not accepted, or it cannot be run."""
    checked = check_submission(folder, rules)
    if checked.submission is None or checked.refusals or rows < 1:
        raise ConfigError(
            f"{folder}: {next(map(str, checked.refusals), f'--rows is {rows}, expected 1 or more')}"
        )
    config = find_config(
        (rules.parent if rules else Path("configs/leaderboard"))
        / f"{checked.submission.leaderboard}.yaml"
    )
    if not config.is_file():
        raise ConfigError(
            f"{config}: no such file; expected the leaderboard's run config there, beside the"
            " folder of its rules"
        )
    (first, *_), tasks, model = (
        read_runs(folder, checked.submission),
        checked.tasks,
        checked.submission.model,
    )
    is_local = model.revision.startswith("sha256:")
    own = (
        {"pretrained": first.file.model}
        if is_local
        else {"pretrained": model.name, "revision": model.revision}
    )
    own |= {
        "dtype": model.dtype,
        **{name: first.arguments[name] for name in REPEATED_ARGUMENTS if name in first.arguments},
    }
    for name, value in own.items():
        # Values come from a stranger: a comma would begin another argument of the model.
        if "," in str(value) or "=" in str(value):
            raise ConfigError(
                f"{folder}: {name} is {str(value)[:80]!r}; expected no comma and no equals sign;"
                " nothing was run"
            )
    own |= dict(each.split("=", 1) for each in model_args.split(",") if "=" in each)
    arguments, draws = (
        ",".join(f"{name}={value}" for name, value in own.items()),
        random.Random(seed),
    )
    drawn = {
        name: sorted(draws.sample(range(task.effective), min(rows, task.effective)))
        for name, task in tasks.items()
    }
    # Nobody judges what is only predicted, but judged tasks want a judge.
    metadata = {"judge": LEXICAL, "thinking_tokens": max(map(thinking_tokens_of, tasks.values()))}
    with tempfile.TemporaryDirectory() as out:
        given = ["--config", str(config), "--output_path", out, "--predict_only"]
        given += [
            "--model",
            model.backend,
            "--model_args",
            arguments,
            "--metadata",
            json.dumps(metadata),
        ]
        run(
            [
                *given,
                "--samples",
                json.dumps(drawn),
                *(["--apply_chat_template"] if first.has_template else []),
            ]
        )
        found = {task.task: task for file in read_results_files([Path(out)]) for task in file.tasks}
        compared = tuple(
            _compare(task, found[name], drawn[name], model.dtype) for name, task in tasks.items()
        )
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    again = Rerun(
        submission=digest_of(folder), date=date, seed=seed, model_args=arguments, tasks=compared
    )
    write_json(folder.with_name(folder.name + BESIDE), again.model_dump())
    return again


def rerun_of(folder: Path, digest: str) -> str:
    """What came of running the submission in ``folder``, of this hash, again, in words; empty if
    nobody did."""
    try:
        again = Rerun.model_validate_json(folder.with_name(folder.name + BESIDE).read_bytes())
    except (OSError, ValueError):
        return ""
    said = "; ".join(
        f"{task} {outcome} ({same} of {rows})" for task, rows, same, outcome, _ in again.tasks
    )
    return f"{again.date[:10]}: {said}" if again.submission == digest else ""


def _compare(
    task: TaskResult, found: TaskResult, drawn: list[int], dtype: str
) -> tuple[str, int, int, str, str]:
    files = [each.samples for each in (task, found) if each.samples]
    before, now = (
        {row["doc_id"]: texts(row["resps"]) for row in read_samples(each)} for each in files
    )
    decoding = task.config.get("generation_kwargs")
    share = None if decoding else _TOLERANCES.get(dtype, _OTHER)
    pairs = [(before[at], now[at]) for at in drawn]
    same = sum(
        len(one) == len(other) and all(map(_is_same, one, other, repeat(share)))
        for one, other in pairs
    )
    sizes = [sum(map(len, texts([each[at] for each in pairs]))) // len(pairs) for at in (0, 1)]
    note = (
        f"log-probabilities, within {share:.1%}"
        if share
        else f"texts, of {sizes[0]} characters per row then, {sizes[1]} now"
    )
    outcome = (
        "same"
        if same == len(drawn)
        else "sampled"
        if decoding and decoding.get("do_sample")
        else "differs"
    )
    return task.task, len(drawn), same, outcome, note


def _is_same(one: str, other: str, share: float | None) -> bool:
    """Whether it is the same text, or the same log-probability but for rounding, which may also
    decide which token is greedy."""
    if one == other or share is None or {one, other} <= {"True", "False"}:
        return one == other or share is not None
    try:
        return "." in one and math.isclose(float(one), float(other), rel_tol=share, abs_tol=share)
    except ValueError:
        return False
