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

from lm_factuality.benchmarks.biographies.method import NO_FACTS, NO_SENTENCES
from lm_factuality.benchmarks.biographies.scores import (
    ANSWERED,
    D_FACTSCORE,
    FACTS,
    GAP,
    PENALISED,
    length_penalty,
    metrics_of,
    of_any,
    score,
    to_outcomes,
    why_unscored,
)
from lm_factuality.benchmarks.biographies.types import JudgedBiography
from lm_factuality.benchmarks.declaration import F1, PRECISION, RECALL, SHARE, Score
from lm_factuality.ground.thinking import UNFINISHED
from lm_factuality.harness.generation import JsonObject
from lm_factuality.scores.statistics import MEAN, Aggregation, how_many

_OF_ENTITIES = ("d_factscore", "difference", "num_entities", "one_bio_many_entities")
_BOUNDED = ("f1_at_k", "precision", "factscore")


@dataclass(frozen=True)
class Tally:
    """The distinct facts of a response by verdict."""

    supported: int
    not_supported: int
    irrelevant: int = 0
    unscored: int = 0

    @classmethod
    def of(cls, judged: JudgedBiography) -> "Tally":
        facts = (" ".join(fact.text.casefold().split()) for fact in judged.facts)
        found = Counter(dict(zip(facts, map(of_any, judged.matrix), strict=True)).values())
        return cls(
            found["supported"], found["not_supported"], found["irrelevant"], found["unscored"]
        )

    @property
    def facts(self) -> int:
        return self.supported + self.not_supported + self.irrelevant + self.unscored

    def f1_at(self, k: int) -> float | None:
        """F1@K; None if there are facts and none has a verdict."""
        if not self.supported:
            return None if self.unscored and not self.not_supported else 0.0
        precision = self.supported / (self.supported + self.not_supported)
        recall = min(self.supported / k, 1.0)
        return 2 * precision * recall / (precision + recall)

    def scores(self, k: int) -> dict[str, float | None]:
        relevant = self.supported + self.not_supported
        scored = relevant + self.irrelevant
        plain, f1 = self.supported / scored if scored else None, self.f1_at(k)
        return {
            "f1_at_k": f1,
            "precision": self.supported / relevant if relevant else None,
            "recall_at_k": None if f1 is None else min(self.supported / k, 1.0),
            "factscore": plain,
            "factscore_penalised": None if plain is None else plain * length_penalty(self.facts),
        }


def unscored(judged: JudgedBiography) -> str | None:
    """Why a response has not all scores; None if it has, as one has that states nothing."""
    says_nothing = judged.abstained or judged.problem in (NO_FACTS, NO_SENTENCES)
    return None if says_nothing else why_unscored(judged, score(judged))


def row_metrics(judged: JudgedBiography, kind: str, ks: Sequence[int]) -> JsonObject:
    """A response's part in every mean, by the first of ``ks``, and in F1 at the others; None where
    it has none. ``kind`` is of the entities, empty where they are not told apart."""
    reason, tally = unscored(judged), Tally.of(judged)
    of_entities = metrics_of(score(judged))
    ends = {
        "worst": replace(tally, not_supported=tally.not_supported + tally.unscored, unscored=0),
        "best": replace(tally, supported=tally.supported + tally.unscored, unscored=0),
    }
    is_lost = reason is not None and not judged.facts
    found: dict[str, float | None] = tally.scores(ks[0]) | {
        f"f1_at_{k}": tally.f1_at(k) for k in ks[1:]
    }
    found["facts_per_response"] = None if judged.abstained else float(tally.facts)
    for name in _OF_ENTITIES if kind else ():
        found[name] = of_entities.get(name)
    found = dict.fromkeys(found) if is_lost else found
    for which, end in ends.items():
        found |= {
            f"{name}_{which}": float(which == "best") if is_lost else end.scores(ks[0])[name]
            for name in _BOUNDED
        }
        if kind:
            key = f"d_factscore_{which}"
            found[key] = of_entities.get(key, float(which == "best") if is_lost else None)
    found["respond_ratio"] = None if reason == UNFINISHED else float(not judged.abstained)
    return {**to_outcomes(found, judged.generation.index), "unscored": reason}


_F1 = Score("f1_at_k", MEAN, F1, "F1@K", note="of precision and recall; K is a setting of the task")
_PRECISION = Score(
    "precision", MEAN, PRECISION, "Precision", note="supported facts; irrelevant ones are left out"
)
_FACTSCORE = Score(
    "factscore", MEAN, PRECISION, "FActScore", note="supported facts; irrelevant ones are not"
)
SCORES = (
    _F1,
    D_FACTSCORE,
    _PRECISION,
    _FACTSCORE,
    GAP,
    Score("recall_at_k", MEAN, RECALL, "Recall@K"),
    FACTS,
    Score(
        "num_entities",
        MEAN,
        None,
        "Entities",
        None,
        1,
        2,
        note="entities about which a response says something true",
    ),
    Score(
        "one_bio_many_entities",
        MEAN,
        SHARE,
        "Merged",
        False,
        note="responses that merge several entities into one",
    ),
    ANSWERED,
    PENALISED,
    *_F1.bounds(),
    *_PRECISION.bounds(),
    *_FACTSCORE.bounds(),
    *D_FACTSCORE.bounds(),
    Score("f1_at_*", MEAN, F1),
    Score("unscored", Aggregation(how_many), higher=False),
)
