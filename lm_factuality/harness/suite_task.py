"""The base class of the suite's lm_eval tasks, and the check that ``validate`` makes of a task.

Each benchmark subclasses `SuiteTask`; lm_eval makes the tasks and calls their methods.
"""

import abc
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from lm_factuality import __version__
from lm_factuality.ground.errors import ConfigError, DataError
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.secrets import without_secrets
from lm_factuality.harness import evaluation, thinking
from lm_factuality.harness.context import current_run
from lm_factuality.harness.internals import (
    filters_kept,
    filters_of,
    lm_eval_part,
    row_arguments,
    score_rows,
    set_filters,
)
from lm_factuality.harness.own_data import YAML_FOLDER
from lm_factuality.scores.statistics import Aggregation

logger = logging.getLogger(__name__)

SPLIT = "test"
UNSCORED = "unscored"  # the metric that counts rows without a score; their values are the reasons
_ALWAYS_PASSED = ("task", "task_alias", "tag")
_LONGEST_NAME = 150  # characters; a samples file is named by the task and a date
_LONGEST_EXAMPLE = 300  # characters that a report shows of the end of a prompt
_OVERRIDDEN = (
    "download process_results aggregation higher_is_better build_all_requests construct_requests"
    " apply_filters dump_config"
)

evaluation.extend_evaluate()
for _method in _OVERRIDDEN.split():
    # If lm_eval renamed the method, the override of the suite would silently do nothing.
    lm_eval_part(f"lm_eval.api.task:ConfigurableTask.{_method}")


class TaskSettings(NamedTuple):
    """The settings of a task, read from its YAML and checked."""

    config: Mapping[str, Any]
    """Keys of the config that lm_eval gets, such as ``output_type``."""

    metadata: Mapping[str, Any]
    """Entries that are added to the metadata in the results file."""


@dataclass(frozen=True)
class TaskReport:
    """The findings of ``lm-factuality validate`` for one task."""

    target: str
    """The name or path by which the user chose the task."""

    problems: tuple[str, ...]
    """Every problem, each with the row or file that it is in."""

    num_rows: int = 0
    num_requests: int = 0

    example: tuple[tuple[str, str], ...] = ()
    """The (context, continuation) of each request of the first row, if they can be built."""

    first_join: str = ""
    """The text around the point where the first row's prefix and completion meet."""


class SuiteTask(ConfigurableTask):  # type: ignore[misc]
    """A task of lm_eval whose data the suite reads instead of lm_eval.

    Subclasses read the rows in `read_documents`, and score each in `row_metrics`. In `note_results`
    they note what responses show about the whole run. The benchmark that they declare says how the
    metrics of all rows become scores.
    """

    declared: ClassVar[Any]
    """The benchmark, a ``Benchmark`` of ``lm_factuality.benchmarks``."""

    passed_keys: ClassVar[tuple[str, ...]] = ("generation_kwargs",)
    """Keys of the YAML that lm_eval gets unchanged."""

    restated_keys: ClassVar[tuple[str, ...]] = ("doc_to_text", "doc_to_target")
    """Keys that the YAML may repeat from the benchmark, but not change."""

    metadata_keys: ClassVar[tuple[str, ...]]
    """Keys of the metadata that this class reads, besides those of all tasks and of its bases."""

    scores_texts: ClassVar[bool] = False
    """Whether the model gives the log-likelihoods of texts, which no chat server does."""

    instructs: ClassVar[bool] = False
    """Whether prompts are instructions, which a chat model needs in its chat template."""

    problem_key: ClassVar[str] = ""
    """The key of documents that says why a row cannot be scored."""

    first_join = ""
    """The text around the point where the first row's prefix and completion meet, or empty."""

    only_predicts = False
    """Whether the run has ``--predict_only``, so that nothing is scored."""

    unscored: Sequence[str] = ()
    """Why each of the unscored rows has no score. It is set when lm_eval computes the scores."""

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: object = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Check the task's YAML, read its rows, and add the task to the current run.

        lm_eval calls this; its signature is the one of lm_eval's base class.

        Args:
            data_dir: The folder with the published files; the metadata's ``data_dir`` wins.
            cache_dir: Ignored.
            download_mode: Ignored.
            config: The task's YAML. Its ``metadata`` include those of the command line.

        Raises:
            ConfigError: The YAML states something wrong, or the task cannot run with these options.
            DataError: The task's data cannot be read.
        """
        yaml = dict(config or {})
        metadata = yaml.get("metadata") or {}
        # lm_eval's constructor reads the rows, for which `read_documents` needs this folder.
        self._data_dir: str | None = metadata.get("data_dir") or data_dir
        settings = self.configure(yaml, metadata)
        self._check_yaml(yaml, settings.config)
        super().__init__(config=self._lm_eval_config(yaml, settings))
        # lm_eval 0.5 reads the rows only when this attribute is first used, but bad rows are to be
        # reported before the model is loaded.
        _ = self.dataset

        # Each release of lm_eval applies the filters that it finds in another attribute.
        set_filters(self, filters_of(self))
        if self.generates:
            # lm_eval pads requests of this type when several processes share the work.
            self.OUTPUT_TYPE = thinking.REQUEST_TYPE
        self._join_run()
        self.finish_construction()

    def _join_run(self) -> None:
        """Add the task to the current run, and log the caution that its results need."""
        name = str(self.config.task)
        caution = self.config.metadata.get("caution")
        if caution:
            one_line = " ".join(str(caution).split())
            current_run().log_once(logger, f"{name}: {one_line}")
        current_run().tasks[name] = self

    def _lm_eval_config(self, yaml: Mapping[str, Any], settings: TaskSettings) -> dict[str, Any]:
        """Put the config for lm_eval together: defaults, the task's settings, and keys of the YAML.

        Args:
            yaml: The task's YAML. Its names and the keys in `passed_keys` go to lm_eval unchanged.
            settings: The settings that the task has read from the YAML and checked.
        """
        defaults = {
            "metadata": {
                "version": 1.0,
                **(yaml.get("metadata") or {}),
                "suite_version": __version__,
                "benchmark": self.declared.kind,
                **settings.metadata,
            },
            "test_split": SPLIT,
            "num_fewshot": 0,
            "target_delimiter": "",
            "metric_list": [],
        }
        unchanged_keys = (*self.passed_keys, *_ALWAYS_PASSED)
        unchanged_config = {key: yaml[key] for key in unchanged_keys if key in yaml}
        return {**defaults, **settings.config, **unchanged_config}

    def finish_construction(self) -> None:
        """Finish the task at the end of its construction.

        Subclasses override this to set attributes that lm_eval's constructor would overwrite. They
        have no constructor of their own, because lm_eval inspects its signature.
        """

    @abc.abstractmethod
    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Check the task's YAML and return its settings.

        Subclasses also remember on the task what they need later.

        Args:
            config: The task's YAML.
            metadata: Its metadata together with those of the command line.

        Raises:
            ConfigError: A setting cannot be used.
        """

    def _check_yaml(self, config: Mapping[str, Any], task_config: Mapping[str, Any]) -> None:
        """Check the task's name, and that the YAML does not contradict the benchmark.

        A YAML may state the metrics and prompts, as those of lm_eval do. The benchmark sets them,
        so a YAML that states others would mislead its readers.

        Args:
            config: The task's YAML.
            task_config: The values that the benchmark gives to lm_eval.

        Raises:
            ConfigError: The name is unfit for a file, or a key contradicts the benchmark.
        """
        task = config.get("task")
        if isinstance(task, str):
            _check_task_name(task)

        for key in self.restated_keys:
            expected = task_config.get(key)
            if key in config and config[key] != expected:
                raise ConfigError(
                    f"{task}: {key}: found {config[key]!r}, expected {expected!r}, which the"
                    " benchmark sets"
                )

        problems = list(self.declared.metric_list_problems(config.get("metric_list")))
        if problems:
            raise ConfigError("\n".join(f"{task}: {problem}" for problem in problems))

    @abc.abstractmethod
    def read_documents(self) -> list[dict[str, Any]]:
        """Read the task's rows in the form in which lm_eval's samples show them.

        They are the same on every machine, so paths in them have no folders.
        """

    @abc.abstractmethod
    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Return the value of each metric for one row.

        Args:
            doc: The row.
            results: The model's responses after lm_eval's filters.

        Returns:
            The values by metric, each None if the row could not be scored.
        """

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Return the metrics of one row to lm_eval; none in a run with ``--predict_only``."""
        if self.only_predicts:
            return {}
        self.note_results(results)
        return self.row_metrics(doc, results)

    def note_results(self, results: Sequence[Any]) -> None:
        """Note on the task what the responses to a row show about the whole run.

        Subclasses override this, for example to record the window that the model has applied. It is
        called for each row before its metrics are computed.

        Args:
            results: The model's responses after lm_eval's filters.
        """

    def _try_process_results(
        self, instances: Mapping[int, Sequence[Instance]], filter_key: str
    ) -> dict[int, Any]:
        """Return the metrics of all rows to lm_eval, which calls this from 0.5 on."""
        return score_rows(self, instances, filter_key)

    def override_metric(self, metric_name: str) -> None:
        """Replace all metrics of the task by a single one of lm_eval.

        lm_eval calls this in a run with ``--predict_only``, in which responses are stored and not
        scored.

        Args:
            metric_name: The metric of lm_eval: ``bypass``, which computes nothing.
        """
        # lm_eval 0.5 replaces the filters together with the metrics. It chooses a scorer by the
        # output type, and knows no scorer for the type that the suite gives to generations.
        with filters_kept(self), replaced(self, OUTPUT_TYPE=self.config.output_type):
            super().override_metric(metric_name)
        self.only_predicts = metric_name == "bypass"

    @property
    def generates(self) -> bool:
        """Whether the model generates texts for this task, instead of scoring given ones."""
        return bool(self.config.output_type == "generate_until")

    def families(self) -> dict[str, Sequence[str]]:
        """Return the members of each family of metrics that depends on the data.

        Returns:
            The members by the family's name without its star. A benchmark with the metric family
            ``accuracy_*`` might return ``{"accuracy_": ["math", "science"]}``.
        """
        return {}

    def aggregation(self) -> dict[str, Aggregation]:
        """Return for each metric how one number is computed from the values of all rows.

        Only these functions see the values of all rows together. So the function that counts
        unscored rows also sets ``self.unscored``, from which a run prints the reasons.
        """
        aggregations: dict[str, Aggregation] = self.declared.aggregation_by_metric(self.families())
        if UNSCORED in aggregations:
            count_unscored = aggregations[UNSCORED]

            def note_and_count(row_values: Sequence[Any]) -> float:
                self.unscored = self.why_unscored(row_values)
                return count_unscored.value(row_values)

            aggregations[UNSCORED] = replace(count_unscored, value=note_and_count)
        return aggregations

    def why_unscored(self, values: Sequence[Any]) -> Sequence[str]:
        """Return the reasons of the unscored rows.

        Args:
            values: The ``unscored`` metric of each row: the reason, or None if the row has a score.
        """
        return [reason for reason in values if reason]

    def is_shown(self, metric: str) -> bool:
        """Tell whether tables show a metric: the benchmark gives it a label, or it is ``unscored``.

        The results file holds all metrics.
        """
        if metric == UNSCORED:
            return True
        score = self.declared.find_score(metric)
        return score is not None and bool(score.label)

    def higher_is_better(self) -> dict[str, bool]:
        """Return for each metric whether a higher value is better."""
        metrics = tuple(self.aggregation())
        return dict(self.declared.higher_is_better_by_metric(metrics))

    def download(self, dataset_kwargs: object = None, **kwargs: Any) -> None:
        """Read the task's rows into ``self.dataset``, instead of downloading a dataset.

        The constructor of lm_eval's base class calls this.

        Args:
            dataset_kwargs: Ignored; lm_eval would load a dataset with them.
            **kwargs: Ignored.

        Raises:
            DataError: The data has no rows.
        """
        documents = self.read_documents()
        if not documents:
            raise DataError(f"{self.config.task}: the data holds no rows; expected at least one")
        self.dataset = {SPLIT: datasets.Dataset.from_list(documents)}

    def build_all_requests(self, *, cache_requests: bool = False, **kwargs: Any) -> None:
        """Build the requests of all rows as lm_eval does, but never from its request cache.

        This also warns if the model has a chat template that the run does not apply, and notes in
        the metadata how many tokens a model that thinks may think.

        Args:
            cache_requests: Ignored, because that cache does not notice changed data.
            **kwargs: lm_eval's other arguments, passed on.
        """
        metadata = self.config.metadata
        has_template = bool(kwargs.get("apply_chat_template"))
        if self.instructs and not has_template:
            self._warn_of_unused_chat_template()
        if self.generates:
            num_tokens = thinking.thinking_tokens(self.config.task, metadata, has_template)
            if num_tokens:
                metadata[thinking.SETTING] = num_tokens
        super().build_all_requests(cache_requests=False, **kwargs)

    def _warn_of_unused_chat_template(self) -> None:
        """Warn if the model has a chat template, but the run does not apply it."""
        model = self.config.metadata.get("pretrained")
        if model and thinking.chat_template_of(str(model)):
            advice = "has a chat template, but is asked without it: add --apply_chat_template"
            current_run().log_once(logger, f"{self.config.task}: {model} {advice}")

    def construct_requests(
        self, doc: dict[str, Any], ctx: str, **kwargs: Any
    ) -> Instance | list[Instance]:
        """Build the requests of one row. A thinking model gets extra tokens to think.

        Args:
            doc: The row.
            ctx: The prompt.
            **kwargs: lm_eval's other arguments of a request.

        Returns:
            One request, or a list of them if lm_eval's output type needs several per row.
        """
        if self.generates:
            return self.generation(doc, ctx, 0, **row_arguments(self, doc, **kwargs))
        requests: Instance | list[Instance] = super().construct_requests(doc, ctx, **kwargs)
        return requests

    def generation(self, doc: dict[str, Any], ctx: str, number: int, **arguments: Any) -> Instance:
        """Build a request for a generated text, with the task's generation arguments.

        Args:
            doc: The row.
            ctx: The prompt.
            number: The position of the request among those of the row, from 0.
            **arguments: Further fields of the request.
        """
        # Models may change the generation arguments, so each request has its copy.
        generation_kwargs = deepcopy(self.config.generation_kwargs)
        generation_arguments = (ctx, generation_kwargs, *self.room_to_think())
        return Instance(thinking.REQUEST_TYPE, doc, generation_arguments, idx=number, **arguments)

    def room_to_think(self) -> tuple[int, ...]:
        """Return the last argument of a generation request, which only thinking models have.

        Returns:
            The number of tokens that the model may think, such as ``(4096,)``; empty if it does not
            think.
        """
        tokens = self.config.metadata.get(thinking.SETTING)
        return (tokens,) if tokens else ()

    def apply_filters(self) -> None:
        """Apply lm_eval's filters to the responses without the model's thoughts.

        In samples, ``resps`` keeps the thoughts and ``filtered_resps`` is without them.
        """
        with thinking.hide_thoughts(self._instances):
            super().apply_filters()

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, without secrets and paths of this machine.

        Secrets can be in the metadata because lm_eval adds the model's arguments to them.
        """
        config: dict[str, Any] = super().dump_config()
        config["metadata"] = without_secrets(config.get("metadata") or {})
        config["metadata"].pop(YAML_FOLDER, None)
        return config


def _check_task_name(name: str) -> None:
    """Check that the name of a task can be part of the name of a file.

    lm_eval names the samples file by the task, and drops the samples if it cannot.

    Raises:
        ConfigError: The name is too long, or has a slash in it.
    """
    if len(name) > _LONGEST_NAME or any(character in name for character in "/\\\0"):
        raise ConfigError(
            f"task: found {name[:80]!r}, expected a name of at most {_LONGEST_NAME} characters"
            " without slashes, as in file names"
        )


@contextlib.contextmanager
def warnings_silenced() -> Iterator[None]:
    """Silence the suite's warnings within a ``with`` block. Errors are still logged."""
    suite_logger = logging.getLogger("lm_factuality")
    level = suite_logger.level
    suite_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        suite_logger.setLevel(level)


def build_and_check(
    task_class: type[ConfigurableTask], target: str, config: Mapping[str, Any], data_dir: str | None
) -> TaskReport:
    """Build a task and its requests, and report the rows that cannot be scored or are missing.

    A row is missing if the published file has it and the task's data do not. If the data are
    another file than the published one, a warning is logged.

    Args:
        task_class: The class of the task, which may be one of lm_eval.
        target: The name or path by which the user chose the task.
        config: Its YAML.
        data_dir: A folder with the published files; None for the default.

    Returns:
        The problems, and the requests of the first row as an example.

    Raises:
        ConfigError: The task cannot be built with its settings.
        DataError: The task's data cannot be read.
    """
    with warnings_silenced():
        task: Any = task_class(data_dir=data_dir, config=config)
        task.build_all_requests(limit=None)
    documents = list(task.eval_docs)
    # Tasks of lm_eval have no `problem_key` and no `first_join`.
    problems = _row_problems(documents, getattr(task, "problem_key", ""), target)
    # A task that knows the published file of its data describes it in its metadata.
    data = (task.config.metadata or {}).get("data", {})
    _warn_of_changed_file(data, target)
    problems += _row_count_problems(data, target)
    return TaskReport(
        target=target,
        problems=tuple(problems),
        num_rows=len(documents),
        num_requests=len(task.instances),
        example=tuple(_first_row_requests(task.instances)),
        first_join=getattr(task, "first_join", ""),
    )


def _warn_of_changed_file(data: Mapping[str, Any], target: str) -> None:
    """Warn if a task's data replace a published file and have other content.

    Args:
        data: The description of the data, such as ``{"source": "factor", "is_published": False,
            "git_blob": "1f...a9"}``; empty if it is unknown.
        target: The task's name, for the message.
    """
    # Without the name of a published source, the data are the user's own.
    if "source" in data and data.get("is_published") is False:
        logger.warning(
            "%s: the data is not the published file (git blob %s)", target, data.get("git_blob")
        )


def _row_count_problems(data: Mapping[str, Any], target: str) -> list[str]:
    """Compare the number of a task's rows with that of the published file.

    Args:
        data: The description of the data, such as ``{"rows": 1000, "published_rows": 1036}``.
        target: The task's name, for the message.

    Returns:
        The problem, if the numbers differ.
    """
    num_rows = data.get("rows")
    num_published = data.get("published_rows", num_rows)
    if num_rows == num_published:
        return []
    return [f"{target}: {num_rows} rows, the published file has {num_published}"]


def _row_problems(
    documents: Sequence[Mapping[str, Any]], problem_key: str, target: str
) -> list[str]:
    """List the rows that cannot be scored, each with its location and the reason.

    Args:
        documents: The rows of the task.
        problem_key: The key of a row that holds the reason, empty if rows have none.
        target: The task's name, which locates a row without ``location`` by its number.

    Returns:
        Messages such as ``rows.csv, row 3: the completion is empty``.
    """
    problems = []
    for number, document in enumerate(documents):
        reason = document.get(problem_key)
        if reason:
            location = document.get("location", f"{target}: row {number}")
            problems.append(f"{location}: {reason}")
    return problems


def _first_row_requests(requests: Sequence[Instance]) -> list[tuple[str, str]]:
    """Return the context and the continuation of each request of the first row, for display.

    Args:
        requests: All requests of a task, row by row.

    Returns:
        Pairs such as ``("... Bob was born in", " Ohio.")``, of which long contexts are shortened. A
        request for a text, which has no continuation, gives an empty one.
    """
    pairs = []
    for request in requests:
        if request.doc_id != requests[0].doc_id:
            break
        context = str(request.args[0])
        # A long context is shortened to its end, which the continuation follows.
        if len(context) > _LONGEST_EXAMPLE:
            context = f"... {context[-_LONGEST_EXAMPLE:]}"
        # The second argument of a generation is a mapping of options.
        has_continuation = len(request.args) > 1 and isinstance(request.args[1], str)
        pairs.append((context, request.args[1] if has_continuation else ""))
    return pairs
