"""A judge without a model: how likely passages support a claim, from words, numbers, dates, names and negation.

``words`` and ``dates`` read a text, ``comparison`` lays a claim beside its passages, ``features`` measures that, ``model`` makes
a probability and a reason of it. ``python -m judges.lexical.fit`` fits the coefficients on labelled citations (``citations``),
``python -m judges.lexical.evaluate`` says how good they are on others.
"""

from judges.lexical.model import LexicalModel, Support, load_model
from judges.lexical.passages import Passage, parse_passage

__all__ = ["LexicalModel", "Passage", "Support", "load_model", "parse_passage"]
