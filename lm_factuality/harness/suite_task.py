"""What the suite's lm_eval tasks have in common."""

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
from lm_factuality.ground.secrets import without_secrets
from lm_factuality.harness import evaluation, thinking
from lm_factuality.harness.context import current_run
from lm_factuality.harness.internals import internal
from lm_factuality.harness.own_data import YAML_FOLDER
from lm_factuality.scores.statistics import Aggregation

logger = logging.getLogger(__name__)

SPLIT = "test"
UNSCORED = "unscored"  # the metric that counts rows without a score; their values are the reasons
_KEPT = ("task", "task_alias", "tag")
_LONGEST_NAME = 150  # characters, beside which the name of a file has a date
_LONGEST_EXAMPLE = 300  # characters of a text that a report's example shows
_OVERRIDDEN = (
    "download process_results aggregation higher_is_better build_all_requests construct_requests"
    " apply_filters dump_config"
)


evaluation.install()
for _method in _OVERRIDDEN.split():
    # If lm_eval called it by another name, ours would change nothing.
    internal(f"lm_eval.api.task:ConfigurableTask.{_method}")


class TaskSettings(NamedTuple):
    """Of a task's YAML: ``own`` is given to lm_eval as the task's config, ``about`` added to the
    metadata that results hold."""

    own: Mapping[str, Any]
    about: Mapping[str, Any]


@dataclass(frozen=True)
class TaskReport:
    """What ``lm-factuality validate`` finds in one task: every problem, each naming its place;
    ``example`` holds the requests of the first row, as (context, continuation), if they can be
    built, and ``seam`` shows where the two meet."""

    target: str
    problems: tuple[str, ...]
    num_rows: int = 0
    num_requests: int = 0
    example: tuple[tuple[str, str], ...] = ()
    seam: str = ""


class SuiteTask(ConfigurableTask):  # type: ignore[misc]
    """A task of which the suite, and not lm_eval, reads the data: the rows come from
    ``read_documents``, the values of a row from ``row_metrics``, and how they become scores from
    the benchmark, which ``declared`` is."""

    declared: ClassVar[Any]  # a Benchmark; what declares them stands above this package
    passed: ClassVar[tuple[str, ...]] = (
        "generation_kwargs",
    )  # keys of the YAML that lm_eval is given as they are
    states: ClassVar[tuple[str, ...]] = (
        "doc_to_text",
        "doc_to_target",
    )  # keys that the YAML may state, but not change
    reads: ClassVar[
        tuple[str, ...]
    ]  # keys of metadata, beside those that all tasks and the bases of its class read
    instructs: ClassVar[bool] = (
        False  # whether the model is told to do something, which a chat model wants in its template
    )

    problem_key: ClassVar[str] = ""  # the key of documents that says why a row cannot be scored
    seam = ""  # where the first row's prefix and completion meet, if it has both

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: Any = None,
        download_mode: Any = None,
        config: Any = None,
    ) -> None:
        """Called by lm_eval with the YAML as ``config``. Raises ConfigError: it states what is not
        so, or cannot be run so."""
        config = dict(config or {})
        metadata = config.get("metadata") or {}
        self._data_dir: str | None = metadata.get("data_dir") or data_dir
        own, about = self.settings(config, metadata)
        self._check_statements(config, own)
        about = {
            "version": 1.0,
            **metadata,
            "suite_version": __version__,
            "benchmark": self.declared.kind,
            **about,
        }
        fixed = {
            "metadata": about,
            "test_split": SPLIT,
            "num_fewshot": 0,
            "target_delimiter": "",
            "metric_list": [],
        }
        given = {key: config[key] for key in (*self.passed, *_KEPT) if key in config}
        super().__init__(config={**fixed, **own, **given})
        if (self.config.repeats or 1) > 1 and current_run().has_response_cache:
            raise ConfigError(
                f"{self.config.task}: takes {self.config.repeats} samples of each prompt, but"
                " lm_eval's response cache keeps one answer per prompt, so a second run would"
                " count the same answer several times; leave out --use_cache"
            )
        if caution := self.config.metadata.get("caution"):
            current_run().tell_once(logger, f"{self.config.task}: {' '.join(str(caution).split())}")
        self.unscored: Sequence[str] = ()  # why rows are, once the scores are known
        current_run().tasks[str(self.config.task)] = self
        if self.generates:
            self.OUTPUT_TYPE = (
                thinking.REQUEST_TYPE
            )  # what lm_eval pads by when several processes share the work
        self.built()

    def built(self) -> None:
        """Called in the end, for what lm_eval's constructor would undo. Subclasses have none:
        lm_eval looks at its signature."""

    @abc.abstractmethod
    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """What the YAML says, checked; ``metadata`` is its own with the command line's. Raises
        ConfigError: it cannot be used."""

    def _check_statements(self, config: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """A YAML says what lm_eval's own do, the metrics included, though they are the benchmark's:
        so it has to be true."""
        task = config.get("task")
        # lm_eval names the file of samples by it, and goes on without samples if it cannot.
        if isinstance(task, str) and (len(task) > _LONGEST_NAME or set(task) & set("/\\\0")):
            raise ConfigError(
                f"task: found {task[:80]!r}, expected a name of at most {_LONGEST_NAME} characters"
                " without slashes, as in file names"
            )
        for key in self.states:
            if config.get(key, own.get(key)) != own.get(key):
                raise ConfigError(
                    f"{task}: {key}: found {config[key]!r}, expected {own.get(key)!r}, which the"
                    " task is made with"
                )
        problems = list(self.declared.metric_list_problems(config.get("metric_list")))
        if problems:
            raise ConfigError("\n".join(f"{task}: {problem}" for problem in problems))

    @abc.abstractmethod
    def read_documents(self) -> list[dict[str, Any]]:
        """The rows as lm_eval's samples show them: the same on every machine, so without the
        folders of their files."""

    @abc.abstractmethod
    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """What a row adds to each score, by name, None if it could not be scored; ``results`` are
        the filtered responses."""

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """As lm_eval wants it; there is nothing to score in a run with --predict_only."""
        return {} if self.only_predicts else self.row_metrics(doc, results)

    @property
    def only_predicts(self) -> bool:
        """Whether the run has --predict_only, so that nothing is to be scored."""
        return "bypass" in getattr(self, "_metric_fn_list", ())

    @property
    def generates(self) -> bool:
        """Whether the model is asked for texts."""
        return bool(self.config.output_type == "generate_until")

    def families(self) -> dict[str, Sequence[str]]:
        """The members of scores whose name ends in ``*``, by the name without the star."""
        return {}

    def aggregation(self) -> dict[str, Aggregation]:
        """Return how each metric becomes one number.

        Why rows are unscored is kept for the end of the run.
        """
        aggregations: dict[str, Aggregation] = self.declared.aggregation_by_metric(
            **self.families()
        )
        counts = aggregations.get(UNSCORED)
        if counts is None:
            return aggregations
        how_many = counts.value

        def count_unscored(values: Sequence[Any]) -> float:
            self.unscored = self.why_unscored(values)
            return how_many(values)

        return {**aggregations, UNSCORED: replace(counts, value=count_unscored)}

    def why_unscored(self, values: Sequence[Any]) -> Sequence[str]:
        """The reasons that the ``unscored`` metric holds for the rows; None stands for a row with a
        score."""
        return list(filter(None, values))

    def is_shown(self, metric: str) -> bool:
        """Whether a metric is for readers, and not one of the many that stand in the results file
        beside these."""
        score = self.declared.find_score(metric)
        return metric == UNSCORED or bool(score is not None and score.label)

    def higher_is_better(self) -> dict[str, bool]:
        """Return for each metric whether more of it is better."""
        directions: dict[str, bool] = self.declared.higher_is_better_by_metric(
            tuple(self.aggregation())
        )
        return directions

    def download(self, dataset_kwargs: Any = None, **kwargs: Any) -> None:
        """Reads the rows; called by the constructor of lm_eval's base class."""
        documents = self.read_documents()
        if not documents:
            raise DataError(f"{self.config.task}: the data holds no rows; expected at least one")
        self.dataset = {SPLIT: datasets.Dataset.from_list(documents)}

    def build_all_requests(self, *, cache_requests: bool = False, **kwargs: Any) -> None:
        """Build the requests as lm_eval does, but never from its request cache.

        That cache does not notice that the data has changed.
        """
        metadata = self.config.metadata
        model = metadata.get("pretrained")
        has_template = bool(kwargs.get("apply_chat_template"))
        if self.instructs and model and not has_template and thinking.chat_template_of(str(model)):
            advice = "has a chat template, but is asked without it: add --apply_chat_template"
            current_run().tell_once(logger, f"{self.config.task}: {model} {advice}")
        if self.generates:
            tokens = thinking.thinking_tokens(self.config.task, metadata, has_template)
            if tokens:
                metadata[thinking.SETTING] = tokens
        super().build_all_requests(cache_requests=False, **kwargs)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """As lm_eval does; a generation by a model that may think first."""
        if not self.generates:
            return super().construct_requests(doc, ctx, **kwargs)
        return self.generation(doc, ctx, 0, **without_chat(kwargs))

    def generation(self, doc: dict[str, Any], ctx: Any, number: int, **arguments: Any) -> Instance:
        """The request for a text, with the task's generation arguments."""
        asked = ctx, deepcopy(self.config.generation_kwargs), *self.room_to_think()
        return Instance(thinking.REQUEST_TYPE, doc, asked, number, **arguments)

    def room_to_think(self) -> tuple[int, ...]:
        """The last argument of a request: the tokens to think, none where there are none."""
        tokens = self.config.metadata.get(thinking.SETTING)
        return (tokens,) if tokens else ()

    def apply_filters(self) -> Any:
        """As lm_eval does, on what was said: of samples ``resps`` are what was written,
        ``filtered_resps`` what is read."""
        with thinking.hide_thoughts(self._instances):
            return super().apply_filters()

    def dump_config(self) -> dict[str, Any]:
        """The config for the results file, without keys and tokens that came with the model's
        arguments."""
        config: dict[str, Any] = super().dump_config()
        config["metadata"] = without_secrets(config.get("metadata") or {})
        config["metadata"].pop(YAML_FOLDER, None)
        return config


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings of the suite."""
    suite = logging.getLogger("lm_factuality")
    level = suite.level
    suite.setLevel(logging.ERROR)
    try:
        yield
    finally:
        suite.setLevel(level)


def check_built(
    task: type[ConfigurableTask], target: str, config: Mapping[str, Any], data_dir: str | None
) -> TaskReport:
    """Make a task and its requests, without the suite's warnings, and report on it.

    Problems are what the documents hold under the task's ``problem_key``, and missing rows of a
    published file.

    Args:
        task: The class, which may be lm_eval's.
        target: What the user calls the task.
        config: Its YAML.
        data_dir: A folder with the published files.

    Raises:
        ConfigError, DataError: It cannot be made.
    """
    with quietly():
        built: Any = task(data_dir=data_dir, config=config)
        built.build_all_requests(limit=None)
    documents = list(built.eval_docs)
    key = getattr(task, "problem_key", "")
    problems = [
        f"{doc.get('location', f'{target}: row {number}')}: {doc[key]}"
        for number, doc in enumerate(documents)
        if doc.get(key)
    ]
    data = (built.config.metadata or {}).get("data", {})
    num_rows = data.get("rows")
    num_published = data.get("upstream_rows", num_rows)
    if num_rows != num_published:
        problems.append(f"{target}: {num_rows} rows, the published file has {num_published}")
    if data.get("is_upstream") is False:
        logger.warning(
            "%s: the data is not the published file (git blob %s)", target, data["git_blob"]
        )
    requests = built.instances
    example = []
    for request in requests:
        if request.doc_id == requests[0].doc_id:
            arguments = (*request.args, "")
            continuation = arguments[1] if isinstance(arguments[1], str) else ""
            example.append((_end_of(str(arguments[0])), continuation))
    seam = getattr(built, "seam", "")
    return TaskReport(target, tuple(problems), len(documents), len(requests), tuple(example), seam)


def _end_of(text: str) -> str:
    """Return as much of a text as a report shows."""
    return text if len(text) <= _LONGEST_EXAMPLE else f"... {text[-_LONGEST_EXAMPLE:]}"


def without_chat(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments for ``Instance`` out of those that lm_eval gives to ``construct_requests``."""
    return {
        key: value
        for key, value in arguments.items()
        if key not in ("apply_chat_template", "chat_template")
    }
