"""Scoring in which every distinct token position is computed once.

``forest`` turns requests into a forest of tokens and cuts it into forward passes (no torch),
``packed`` and ``cached`` are two ways to compute such a pass, ``scorer`` runs them and finds out
which of them a model can be trusted with."""
