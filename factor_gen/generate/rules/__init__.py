"""Contradictions without a model: rules change words of a sentence, such as numbers and names.

`factor_gen.generate.rules.generator` has the stage that tries all rules on a sentence.
"""
