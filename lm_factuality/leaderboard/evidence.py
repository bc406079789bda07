"""Read all files of a submission once, and keep what the checks need to know.

The checks in `lm_factuality.leaderboard.check` are functions of the `Evidence` that
`read_evidence` returns, and open no files themselves.
"""

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
from lm_factuality.leaderboard.certificate import Recomputation, recompute_certificate
from lm_factuality.leaderboard.documents import DocumentDigest, hash_text, published_digest
from lm_factuality.leaderboard.rules import Rules, TaskRules
from lm_factuality.leaderboard.submission import (
    Refusal,
    Submission,
    SubmissionRefusedError,
    message_without_folder,
)
from lm_factuality.people.correct import correct_scores
from lm_factuality.people.labels import Key, read_key
from lm_factuality.people.sheet import draw_units, keep_asked_units, units_of_run
from lm_factuality.results.read import date_of, read_correction, read_results_file
from lm_factuality.results.recompute import UNREADABLE, differences, is_same_value, recompute

_MAX_WRITTEN_DOC_ID = 10**15
"""The number from which on a refusal does not write out the number of a document."""


@dataclass
class SampleEvidence:
    """The facts about a task's samples that the checks need. They grow as samples are read."""

    audit: RequestAudit
    """The benchmark's check that the model was asked what the documents say."""

    documents: DocumentDigest
    """The hash of the documents, without outputs of the evaluated model."""

    problem: str = ""
    """Why the samples cannot be read; empty if they can."""

    doc_ids: list[int] = field(default_factory=list)
    """The numbers of the documents, in the order of the file."""

    hash_problems: list[str] = field(default_factory=list)
    """A sentence for each sample that differs from a hash in the sample itself."""

    joined_hashes: str = ""
    """The hashes in all samples, as one text. The results contain a hash of this text."""

    request_problem: str = ""
    """The first request that differs from its document; empty if there is none."""

    score_problems: list[str] = field(default_factory=list)
    """A sentence for each score in the results that the samples do not give."""

    answers: dict[str, str] = field(default_factory=dict)
    """The model's answers to each document as JSON, by the number of the document."""

    def record_samples(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """Yield the samples of a file, and record what the checks need to know of each.

        Args:
            path: The samples file of the task.

        Yields:
            The samples, in the order of the file.

        Raises:
            DataError: There are samples of several filters, which change responses before they
                are scored. The scores of only one filter could be checked.
        """
        filters = set()
        for sample in read_every_sample(path):
            # The name comes from a stranger's file and can have any length.
            filters.add(str(sample.get("filter"))[:40])
            if len(filters) > 1:
                names = listed(sorted(filters))
                raise DataError(
                    f"{path}: rows of 2 filters, {names}, expected those of one; pack the run again"
                )
            self._record_sample(sample)
            yield sample

    def _record_sample(self, sample: Mapping[str, Any]) -> None:
        """Record the document, the answers, the hashes and the requests of one sample.

        Args:
            sample: A line of the samples file, which a stranger may have changed.
        """
        doc_id = sample["doc_id"]
        # In Python, True and False are integers.
        if not isinstance(doc_id, int) or isinstance(doc_id, bool):
            self.hash_problems.append(f"doc_id {str(doc_id)[:20]!r} is not a whole number")
            return

        self.doc_ids.append(doc_id)
        self.answers[str(doc_id)] = json.dumps(sample.get("resps"), sort_keys=True)
        document = self.documents.add(doc_id, sample["doc"])
        position = f"doc_id {format_doc_id(doc_id)}"
        self._record_hashes(sample, document, position)
        # One problem is enough to refuse the run, and a run with other prompts has thousands.
        if self.request_problem:
            return
        problem = self.audit.request_problem(sample)
        if problem:
            self.request_problem = f"{position}: {problem}"

    def _record_hashes(
        self, sample: Mapping[str, Any], document: Mapping[str, Any], position: str
    ) -> None:
        """Record the hashes that a sample states, and a problem for each hash that is wrong.

        Args:
            sample: The sample, with a hash of its document, its prompt and its target.
            document: Its document, without outputs of the evaluated model.
            position: How a problem names the sample, such as ``doc_id 7``.
        """
        # These are the texts that lm_eval hashes. It joins the hashes in the same order.
        hashed_texts = {
            "doc": json.dumps(document, indent=2, ensure_ascii=False),
            "prompt": _prompt_of(sample),
            "target": str(sample.get("target")),
        }
        for name, text in hashed_texts.items():
            stated_hash = str(sample.get(f"{name}_hash"))
            self.joined_hashes += stated_hash
            if hash_text(text) != stated_hash:
                self.hash_problems.append(f"{position}: its {name}_hash is not that of its {name}")


@dataclass(frozen=True)
class TaskEvidence:
    """The results and samples of one task of a submission."""

    file: ResultsFile
    """The results file that contains the task."""

    task: TaskResult
    """The scores and settings of the task."""

    rules: TaskRules
    """What the leaderboard requires of the task."""

    samples: SampleEvidence | None
    """The samples of the task, or None if there is no samples file."""

    published_digest: str | None
    """The hash of the published documents, or None if they are not on this machine."""

    correction_problem: str
    """Why scores corrected by people's labels do not follow from the labels; empty if they do."""


@dataclass(frozen=True)
class Evidence:
    """A submission whose files have been read."""

    submission: Submission
    """The content of its ``submission.json``."""

    rules: Rules
    """The rules of its leaderboard."""

    files: tuple[ResultsFile, ...]
    """Its results files."""

    tasks: Mapping[str, TaskEvidence]
    """The tasks of the leaderboard that are in the results, by name."""

    certificate: Mapping[str, Any]
    """The packed certificate of the judge; empty if there is none or it is no JSON object."""

    recomputation: Recomputation
    """Whether the packed certificate follows from the packed answers of the judge."""


def read_evidence(folder: Path, submission: Submission, rules: Rules) -> Evidence:
    """Read all files of a submission, and compute its scores again.

    Args:
        folder: The folder of the submission, whose files `check_files` has found to be those that
            were packed.
        submission: The content of its ``submission.json``.
        rules: The rules of its leaderboard, which name the tasks.

    Returns:
        What the checks need to know of the submission.

    Raises:
        SubmissionRefusedError: There is no results file, one is not as lm_eval writes it, or a task
            is of a benchmark that is not installed.
    """
    results_files = _read_results(folder, submission)
    tasks: dict[str, TaskEvidence] = {}
    for file in results_files:
        for task_result in file.tasks:
            task_rules = rules.by_task.get(task_result.task)
            # A check refuses tasks that are not of the leaderboard.
            if task_rules is None:
                continue
            # Problems with samples and corrections are recorded, not raised, so that a submitter
            # sees the problems of all tasks together.
            tasks[task_result.task] = TaskEvidence(
                file=file,
                task=task_result,
                rules=task_rules,
                samples=read_task_samples(folder, file, task_result, task_rules),
                published_digest=published_digest(task_rules),
                correction_problem=_correction_problem(folder, submission, file, task_result),
            )
    if submission.certificate is None:
        certificate: Mapping[str, Any] = {}
        recomputation = Recomputation()
    else:
        path = folder / submission.certificate
        certificate = _read_certificate(path)
        recomputation = recompute_certificate(path, certificate)
    return Evidence(submission, rules, results_files, tasks, certificate, recomputation)


def _read_results(folder: Path, submission: Submission) -> tuple[ResultsFile, ...]:
    """Read the results files of a submission, i.e. its files named ``results_*``, at least one.

    Args:
        folder: The folder of the submission.
        submission: The content of its ``submission.json``, which lists the files.

    Raises:
        SubmissionRefusedError: There is no results file, or one is not as lm_eval writes it.
    """
    files = []
    try:
        for packed in submission.files:
            if packed.path.startswith("results_"):
                file = read_results_file(folder / packed.path)
                # The call raises an error if the date of the run is no date.
                date_of(file)
                files.append(file)
    except DataError as error:
        problem = message_without_folder(error, folder)
        raise SubmissionRefusedError(Refusal("RESULTS_INVALID", "results", problem)) from error
    if not files:
        problem = "no results_*.json; pack the results again"
        raise SubmissionRefusedError(Refusal("RESULTS_INVALID", "results", problem))
    return tuple(files)


def _read_certificate(path: Path) -> Mapping[str, Any]:
    """Read the packed certificate of the judge.

    A file that is no JSON object gives an empty mapping, which a later check refuses.
    """
    try:
        return as_mapping(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def read_task_samples(
    folder: Path, file: ResultsFile, task: TaskResult, rules: TaskRules
) -> SampleEvidence | None:
    """Read the samples of a task in one pass, and compute its scores from them.

    Args:
        folder: The folder of the submission, which problems do not mention.
        file: The results file that contains the task.
        task: The scores and settings of the task, with the path of the samples.
        rules: What the leaderboard requires of the task.

    Returns:
        The evidence in the samples, or None if the run kept no samples.

    Raises:
        SubmissionRefusedError: The task is of a benchmark that is not installed.
    """
    if task.samples is None:
        return None
    benchmark = find_benchmark(task.kind)
    if benchmark is None:
        problem = f"is of the benchmark {task.kind[:40]!r}, which is not installed here"
        sentence = f"{problem}; install its package"
        raise SubmissionRefusedError(Refusal("SAMPLES_INVALID", task.task, sentence))

    # The rules state how the task has to be run, except for what the model itself decides.
    expected_run = ExpectedRun(
        metadata=rules.metadata,
        generation_kwargs=rules.generation_kwargs,
        repeats=rules.repeats,
        has_template=has_template(file),
        thinking_tokens=thinking_tokens_of(task),
    )
    audit = benchmark.checks.audit(expected_run)
    evidence = SampleEvidence(audit, DocumentDigest(benchmark.data.model_outputs))
    try:
        # The recomputation consumes the samples, which are recorded on the way.
        recomputed = recompute(task, evidence.record_samples(task.samples))
        evidence.score_problems += differences(task, recomputed)
    except UNREADABLE as error:
        # A stranger wrote the samples, so that their content can have any type.
        evidence.problem = message_without_folder(error, folder)
    return evidence


def _correction_problem(
    folder: Path, submission: Submission, file: ResultsFile, task: TaskResult
) -> str:
    """Say why the corrected scores of a task do not follow from the packed labels.

    People label a random sheet of samples, and their labels correct the judge's errors. Files
    cannot show whether people really gave these labels.

    Args:
        folder: The folder of the submission.
        submission: The content of its ``submission.json``, which names the sheet's key and labels.
        file: The results file that contains the task.
        task: The scores and settings of the task.

    Returns:
        A phrase that follows the name of the task. Empty if the corrected scores are right, or if
        there are none.
    """
    # The file lies beside the results, and its name has their date.
    path = sibling_of_results(file.path, f"corrected_{task.task}", ".json")
    # Most runs have no corrected scores.
    if path is None:
        return ""
    if submission.key is None:
        return "its key and labels are not in the submission; pack again with --key and --labels"

    key_path = folder / submission.key
    label_paths = [folder / name for name in submission.labels]
    try:
        sheet_problem = _sheet_problem(read_key(key_path), task)
        if sheet_problem:
            return sheet_problem
        corrected = correct_scores(task, key_path, label_paths)
        stored = read_correction(path)
        if not is_same_value(corrected.model_dump(), stored.model_dump()):
            return "its labels give other corrected scores; pack again"
    except FactualityError as error:
        return f"cannot be recomputed: {message_without_folder(error, folder)}"
    return ""


def _sheet_problem(key: Key, task: TaskResult) -> str:
    """Say why the samples on a sheet do not prove to be those that its seed draws from the run.

    Whoever could choose the samples that people label could also choose the corrected score. The
    samples are therefore drawn again with the seed of the sheet.

    Args:
        key: The key of the sheet, with its samples, its seed and its strata, i.e. the groups from
            which the same number of samples is drawn.
        task: The task of the run.

    Returns:
        A phrase that follows the name of the task. Empty if the same samples are drawn again.
    """
    # To repeat a draw from several runs takes the samples of all of them. A submission has only the
    # samples of one run.
    if len(key.sources) != 1 or task.samples is None:
        return (
            "its sheet is of several runs, so that its draw cannot be repeated; make one of this"
            " run alone"
        )
    sheet_units = {item.unit for item in key.items}
    all_units = units_of_run(task, key.sources[0].model)
    asked_units = keep_asked_units(all_units, key.questions)
    draw = draw_units(asked_units, len(sheet_units), key.stratify, random.Random(key.seed))
    drawn_units = {unit.key for unit in draw.units}
    if sheet_units != drawn_units or tuple(draw.strata) != key.strata:
        return (
            "the samples on its sheet are not those that its seed draws; correct by a sheet as it"
            " was drawn"
        )
    return ""


def _prompt_of(sample: Mapping[str, Any]) -> str:
    """Return the prompt of the first request in a sample, as lm_eval hashes it.

    Example:
        The arguments ``{"gen_args_0": {"arg_0": "Who?"}}`` have the prompt ``Who?``.
    """
    # The requests of a sample are named ``gen_args_0``, ``gen_args_1`` and so on.
    requests = as_mapping(sample.get("arguments"))
    first_request = as_mapping(next(iter(requests.values()), None))
    prompt = first_request.get("arg_0", "")
    # The messages to a chat server are one JSON text, in a list of one.
    if isinstance(prompt, list) and prompt:
        prompt = prompt[0]
    return str(prompt)


def has_template(file: ResultsFile) -> bool:
    """Return whether a run put its prompts into a chat template."""
    # A server applies a template of its own, which lm_eval records as an empty text.
    return file.content.get("chat_template") is not None


def thinking_tokens_of(task: TaskResult) -> int:
    """Return the number of tokens that a run gave the model to think, or -1 if it is invalid."""
    tokens = task.metadata.get("thinking_tokens") or 0
    # In Python, True and False are integers.
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return -1
    return tokens


def count_items(task: TaskResult) -> int:
    """Count the items of a task, each of which is either scored or unscored.

    For most benchmarks, an item is a document. For those that score each generation by itself, it
    is a generation: 100 documents with 3 generations each are 300 items.
    """
    benchmark = find_benchmark(task.kind)
    # lm_eval generates once if the task does not say how often.
    repeats = task.config.get("repeats") or 1
    is_document_an_item = benchmark is None or benchmark.scoring.unscored_unit == "rows"
    # A stranger's file can hold something else than a number, which another check then refuses.
    if is_document_an_item or not isinstance(repeats, int):
        return task.effective
    return task.effective * repeats


def format_doc_id(doc_id: int) -> str:
    """Return the number of a document as a refusal shows it."""
    # A stranger's file can hold a number of so many digits that writing it out takes long.
    return str(doc_id) if abs(doc_id) < _MAX_WRITTEN_DOC_ID else "of more than 15 digits"
