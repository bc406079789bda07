"""Contradictions without a model: numbers, dates, names, nouns, properties, verbs, pronouns and link words, changed by rule."""

from __future__ import annotations

from factor_gen.generate.rules.generator import RulesGenerator

__all__ = ["RulesGenerator"]
