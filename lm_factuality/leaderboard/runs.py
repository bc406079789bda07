"""The runs of a submission: lm_eval's results files with what they say of how the model was run, read once; whether that is what
the submission says, and as its leaderboard wants it."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.files import not_finite
from lm_factuality.ground.model_names import short_name, size_in_name, size_label
from lm_factuality.ground.packages import load_yaml
from lm_factuality.ground.records import short
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.leaderboard.rules import Rules, TaskRules
from lm_factuality.leaderboard.submission import REVISION, REVISIONS, Refusal, Refused, Submission, SubmittedTask
from lm_factuality.results.read import date_of, read_results_file

_SETTINGS: Mapping[str, list[str]] = load_yaml(__package__, "settings.yaml")
THINKING = "thinking_tokens"
CHANGING = [name for name in _SETTINGS["arguments"] if name != "trust_remote_code"]  # of a model's arguments
_BEGAN = 1_795_219_200  # 2026-11-21, in UTC: no results of the suite are older
_AHEAD = 3_600  # seconds by which clocks may differ
_OTHER_SIZE = 16  # times: packed weights of 4 bits count an eighth of those in the name, mixtures of experts several times
_PARAMETERS = 1e15  # more than any model has
_NOT_METRICS = ("name", "alias", "sample_len", "sample_count", " ")


@dataclass(frozen=True)
class RunTask:
    """A task of a run. ``settings`` are all that change its scores, but for what is not set; ``unscored`` is how many of the
    ``items`` have no score (see ``Benchmark.unscored_unit``): documents, times samples for each where each sample is scored."""

    result: TaskResult
    settings: Mapping[str, Any]
    unscored: int
    items: int


@dataclass(frozen=True)
class Run:
    """A results file. ``commit`` is the Hub's, empty where lm_eval knows none; ``limit`` is lm_eval's ``--limit``;
    ``arguments`` are the ``--model_args`` that are set; ``hashes`` (of all samples) are by task."""

    file: ResultsFile
    tasks: tuple[RunTask, ...]
    commit: str
    limit: Any
    is_bootstrapped: bool
    num_parameters: Any
    arguments: Mapping[str, Any]
    hashes: Mapping[str, Any]
    has_template: bool
    has_instruction: bool
    max_length: int | None

    @property
    def name(self) -> str:
        return self.file.path.name

    @property
    def adapters(self) -> list[str]:
        """The arguments by which something is added to the checkpoint."""
        return [name for name in _SETTINGS["adapters"] if name in self.arguments]


def read_run(file: ResultsFile) -> Run:
    content = file.content
    config: Mapping[str, Any] = content.get("config") or {}
    longest, arguments = number_of(content.get("max_length")), _arguments(config.get("model_args"))
    tokens = {*_SETTINGS["adapters"], *_SETTINGS["arguments"]}
    changed = {name: value for name, value in arguments.items() if name in tokens}
    prompting = {name: content[name] for name in _SETTINGS["prompting"] if content.get(name)}
    shots = mapping(content.get("n-shot"))
    tasks = tuple(_task(each, shots, changed, prompting) for each in file.tasks)
    ran = str(config.get("model_sha") or ""), config.get("limit"), bool(config.get("bootstrap_iters", True))
    given = config.get("model_num_parameters"), arguments, mapping(content.get("task_hashes"))
    # A template is empty where a server has it.
    prompted = content.get("chat_template") is not None, bool(content.get("system_instruction"))
    return Run(file, tasks, *ran, *given, *prompted, None if longest is None else int(longest))


def _task(task: TaskResult, shots: Mapping[str, Any], changed: Mapping[str, Any], prompting: Mapping[str, Any]) -> RunTask:
    """``changed`` are the model's arguments that change a score."""
    metadata, repeats, decoding = task.metadata, task.config.get("repeats"), task.config.get("generation_kwargs")
    benchmark = find_benchmark(task.kind)
    named = benchmark.settings if benchmark else ()
    settings: dict[str, Any] = {name: metadata[name] for name in named if metadata.get(name) is not None}
    settings["num_fewshot"] = shots.get(task.task, task.config.get("num_fewshot"))
    settings |= {"model_args": changed} if changed else {}
    settings |= {"generation_kwargs": decoding, "repeats": repeats} if decoding else {}
    settings |= {THINKING: tokens} if decoding and (tokens := thinking_tokens_of(task)) else {}
    return RunTask(task, {**settings, **prompting}, int(number_of(task.metrics.get("unscored")) or 0), items_of(task))


def items_of(task: TaskResult) -> int:
    """How many there are that may be unscored: see ``RunTask``."""
    benchmark, repeats = find_benchmark(task.kind), task.config.get("repeats")
    by_sample = benchmark is not None and benchmark.unscored_unit != "rows" and isinstance(repeats, int)
    return task.effective * (repeats or 1) if by_sample else task.effective


def thinking_tokens_of(task: TaskResult) -> int:
    """How many tokens a run gave the model to think, beside those of an answer; -1 for what is no number of tokens."""
    tokens = task.metadata.get(THINKING) or 0
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else -1


def read_runs(folder: Path, submission: Submission) -> list[Run]:
    """The run of each results file of a submission. Raises Refused: there is none, or one is not as lm_eval writes it."""
    names = [each.path for each in submission.files if Path(each.path).name.startswith("results_")]
    if not names:
        raise Refused(Refusal("RESULTS_INVALID", "results", "no results_*.json; pack the results again"))
    try:
        return [read_run(read_results_file(folder / name)) for name in names]
    except DataError as error:
        raise Refused(Refusal("RESULTS_INVALID", "results", without_folder(error, folder))) from error


def without_folder(error: Exception, folder: Path) -> str:
    return str(error).replace(f"{folder}/", "")[:500]


def num_parameters_of(file: ResultsFile) -> int | None:
    return None if file.num_parameters is None else int(file.num_parameters)


def _arguments(given: Any) -> dict[str, Any]:
    """``--model_args`` by name, but for what is not set; lm_eval keeps them as they were given, an object or one text."""
    if isinstance(given, str):
        pairs = (each.partition("=") for each in given.split(","))
        given = {name.strip(): value.strip() for name, _, value in pairs}
    return {name: value for name, value in mapping(given).items() if value not in (None, "", False, "None", "False", "false")}


def describe_task(run_task: RunTask, results: str, samples: str) -> SubmittedTask:
    """``results`` and ``samples`` are the paths of both in the submission. Nothing is validated yet: whoever reads it does."""
    task = run_task.result
    judge, data = task.metadata.get("judge_config"), task.metadata.get("data")
    ran: Any = {"task": task.task, "version": task.version, "documents": task.effective, "unscored": run_task.unscored}
    said: Any = {"data": data if isinstance(data, dict) else {}, "judge": judge if isinstance(judge, dict) else None}
    return SubmittedTask.model_construct(**ran, **said, results=results, samples=samples, settings=run_task.settings)


def check_claims(submission: Submission, runs: Sequence[Run]) -> Iterator[Refusal]:
    tasks = {task.result.task: (run, task) for run in runs for task in run.tasks}
    for claimed in submission.tasks:
        if claimed.task not in tasks:
            yield Refusal("CLAIM_DIFFERS", claimed.task[:80], "submission.json has this task, the results do not")
            continue
        run, task = tasks[claimed.task]
        samples = task.result.samples
        found = describe_task(task, run.name, samples.name if samples else "")
        for key, value in found:
            if getattr(claimed, key) != value:
                yield Refusal("CLAIM_DIFFERS", f"{claimed.task}.{key}", "submission.json says otherwise than the results")
    listed = Counter(each.task for each in submission.tasks)
    for name in tasks:
        if listed[name] != 1:
            yield Refusal("CLAIM_DIFFERS", name[:80], f"is in submission.json {listed[name]} times, expected once")
    newest = max((run.file for run in runs), key=lambda file: file.date)
    versions = newest.versions
    for key, claim, is_so in (
        ("date", submission.date, date_of(newest)),
        ("num_parameters", submission.model.num_parameters, num_parameters_of(newest)),
        ("suite_version", submission.suite_version, versions.get("suite", "")),
        ("lm_eval_version", submission.lm_eval_version, versions.get("lm_eval", "")),
    ):
        if claim != is_so:
            yield Refusal("CLAIM_DIFFERS", key, f"submission.json says {str(claim)[:40]!r}, the results {str(is_so)[:40]!r}")


def check_runs(submission: Submission, runs: Sequence[Run], rules: Rules) -> Iterator[Refusal]:
    """What is wrong with the runs as a whole: the model, the versions and the tasks."""
    model = submission.model
    if not REVISION.fullmatch(model.revision):
        yield Refusal("REVISION_MISSING", "model.revision", f"expected {REVISIONS}; pack with --revision")
    if not model.dtype.strip():
        yield Refusal("DTYPE_MISSING", "model.dtype", "is empty; pack with --dtype")
    models = {(run.file.model, run.file.revision, run.file.dtype, run.file.backend) for run in runs}
    if len(models) > 1:
        yield Refusal("MIXED_RUNS", "results", f"{len(models)} different models, revisions, dtypes or backends; submit one each")
    for run in runs:
        yield from _model(submission, run)
        yield from _backend(run, rules)
        yield from _plausible(run)
        yield from _versions(run, rules)
    yield from _tasks(runs, rules)


def check_task(run: Run, run_task: RunTask, expected: TaskRules, rules: Rules) -> Iterator[Refusal]:
    """What is wrong with the run of one task, by its results alone."""
    task = run_task.result
    if run.limit is not None or task.effective != task.num_samples:
        found = f"{task.effective} of {task.num_samples} documents were run" if run.limit is None else f"--limit {run.limit}"
        yield Refusal("LIMIT_RUN", task.task, f"{found}; run the whole task")
    elif task.effective != expected.documents:
        yield Refusal("ROWS_MISSING", task.task, f"{task.effective} documents were run, the task has {expected.documents}")
    if task.version != expected.version:
        yield Refusal("TASK_VERSION_UNKNOWN", task.task, f"found {task.version[:40]}, expected {expected.version}")
    for name, (value, wanted) in _wanted(run, run_task, expected, rules).items():
        if value != wanted:
            sentence = f"{name} is {short(value, 160)}, expected {short(wanted, 160)}; {_advice(rules)}"
            yield Refusal("CONFIG_DIFFERS", task.task, sentence)
    data = task.metadata.get("data")
    blob = data.get("git_blob") if isinstance(data, dict) else None
    if blob != expected.git_blob:
        yield Refusal("WRONG_DATA", task.task, f"git blob {short(blob, 160)}, the published file has {expected.git_blob}")
    yield from _metrics(run, task, expected)
    if number_of(task.metrics.get("unscored")) is None:
        yield Refusal("RESULTS_INVALID", task.task, "does not say how many responses are unscored")
    elif run_task.unscored > rules.max_unscored * run_task.items:
        found, most = f"{run_task.unscored} of {run_task.items}", f"at most {rules.max_unscored:.1%} may be"
        yield Refusal("UNSCORED_TOO_MANY", task.task, f"{found} responses are unscored, {most}")


def _model(submission: Submission, run: Run) -> Iterator[Refusal]:
    model, file = submission.model, run.file
    is_hub = file.model.count("/") == 1 and not file.model.startswith((".", "/", "~"))
    same_name = short_name(file.model) == short_name(model.name)
    named, size = size_in_name(model.name), number_of(run.num_parameters) or 0
    if named and size > 0 and not 1 / _OTHER_SIZE <= size / named <= _OTHER_SIZE:
        found = f"{model.name!r} says {size_label(named)} parameters, the run had {size_label(size)}"
        yield Refusal("MODEL_DIFFERS", run.name, f"{found}; pack under the name of the model that was run")
    for is_other, found in (
        (run.commit and run.commit != model.revision, f"of commit {run.commit[:40]}, not of {model.revision[:80]}"),
        (is_hub and run.commit and not same_name, f"of {file.model[:120]!r}, not of {model.name!r}"),
        (file.dtype and file.dtype != model.dtype, f"in {str(file.dtype)[:40]}, not in {model.dtype[:40]}"),
        (file.backend != model.backend, f"by {file.backend[:40]}, not by {model.backend[:40]}"),
    ):
        if is_other:
            yield Refusal("MODEL_DIFFERS", run.name, f"the run was {found}")


def _backend(run: Run, rules: Rules) -> Iterator[Refusal]:
    if run.file.backend not in rules.backends:
        found = f"the backend {run.file.backend[:40]!r} does more than score a model"
        yield Refusal("CONFIG_DIFFERS", run.name, f"{found}; take one of {', '.join(rules.backends)}")
    if run.adapters and not rules.adapters:
        found = f"model_args has {', '.join(run.adapters)}: the checkpoint was not run as it is"
        yield Refusal("CONFIG_DIFFERS", run.name, f"{found}; merge it into a model of its own")


def _plausible(run: Run) -> Iterator[Refusal]:
    """Numbers that are none, and dates that cannot be."""
    rest = {key: value for key, value in run.file.content.items() if key != "results"}  # there NaN is a score that is not defined
    found = [f"{place[:80]} is not a finite number" for place in list(not_finite(rest))[:3]]
    if not _BEGAN <= run.file.date <= time.time() + _AHEAD:
        found.append(f"'date' is {run.file.date:.6g}, not a second between the suite's first day and now")
    size = number_of(run.num_parameters)
    # lm_eval: -1 is not known
    if run.num_parameters is not None and (size is None or size > _PARAMETERS or (size < 1 and size != -1)):
        found.append("'model_num_parameters' is not a number that a model can have")
    if run.file.content.get("groups"):
        found.append("'groups' holds scores, and nothing of them is checked")
    yield from (Refusal("RESULTS_INVALID", run.name, each) for each in found)


def _versions(run: Run, rules: Rules) -> Iterator[Refusal]:
    lm_eval = str(run.file.versions.get("lm_eval", "unknown"))
    if not rules.takes_lm_eval(lm_eval):
        taken = ", ".join(f"{each}*" for each in rules.lm_eval_versions) + f" from {rules.lm_eval_minimum} on"
        yield Refusal("LM_EVAL_UNKNOWN", run.name, f"found {lm_eval[:40]}, taken are {taken}; run again")
    for task in run.file.tasks:
        suite = str(task.metadata.get("suite_version", "unknown"))
        if suite not in rules.suite_versions:
            taken = ", ".join(rules.suite_versions)
            yield Refusal("SUITE_UNKNOWN", task.task, f"found {suite[:40]}, taken are {taken}; run again with one of them")


def _tasks(runs: Sequence[Run], rules: Rules) -> Iterator[Refusal]:
    there = [task.task for run in runs for task in run.file.tasks]
    for expected in rules.tasks:
        if expected.task not in there:
            yield Refusal("TASKS_MISSING", expected.task, f"is not in the results; {_advice(rules)}")
    there += [name for run in runs for name in run.file.content["results"] if run.file.task(name) is None]  # groups
    for name in dict.fromkeys(there):
        if name not in rules.by_task:
            yield Refusal("TASKS_EXTRA", name[:80], f"is not of this leaderboard, and nothing of it is checked; {_advice(rules)}")
        elif there.count(name) > 1:
            yield Refusal("TASKS_EXTRA", name, "is in two results files; submit one")


def _wanted(run: Run, run_task: RunTask, expected: TaskRules, rules: Rules) -> dict[str, tuple[Any, Any]]:
    task = run_task.result
    wanted: dict[str, tuple[Any, Any]] = {
        **{name: (task.metadata.get(name), value) for name, value in expected.metadata.items()},
        "num_fewshot": (run_task.settings["num_fewshot"], 0),
        "bootstrap_iters": (run.is_bootstrapped, True),
    }
    if expected.benchmark is not None:
        wanted["benchmark"] = (task.kind, expected.benchmark)
    if expected.generation_kwargs is not None:
        wanted["generation_kwargs"] = (task.config.get("generation_kwargs"), expected.generation_kwargs)
        wanted["repeats"] = (task.config.get("repeats"), expected.repeats)
        tokens = thinking_tokens_of(task)
        wanted[THINKING] = (tokens, max(0, min(tokens, rules.thinking_tokens)))
    if not rules.chat_template:
        wanted["chat_template"] = (run.has_template, False)
    if not rules.system_instruction:
        wanted["system_instruction"] = (run.has_instruction, False)
    return wanted


def _metrics(run: Run, task: TaskResult, expected: TaskRules) -> Iterator[Refusal]:
    """A task has one filter, and the score that it is ranked by."""
    keys = [key for key in run.file.content["results"][task.task] if key not in _NOT_METRICS]
    filters = {key.partition(",")[2] for key in keys}
    if len(filters) > 1:
        shown = ", ".join(sorted(each[:20] or "none" for each in filters))
        yield Refusal("RESULTS_INVALID", task.task, f"scores of {len(filters)} filters ({shown}), of which one would be checked")
    headline = expected.headline
    if headline is not None and not math.isfinite(task.metrics.get(headline, math.nan)):
        yield Refusal("RESULTS_INVALID", task.task, f"{headline}, by which the leaderboard ranks, is missing or no number")


def _advice(rules: Rules) -> str:
    return f"run: lm-factuality run --config configs/leaderboard/{rules.name}.yaml"
