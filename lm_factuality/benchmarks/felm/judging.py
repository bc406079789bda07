"""A judge works through FELM: every row asked in one setting, every answer read, and claims
extracted (appendix D, table 5); and is certified on it, with intervals and beside judges that do
not read."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from judges.answers import Answer
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.verify import SUPPORTED, Pair, verify
from lm_factuality.benchmarks.certifiable import Certifiable, Wanted
from lm_factuality.benchmarks.felm import rows as felm_rows
from lm_factuality.benchmarks.felm.metrics import (
    ALL,
    LEVELS,
    MEASURES,
    count_response,
    of_totals,
    to_report,
)
from lm_factuality.benchmarks.felm.questions import (
    MODES,
    UNITS,
    AuthorsPrompts,
    Question,
    Questioner,
    extraction_subject,
)
from lm_factuality.benchmarks.felm.rows import FELM, FelmRow, RowClaims
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.errors import BackendDown, ConfigError
from lm_factuality.ground.published import blob_id, locate
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.generation import Table
from lm_factuality.scores.statistics import interval_of, pooled_interval

AS_GIVEN, CLAIM_PROMPT = "felm/as_given", "felm/extract_claims"


def judge_rows(
    judge: Judge,
    rows: Sequence[FelmRow],
    questioner: Questioner,
    claims: Mapping[str, RowClaims],
    authors: AuthorsPrompts | None = None,
) -> list[JudgedResponse]:
    """Every row with the judge's verdict; several samples are voted on. ``authors`` are prompts in
    place of the suite's."""
    questions: dict[str, Question] = {}
    for row in rows:
        own = claims.get(row.index)
        if questioner.unit_of(row) == "segment" or (own and own.problem is None and own.numbered()):
            asked = questioner.ask(row, own)
            as_given = authors and replace(
                asked,
                prompt=AS_GIVEN,
                subject={**asked.subject, "text": authors.render(row, asked)},
            )
            questions[row.index] = as_given or asked
    answers: dict[str, Sequence[Answer]] = {}
    for prompt in dict.fromkeys(question.prompt for question in questions.values()):
        subjects = {
            index: question.subject
            for index, question in questions.items()
            if question.prompt == prompt
        }
        answers |= zip(
            subjects, judge.ask(prompt, list(subjects.values()), f"FELM, {prompt}"), strict=True
        )
    return [_read(row, questioner, claims.get(row.index), answers.get(row.index)) for row in rows]


def extract_claims(
    judge: Judge, rows: Sequence[FelmRow], tokens: int, authors: AuthorsPrompts | None = None
) -> list[RowClaims]:
    """The claims of every row, or its problem. ``authors`` are prompts in place of the suite's."""
    subjects = [extraction_subject(row) for row in rows]
    if authors is None:
        how: dict[str, Any] = {"samples": 1, "max_tokens": tokens, "check": felm_rows.check_claims}
        read = judge.ask_typed(CLAIM_PROMPT, felm_rows.ClaimsReply, subjects, "claims", **how)
    else:
        pairs = zip(rows, subjects, strict=True)
        subjects = [
            {**subject, "text": authors.render_extraction(row, subject)} for row, subject in pairs
        ]
        answers = judge.ask(AS_GIVEN, subjects, "claims", samples=1, max_tokens=tokens)
        read = [
            [felm_rows.read_text(answer, subject)]
            for subject, (answer,) in zip(subjects, answers, strict=True)
        ]
    return [
        felm_rows.to_claims(row, reply, judge.name)
        for row, (reply,) in zip(rows, read, strict=True)
    ]


def _read(
    row: FelmRow, questioner: Questioner, claims: RowClaims | None, answers: Sequence[Answer] | None
) -> JudgedResponse:
    if answers is None:
        return judge_response(
            row.index, row.domain, row.labels, (), problem="no claims for this row"
        )
    texts = [answer for answer in answers if answer.text is not None]
    owners = claims.owners() if claims and questioner.unit_of(row) == "claim" else None
    problem, ends = (
        None if texts else answers[0].error or "no answer",
        [answer.is_cut_off for answer in texts],
    )
    about = row.index, row.domain, row.labels, [answer.text or "" for answer in texts]
    return judge_response(
        *about, owners=owners, protocol=questioner.protocol, problem=problem, cut_off=ends
    )


def baselines(responses: Sequence[JudgedResponse]) -> dict[str, list[JudgedResponse]]:
    """As judges flag them who do not read: at random with the share of segments that hold an
    error."""
    errors = [error for each in responses for error in each.errors]

    def flagged(share: float) -> list[JudgedResponse]:
        draw = random.Random(0)
        return [
            replace(each, flagged=tuple(draw.random() < share for _ in each.errors), reason=None)
            for each in responses
        ]

    shares = {"everything": 1.0, "nothing": 0.0, "at random": sum(errors) / max(1, len(errors))}
    return {f"flag {name}": flagged(share) for name, share in shares.items()}


_BINS = 10
_SHOWN = ("f1", "precision", "recall", "balanced_accuracy")


class FelmTrial:
    """All rows of FELM, asked about by ``unit`` and ``mode``; the ``Trial`` of a setting."""

    def __init__(self, unit: str, mode: str, wanted: Wanted) -> None:
        """Raises ConfigError, DataError: the data, the claims or the authors' prompts."""
        path = (
            tasks_folder() / "sample" / "sample_felm.jsonl"
            if wanted.sample
            else locate(FELM, wanted.data_dir).path
        )
        blob = blob_id(path)
        self.data = {"file": path.name, "git_blob": blob, "is_published": blob == FELM.blob}
        self._rows = felm_rows.read_rows(path)
        self._questioner = Questioner(unit, mode)
        self._claims: Mapping[str, RowClaims] = {}
        if unit == "claim":
            by_rules = {row.index: felm_rows.split_claims(row) for row in self._rows}
            self._claims = (
                felm_rows.read_claims(wanted.claims, self._rows) if wanted.claims else by_rules
            )
        elif wanted.claims:
            raise ConfigError(
                "--claims is for the claim settings: add --setting claim_cot, or another of them"
            )
        self._authors = AuthorsPrompts(wanted.prompts) if wanted.prompts else None
        reader = "cot" if mode == "cot" else "vanilla"
        self._prompts = {f"felm/{unit}_{mode}", f"felm/segment_{reader}"}

    def ask(self, judge: Judge) -> list[JudgedResponse]:
        return judge_rows(judge, self._rows, self._questioner, self._claims, self._authors)

    def measure(self, judge: Judge) -> dict[str, Any]:
        """The scores, their 95% bootstrap intervals over responses, and those of judges that do not
        read, on all responses and on those alone that the judge has a verdict on."""
        responses = self.ask(judge)
        scored = [each for each in responses if each.flagged is not None]
        if not scored:
            raise BackendDown(
                f"judge {judge.name}: no verdict on any of {len(responses)} responses, the first:"
                f" {responses[0].reason}; there is nothing to certify"
            )
        found: dict[str, Any] = {"scores": to_report(responses, "paper"), "intervals": {}}
        for level in LEVELS:
            rows = [count_response(each, level) for each in scored]
            found["intervals"][level] = {
                name: interval_of(pooled_interval(rows, of_totals(name))) for name in MEASURES
            }
        for key, part in (("baselines", responses), ("baselines_where_scored", scored)):
            found[key] = {
                name: to_report(each, "paper")[ALL] for name, each in baselines(part).items()
            }
        return (
            found
            if judge.config.capabilities.reads_prompts
            else found | {"calibration": calibrate(judge, self._rows)}
        )

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        return (
            {"authors": self._authors.hash()}
            if self._authors
            else judge.prompts.hashes(self._prompts)
        )

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        scores, unscored = certificate["scores"], certificate["scores"]["unscored"]
        kinds = {"": "baselines"} | (
            {" where it has a verdict": "baselines_where_scored"} if unscored["responses"] else {}
        )
        rows = []
        for level in LEVELS:
            named = [(judge, scores[ALL], interval(certificate["intervals"][level]["f1"]))]
            named += [
                (f"  {name}", found, "")
                for name, found in scores.items()
                if name not in (ALL, "unscored")
            ]
            named += [
                (f"{name}{where}", found, "")
                for where, key in kinds.items()
                for name, found in certificate[key].items()
            ]
            rows += [
                (f"{name}, {level}", *(shown(found[level][key]) for key in _SHOWN), ends)
                for name, found, ends in named
            ]
        notes = [
            f"unscored: {unscored['responses']} of the responses, {unscored['segments']} segments"
        ]
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
        if bins := certificate.get("calibration"):
            notes += [
                "Calibration, segments with references by the probability given (supported by the"
                " labels, wrong verdicts):"
            ]
            found = (
                "  {low:.1f} - {high:.1f}: {units} segments, {supported} supported, {wrong} wrong"
            )
            notes += [found.format(**each) for each in bins]
        return (
            (
                "judge, level",
                "#F1",
                "#precision",
                "#recall",
                "#balanced accuracy",
                "#95% interval of F1",
            ),
            rows,
            notes,
        )


def _settings() -> Iterator[Certifiable]:
    defaults: Mapping[str, Callable[[JudgeConfig], bool]] = {
        "segment_doc": lambda config: config.capabilities.needs_evidence,
        "segment_cot": lambda config: not config.capabilities.needs_evidence,
    }
    for unit, mode in product(UNITS, MODES):
        name = f"{unit}_{mode}"
        yield Certifiable(
            name,
            what="finding errors",
            headline=("segment", "f1"),
            label="F1 of segments with errors",
            blob=FELM.blob,
            open=partial(FelmTrial, unit, mode),
            takes=("sample", "claims", "prompts"),
            is_default=defaults.get(name, lambda config: False),
        )


SETTINGS: Mapping[str, Certifiable] = {each.name: each for each in _settings()}
# Those that come nearest to marking the segments of a text, the best first: what other benchmarks
# have a judge do.
SEGMENTS = tuple(SETTINGS[f"segment_{mode}"] for mode in ("cot", "doc", "link", "vanilla"))


def calibrate(judge: Judge, rows: Sequence[FelmRow]) -> list[dict[str, Any]]:
    """How often ``judge`` is right about a segment with references, by the probability that it
    gives: of each tenth the number of ``units``, how many are ``supported`` by the labels, and on
    how many its verdict is ``wrong``."""
    questioner = Questioner("segment", "doc")
    known = [(row, questioner.ask(row).subject) for row in rows]
    asked = [
        (Pair(unit, tuple(subject["passages"])), label)
        for row, subject in known
        if subject["passages"]
        for unit, label in zip(subject["units"], row.labels, strict=True)
    ]
    bins = [
        {"low": each / _BINS, "high": (each + 1) / _BINS, "units": 0, "supported": 0, "wrong": 0}
        for each in range(_BINS)
    ]
    for found, (_, label) in zip(
        verify(judge, [pair for pair, _ in asked], "calibrating"), asked, strict=True
    ):
        if found.score is not None:
            bin_ = next(each for each in reversed(bins) if each["low"] <= found.score)
            bin_["units"] += 1
            bin_["supported"] += label
            bin_["wrong"] += (found.verdict == SUPPORTED) != label
    return bins
