"""Check whether a submission is what it claims to be, by recomputing every score from its samples.

The command line, `lm_factuality.leaderboard.pack` and the site call `check_submission`.
"""

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.certified import (
    certificate_problems,
    is_on_published_data,
    replaced_prompt_hashes,
)
from lm_factuality.benchmarks.declaration import ScoreRange
from lm_factuality.ground.errors import ConfigError, DataError, listed, short
from lm_factuality.ground.model_names import short_name
from lm_factuality.harness.outputs import ResultsFile, TaskResult, number_of
from lm_factuality.leaderboard.contents import check_files
from lm_factuality.leaderboard.documents import hash_text
from lm_factuality.leaderboard.evidence import (
    Evidence,
    SampleEvidence,
    TaskEvidence,
    count_items,
    format_doc_id,
    has_template,
    read_evidence,
    thinking_tokens_of,
)
from lm_factuality.leaderboard.rules import Rules, TaskRules, read_rules
from lm_factuality.leaderboard.submission import (
    SUBMISSION_FILE,
    Refusal,
    Submission,
    SubmissionRefusedError,
    SubmittedModel,
    message_without_folder,
    read_submission,
)
from lm_factuality.results.read import PLAIN_BACKENDS, date_of
from lm_factuality.results.settings import ADAPTERS, score_changing_arguments

logger = logging.getLogger(__name__)

_MAX_LISTED_PROBLEMS = 5
"""How many changed samples or scores one refusal lists."""

_SECONDS_A_DAY = 24 * 60 * 60
_ROUNDING_ERROR = 1e-9

_MAX_VALUE_LENGTH = 160
"""How many characters of a setting's value a refusal shows."""


@dataclass(frozen=True)
class Checked:
    """The outcome of checking one submission."""

    folder: Path
    """The folder of the submission."""

    submission: Submission | None
    """The content of its ``submission.json``, or None if that file cannot be read."""

    refusals: tuple[Refusal, ...]
    """The reasons to refuse the submission; empty if it is accepted."""

    evidence: Evidence | None
    """The parsed results and samples, or None if they cannot be read."""


def check_submission(folder: Path, rules_folder: Path | None = None) -> Checked:
    """Check a leaderboard submission and collect every reason to refuse it.

    The function never raises because of a submission's content: a submission that cannot be read
    is refused as well.

    Args:
        folder: The folder of the submission, with its ``submission.json``.
        rules_folder: A folder with the rules of leaderboards. Defaults to the suite's rules.

    Returns:
        The submission with its refusals. There are none if the submission is accepted.
    """
    submission: Submission | None = None
    evidence: Evidence | None = None
    refusals: list[Refusal] = []
    try:
        submission = read_submission(folder)
        rules = read_rules(submission.leaderboard, rules_folder)
        # Links and changed files are refused before anything else is opened.
        refusals += check_files(folder, submission)
        evidence = read_evidence(folder, submission, rules)
        for check in CHECKS:
            refusals += check(evidence)
    except SubmissionRefusedError as error:
        refusals += error.refusals
    except ConfigError as error:
        refusals.append(Refusal("LEADERBOARD_UNKNOWN", SUBMISSION_FILE, str(error)))
    except Exception as error:
        # Strangers write these files, so anything can be wrong with them. A failure in one
        # submission must not stop the check of the others.
        logger.debug("%s: not as lm_eval writes it", folder, exc_info=True)
        problem = f"{type(error).__name__}: {message_without_folder(error, folder)}"
        sentence = f"not as lm_eval writes it: {problem}; run and pack again"
        refusals.append(Refusal("RESULTS_INVALID", "results", sentence))

    # Two files can have the same problem. A dictionary keeps the order, which a set would not.
    unique_refusals = tuple(dict.fromkeys(refusals))
    return Checked(folder, submission, unique_refusals, evidence)


def find_submissions(folder: Path) -> list[Path]:
    """Find all submissions in a folder and its subfolders.

    A submission is a folder with a ``submission.json``. Folders whose names begin with a dot are
    skipped.

    Args:
        folder: The folder to search. It may itself be a submission.

    Returns:
        The folders of the submissions, sorted. Links to folders are included, but not followed:
        the check then refuses them.

    Raises:
        DataError: There are no submissions.
    """
    submissions: list[Path] = []
    for parent, subfolders, files in os.walk(folder):
        if SUBMISSION_FILE in files:
            submissions.append(Path(parent))

        # The assignment changes the list that `os.walk` goes through. `pack` writes an
        # unfinished submission into a folder whose name begins with a dot.
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in subfolders:
            path = Path(parent, name)
            if path.is_symlink():
                submissions.append(path)

    if not submissions:
        raise DataError(
            f"{folder}: no {SUBMISSION_FILE} here or below; make a submission with: lm-factuality"
            " leaderboard pack"
        )
    return sorted(submissions)


def refuse_missing_tasks(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse a submission that lacks a task of its leaderboard, or the samples of one.

    Args:
        evidence: The parsed submission.

    Yields:
        One refusal for each task.
    """
    for task_name in evidence.rules.by_task:
        task_evidence = evidence.tasks.get(task_name)
        if task_evidence is None:
            problem = f"is not in the results; {_run_advice(evidence.rules)}"
            yield Refusal("TASKS_MISSING", task_name, problem)
        elif task_evidence.samples is None:
            problem = "its samples are not beside its results; run it with --log_samples"
            yield Refusal("FILE_MISSING", task_name, problem)


def refuse_extra_tasks(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse tasks that are not of the leaderboard, or that are in two results files.

    Args:
        evidence: The parsed submission.

    Yields:
        One refusal for each task.
    """
    file_counts: Counter[str] = Counter()
    for file in evidence.files:
        file_counts.update(file.content["results"].keys())
    for task_name, file_count in file_counts.items():
        if task_name not in evidence.rules.by_task:
            problem = "is not of this leaderboard, and nothing of it is checked"
            sentence = f"{problem}; {_run_advice(evidence.rules)}"
            # The name comes from a stranger's file and can have any length.
            yield Refusal("TASKS_EXTRA", task_name[:80], sentence)
        elif file_count > 1:
            yield Refusal("TASKS_EXTRA", task_name, "is in two results files; submit one")


def _run_advice(rules: Rules) -> str:
    """Return the command that runs exactly the tasks of a leaderboard."""
    return f"run: lm-factuality run --config configs/leaderboard/{rules.name}.yaml"


def refuse_different_models(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse runs that are not all of the model that the submission names.

    Args:
        evidence: The parsed submission, whose results files record what was run.

    Yields:
        One refusal if the runs differ from each other in model, revision, dtype or backend, and
        one for each property in which a run differs from ``submission.json``.
    """
    models = {(file.model, file.revision, file.dtype, file.backend) for file in evidence.files}
    if len(models) > 1:
        problem = f"{len(models)} different models, revisions, dtypes or backends; submit one each"
        yield Refusal("MIXED_RUNS", "results", problem)
    for file in evidence.files:
        yield from _check_model(file, evidence.submission.model)


def _check_model(file: ResultsFile, submitted: SubmittedModel) -> Iterator[Refusal]:
    """Refuse a run of another model than the one that the submission names.

    Args:
        file: The results file of the run.
        submitted: The model in ``submission.json``.

    Yields:
        One refusal for each difference in the number format, the commit or the name.
    """
    settings = []
    # Models behind an API have no number format that lm_eval could record.
    if file.dtype:
        settings.append(_Setting("the dtype", file.dtype, [submitted.dtype]))
    # lm_eval records no commit for local weights and for models behind an API.
    commit = as_mapping(file.content.get("config")).get("model_sha")
    if commit:
        settings.append(_Setting("the commit", commit, [submitted.revision]))
        is_local_path = file.model.startswith((".", "/", "~"))
        if file.model.count("/") == 1 and not is_local_path:
            # The user may submit a model of the Hub under another organisation's name.
            allowed_name = short_name(submitted.name)
            settings.append(_Setting("the model", short_name(file.model), [allowed_name]))
    yield from _refuse_unexpected("MODEL_DIFFERS", file.path.name, settings)


def refuse_different_settings(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse settings of runs that the rules of the leaderboard do not allow.

    These are versions of lm_eval, backends, adapters, prompts, decoding options and judges.

    Args:
        evidence: The parsed submission, with the rules of its leaderboard.

    Yields:
        One refusal for each setting that is not as the rules demand.
    """
    for file in evidence.files:
        yield from _check_run(file, evidence.rules)

    for task_name, task_evidence in evidence.tasks.items():
        yield from _check_settings(task_evidence, evidence.rules)
        # Samples hold the requests to the model, which show its prompts.
        samples = task_evidence.samples
        if samples is not None and samples.request_problem:
            problem = f"{samples.request_problem}; leave out whatever changes prompts"
            yield Refusal("CONFIG_DIFFERS", task_name, problem)
        if _needs_judge(task_evidence):
            yield from _check_judge(evidence, task_evidence)


def _needs_judge(evidence: TaskEvidence) -> bool:
    """Tell whether a task is judged, by the rules of its leaderboard or by its benchmark."""
    if evidence.rules.judge_prompts:
        return True
    benchmark = find_benchmark(evidence.task.kind)
    return benchmark is not None and bool(benchmark.judging)


def _check_run(file: ResultsFile, rules: Rules) -> Iterator[Refusal]:
    """Refuse a run with a backend, an adapter or a version of lm_eval that is not allowed.

    Args:
        file: The results file of the run.
        rules: The rules of the leaderboard.

    Yields:
        One refusal for each of the three that is not allowed.
    """
    run_name = file.path.name
    # An adapter such as LoRA weights makes it another model, so none is allowed.
    adapters = [argument for argument in score_changing_arguments(file) if argument in ADAPTERS]
    settings = [
        _Setting("the backend", file.backend, tuple(PLAIN_BACKENDS)),
        _Setting("what is added to the model", adapters, [[]]),
    ]
    yield from _refuse_unexpected("CONFIG_DIFFERS", run_name, settings)

    # Another version of lm_eval may compute other scores from the same outputs.
    version = str(file.versions.get("lm_eval"))
    if not rules.allows_lm_eval(version):
        setting = _Setting("lm_eval", version, [rules.lm_eval_versions])
        yield from _refuse_unexpected("LM_EVAL_UNKNOWN", run_name, [setting])


def refuse_different_data(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse runs on a part of the data, or on documents that are not the published ones.

    Args:
        evidence: The parsed submission, with the rules of its leaderboard.

    Yields:
        One refusal for each difference between a run's documents and the published data.
    """
    for task_evidence in evidence.tasks.values():
        yield from _check_data_file(task_evidence)
        samples = task_evidence.samples
        if samples is not None and not samples.problem:
            yield from _check_documents(task_evidence, samples)


def _check_data_file(evidence: TaskEvidence) -> Iterator[Refusal]:
    """Refuse a run that did not read the whole published data file.

    Args:
        evidence: The task, with the published file's hash and number of documents.

    Yields:
        One refusal each for ``--limit``, the number of documents and the hash.
    """
    result = evidence.task
    rules = evidence.rules
    limit = as_mapping(evidence.file.content.get("config")).get("limit")
    # lm_eval records how many documents were run and how many there are.
    counts = [result.effective, result.num_samples]
    size_settings = [
        _Setting("--limit", found=limit, allowed=[None]),
        _Setting("documents", found=counts, allowed=[[rules.documents, rules.documents]]),
    ]
    yield from _refuse_unexpected("LIMIT_RUN", rules.task, size_settings)
    # The git blob id is a hash of the data file that the run read.
    blob = as_mapping(result.metadata.get("data")).get("git_blob")
    file_setting = _Setting("git_blob", found=blob, allowed=[rules.git_blob])
    yield from _refuse_unexpected("WRONG_DATA", rules.task, [file_setting])


def refuse_changed_scores(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse scores and a judge's certificate that do not follow from the packed files.

    Args:
        evidence: The parsed submission, with everything computed again.

    Yields:
        At most one refusal for each problem of a task, and one for the certificate.
    """
    for task_evidence in evidence.tasks.values():
        yield from _check_scores(task_evidence)
    certificate_problem = evidence.recomputation.problem
    if certificate_problem:
        file_name = str(evidence.submission.certificate)
        yield Refusal("CERTIFICATE_CHANGED", file_name, certificate_problem)


def _check_scores(evidence: TaskEvidence) -> Iterator[Refusal]:
    """Refuse scores of a task that are missing, or that do not follow from samples or labels."""
    task_name = evidence.rules.task
    # The headline is the score that ranks the models. Some tasks rank none.
    headline = evidence.rules.headline
    if headline and not math.isfinite(evidence.task.metrics.get(headline, math.nan)):
        problem = f"{headline}, by which the leaderboard ranks, is missing or no number"
        yield Refusal("RESULTS_INVALID", task_name, f"{problem}; run the task again")

    # `refuse_missing_tasks` has refused a task without samples.
    if evidence.samples is not None:
        yield from _check_samples(evidence, evidence.samples)
    if evidence.correction_problem:
        yield Refusal("CORRECTION_CHANGED", task_name, evidence.correction_problem)


def refuse_impossible_numbers(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse numbers that no run can give: NaN, infinity, shares above 1, and future dates.

    Args:
        evidence: The parsed submission.

    Yields:
        One refusal for each impossible score or date.
    """
    tomorrow = time.time() + _SECONDS_A_DAY
    for file in evidence.files:
        if file.date > tomorrow:
            yield Refusal("RESULTS_INVALID", file.path.name, f"its run began on {date_of(file)}")

    for task_name, task_evidence in evidence.tasks.items():
        task = task_evidence.task
        benchmark = find_benchmark(task.kind)
        declared_scores = benchmark.scoring.scores if benchmark else ()
        for name, value in task.metrics.items():
            ranges = [score.value_range for score in declared_scores if score.covers(name)]
            problem = _describe_impossible_value(value, ranges)
            if problem:
                yield Refusal("RESULTS_INVALID", task_name, f"{name} is {value}, {problem}")


def _describe_impossible_value(value: float, ranges: Sequence[ScoreRange | None]) -> str:
    """Say why a score cannot have a value, such as ``not within 0 and 1``; empty if it can.

    Args:
        value: The value in a results file.
        ranges: The ranges of the declared scores of its name, None where there is none.
    """
    if not math.isfinite(value):
        return "no finite number"
    for value_range in filter(None, ranges):
        # A mean of ones can be above 1 by a rounding error.
        low = value_range.low - _ROUNDING_ERROR
        high = value_range.high + _ROUNDING_ERROR
        if not low <= value <= high:
            return f"not within {value_range.low:g} and {value_range.high:g}"
    return ""


def refuse_too_many_unscored(evidence: Evidence) -> Iterator[Refusal]:
    """Refuse tasks with more unscored responses than the rules allow.

    A response is unscored if the judge gave no verdict on it. Up to the limit, the ranking counts
    unscored responses as wrong, so that nobody gains by them.

    Args:
        evidence: The parsed submission, with the rules of its leaderboard.

    Yields:
        One refusal for each task with an unknown or too high number of unscored responses.
    """
    max_share = evidence.rules.max_unscored
    for task_name, task_evidence in evidence.tasks.items():
        task = task_evidence.task
        # A results file that somebody edited can hold anything as a number.
        num_unscored = number_of(task.metrics.get("unscored"))
        num_responses = count_items(task)
        if num_unscored is None:
            problem = "does not say how many responses are unscored"
            yield Refusal("RESULTS_INVALID", task_name, f"{problem}; run the task again")
        elif num_unscored > max_share * num_responses:
            excess = f"{int(num_unscored)} of {num_responses} responses are unscored"
            yield Refusal(
                "UNSCORED_TOO_MANY", task_name, f"{excess}, at most {max_share:.1%} may be"
            )


CHECKS = (
    refuse_missing_tasks,
    refuse_extra_tasks,
    refuse_different_models,
    refuse_different_settings,
    refuse_different_data,
    refuse_changed_scores,
    refuse_impossible_numbers,
    refuse_too_many_unscored,
)
"""All checks, in the order in which their refusals are listed."""


class _Setting(NamedTuple):
    """A setting of a run, and what the rules of the leaderboard allow for it."""

    name: str
    """The name of the setting, as refusals show it."""

    found: object
    """The value in the submission."""

    allowed: Sequence[object]
    """The values that are accepted."""


def _refuse_unexpected(code: str, where: str, settings: Iterable[_Setting]) -> Iterator[Refusal]:
    """Refuse each setting whose value is not among the allowed values.

    Example:
        The value 5 of ``num_fewshot``, for which only 0 is allowed, gives the sentence
        ``num_fewshot is 5, expected 0; run it with the leaderboard's config, on all rows``.

    Args:
        code: The code of the refusals, such as ``CONFIG_DIFFERS``.
        where: The file or task that has the settings.
        settings: The settings.
    """
    for name, found, allowed in settings:
        if found in allowed:
            continue
        expected_values = " or ".join(short(value, _MAX_VALUE_LENGTH) for value in allowed)
        difference = f"{name} is {short(found, _MAX_VALUE_LENGTH)}, expected {expected_values}"
        advice = "run it with the leaderboard's config, on all rows"
        yield Refusal(code, where, f"{difference}; {advice}")


def _check_settings(evidence: TaskEvidence, rules: Rules) -> Iterator[Refusal]:
    """Refuse settings of a task's run that the rules do not allow.

    Args:
        evidence: The task's results, and the rules of the task.
        rules: The rules of the whole leaderboard.

    Yields:
        One refusal for each setting, such as ``num_fewshot``.
    """
    content = evidence.file.content
    task = evidence.task
    task_rules = evidence.rules
    # What was run counts more than what the task says: the option --num_fewshot overrides it.
    fewshot_by_task = as_mapping(content.get("n-shot"))
    num_fewshot = fewshot_by_task.get(task.task, task.config.get("num_fewshot"))
    # lm_eval computes no standard errors if this option is 0.
    has_stderrs = bool(as_mapping(content.get("config")).get("bootstrap_iters", True))
    has_instruction = bool(content.get("system_instruction"))

    settings = [
        _Setting("version", task.version, [task_rules.version]),
        _Setting("suite_version", task.metadata.get("suite_version"), rules.suite_versions),
        _Setting("num_fewshot", num_fewshot, [0]),
        _Setting("bootstrap_iters", has_stderrs, [True]),
        _Setting("system_instruction", has_instruction, [False]),
    ]
    for name, value in task_rules.metadata.items():
        settings.append(_Setting(name, task.metadata.get(name), [value]))
    # Tasks that compare log-probabilities generate nothing and have no decoding to check.
    if task_rules.generation_kwargs is not None:
        settings += _generation_settings(task, task_rules, rules.thinking_tokens)
    if not rules.chat_template:
        settings.append(_Setting("chat_template", has_template(evidence.file), [False]))
    yield from _refuse_unexpected("CONFIG_DIFFERS", task.task, settings)


def _generation_settings(
    task: TaskResult, rules: TaskRules, max_thinking_tokens: int
) -> list[_Setting]:
    """Return the settings with which a model has generated its answers.

    Args:
        task: The task of the run.
        rules: The rules of the task.
        max_thinking_tokens: The most tokens that the model may have to think.
    """
    thinking_tokens = thinking_tokens_of(task)
    # All numbers of tokens from 0 to the limit are allowed. A refusal names the nearest of them.
    nearest_allowed = max(0, min(thinking_tokens, max_thinking_tokens))
    return [
        _Setting(
            "generation_kwargs", task.config.get("generation_kwargs"), [rules.generation_kwargs]
        ),
        _Setting("repeats", task.config.get("repeats"), [rules.repeats]),
        _Setting("thinking_tokens", thinking_tokens, [nearest_allowed]),
    ]


def _check_judge(evidence: Evidence, task_evidence: TaskEvidence) -> Iterator[Refusal]:
    """Refuse a judge with changed coefficients or prompts, or without the required certificate.

    A judge decides whether the statements of the evaluated model are true. A certificate records
    how well it agreed with labels made by people.

    Args:
        evidence: The parsed submission, with the packed certificate and the rules.
        task_evidence: The judged task.

    Yields:
        One refusal for each problem with the judge.
    """
    task = task_evidence.task
    judge = task.metadata.get("judge_config")
    if not isinstance(judge, dict) or not isinstance(judge.get("prompt_hashes"), dict):
        problem = "judge_config with prompt_hashes is missing; run it again"
        yield Refusal("RESULTS_INVALID", task.task, problem)
        return

    # Coefficients of a user's own would turn the same replies of a judge into other verdicts.
    coefficients = as_mapping(judge.get("options")).get("coefficients")
    setting = _Setting("the judge's coefficients", coefficients, [None])
    yield from _refuse_unexpected("CONFIG_DIFFERS", task.task, [setting])

    certificates = _certificates_by_origin(evidence, task)
    expected_hashes = task_evidence.rules.judge_prompts
    for problem in _judge_prompt_problems(judge, certificates.values(), expected_hashes):
        yield Refusal("CONFIG_DIFFERS", task.task, problem)
    # A certificate counts only for the judge, prompts and version that it was measured with.
    for origin, certificate in certificates.items():
        for problem in certificate_problems(certificate, judge, evidence.rules.suite_versions):
            yield Refusal("CERTIFICATE_MISMATCH", task.task, f"{origin}: {problem}")
    missing = _missing_certificate(evidence.rules.certificate, certificates.values())
    if missing:
        yield Refusal("JUDGE_UNCERTIFIED", task.task, missing)


def describe_certificates(evidence: Evidence) -> Iterator[str]:
    """Say of each certificate whether its figures follow from the answers of the judge.

    If the check cannot compute a certificate again, it is only claimed: the submitter has stated
    its figures, and nobody has verified them.

    Yields:
        Phrases such as ``certificate.json is claimed: there is no certificate.answers.jsonl``.
    """
    # A certificate is either the packed file or in the metadata of a task.
    origins: set[str] = set()
    for task_evidence in evidence.tasks.values():
        origins.update(_certificates_by_origin(evidence, task_evidence.task))
    for origin in sorted(origins):
        obstacle = evidence.recomputation.obstacle
        if origin != evidence.submission.certificate:
            obstacle = "it is only in the results"
        yield (
            f"{origin} is claimed: {obstacle}" if obstacle else f"{origin} follows from its answers"
        )


def _missing_certificate(required: str, certificates: Collection[Mapping[str, Any]]) -> str:
    """Say which certificate the rules require and a judge does not have, and how to make it.

    Args:
        required: ``none``, ``any``, or ``published`` for one that was measured on published data.
        certificates: The certificates of the judge.

    Returns:
        A sentence that begins with ``no certificate``. Empty if the judge has what is required.
    """
    if required == "any" and not certificates:
        # Where any certificate will do, one that was measured on the suite's sample is the easiest.
        return f"no certificate: {_certify_advice('lexical --sample')}"
    if required == "published" and not any(map(is_on_published_data, certificates)):
        problem = "no certificate that was made on the published data"
        return f"{problem}: {_certify_advice('CONFIG')}"
    return ""


def _certify_advice(judge: str) -> str:
    """Say how to make and pack a certificate of a judge, such as ``lexical --sample``."""
    return (
        f"make one by lm-factuality certify --judge {judge} --out"
        " certificate.json; pack with --certificate certificate.json"
    )


def _certificates_by_origin(evidence: Evidence, task: TaskResult) -> dict[str, Mapping[str, Any]]:
    """Collect the judge's certificates, both the packed file and those inside the results.

    Args:
        evidence: The parsed submission, with the packed certificate.
        task: The judged task, whose metadata can hold certificates.

    Returns:
        The certificates by origin: a file name such as ``certificate.json``, or the judge's
        setting, such as ``judge_certificate.felm``.
    """
    certificates: dict[str, Mapping[str, Any]] = {}
    # The run may not have known the packed certificate, so it is not in the results yet.
    packed_name = evidence.submission.certificate
    if packed_name is not None:
        certificates[packed_name] = evidence.certificate

    for setting, content in as_mapping(task.metadata.get("judge_certificate")).items():
        # The setting's name comes from a stranger's file and can have any length.
        origin = f"judge_certificate.{setting}"[:80]
        certificates[origin] = as_mapping(content)
    return certificates


def _judge_prompt_problems(
    judge: Mapping[str, Any],
    certificates: Iterable[Mapping[str, Any]],
    expected_hashes: Mapping[str, str],
) -> Iterator[str]:
    """Describe each prompt of a judge that is not allowed by the rules or by a certificate.

    Args:
        judge: The judge's configuration in the results, with a hash of each prompt.
        certificates: The judge's certificates, which record prompts that the user replaced.
        expected_hashes: The hashes of the leaderboard's prompts, by prompt name.

    Yields:
        One sentence for each prompt that differs.
    """
    prompt_hashes = judge["prompt_hashes"]
    if set(prompt_hashes) != set(expected_hashes):
        names = ", ".join(expected_hashes)
        yield f"the judge was asked with other prompts than {names}; run it again"

    # A user may replace a prompt if the judge was certified with the replacement.
    certified_hashes: dict[str, str] = {}
    for certificate in certificates:
        certified_hashes.update(replaced_prompt_hashes(certificate.get("identity")) or {})
    # The judge's configuration lists only the prompts that the user replaced.
    replaced_prompts = judge.get("prompts") or {}
    for name, prompt_hash in prompt_hashes.items():
        if name in replaced_prompts:
            allowed_hash = certified_hashes.get(name)
            origin = "that was certified"
        else:
            allowed_hash = expected_hashes.get(name)
            origin = "of the leaderboard"
        if prompt_hash != allowed_hash:
            yield f"the judge's prompt {str(name)[:60]} is not the one {origin}"


def _check_documents(evidence: TaskEvidence, samples: SampleEvidence) -> Iterator[Refusal]:
    """Refuse samples whose documents are missing, duplicate, unknown or changed.

    Args:
        evidence: The task, with the digest of its published documents.
        samples: What the task's samples hold, with their document numbers and digest.

    Yields:
        One refusal for wrong document numbers, or one for changed documents.
    """
    rules = evidence.rules
    wrong_ids = _wrong_doc_ids(samples.doc_ids, rules.documents)
    if wrong_ids:
        numbers = listed([format_doc_id(doc_id) for doc_id in wrong_ids])
        problem = f"{len(wrong_ids)} rows are missing, unknown or there twice: doc_id {numbers}"
        advice = f"expected 0 to {rules.documents - 1} once each; run the whole task again"
        yield Refusal("ROWS_DIFFER", rules.task, f"{problem}; {advice}")

    if evidence.published_digest is None:
        # Without the published data, nobody can tell whether the documents are right.
        problem = (
            "the rules have no digest of its documents, and the file with git blob"
            f" {rules.git_blob[:12]} is not on this machine"
        )
        advice = "check where it is: lm-factuality data fetch, or its folder in LM_FACTUALITY_DATA"
        yield Refusal("DATA_UNAVAILABLE", rules.task, f"{problem}; {advice}")
        return
    digest = samples.documents.hexdigest()
    # Wrong document numbers change the digest too, and are refused already.
    if not wrong_ids and digest != evidence.published_digest:
        digests = f"digest {digest[:12]}, expected {evidence.published_digest[:12]}"
        problem = f"the documents in the samples are not the published ones ({digests})"
        advice = "run the task on the published data, as this version of the suite has it"
        yield Refusal("WRONG_DATA", rules.task, f"{problem}; {advice}")


def _wrong_doc_ids(doc_ids: Sequence[int], num_documents: int) -> list[int]:
    """Find the document numbers that are missing, duplicate or unknown.

    Example:
        The numbers 0, 2, 2 and 7 in a task of three documents give ``[1, 2, 7]``: 1 is missing, 2
        is duplicate, and 7 is unknown, since documents are numbered from 0.
    """
    surplus = Counter(doc_ids)
    # Each number is expected once, so that a missing one has a surplus of -1.
    surplus.subtract(range(num_documents))
    return sorted(doc_id for doc_id, count in surplus.items() if count)


def _check_samples(evidence: TaskEvidence, samples: SampleEvidence) -> Iterator[Refusal]:
    """Refuse samples that were changed, are of another run, or give other scores.

    Args:
        evidence: The task, with its results file.
        samples: What the task's samples hold, and how their scores differ from the results.

    Yields:
        One refusal for each kind of problem.
    """
    task_name = evidence.rules.task
    # Scores cannot be recomputed from unreadable samples.
    if samples.problem:
        yield Refusal("SAMPLES_INVALID", task_name, samples.problem)
        return

    # lm_eval writes a hash of all sample hashes into the results.
    run_hash = as_mapping(evidence.file.content.get("task_hashes")).get(task_name)
    if samples.hash_problems:
        problem = "; ".join(samples.hash_problems[:_MAX_LISTED_PROBLEMS])
        yield Refusal("SAMPLES_CHANGED", task_name, f"{problem}; run the task again")
    elif run_hash != hash_text(samples.joined_hashes):
        problem = "the results were made from other samples: task_hashes differs"
        yield Refusal("SAMPLES_CHANGED", task_name, problem)

    # Each problem names a score, with its value in the results and from the samples.
    if samples.score_problems:
        problems = listed(samples.score_problems, _MAX_LISTED_PROBLEMS)
        yield Refusal("SCORE_CHANGED", task_name, problems)
