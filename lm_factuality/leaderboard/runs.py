"""The runs of a submission: lm_eval's results files with what they say of how the model was run,
read once; whether that is what the submission says, and as its leaderboard wants it."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.ground.errors import DataError, short
from lm_factuality.ground.files import not_finite
from lm_factuality.ground.model_names import short_name, size_in_name, size_label
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.leaderboard.rules import Rules, TaskRules
from lm_factuality.leaderboard.submission import (
    REVISION,
    REVISIONS,
    Refusal,
    Refused,
    Submission,
    SubmittedTask,
)
from lm_factuality.results.read import date_of, read_results_file

_SETTINGS: Mapping[str, list[str]] = load_yaml(__package__, "settings.yaml")
THINKING = "thinking_tokens"
CHANGING = [
    name for name in _SETTINGS["arguments"] if name != "trust_remote_code"
]  # of a model's arguments
_BEGAN = 1_795_219_200  # 2026-11-21, in UTC: no results of the suite are older
_AHEAD = 3_600  # seconds by which clocks may differ
# times: packed weights of 4 bits count an eighth of those in the name, mixtures of experts several
# times
_OTHER_SIZE = 16
_PARAMETERS = 1e15  # more than any model has
_NOT_METRICS = ("name", "alias", "sample_len", "sample_count", " ")


@dataclass(frozen=True)
class Run:
    """A results file, with what it says of how the model was run."""

    file: ResultsFile

    @property
    def name(self) -> str:
        return self.file.path.name

    @property
    def config(self) -> Mapping[str, Any]:
        return mapping(self.file.content.get("config"))

    @property
    def commit(self) -> str:
        """The Hub's; empty where lm_eval knows none."""
        return str(self.config.get("model_sha") or "")

    @property
    def has_template(self) -> bool:
        return self.file.content.get("chat_template") is not None  # empty where a server has it

    @property
    def arguments(self) -> dict[str, Any]:
        """``--model_args`` by name, but for what is not set; lm_eval keeps them as they were given,
        an object or one text."""
        given = self.config.get("model_args")
        if isinstance(given, str):
            pairs = (each.partition("=") for each in given.split(","))
            given = {name.strip(): value.strip() for name, _, value in pairs}
        return {
            name: value
            for name, value in mapping(given).items()
            if value not in (None, "", False, "None", "False", "false")
        }

    @property
    def adapters(self) -> list[str]:
        """The arguments by which something is added to the checkpoint."""
        return [name for name in _SETTINGS["adapters"] if name in self.arguments]

    def settings(self, task: TaskResult) -> dict[str, Any]:
        """All that change the scores of a task, but for what is not set."""
        content, metadata, decoding = (
            self.file.content,
            task.metadata,
            task.config.get("generation_kwargs"),
        )
        benchmark, tokens = (
            find_benchmark(task.kind),
            {*_SETTINGS["adapters"], *_SETTINGS["arguments"]},
        )
        changed = {name: value for name, value in self.arguments.items() if name in tokens}
        named = benchmark.data.settings if benchmark else ()
        found: dict[str, Any] = {
            name: metadata[name] for name in named if metadata.get(name) is not None
        }
        found["num_fewshot"] = mapping(content.get("n-shot")).get(
            task.task, task.config.get("num_fewshot")
        )
        found |= {"model_args": changed} if changed else {}
        found |= (
            {"generation_kwargs": decoding, "repeats": task.config.get("repeats")}
            if decoding
            else {}
        )
        found |= {THINKING: thinking} if decoding and (thinking := thinking_tokens_of(task)) else {}
        return found | {name: content[name] for name in _SETTINGS["prompting"] if content.get(name)}


def unscored_of(task: TaskResult) -> int:
    """How many of the ``items_of`` a task have no score."""
    return int(number_of(task.metrics.get("unscored")) or 0)


def items_of(task: TaskResult) -> int:
    """How many there are that may be unscored (see ``Benchmark.unscored_unit``): documents, times
    samples for each where each sample is scored."""
    benchmark, repeats = find_benchmark(task.kind), task.config.get("repeats")
    by_sample = (
        benchmark is not None
        and benchmark.scoring.unscored_unit != "rows"
        and isinstance(repeats, int)
    )
    return task.effective * (repeats or 1) if by_sample else task.effective


def thinking_tokens_of(task: TaskResult) -> int:
    """How many tokens a run gave the model to think, beside those of an answer; -1 for what is no
    number of tokens."""
    tokens = task.metadata.get(THINKING) or 0
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else -1


def read_runs(folder: Path, submission: Submission) -> list[Run]:
    """The run of each results file of a submission. Raises Refused: there is none, or one is not as
    lm_eval writes it."""
    names = [each.path for each in submission.files if Path(each.path).name.startswith("results_")]
    if not names:
        raise Refused(
            Refusal("RESULTS_INVALID", "results", "no results_*.json; pack the results again")
        )
    try:
        return [Run(read_results_file(folder / name)) for name in names]
    except DataError as error:
        raise Refused(
            Refusal("RESULTS_INVALID", "results", without_folder(error, folder))
        ) from error


def without_folder(error: Exception, folder: Path) -> str:
    return str(error).replace(f"{folder}/", "")[:500]


def num_parameters_of(file: ResultsFile) -> int | None:
    return None if file.num_parameters is None else int(file.num_parameters)


def describe_task(run: Run, task: TaskResult) -> SubmittedTask:
    """Nothing is validated yet: whoever reads it does."""
    judge, data = task.metadata.get("judge_config"), task.metadata.get("data")
    ran: Any = {
        "task": task.task,
        "version": task.version,
        "documents": task.effective,
        "unscored": unscored_of(task),
    }
    said: Any = {
        "data": data if isinstance(data, dict) else {},
        "judge": judge if isinstance(judge, dict) else None,
    }
    samples = task.samples.name if task.samples else ""
    return SubmittedTask.model_construct(
        **ran, **said, results=run.name, samples=samples, settings=run.settings(task)
    )


def check_claims(submission: Submission, runs: Sequence[Run]) -> Iterator[Refusal]:
    tasks = {task.task: (run, task) for run in runs for task in run.file.tasks}
    for claimed in submission.tasks:
        if claimed.task not in tasks:
            yield Refusal(
                "CLAIM_DIFFERS",
                claimed.task[:80],
                "submission.json has this task, the results do not",
            )
            continue
        for key, value in describe_task(*tasks[claimed.task]):
            if getattr(claimed, key) != value:
                yield Refusal(
                    "CLAIM_DIFFERS",
                    f"{claimed.task}.{key}",
                    "submission.json says otherwise than the results",
                )
    listed = Counter(each.task for each in submission.tasks)
    for name in tasks:
        if listed[name] != 1:
            yield Refusal(
                "CLAIM_DIFFERS",
                name[:80],
                f"is in submission.json {listed[name]} times, expected once",
            )
    newest = max((run.file for run in runs), key=lambda file: file.date)
    versions = newest.versions
    for key, claim, is_so in (
        ("date", submission.date, date_of(newest)),
        ("num_parameters", submission.model.num_parameters, num_parameters_of(newest)),
        ("suite_version", submission.suite_version, versions.get("suite", "")),
        ("lm_eval_version", submission.lm_eval_version, versions.get("lm_eval", "")),
    ):
        if claim != is_so:
            yield Refusal(
                "CLAIM_DIFFERS",
                key,
                f"submission.json says {str(claim)[:40]!r}, the results {str(is_so)[:40]!r}",
            )


def check_runs(submission: Submission, runs: Sequence[Run], rules: Rules) -> Iterator[Refusal]:
    """What is wrong with the runs as a whole: the model, the versions and the tasks."""
    model = submission.model
    if not REVISION.fullmatch(model.revision):
        yield Refusal(
            "REVISION_MISSING", "model.revision", f"expected {REVISIONS}; pack with --revision"
        )
    if not model.dtype.strip():
        yield Refusal("DTYPE_MISSING", "model.dtype", "is empty; pack with --dtype")
    models = {(run.file.model, run.file.revision, run.file.dtype, run.file.backend) for run in runs}
    if len(models) > 1:
        yield Refusal(
            "MIXED_RUNS",
            "results",
            f"{len(models)} different models, revisions, dtypes or backends; submit one each",
        )
    for run in runs:
        yield from _model(submission, run)
        yield from _backend(run, rules)
        yield from _plausible(run)
        yield from _versions(run, rules)
    yield from _tasks(runs, rules)


def check_task(run: Run, task: TaskResult, expected: TaskRules, rules: Rules) -> Iterator[Refusal]:
    """What is wrong with the run of one task, by its results alone."""
    limit = run.config.get("limit")
    if limit is not None or task.effective != task.num_samples:
        found = (
            f"{task.effective} of {task.num_samples} documents were run"
            if limit is None
            else f"--limit {limit}"
        )
        yield Refusal("LIMIT_RUN", task.task, f"{found}; run the whole task")
    elif task.effective != expected.documents:
        yield Refusal(
            "ROWS_MISSING",
            task.task,
            f"{task.effective} documents were run, the task has {expected.documents}",
        )
    if task.version != expected.version:
        yield Refusal(
            "TASK_VERSION_UNKNOWN",
            task.task,
            f"found {task.version[:40]}, expected {expected.version}",
        )
    for name, (value, wanted) in _wanted(run, task, expected, rules).items():
        if value != wanted:
            sentence = (
                f"{name} is {short(value, 160)}, expected {short(wanted, 160)}; {_advice(rules)}"
            )
            yield Refusal("CONFIG_DIFFERS", task.task, sentence)
    blob = mapping(task.metadata.get("data")).get("git_blob")
    if blob != expected.git_blob:
        yield Refusal(
            "WRONG_DATA",
            task.task,
            f"git blob {short(blob, 160)}, the published file has {expected.git_blob}",
        )
    yield from _metrics(run, task, expected)
    if number_of(task.metrics.get("unscored")) is None:
        yield Refusal("RESULTS_INVALID", task.task, "does not say how many responses are unscored")
    elif unscored_of(task) > rules.max_unscored * items_of(task):
        found, most = (
            f"{unscored_of(task)} of {items_of(task)}",
            f"at most {rules.max_unscored:.1%} may be",
        )
        yield Refusal("UNSCORED_TOO_MANY", task.task, f"{found} responses are unscored, {most}")


def _model(submission: Submission, run: Run) -> Iterator[Refusal]:
    model, file = submission.model, run.file
    is_hub = file.model.count("/") == 1 and not file.model.startswith((".", "/", "~"))
    same_name = short_name(file.model) == short_name(model.name)
    named, size = size_in_name(model.name), number_of(run.config.get("model_num_parameters")) or 0
    if named and size > 0 and not 1 / _OTHER_SIZE <= size / named <= _OTHER_SIZE:
        found = (
            f"{model.name!r} says {size_label(named)} parameters, the run had {size_label(size)}"
        )
        yield Refusal(
            "MODEL_DIFFERS", run.name, f"{found}; pack under the name of the model that was run"
        )
    for is_other, found in (
        (
            run.commit and run.commit != model.revision,
            f"of commit {run.commit[:40]}, not of {model.revision[:80]}",
        ),
        (
            is_hub and run.commit and not same_name,
            f"of {file.model[:120]!r}, not of {model.name!r}",
        ),
        (
            file.dtype and file.dtype != model.dtype,
            f"in {str(file.dtype)[:40]}, not in {model.dtype[:40]}",
        ),
        (file.backend != model.backend, f"by {file.backend[:40]}, not by {model.backend[:40]}"),
    ):
        if is_other:
            yield Refusal("MODEL_DIFFERS", run.name, f"the run was {found}")


def _backend(run: Run, rules: Rules) -> Iterator[Refusal]:
    if run.file.backend not in rules.backends:
        found = f"the backend {run.file.backend[:40]!r} does more than score a model"
        yield Refusal(
            "CONFIG_DIFFERS", run.name, f"{found}; take one of {', '.join(rules.backends)}"
        )
    if run.adapters and not rules.adapters:
        found = f"model_args has {', '.join(run.adapters)}: the checkpoint was not run as it is"
        yield Refusal("CONFIG_DIFFERS", run.name, f"{found}; merge it into a model of its own")


def _plausible(run: Run) -> Iterator[Refusal]:
    rest = {
        key: value for key, value in run.file.content.items() if key != "results"
    }  # there NaN is a score that is not defined
    found = [f"{place[:80]} is not a finite number" for place in list(not_finite(rest))[:3]]
    if not _BEGAN <= run.file.date <= time.time() + _AHEAD:
        found.append(
            f"'date' is {run.file.date:.6g}, not a second between the suite's first day and now"
        )
    given = run.config.get("model_num_parameters")
    size = number_of(given)
    # lm_eval: -1 is not known
    if given is not None and (size is None or size > _PARAMETERS or (size < 1 and size != -1)):
        found.append("'model_num_parameters' is not a number that a model can have")
    if run.file.content.get("groups"):
        found.append("'groups' holds scores, and nothing of them is checked")
    yield from (Refusal("RESULTS_INVALID", run.name, each) for each in found)


def _versions(run: Run, rules: Rules) -> Iterator[Refusal]:
    lm_eval = str(run.file.versions.get("lm_eval", "unknown"))
    if not rules.takes_lm_eval(lm_eval):
        taken = (
            ", ".join(f"{each}*" for each in rules.lm_eval_versions)
            + f" from {rules.lm_eval_minimum} on"
        )
        yield Refusal(
            "LM_EVAL_UNKNOWN", run.name, f"found {lm_eval[:40]}, taken are {taken}; run again"
        )
    for task in run.file.tasks:
        suite = str(task.metadata.get("suite_version", "unknown"))
        if suite not in rules.suite_versions:
            taken = ", ".join(rules.suite_versions)
            yield Refusal(
                "SUITE_UNKNOWN",
                task.task,
                f"found {suite[:40]}, taken are {taken}; run again with one of them",
            )


def _tasks(runs: Sequence[Run], rules: Rules) -> Iterator[Refusal]:
    there = [task.task for run in runs for task in run.file.tasks]
    for expected in rules.tasks:
        if expected.task not in there:
            yield Refusal(
                "TASKS_MISSING", expected.task, f"is not in the results; {_advice(rules)}"
            )
    there += [
        name for run in runs for name in run.file.content["results"] if run.file.task(name) is None
    ]  # groups
    for name in dict.fromkeys(there):
        if name not in rules.by_task:
            yield Refusal(
                "TASKS_EXTRA",
                name[:80],
                f"is not of this leaderboard, and nothing of it is checked; {_advice(rules)}",
            )
        elif there.count(name) > 1:
            yield Refusal("TASKS_EXTRA", name, "is in two results files; submit one")


def _wanted(
    run: Run, task: TaskResult, expected: TaskRules, rules: Rules
) -> dict[str, tuple[Any, Any]]:
    wanted: dict[str, tuple[Any, Any]] = {
        **{name: (task.metadata.get(name), value) for name, value in expected.metadata.items()},
        "num_fewshot": (run.settings(task)["num_fewshot"], 0),
        "bootstrap_iters": (bool(run.config.get("bootstrap_iters", True)), True),
    }
    if expected.benchmark is not None:
        wanted["benchmark"] = (task.kind, expected.benchmark)
    if expected.generation_kwargs is not None:
        wanted["generation_kwargs"] = (
            task.config.get("generation_kwargs"),
            expected.generation_kwargs,
        )
        wanted["repeats"] = (task.config.get("repeats"), expected.repeats)
        tokens = thinking_tokens_of(task)
        wanted[THINKING] = (tokens, max(0, min(tokens, rules.thinking_tokens)))
    if not rules.chat_template:
        wanted["chat_template"] = (run.has_template, False)
    if not rules.system_instruction:
        wanted["system_instruction"] = (bool(run.file.content.get("system_instruction")), False)
    return wanted


def _metrics(run: Run, task: TaskResult, expected: TaskRules) -> Iterator[Refusal]:
    """A task has one filter, and the score that it is ranked by."""
    keys = [key for key in run.file.content["results"][task.task] if key not in _NOT_METRICS]
    filters = {key.partition(",")[2] for key in keys}
    if len(filters) > 1:
        shown = ", ".join(sorted(each[:20] or "none" for each in filters))
        yield Refusal(
            "RESULTS_INVALID",
            task.task,
            f"scores of {len(filters)} filters ({shown}), of which one would be checked",
        )
    headline = expected.headline
    if headline is not None and not math.isfinite(task.metrics.get(headline, math.nan)):
        yield Refusal(
            "RESULTS_INVALID",
            task.task,
            f"{headline}, by which the leaderboard ranks, is missing or no number",
        )


def _advice(rules: Rules) -> str:
    return f"run: lm-factuality run --config configs/leaderboard/{rules.name}.yaml"
