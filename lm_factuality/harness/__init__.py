"""How the suite plugs into lm_eval: the only modules that import its internals.

``requests`` adds a request type that returns token counts with log-likelihoods, ``stderr`` lets a metric bring its own
standard error, ``task`` is the class behind the FACTOR task YAMLs, ``run`` is the command line.
"""

from lm_factuality.harness.task import FactorTask

__all__ = ["FactorTask"]
