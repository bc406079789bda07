"""FACTOR in open generation (section 6 of the FACTOR paper).

It asks what a model writes where it could state a fact or violate it. ``facts`` finds the minimal
fact of a row and lets a judge mark what a model generates. ``tally`` makes the paper's table of the
marks, and ``judging`` is the method that does both. ``task`` is the task of lm_eval, and
``benchmark`` declares all of it.
"""
