"""Which contradictions contradict, by an NLI model, and which read well, by a language model (section 3.2.3)."""

from factor_gen.filters.stage import Filters

__all__ = ["Filters"]
