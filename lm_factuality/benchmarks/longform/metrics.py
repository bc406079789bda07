"""The scores of long-form factuality, of one response each and averaged over prompts.

With S facts supported and N not (irrelevant ones left out), precision is S / (S + N), recall at K
min(S / K, 1), and F1@K their harmonic mean, 0 if S = 0, as where nothing is stated (Wei et al.,
2024, section 5). FActScore counts an irrelevant fact against the response, and is penalised for
fewer than ten facts (Min et al., 2023). A repeated fact counts once: else repeating it would come
to K. One without a verdict is in no score; ``worst`` and ``best`` count it as not supported and as
supported."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lm_factuality.benchmarks.biographies import scores as biographies
from lm_factuality.benchmarks.biographies.method import NO_FACTS, NO_SENTENCES
from lm_factuality.benchmarks.biographies.scores import (
    D_FACTSCORE,
    clustered_outcomes,
    length_penalty,
    metrics_from_scores,
    outcome_by_any_page,
    score_biography,
    unscored_reason,
)
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.declaration import F1, PRECISION, RECALL, Score
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import MEAN, none_if_nan, ratio

_OF_ENTITIES = ("d_factscore", "difference", "num_entities", "one_bio_many_entities")
_BOUNDED = ("f1_at_k", "precision", "factscore")


@dataclass(frozen=True)
class FactTally:
    """The distinct facts of a response by verdict."""

    supported: int = 0
    not_supported: int = 0
    irrelevant: int = 0
    unscored: int = 0

    @classmethod
    def of(cls, judged: JudgedBiography) -> "FactTally":
        outcomes: dict[str, str] = {}
        for fact, cells in zip(judged.facts, judged.matrix, strict=True):
            outcomes[" ".join(fact.text.casefold().split())] = outcome_by_any_page(cells)
        return cls(**Counter(outcomes.values()))

    @property
    def facts(self) -> int:
        return sum(vars(self).values())

    def f1_at(self, k: int) -> float | None:
        """Return F1@K, or None if there are facts and none has a verdict."""
        if not self.supported:
            return None if self.unscored and not self.not_supported else 0.0
        precision = self.supported / (self.supported + self.not_supported)
        recall = min(self.supported / k, 1.0)
        return 2 * precision * recall / (precision + recall)

    def scores(self, k: int) -> dict[str, float | None]:
        f1 = self.f1_at(k)
        relevant = self.supported + self.not_supported
        factscore = none_if_nan(ratio(self.supported, relevant + self.irrelevant))
        return {
            "f1_at_k": f1,
            "precision": none_if_nan(ratio(self.supported, relevant)),
            "recall_at_k": None if f1 is None else min(self.supported / k, 1.0),
            "factscore": factscore,
            "factscore_penalised": factscore and factscore * length_penalty(self.facts),
        }


def unscored(judged: JudgedBiography) -> str | None:
    """Say why a response has not all scores. One that states nothing has them, and None."""
    says_nothing = judged.abstained or judged.problem in (NO_FACTS, NO_SENTENCES)
    return None if says_nothing else unscored_reason(judged, score_biography(judged))


def row_metrics(judged: JudgedBiography, kind: str, ks: Sequence[int]) -> JsonObject:
    """Return a response's part in every mean; None where it has none.

    Args:
        judged: The response.
        kind: What its entities are. Empty where they are not told apart.
        ks: The K of all scores, and others of F1 alone.
    """
    reason = unscored(judged)
    tally = FactTally.of(judged)
    k, *further = ks
    metrics = tally.scores(k) | {f"f1_at_{other_k}": tally.f1_at(other_k) for other_k in further}
    metrics["facts_per_response"] = None if judged.abstained else float(tally.facts)
    bounded = list(_BOUNDED)
    of_entities = metrics_from_scores(score_biography(judged))
    if kind:
        bounded.append("d_factscore")
        metrics |= {name: of_entities.get(name) for name in _OF_ENTITIES}
    is_lost = reason is not None and not judged.facts
    if is_lost:
        metrics = dict.fromkeys(metrics)
    ends = {
        "worst": replace(tally, not_supported=tally.not_supported + tally.unscored, unscored=0),
        "best": replace(tally, supported=tally.supported + tally.unscored, unscored=0),
    }
    for end, tally_of_end in ends.items():
        scores = {"d_factscore": of_entities.get(f"d_factscore_{end}"), **tally_of_end.scores(k)}
        for name in bounded:
            metrics[f"{name}_{end}"] = float(end == "best") if is_lost else scores[name]
    metrics["respond_ratio"] = None if reason == UNFINISHED else float(not judged.abstained)
    return {**clustered_outcomes(metrics, judged.generation.index), "unscored": reason}


_F1 = Score("f1_at_k", MEAN, F1, "F1@K", note="of precision and recall; K is a setting of the task")
_PRECISION = Score(
    "precision", MEAN, PRECISION, "Precision", note="supported facts; irrelevant ones are left out"
)
_SHARED = {score.name: score for score in biographies.SCORES}
_FACTSCORE = replace(_SHARED["factscore"], note="supported facts; irrelevant ones are not")
SCORES = (
    _F1,
    D_FACTSCORE,
    _PRECISION,
    _FACTSCORE,
    _SHARED["difference"],
    Score("recall_at_k", MEAN, RECALL, "Recall@K"),
    _SHARED["facts_per_response"],
    replace(_SHARED["num_entities"], note="entities about which a response says something true"),
    replace(
        _SHARED["one_bio_many_entities"],
        label="Merged",
        note="responses that merge several entities into one",
    ),
    _SHARED["respond_ratio"],
    _SHARED["factscore_penalised"],
    *_F1.worst_and_best(),
    *_PRECISION.worst_and_best(),
    *_FACTSCORE.worst_and_best(),
    *D_FACTSCORE.worst_and_best(),
    Score("f1_at_*", MEAN, F1),
    _SHARED["unscored"],
)
