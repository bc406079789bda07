"""Judges at work on FELM: they extract claims (appendix D of the paper) and are certified.

``lm-factuality claims extract`` calls `extract_claims`, and ``lm-factuality certify`` runs a
`FelmTrial` for one of `SETTINGS`.
"""

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

from judges.answers import Answer
from judges.claims import ClaimQuestion, Evidence
from judges.config import JudgeConfig
from judges.judge import Judge
from judges.verify import SUPPORTED, Pair, verify
from lm_factuality.benchmarks.certifiable import CertifiableSetting, CertifyOptions
from lm_factuality.benchmarks.claim_trial import HEADLINE, ClaimTrial, LabelledClaim, Truth
from lm_factuality.benchmarks.felm.metrics import (
    ALL,
    LEVELS,
    MEASURES,
    count_detections,
    report_detection_scores,
    score_pooled_counts,
)
from lm_factuality.benchmarks.felm.questions import (
    MODES,
    UNITS,
    FelmSettings,
    Mode,
    Unit,
    best_chunks,
    claim_extraction_subject,
)
from lm_factuality.benchmarks.felm.rows import (
    FELM,
    MODES_WITH_REFERENCES,
    RULES,
    ClaimsReply,
    FelmRow,
    RowClaims,
    claims_from_reply,
    find_claims_problem,
    read_felm_rows,
)
from lm_factuality.benchmarks.felm.verdicts import JudgedResponse, read_judged_response
from lm_factuality.ground.console import format_interval, format_number
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.ground.suite import tasks_folder
from lm_factuality.harness.generation import JsonObject, Table
from lm_factuality.harness.own_data import find_data
from lm_factuality.scores.intervals import DETECTION_INTERVALS

CLAIM_PROMPT = "felm/extract_claims"
"""The name of the prompt that asks for the claims of a row."""

CLAIM_TOKENS = 1500
"""The tokens that a judge may write for the claims of one row, as in appendix D of the paper."""

_CALIBRATION_BINS = 10


def extract_claims(judge: Judge, rows: Sequence[FelmRow]) -> list[RowClaims]:
    """Ask a judge to extract the claims from the segments of every row.

    Args:
        judge: The judge. Its store keeps the answers.
        rows: The rows of FELM.

    Returns:
        The claims of each row, in the order of ``rows``. If the judge's reply cannot be used, the
        entry has no claims and names the problem.
    """
    samples_by_row = judge.ask_typed(
        CLAIM_PROMPT,
        ClaimsReply,
        [claim_extraction_subject(row) for row in rows],
        "claims",
        find_claims_problem,
        samples=1,
        max_tokens=CLAIM_TOKENS,
    )
    # One sample was asked for, so the list of replies to each row has a single one.
    return [
        claims_from_reply(row, reply, judge.name)
        for row, (reply,) in zip(rows, samples_by_row, strict=True)
    ]


class FelmTrial:
    """A test of judges on FELM's rows with one kind of prompt, for a certificate."""

    def __init__(self, unit: Unit, mode: Mode, options: CertifyOptions) -> None:
        """Read the rows and, if claims are judged, their claims.

        Args:
            unit: Whether the judge sees segments or claims.
            mode: The kind of prompt.
            options: The options of ``lm-factuality certify``.

        Raises:
            DataError: The rows or the claims cannot be read.
        """
        sample_file = None
        if options.sample:
            sample_file = tasks_folder() / "sample" / "sample_felm.jsonl"
        path, self.data = find_data(sample_file, FELM, options.data_dir)
        self._rows = read_felm_rows(path)
        # A certificate names its file of claims, since its scores depend on the claims.
        if options.claims is not None:
            self.data["claims"] = options.claims.name
        # Without a file of claims, rules cut the segments into clauses.
        claims_source = str(options.claims or RULES)
        self._settings = FelmSettings(unit, mode, claims=claims_source)
        self._claims = self._settings.load_claims(self._rows)

    def ask(self, judge: Judge) -> list[JudgedResponse]:
        """Ask the judge about every row, and read its verdicts.

        Args:
            judge: The judge. If it gives several samples per row, the majority decides.

        Returns:
            The verdict on each row, or the reason why there is none, in the order of the rows.
        """
        answers_by_row = self._ask_questions(judge)
        responses = []
        for row in self._rows:
            answers = answers_by_row.get(row.index)
            claims = self._claims.get(row.index)
            response = read_judged_response(
                row.domain,
                row.labels,
                answers or (),
                # The judge's numbers of claims run consecutively through the whole response.
                segment_of_claim=claims.segment_numbers() if claims else (),
                problem="no claims for this row" if answers is None else "",
            )
            responses.append(response)
        return responses

    def _ask_questions(self, judge: Judge) -> dict[str, Sequence[Answer]]:
        """Ask the judge the question about each row, all rows with the same prompt at once.

        Args:
            judge: The judge.

        Returns:
            All replies that the judge gave to a question, by the index of its row. Rows without
            claims are left out if claims are judged.
        """
        # The variables of each prompt, by the index of the row.
        subjects_by_prompt: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
        for row in self._rows:
            question = self._settings.make_question(row, self._claims.get(row.index))
            if question is not None:
                subjects_by_prompt[question.prompt][row.index] = question.subject

        answers_by_index: dict[str, Sequence[Answer]] = {}
        for prompt, subjects in subjects_by_prompt.items():
            # A judge answers many questions at a time if they are asked together.
            replies = judge.ask(prompt, list(subjects.values()), f"FELM, {prompt}")
            answers_by_index |= zip(subjects, replies, strict=True)
        return answers_by_index

    def measure(self, judge: Judge) -> JsonObject:
        """Measure how well a judge finds the errors of FELM's responses.

        Args:
            judge: The judge to certify.

        Returns:
            The parts of a certificate:

            - ``scores``: the result of `report_detection_scores`
            - ``intervals``: the 95% intervals of the scores, clustered by response
            - ``baselines``: the scores of judges that read nothing, on all responses
            - ``baselines_where_scored``: the same on the responses with a verdict
            - ``calibration``: how often the judge is right, by the probability that it states;
              only of judges that compute probabilities instead of reading prompts

        Raises:
            BackendDownError: The judge has no verdict on any response.
        """
        responses = self.ask(judge)
        scored = [response for response in responses if response.flagged is not None]
        # Without a verdict, no score would be defined.
        if not scored:
            raise BackendDownError(
                f"judge {judge.name}: no verdict on any of {len(responses)} responses, the first:"
                f" {responses[0].reason}; there is nothing to certify"
            )

        measured: JsonObject = {
            "scores": report_detection_scores(responses, "chat"),
            "intervals": _score_intervals(scored),
            "baselines": score_baselines(responses),
            # A judge that skips hard responses must be compared on the others alone.
            "baselines_where_scored": score_baselines(scored),
        }
        if not judge.config.capabilities.reads_prompts:
            measured["calibration"] = measure_calibration(judge, self._rows)
        return measured

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """Return the hashes of all prompts that the judge may be asked with, by their names.

        Args:
            judge: The judge, whose configuration may replace prompts.
        """
        settings = self._settings
        # Rows of math and reasoning are always asked by segments and without references. In a mode
        # that shows references, they are asked plainly.
        shows_references = settings.mode in MODES_WITH_REFERENCES
        plain_mode = "vanilla" if shows_references else settings.mode
        names = {f"felm/{settings.unit}_{settings.mode}", f"felm/segment_{plain_mode}"}
        return judge.prompts.hashes(names)

    def make_table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """Format a certificate as a table for the terminal.

        Args:
            certificate: The result of `measure`.
            judge: The name of the judge.

        Returns:
            The columns, the rows (one per judge or domain and level), and notes below the table.
        """
        scores_by_label = _label_scores(certificate, judge)
        rows = []
        for level in LEVELS:
            interval = format_interval(certificate["intervals"][level]["f1"])
            for label, scores in scores_by_label.items():
                cells = [format_number(scores[level][measure]) for measure in MEASURES]
                # Only the score of the judge on all responses has an interval.
                last_cell = interval if label == judge else ""
                rows.append((f"{label}, {level}", *cells, last_cell))

        # Columns of numbers begin with "#", which the terminal aligns to the right.
        columns = [f"#{measure.replace('_', ' ')}" for measure in MEASURES]
        return ("judge, level", *columns, "#95% interval of F1"), rows, _table_notes(certificate)


def _label_scores(certificate: Mapping[str, Any], judge: str) -> dict[str, JsonObject]:
    """Label the scores in a certificate for the lines of its table.

    The labels are the name of the judge, each domain and each baseline. If the judge has no verdict
    on some responses, the baselines follow again with their scores on the other responses.

    Args:
        certificate: The result of `FelmTrial.measure`.
        judge: The name of the judge.

    Returns:
        The scores by level and name, by label, such as ``  math`` or ``flag everything where it has
        a verdict``.
    """
    scores = certificate["scores"]
    scores_by_label = {judge: scores[ALL]}
    # The report counts the unscored responses of every domain, also of those without any.
    for domain in scores["unscored"]["domains"]:
        # Domains are indented below the judge.
        scores_by_label[f"  {domain}"] = scores[domain]
    scores_by_label |= certificate["baselines"]

    if scores["unscored"]["responses"]:
        for name, baseline_scores in certificate["baselines_where_scored"].items():
            scores_by_label[f"{name} where it has a verdict"] = baseline_scores
    return scores_by_label


def _score_intervals(responses: Sequence[JudgedResponse]) -> JsonObject:
    """Compute the 95% interval of every score, by level and name of the score."""
    intervals: JsonObject = {}
    for level in LEVELS:
        # Each response is a cluster, since its segments are not independent.
        counts = [count_detections(response, level) for response in responses]
        intervals[level] = {measure: DETECTION_INTERVALS[measure](counts) for measure in MEASURES}
    return intervals


def score_baselines(responses: Sequence[JudgedResponse]) -> JsonObject:
    """Score judges that flag segments without reading them.

    The judge that flags at random flags each segment with the probability that a segment has an
    error. Its choices are the same in every run.

    Args:
        responses: The responses with their labels. The verdicts are ignored.

    Returns:
        The scores under ``flag everything``, ``flag nothing`` and ``flag at random``.
    """
    errors = list(chain.from_iterable(response.errors for response in responses))
    error_share = sum(errors) / max(1, len(errors))
    probabilities = {"flag everything": 1.0, "flag nothing": 0.0, "flag at random": error_share}
    return {
        name: score_pooled_counts(_flag_at_random(responses, probability))
        for name, probability in probabilities.items()
    }


def _flag_at_random(
    responses: Sequence[JudgedResponse], probability: float
) -> list[JudgedResponse]:
    """Replace the verdicts on responses by those of a judge that flags segments at random.

    Args:
        responses: The responses.
        probability: The probability with which each segment is flagged: 1 flags all, 0 flags none.
    """
    # A fixed seed makes certificates reproducible.
    generator = random.Random(0)
    flagged_responses = []
    for response in responses:
        flagged = tuple(generator.random() < probability for _ in response.errors)
        flagged_responses.append(replace(response, flagged=flagged))
    return flagged_responses


def measure_calibration(judge: Judge, rows: Sequence[FelmRow]) -> list[JsonObject]:
    """Count how often a judge is right about a segment, by the probability that it states.

    Args:
        judge: A judge that states the probability that passages support a segment.
        rows: The rows of FELM. Those without reference documents are left out.

    Returns:
        One entry for each tenth of the probability from ``low`` to ``high``: the number of
        segments (``units``), how many of them the labels call factual (``supported``), and on how
        many the judge's verdict is ``wrong``.
    """
    segments = _segments_with_passages(rows)
    verifications = verify(judge, [segment.pair for segment in segments], "calibrating")
    edges = [number / _CALIBRATION_BINS for number in range(_CALIBRATION_BINS + 1)]
    bins: list[JsonObject] = [
        {"low": low, "high": high, "units": 0, "supported": 0, "wrong": 0}
        for low, high in pairwise(edges)
    ]
    for segment, verification in zip(segments, verifications, strict=True):
        # Without a verdict there is no probability to check.
        if verification.score is None:
            continue
        # `bisect` counts the lower edges that the probability reaches. 1 is in the last bin.
        num_reached = bisect(edges[:-1], verification.score)
        calibration_bin = bins[num_reached - 1]
        calibration_bin["units"] += 1
        calibration_bin["supported"] += segment.is_factual
        is_judged_factual = verification.verdict == SUPPORTED
        calibration_bin["wrong"] += is_judged_factual != segment.is_factual
    return bins


class _LabelledSegment(NamedTuple):
    """A segment with the passages that may support it, and its label."""

    pair: Pair
    is_factual: bool


def _segments_with_passages(rows: Sequence[FelmRow]) -> list[_LabelledSegment]:
    """Return the segments of all rows that have passages of reference documents."""
    settings = FelmSettings(unit="segment", mode="doc")
    segments = []
    for row in rows:
        question = settings.make_question(row)
        # The judge is only asked about segments with passages.
        if question is None or not question.subject["passages"]:
            continue
        passages = tuple(question.subject["passages"])
        for text, is_factual in zip(question.subject["units"], row.labels, strict=True):
            segments.append(_LabelledSegment(Pair(text, passages), is_factual))
    return segments


def _table_notes(certificate: Mapping[str, Any]) -> list[str]:
    """Return the lines below a certificate's table: what is unscored and why, and calibration."""
    unscored = certificate["scores"]["unscored"]
    notes = [f"unscored: {unscored['responses']} of the responses, {unscored['segments']} segments"]
    for reason, count in unscored["reasons"].items():
        notes.append(f"  {count} x {reason}")
    # Only judges that compute probabilities have a calibration.
    for entry in certificate.get("calibration", ()):
        notes.append(
            f"segments with references and a probability of {entry['low']:.1f} to"
            f" {entry['high']:.1f}: {entry['units']}, {entry['supported']} supported by the"
            f" labels, {entry['wrong']} wrong verdicts"
        )
    return notes


def _declare_setting(unit: Unit, mode: Mode) -> CertifiableSetting:
    """Declare the setting in which ``lm-factuality certify`` asks judges with one kind of prompt.

    Args:
        unit: Whether the judge sees segments or claims.
        mode: The kind of prompt.
    """

    def is_default(config: JudgeConfig) -> bool:
        """Return whether a judge is tested in this setting if the user names none."""
        # A judge that needs evidence is shown documents. The others reason before they answer.
        default_mode = "doc" if config.capabilities.needs_evidence else "cot"
        return unit == "segment" and mode == default_mode

    return CertifiableSetting(
        name=f"{unit}_{mode}",
        description="finding errors",
        headline=("segment", "f1"),
        label="F1 of segments with errors",
        git_blob=FELM.blob,
        open_trial=partial(FelmTrial, unit, mode),
        accepted_options=("sample", "claims") if unit == "claim" else ("sample",),
        is_default=is_default,
    )


SETTINGS = {f"{unit}_{mode}": _declare_setting(unit, mode) for unit, mode in product(UNITS, MODES)}
"""The settings in which a judge can be certified on FELM, by name."""

SEGMENTS = tuple(SETTINGS[f"segment_{mode}"] for mode in ("cot", "doc", "link", "vanilla"))
"""The settings by segments, the best first.

They come nearest to what other benchmarks have a judge do: to mark the segments of a text.
"""


def _open_checked_segments(options: CertifyOptions) -> ClaimTrial:
    """Read the segments of the rows that have the text of a reference.

    Args:
        options: The options of ``lm-factuality certify``.
    """
    path, data = find_data(None, FELM, options.data_dir)
    claims = []
    for row in read_felm_rows(path):
        query = "\n".join([row.prompt, *row.segments])
        passages = best_chunks(row.reference_texts, query)
        evidence = tuple(Evidence(f"reference of {row.index}", "", text) for text in passages)
        # Segments without evidence would all be "not found".
        if not evidence:
            continue
        for segment, is_factual in zip(row.segments, row.labels, strict=True):
            question = ClaimQuestion(segment, evidence)
            truth: Truth = "supported" if is_factual else "not_supported"
            claims.append(LabelledClaim(question, truth, row.index))
    return ClaimTrial(claims, data, options.rows)


CHECK_SETTING = CertifiableSetting(
    name="check_references",
    description="factual segments against the texts of their references",
    headline=(HEADLINE,),
    label="balanced accuracy of verdicts",
    git_blob=FELM.blob,
    open_trial=_open_checked_segments,
    accepted_options=("rows",),
)
"""The setting with people's labels, which know two classes and are about the world, not a text."""
