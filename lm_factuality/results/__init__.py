"""Reading what lm_eval wrote, unmodified: results files in types, samples line by line, scores with their uncertainty, and
every score of the suite's tasks made anew out of the samples alone."""

from lm_factuality.results.figures import figure, headline
from lm_factuality.results.read import read_results_file, read_results_files
from lm_factuality.results.recompute import Recomputed, differences, recompute
from lm_factuality.results.samples import read_samples
from lm_factuality.results.types import Figure, Kind, ResultsFile, TaskResult

__all__ = [
    "Figure",
    "Kind",
    "Recomputed",
    "ResultsFile",
    "TaskResult",
    "differences",
    "figure",
    "headline",
    "read_results_file",
    "read_results_files",
    "read_samples",
    "recompute",
]
