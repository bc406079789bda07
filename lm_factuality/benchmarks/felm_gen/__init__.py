"""FELM-gen: how many of the evaluated model's own answers to FELM's prompts contain errors?

``steps`` sorts out refusals, cuts answers into segments and reads a judge's marks, ``judging`` puts
the steps together and computes error rates, ``benchmark`` and ``task`` connect it to the suite.
"""
