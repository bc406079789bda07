"""Whether a submission is what it says: every score is recomputed from its samples.

The files cannot show whether the model, or a judge that is a model, said what the samples hold.
`lm_factuality.leaderboard.rerun` runs a part of a submission again for that.
"""

import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import as_mapping
from lm_factuality.benchmarks.certified import (
    certificate_problems,
    is_on_published_data,
    replaced_prompt_hashes,
)
from lm_factuality.ground.errors import ConfigError, DataError, listed, short
from lm_factuality.ground.model_names import short_name
from lm_factuality.harness.outputs import TaskResult, number_of
from lm_factuality.leaderboard.evidence import (
    Evidence,
    SampleEvidence,
    TaskEvidence,
    has_template,
    hash_of,
    items_of,
    read_evidence,
    shown_number,
    thinking_tokens_of,
    without_folder,
)
from lm_factuality.leaderboard.rules import Rules, read_rules
from lm_factuality.leaderboard.submission import (
    FILE,
    Refusal,
    Refused,
    Submission,
    read_submission,
)
from lm_factuality.results.read import PLAIN_BACKENDS
from lm_factuality.results.settings import ADAPTERS, changing_arguments

logger = logging.getLogger(__name__)
_MOST_PROBLEMS = 5
_LONGEST_VALUE = 160  # characters of a setting that a refusal shows


@dataclass(frozen=True)
class Checked:
    """A submission, and why it is refused."""

    folder: Path
    submission: Submission | None
    """None if the submission cannot be read."""

    refusals: tuple[Refusal, ...]
    evidence: Evidence | None = None
    """What was read of it, or None if it cannot be read."""


def check_submission(folder: Path, rules_folder: Path | None = None) -> Checked:
    """Find everything that is wrong with a submission.

    Args:
        folder: The folder of the submission.
        rules_folder: A folder of rules instead of the suite's own.

    Returns:
        The submission with its refusals. What cannot be read is refused, whatever it is.
    """
    submission: Submission | None = None
    evidence: Evidence | None = None
    refusals: list[Refusal] = []
    try:
        submission = read_submission(folder)
        rules = read_rules(submission.leaderboard, rules_folder)
        evidence = read_evidence(folder, submission, rules)
        for check in CHECKS:
            refusals += check(evidence, rules)
    except Refused as error:
        refusals += error.refusals
    except ConfigError as error:
        refusals.append(Refusal("LEADERBOARD_UNKNOWN", FILE, str(error)))
    except Exception as error:
        # A stranger wrote the files: there is no end to what can be wrong with them. One folder
        # that the checks were not made for must not hide what they say of the others.
        logger.debug("%s: not as lm_eval writes it", folder, exc_info=True)
        problem = f"{type(error).__name__}: {without_folder(error, folder)}"
        sentence = f"not as lm_eval writes it: {problem}; run and pack again"
        refusals.append(Refusal("RESULTS_INVALID", "results", sentence))
    return Checked(folder, submission, tuple(dict.fromkeys(refusals)), evidence)


def find_submissions(folder: Path) -> list[Path]:
    """All submissions below a folder, or the folder itself if it is one.

    No link is followed, and no folder whose name begins with a dot is looked into. A link to a
    folder is among the submissions, so that it is refused.

    Raises:
        DataError: There are none.
    """
    submissions: list[Path] = []
    for parent, folders, files in os.walk(folder):
        if FILE in files:
            submissions.append(Path(parent))
        # A folder that pack has not finished begins with a dot.
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(parent, name) for name in folders]
        submissions += [path for path in paths if path.is_symlink()]
    if not submissions:
        raise DataError(
            f"{folder}: no {FILE} here or below; make a submission with: lm-factuality leaderboard"
            " pack"
        )
    return sorted(submissions)


def files_are_complete(evidence: Evidence, rules: Rules) -> Iterator[Refusal]:
    """The files are those that were packed, with every task of the leaderboard and no other."""
    yield from evidence.file_refusals
    for name in rules.by_task:
        task = evidence.tasks.get(name)
        if task is None:
            advice = _run_again(rules)
            yield Refusal("TASKS_MISSING", name, f"is not in the results; {advice}")
        elif task.samples is None:
            problem = "its samples are not beside its results; run it with --log_samples"
            yield Refusal("FILE_MISSING", name, problem)
    names = [name for file in evidence.files for name in file.content["results"]]
    for name, times in Counter(names).items():
        if name not in rules.by_task:
            problem = "is not of this leaderboard, and nothing of it is checked"
            yield Refusal("TASKS_EXTRA", name[:80], f"{problem}; {_run_again(rules)}")
        elif times > 1:
            yield Refusal("TASKS_EXTRA", name, "is in two results files; submit one")


def runs_are_of_one_model(evidence: Evidence, rules: Rules) -> Iterator[Refusal]:
    """All runs are of the model, revision, number format and backend that the submission names."""
    models = {(file.model, file.revision, file.dtype, file.backend) for file in evidence.files}
    if len(models) > 1:
        problem = f"{len(models)} different models, revisions, dtypes or backends; submit one each"
        yield Refusal("MIXED_RUNS", "results", problem)
    submitted = evidence.submission.model
    for file in evidence.files:
        name = file.path.name
        commit = as_mapping(file.content.get("config")).get("model_sha")
        dtype = file.dtype or submitted.dtype
        yield from _expect("MODEL_DIFFERS", name, "the dtype", dtype, submitted.dtype)
        if not commit:
            continue  # The weights are not of the Hub.
        yield from _expect("MODEL_DIFFERS", name, "the commit", commit, submitted.revision)
        if file.model.count("/") == 1 and not file.model.startswith((".", "/", "~")):
            model, expected = short_name(file.model), short_name(submitted.name)
            yield from _expect("MODEL_DIFFERS", name, "the model", model, expected)


def settings_are_the_rules(evidence: Evidence, rules: Rules) -> Iterator[Refusal]:
    """Versions, backends, prompts, decoding and the judge are as the leaderboard wants them."""
    for file in evidence.files:
        name = file.path.name
        adapters = [argument for argument in changing_arguments(file) if argument in ADAPTERS]
        version = str(file.versions.get("lm_eval"))
        yield from _expect("CONFIG_DIFFERS", name, "the backend", file.backend, *PLAIN_BACKENDS)
        yield from _expect("CONFIG_DIFFERS", name, "what is added to the model", adapters, [])
        if not rules.takes_lm_eval(version):
            expected = str(rules.lm_eval_versions)
            yield from _expect("LM_EVAL_UNKNOWN", name, "lm_eval", version, expected)
    for name, task in evidence.tasks.items():
        for setting, (actual, expected_values) in _settings(task, rules).items():
            yield from _expect("CONFIG_DIFFERS", name, setting, actual, *expected_values)
        if task.samples is not None and task.samples.request_problem:
            problem = f"{task.samples.request_problem}; leave out whatever changes prompts"
            yield Refusal("CONFIG_DIFFERS", name, problem)
        benchmark = find_benchmark(task.task.kind)
        if task.rules.judge_prompts or (benchmark and benchmark.judging):
            yield from _judge_refusals(evidence, task, rules)


def data_is_as_published(evidence: Evidence, rules: Rules) -> Iterator[Refusal]:
    """The whole published data was run, and the documents in the samples are those of the data."""
    for name, task in evidence.tasks.items():
        limit = as_mapping(task.file.content.get("config")).get("limit")
        blob = as_mapping(task.task.metadata.get("data")).get("git_blob")
        documents = [task.task.effective, task.task.num_samples]
        yield from _expect("LIMIT_RUN", name, "--limit", limit, None)
        yield from _expect("LIMIT_RUN", name, "documents", documents, 2 * [task.rules.documents])
        yield from _expect("WRONG_DATA", name, "git_blob", blob, task.rules.git_blob)
        if task.samples is not None and not task.samples.problem:
            yield from _document_refusals(task, task.samples)


def scores_follow_from_samples(evidence: Evidence, rules: Rules) -> Iterator[Refusal]:
    """The samples are those of the run, and they give the scores in the results."""
    for name, task in evidence.tasks.items():
        headline = task.rules.headline
        if headline and not math.isfinite(task.task.metrics.get(headline, math.nan)):
            problem = f"{headline}, by which the leaderboard ranks, is missing or no number"
            yield Refusal("RESULTS_INVALID", name, problem)
        if task.samples is not None:
            yield from _sample_refusals(task, task.samples)
        if task.correction_problem:
            yield Refusal("CORRECTION_CHANGED", name, task.correction_problem)


def unscored_rows_cannot_win(evidence: Evidence, rules: Rules) -> Iterator[Refusal]:
    """The number of unscored items is known, and below the limit of the rules.

    Ranks then go by the score if all unscored items were wrong.
    """
    for name, evidence_of_task in evidence.tasks.items():
        task = evidence_of_task.task
        unscored = number_of(task.metrics.get("unscored"))
        if unscored is None:
            problem = "does not say how many responses are unscored"
            yield Refusal("RESULTS_INVALID", name, problem)
        elif unscored > rules.max_unscored * items_of(task):
            found = f"{int(unscored)} of {items_of(task)} responses are unscored"
            problem = f"{found}, at most {rules.max_unscored:.1%} may be"
            yield Refusal("UNSCORED_TOO_MANY", name, problem)


Check = Callable[[Evidence, Rules], Iterable[Refusal]]

CHECKS: tuple[Check, ...] = (
    files_are_complete,
    runs_are_of_one_model,
    settings_are_the_rules,
    data_is_as_published,
    scores_follow_from_samples,
    unscored_rows_cannot_win,
)


def _expect(code: str, where: str, name: str, actual: Any, *expected: Any) -> Iterator[Refusal]:
    """Refuse what is none of the expected values."""
    if actual not in expected:
        values = " or ".join(short(value, _LONGEST_VALUE) for value in expected)
        found = f"{name} is {short(actual, _LONGEST_VALUE)}, expected {values}"
        yield Refusal(code, where, f"{found}; run it with the leaderboard's config, on all rows")


def _settings(evidence: TaskEvidence, rules: Rules) -> dict[str, tuple[Any, Sequence[Any]]]:
    """By name, a setting of a run and the values that it may have."""
    content, task, expected = evidence.file.content, evidence.task, evidence.rules
    config = as_mapping(content.get("config"))
    shots = as_mapping(content.get("n-shot")).get(task.task, task.config.get("num_fewshot"))
    settings: dict[str, tuple[Any, Sequence[Any]]] = {
        "version": (task.version, [expected.version]),
        "suite_version": (task.metadata.get("suite_version"), rules.suite_versions),
        "num_fewshot": (shots, [0]),
        "bootstrap_iters": (bool(config.get("bootstrap_iters", True)), [True]),
        "system_instruction": (bool(content.get("system_instruction")), [False]),
    }
    for name, value in expected.metadata.items():
        settings[name] = (task.metadata.get(name), [value])
    if expected.generation_kwargs is not None:
        decoding = task.config.get("generation_kwargs")
        settings["generation_kwargs"] = (decoding, [expected.generation_kwargs])
        settings["repeats"] = (task.config.get("repeats"), [expected.repeats])
        tokens = thinking_tokens_of(task)
        settings["thinking_tokens"] = (tokens, [max(0, min(tokens, rules.thinking_tokens))])
    if not rules.chat_template:
        settings["chat_template"] = (has_template(evidence.file), [False])
    return settings


def _judge_refusals(
    evidence: Evidence, evidence_of_task: TaskEvidence, rules: Rules
) -> Iterator[Refusal]:
    """What of the judge is not as the rules want it: its coefficients, prompts and certificate."""
    task = evidence_of_task.task
    judge = task.metadata.get("judge_config")
    if not isinstance(judge, dict) or not isinstance(judge.get("prompt_hashes"), dict):
        problem = "judge_config with prompt_hashes is missing; run it again"
        yield Refusal("RESULTS_INVALID", task.task, problem)
        return
    options = as_mapping(judge.get("options"))
    coefficients = options.get("coefficients")
    yield from _expect("CONFIG_DIFFERS", task.task, "the judge's coefficients", coefficients, None)
    certificates = _certificates(evidence, task)
    expected_prompts = evidence_of_task.rules.judge_prompts
    for problem in _prompt_problems(judge, certificates.values(), expected_prompts):
        yield Refusal("CONFIG_DIFFERS", task.task, problem)
    for place, content in certificates.items():
        for problem in certificate_problems(content, judge, rules.suite_versions):
            yield Refusal("CERTIFICATE_MISMATCH", task.task, f"{place}: {problem}")
    are_published = [is_on_published_data(content) for content in certificates.values()]
    if rules.certificate == "published" and not any(are_published):
        problem = "no certificate that was made on the published data"
    elif rules.certificate == "any" and not certificates:
        problem = "no certificate"
    else:
        return
    advice = (
        "make one by lm-factuality certify --judge CONFIG --out certificate.json; pack with"
        " --certificate"
    )
    yield Refusal("JUDGE_UNCERTIFIED", task.task, f"{problem}: {advice}")


def _certificates(evidence: Evidence, task: TaskResult) -> dict[str, Mapping[str, Any]]:
    """The packed certificate by its path, and those that the run attached by their setting."""
    certificates: dict[str, Mapping[str, Any]] = {}
    if evidence.submission.certificate is not None:
        certificates[evidence.submission.certificate] = evidence.certificate
    for setting, content in as_mapping(task.metadata.get("judge_certificate")).items():
        certificates[f"judge_certificate.{setting}"[:80]] = as_mapping(content)
    return certificates


def _prompt_problems(
    judge: Mapping[str, Any],
    certificates: Iterable[Mapping[str, Any]],
    expected: Mapping[str, str],
) -> Iterator[str]:
    """Prompts are those of the rules, or those that the certificate of the judge names."""
    hashes = judge["prompt_hashes"]
    if set(hashes) != set(expected):
        yield f"the judge was asked with other prompts than {', '.join(expected)}; run it again"
    certified: dict[str, str] = {}
    for content in certificates:
        certified.update(replaced_prompt_hashes(content.get("identity")) or {})
    for name, digest in hashes.items():
        is_replaced = name in (judge.get("prompts") or {})
        if digest != (certified if is_replaced else expected).get(name):
            origin = "that was certified" if is_replaced else "of the leaderboard"
            yield f"the judge's prompt {str(name)[:60]} is not the one {origin}"


def _document_refusals(evidence: TaskEvidence, samples: SampleEvidence) -> Iterator[Refusal]:
    """Documents that are missing, there twice, or not of the published data."""
    rules = evidence.rules
    times = Counter(samples.doc_ids)
    expected = range(rules.documents)
    doc_ids = sorted({*times, *expected})
    wrong = [doc_id for doc_id in doc_ids if times[doc_id] != (1 if doc_id in expected else 0)]
    digest = samples.documents.hexdigest()
    if wrong:
        numbers = listed([shown_number(doc_id) for doc_id in wrong])
        problem = f"{len(wrong)} rows are missing, unknown or there twice: doc_id {numbers}"
        advice = f"expected 0 to {expected[-1]} once each; run the whole task again"
        yield Refusal("ROWS_DIFFER", rules.task, f"{problem}; {advice}")
    if evidence.data_problem:
        yield Refusal("DATA_UNAVAILABLE", rules.task, evidence.data_problem)
    elif not wrong and digest != evidence.published_digest:
        digests = f"digest {digest[:12]}, expected {evidence.published_digest[:12]}"
        found = f"the documents in the samples are not the published ones ({digests})"
        advice = "run the task on the published data, as this version of the suite has it"
        yield Refusal("WRONG_DATA", rules.task, f"{found}; {advice}")


def _sample_refusals(evidence: TaskEvidence, samples: SampleEvidence) -> Iterator[Refusal]:
    name = evidence.rules.task
    if samples.problem:
        yield Refusal("SAMPLES_INVALID", name, samples.problem)
        return
    if samples.hash_problems:
        problem = "; ".join(samples.hash_problems[:_MOST_PROBLEMS])
        yield Refusal("SAMPLES_CHANGED", name, f"{problem}; run the task again")
    elif as_mapping(evidence.file.content.get("task_hashes")).get(name) != hash_of(samples.hashes):
        problem = "the results were made from other samples: task_hashes differs"
        yield Refusal("SAMPLES_CHANGED", name, problem)
    if samples.score_problems:
        problems = listed(samples.score_problems, _MOST_PROBLEMS)
        yield Refusal("SCORE_CHANGED", name, problems)


def _run_again(rules: Rules) -> str:
    return f"run: lm-factuality run --config configs/leaderboard/{rules.name}.yaml"
