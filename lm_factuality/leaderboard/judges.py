"""Whether the judge that marked the responses was asked as the leaderboard wants it, and has a
certificate of its own; and the judge without a model asked again, which needs nothing that a
submission does not hold and always says the same."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from judges.answers import Answer, Request
from judges.backends import capabilities, open_backend
from judges.config import JudgeConfig, known_keys
from judges.judge import Judge, Subjects
from lm_factuality import __version__
from lm_factuality.benchmarks import find_benchmark
from lm_factuality.benchmarks.certifiable import Wanted, mapping, whole_scores
from lm_factuality.benchmarks.certified import (
    all_settings,
    is_published,
    own_hashes,
    wrong_certificate,
)
from lm_factuality.ground.errors import FactualityError, listed
from lm_factuality.ground.files import parse_json
from lm_factuality.ground.published import blob_id
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import responses_of, verdict_of
from lm_factuality.leaderboard.documents import published_here
from lm_factuality.leaderboard.rules import Rules, TaskRules
from lm_factuality.leaderboard.submission import Refusal, Submission, SubmittedCertificate
from lm_factuality.results.recompute import same

_MOST_SAMPLES = 1000  # answers of a judge to one question
_SAMPLE = tasks_folder() / "sample" / "sample_felm.jsonl"  # what certify --sample is on
_ROUNDED = 1e-3  # the judge writes probabilities with four digits


def is_judged(task: TaskResult) -> bool:
    benchmark = find_benchmark(task.kind)
    return benchmark is not None and benchmark.judging is not None


def check_judge(
    folder: Path, submission: Submission, task: TaskResult, expected: TaskRules, rules: Rules
) -> list[Refusal]:
    if not is_judged(task) and not expected.judge_prompts:
        return []
    judge = task.metadata.get("judge_config")
    if not isinstance(judge, dict) or not isinstance(judge.get("prompt_hashes"), dict):
        return [
            Refusal(
                "RESULTS_INVALID",
                task.task,
                "judge_config with prompt_hashes is missing; run it again",
            )
        ]
    given = submission.certificate
    return [
        *_config(task, judge),
        *_prompts(given, task, judge, expected),
        *_certificate(folder, given, task, judge, rules),
    ]


def _config(task: TaskResult, judge: Mapping[str, Any]) -> Iterator[Refusal]:
    backend, samples = judge.get("backend"), judge.get("samples")
    known = known_keys(str(backend))
    if not known:
        yield Refusal(
            "CONFIG_DIFFERS", task.task, f"the judge's backend {str(backend)[:40]!r} is unknown"
        )
    elif unknown := sorted(set(judge) - known - {"name", "prompt_hashes"}):
        yield Refusal(
            "CONFIG_DIFFERS",
            task.task,
            f"the judge has {unknown[0][:40]!r}, which no judge of {backend} has",
        )
    if (
        not isinstance(samples, int)
        or isinstance(samples, bool)
        or not 1 <= samples <= _MOST_SAMPLES
    ):
        yield Refusal("CONFIG_DIFFERS", task.task, "the judge's number of samples is not a number")
    options = judge.get("options") or {}
    can = capabilities(str(backend))
    if can.is_reproducible and not (
        isinstance(options, dict) and set(options) <= set(can.portable_options)
    ):
        yield Refusal(
            "CONFIG_DIFFERS",
            task.task,
            f"the {backend} judge has coefficients of its own; run with the suite's",
        )


def _prompts(
    given: SubmittedCertificate | None,
    task: TaskResult,
    judge: Mapping[str, Any],
    expected: TaskRules,
) -> Iterator[Refusal]:
    """Prompts are those of the rules, but for those that the judge replaces, which its certificate
    has to name."""
    hashes, own = judge["prompt_hashes"], judge.get("prompts") or {}
    if set(hashes) != set(expected.judge_prompts):
        names = ", ".join(expected.judge_prompts)
        yield Refusal(
            "CONFIG_DIFFERS",
            task.task,
            f"the judge was asked with other prompts than {names}; run it again",
        )
    # What the judge replaces, by its certificates.
    certified: dict[str, str] = {}
    for content in _contents(given, task).values():
        certified |= own_hashes(content.get("identity")) or {}
    for name, found in hashes.items():
        wanted = certified.get(name) if name in own else expected.judge_prompts.get(name)
        if found != wanted:
            whose = "the one that was certified" if name in own else "the one of the leaderboard"
            yield Refusal(
                "CONFIG_DIFFERS", task.task, f"the judge's prompt {str(name)[:60]} is not {whose}"
            )


def _contents(given: SubmittedCertificate | None, task: TaskResult) -> dict[str, Mapping[str, Any]]:
    """The certificates: the packed one by its path, and those that the run attached by their
    settings."""
    found = mapping(task.metadata.get("judge_certificate"))
    packed = {} if given is None else {given.path: given.content}
    return packed | {
        f"judge_certificate.{key}"[:80]: each
        for key, each in found.items()
        if isinstance(each, dict)
    }


def _certificate(
    folder: Path,
    given: SubmittedCertificate | None,
    task: TaskResult,
    judge: Mapping[str, Any],
    rules: Rules,
) -> Iterator[Refusal]:
    if given is not None and not _is_file(folder, given):
        yield Refusal(
            "CLAIM_DIFFERS", "certificate", f"the content is not that of {given.path}; pack again"
        )
    contents = _contents(given, task)
    for where, content in contents.items():
        for wrong in (
            *wrong_certificate(content, judge, rules.suite_versions),
            *_not_so(content, judge),
        ):
            yield Refusal("CERTIFICATE_MISMATCH", task.task, f"{where}: {wrong}")
    if rules.certificate == "none":
        return
    if not contents:
        advice = (
            "make one by lm-factuality certify --judge CONFIG --out certificate.json; pack with"
            " --certificate"
        )
        yield Refusal("JUDGE_UNCERTIFIED", task.task, f"no certificate: {advice}")
    elif rules.certificate == "published" and not any(map(is_published, contents.values())):
        yield Refusal(
            "JUDGE_UNCERTIFIED",
            task.task,
            "no certificate was made on the published data; certify again on that",
        )


def _not_so(content: Mapping[str, Any], judge: Mapping[str, Any]) -> Iterator[str]:
    """That a certificate has other scores than one made now: of a judge that says the same
    anywhere, on data that is here."""
    setting, blob = (
        all_settings().get(str(content.get("setting"))),
        mapping(content.get("data")).get("git_blob"),
    )
    is_sample, backend = blob == blob_id(_SAMPLE), str(judge.get("backend"))
    path = _SAMPLE if is_sample else published_here().get(str(blob))
    if path is None or setting is None or content.get("suite_version") != __version__:
        return
    # A certificate does not say by which claims or files it was made.
    if (
        capabilities(backend).is_reproducible
        and "files" not in setting.takes
        and not setting.name.startswith("claim")
    ):
        options = json.dumps(judge.get("options") or {}, sort_keys=True)
        found = _certified(setting.name, "" if is_sample else str(path.parent), backend, options)
        if not same(found, {level: whole_scores(content).get(level) for level in found}, _ROUNDED):
            yield "made again, it has other scores; certify this judge, and pack again"


@cache
def _certified(setting: str, folder: str, backend: str, options: str) -> Mapping[str, Any]:
    trial = all_settings()[setting].open(Wanted(data_dir=folder) if folder else Wanted(sample=True))
    measured = trial.measure(_Offline({"backend": backend, "options": json.loads(options)}))
    return whole_scores(json.loads(json.dumps(measured)))


def _is_file(folder: Path, given: SubmittedCertificate) -> bool:
    try:
        return bool(parse_json((folder / given.path).read_text(encoding="utf-8")) == given.content)
    except (OSError, ValueError, RecursionError):
        return False


def can_ask_again(task: TaskResult) -> bool:
    """Whether the judge gives the same answers anywhere: of this version of the suite, and without
    a model."""
    judge, version = task.metadata.get("judge_config"), task.metadata.get("suite_version")
    if not isinstance(judge, dict) or version != __version__ or not is_judged(task):
        return False
    return capabilities(str(judge.get("backend"))).is_reproducible


def check_again(task: TaskResult, samples: Sequence[Mapping[str, Any]]) -> Iterator[Refusal]:
    """What the judge, asked again, says otherwise than the records in ``samples``."""
    judge, benchmark = task.metadata["judge_config"], find_benchmark(task.kind)
    assert benchmark is not None
    assert benchmark.judging is not None
    docs, responses = [row["doc"] for row in samples], [responses_of(row) for row in samples]
    try:
        records = benchmark.judging.generation(task.metadata).judge(
            _Offline(judge), docs, responses
        )
    except FactualityError as error:
        yield Refusal(
            "SCORE_CHANGED",
            task.task,
            f"the {judge['backend']} judge cannot be asked again: {error}",
        )
        return
    pairs = zip(samples, records, strict=True)
    wrong = [
        str(row["doc_id"])[:15]
        for row, record in pairs
        if not same(record, verdict_of(row), _ROUNDED)
    ]
    if wrong:
        said = f"the {judge['backend']} judge says otherwise when asked again; run the task again"
        yield Refusal("SCORE_CHANGED", task.task, f"doc_id {listed(wrong)}: {said}")


class _Offline(Judge):
    """A judge without a store, and without prompts, which its backend does not read."""

    def __init__(self, judge: Mapping[str, Any]) -> None:
        backend, options = str(judge["backend"]), judge.get("options") or {}
        portable = {
            name: options[name]
            for name in capabilities(backend).portable_options
            if name in options
        }
        self.config = JudgeConfig(
            backend, backend, options=portable, samples=int(judge.get("samples", 1))
        )
        self._backend = open_backend(self.config)

    def _requests(
        self,
        prompt_name: str,
        subjects: Subjects,
        samples: int | None,
        changes: Mapping[str, Any],
        schema: str = "",
    ) -> list[Request]:
        return [Request("", subject=subject) for subject in subjects]

    def _answers(self, requests: Sequence[Request], description: str) -> list[Answer]:
        return [answer for _, answer in self._backend.answer(requests)]
