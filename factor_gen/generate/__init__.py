"""Two ways to make contradictions: ``llm`` asks a model, and ``rules`` edits words without a model.

`factor_gen.stages` opens the one that a build names.
"""
