"""A judge without a model: how likely passages support a claim, from words, names and negation.

``words`` reads a text, ``comparison`` lays a claim beside its passages, ``model`` measures that and
makes a probability and a reason of it. ``facts`` takes a text apart by rules. In a checkout,
``python -m bench.lexical.fit`` fits the coefficients on labelled citations, and ``python -m
bench.lexical.evaluate`` says how good they are on others.
"""
