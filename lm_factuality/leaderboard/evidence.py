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
from lm_factuality.benchmarks.audit import ExpectedRun, RequestAudit
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.ground.errors import DataError, FactualityError, listed
from lm_factuality.ground.files import parse_json
from lm_factuality.harness.outputs import ResultsFile, TaskResult, sibling_of_results
from lm_factuality.harness.samples import read_every_sample
from lm_factuality.leaderboard.contents import check_files
from lm_factuality.leaderboard.documents import Digest, published_digest
from lm_factuality.leaderboard.rules import Rules, TaskRules
from lm_factuality.leaderboard.submission import Refusal, Submission, SubmissionRefusedError
from lm_factuality.people.correct import correct
from lm_factuality.people.labels import read_key
from lm_factuality.people.sheet import asked_units, draw, units_of_run
from lm_factuality.results.read import date_of, read_correction, read_results_file
from lm_factuality.results.recompute import UNREADABLE, differences, is_same_value, recompute

_LONGEST_NUMBER = 10**15


@dataclass
class SampleEvidence:
    """What the samples of a task hold. It grows while they are read."""

    audit: RequestAudit
    documents: Digest
    """The documents, without outputs of the evaluated model."""

    problem: str = ""
    """Why the samples cannot be read, or an empty text."""

    doc_ids: list[int] = field(default_factory=list)
    """The numbers of the documents, in the order of the file."""

    hash_problems: list[str] = field(default_factory=list)
    """The samples that are not what their own hashes say."""

    hashes: str = ""
    """The hashes of all samples, of which lm_eval writes a hash into the results too."""

    request_problem: str = ""
    """In what the model was asked something else than a document says, or an empty text."""

    score_problems: list[str] = field(default_factory=list)
    """What the results say otherwise than the samples."""

    answers: list[tuple[str, str]] = field(default_factory=list)
    """What the model answered to each document."""

    def read(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """Pass the samples of a file on, and keep what the checks need of each.

        Raises:
            DataError: There are rows of a second filter, which no score would be computed from.
        """
        filters = set()
        for sample in read_every_sample(path):
            filters.add(str(sample.get("filter"))[:40])
            if len(filters) > 1:
                found = f"rows of 2 filters, {listed(sorted(filters))}"
                raise DataError(f"{path}: {found}, expected those of one; pack the run again")
            self._keep(sample)
            yield sample

    def _keep(self, sample: Mapping[str, Any]) -> None:
        doc_id = sample["doc_id"]
        if not isinstance(doc_id, int) or isinstance(doc_id, bool):
            self.hash_problems.append(f"doc_id {str(doc_id)[:20]!r} is not a whole number")
            return
        self.doc_ids.append(doc_id)
        self.answers.append((str(doc_id), json.dumps(sample.get("resps"), sort_keys=True)))
        document = self.documents.add(doc_id, sample["doc"])
        # The texts of which lm_eval writes hashes, in its order.
        texts = {
            "doc": json.dumps(document, indent=2, ensure_ascii=False),
            "prompt": _prompt_of(sample),
            "target": str(sample.get("target")),
        }
        place = f"doc_id {format_doc_id(doc_id)}"
        for name, text in texts.items():
            written = str(sample.get(f"{name}_hash"))
            self.hashes += written
            if hash_text(text) != written:
                self.hash_problems.append(f"{place}: its {name}_hash is not that of its {name}")
        if not self.request_problem:
            problem = self.audit.request_problem(sample)
            self.request_problem = f"{place}: {problem}" if problem else ""


@dataclass(frozen=True)
class TaskEvidence:
    """A task of the leaderboard, with the results file that it is in."""

    file: ResultsFile
    task: TaskResult
    rules: TaskRules
    samples: SampleEvidence | None
    """None if there is no samples file."""

    published_digest: str = ""
    """A hash of the published documents."""

    data_problem: str = ""
    """Why that hash is not known, or an empty text."""

    correction_problem: str = ""
    """What of the scores corrected by labels does not follow from the labels."""


@dataclass(frozen=True)
class Evidence:
    """A submission, read once."""

    submission: Submission
    files: tuple[ResultsFile, ...]
    tasks: Mapping[str, TaskEvidence]
    """By name, the tasks of the leaderboard that are in the results."""

    file_refusals: tuple[Refusal, ...]
    """What is wrong with the files themselves, such as credentials in them."""

    certificate: Mapping[str, Any]
    """What was packed as the judge's certificate; empty if nothing was, or no JSON object."""


def read_evidence(folder: Path, submission: Submission, rules: Rules) -> Evidence:
    """Read a submission once.

    Raises:
        SubmissionRefusedError: The files are not those that were packed, or a results file is not
            as lm_eval writes it. Nothing outside the folder is opened.
    """
    file_refusals = tuple(check_files(folder, submission))
    files = _read_results(folder, submission)
    tasks: dict[str, TaskEvidence] = {}
    for file in files:
        for task in file.tasks:
            task_rules = rules.by_task.get(task.task)
            if task_rules is not None:
                tasks[task.task] = _read_task(folder, submission, file, task, task_rules)
    certificate: Any = None
    if submission.certificate is not None:
        try:
            text = (folder / submission.certificate).read_text(encoding="utf-8")
            certificate = parse_json(text)
        except (OSError, ValueError, RecursionError):
            pass  # A check says that it is no certificate.
    return Evidence(submission, files, tasks, file_refusals, as_mapping(certificate))


def _read_results(folder: Path, submission: Submission) -> tuple[ResultsFile, ...]:
    paths = [folder / packed.path for packed in submission.files]
    try:
        files = [read_results_file(path) for path in paths if path.name.startswith("results_")]
        for file in files:
            date_of(file)  # refuses a number that is no date
    except DataError as error:
        problem = message_without_folder(error, folder)
        raise SubmissionRefusedError(Refusal("RESULTS_INVALID", "results", problem)) from error
    if not files:
        problem = "no results_*.json; pack the results again"
        raise SubmissionRefusedError(Refusal("RESULTS_INVALID", "results", problem))
    return tuple(files)


def _read_task(
    folder: Path, submission: Submission, file: ResultsFile, task: TaskResult, rules: TaskRules
) -> TaskEvidence:
    digest = problem = ""
    try:
        digest = published_digest(rules)
    except DataError as error:
        problem = str(error)
    return TaskEvidence(
        file=file,
        task=task,
        rules=rules,
        samples=read_task_samples(folder, file, task, rules),
        published_digest=digest,
        data_problem=problem,
        correction_problem=_correction_problem(folder, submission, file, task),
    )


def read_task_samples(
    folder: Path, file: ResultsFile, task: TaskResult, rules: TaskRules
) -> SampleEvidence | None:
    """Read the samples of a task in one pass, in which its scores are computed again.

    Returns:
        What they hold, or None if the run kept none.
    """
    benchmark = find_benchmark(task.kind)
    if task.samples is None:
        return None
    if benchmark is None:
        problem = f"is of the benchmark {task.kind[:40]!r}, which is not installed here"
        raise SubmissionRefusedError(
            Refusal("SAMPLES_INVALID", task.task, f"{problem}; install its package")
        )
    expected = ExpectedRun(
        metadata=rules.metadata,
        generation_kwargs=rules.generation_kwargs,
        repeats=rules.repeats,
        has_template=has_template(file),
        thinking_tokens=thinking_tokens_of(task),
    )
    documents = Digest(benchmark.data.model_outputs)
    evidence = SampleEvidence(benchmark.checks.audit(expected), documents)
    try:
        evidence.score_problems += differences(task, recompute(task, evidence.read(task.samples)))
    except UNREADABLE as error:
        evidence.problem = message_without_folder(error, folder)
    return evidence


def _correction_problem(
    folder: Path, submission: Submission, file: ResultsFile, task: TaskResult
) -> str:
    """What of the corrected scores does not follow from the key, the labels and the sheet's seed.

    Whether people gave these labels, nobody can see from files.
    """
    path = sibling_of_results(file.path, f"corrected_{task.task}", ".json")
    if path is None:
        return ""
    if submission.key is None:
        return "its key and labels are not in the submission; pack again with --key and --labels"
    key_path = folder / submission.key
    try:
        problem = _draw_problem(key_path, task)
        labels = [folder / name for name in submission.labels]
        corrected = correct(task, key_path, labels)
        if not problem and not is_same_value(
            corrected.model_dump(), read_correction(path).model_dump()
        ):
            problem = "its labels give other corrected scores; pack again"
    except FactualityError as error:
        problem = f"cannot be recomputed: {message_without_folder(error, folder)}"
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


def _prompt_of(sample: Mapping[str, Any]) -> str:
    """The first prompt of a sample. That of a chat server is in a list of one."""
    first = as_mapping(next(iter(as_mapping(sample.get("arguments")).values()), None))
    prompt = first.get("arg_0", "")
    return str(prompt[0] if isinstance(prompt, list) and prompt else prompt)


def hash_text(text: str) -> str:
    """A hash of a text, as lm_eval makes it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def has_template(file: ResultsFile) -> bool:
    """Whether prompts were put into a chat template. A server's template is an empty text."""
    return file.content.get("chat_template") is not None


def thinking_tokens_of(task: TaskResult) -> int:
    """The number of tokens that a run gave the model to think, or -1 if it is no number."""
    tokens = task.metadata.get("thinking_tokens") or 0
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else -1


def count_scorable_items(task: TaskResult) -> int:
    """How many items may be unscored: documents, or samples of documents."""
    benchmark = find_benchmark(task.kind)
    repeats = task.config.get("repeats")
    if benchmark is None or benchmark.scoring.unscored_unit == "rows":
        return task.effective
    return task.effective * (repeats or 1) if isinstance(repeats, int) else task.effective


def format_doc_id(number: int) -> str:
    """A number as a refusal shows it. Writing a very long one out takes its time."""
    return str(number) if abs(number) < _LONGEST_NUMBER else "of more than 15 digits"


def message_without_folder(error: Exception, folder: Path) -> str:
    """The text of an error, with paths relative to the submission."""
    return str(error).replace(f"{folder}/", "")[:500]
