"""Scoring in which every distinct token position is computed once.

``forest`` turns requests into a forest of tokens and cuts it into forward passes (no torch), ``packed`` and ``cached`` are two
ways to compute such a pass, ``scorer`` runs them and finds out which of them a model can be trusted with, ``logits`` reads
log-probabilities off.
"""

from lm_factuality.models.tree.forest import Forest, plant
from lm_factuality.models.tree.scorer import Budget, Engine, Scores, choose_engine, score

__all__ = ["Budget", "Engine", "Forest", "Scores", "choose_engine", "plant", "score"]
