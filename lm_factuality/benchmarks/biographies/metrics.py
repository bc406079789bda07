"""The metrics of AmbigBio."""

from typing import Any

from lm_factuality.benchmarks.biographies.summary import BOUNDED, MEANS, Row, bound, value
from lm_factuality.benchmarks.declaration import DIFFERENCE, PRECISION, SHARE, Score
from lm_factuality.ground.statistics import Aggregation, clustered_stderr, how_many, mean

BOUNDS = tuple(f"{name}_{which}" for name in BOUNDED for which in ("worst", "best"))


def row_metrics(row: Row) -> dict[str, Any]:
    """A response's part in every mean; None where it has none."""
    found: dict[str, Any] = {name: value(row, name) for name in MEANS}
    found |= {name: bound(row, *name.rsplit("_", 1)) for name in BOUNDS}
    return found | {"respond_ratio": row.responded, "unscored": row.unscored}


_CLUSTERED = Aggregation(mean, clustered_stderr)

SCORES = (
    Score("d_factscore", _CLUSTERED, PRECISION, "D-FActScore"),
    Score("factscore", _CLUSTERED, PRECISION, "FActScore"),
    Score("difference", _CLUSTERED, DIFFERENCE, "Gap", False, note="FActScore minus D-FActScore", unit="points"),
    Score("num_biographies", _CLUSTERED, None, "Biographies", None, 1, 2, note="individuals that a reader sees in a response"),
    Score("num_entities", _CLUSTERED, None, "Entities", None, 1, 2, note="people of whom a response tells something true"),
    Score(
        "one_bio_many_entities",
        _CLUSTERED,
        SHARE,
        "People merged",
        False,
        note="responses with one biography of several entities",
    ),
    Score("facts_per_response", _CLUSTERED, None, "Facts a response", None, 1, 1),
    Score("respond_ratio", _CLUSTERED, SHARE, "Answered"),
    Score("factscore_penalised", _CLUSTERED, PRECISION),
    *(Score(name, Aggregation(mean)) for name in BOUNDS),
    Score("unscored", Aggregation(how_many), higher=False),
)
