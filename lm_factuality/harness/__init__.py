"""How the suite plugs into lm_eval: the only modules that know its internals. ``models`` and ``bench`` use its public interface.

``requests`` adds a request type that returns token counts with log-likelihoods, ``stderr`` lets a metric bring its own
standard error, ``suite_task`` is what all task classes share, ``task`` is the class behind the FACTOR task YAMLs, ``rolling`` and
``perplexity`` are a request type and a task class for whole documents, ``felm`` asks the evaluated model as a judge, ``judging``
has a judge mark what the evaluated model wrote (``felm_gen``, ``factor_generation``, ``ambigbio``), ``tasks`` finds YAMLs by path
and name, ``run`` is the command line.
"""

from lm_factuality.harness.felm import FelmTask
from lm_factuality.harness.perplexity import PerplexityTask
from lm_factuality.harness.task import FactorTask

__all__ = ["FactorTask", "FelmTask", "PerplexityTask"]
