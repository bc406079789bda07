"""Everything that the checks need to know of a submission, read once.

`read_evidence` opens the files of a submission. The checks in `lm_factuality.leaderboard.check`
are functions of the `Evidence` that it returns, and open nothing.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.audit import Audit, Expected
from lm_factuality.benchmarks.certifiable import mapping
from lm_factuality.ground.errors import FactualityError
from lm_factuality.ground.files import parse_json
from lm_factuality.harness.outputs import TaskResult, beside
from lm_factuality.harness.samples import read_every_sample
from lm_factuality.leaderboard.contents import check_files
from lm_factuality.leaderboard.documents import Digest, published_digest
from lm_factuality.leaderboard.rules import Rules, TaskRules
from lm_factuality.leaderboard.runs import Run, read_runs, thinking_tokens_of, without_folder
from lm_factuality.leaderboard.submission import Refusal, Submission
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import asked_units, draw, units_of_run
from lm_factuality.results.read import read_correction
from lm_factuality.results.recompute import UNREADABLE, differences, recompute, same

_LONGEST_NUMBER = 10**15
_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class SampleEvidence:
    """What the samples of a task hold."""

    problem: str = ""
    """Why the samples cannot be read, or an empty text."""

    filters: tuple[str, ...] = ()
    """The filters of lm_eval that there are samples of. Only those of the first are read."""

    doc_ids: tuple[int, ...] = ()
    """The numbers of the documents, in the order of the file."""

    digest: str = ""
    """A hash of the documents, without outputs of the evaluated model."""

    hash_problems: tuple[str, ...] = ()
    """The first samples that are not what their own hashes say."""

    joined_hash: str = ""
    """A hash of the hashes of all samples, which lm_eval writes into the results too."""

    request_problem: str = ""
    """In what the model was asked something else than a document says, or an empty text."""

    score_problems: tuple[str, ...] = ()
    """What the results say otherwise than the samples."""

    answers: str = ""
    """A hash of what the model answered, by which the same answers are known elsewhere."""


@dataclass(frozen=True)
class TaskEvidence:
    """A task of the leaderboard, with the run that it is in."""

    run: Run
    task: TaskResult
    rules: TaskRules
    samples: SampleEvidence | None
    """None if there is no samples file."""

    published_digest: str | None
    """A hash of the published documents, or None if it is not known on this machine."""

    correction_problem: str = ""
    """What of the scores corrected by labels does not follow from the labels."""


@dataclass(frozen=True)
class Evidence:
    """A submission, read once."""

    submission: Submission
    runs: tuple[Run, ...]
    tasks: Mapping[str, TaskEvidence]
    """By name, the tasks of the leaderboard that are in the results."""

    file_refusals: tuple[Refusal, ...]
    """What is wrong with the files themselves, such as credentials in them."""

    certificate: Mapping[str, Any]
    """What was packed as the judge's certificate; empty if nothing was, or no JSON object."""


def read_evidence(folder: Path, submission: Submission, rules: Rules) -> Evidence:
    """Read a submission once.

    Raises:
        Refused: The files are not those that were packed, or a results file is not as lm_eval
            writes it. Nothing outside the folder is opened.
    """
    file_refusals = tuple(check_files(folder, submission))
    runs = read_runs(folder, submission)
    tasks: dict[str, TaskEvidence] = {}
    for run in runs:
        for task in run.file.tasks:
            task_rules = rules.by_task.get(task.task)
            if task_rules is not None:
                tasks[task.task] = _read_task(folder, submission, run, task, task_rules)
    certificate = _read_certificate(folder, submission)
    return Evidence(submission, runs, tasks, file_refusals, certificate)


def _read_task(
    folder: Path, submission: Submission, run: Run, task: TaskResult, rules: TaskRules
) -> TaskEvidence:
    return TaskEvidence(
        run=run,
        task=task,
        rules=rules,
        samples=_read_samples(folder, run, task, rules) if task.samples else None,
        published_digest=rules.digest or published_digest(rules),
        correction_problem=_correction_problem(folder, submission, run, task),
    )


def _read_samples(folder: Path, run: Run, task: TaskResult, rules: TaskRules) -> SampleEvidence:
    """Read the samples of a task in one pass, in which its scores are computed again."""
    benchmark = find_benchmark(task.kind)
    assert task.samples is not None
    if benchmark is None:
        problem = f"is of the benchmark {task.kind[:40]!r}, which is not installed here"
        return SampleEvidence(f"{problem}; install its package")
    expected = Expected(
        metadata=rules.metadata,
        generation_kwargs=rules.generation_kwargs,
        repeats=rules.repeats,
        has_template=run.has_template,
        thinking_tokens=thinking_tokens_of(task),
    )
    reader = _SampleReader(
        task.samples, benchmark.checks.audit(expected), benchmark.data.model_outputs
    )
    try:
        score_problems = differences(task, recompute(task, reader.read()))
    except UNREADABLE as error:
        return SampleEvidence(without_folder(error, folder))
    return reader.evidence(tuple(score_problems))


@dataclass
class _SampleReader:
    """Passes samples on, and keeps what the checks need of each."""

    path: Path
    audit: Audit
    model_outputs: tuple[str, ...]
    filters: dict[str, None] = field(default_factory=dict)
    doc_ids: list[int] = field(default_factory=list)
    hash_problems: list[str] = field(default_factory=list)
    request_problem: str = ""
    answers: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.digest = Digest(self.model_outputs)
        self.joined_hashes = hashlib.sha256()

    def read(self) -> Iterator[Mapping[str, Any]]:
        for sample in read_every_sample(self.path):
            self.filters.setdefault(str(sample.get("filter")))
            # Samples of a second filter are refused, whatever they hold.
            if len(self.filters) == 1:
                self._keep(sample)
                yield sample

    def evidence(self, score_problems: tuple[str, ...]) -> SampleEvidence:
        return SampleEvidence(
            filters=tuple(self.filters),
            doc_ids=tuple(self.doc_ids),
            digest=self.digest.hexdigest(),
            hash_problems=tuple(self.hash_problems[:_MOST_PROBLEMS]),
            joined_hash=self.joined_hashes.hexdigest(),
            request_problem=self.request_problem,
            score_problems=score_problems,
            answers=hashlib.sha256(json.dumps(sorted(self.answers)).encode()).hexdigest(),
        )

    def _keep(self, sample: Mapping[str, Any]) -> None:
        doc_id = sample["doc_id"]
        if not isinstance(doc_id, int) or isinstance(doc_id, bool):
            self.hash_problems.append(f"doc_id {str(doc_id)[:20]!r} is not a whole number")
            return
        self.doc_ids.append(doc_id)
        self.answers.append((str(doc_id), json.dumps(sample.get("resps"), sort_keys=True)))
        self.digest.add(doc_id, sample["doc"])
        place = f"doc_id {shown_number(doc_id)}"
        for name, text in self._hashed_texts(sample).items():
            written = str(sample.get(f"{name}_hash"))
            self.joined_hashes.update(written.encode("utf-8", "surrogatepass"))
            if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != written:
                self.hash_problems.append(f"{place}: its {name}_hash is not that of its {name}")
        if not self.request_problem:
            problem = self.audit.wrong_request(sample)
            self.request_problem = f"{place}: {problem}" if problem else ""

    def _hashed_texts(self, sample: Mapping[str, Any]) -> dict[str, str]:
        """The texts of which lm_eval writes hashes, in its order."""
        document = {
            key: value for key, value in sample["doc"].items() if key not in self.model_outputs
        }
        return {
            "doc": json.dumps(document, indent=2, ensure_ascii=False),
            "prompt": _prompt_of(sample),
            "target": str(sample.get("target")),
        }


def _prompt_of(sample: Mapping[str, Any]) -> str:
    """The first prompt of a sample. That of a chat server is in a list of one."""
    arguments = sample.get("arguments")
    first: Any = next(iter(arguments.values()), {}) if isinstance(arguments, dict) else {}
    prompt = first.get("arg_0") if isinstance(first, dict) else ""
    return str(prompt[0] if isinstance(prompt, list) and prompt else prompt)


def _correction_problem(folder: Path, submission: Submission, run: Run, task: TaskResult) -> str:
    """What of the corrected scores does not follow from the key, the labels and the sheet's seed.

    Whether people gave these labels, nobody can see from files.
    """
    path = beside(run.file.path, f"corrected_{task.task}", ".json")
    if path is None:
        return ""
    if submission.key is None:
        return "its key and labels are not in the submission; pack again with --key and --labels"
    key_path = folder / submission.key
    try:
        problem = _draw_problem(key_path, task)
        labels = [folder / name for name in submission.labels]
        corrected = correct(task, key_path, labels)
        if not problem and not same(corrected.model_dump(), read_correction(path).model_dump()):
            problem = "its labels give other corrected scores; pack again"
    except FactualityError as error:
        problem = f"cannot be recomputed: {without_folder(error, folder)}"
    return problem


def _draw_problem(key_path: Path, task: TaskResult) -> str:
    """Why the samples on a sheet are not those that its seed draws from the run."""
    key = read_key(key_path)
    if len(key.sources) != 1 or task.samples is None:
        return (
            "its sheet is of several runs, so that its draw cannot be repeated; make one of this"
            " run alone"
        )
    on_sheet = {item.unit for item in key.items}
    units = asked_units(units_of_run(task, key.sources[0].model), key.questions)
    drawn, strata = draw(units, len(on_sheet), key.stratify, random.Random(key.seed))
    if on_sheet == {unit.key for unit in drawn} and list(strata) == list(key.strata):
        return ""
    return (
        "the samples on its sheet are not those that its seed draws; correct by a sheet as it was"
        " drawn"
    )


def shown_number(number: int) -> str:
    """A number as a refusal shows it. Writing a very long one out takes its time."""
    return str(number) if abs(number) < _LONGEST_NUMBER else "of more than 15 digits"


def _read_certificate(folder: Path, submission: Submission) -> Mapping[str, Any]:
    if submission.certificate is None:
        return {}
    try:
        return mapping(parse_json((folder / submission.certificate).read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}
