"""Contradictions without a model: numbers, dates, names, nouns, verbs, pronouns and link words,
changed by rule."""
