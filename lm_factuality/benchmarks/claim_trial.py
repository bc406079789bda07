"""Measures a judge's verdicts on claims with labels, for ``lm-factuality certify``.

FACTOR, FELM and AmbigBio make the claims from their data. The judge is asked as
``lm-factuality check`` asks it.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from judges.claims import (
    CHECK,
    ClaimQuestion,
    ClaimVerdict,
    Finding,
    Verdict,
    group_by_evidence,
    judge_claims,
)
from judges.judge import Judge
from lm_factuality.benchmarks.certifiable import NO_RULINGS, Disagreement, Rulings
from lm_factuality.ground.console import format_interval, format_number, plural
from lm_factuality.ground.errors import BackendDownError
from lm_factuality.harness.generation import JsonObject, Table
from lm_factuality.scores.intervals import pooled_interval, ratio_interval
from lm_factuality.scores.statistics import none_if_nan, ratio

HEADLINE = "balanced_accuracy"
"""The main score: the mean share of right verdicts over the true classes."""

_SEED = 0
_VERDICTS = get_args(Verdict)

Truth: TypeAlias = Literal["supported", "contradicted", "not_found", "not_supported"]
"""The label of a claim. Not supported is either contradicted or not found."""

_RIGHT_VERDICTS: Mapping[Truth, Sequence[Finding]] = {
    "supported": ("supported",),
    "contradicted": ("contradicted",),
    "not_found": ("not_found",),
    "not_supported": ("contradicted", "not_found"),
}


@dataclass(frozen=True)
class LabelledClaim:
    """A claim with its evidence and its label."""

    question: ClaimQuestion
    """The claim and its evidence."""

    truth: Truth
    """The label: what the evidence says about the claim."""

    cluster: str
    """The document or response that the claim is from. Its claims are not independent."""

    part: str = ""
    """The part of the data, such as ``other words``. Scores of each part are reported too."""


class _JudgedClaim(NamedTuple):
    """A claim and what the judge says of it."""

    claim: LabelledClaim
    """The claim with its label."""

    answer: ClaimVerdict
    """The judge's verdict with its reason."""

    @property
    def is_scored(self) -> bool:
        """Whether the judge has a verdict on the claim."""
        return self.answer.verdict != "unscored"

    @property
    def is_right(self) -> bool:
        """Whether the verdict agrees with the label."""
        return self.answer.verdict in _RIGHT_VERDICTS[self.claim.truth]


class ClaimTrial:
    """A test of judges on labelled claims. It is a `SettingTrial`."""

    def __init__(
        self, claims: Sequence[LabelledClaim], data: Mapping[str, Any], num_clusters: int | None
    ) -> None:
        """Draw the claims to measure on.

        Args:
            claims: All claims.
            data: The file, its blob, and whether it is the published one.
            num_clusters: How many clusters to draw, with all their claims. None: all.
        """
        clusters = list(dict.fromkeys(claim.cluster for claim in claims))
        num_drawn = min(num_clusters or len(clusters), len(clusters))
        # A fixed seed makes judges comparable.
        drawn = set(random.Random(_SEED).sample(clusters, num_drawn))
        self.claims = [claim for claim in claims if claim.cluster in drawn]
        # A certificate states the data, with the number of clusters that were drawn of all.
        self.data = {**data, "rows": num_drawn, "of": len(clusters), "seed": _SEED}

    @property
    def questions(self) -> list[ClaimQuestion]:
        """The claims with their evidence."""
        return [claim.question for claim in self.claims]

    def ask(self, judge: Judge) -> list[ClaimVerdict]:
        """Ask the judge about all claims, up to eight with the same evidence at once."""
        return judge_claims(judge, self.questions, "certifying")

    def disagreements(self, judge: Judge) -> list[Disagreement]:
        """Ask a judge about all claims, and return the verdicts that differ from the labels."""
        disagreements = []
        for number, judged_claim in enumerate(self._judge_claims(judge)):
            if judged_claim.is_right or not judged_claim.is_scored:
                continue
            claim, answer = judged_claim
            # Each passage gets a heading: its title, or else the name of its document.
            evidence = [
                (passage.title or passage.document, passage.text)
                for passage in claim.question.evidence
            ]
            disagreements.append(
                Disagreement(
                    id=str(number),
                    cluster=claim.cluster,
                    text=claim.question.claim,
                    label=_in_words(claim.truth),
                    verdict=_in_words(answer.verdict),
                    reason=answer.reason,
                    evidence=tuple(evidence),
                )
            )
        return disagreements

    def _judge_claims(self, judge: Judge) -> list[_JudgedClaim]:
        """Ask a judge about all claims, and return each claim with its answer, in order."""
        answers = self.ask(judge)
        return [
            _JudgedClaim(claim, answer) for claim, answer in zip(self.claims, answers, strict=True)
        ]

    def measure(self, judge: Judge, rulings: Rulings = NO_RULINGS) -> JsonObject:
        """Measure how often the verdicts of a judge agree with the labels of the claims.

        Args:
            judge: The judge.
            rulings: What people say about `disagreements`.

        Returns:
            The ``scores`` of all claims and of each part, with the ``confusion`` table, and the
            ``intervals`` of the scores of all claims, clustered by document or response.

        Raises:
            BackendDownError: The judge has no verdict on any claim.
        """
        judged_claims = _correct_labels(self._judge_claims(judge), rulings)
        unscored = _count_unscored(judged_claims)
        if unscored["claims"] == len(judged_claims):
            raise BackendDownError(
                f"judge {judge.name}: no verdict on any of {len(judged_claims)} claims:"
                f" {', '.join(unscored['reasons'])}; there is nothing to certify"
            )

        scores: JsonObject = {"ALL": _compute_scores(judged_claims)}
        for part in sorted({claim.part for claim in self.claims} - {""}):
            judged_of_part = [
                judged_claim for judged_claim in judged_claims if judged_claim.claim.part == part
            ]
            scores[part] = _compute_scores(judged_of_part)
        return {
            "scores": {**scores, "unscored": unscored},
            "intervals": _compute_intervals(judged_claims),
            "questions": len(group_by_evidence(self.questions)),
        }

    def prompt_hashes(self, judge: Judge) -> Mapping[str, str]:
        """Return the hash of the prompt that asks about claims."""
        return judge.prompts.hashes([CHECK])

    def make_table(self, certificate: Mapping[str, Any], judge: str) -> Table:
        """Show how often each true class got each verdict, as a table for the terminal.

        Args:
            certificate: The result of `measure`.
            judge: The name of the judge.

        Returns:
            The columns, the rows and the notes. Each part of the data has a row for each true
            class, and a last one with the balanced accuracy.
        """
        rows = []
        for part, scores in certificate["scores"].items():
            # The notes below the table show the unscored claims.
            if part == "unscored":
                continue
            # Only the scores of all claims have intervals.
            intervals = certificate["intervals"] if part == "ALL" else {}
            rows += _make_rows(part, scores, intervals)
        # Columns of numbers begin with "#".
        verdict_columns = [f"#{_in_words(verdict)}" for verdict in _VERDICTS]
        columns = ("claims", f"true class, judged by {judge}", *verdict_columns)
        return (*columns, "#right", "#95% interval"), rows, _table_notes(certificate)


def _correct_labels(judged_claims: Sequence[_JudgedClaim], rulings: Rulings) -> list[_JudgedClaim]:
    """Correct the labels of claims as people say.

    Args:
        judged_claims: All claims with the judge's answers.
        rulings: Who is right about a claim, by its number: ``judge``, ``label`` or ``neither``.

    Returns:
        The claims with their answers, without those on which neither is right.
    """
    corrected_claims = []
    for number, (claim, answer) in enumerate(judged_claims):
        ruling = rulings.get(str(number))
        # People found neither the label nor the verdict right, so the truth is not known.
        if ruling == "neither":
            continue
        # People found the verdict right, so it takes the place of the label.
        if ruling == "judge" and answer.verdict != "unscored":
            claim = replace(claim, truth=answer.verdict)
        corrected_claims.append(_JudgedClaim(claim, answer))
    return corrected_claims


def _make_rows(
    part: str, scores: JsonObject, intervals: Mapping[str, Any]
) -> list[tuple[str, ...]]:
    """Make the rows of a certificate's table that show one part of the data.

    Args:
        part: The part, or ``ALL`` for all claims.
        scores: The scores of the part.
        intervals: The intervals of the scores. Empty if there are none.
    """
    recall_intervals = intervals.get("recall", {})
    rows = []
    for truth, recall in scores["recall"].items():
        counts = [f"{scores['confusion'][truth][verdict]:,}" for verdict in _VERDICTS]
        interval = format_interval(recall_intervals.get(truth))
        rows.append((part, _in_words(truth), *counts, format_number(recall), interval))

    no_counts = [""] * len(_VERDICTS)
    mean_recall = format_number(scores[HEADLINE])
    interval = format_interval(intervals.get(HEADLINE))
    rows.append((part, "balanced accuracy", *no_counts, mean_recall, interval))
    return rows


def _in_words(name: str) -> str:
    """Return a class or a verdict as readers see it: ``not_found`` becomes ``not found``."""
    return name.replace("_", " ")


def _compute_scores(judged_claims: Sequence[_JudgedClaim]) -> JsonObject:
    """Compute how often the verdicts on some claims are right.

    The claims with the same label form a true class, such as all claims that are ``contradicted``.

    Returns:
        The ``confusion`` table (how many claims of each true class got each verdict), the
        ``recall`` of each true class (the share of its scored claims that are judged rightly), and
        under `HEADLINE` the mean of the recalls.
    """
    confusion: JsonObject = {}
    recalls = {}
    for truth in _true_classes(judged_claims):
        counts = Counter(answer.verdict for claim, answer in judged_claims if claim.truth == truth)
        confusion[truth] = {verdict: counts[verdict] for verdict in _VERDICTS}
        num_right = sum(counts[verdict] for verdict in _RIGHT_VERDICTS[truth])
        num_scored = counts.total() - counts["unscored"]
        recalls[truth] = ratio(num_right, num_scored)
    return {
        HEADLINE: none_if_nan(sum(recalls.values()) / len(recalls)),
        "recall": {truth: none_if_nan(recall) for truth, recall in recalls.items()},
        "confusion": confusion,
    }


def _true_classes(judged_claims: Sequence[_JudgedClaim]) -> list[Truth]:
    """Return the true classes of some claims, in the order of tables."""
    truths = {judged_claim.claim.truth for judged_claim in judged_claims}
    return [truth for truth in _RIGHT_VERDICTS if truth in truths]


def _compute_intervals(judged_claims: Sequence[_JudgedClaim]) -> JsonObject:
    """Return the 95% interval of the recall of each true class, and of the mean of the recalls.

    The claims of one document or response depend on each other, so these are the clusters, whose
    counts are added up first.
    """
    truths = _true_classes(judged_claims)
    counts = _count_by_cluster(judged_claims, truths)
    recall_intervals = {}
    for column, truth in enumerate(truths):
        num_right, num_scored = counts[:, column].T
        recall_intervals[truth] = ratio_interval(num_right, num_scored)
    # A cluster becomes one row, with the two counts of the first class, then of the second class.
    flat_counts = counts.reshape(len(counts), -1)
    mean_interval = pooled_interval(flat_counts, _mean_recall)
    return {HEADLINE: mean_interval, "recall": recall_intervals}


def _count_by_cluster(
    judged_claims: Sequence[_JudgedClaim], truths: Sequence[Truth]
) -> NDArray[np.float64]:
    """Count the claims that are judged rightly, and all claims with a verdict, in each cluster.

    Args:
        judged_claims: The claims. Those without a verdict are left out.
        truths: The true classes.

    Returns:
        An array with the shape (clusters, true classes, 2). The last axis has the number of claims
        that are judged rightly, and the number of claims with a verdict.
    """
    scored_claims = [judged_claim for judged_claim in judged_claims if judged_claim.is_scored]
    clusters = dict.fromkeys(judged_claim.claim.cluster for judged_claim in scored_claims)
    row_by_cluster = {cluster: row for row, cluster in enumerate(clusters)}
    counts = np.zeros((len(clusters), len(truths), 2))
    for judged_claim in scored_claims:
        row = row_by_cluster[judged_claim.claim.cluster]
        column = truths.index(judged_claim.claim.truth)
        counts[row, column] += (judged_claim.is_right, 1)
    return counts


def _mean_recall(sums: Sequence[float]) -> float:
    """Return the mean recall of all true classes.

    Args:
        sums: For each class in turn the number of claims that are judged rightly, and the number of
            claims with a verdict.
    """
    pairs = np.reshape(sums, (-1, 2)).tolist()
    return sum(ratio(num_right, num_scored) for num_right, num_scored in pairs) / len(pairs)


def _count_unscored(judged_claims: Sequence[_JudgedClaim]) -> JsonObject:
    """Count the claims without a verdict by reason, and the clusters without any verdict.

    Each document or response is a cluster. Certificates show the clusters as ``responses``.
    """
    reasons: Counter[str] = Counter()
    scored_clusters = set()
    for judged_claim in judged_claims:
        if judged_claim.is_scored:
            scored_clusters.add(judged_claim.claim.cluster)
        else:
            reasons[judged_claim.answer.reason] += 1
    all_clusters = {judged_claim.claim.cluster for judged_claim in judged_claims}
    return {
        "responses": len(all_clusters - scored_clusters),
        "claims": reasons.total(),
        "reasons": dict(reasons.most_common()),
    }


def _table_notes(certificate: Mapping[str, Any]) -> list[str]:
    """Return the lines below a certificate's table: what was measured, and what has no verdict."""
    data = certificate["data"]
    confusion = certificate["scores"]["ALL"]["confusion"]
    unscored = certificate["scores"]["unscored"]
    num_claims = sum(chain.from_iterable(counts.values() for counts in confusion.values()))
    # The data states how many clusters were drawn (rows), and how many there are (of).
    clusters = f"{data['rows']:,} of {data['of']:,} documents or responses"
    questions = plural(certificate["questions"], "question")
    # Such a judge is right on all claims of one class, and on none of the others.
    constant_accuracy = 1 / len(confusion)
    return [
        f"{plural(num_claims, 'claim')} of {clusters}, in {questions}. These are the clusters of"
        " the intervals.",
        f"A judge that always says the same has a balanced accuracy of {constant_accuracy:.1%}.",
        f"unscored, and in no share: {plural(unscored['claims'], 'claim')}",
        *(f"  {count} x {reason}" for reason, count in unscored["reasons"].items()),
    ]
