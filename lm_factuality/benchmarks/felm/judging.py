"""A judge works through FELM: every row asked in one setting, every answer read, and claims
extracted (appendix D, table 5); and is certified on it, with intervals and beside judges that do
not read."""

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any

from judges.answers import Answer
from judges.judge import Judge
from judges.verify import SUPPORTED, Pair, verify
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertifyOptions
from lm_factuality.benchmarks.felm.metrics import (
    ALL,
    LEVELS,
    MEASURES,
    count_response,
    of_totals,
    pooled_scores,
    to_report,
)
from lm_factuality.benchmarks.felm.questions import (
    MODES,
    UNITS,
    FelmSettings,
    Mode,
    Unit,
    extraction_subject,
)
from lm_factuality.benchmarks.felm.rows import (
    FELM,
    RULES,
    ClaimsReply,
    FelmRow,
    RowClaims,
    check_claims,
    read_rows,
    to_claims,
)
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, judge_response
from lm_factuality.ground.console import interval, shown
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.generation import JsonObject, Table
from lm_factuality.harness.own_data import find_data
from lm_factuality.scores.statistics import interval_of, pooled_interval

CLAIM_PROMPT = "felm/extract_claims"
CLAIM_TOKENS = 1500  # that a judge may write for a row, as in appendix D


def extract_claims(judge: Judge, rows: Sequence[FelmRow]) -> list[RowClaims]:
    """Return the claims of every row, or its problem.

    Args:
        judge: The judge that extracts them.
        rows: The rows.
    """
    replies = judge.ask_typed(
        CLAIM_PROMPT,
        ClaimsReply,
        [extraction_subject(row) for row in rows],
        "claims",
        check_claims,
        samples=1,
        max_tokens=CLAIM_TOKENS,
    )
    return [to_claims(row, reply, judge.name) for row, (reply,) in zip(rows, replies, strict=True)]


def baselines(responses: Sequence[JudgedResponse]) -> JsonObject:
    """Return the scores of judges that do not read, on the same responses.

    The one that flags at random does so with the share of segments that hold an error.
    """
    errors = list(chain.from_iterable(response.errors for response in responses))
    shares = {"everything": 1.0, "nothing": 0.0, "at random": sum(errors) / max(1, len(errors))}
    reports = {}
    for name, share in shares.items():
        draw = random.Random(0)
        flagged = []
        for response in responses:
            flags = tuple(draw.random() < share for _ in response.errors)
            flagged.append(replace(response, flagged=flags))
        reports[f"flag {name}"] = pooled_scores(flagged)
    return reports


_BINS = 10
_CALIBRATED = (
    "segments with references and a probability of {low:.1f} to {high:.1f}: {units}, {supported}"
    " supported by the labels, {wrong} wrong verdicts"
)


class FelmTrial:
    """All rows of FELM, asked about by ``unit`` and ``mode``; the ``Trial`` of a setting."""

    def __init__(self, unit: Unit, mode: Mode, wanted: CertifyOptions) -> None:
        """Read the rows and their claims.

        Raises:
            DataError: The data or the claims cannot be read.
        """
        sample = tasks_folder() / "sample" / "sample_felm.jsonl" if wanted.sample else None
        path, self.data = find_data(sample, FELM, wanted.data_dir)
        self._rows = read_rows(path)
        claims = str(wanted.claims or RULES)
        self._settings = FelmSettings(unit, mode, claims=claims)
        self._claims = self._settings.claims_of(self._rows)

    def ask(self, judge: Judge) -> list[JudgedResponse]:
        """Return the judge's verdict on every row; several samples are voted on."""
        subjects: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in self._rows:
            question = self._settings.ask(row, self._claims.get(row.index))
            if question is not None:
                subjects.setdefault(question.prompt, {})[row.index] = question.subject
        answers: dict[str, Sequence[Answer]] = {}
        for prompt, subject_of in subjects.items():
            replies = judge.ask(prompt, list(subject_of.values()), f"FELM, {prompt}")
            answers |= zip(subject_of, replies, strict=True)
        judged = []
        for row in self._rows:
            claims = self._claims.get(row.index)
            response = judge_response(
                row.domain,
                row.labels,
                answers.get(row.index, ()),
                owners=claims.owners() if claims else (),
                problem="" if row.index in answers else "no claims for this row",
            )
            judged.append(response)
        return judged

    def measure(self, judge: Judge) -> JsonObject:
        """Return the scores, their intervals, and those of judges that do not read.

        Intervals are 95% bootstrap intervals over responses. Judges that do not read are measured
        on all responses, and on those alone that the judge has a verdict on.
        """
        responses = self.ask(judge)
        scored = [response for response in responses if response.flagged is not None]
        if not scored:
            raise BackendDownError(
                f"judge {judge.name}: no verdict on any of {len(responses)} responses, the first:"
                f" {responses[0].reason}; there is nothing to certify"
            )
        intervals = {}
        for level in LEVELS:
            counts = [count_response(response, level) for response in scored]
            intervals[level] = {
                name: interval_of(pooled_interval(counts, of_totals(name))) for name in MEASURES
            }
        measured: JsonObject = {
            "scores": to_report(responses, "paper"),
            "intervals": intervals,
            "baselines": baselines(responses),
            "baselines_where_scored": baselines(scored),
        }
        if not judge.config.capabilities.reads_prompts:
            measured["calibration"] = calibrate(judge, self._rows)
        return measured

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        unit, mode = self._settings.unit, self._settings.mode
        without_references = "cot" if mode == "cot" else "vanilla"
        used = {f"felm/{unit}_{mode}", f"felm/segment_{without_references}"}
        return judge.prompts.hashes(used)

    def table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        scores = certificate["scores"]
        unscored = scores["unscored"]
        parts = {judge: scores[ALL]}
        parts |= {f"  {name}": scores[name] for name in unscored["domains"]}
        parts |= certificate["baselines"]
        if unscored["responses"]:
            for name, part in certificate["baselines_where_scored"].items():
                parts[f"{name} where it has a verdict"] = part
        rows = []
        for level in LEVELS:
            for name, part in parts.items():
                ends = interval(certificate["intervals"][level]["f1"]) if name == judge else ""
                cells = [shown(part[level][measure]) for measure in MEASURES]
                rows.append((f"{name}, {level}", *cells, ends))
        notes = [
            f"unscored: {unscored['responses']} of the responses, {unscored['segments']} segments"
        ]
        notes += [f"  {count} x {reason}" for reason, count in unscored["reasons"].items()]
        for counts in certificate.get("calibration", ()):
            notes.append(_CALIBRATED.format(**counts))
        names = [f"#{measure.replace('_', ' ')}" for measure in MEASURES]
        return ("judge, level", *names, "#95% interval of F1"), rows, notes


def _setting(unit: Unit, mode: Mode) -> CertifiableSetting:
    name = f"{unit}_{mode}"
    needs_evidence = {"segment_doc": True, "segment_cot": False}.get(name)
    return CertifiableSetting(
        name,
        "finding errors",
        ("segment", "f1"),
        "F1 of segments with errors",
        FELM.blob,
        partial(FelmTrial, unit, mode),
        accepted_options=("sample", "claims") if unit == "claim" else ("sample",),
        is_default=lambda config: config.capabilities.needs_evidence is needs_evidence,
    )


SETTINGS = {f"{unit}_{mode}": _setting(unit, mode) for unit, mode in product(UNITS, MODES)}
# Those that come nearest to marking the segments of a text, the best first: what other benchmarks
# have a judge do.
SEGMENTS = tuple(SETTINGS[f"segment_{mode}"] for mode in ("cot", "doc", "link", "vanilla"))


def calibrate(judge: Judge, rows: Sequence[FelmRow]) -> list[JsonObject]:
    """Measure how often a judge is right about a segment, by the probability that it gives.

    Returns:
        For each tenth the number of ``units``, how many are ``supported`` by the labels, and on how
        many the judge's verdict is ``wrong``. Only segments with references count.
    """
    settings = FelmSettings("segment", "doc")
    pairs = []
    is_factual: list[bool] = []
    for row in rows:
        question = settings.ask(row)
        if question and question.subject["passages"]:
            evidence = tuple(question.subject["passages"])
            pairs += [Pair(unit, evidence) for unit in question.subject["units"]]
            is_factual += row.labels
    lows = [place / _BINS for place in range(_BINS)]
    bins = [
        {"low": low, "high": (place + 1) / _BINS, "units": 0, "supported": 0, "wrong": 0}
        for place, low in enumerate(lows)
    ]
    for verdict, label in zip(verify(judge, pairs, "calibrating"), is_factual, strict=True):
        if verdict.score is not None:
            counts = bins[bisect(lows, verdict.score) - 1]
            counts["units"] += 1
            counts["supported"] += label
            counts["wrong"] += (verdict.verdict == SUPPORTED) != label
    return bins
