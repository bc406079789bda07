"""In-context retrieval-augmented scoring: the windows of a text, and the document that must not be retrieved. No torch."""

from lm_factuality.models.ralm.evaluated import EvaluatedDocument, Exclusion
from lm_factuality.models.ralm.windows import PROTOCOLS, Window, augment, windows

__all__ = ["PROTOCOLS", "EvaluatedDocument", "Exclusion", "Window", "augment", "windows"]
