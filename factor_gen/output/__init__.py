"""What a build leaves behind: the rows as CSV and Parquet, a task that lm_eval runs, a dataset card and a manifest."""

from factor_gen.output.provenance import Provenance
from factor_gen.output.write import Written, write_benchmark

__all__ = ["Provenance", "Written", "write_benchmark"]
