"""The table of the kinds of task: what is kept of a sample of each, and how its metrics are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lm_factuality.results.recompute import ambigbio, factor, factor_generation, felm, felm_gen, perplexity
from lm_factuality.results.recompute.prepared import Prepared, Rows
from lm_factuality.results.recompute.responses import keep_verdict
from lm_factuality.results.types import TaskResult

READERS: Mapping[str, tuple[Callable[[Mapping[str, Any]], dict[str, Any]], Callable[[TaskResult, Rows], Prepared]]] = {
    "factor": (factor.keep, factor.prepare),
    "perplexity": (perplexity.keep, perplexity.prepare),
    "felm": (felm.keep, felm.prepare),
    "felm_gen": (keep_verdict, felm_gen.prepare),
    "factor_generation": (keep_verdict, factor_generation.prepare),
    "ambigbio": (keep_verdict, ambigbio.prepare),
}
