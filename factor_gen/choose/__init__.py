"""The last stage: three contradictions a row."""

from factor_gen.choose.chosen import Chosen
from factor_gen.choose.rows import choose_rows

__all__ = ["Chosen", "choose_rows"]
