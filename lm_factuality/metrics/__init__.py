"""The metrics of the suite's tasks, one file a task: what a row adds to each (``row_metrics``), and how all rows become one
number (``aggregations``). No lm_eval and no model here: the tasks score a run by it, and ``lm_factuality.results`` the same
samples anew."""

from lm_factuality.metrics.aggregation import Aggregation

__all__ = ["Aggregation"]
