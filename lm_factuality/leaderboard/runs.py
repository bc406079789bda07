"""The runs of a submission: what lm_eval's results files say of how the model was run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.ground.errors import DataError
from lm_factuality.ground.packages import load_yaml
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.leaderboard.submission import Refusal, Refused, Submission
from lm_factuality.results.read import date_of, read_results_file

_SETTINGS: Mapping[str, list[str]] = load_yaml(__package__, "settings.yaml")
THINKING = "thinking_tokens"
_UNSET = (None, "", False, "None", "False", "false")

REPEATED_ARGUMENTS = [name for name in _SETTINGS["arguments"] if name != "trust_remote_code"]
"""The arguments of a model that a rerun repeats. Code of a model's own is never run unasked."""


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
        """The commit on the Hub, or an empty text if lm_eval knows none."""
        return str(self.config.get("model_sha") or "")

    @property
    def has_template(self) -> bool:
        """Whether prompts were put into a chat template. A server's template is an empty text."""
        return self.file.content.get("chat_template") is not None

    @property
    def arguments(self) -> dict[str, Any]:
        """``--model_args`` by name, without those that are not set.

        lm_eval keeps them as they were given: as an object, or as one text.
        """
        arguments = self.config.get("model_args")
        if isinstance(arguments, str):
            pairs = (pair.partition("=") for pair in arguments.split(","))
            arguments = {name.strip(): value.strip() for name, _, value in pairs}
        return {name: value for name, value in mapping(arguments).items() if value not in _UNSET}

    @property
    def adapters(self) -> list[str]:
        """The arguments that add something to the checkpoint."""
        return [name for name in _SETTINGS["adapters"] if name in self.arguments]

    def settings(self, task: TaskResult) -> dict[str, Any]:
        """Everything that changes the scores of a task, without what is not set."""
        content = self.file.content
        benchmark = find_benchmark(task.kind)
        settings: dict[str, Any] = {}
        for name in benchmark.data.settings if benchmark else ():
            if task.metadata.get(name) is not None:
                settings[name] = task.metadata[name]
        shots = mapping(content.get("n-shot"))
        settings["num_fewshot"] = shots.get(task.task, task.config.get("num_fewshot"))
        changing = {*_SETTINGS["adapters"], *_SETTINGS["arguments"]}
        arguments = {name: value for name, value in self.arguments.items() if name in changing}
        if arguments:
            settings["model_args"] = arguments
        decoding = task.config.get("generation_kwargs")
        if decoding:
            settings["generation_kwargs"] = decoding
            settings["repeats"] = task.config.get("repeats")
            if thinking_tokens_of(task):
                settings[THINKING] = thinking_tokens_of(task)
        for name in _SETTINGS["prompting"]:
            if content.get(name):
                settings[name] = content[name]
        return settings


def read_runs(folder: Path, submission: Submission) -> tuple[Run, ...]:
    """Read the results files of a submission.

    Raises:
        Refused: There is none, or one is not as lm_eval writes it.
    """
    paths = [folder / packed.path for packed in submission.files]
    results = [path for path in paths if path.name.startswith("results_")]
    if not results:
        problem = "no results_*.json; pack the results again"
        raise Refused(Refusal("RESULTS_INVALID", "results", problem))
    try:
        files = [read_results_file(path) for path in results]
        for file in files:
            date_of(file)  # refuses a number that is no date
        return tuple(map(Run, files))
    except DataError as error:
        problem = without_folder(error, folder)
        raise Refused(Refusal("RESULTS_INVALID", "results", problem)) from error


def is_judged(task: TaskResult) -> bool:
    """Whether a judge decides about the responses of a task."""
    benchmark = find_benchmark(task.kind)
    return benchmark is not None and benchmark.judging is not None


def unscored_of(task: TaskResult) -> int:
    """How many of the `items_of` a task have no score."""
    return int(number_of(task.metrics.get("unscored")) or 0)


def items_of(task: TaskResult) -> int:
    """How many items may be unscored: documents, or samples of documents."""
    benchmark = find_benchmark(task.kind)
    repeats = task.config.get("repeats")
    if benchmark is None or benchmark.scoring.unscored_unit == "rows":
        return task.effective
    return task.effective * (repeats or 1) if isinstance(repeats, int) else task.effective


def thinking_tokens_of(task: TaskResult) -> int:
    """The number of tokens that a run gave the model to think, or -1 if it is no number."""
    tokens = task.metadata.get(THINKING) or 0
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else -1


def without_folder(error: Exception, folder: Path) -> str:
    """The text of an error, with paths relative to the submission."""
    return str(error).replace(f"{folder}/", "")[:500]
