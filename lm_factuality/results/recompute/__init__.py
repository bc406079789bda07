"""Every score of the suite's tasks out of their samples alone, by the same metrics as in the run.

What a model said is read from ``filtered_resps``: log-probabilities of choices and documents, outputs of FELM's judge. What a
judge said is read from the verdict records there; nobody is asked again, and what follows from a record, or has to be in it for
the response that was given (``verdicts``), is made anew.
"""

from lm_factuality.results.recompute.differences import differences
from lm_factuality.results.recompute.responses import responses_of, verdict_of
from lm_factuality.results.recompute.scores import Recomputed, interval, recompute

__all__ = ["Recomputed", "differences", "interval", "recompute", "responses_of", "verdict_of"]
