"""The judge inside an lm_eval run, as a filter of lm_eval that sees all generations of a task.

`JudgedTask`, the base class of all tasks with a judge, installs it, and `run` reports its failures.
The generations are written to disk before the judge is asked, so a judge that fails loses nothing.
"""

import abc
import dataclasses
import datetime
import hashlib
import json
import logging
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from lm_eval.api.filter import Filter, FilterEnsemble

from judges import LEXICAL
from judges.backends.server import require_key
from judges.budget import shared_spending_limit
from judges.certificates import find_certificates
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge
from lm_factuality.ground.console import is_first_process
from lm_factuality.ground.errors import BackendDownError, ConfigError, FactualityError
from lm_factuality.ground.files import parse_json, write_lines
from lm_factuality.ground.published import cache_folder
from lm_factuality.harness.context import current_run
from lm_factuality.harness.generation import (
    Doc,
    Docs,
    JudgedMethod,
    Responses,
    Verdict,
    require_capabilities,
    to_line,
)
from lm_factuality.harness.internals import first_response, set_filters
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings

logger = logging.getLogger(__name__)

_FILTER = "judge"

Gathered = TypeVar("Gathered")


def raise_failures() -> None:
    """Report the judges that failed during this run, after lm_eval has written its results.

    Raises:
        BackendDownError: At least one judge failed. The message says for each which command judges
            the saved generations.
    """
    failures = current_run().failures
    if failures:
        raise BackendDownError("\n".join(failures))


class _JudgedResponses(NamedTuple):
    """What a judge has found out about the responses of a task."""

    verdicts: list[Verdict]
    """One verdict record per document."""

    failure: str | None
    """Why the judge failed, None if it did not."""


class SavedGenerations(NamedTuple):
    """The file in which one process keeps its generations in case the judge fails."""

    path: Path
    """The JSONL file."""

    documents_hash: str
    """The SHA-256 of the documents. Two processes with the same documents have the same hash."""


@dataclass(frozen=True)
class Judging(Filter):  # type: ignore[misc]
    """The filter of lm_eval that replaces a task's responses by the verdicts of its judge.

    The judge is checked when the task is made, and opened when lm_eval applies its filters.
    """

    method: JudgedMethod
    """The benchmark's method: it writes the judge's prompts and turns replies into verdicts."""

    config: JudgeConfig
    """The judge's configuration."""

    name: str
    """The judge as the user named it: a YAML or the name of one."""

    store: Path | None
    """The file with the judge's answers; None for the one in the user's cache folder."""

    metadata: dict[str, Any]
    """The task's metadata, to which ``judge_usage`` is added once the judge has answered."""

    settings: Mapping[str, Any]
    """The settings of the method that the user changed.

    A command that judges the generations later needs them.
    """

    def describe_judge(self) -> dict[str, Any]:
        """Check that the judge can be used, and describe it for the results file.

        The judge's server is not contacted, so a server that is down is noticed only later.

        Returns:
            ``judge_config``, the configuration with the hashes of the prompts, and, if people have
            certified this judge, ``judge_certificate``.

        Raises:
            ConfigError: The key of its server is not set, or it cannot answer what the method asks.
            DataError: The store cannot be used.
        """
        description: dict[str, Any] = {
            "judge_config": self.config.describe(self.method.prompt_names)
        }
        require_key(self.config)
        require_capabilities(self.config, self.method)
        with Judge.open(self.config, self.store) as judge:
            certificate = find_certificates(judge)
        if certificate:
            description["judge_certificate"] = certificate
        return description

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[Doc]) -> list[str]:
        """Judge the responses to all documents, as lm_eval asks a filter to.

        Args:
            resps: The responses to each document, in the order of ``docs``.
            docs: The documents of the task.

        Returns:
            One verdict record per document, as JSON text: samples files hold it under
            ``filtered_resps``, where lm_eval writes anything but a text in Python's notation.
        """
        verdicts = self.judge(docs, [list(texts) for texts in resps])
        return [json.dumps(verdict, ensure_ascii=False) for verdict in verdicts]

    def judge(self, docs: Docs, responses: Responses) -> list[Verdict]:
        """Judge all responses. If the judge fails, the run goes on and reports it at its end.

        Args:
            docs: The documents of the task.
            responses: The texts that the model generated for each document.

        Returns:
            One verdict record per document. If the judge fails, each is unscored with the reason.
        """
        generations = _save_generations(self.method.name, docs, responses)
        try:
            verdicts, failure = self._ask_judge(docs, responses, generations)
        except KeyboardInterrupt:
            # The user reads how to continue before lm_eval ends with a traceback.
            logger.error("%s", self._failure_message("interrupted", [generations]))
            raise
        except Exception as error:
            failure = str(error)
            # An error that is not the suite's is a defect, so its traceback is logged.
            if not isinstance(error, FactualityError):
                logger.exception("%s: unexpected error", self.method.name)
                failure = f"{type(error).__name__}: {error}"
            reason = f"the judge failed: {failure.splitlines()[0]}"
            verdicts = [
                self.method.unscored_record(doc, texts, reason)
                for doc, texts in zip(docs, responses, strict=True)
            ]

        self._report_failures(generations, failure)
        return verdicts

    def _ask_judge(
        self, docs: Docs, responses: Responses, generations: SavedGenerations
    ) -> _JudgedResponses:
        """Have the judge mark all responses, and add what it used to the task's metadata.

        Args:
            docs: The documents of the task.
            responses: The texts that the model generated for each document.
            generations: The file of the responses, for the warning about unanswered requests.

        Returns:
            The verdicts, and a failure if requests got no answer and no document has a verdict. If
            some documents have a verdict, a warning is logged instead.
        """
        # All tasks of this run with the same judge share its limit.
        spending_limit = shared_spending_limit(
            current_run().spending_limits, self.config, _world_size()
        )
        with Judge.open(self.config, self.store, spending_limit) as judge:
            verdicts: list[Verdict] = self.method.judge(judge, docs, responses)
            usage = judge.usage
        self.metadata["judge_usage"] = dataclasses.asdict(usage)
        failure = None
        if usage.errors:
            problem = f"{usage.errors} requests got no answer"
            if all(verdict["unscored"] for verdict in verdicts):
                failure = f"{problem}, and nothing has a verdict: {verdicts[0]['unscored']}"
            else:
                logger.warning("%s", self._failure_message(problem, [generations]))
        return _JudgedResponses(verdicts, failure)

    def _report_failures(self, generations: SavedGenerations, failure: str | None) -> None:
        """Log why the judge failed in any process, and add that to the failures of the run.

        All processes of the run must call this, because each waits for the others.

        Args:
            generations: The generations that this process saved.
            failure: Why the judge failed in this process, or None.
        """
        failures = [reason for reason in gather_from_all_processes(failure) if reason is not None]
        all_generations = gather_from_all_processes(generations)
        # Only the first process reports, because its exit code is the exit code of the run.
        if not failures or not is_first_process():
            return

        # Processes often fail for the same reason.
        distinct_failures = dict.fromkeys(failures)
        message = self._failure_message(" / ".join(distinct_failures), all_generations)
        current_run().failures.append(message)
        logger.error("%s", message)

    def _failure_message(self, failure: str, generations: Sequence[SavedGenerations]) -> str:
        """Say that the judge failed, and which command judges the saved generations.

        Args:
            failure: Why the judge failed.
            generations: The files of all processes.

        Returns:
            The message, with a command such as ``lm-factuality judge felm_gen --samples FILE``.
        """
        command = shlex.join(self._command_to_judge(generations))
        return (
            f"{self.method.name}: the judge failed: {failure}\nThe generations and the judge's"
            " answers are saved. When this is fixed, judge the generations without the model:\n"
            f"  {command}"
        )

    def _command_to_judge(self, generations: Sequence[SavedGenerations]) -> list[str]:
        """Return the words of the command that judges saved generations.

        Args:
            generations: The files of all processes.
        """
        # Several processes may have saved the same documents, and the command refuses to read a
        # document twice. So it gets the first file of each set of documents.
        path_by_hash: dict[str, str] = {}
        for saved in generations:
            if saved.documents_hash not in path_by_hash:
                path_by_hash[saved.documents_hash] = str(saved.path)

        command = ["lm-factuality", "judge", self.method.name]
        command += ["--samples", *path_by_hash.values(), "--judge", self.name]
        if self.settings:
            command += ["--metadata", json.dumps(self.settings)]
        if self.store:
            command += ["--store", str(self.store)]
        # The verdicts go to a folder with the name of the first file.
        command += ["--out", str(generations[0].path.with_suffix(""))]
        return command


def _save_generations(method_name: str, docs: Docs, responses: Responses) -> SavedGenerations:
    """Write the generations of a task to a new JSONL file, named after the method and the time.

    Args:
        method_name: The name of the task's method, such as ``felm_gen``.
        docs: The documents of the task.
        responses: The texts that the model generated for each document.

    Returns:
        The file, and the hash of the documents.
    """
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%f")
    # Several processes may write at the same time, each its own file.
    rank = f"_rank{os.environ.get('RANK', '0')}" if _world_size() > 1 else ""
    folder = current_run().folder or cache_folder()
    path = folder / "generations" / f"{method_name}_{now}{rank}.jsonl"

    write_lines(path, (to_line(doc, texts) for doc, texts in zip(docs, responses, strict=True)))
    # The hash leaves the responses out, so that it is the same whatever the model answered.
    documents = "\n".join(to_line(doc, []) for doc in docs)
    return SavedGenerations(path, hashlib.sha256(documents.encode()).hexdigest())


class JudgedTask(SuiteTask):
    """A task whose generations are marked by the judge that ``metadata`` names.

    ``judge`` is the YAML of a judge or the name of one; there is no default. ``judge_store`` is the
    file with the judge's answers.

    Raises:
        ConfigError: There is no such judge, or its settings or prompts cannot be used.
        DataError: Its store cannot be used.
    """

    metadata_keys: ClassVar[tuple[str, ...]] = ("judge", "judge_store")

    def finish_construction(self) -> None:
        """Replace lm_eval's filters by the judge, once lm_eval's constructor has set them."""
        metadata = self.config.metadata
        # Results hold no paths of this machine.
        metadata.pop("judge_store", None)
        judging = dataclasses.replace(self._judging, metadata=metadata)
        # The name of the filter stands after the comma in the names of lm_eval's metrics.
        set_filters(self, [FilterEnsemble(_FILTER, [lambda: judging])])

    def process_results(self, doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
        """Return the metrics of a document, from the judge's verdict record.

        Args:
            doc: The document.
            results: The verdict record as JSON text, in a list of one.

        Returns:
            The metrics by name; none with ``--predict_only``, where no judge was asked.
        """
        if self.only_predicts:
            return {}
        return super().process_results(doc, [parse_json(text) for text in results])

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Verdict]) -> dict[str, Any]:
        """Return the metrics of a document, from its verdict record in a list of one."""
        # The judge has replaced all responses to a document by one verdict.
        (verdict,) = results
        return dict(self._judging.method.row_metrics(doc, verdict))

    @abc.abstractmethod
    def configure_judging(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[JudgedMethod, TaskSettings]:
        """Return the method by which the judge marks responses, and the task's other settings.

        Args:
            config: The task's YAML.
            metadata: Its metadata together with those of the command line.
        """

    def configure(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Check the task's settings and its judge, and keep the judge on the task.

        Args:
            config: The task's YAML.
            metadata: Its metadata together with those of the command line.

        Returns:
            The settings for lm_eval. If a judge is named, their metadata describe it.

        Raises:
            ConfigError: The judge or a setting cannot be used.
            DataError: The judge's store cannot be used.
        """
        # `configure_judging` may ask for the judge's name and configuration.
        self._judge_name = str(metadata.get("judge") or "")
        self._judge_config = load_named_judge(str(config.get("task")), self._judge_name)
        method, task_settings = self.configure_judging(config, metadata)
        # `finish_construction` installs it as a filter, once lm_eval's constructor has run.
        self._judging = self._make_judging(method, metadata)
        # This also checks that the judge can be used, before the model generates anything.
        judge_metadata = self._judging.describe_judge()

        recorded_metadata = task_settings.metadata
        # Only a run with --predict_only needs no judge, and its results describe none.
        if self._judge_name:
            recorded_metadata = self._with_judge(
                recorded_metadata, judge_metadata, metadata.get("caution")
            )
        lm_eval_config = {"output_type": "generate_until", **task_settings.config}
        return TaskSettings(lm_eval_config, recorded_metadata)

    def _make_judging(self, method: JudgedMethod, metadata: Mapping[str, Any]) -> Judging:
        """Make the filter by which the task's judge marks responses.

        Args:
            method: The method by which the judge marks them.
            metadata: The task's metadata together with those of the command line.
        """
        setting_names = getattr(method, "recorded_settings", ())
        store = metadata.get("judge_store")
        return Judging(
            method=method,
            config=self._judge_config,
            name=self._judge_name,
            store=Path(str(store)) if store else None,
            metadata={},
            settings={
                name: metadata[name] for name in setting_names if metadata.get(name) is not None
            },
        )

    def _with_judge(
        self, metadata: Mapping[str, Any], judge_metadata: Mapping[str, Any], caution: object
    ) -> dict[str, Any]:
        """Add the judge, its certification and all cautions to the metadata of a task's results.

        A caution is a text that warns readers of the results, such as ``too few rows to compare``.

        Args:
            metadata: The metadata that the task records, perhaps with a ``caution``.
            judge_metadata: The description of the judge, from `describe_judge`.
            caution: The caution of the task's YAML, or None.

        Returns:
            The metadata with ``judge``, ``judge_config``, ``judge_steps`` and, for a judge with a
            certificate, ``judge_certificate``. ``caution`` joins the cautions of the YAML, the task
            and the judge.
        """
        steps = self.declared.certification_statuses({**metadata, **judge_metadata})
        recorded_metadata = {
            **metadata,
            "judge": self._judge_config.name,
            **judge_metadata,
            # For each kind of question that the task asks, how well people certified the judge.
            "judge_steps": {step.step: step.text for step in steps},
        }
        cautions = (caution, metadata.get("caution"), self._judge_config.capabilities.caution)
        if any(cautions):
            recorded_metadata["caution"] = " ".join(str(text) for text in cautions if text)
        return recorded_metadata

    def override_metric(self, metric_name: str) -> None:
        """Set the only metric of the task, and remove the judge if that is ``bypass``.

        lm_eval asks for ``bypass`` with ``--predict_only``. ``lm-factuality judge`` can judge the
        samples of such a run later.
        """
        super().override_metric(metric_name)
        if metric_name == "bypass":
            set_filters(self, first_response())


def load_named_judge(task: str, judge: str) -> JudgeConfig:
    """Load the configuration of the judge that a task's metadata name.

    Args:
        task: The name of the task, for the error.
        judge: The YAML of a judge or the name of one, or empty. With ``--predict_only`` it may be
            empty, which stands for the lexical judge, since no judge is asked.

    Raises:
        ConfigError: There is no such judge, or none is named where one is needed.
    """
    if not judge and not current_run().only_predicts:
        raise ConfigError(
            f"{task}: names no judge, and its figures depend on who judges. Add --metadata"
            " judge=CONFIG: the YAML of a judge (configs/judges has openai-server.yaml,"
            " local-hf.yaml and minicheck.yaml to start from), or lexical to try things out, which"
            " needs no model and goes by word overlap alone (docs/judges.md says how far that is"
            " off)"
        )
    return load_judge_config(judge or LEXICAL)


def _world_size() -> int:
    """Return the number of processes of the run, which torch's launchers set."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def gather_from_all_processes(value: Gathered) -> list[Gathered]:
    """Gather a value from every process of the run.

    Args:
        value: The value of this process; it must be picklable.

    Returns:
        The values in the order of the processes' ranks; in a run with one process, only ``value``.
    """
    if _world_size() == 1:
        return [value]

    from torch import distributed

    # lm_eval sets up no process group for some models, whose processes then run independently.
    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values
