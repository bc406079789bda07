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
from typing import Any, ClassVar

from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.filters.selection import TakeFirstFilter

from judges import LEXICAL
from judges.backends.server import require_key
from judges.budget import Purse
from judges.certificates import find_certificate
from judges.config import JudgeConfig, load_judge_config
from judges.judge import Judge
from lm_factuality.ground.console import is_first_process
from lm_factuality.ground.errors import BackendDown, ConfigError, FactualityError
from lm_factuality.ground.files import parse_json, write_lines
from lm_factuality.ground.published import cache_folder
from lm_factuality.harness.context import current_run
from lm_factuality.harness.generation import Generation, Verdict, refuse_unable, to_line
from lm_factuality.harness.suite_task import Report, Settings, SuiteTask

logger = logging.getLogger(__name__)

_FILTER = "judge"  # stands after the comma in the names of lm_eval's metrics


_Saved = tuple[Path, str]  # where the generations of one process are, and a hash of their documents


def raise_failures() -> None:
    """Raises BackendDown: there are failures."""
    failures = current_run().failures
    if failures:
        raise BackendDown("\n".join(failures))


@dataclass(frozen=True)
class Judging(Filter):  # type: ignore[misc]
    """A task's judge, checked, not yet open. ``metadata`` is the task's, ``settings`` are those
    given of what the judge does."""

    generation: Generation
    config: JudgeConfig
    given: str
    store: Path | None
    metadata: dict[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, resps: Iterable[Sequence[str]], docs: Sequence[Mapping[str, Any]]) -> list[str]:
        """The responses of all documents in, a verdict record for each out, as a JSON text: samples
        files hold it under ``filtered_resps``, where lm_eval writes anything but a text as Python
        would."""
        return [
            json.dumps(each, ensure_ascii=False)
            for each in self.judge(docs, [list(each) for each in resps])
        ]

    def judge(
        self, docs: Sequence[Mapping[str, Any]], responses: Sequence[Sequence[str]]
    ) -> list[Verdict]:
        """One record a document, whatever happens to the judge."""
        saved = _save(self.generation.name, docs, responses)
        failure = None
        try:
            with Judge.open(self.config, self.store, _purse(self.config)) as judge:
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
            failure = (
                str(error)
                if isinstance(error, FactualityError)
                else f"{type(error).__name__}: {error}"
            )
            if not isinstance(error, FactualityError):
                logger.exception("%s: an error of ours", self.generation.name)
            reason = f"the judge failed: {failure.splitlines()[0]}"
            verdicts = [
                self.generation.unscored(doc, texts, reason)
                for doc, texts in zip(docs, responses, strict=True)
            ]
        except KeyboardInterrupt:
            logger.error("%s", self._advice("interrupted", [saved]))
            raise
        self._report(saved, failure)
        return verdicts

    def _report(self, saved: _Saved, failure: str | None) -> None:
        """Tells of a failure in any process; with several, the first tells of all of them, for its
        exit code ends the run."""
        outcomes = from_all_processes((saved, failure))
        reasons = list(dict.fromkeys(reason for _, reason in outcomes if reason is not None))
        if reasons and is_first_process():
            advice = self._advice(" / ".join(reasons), [saved for saved, _ in outcomes])
            current_run().failures.append(advice)
            logger.error("%s", advice)

    def _advice(self, failure: str, saved: Sequence[_Saved]) -> str:
        """What happened, and what judges the generations without the model. Processes with the same
        documents count once."""
        files = list({digest: str(path) for path, digest in reversed(saved)}.values())[::-1]
        store = ["--store", str(self.store)] if self.store else []
        out = str(Path(files[0]).with_suffix(""))
        settings = ["--metadata", json.dumps(self.settings)] if self.settings else []
        command = [
            "judge",
            self.generation.name,
            "--samples",
            *files,
            "--judge",
            self.given,
            *settings,
            *store,
            "--out",
            out,
        ]
        return (
            f"{self.generation.name}: the judge failed: {failure}\nNothing is lost: the generations"
            " are kept, and so is what was answered. When this is fixed, judge them without the"
            f" model:\n  {shlex.join(['lm-factuality', *command])}"
        )


def _save(
    task: str, docs: Sequence[Mapping[str, Any]], responses: Sequence[Sequence[str]]
) -> _Saved:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%f")
    rank = f"_rank{os.environ.get('RANK', '0')}" if _world_size() > 1 else ""
    path = (current_run().folder or cache_folder()) / "generations" / f"{task}_{now}{rank}.jsonl"
    write_lines(path, (to_line(doc, texts) for doc, texts in zip(docs, responses, strict=True)))
    return path, hashlib.sha256("\n".join(to_line(doc, []) for doc in docs).encode()).hexdigest()


class JudgedTask(SuiteTask):
    """A task whose generations are marked by the judge that ``metadata`` names: ``judge`` (a YAML
    or the name of one; there is no default) and ``judge_store`` (the file with its answers).
    ``row_metrics`` is given its ``generation``'s record. Raises ConfigError, DataError: when it is
    made, if there is no such judge, or its settings, prompts or store cannot be used."""

    reads: ClassVar[tuple[str, ...]] = ("judge", "judge_store")

    def built(self) -> None:
        self.config.metadata.pop(
            "judge_store", None
        )  # a path of this machine, which is no part of the results
        judging = Judging(
            self._generation,
            self._judge_config,
            self._judge,
            self._store,
            self.config.metadata,
            self._given,
        )
        self._filters = [FilterEnsemble(_FILTER, [lambda: judging])]

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        return (
            {}
            if self.only_predicts
            else self.row_metrics(doc, [parse_json(each) for each in results])
        )

    def row_metrics(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        (verdict,) = results
        method: Any = self._generation  # a JudgedMethod, which stands above this package
        metrics: dict[str, Any] = method.row_metrics(doc, verdict)
        return metrics

    @abc.abstractmethod
    def judged(
        self, config: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> tuple[Generation, Settings]:
        """What the judge does, and the other settings; arguments as of ``settings``."""

    def settings(self, config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Settings:
        self._judge, store = str(metadata.get("judge") or ""), metadata.get("judge_store")
        self._judge_config = named_judge(str(config.get("task")), self._judge)
        self._store = Path(str(store)) if store else None
        self._generation, (own, about) = self.judged(config, metadata)
        self._given = {
            name: metadata[name]
            for name in getattr(self._generation, "about", ())
            if metadata.get(name) is not None
        }
        judge = check_judge(self._judge_config, self._generation, self._store)
        if not self._judge:
            return Settings({"output_type": "generate_until", **own}, about)
        cautions = [
            metadata.get("caution"),
            about.get("caution"),
            self._judge_config.capabilities.caution,
        ]
        said = {"caution": " ".join(map(str, filter(None, cautions)))} if any(cautions) else {}
        stated = {each.step: each.text for each in self.declared.certified({**about, **judge})}
        about = {**about, "judge": self._judge_config.name, **judge, "judge_steps": stated, **said}
        return Settings({"output_type": "generate_until", **own}, about)

    @classmethod
    def check(cls, target: str, config: Mapping[str, Any], data_dir: str | None) -> Report:
        """As of any task; who judges is said when it is run."""
        metadata = {"judge": LEXICAL, **(config.get("metadata") or {})}
        return super().check(target, {**config, "metadata": metadata}, data_dir)

    def override_metric(self, metric_name: str) -> None:
        """For ``--predict_only``, which asks for generations and no more: no judge; ``lm-factuality
        judge`` reads the samples."""
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


def check_judge(config: JudgeConfig, generation: Generation, store: Path | None) -> dict[str, Any]:
    """What the results say of a judge: its config with prompt hashes, and its certificate if it has
    one. Raises ConfigError, DataError: it cannot be used. Whether its server is up shows only when
    it is asked."""
    about: dict[str, Any] = {"judge_config": config.describe(generation.prompt_names)}
    require_key(config)
    refuse_unable(config, generation)
    with Judge.open(config, store) as judge:
        if certificate := find_certificate(judge):
            about["judge_certificate"] = certificate
    return about


def _purse(config: JudgeConfig) -> Purse:
    """What all judges of ``config`` may spend in this run: ``max_cost``, shared out to several
    processes."""
    for known, purse in current_run().purses:
        if known == config:
            return purse
    purse = Purse(None if config.max_cost is None else config.max_cost / _world_size())
    current_run().purses.append((config, purse))
    return purse


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
