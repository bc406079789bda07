"""The metrics of the FELM tasks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.declaration import BALANCED_ACCURACY, F1, PRECISION, RECALL, Score
from lm_factuality.benchmarks.felm.counts import LEVELS, Counts, JudgedResponse, bounds, count_response
from lm_factuality.benchmarks.felm.counts import SCORES as SCORE_NAMES
from lm_factuality.benchmarks.felm.rows import DOMAINS, MODES_WITH_REFERENCES, WITHOUT_REFERENCES
from lm_factuality.benchmarks.felm.verdicts import judge_response
from lm_factuality.ground.statistics import Aggregation, how_many, pooled


def row_metrics(doc: Mapping[str, Any], results: Sequence[Any], protocol: str, mode: str) -> dict[str, Any]:
    """The counts of one response, under the name of every score that they are part of; ``mode`` is the task's."""
    response = judge_document(doc, results, protocol)
    members = {"": True, **{f"_{domain}": domain == response.domain for domain in DOMAINS}}
    found: dict[str, Any] = {f"unscored{suffix}": response.reason if is_member else None for suffix, is_member in members.items()}
    if mode in MODES_WITH_REFERENCES:  # math and reasoning have none in any mode
        lacks = doc["mode"] not in MODES_WITH_REFERENCES and response.domain not in WITHOUT_REFERENCES
        found["without_references"] = float(lacks)
    for level in LEVELS:
        counts = count_response(response, level)
        for suffix, is_member in members.items():
            own = _as_list(counts if is_member else Counts())
            found |= {f"{level}_{score}{suffix}": own for score in SCORE_NAMES}
        worst, best = bounds([response], level)
        found |= {f"{level}_f1_worst": _as_list(worst), f"{level}_f1_best": _as_list(best)}
    return found


def judge_document(doc: Mapping[str, Any], results: Sequence[Any], protocol: str) -> JudgedResponse:
    """The verdict on a sample's document; ``results`` is lm_eval's: one text, or one list of texts to vote on."""
    outputs = [text for result in results for text in ([result] if isinstance(result, str) else result)]
    return judge_response(
        doc["index"],
        doc["domain"],
        doc["labels"],
        outputs,
        owners=doc["owners"] or None,
        protocol=protocol,
        problem=doc["problem"] or None,
    )


def _as_list(counts: Counts) -> list[int]:
    return [counts.tp, counts.fp, counts.fn, counts.tn]


def _pooled(score: str, has_stderr: bool = True) -> Aggregation:
    return pooled(lambda totals: float(getattr(Counts(*totals), score)), has_stderr)  # type: ignore[arg-type]


_MEASURES = {"precision": PRECISION, "recall": RECALL, "f1": F1, "balanced_accuracy": BALANCED_ACCURACY}
_SHOWN = {
    "segment_f1": "F1, segments",
    "response_f1": "F1, responses",
    "segment_balanced_accuracy": "Balanced accuracy, segments",
    "response_balanced_accuracy": "Balanced accuracy, responses",
}


def _scores() -> Iterator[Score]:
    for name, label in _SHOWN.items():
        score = name.partition("_")[2]
        yield Score(name, _pooled(score), _MEASURES[score], label)
    for suffix in ("", *(f"_{domain}" for domain in DOMAINS)):
        for level in LEVELS:
            for score in SCORE_NAMES:
                if (name := f"{level}_{score}{suffix}") not in _SHOWN:
                    yield Score(name, _pooled(score), _MEASURES[score])
        yield Score(f"unscored{suffix}", Aggregation(how_many), higher=False)
    for level in LEVELS:
        for bound in ("worst", "best"):
            yield Score(f"{level}_f1_{bound}", _pooled("f1", has_stderr=False))
    yield Score("without_references", Aggregation(lambda rows: float(sum(rows))), higher=False)


SCORES = tuple(_scores())
