"""The judge inside an lm_eval run: a Filter that sees all generations of a task at once.

The generations are on disk before the judge is asked. A judge that fails does not end the run:
every verdict is then unscored with the reason, and ``raise_failures``, called when lm_eval is done,
says which command judges what was kept."""

import abc
import dataclasses
import datetime
import hashlib
import json
import logging
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.filters.selection import TakeFirstFilter

from judges import LEXICAL
from judges.backends.server import require_key
from judges.budget import SpendingLimit
from judges.certificates import find_certificates
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge
from lm_factuality.ground.console import is_first_process
from lm_factuality.ground.errors import BackendDownError, ConfigError, FactualityError
from lm_factuality.ground.files import parse_json, write_lines
from lm_factuality.ground.published import cache_folder
from lm_factuality.harness.context import current_run
from lm_factuality.harness.generation import Verdict, refuse_unable, to_line
from lm_factuality.harness.suite_task import SuiteTask, TaskSettings

logger = logging.getLogger(__name__)

_FILTER = "judge"  # stands after the comma in the names of lm_eval's metrics


def raise_failures() -> None:
    """Raise what judges that failed in this run said.

    Raises:
        BackendDownError: There are failures.
    """
    failures = current_run().failures
    if failures:
        raise BackendDownError("\n".join(failures))


class SavedGenerations(NamedTuple):
    """What one process has kept for a judge that fails."""

    path: Path

    documents: str
    """A hash of the documents."""


@dataclass(frozen=True)
class Judging(Filter):  # type: ignore[misc]
    """A task's judge, checked, not yet open."""

    generation: Any
    """The `JudgedMethod`, which stands above this package."""
    config: JudgeConfig

    name: str
    """How the user names the judge."""

    store: Path | None
    """The file with the judge's answers; None for the one in the user's cache folder."""

    metadata: dict[str, Any]
    """The task's metadata, which get what the judge used."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of what the judge does that are not the default."""

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Turn the responses of all documents into a verdict record for each.

        The record is a JSON text: samples files hold it under ``filtered_resps``, where lm_eval
        writes anything but a text as Python would.
        """
        verdicts = self.judge(docs, [list(texts) for texts in resps])
        return [json.dumps(verdict, ensure_ascii=False) for verdict in verdicts]

    def judge(
        self, docs: Sequence[Mapping[str, Any]], responses: Sequence[Sequence[str]]
    ) -> list[Verdict]:
        """Return one record for each document, whatever happens to the judge."""
        saved = _save(self.generation.name, docs, responses)
        failure = None
        verdicts: list[Verdict]
        try:
            with Judge.open(self.config, self.store, _spending_limit(self.config)) as judge:
                verdicts = self.generation.judge(judge, docs, responses)
                usage = judge.usage
            self.metadata["judge_usage"] = dataclasses.asdict(usage)
            if usage.errors:
                lost = f"{usage.errors} requests got no answer"
                if all(verdict["unscored"] for verdict in verdicts):
                    failure = f"{lost}, and nothing has a verdict: {verdicts[0]['unscored']}"
                else:
                    logger.warning("%s", self._advice(lost, [saved]))
        except Exception as error:
            failure = str(error)
            if not isinstance(error, FactualityError):
                failure = f"{type(error).__name__}: {error}"
                logger.exception("%s: an error of ours", self.generation.name)
            reason = f"the judge failed: {failure.splitlines()[0]}"
            verdicts = [
                self.generation.unscored_record(doc, texts, reason)
                for doc, texts in zip(docs, responses, strict=True)
            ]
        except KeyboardInterrupt:
            logger.error("%s", self._advice("interrupted", [saved]))
            raise
        # The first of several processes tells of all of them, for its exit code ends the run.
        outcomes = from_all_processes((saved, failure))
        reasons = dict.fromkeys(reason for _, reason in outcomes if reason is not None)
        if reasons and is_first_process():
            advice = self._advice(" / ".join(reasons), [generations for generations, _ in outcomes])
            current_run().failures.append(advice)
            logger.error("%s", advice)
        return verdicts

    def _advice(self, failure: str, saved: Sequence[SavedGenerations]) -> str:
        """Say what happened, and what judges the generations without the model.

        Processes with the same documents count once, as no two files may have the same ones.
        """
        files: dict[str, str] = {}
        for generations in saved:
            files.setdefault(generations.documents, str(generations.path))
        samples = list(files.values())
        command = ["lm-factuality", "judge", self.generation.name, "--samples", *samples]
        command += ["--judge", self.name]
        if self.settings:
            command += ["--metadata", json.dumps(self.settings)]
        if self.store:
            command += ["--store", str(self.store)]
        command += ["--out", str(saved[0].path.with_suffix(""))]
        return (
            f"{self.generation.name}: the judge failed: {failure}\nNothing is lost: the generations"
            " are kept, and so is what was answered. When this is fixed, judge them without the"
            f" model:\n  {shlex.join(command)}"
        )


def _save(
    task: str, docs: Sequence[Mapping[str, Any]], responses: Sequence[Sequence[str]]
) -> SavedGenerations:
    """Write generations to a file."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%f")
    rank = f"_rank{os.environ.get('RANK', '0')}" if _world_size() > 1 else ""
    path = (current_run().folder or cache_folder()) / "generations" / f"{task}_{now}{rank}.jsonl"
    write_lines(path, (to_line(doc, texts) for doc, texts in zip(docs, responses, strict=True)))
    documents = "\n".join(to_line(doc, []) for doc in docs)
    return SavedGenerations(path, hashlib.sha256(documents.encode()).hexdigest())


class JudgedTask(SuiteTask):
    """A task whose generations are marked by the judge that ``metadata`` names.

    ``judge`` is a YAML or the name of one; there is no default. ``judge_store`` is the file with
    its answers. ``row_metrics`` is given its ``generation``'s record.

    Raises:
        ConfigError: There is no such judge, or its settings or prompts cannot be used.
        DataError: Its store cannot be used.
    """

    reads: ClassVar[tuple[str, ...]] = ("judge", "judge_store")

    def built(self) -> None:
        """Put the judge in the place of lm_eval's filters."""
        metadata = self.config.metadata
        metadata.pop("judge_store", None)  # a path of this machine is no part of the results
        judging = Judging(
            self._generation,
            self._judge_config,
            self._judge,
            self._store,
            metadata,
            self._given_settings,
        )
        self._filters = [FilterEnsemble(_FILTER, [lambda: judging])]

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Read the judge's record, which samples hold as JSON."""
        if self.only_predicts:
            return {}
        return self.row_metrics(doc, [parse_json(text) for text in results])

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        (verdict,) = results
        method: Any = self._generation  # a JudgedMethod, which stands above this package
        metrics: dict[str, Any] = method.row_metrics(doc, verdict)
        return metrics

    @abc.abstractmethod
    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[Any, TaskSettings]:
        """Return what the judge does, and the other settings; arguments as of ``settings``."""

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> TaskSettings:
        """Return the settings with what the results say of the judge."""
        self._judge = str(metadata.get("judge") or "")
        self._judge_config = named_judge(str(config.get("task")), self._judge)
        store = metadata.get("judge_store")
        self._store = Path(str(store)) if store else None
        self._generation, (config_of_task, about) = self.judged(config, metadata)
        self._given_settings = {
            name: metadata[name]
            for name in getattr(self._generation, "recorded_settings", ())
            if metadata.get(name) is not None
        }
        settings = {"output_type": "generate_until", **config_of_task}
        about_judge = check_judge(self._judge_config, self._generation, self._store)
        if not self._judge:
            return TaskSettings(settings, about)
        steps = self.declared.certification_statuses({**about, **about_judge})
        about = {
            **about,
            "judge": self._judge_config.name,
            **about_judge,
            "judge_steps": {step.step: step.text for step in steps},
        }
        caution_of_judge = self._judge_config.capabilities.caution
        cautions = [metadata.get("caution"), about.get("caution"), caution_of_judge]
        if any(cautions):
            about["caution"] = " ".join(str(caution) for caution in cautions if caution)
        return TaskSettings(settings, about)

    def override_metric(self, metric_name: str) -> None:
        """Ask no judge with ``--predict_only``; ``lm-factuality judge`` reads the samples."""
        super().override_metric(metric_name)
        if metric_name == "bypass":
            self._filters = [FilterEnsemble("none", [TakeFirstFilter])]


def named_judge(task: str, judge: str) -> JudgeConfig:
    """The judge that the metadata of ``task`` name. Raises ConfigError: no such judge, or none
    named where one is needed."""
    if not judge and not current_run().only_predicts:
        raise ConfigError(
            f"{task}: names no judge, and its figures depend on who judges. Add --metadata"
            " judge=CONFIG: the YAML of a judge (configs/judges has openai-server.yaml,"
            " local-hf.yaml and minicheck.yaml to start from), or lexical to try things out, which"
            " needs no model and goes by word overlap alone (docs/judges.md says how far that is"
            " off)"
        )
    return load_judge_config(judge or LEXICAL)


def check_judge(config: JudgeConfig, generation: Any, store: Path | None) -> dict[str, Any]:
    """What the results say of a judge: its config with prompt hashes, and its certificate if it has
    one. Raises ConfigError, DataError: it cannot be used. Whether its server is up shows only when
    it is asked."""
    about: dict[str, Any] = {"judge_config": config.describe(generation.prompt_names)}
    require_key(config)
    refuse_unable(config, generation)
    with Judge.open(config, store) as judge:
        if certificate := find_certificates(judge):
            about["judge_certificate"] = certificate
    return about


def _spending_limit(config: JudgeConfig) -> SpendingLimit:
    """What all judges of ``config`` may spend in this run: ``max_cost``, shared out to several
    processes."""
    for known, spending_limit in current_run().spending_limits:
        if known == config:
            return spending_limit
    spending_limit = SpendingLimit(
        None if config.max_cost is None else config.max_cost / _world_size()
    )
    current_run().spending_limits.append((config, spending_limit))
    return spending_limit


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def from_all_processes(value: Any) -> list[Any]:
    """``value`` of every process of the run, the first process's first."""
    if _world_size() == 1:
        return [value]
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, value)
    return found
