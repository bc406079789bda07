"""FELM: can a model find the factual errors in somebody else's answer?

The modules in the order of the paper: ``rows`` reads the data, ``questions`` makes the prompts,
``verdicts`` and ``grammar`` read the outputs, ``metrics`` computes the scores. ``task`` evaluates a
model with them, ``judging`` a judge, and ``benchmark`` declares FELM to the rest of the suite.
"""
